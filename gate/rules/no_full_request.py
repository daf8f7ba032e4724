"""The weights fit, but one request of the full length does not."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.units import format_gib


def check(case: Case) -> Iterator[Hit]:
    """The pool is smaller than what one sequence of the length limit takes."""
    plan = case.plan
    if plan is None or plan.fits is not False or plan.memory.kv_pool_bytes_per_gpu <= 0:
        return
    memory, s = plan.memory, plan.scenario
    need = s.batch_per_replica * memory.layout.request_bytes(s.context_tokens)
    longest = memory.max_context_tokens
    yield Hit(
        f"one request of {s.context_tokens:,} tokens needs {format_gib(need)} of cache on each device, "
        f"{format_gib(memory.kv_pool_bytes_per_gpu)} are left",
        at=case.deployment.said_at("context_tokens"),
        detail=f"{memory.kv_pool_tokens:,} tokens fit; {s.kv_format} cache, utilization {s.utilization:g}",
        remedy=f"a length limit of at most {longest:,} tokens" if longest > 0 else "",
    )


RULE = Rule(
    id="no-full-request",
    summary="one request of the full length does not fit into the cache",
    severity="error",
    why="The engine refuses to start, or a long request can never be served.",
    remedy="A smaller length limit, an 8-bit cache, or more devices.",
    check=check,
)
