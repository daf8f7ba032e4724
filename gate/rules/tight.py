"""It fits, but barely: fewer than two full-length requests, or less than the error of the ledger."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.units import format_gib, format_share


def check(case: Case) -> Iterator[Hit]:
    """Whole sequences below the parameter, a verdict within the error, or less to spare than the policy's margin."""
    plan = case.plan
    # An engine that takes the longest context that fits leaves nothing by its own choice (engine-accepts tells it).
    if plan is None or plan.fits is False or case.shortened_from is not None:
        return
    memory, s = plan.memory, plan.scenario
    if not memory.layout.kinds:
        return
    need = s.batch_per_replica * memory.layout.request_bytes(s.context_tokens)
    left = max(0.0, memory.kv_pool_bytes_per_gpu - need)
    doubtful = any(caveat.id == "tight" for caveat in plan.caveats)
    asked, share = s.batch_per_replica, case.policy.margins.memory_share or 0.0
    kept = left >= share * memory.capacity_bytes_per_gpu
    if memory.max_sequences >= max(case.parameter("tight", "least_sequences"), asked) and not doubtful and kept:
        return
    fits = "one request" if memory.max_sequences == 1 else f"{memory.max_sequences} requests"
    error = ", which is within the error of the ledger" if doubtful else ""
    margin = "" if kept else f"; the margin of the policy is {format_share(share)} of the device"
    low = memory.layout.longest_context_tokens(memory.kv_pool_low_bytes / asked, s.context_tokens)
    yield Hit(
        f"tight: {fits} of {s.context_tokens:,} tokens at a time, with {format_gib(left)} of cache to spare on each "
        f"device{error}{margin}",
        at=case.deployment.said_at("context_tokens"),
        detail=f"cache {format_gib(memory.kv_pool_bytes_per_gpu)} ({format_gib(memory.kv_pool_low_bytes)} to "
        f"{format_gib(memory.kv_pool_high_bytes)}), one request {format_gib(need / asked)}",
        remedy=f"a length limit of {low:,} tokens is safe" if doubtful and 0 < low < s.context_tokens else "",
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
    source="ledgers/memory.py; docs/accuracy.md",
)
