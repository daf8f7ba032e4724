"""More replicas than the load fills: each runs nearly empty."""

from collections.abc import Iterator
from math import ceil

from infopt.boundaries.continuous_batching import occupancy
from infopt.boundaries.deciding import threshold
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, load_known, running_of


def check(case: Case) -> Iterator[Hit]:
    """Each replica holds fewer sequences than share a step with profit, and far fewer replicas hold the load."""
    situation = running_of(case)
    if situation is None or not (lengths_known(case) and load_known(case)) or case.deployment.found.role:
        return
    s, copies = situation.scenario, max(1, case.deployment.found.hardware.replicas)
    groups = copies * s.dp // s.sharing_replicas
    each, rate = s.batch_per_replica, situation.load.traffic.rate_per_s
    if groups < case.parameter(RULE.id, "least_replicas") or each >= threshold("least_batch"):
        return
    enough = ceil(each * groups / max(threshold("least_batch"), 1.0))
    if rate is not None:
        here = occupancy(situation.changed(batch=s.dp), situation.steps)
        if here.saturated or not here.saturation_per_s:
            return
        enough = max(enough, ceil(copies * rate / here.saturation_per_s * s.dp))
    if enough > groups / 2:
        return
    yield Hit(
        f"{groups} replicas for {each * groups:,} sequences at once: {each:,} in each, below the "
        f"{threshold('least_batch'):.0f} that make a step worth its bytes; {enough} hold them",
        at=case.deployment.said_at("dp"),
        confidence="possible",
    )


RULE = Rule(
    id="idle-replicas",
    summary="replicas run nearly empty at the policy's load",
    severity="note",
    why="A step reads all weights for one sequence as for four.",
    remedy="Fewer replicas, and an autoscaler for the peaks.",
    check=check,
    parameters={"least_replicas": 3},
)
