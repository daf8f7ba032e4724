"""More requests at once than the deployment holds: the rest queue."""

from collections.abc import Iterator

from infopt.boundaries.kv_quantization import decide
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, situation_of


def check(case: Case) -> Iterator[Hit]:
    """The policy's concurrency against what memory holds of its requests."""
    asked, situation = case.policy.workload.concurrency, situation_of(case)
    if asked is None or situation is None or not lengths_known(case):
        return
    s, held = situation.scenario, situation.memory.max_sequences
    if not 0 < held < s.batch_per_replica:
        return
    smaller = decide(situation)
    cure = ""
    if smaller.verdict == "use" and smaller.after is not None:
        cure = f"a {smaller.after.scenario.kv_format} cache holds {smaller.after.memory.max_sequences * s.dp:,}"
    each = " in each of the file's replicas" if case.deployment.found.hardware.replicas > 1 else ""
    yield Hit(
        f"{s.batch:,} sequences of {s.context_tokens:,} tokens at once{each}: memory holds {held * s.dp:,}, "
        f"{s.batch - held * s.dp:,} wait",
        detail=f"{situation.memory.kv_pool_tokens:,} tokens of cache in each replica",
        remedy=cure,
        confidence="likely",
    )


RULE = Rule(
    id="concurrency-above-memory",
    summary="the policy's concurrency is more than memory holds",
    severity="warning",
    why="Requests that do not fit wait for others to end: their first token comes late.",
    remedy="More replicas, a smaller cache format, or more devices.",
    check=check,
)
