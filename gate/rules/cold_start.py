"""A start that takes longer than the policy allows a new replica."""

from collections.abc import Iterator

from infopt.boundaries.cuda_graphs import judge, start_of
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import figure_of, own_engine, running_of


def check(case: Case) -> Iterator[Hit]:
    """Beyond the target at its best value, or even at the least that was seen."""
    target_s, situation = case.policy.targets.start_s, running_of(case)
    if target_s is None or situation is None or case.plan is None or not own_engine(case):
        return
    found = judge(situation)
    if found.gain is None:
        return  # no start of this engine on this device is known
    start = start_of(case.plan.scenario, case.plan.memory.stored_weights_bytes)
    span = start.eager_s if case.value("eager") else start.cold_s
    if span.value <= target_s:
        return
    sure = span.low > target_s
    warm = start.warm_s.value
    cure = f"{warm:.0f} s with a compile cache that is kept" if not case.value("eager") and warm <= target_s else ""
    yield Hit(
        f"a cold start takes {span.value:.0f} s ({span.low:.0f} to {span.high:.0f}), {target_s:.0f} s are allowed",
        at=case.deployment.said_at("eager"),
        detail=f"of which {figure_of(found, 'load_s') or 0.0:.0f} s read the weights; downloads come on top",
        remedy=cure,
        severity="error" if sure else "warning",
        confidence="likely",
    )


RULE = Rule(
    id="cold-start",
    summary="a new replica serves later than the policy allows",
    severity="warning",
    why="Autoscaling answers a burst only after this time.",
    remedy="Faster storage, smaller weights, a kept compile cache, or spare replicas.",
    check=check,
    source="boundaries/data/cold_start.yaml",
)
