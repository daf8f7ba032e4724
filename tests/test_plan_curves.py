"""Curves of a plan: each point is what `plan` says of that batch or context."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.hardware.names import resolve_hardware
from infopt.ledgers.estimate import Estimate
from infopt.profiles.resolve import resolve_model
from infopt.studies.plan_curves import PlanCurves, between, plan_curves
from infopt.studies.planning import Plan, plan
from infopt.studies.scenarios import Request

CASES = (
    ("70b", "h100:4", Request(context_tokens=8192, batch=8)),
    ("8b", "h100", Request(input_tokens=2000, output_tokens=300, batch=32)),
    ("8b", "h100", Request(context_tokens=4096, batch=4, points=("batch=1,tpot=12.1ms",))),
    ("deepseek-v3", "h200:8", Request(context_tokens=8192, batch=13, dp=4, tp=2, ep=8, weights="fp8")),
    ("gemma-3-27b", "h100:2", Request(context_tokens=16384, batch=3, pp=2, tp=1)),
    ("jamba-v0.1", "h200", Request(context_tokens=4096, batch=2)),
    ("70b", "rtx-4090", Request(context_tokens=4096, batch=2)),
    ("8b", "custom:80GB:3.35TB/s", Request(context_tokens=4096)),
    ("8b", "h100", Request(context_tokens=4096, engine="llama.cpp")),
    ("8b", "h100", Request(context_tokens=2, batch=100_000)),
    ("mamba-2.8b", "h100", Request(context_tokens=100, batch=3, dp=2)),
)
IDS = [f"{model} {hw} {number}" for number, (model, hw, _) in enumerate(CASES)]


def planned(case: tuple[str, str, Request], **changes: object) -> Plan:
    model, hw, request = case
    return plan(resolve_model(model), resolve_hardware(hw), replace(request, **changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=CASES, ids=IDS)
def drawn(request: pytest.FixtureRequest) -> tuple[tuple[str, str, Request], Plan, PlanCurves]:
    found = planned(request.param)
    return request.param, found, plan_curves(found)


def test_points_along_the_batch_are_those_of_plan(drawn: tuple[tuple[str, str, Request], Plan, PlanCurves]) -> None:
    case, _, curves = drawn
    curve = curves.tpot
    for at in {0, 1, len(curve.batch) // 2, len(curve.batch) - 1, curve.batch.index(curve.now)}:
        one = planned(case, batch=curve.batch[at])
        assert curve.tpot_floor_s[at] == one.bandwidth.tpot_floor_s
        expected = one.estimate if isinstance(one.estimate, Estimate) else None
        assert curve.tpot_s[at] == (expected.tpot_s if expected else None)
        assert curve.tpot_low_s[at] == (expected.tpot_low_s if expected else None)
        assert curve.tpot_high_s[at] == (expected.tpot_high_s if expected else None)
    if curve.most:
        assert curve.most == planned(case).memory.max_sequences * planned(case).scenario.dp


def test_points_along_the_context_are_those_of_plan(drawn: tuple[tuple[str, str, Request], Plan, PlanCurves]) -> None:
    case, found, curves = drawn
    curve = curves.kv
    assert curve.kv_share[curve.context_tokens.index(curve.now_tokens)] == found.memory.kv_share
    for at in {0, len(curve.context_tokens) // 2, len(curve.context_tokens) - 1}:
        one = planned(case, context_tokens=curve.context_tokens[at], input_tokens=None, output_tokens=None)
        assert curve.kv_share[at] == one.memory.kv_share
        assert curve.kv_share_of_step[at] == one.bandwidth.kv_share_of_step
        assert curve.pool_share[at] == one.memory.kv_pool_bytes_per_gpu / one.memory.capacity_bytes_per_gpu


def test_floor_estimate_and_interval_lie_in_order(drawn: tuple[tuple[str, str, Request], Plan, PlanCurves]) -> None:
    curve = drawn[2].tpot
    for floor, low, best, high in zip(
        curve.tpot_floor_s, curve.tpot_low_s, curve.tpot_s, curve.tpot_high_s, strict=True
    ):
        if best is not None:
            assert low is not None
            assert high is not None
            assert floor <= low <= best <= high
    assert list(curve.batch) == sorted(set(curve.batch))


def test_the_roofline_holds_the_floor_of_the_step(drawn: tuple[tuple[str, str, Request], Plan, PlanCurves]) -> None:
    _, found, curves = drawn
    roofline = curves.roofline
    if found.compute.peak_flop_per_s is None:
        assert roofline is None
        return
    assert roofline is not None
    assert roofline.ridge_flop_per_byte * roofline.bandwidth_bytes_per_s == pytest.approx(roofline.peak_flop_per_s)
    now = next(point for point in roofline.points if point.name == f"decode, batch {found.scenario.batch:,}")
    work_flop = found.scenario.batch_per_replica * found.compute.decode_flop_per_token
    if now.flop_per_byte < roofline.ridge_flop_per_byte:
        assert work_flop / now.at_most_flop_per_s == pytest.approx(found.bandwidth.step_floor_s)
    for point in roofline.points:
        assert point.at_most_flop_per_s <= roofline.peak_flop_per_s


@given(st.integers(1, 10_000), st.integers(0, 100_000), st.integers(2, 200), st.lists(st.integers(0, 200_000)))
@settings(max_examples=60)
def test_a_grid_rises_from_end_to_end(low: int, more: int, points: int, also: list[int]) -> None:
    grid = between(low, low + more, points, also)
    assert (grid[0], grid[-1]) == (low, low + more)
    assert all(a < b for a, b in itertools.pairwise(grid))
    assert {one for one in also if low <= one <= low + more} <= set(grid)
