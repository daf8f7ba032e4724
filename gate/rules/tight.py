"""It fits, but barely: fewer than two full-length requests, or less than the error of the ledger."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.units import format_gib

def check(case: Case) -> Iterator[Hit]:
    """A number of whole sequences below the parameter, or a verdict within the error."""
    plan = case.plan
    if plan is None or plan.fits is False:
        return
    memory, s = plan.memory, plan.scenario
    need = s.batch_per_replica * memory.layout.request_bytes(s.context_tokens)
    left = memory.kv_pool_bytes_per_gpu - need
    doubtful = any(caveat.id == "tight" for caveat in plan.caveats)
    if memory.max_sequences >= case.parameter("tight", "least_sequences") and not doubtful:
        return
    yield Hit(
        f"tight: {memory.max_sequences} request of {s.context_tokens:,} tokens fits at a time, "
        f"{format_gib(left)} of cache to spare on each device",
        at=case.deployment.said_at("context_tokens"),
        detail=f"cache {format_gib(memory.kv_pool_bytes_per_gpu)}, one request {format_gib(need)}",
        confidence="likely" if doubtful else "certain",
    )


RULE = Rule(
    id="tight",
    summary="fewer than two full-length requests fit at a time",
    severity="warning",
    why="Any change of the engine's overhead stops it from starting, and long requests are served one by one.",
    remedy="A smaller length limit, an 8-bit cache, or more memory.",
    check=check,
    parameters={"least_sequences": 2},
)
