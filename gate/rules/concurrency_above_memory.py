"""More requests at once than the deployment holds: the rest queue."""

from collections.abc import Iterator

from infopt.boundaries.kv_quantization import decide
from infopt.boundaries.placements import placed
from infopt.boundaries.situation import Situation
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
    each = " in each of the file's replicas" if case.deployment.found.hardware.replicas > 1 else ""
    yield Hit(
        f"{s.batch:,} sequences of {s.context_tokens:,} tokens at once{each}: memory holds {held * s.dp:,}, "
        f"{s.batch - held * s.dp:,} wait",
        detail=f"{situation.memory.kv_pool_tokens:,} tokens of cache in each replica",
        remedy="; ".join(_cures(situation)),
        confidence="likely",
    )


def _cures(situation: Situation) -> Iterator[str]:
    """What holds more on the same devices."""
    s, smaller = situation.scenario, decide(situation)
    if smaller.verdict == "use" and smaller.after is not None:
        yield f"a {smaller.after.scenario.kv_format} cache holds {smaller.after.memory.max_sequences * s.dp:,}"
    latent = any(run.mixer.kind in ("latent", "indexed") for run in s.model.runs)
    if latent and s.model.experts and s.tp > 1 and s.dp == s.pp == 1:
        # Latent attention has one head to cache: every rank of tp keeps all of it.
        apart = placed(situation, 1, 1, 1, s.tp, s.tp).max_sequences
        if apart > situation.memory.max_sequences:
            yield f"attention in {s.tp} replicas, experts over all devices, holds {apart:,}"


RULE = Rule(
    id="concurrency-above-memory",
    summary="the policy's concurrency is more than memory holds",
    severity="warning",
    why="Requests that do not fit wait for others to end: their first token comes late.",
    remedy="More replicas, a smaller cache format, or more devices.",
    check=check,
)
