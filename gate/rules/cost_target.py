"""The price of a million output tokens that the policy allows."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import loaded_plan
from infopt.ledgers.estimate import Estimate
from infopt.units import format_usd


def check(case: Case) -> Iterator[Hit]:
    """At the policy's load and list prices; certain where even steps at full bandwidth cost more."""
    target = case.policy.targets.usd_per_million_output_tokens
    plan = loaded_plan(case) if target is not None else None
    if target is None or plan is None or plan.cost is None or case.deployment.found.role:
        return
    cost, e = plan.cost, plan.estimate
    floor = cost.usd_per_million_output_tokens_at_floor
    expected = cost.usd_per_million_output_tokens
    if expected is None or not isinstance(e, Estimate):
        expected, low, high = floor, floor, floor
    else:
        low, high = (max(floor, expected * end / e.tpot_s) for end in (e.tpot_low_s, e.tpot_high_s))
    if expected <= target:
        return
    sure, s = low > target, plan.scenario
    range_ = f" ({format_usd(low)} to {format_usd(high)})" if high > low else " at least"
    yield Hit(
        f"a million output tokens cost {format_usd(expected)}{range_} at batch {s.batch}, {format_usd(target)} "
        "are allowed",
        detail=f"{format_usd(cost.usd_per_hour)} an hour for {s.gpus} x {s.accelerator.name or s.accelerator.id}: "
        f"{cost.source}",
        severity="error" if sure else "warning",
        confidence="likely" if sure else "possible",
    )


RULE = Rule(
    id="cost-target",
    summary="a million output tokens cost more than the policy allows",
    severity="error",
    why="The budget was made for this price.",
    remedy="More requests on each device, smaller weights, or cheaper devices (infopt search).",
    check=check,
)
