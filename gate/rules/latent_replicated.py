"""A latent cache is whole on every rank: tensor parallelism does not make it smaller."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.units import format_gib


def check(case: Case) -> Iterator[Hit]:
    """Pool and copies of a model with latent attention under tp."""
    plan = case.plan
    if plan is None or plan.fits is False or plan.scenario.tp == 1 or int(case.value("dcp", 1) or 1) > 1:
        return
    s, memory = plan.scenario, plan.memory
    if not any(group.mixer.kind in ("latent", "indexed") for group in s.model.groups):
        return
    pool = memory.kv_pool_bytes_per_gpu
    yield Hit(
        f"each of {s.tp} ranks keeps the whole latent cache: {memory.kv_pool_tokens:,} tokens in "
        f"{format_gib(pool * s.tp)} of {s.tp} devices",
        at=case.deployment.said_at("tp"),
        detail=f"attention in {s.tp} replicas, or decode context parallelism, would hold up to {s.tp} times as many",
    )


RULE = Rule(
    id="latent-replicated",
    summary="a latent cache under tensor parallelism lies whole on every rank",
    severity="note",
    why="Ranks are added and the cache holds no more tokens.",
    remedy="Data parallel attention with expert parallelism where many requests run at once.",
    check=check,
    source="vllm-project/vllm issue 51454: 8 attention replicas hold 7.7 times the cache of tp 8",
)
