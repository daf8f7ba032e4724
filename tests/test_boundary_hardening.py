"""What fuzzing found, each at its cause: links that are not known, answers kept too long, advice that is refused."""

import gc
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.boundaries.deciding import MEASURE_BOTH, MEASURE_CURVE, MEASURE_STEPS
from infopt.boundaries.load import Adapters, Draft, Links, Load, Prefix, Targets, Traffic
from infopt.boundaries.parallelism import NOT_JOINED
from infopt.boundaries.registry import judge, technique, techniques
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement
from infopt.cli import run
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.cache import cache_sizes
from infopt.ledgers.compute import prefill_flop
from infopt.ledgers.scenario import Scenario, stages
from infopt.profiles.resolve import resolve_model
from infopt.reports.schemas import schema_text
from infopt.studies.boundary import with_techniques
from infopt.studies.scenarios import Request, build


@cache
def scenario(model: str, hw: str, **given: Any) -> Scenario:
    request = Request(**({"input_tokens": 2000, "output_tokens": 300, "batch": 8} | given))
    return build(resolve_model(model), resolve_hardware(hw), request).scenario


def answer(name: str, situation: Situation) -> Judgement:
    return judge(technique(name), situation)


# --- links that are not known -----------------------------------------------------------------------------------


@pytest.mark.parametrize("hw", ["custom:80GB:3.35TB/s", "epyc-9654"])
@pytest.mark.parametrize("given", [{"gpus": 4}, {"gpus": 4, "tp": 1, "dp": 4}, {"gpus": 4, "tp": 2, "pp": 2}])
def test_placements_without_a_known_link_are_not_compared(hw: str, given: dict[str, int]) -> None:
    here = Situation(scenario("8b", hw, **given))
    found = answer("parallelism", here)
    assert (found.verdict, found.reason, found.gain) == ("measure", NOT_JOINED, None)
    assert found.settle.startswith("--link-bandwidth")
    assert all(figure.value is None or abs(figure.value) < 1e18 for figure in found.figures)


def test_a_link_that_is_given_settles_it() -> None:
    load = Load(links=Links(link_bytes_per_s=450e9))
    found = answer("parallelism", Situation(scenario("8b", "custom:80GB:3.35TB/s", gpus=4), load))
    assert found.gain is not None
    assert found.reason != NOT_JOINED


def test_what_does_not_fit_says_so_before_links_matter() -> None:
    """70b in bf16 has 141 GB: no one of the devices holds it, and tp 4 is not compared with anything either."""
    apart = Situation(scenario("70b", "custom:80GB:3.35TB/s", gpus=4, tp=1, dp=4))
    found = answer("parallelism", apart)
    assert found.verdict == "use"
    assert "holds" in found.reason


def test_with_parallelism_goes_to_a_placement_whose_links_are_known() -> None:
    here = with_techniques(Situation(scenario("8b", "custom:80GB:3.35TB/s", gpus=4)), ["parallelism"])
    assert (here.scenario.tp, here.scenario.dp) == (1, 4)


# --- answers kept too long --------------------------------------------------------------------------------------


def replicas_batch(situation: Situation) -> float | None:
    return {f.name: f.value for f in answer("parallelism", situation).figures}["replicas_batch"]


def test_what_is_kept_of_one_load_is_not_given_to_another() -> None:
    """The batch from which replicas serve more depends on hits and drafts, not on the scenario alone."""
    shared = scenario("70b", "h200:8", batch=64)
    plain = replicas_batch(Situation(shared))
    cached = replicas_batch(Situation(shared, cached_tokens=1900.0))
    drafted = replicas_batch(Situation(shared, cycle=(3.0, 4.0, 0.002)))
    assert replicas_batch(Situation(shared)) == plain
    assert len({plain, cached, drafted}) == 3


LOADS = (
    Load(),
    Load(traffic=Traffic(2.0, 1.0), prefix=Prefix(1000, 100, 1.0), draft=Draft("ngram", None, None, 0.5)),
    Load(targets=Targets(0.03, 0.5, 60.0), adapters=Adapters(8, 16, 20), links=Links(5e10, 1e10), chunk_tokens=512),
)


