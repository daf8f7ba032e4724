"""The share of requests that must be served within the targets."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.saturation import saturation_of


def check(case: Case) -> Iterator[Hit]:
    """What is served within the time per token is less than the share of the rate, even at the shortest steps."""
    share, rate = case.policy.targets.goodput_share, case.policy.workload.rate_per_s
    found = saturation_of(case) if share is not None and rate is not None else None
    if share is None or rate is None or found is None or not found.reached or found.high_per_s >= share * rate:
        return
    yield Hit(
        f"at most {found.high_per_s / rate:.0%} of {rate:.3g} requests/s are served in time, {share:.0%} are promised",
        detail=f"{found.low_per_s:.3g} to {found.high_per_s:.3g} requests/s, bounded by {found.bound}",
        remedy=f"it serves {share:.0%} of at most {found.high_per_s / share:.3g} requests/s",
        confidence=found.confidence,
    )


RULE = Rule(
    id="goodput-target",
    summary="fewer requests than promised can be served within the targets",
    severity="error",
    why="Requests beyond saturation wait ever longer: they count as missed.",
    remedy="More replicas, or a deployment that serves more.",
    check=check,
)
