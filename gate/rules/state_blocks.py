"""Recurrent states: every sequence that may run needs a block of the cache of its own."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.drafts import drafts
from infopt.gate.finding import Hit, Rule
from infopt.profiles.engines import in_versions
from infopt.units import format_gib

CHECKED_FROM = "0.20"


def check(case: Case) -> Iterator[Hit]:
    """vLLM compares its limit of sequences with the blocks of the cache before it captures graphs."""
    plan, version = case.plan, case.deployment.version
    if plan is None or plan.fits is False or case.deployment.engine != "vllm" or version is None:
        return
    memory, layout = plan.memory, plan.memory.layout
    states = any(kind.state_slots for kind, _ in layout.kinds) and not layout.separate
    # Without graphs nothing is compared; with drafts the limit is lowered by itself.
    if not states or not in_versions(version, CHECKED_FROM, None) or case.value("eager") or drafts(case):
        return
    allowed, at = plan.scenario.max_num_seqs, case.deployment.said_at("max_num_seqs")
    blocks = int(layout.blocks(memory.kv_pool_bytes_per_gpu))
    if allowed <= blocks:
        return
    sure = allowed > layout.blocks(memory.kv_pool_high_bytes)
    default = "" if at is not None else ", vLLM's default here"
    yield Hit(
        f"{allowed:,} sequences may run{default}; the cache has about {blocks:,} blocks, one for each state",
        at=at or case.deployment.said_at("model"),
        detail=f"{format_gib(memory.kv_pool_bytes_per_gpu)} in blocks of {layout.block_bytes / 2**20:.1f} MiB",
        remedy=f"--max-num-seqs {2 ** (max(1, int(layout.blocks(memory.kv_pool_low_bytes))).bit_length() - 1)}",
        severity=None if sure else "warning",
        confidence="certain" if sure else "likely",
    )


RULE = Rule(
    id="state-blocks",
    summary="more sequences may run than the cache has blocks for their states",
    severity="error",
    why="The engine loads the weights, sizes the cache, compares both and stops.",
    remedy="A limit of sequences below the blocks.",
    check=check,
    source="vllm-project/vllm issue 49064, pull 38270; vllm-project/recipes pull 551 (856 blocks), kaito-project/kaito "
    "issue 2319",
)
