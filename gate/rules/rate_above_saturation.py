"""More requests arrive than the deployment serves."""

from collections.abc import Iterator
from math import ceil

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.saturation import saturation_of


def check(case: Case) -> Iterator[Hit]:
    """The policy's rate against saturation: sure where steps at their shortest are too slow as well."""
    rate, found = case.policy.workload.rate_per_s, saturation_of(case)
    if rate is None or found is None or not found.reached or not (found.sure or found.expected):
        return
    s, replicas = found.situation.scenario, max(1, case.deployment.found.hardware.replicas)
    needed = ceil(rate / found.per_s * replicas)
    served = f"{replicas} replicas serve" if replicas > 1 else "it serves"
    yield Hit(
        f"{rate:.3g} requests/s arrive, {served} {found.per_s:.3g}{'' if found.expected else ' at most'} "
        f"({s.input_tokens:,} + {s.output_tokens:,} tokens, batch {found.batch:,.0f})",
        detail=f"bounded by {found.bound}; {found.low_per_s:.3g} to {found.high_per_s:.3g} requests/s",
        remedy=f"at least {needed} replicas" if needed > replicas else "",
        severity="error" if found.sure else "warning",
        confidence=found.confidence,
    )


RULE = Rule(
    id="rate-above-saturation",
    summary="the policy's rate is above what the deployment serves",
    severity="error",
    why="The queue grows without end, and no latency target is met.",
    remedy="More replicas, or a deployment that serves more.",
    check=check,
)
