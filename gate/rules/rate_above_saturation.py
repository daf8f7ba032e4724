"""More requests arrive than the deployment serves."""

from collections.abc import Iterator
from math import ceil

from infopt.boundaries.continuous_batching import CAPS, occupancy
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import variants
from infopt.gate.case import Case
from infopt.gate.deployment import Confidence
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, outside_of, running_of


def check(case: Case) -> Iterator[Hit]:
    """The policy's rate against saturation: certain where steps at their shortest are too slow as well."""
    rate, running = case.policy.workload.rate_per_s, running_of(case)
    if rate is None or running is None or not lengths_known(case) or case.deployment.found.role:
        return
    # At a batch of its own, the engine runs no more than its limit of sequences.
    situation = running.changed(batch=running.scenario.dp)
    here = occupancy(situation, situation.steps)
    if not here.saturated:
        return
    ends = [occupancy(situation, steps) for steps in variants(situation.steps)]
    sure = ends[0].saturated  # at the shortest steps
    basis = situation.steps.basis
    if not sure and basis != "estimate":
        return
    replicas = max(1, case.deployment.found.hardware.replicas)
    each = here.saturation_per_s
    least = min(each, *(end.saturation_per_s for end in ends))
    most = max(each, *(end.saturation_per_s for end in ends))
    needed = ceil(rate / (each if basis == "estimate" else most))
    served = f"{replicas} replicas serve" if replicas > 1 else "it serves"
    at_most = "" if basis == "estimate" else " at most"
    yield Hit(
        f"{rate:.3g} requests/s arrive, {served} {replicas * (each if basis == 'estimate' else most):.3g}{at_most} "
        f"({situation.scenario.input_tokens:,} + {situation.scenario.output_tokens:,} tokens, batch {here.most:,.0f})",
        detail=f"bounded by {CAPS[here.capped_by]}; {least:.3g} to {most:.3g} each",
        remedy=f"at least {needed} replicas" if needed > replicas else "",
        severity="error" if sure else "warning",
        confidence=_confidence(situation, sure),
    )


def _confidence(situation: Situation, sure: bool) -> Confidence:
    """Lent steps and those beyond what was measured are not certain."""
    if not sure:
        return "possible"
    return "likely" if situation.steps.basis == "assumed" or outside_of(situation) else "certain"


RULE = Rule(
    id="rate-above-saturation",
    summary="the policy's rate is above what the deployment serves",
    severity="error",
    why="The queue grows without end, and no latency target is met.",
    remedy="More replicas, or a deployment that serves more.",
    check=check,
)
