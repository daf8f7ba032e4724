"""A shared prefix shorter than the blocks of which hits are whole multiples."""

from collections.abc import Iterator

from infopt.boundaries.prefix_reuse import keeping, reuse_of
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import caches_prefixes, lengths_known, own_engine, situation_of
from infopt.ledgers.prefix_cache import hit_block_tokens


def check(case: Case) -> Iterator[Hit]:
    """No whole block of the shared tokens, or less of them than the parameter."""
    yield from _longer_than_requests(case)
    situation, shared = situation_of(case), case.policy.workload.shared_prefix_tokens
    if situation is None or not shared or not own_engine(case) or not caches_prefixes(case):
        return
    if not lengths_known(case) or situation.memory.kv_pool_bytes_per_gpu <= 0:
        return
    reuse = reuse_of(situation)
    if reuse is None or reuse.block_tokens <= 1 or shared < 2:
        return
    found = reuse.whole_tokens / min(shared, situation.scenario.input_tokens)
    if found >= case.parameter(RULE.id, "least_share"):
        return
    start = f"hits come in blocks of {reuse.block_tokens:,} tokens here"
    text = f"{reuse.whole_tokens:,} of {shared:,} shared tokens are found ({found:.0%})"
    yield Hit(
        f"{start}: {text}" if reuse.whole_tokens else f"{start}: a shared prefix of {shared:,} tokens is never found",
        at=case.deployment.said_at("block_tokens"),
        remedy=f"a shared prefix of {(reuse.whole_tokens or 0) + reuse.block_tokens + 1:,} tokens finds one block more",
        severity="warning" if not reuse.whole_tokens else "note",
        confidence="likely",
    )


def _longer_than_requests(case: Case) -> Iterator[Hit]:
    """A cache that is asked for, and blocks that no request of the length limit fills."""
    if case.plan is None or not case.value("prefix_caching") or not own_engine(case):
        return
    s, layout = case.plan.scenario, case.plan.memory.layout
    if case.deployment.version is None or keeping(s.engine.engine, s.engine_version).keeps != "blocks":
        return
    block = keeping(s.engine.engine, s.engine_version).reuse_tokens or hit_block_tokens(layout)
    if block >= s.context_tokens > 0:
        yield Hit(
            f"hits come in blocks of {block:,} tokens here, and no request is longer than {s.context_tokens:,}: "
            "nothing is ever found",
            at=case.deployment.said_at("context_tokens") or case.deployment.said_at("prefix_caching"),
            remedy=f"a length limit of more than {block:,} tokens, or no prefix cache",
            confidence="likely",
        )


RULE = Rule(
    id="prefix-block-too-long",
    summary="a shared prefix fills no block of the cache",
    severity="warning",
    why="Only whole blocks are reused; layers with a state make them 500 to 2,000 tokens long.",
    remedy="A smaller block, or a prefix padded to a whole block.",
    check=check,
    parameters={"least_share": 0.6},
    source="vllm-project/vllm issues 40696, 51198, 48401",
)
