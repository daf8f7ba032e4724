"""A formula serves a number and an array alike: each element of its array is what it says of that element alone.

Counts are equal to the last unit, times and bytes to 1e-9 (a power of an array may differ in its last bit).
"""

import ast
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import scenarios as make
from hypothesis import assume, given
from hypothesis import strategies as st
from properties.worlds import World, examples, named, whole, worlds

from infopt.ledgers import arrays, compute, device_bands, links, mixed_step, offload, prompt_wave, queueing, speculation
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.compute import compute_ledger
from infopt.ledgers.cost import prefill_share
from infopt.ledgers.estimate import NoEstimate, clock, expected_times, first_range, interval_s
from infopt.ledgers.memory import stage_figures
from infopt.ledgers.paging import layout
from infopt.ledgers.pool import room, stage_memory
from infopt.ledgers.prefix_cache import hit_tokens, saved_flop
from infopt.ledgers.scenario import Scenario, stages
from infopt.ledgers.start_checks import is_too_long
from infopt.ledgers.step_time import prompt_at_peak_s
from infopt.ledgers.traffic import distinct_experts
from infopt.studies.scenarios import Request, build

LEDGERS = Path(make.__file__).resolve().parent.parent / "ledgers"
LOAD = ("context_tokens", "input_tokens", "output_tokens", "decode_context_tokens", "batch")
loads = st.lists(st.tuples(whole(1, 150_000), whole(1, 8192), whole(1, 1024)), min_size=1, max_size=5)


