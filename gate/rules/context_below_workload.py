"""The workload's own requests are longer than the engine admits."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule


def check(case: Case) -> Iterator[Hit]:
    """Input and output of the policy are more than the length limit; the model's own where the file has none."""
    workload, limit = case.policy.workload, case.value("context_tokens")
    if limit in (None, -1):
        limit = case.model.max_position_tokens if case.model is not None else None
    if limit is None or workload.input_tokens is None:
        return
    asked = workload.input_tokens + (workload.output_tokens or 0)
    if asked <= limit:
        return
    made = f" + {workload.output_tokens:,}" if workload.output_tokens else ""
    refused = workload.input_tokens >= limit
    yield Hit(
        f"requests of {workload.input_tokens:,}{made} tokens are longer than the limit of {limit:,}: "
        + ("they are refused" if refused else f"answers end after {limit - workload.input_tokens:,} tokens"),
        at=case.deployment.said_at("context_tokens"),
        remedy=f"a length limit of at least {asked:,} tokens",
    )


RULE = Rule(
    id="context-below-workload",
    summary="the length limit is below the workload's requests",
    severity="error",
    why="The engine refuses the requests, or cuts their answers off.",
    remedy="A length limit that holds input and output.",
    check=check,
)
