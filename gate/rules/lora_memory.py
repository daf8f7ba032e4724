"""Adapter slots that take the cache of a full request."""

from collections.abc import Iterator

from infopt.gate.beside import adapter_bytes
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.units import format_gib


def check(case: Case) -> Iterator[Hit]:
    """The slots at the largest rank against the pool; the plan has them already."""
    plan = case.plan
    if plan is None:
        return
    taken, slots, rank = adapter_bytes(case.deployment, plan.scenario)
    if not taken:
        return
    memory, s = plan.memory, plan.scenario
    need = s.batch_per_replica * memory.layout.request_bytes(s.context_tokens)
    pool = memory.kv_pool_bytes_per_gpu + taken
    if plan.fits is not False or pool < need:
        return
    fewer = int(slots * max(0.0, pool - need) // taken)
    yield Hit(
        f"{slots} adapter slots of rank {rank} take {format_gib(taken)} of the {format_gib(pool)} left for the cache",
        at=case.deployment.said_at("lora_slots") or case.deployment.said_at("lora_rank"),
        detail=f"a full request of {s.context_tokens:,} tokens needs {format_gib(need)}",
        remedy=f"at most {fewer} slots of this rank" if fewer else "a smaller rank",
    )


RULE = Rule(
    id="lora-memory",
    summary="adapter slots leave no room for a full request",
    severity="error",
    why="Every slot is taken at the largest rank from the start, whether or not an adapter uses it.",
    remedy="Fewer slots, or the rank the adapters have.",
    check=check,
    source="vllm lora/layers; ledgers/lora.py",
)
