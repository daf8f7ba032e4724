"""What-if: the programs of a page against the plans they stand for, on any model, hardware and engine."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import calibrations
import pytest
from program_runs import run
from whatif_answers import MOST_DIFFERENCE, differences, expected_answers
from whatif_scenarios import SCENARIOS, Asked, scenarios, thousand

from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.calibrate import resolve_calibrated
from infopt.hardware.catalogue import common_accelerators, load_accelerator
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.estimate import Estimate
from infopt.profiles.resolve import resolve_model
from infopt.reports.pages.plan_figures import FIGURES, units
from infopt.studies.plan_curves import plan_curves
from infopt.studies.planning import plan
from infopt.studies.scenarios import Request, build
from infopt.studies.whatif import Place, WhatIf, what_if
from infopt.studies.whatif_trace import Traced, given_lengths, traced_lengths, traced_plan

COMMON = [HardwareChoice(device, None, device.name) for device in map(load_accelerator, common_accelerators())]


def answered(asked: Asked) -> dict[str, float]:
    """What the program of a scenario's placement answers at the other load."""
    load = run(traced_lengths(given_lengths(asked.request)), asked.load)
    assert load["possible"]
    return run(asked.traced.program, load)


@pytest.mark.xdist_group("browser test_programs")  # its scenarios are made once for both
def test_programs_answer_as_plans_do(capsys: pytest.CaptureFixture[str]) -> None:
    """1,000 random scenarios: every figure of --json, the verdict, the bound, and why there is no estimate."""
    worst, wrong, kinds = 0.0, [], {"fits": set[Any](), "reasons": set[Any](), "bounds": set[Any]()}
    for asked in thousand():
        expected = expected_answers(asked.plan)
        most, differing = differences(expected, answered(asked), asked.traced)
        worst = max(worst, most)
        wrong += [f"{asked.plan.resolved_as}, {asked.model.id}, {asked.load}: {one}" for one in differing]
        kinds["fits"].add(expected["memory.fits"])
        kinds["reasons"].add(expected["estimate.reason"] is None)
        kinds["bounds"].add(expected["estimate.bound"])
    with capsys.disabled():
        sys.stdout.write(f"\nwhat-if: {SCENARIOS} scenarios, largest relative difference {worst:.3g}\n")
    assert not wrong, wrong[:5]
    assert worst <= MOST_DIFFERENCE
    assert kinds["fits"] == {True, False, None}
    assert kinds["reasons"] == {True, False}
    assert len(kinds["bounds"]) >= 4


def test_every_figure_of_the_page_is_answered() -> None:
    asked = next(iter(scenarios(1)))
    always = {key for key in units() if not key.startswith("estimate.")}
    assert always <= set(asked.traced.program.output_slots)
    assert all(one.key in units() for one in FIGURES)


@pytest.fixture(scope="module")
def neighbours() -> WhatIf:
    request = Request(context_tokens=32768, batch=8)
    return what_if(resolve_model("70b"), resolve_hardware("h100:4"), request, COMMON)


def test_the_plan_itself_comes_first(neighbours: WhatIf) -> None:
    assert [one.name for one in neighbours.weights] == ["bf16", "fp8", "int4"]
    assert [one.option for one in neighbours.kv] == [None, "fp8"]
    assert neighbours.hardware[0].accelerator.id == "h100-sxm-80gb"
    assert len(neighbours.hardware) == len(COMMON)
    assert neighbours.tp == (4, 1, 2, 8)
    assert len(neighbours.places) == 3 * 2 * len(COMMON) * 4
    first = neighbours.places[0]
    assert (first.weights, first.kv, first.hardware, first.tp) == (0, 0, 0, 0)
    assert not neighbours.fixed
    assert neighbours.lengths.inputs == ("context_tokens", "batch")


def test_neighbours_are_the_plans_of_their_options(neighbours: WhatIf) -> None:
    model, load = resolve_model("70b"), {"context_tokens": 20000, "batch": 24}
    for place in neighbours.places[::7]:
        found = _run(neighbours, place, load)
        own = neighbours.hardware[place.hardware]
        request = Request(
            **load,
            weights=neighbours.weights[place.weights].option,
            kv=neighbours.kv[place.kv].option,
            tp=neighbours.tp[place.tp],
        )
        expected = expected_answers(plan(model, replace(own, gpus=None), request))
        assert isinstance(place.found, Traced)
        assert differences(expected, found, place.found) == (0.0, [])


def _run(found: WhatIf, place: Place, load: dict[str, int]) -> dict[str, float]:
    assert isinstance(place.found, Traced)
    return run(place.found.program, run(found.lengths, load))


def test_a_neighbour_that_no_engine_runs_keeps_its_reason() -> None:
    deep = Request(context_tokens=8192, pp=50)
    found = what_if(resolve_model("gpt-oss-20b"), resolve_hardware("h100"), deep, COMMON[:2])
    assert {place.found for place in found.places} == {"pp 50 is more than the 24 layers of openai/gpt-oss-20b"}


def test_experts_stay_split_as_they_are() -> None:
    split = Request(context_tokens=8192, tp=4, dp=2, ep=8)
    found = what_if(resolve_model("mixtral-8x7b"), resolve_hardware("h100:8"), split, COMMON[:1])
    for place in found.places:
        answer, tp = _run(found, place, {"context_tokens": 8192, "batch": 4}), found.tp[place.tp]
        assert (answer["hardware.ep"], answer["hardware.gpus"]) == (2 * tp, 2 * tp)


