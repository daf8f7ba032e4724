"""The weights fit, but one request of the full length does not."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.placing import SHORTENS, spills
from infopt.gate.stages import stage_said
from infopt.studies.planning import safe_context_tokens
from infopt.units import format_gib


def check(case: Case) -> Iterator[Hit]:
    """The pool is smaller than what one sequence of the length limit takes."""
    plan = case.plan
    if plan is None or plan.fits is not False or spills(case.deployment) or plan.memory.kv_pool_bytes_per_gpu <= 0:
        return
    memory, s = plan.memory, plan.scenario
    if memory.is_pool_too_large or (memory.refusals and memory.kv_pool_bytes_per_gpu >= memory.kv_bytes_per_gpu):
        return
    one, count = memory.layout.request_bytes(s.context_tokens), s.batch_per_replica
    longest = safe_context_tokens(s, memory)
    requests = "one request" if count == 1 else f"{count} requests"
    each = f", {format_gib(one)} each" if count > 1 else ""
    token = one / s.context_tokens
    starts = case.deployment.engine in SHORTENS
    share = f"utilization {s.utilization:g}" if s.engine.budget == "share_of_total" else f"share {s.utilization:g}"
    yield Hit(
        f"{requests} of {s.context_tokens:,} tokens{each} needs {format_gib(count * one)} of cache on each device, "
        f"{format_gib(memory.kv_pool_bytes_per_gpu)} are left",
        at=case.deployment.said_at("context_tokens") or case.deployment.said_at("whole_context_tokens"),
        detail="; ".join(
            filter(
                None,
                (
                    f"{token:,.0f} bytes a token on each device, {s.kv_format}; {memory.kv_pool_tokens:,} tokens fit",
                    f"{share} of {format_gib(memory.capacity_bytes_per_gpu)}, weights "
                    f"{format_gib(memory.weights_bytes_per_gpu)}",
                    stage_said(plan),
                    f"{case.deployment.engine} starts all the same and fails such requests" if starts else "",
                ),
            )
        ),
        remedy=f"a length limit of at most {longest:,} tokens" if longest > 0 else "",
        confidence=case.sureness if count * one > memory.kv_pool_high_bytes else "likely",
    )


RULE = Rule(
    id="no-full-request",
    summary="one request of the full length does not fit into the cache",
    severity="error",
    why="The engine refuses to start, or a long request can never be served.",
    remedy="A smaller length limit, an 8-bit cache, or more devices.",
    check=check,
    source="vllm v1/core/kv_cache_utils.py; vllm-project/vllm issues 13061, 16118",
)
