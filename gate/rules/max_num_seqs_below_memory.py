"""Far fewer sequences allowed than memory holds: requests wait beside free memory."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, load_known, situation_of


def check(case: Case) -> Iterator[Hit]:
    """The file's limit is a small part of what fits, even of full-length requests; or below the policy's load."""
    at, situation, limit = case.deployment.said_at("max_num_seqs"), situation_of(case), case.value("max_num_seqs")
    if at is None or situation is None or case.plan is None or not isinstance(limit, int) or limit < 1:
        return
    s = situation.scenario
    if s.engine.budget == "exact":
        return  # the cache is as large as its sequences: none of it lies idle
    held = situation.memory.max_sequences if lengths_known(case) else case.plan.memory.max_sequences
    if load_known(case):
        asked = s.batch_per_replica
        if limit >= asked or held < 2 * limit:
            return
        start = f"{asked:,} sequences at once are asked for, {limit:,} may run: {asked - limit:,} wait"
        yield Hit(
            f"{start}; memory holds {held:,}",
            at=at,
            remedy=f"--max-num-seqs {min(asked, held)}",
            confidence="likely",
        )
    elif held >= case.parameter(RULE.id, "times") * limit:
        length = s.context_tokens
        yield Hit(
            f"{limit:,} sequences may run, memory holds {held:,} of {length:,} tokens: {1 - limit / held:.1%} of the "
            "cache is never used",
            at=at,
            severity="note",
            confidence="possible",
        )


RULE = Rule(
    id="max-num-seqs-below-memory",
    summary="far fewer sequences are allowed than memory holds",
    severity="warning",
    why="Requests queue while most of the cache is empty.",
    remedy="A higher limit, unless it keeps the time per token short.",
    check=check,
    parameters={"times": 10},
)
