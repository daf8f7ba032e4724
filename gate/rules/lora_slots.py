"""Adapter slots that take a large part of the cache."""

from collections.abc import Iterator

from infopt.boundaries.lora import slots_of
from infopt.errors import InfoptError
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import own_engine, situation_of
from infopt.units import format_gib

ENGINES = frozenset({"vllm", "sglang"})


def check(case: Case) -> Iterator[Hit]:
    """Slots of the rank asked for, against the cache beside the model."""
    situation = situation_of(case) if case.value("lora") and own_engine(case) else None
    if situation is None or case.deployment.engine not in ENGINES or case.value("lora_rank") is None:
        return
    try:
        held = slots_of(situation)
    except InfoptError:
        return  # a rank the engine does not take: another rule's business
    # The plan's ledger has them in memory already: what would be left without them.
    pool = situation.memory.kv_pool_bytes_per_gpu + held.rank_bytes
    share = held.rank_bytes / pool
    if share < case.parameter(RULE.id, "pool_share"):
        return
    yield Hit(
        f"{held.slots} adapter slots of rank {held.rank} take {format_gib(held.rank_bytes)} on each device, "
        f"{share:.0%} of the {format_gib(pool)} left for the cache",
        at=case.deployment.said_at("lora_rank") or case.deployment.said_at("lora_slots"),
        confidence="likely",
    )


RULE = Rule(
    id="lora-slots",
    summary="adapter slots take a large part of the cache",
    severity="warning",
    why="Every slot is reserved at the largest rank from the start, used or not.",
    remedy="The rank the adapters have, and as many slots as are served at once.",
    check=check,
    parameters={"pool_share": 0.25},
    source="boundaries/data/lora.yaml",
)