@given(order=st.permutations(range(6)), collect=st.booleans())
@settings(max_examples=2, deadline=None)
def test_judging_is_pure(order: list[int], collect: bool) -> None:
    """Situations judged in any order, with others made and lost between them, answer as they do alone."""
    base = scenario("gpt-oss-120b", "h100:2")
    known: dict[int, list[Judgement]] = {}
    for number in (*order, *reversed(order)):
        # A copy: nothing that is kept by identity may outlive its owner.
        here = Situation(replace(base, batch=8 * (1 + number // 3)), LOADS[number % 3])
        found = [judge(t, here) for t in techniques()]
        assert known.setdefault(number, found) == found
        del here
        if collect:
            gc.collect()


# --- answers that broke -----------------------------------------------------------------------------------------


def test_a_measured_share_of_a_prompt_shorter_than_a_block() -> None:
    load = Load(prefix=Prefix(hit_share=1e-4))
    found = answer("prefix-caching", Situation(scenario("8b", "h100", input_tokens=1, output_tokens=1), load))
    assert found.verdict == "skip"


# --- advice that is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hw", "settle"),
    [
        ("weight-quantization", "custom:80GB:3.35TB/s", MEASURE_BOTH),
        ("continuous-batching", "custom:80GB:3.35TB/s", MEASURE_CURVE),
        ("prefix-caching", "custom:80GB:3.35TB/s", MEASURE_BOTH),
    ],
)
def test_points_are_asked_for_where_constants_take_them(name: str, hw: str, settle: str) -> None:
    load = Load(traffic=Traffic(3.0), prefix=Prefix(1000))
    found = answer(name, Situation(scenario("8b", hw), load))
    assert (found.verdict, found.settle) == ("measure", settle)
    assert settle != MEASURE_STEPS


# --- what is computed once --------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["gpt-oss-120b", "jamba", "70b"])
def test_shortcuts_give_what_every_layer_alone_gives(model: str) -> None:
    """Layers of a kind are counted once, one stage is not cut, a prompt with nothing cached is not counted twice."""
    s = scenario(model, "h100:8")
    sizes = cache_sizes(s.model.runs, s.kv, s.model.compute_dtype, s.tp)
    apart = [cache_sizes([run], s.kv, s.model.compute_dtype, s.tp) for run in s.model.runs]
    assert sizes.full_bytes_per_token == sum(one.full_bytes_per_token for one in apart)
    assert sizes.state_bytes == sum(one.state_bytes for one in apart)
    assert stages(s.model, 1) == [list(s.model.runs)]
    assert sum(run.layers for stage in stages(s.model, 4) for run in stage) == s.model.layers
    head = 2.0 * (s.model.head_params or s.model.embed_params)
    assert prefill_flop(s.model, 0) == head


# --- extremes through the command line --------------------------------------------------------------------------

SCENARIOS = (
    ("--model", "8b", "--hw", "h100", "--isl", "2000", "--osl", "300"),
    ("--model", "gpt-oss-120b", "--hw", "custom:80GB:3.35TB/s", "--gpus", "2", "--isl", "1", "--osl", "1"),
    ("--model", "jamba", "--hw", "mi300x:4", "--ctx", "256k", "--batch", "1000000"),
)
EXTREMES = (
    ("continuous-batching", "--rate", "0.000000001/s", "--output-spread", "999999"),
    ("continuous-batching", "--rate", "1000000000/s", "--tpot", "1us"),
    ("kv-offload", "--offload-bandwidth", "1B/s", "--reuse-share", "1", "--offload", "nvme", "--endurance", "1B"),
    ("parallelism", "--link-bandwidth", "1B/s", "--network", "1B/s", "--tpot", "1000000s"),
    ("prefix-caching", "--shared-prefix", "1", "--prefixes", "1000000", "--prefix-skew", "50"),
    ("prefix-caching", "--hit-share", "0.0000001", "--routing", "affinity"),
    ("speculative", "--method", "ngram", "--alpha", "1", "--drafted", "16", "--drafting-share", "0"),
    ("speculative", "--draft", "1b", "--alpha", "0,0"),
    ("lora", "--adapters", "100000", "--rank", "256", "--adapters-total", "100000"),
    ("lora", "--adapters", "2", "--step-curve", "1=25ms"),
    ("chunked-prefill", "--chunk", "1", "--step-curve", "1=25ms,4=20ms,1000000=1ms"),
    ("application-caches", "--semantic-hits", "1"),
    ("weight-quantization", "--step-curve", "1000000=1us"),
    ("cuda-graphs", "--start", "1us", "--storage-bandwidth", "1B/s"),
)


def numbers(node: Any) -> Iterator[float]:
    if isinstance(node, float):
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from numbers(below)


@pytest.mark.parametrize("asked", EXTREMES, ids=" ".join)
def test_extremes_are_answered_or_refused_in_one_line(
    asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    schema = json.loads(schema_text("boundary"))
    for served in SCENARIOS:
        status = run(["boundary", *asked, *served, "--json"])
        out, err = capsys.readouterr()
        if status == 2:
            assert len(err.splitlines()) == 1
            continue
        assert (status in (0, 1, 4), err) == (True, "")
        found = json.loads(out)
        jsonschema.validate(found, schema)
        assert all(math.isfinite(value) for value in numbers(found))
        for gain in (t["gain"] for t in found["techniques"] if t.get("gain")):
            assert gain["low"] <= gain["value"] <= gain["high"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("kv", "--vary", "batch=8:2"), "below the second"),
        (("kv", "--vary", "batch"), "batch=1:256"),
        (("speculative", "--vary", "acceptance=0:1.5"), "1.5"),
        (("prefix", "--rate", "0/s"), "more than 0"),
        (("batching", "--output-spread", "wide"), "not a number"),
        (("speculative", "--draft", "1b", "--method", "ngram"), "leave one of them out"),
        (("offload", "--with", "offload=tape"), "tape"),
    ],
)
def test_bad_values_name_their_option(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["boundary", *arguments, *SCENARIOS[0]]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert said in err