def flat(found: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of a result by its place in it."""
    if is_dataclass(found):
        found = {field.name: getattr(found, field.name) for field in fields(found)}
    if isinstance(found, Mapping):
        for key, value in found.items():
            yield from flat(value, f"{name}.{key}")
    elif isinstance(found, tuple | list):
        for place, value in enumerate(found):
            yield from flat(value, f"{name}.{place}")
    elif isinstance(found, int | float | np.ndarray | np.generic):
        yield name, found


def assert_alike(of_arrays: Any, of_numbers: Sequence[Any]) -> None:
    """Element by element; what does not depend on the load may have stayed a number."""
    many = dict(flat(of_arrays))
    for row, one in enumerate(of_numbers):
        alone = dict(flat(one))
        assert many.keys() == alone.keys()
        for name, expected in alone.items():
            found = np.asarray(many[name])
            got = (found[row] if found.ndim else found).item()
            if isinstance(expected, int):
                assert got == expected, name
            else:
                assert got == pytest.approx(expected, rel=1e-9, abs=1e-300, nan_ok=True), name


def scalars(s: Scenario, rows: Sequence[tuple[int, int, int]]) -> list[Scenario]:
    """The scenario at each load: prompt, answer, batch."""
    lengths = [(prompt + answer, prompt, answer, prompt + answer / 2, batch) for prompt, answer, batch in rows]
    return [replace(s, **dict(zip(LOAD, row, strict=True))) for row in lengths]


def together(s: Scenario, rows: Sequence[Scenario]) -> Scenario:
    """The scenario with arrays for its load."""
    return replace(s, **{name: np.array([getattr(row, name) for row in rows]) for name in LOAD})


def memory_of(s: Scenario, at: Scenario) -> list[Any]:
    """Memory of every rank of `s` at the load of another scenario; a rank is compiled for numbers, once."""
    found = []
    for index, stage in enumerate(stages(s.model, s.pp)):
        part = stage_memory(s, stage, index)
        held = room(at, part)
        figures = stage_figures(at, part, held)
        terms = [(term.value, term.low, term.high) for term in figures.pop("terms")]
        found.append((held, figures, terms, is_too_long(at, part, held.pool_bytes)))
    return found


def blocks_of(s: Scenario, at: Scenario) -> list[Any]:
    page, context = layout(stages(s.model, s.pp)[0], s), at.context_tokens
    kinds = [(kind.pages(context, 512), kind.mean_pages(context)) for kind, _ in page.kinds]
    if not kinds:
        return []
    # A pool of so many bytes as there are tokens, times a thousand: an array like the rest.
    pool = context * 1000.0
    amounts = (page.request_bytes(context), page.mean_request_bytes(context), page.tokens(pool, context, "blocks"))
    return [kinds, amounts, page.sequences(pool, context), page.concurrency(pool, context)]


def times_of(s: Scenario, at: Scenario) -> Any:
    """Times with the clock of `s`, which is compiled for numbers, at the load of another scenario."""
    compiled = clock(s)
    if isinstance(compiled, NoEstimate):
        return None
    floor_s = bandwidth_ledger(at).step_floor_s
    times, plain = expected_times(at, compiled, floor_s), expected_times(at, compiled, floor_s, at.input_tokens // 2)
    step = mixed_step.mixed_step(s, compiled, 512)
    pieces = mixed_step.chunk_step_s(step, at.output_tokens, at.input_tokens)
    prompts, decoding = (
        mixed_step.prompt_step_s(step, at.batch),
        mixed_step.decode_step_s(step, at.batch, at.context_tokens),
    )
    interval = interval_s(times, floor_s, (0.8, 1.3), first_range(s, compiled.constants))
    return times, plain, interval, pieces, prompts, decoding, prompt_at_peak_s(compiled.shape, at.input_tokens)


def products_of(s: Scenario, at: Scenario) -> Any:
    prompts = [compute.attention_prefill_flop(group.mixer, at.input_tokens) for group in s.model.groups]
    tokens = [compute.attention_flop_per_token(group.mixer, at.context_tokens) for group in s.model.groups]
    whole_prompts = compute.prefill_flop(s.model, at.input_tokens), saved_flop(s.model, at.input_tokens)
    token = compute.decode_flop_per_token(s.model, at.decode_context_tokens)
    return bandwidth_ledger(at), prompts, tokens, whole_prompts, token, offload.rank_bytes(s, at.context_tokens)


ASKED = (memory_of, blocks_of, products_of, times_of)


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked.__name__)
@examples()
@given(world=worlds(), rows=loads)
def test_ledgers_of_arrays_are_those_of_their_elements(
    asked: Callable[[Scenario, Scenario], Any], world: World, rows: list[tuple[int, int, int]]
) -> None:
    s = world.scenario
    # Where a whole prompt is run to measure memory, the peak goes by the context: it is not compiled.
    assume(asked is not memory_of or not s.engine.unchunked_profile)
    alone = scalars(s, rows)
    assert_alike(asked(s, together(s, alone)), [asked(s, one) for one in alone])


@examples()
@given(worlds(), loads)
def test_the_pool_of_an_engine_that_measures_whole_prompts_follows_the_context(
    world: World, rows: list[tuple[int, int, int]]
) -> None:
    s = world.changed(engine="vllm", engine_version="0.6.3", kv_pool_bytes=None).scenario
    assert s.engine.unchunked_profile
    alone = scalars(s, rows)
    many = together(s, alone)
    for index, stage in enumerate(stages(s.model, s.pp)):
        own = [room(one, stage_memory(one, stage, index)) for one in alone]
        assert_alike(room(many, stage_memory(s, stage, index)), own)


@examples()
@given(worlds())
def test_the_compute_ledger_is_made_of_those_formulas(world: World) -> None:
    s = world.scenario
    ledger = compute_ledger(s, bandwidth_ledger(s))
    assert ledger.prefill_flop == compute.prefill_flop(s.model, s.input_tokens)
    assert ledger.decode_flop_per_token == compute.decode_flop_per_token(s.model, s.decode_context_tokens)


WIRES = links.wires_of(make.device(link=None), 4.5e11, 5e10)
WIRE = WIRES.between
POINTS = [[1.0, 1.0], [4.0, 1.5], [16.0, 1.2], [64.0, 3.0]]
counts = whole(1, 1_000_000)
shares = st.floats(0.0, 1.0)
above_zero = st.floats(1e-6, 1e6)
# Formulas that no ledger of a plan asks with arrays: what each is given.
FORMULAS: dict[str, tuple[Callable[..., Any], tuple[st.SearchStrategy[Any], ...]]] = {
    "all_reduce": (lambda n: [links.all_reduce_s(WIRE, p, n) for p in (1, 2, 8)], (counts,)),
    "all_gather": (lambda n: [links.all_gather_s(WIRE, p, n) for p in (1, 8)], (counts,)),
    "all_to_all": (lambda n: [links.all_to_all_s(WIRE, p, n) for p in (1, 8)], (counts,)),
    "send": (lambda n: links.send_s(WIRE, n), (counts,)),
    "groups": (lambda n: [links.group_all_reduce_s(WIRES, p, n) for p in (1, 4, 16)], (counts,)),
    "layer sums": (lambda n: links.layer_sums_s(WIRES, make.model(), 16, n), (counts,)),
    "expert exchange": (lambda n: links.expert_exchange_s(WIRE, 8, n, 4096, 8, 1.0), (counts,)),
    "expert imbalance": (lambda n: [links.expert_imbalance(64, 6, n, r) for r in (1, 8)], (counts,)),
    "distinct experts": (distinct_experts, (st.just(64.0), st.floats(1, 8), counts)),
    "prefill share": (prefill_share, (above_zero, above_zero)),
    "doublings": (device_bands.doublings, (above_zero, above_zero, above_zero)),
    "hits": (lambda s, n: hit_tokens(s, n, 528), (counts, counts)),
    "wait": (prompt_wave.mean_wait, (counts, counts, counts, shares)),
    "stall": (prompt_wave.mean_stall, (counts, counts, counts, counts)),
    "filling": (queueing.fill_wait_s, (counts, above_zero)),
    "continuous": (queueing.continuous_gain, (st.floats(1, 9), above_zero, above_zero, shares)),
    "lasting": (queueing.step_lasting_share, (st.floats(2, 1e4), above_zero, above_zero)),
    "held": (queueing.held_tokens, (counts, counts, shares)),
    "cycle": (speculation.cycle_s, (above_zero, above_zero, counts, above_zero)),
    "speedup": (speculation.speedup_ratio, (above_zero, above_zero)),
    "along": (lambda x: arrays.along(POINTS, x), (above_zero,)),
    "rounding": (lambda x: (arrays.floor(x), arrays.whole(x), arrays.log2(x), arrays.root(x)), (above_zero,)),
    "unmeasured": (lambda x: arrays.unmeasured(x, 500), (counts,)),
}


@pytest.mark.parametrize("name", FORMULAS)
@examples(0.4)
@given(data=st.data())
def test_a_formula_of_arrays_is_that_of_its_elements(name: str, data: st.DataObject) -> None:
    formula, arguments = FORMULAS[name]
    rows = data.draw(st.lists(st.tuples(*arguments), min_size=1, max_size=6))
    assert_alike(formula(*(np.array(column) for column in zip(*rows, strict=True))), [formula(*row) for row in rows])


# Asked with arrays elsewhere, or no arithmetic on them.
ELSEWHERE = {
    "Tape.index": "ledgers/traced.py: no arrays",
    "refusals": "ledgers/start_checks.py: sentences about one scenario",
    "band": "tests/test_device_steps.py: of a calibration",
    "piece_s": "asked through chunk_step_s",
}


def public_formulas() -> dict[str, str]:
    """Public functions of the ledgers that take numbers or arrays, and their files."""
    found = {}
    for path in sorted(LEDGERS.glob("*.py")):
        for owner in ast.parse(path.read_text(encoding="utf-8")).body:
            for node in owner.body if isinstance(owner, ast.ClassDef) else [owner]:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    given_ = [*node.args.args, *node.args.kwonlyargs]
                    if any(one.annotation is not None and ast.unparse(one.annotation) == "Any" for one in given_):
                        found[f"{owner.name}.{node.name}" if isinstance(owner, ast.ClassDef) else node.name] = path.name
    return found


@contextlib.contextmanager
def watching() -> Iterator[set[tuple[str, str]]]:
    """Names and files of the ledgers' functions that are called with an array meanwhile."""
    seen: set[tuple[str, str]] = set()

    def see(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and Path(code.co_filename).parent == LEDGERS:
            inputs = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(is_array(frame.f_locals.get(name)) for name in inputs):
                seen.add((code.co_qualname, Path(code.co_filename).name))

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        yield seen
    finally:
        sys.setprofile(before)


def is_array(given_: Any) -> bool:
    return isinstance(given_, np.ndarray) or (isinstance(given_, Scenario) and isinstance(given_.batch, np.ndarray))


def test_every_formula_is_asked_with_arrays() -> None:
    """One that is new stands in none of the properties above until somebody puts it there."""
    latent = make.model([make.LayerRun(8, make.latent(), make.MIXTURE)])
    with watching() as seen:
        for model, hardware, engine in ((latent, "h100", "vllm"), (make.model(), "rtx 4090", "llama.cpp")):
            request = Request(context_tokens=8192, engine=engine, weights="bf16", kv_pool_bytes=2**30)
            s = build(model, named(hardware), request).scenario
            many = together(s, scalars(s, [(1000, 100, 1), (5000, 7, 1)]))
            for formula in ASKED:
                assert formula(s, many) is not None
        for formula, arguments in FORMULAS.values():
            formula(*(np.array([2.0 + place, 3.0 + place]) for place, _ in enumerate(arguments)))
    asked = public_formulas()
    assert len(asked) > 50
    missing = {name for name, file in asked.items() if (name, file) not in seen} - set(ELSEWHERE)
    assert not missing, "put them into FORMULAS or a ledger's property"
    assert set(ELSEWHERE) <= set(asked)
