"""Why an engine does not start: the checks it makes itself, with the numbers it prints. Only what is known is said.

    length    one request of max_model_len needs blocks(n) b <= pool - null blocks x b       pools known to the byte
    share     u T <= free at the start; ranks of one memory node take u T each               a processor's node only
    block     tokens of a block are a multiple of what its attention kernels take
u utilization, T total of the memory node, b bytes of a block, n max_model_len.
Sources: vLLM v1/core/kv_cache_utils.py (check_enough_kv_cache_memory), v1/worker/cpu_worker.py,
v1/attention/backends/cpu_attn.py, v1/worker/utils.py (select_common_block_size).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from infopt.hardware.accelerator import MemoryNode
from infopt.ledgers.scenario import Scenario
from infopt.units import format_gib

if TYPE_CHECKING:
    from infopt.ledgers.pool import StageMemory


def refusals(s: Scenario, part: "StageMemory", pool_bytes: Any, longest_tokens: int) -> Iterator[str]:
    """Each reason in one sentence; none where nothing is known to stop the engine."""
    yield from standing_refusals(s)
    yield from _too_long(s, part, pool_bytes, longest_tokens)


def standing_refusals(s: Scenario) -> Iterator[str]:
    """Reasons that hold for any batch and context."""
    multiple = s.engine.block_multiple_tokens
    if s.block_tokens % multiple:
        yield (
            f"{s.engine.engine} has no kernels for blocks of {s.block_tokens} tokens: a multiple of {multiple} is "
            f"needed, --block-size {multiple * max(1, round(s.block_tokens / multiple))}"
        )
    if s.kv_pool_bytes is None and s.engine.takes_all_memory and s.accelerator.node is not None:
        yield from _too_full(s, s.accelerator.node)


def _too_long(s: Scenario, part: "StageMemory", pool_bytes: Any, longest_tokens: int) -> Iterator[str]:
    if is_too_long(s, part, pool_bytes):
        page = part.layout
        usable, needed = pool_bytes - page.null_blocks * page.block_bytes, page.request_bytes(s.context_tokens)
        yield (
            f"{s.engine.engine} refuses to start: one request of {s.context_tokens} tokens needs {format_gib(needed)} "
            f"of KV cache, the pool has {format_gib(usable)}; the estimated maximum length is {longest_tokens}"
        )


def is_too_long(s: Scenario, part: "StageMemory", pool_bytes: Any) -> Any:
    """Whether a pool known to the byte does not hold one request; numbers or arrays."""
    page = part.layout
    if s.kv_pool_bytes is None or not page.kinds:
        return False
    return page.request_bytes(s.context_tokens) > pool_bytes - page.null_blocks * page.block_bytes


def _too_full(s: Scenario, node: MemoryNode) -> Iterator[str]:
    wanted = s.utilization * node.total_bytes
    if wanted > node.free_bytes:
        most = int(100 * node.free_bytes / node.total_bytes) / 100
        yield (
            f"{s.engine.engine} refuses to start: {format_gib(node.free_bytes)} of {format_gib(node.total_bytes)} are "
            f"free, utilization {s.utilization:g} takes {format_gib(wanted)}; --util {most:g}, or --kv-pool"
        )
    elif node.ranks * s.utilization > 1:
        most = int(100 / node.ranks) / 100
        yield (
            f"{node.ranks} ranks on one memory node take utilization {s.utilization:g} of it each, more than it has; "
            f"--util {most:g} at most, or --kv-pool"
        )