def test_an_instance_has_its_price_only_with_all_its_devices() -> None:
    hardware = resolve_hardware("p5.48xlarge")
    found = what_if(resolve_model("70b"), hardware, Request(context_tokens=8192))
    load = {"context_tokens": 8192, "batch": 1}
    prices = {found.tp[place.tp]: _run(found, place, load)["cost.usd_per_hour"] for place in found.places}
    assert prices[8] == hardware.usd_per_hour
    one = load_accelerator("h100-sxm-80gb").usd_per_hour
    assert one is not None
    assert prices[4] == 4 * one


def test_measured_points_leave_only_the_batch_open() -> None:
    request = Request(input_tokens=2000, output_tokens=300, batch=8, points=("batch=1,tpot=16ms",))
    model, hardware = resolve_model("8b"), resolve_hardware("h100")
    found = what_if(model, hardware, request, COMMON)
    assert found.fixed
    assert len(found.places) == 1
    for batch in (1, 8, 64):
        load = {"input_tokens": 2000, "output_tokens": 300, "batch": batch}
        expected = expected_answers(plan(model, hardware, replace(request, batch=batch)))
        place = found.places[0]
        assert isinstance(place.found, Traced)
        assert differences(expected, _run(found, place, load), place.found) == (0.0, [])


def test_contradicting_lengths_are_told() -> None:
    lengths = traced_lengths(("context_tokens", "input_tokens", "output_tokens"))
    good = {"context_tokens": 100, "input_tokens": 60, "output_tokens": 40, "batch": 1}
    assert run(lengths, good)["possible"] == 1
    assert run(lengths, {**good, "context_tokens": 99})["possible"] == 0
    assert run(traced_lengths(("context_tokens", "input_tokens")), {**good, "input_tokens": 100})["possible"] == 0
    assert run(traced_lengths(("context_tokens",)), {"context_tokens": 1, "batch": 1})["possible"] == 1


def test_the_scenario_stands_on_the_roofline_of_its_plan() -> None:
    found = plan(resolve_model("70b"), resolve_hardware("h100:4"), Request(context_tokens=32768, batch=8))
    traced = what_if(resolve_model("70b"), resolve_hardware("h100:4"), Request(context_tokens=32768, batch=8))
    answer = _run(traced, traced.places[0], {"context_tokens": 32768, "batch": 8})
    roofline = plan_curves(found).roofline
    assert roofline is not None
    own = next(point for point in roofline.points if point.name == "decode, batch 8")
    prompt = roofline.points[-1]
    assert answer["roofline.peak_flop_per_s"] == roofline.peak_flop_per_s
    assert answer["roofline.bandwidth_bytes_per_s"] == roofline.bandwidth_bytes_per_s
    assert answer["roofline.decode_flop_per_byte"] == own.flop_per_byte
    assert answer["roofline.decode_at_most_flop_per_s"] == own.at_most_flop_per_s
    assert answer["roofline.step_flop"] / answer["estimate.tpot_s"] == own.expected_flop_per_s
    assert answer["roofline.prefill_flop_per_byte"] == prompt.flop_per_byte
    assert answer["roofline.prefill_at_most_flop_per_s"] == prompt.at_most_flop_per_s


def measured_on(path: Path, contexts: tuple[int, ...]) -> HardwareChoice:
    """An H200 with steps of vLLM measured on it: two sizes of model, some batches, prompts."""
    sizes = {"meta-llama/Llama-3.1-8B": 15.0e9, "meta-llama/Llama-3.2-3B": 5.6e9}
    steps = []
    for name, weight_bytes in sizes.items():
        made = partial(calibrations.step, engine="vllm", model=name, weight_bytes=weight_bytes)
        for batch in (1, 4, 16):
            for context in contexts:
                kv_bytes = 1.3e5 * context * batch
                seconds = 450 * 2e-6 + weight_bytes / 3.5e12 * (1 + batch / 100) + kv_bytes / 2.5e12
                steps.append(made(seconds, batch=batch, context_tokens=context, kv_bytes=kv_bytes))
        for tokens in (512, 4096):
            flop = weight_bytes * tokens
            steps.append(made(1e-3 + flop / 5e14, tokens=tokens, context_tokens=0, kv_bytes=0.0, flop=flop))
    file = calibrations.written(path / "h200.yaml", calibrations.calibration(*steps))
    return resolve_calibrated("h200", str(file))


@pytest.mark.parametrize("contexts", [(1024,), (1024, 32768)], ids=["kv not solved", "kv solved"])
def test_steps_of_the_device_itself_are_followed_with_their_interval(tmp_path: Path, contexts: tuple[int, ...]) -> None:
    hardware, model = measured_on(tmp_path, contexts), resolve_model("8b")
    built = build(model, hardware, Request(context_tokens=4096, batch=2))
    traced = traced_plan(built, hardware, Request(context_tokens=4096, batch=2))
    lengths = traced_lengths(("context_tokens",))
    estimated = 0
    for context, batch in (
        (4096, 2),
        (300, 1),
        (16, 1),
        (70_000, 3),
        (120_000, 8),
        (2048, 11),
        (9000, 500),
        (1000, 5000),
    ):
        load = {"context_tokens": context, "batch": batch}
        found = run(traced.program, run(lengths, load))
        expected = plan(model, hardware, Request(**load))
        estimated += isinstance(expected.estimate, Estimate)
        most, wrong = differences(expected_answers(expected), found, traced)
        assert not wrong
        assert most <= 1e-12
    assert estimated >= 5
