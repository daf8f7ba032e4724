"""Too few prompt tokens in a step to replace the sequences that end."""

from collections.abc import Iterator

from infopt.boundaries.chunked_prefill import default_tokens, resident, split
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, load_known, running_of


def check(case: Case) -> Iterator[Hit]:
    """The budget of the file leaves fewer prompt tokens a step than the load brings."""
    at, situation = case.deployment.said_at("max_num_batched_tokens"), running_of(case)
    if at is None or situation is None or case.deployment.found.role == "decode":
        return
    if not (lengths_known(case) and load_known(case)) or resident(situation) < 2:
        return
    needed, left = split(situation, situation.steps).needed_tokens, default_tokens(situation)
    if needed <= left:
        return
    s = situation.scenario
    yield Hit(
        f"a budget of {s.max_num_batched_tokens:,} tokens leaves {left:,.0f} of prompts a step; {s.batch:,} sequences "
        f"of {s.input_tokens:,} + {s.output_tokens:,} tokens bring {needed:,.0f}",
        at=at,
        detail=f"about {s.batch * left / needed:,.0f} sequences decode, the others wait for their first token",
        remedy=f"a budget of at least {needed + s.batch_per_replica:,.0f} tokens",
        confidence="likely",
    )


RULE = Rule(
    id="batch-budget-small",
    summary="the batch budget is too small to keep the batch full",
    severity="warning",
    why="Prompts enter more slowly than answers end: requests wait while the device has room.",
    remedy="A larger budget.",
    check=check,
)
