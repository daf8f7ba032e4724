"""More sequences allowed than memory holds: they are preempted and computed again."""

from collections.abc import Iterator

from infopt.boundaries.continuous_batching import occupancy
from infopt.boundaries.situation import Situation
from infopt.gate.case import Case
from infopt.gate.deployment import Confidence, Severity
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, load_known, situation_of


def check(case: Case) -> Iterator[Hit]:
    """The file's limit is well above what fits of the policy's requests, and the load reaches it."""
    at, situation, limit = case.deployment.said_at("max_num_seqs"), situation_of(case), case.value("max_num_seqs")
    if at is None or situation is None or not isinstance(limit, int) or not lengths_known(case):
        return
    s, held = situation.scenario, situation.memory.max_sequences
    if held < 1 or s.engine.windows == "cells" or limit < case.parameter(RULE.id, "times") * held:
        return
    if load_known(case) and not _reached(situation):
        return
    severity: Severity
    confidence: Confidence
    if not load_known(case):
        confidence, severity = "possible", "note"
    else:
        confidence, severity = "likely", "warning"
    yield Hit(
        f"{limit:,} sequences may run, memory holds {held:,} of {s.context_tokens:,} tokens: {limit - held:,} would be "
        "preempted and computed again",
        at=at,
        remedy=f"--max-num-seqs {held}",
        severity=severity,
        confidence=confidence,
    )


def _reached(situation: Situation) -> bool:
    """Whether the load fills memory: more sequences than it holds, or a rate that only memory bounds."""
    s = situation.scenario
    if situation.load.traffic.rate_per_s is None or s.batch_per_replica > situation.memory.max_sequences:
        return s.batch_per_replica > situation.memory.max_sequences
    here = occupancy(situation.changed(batch=s.dp), situation.steps)
    return here.saturated and here.capped_by == "cache"


RULE = Rule(
    id="max-num-seqs-above-memory",
    summary="more sequences are allowed than memory holds",
    severity="warning",
    why="A preempted sequence gives its cache back and is computed anew: work is done twice when load is highest.",
    remedy="A limit near what memory holds.",
    check=check,
    parameters={"times": 2},
)
