"""What an engine's allocator reserves for the cache: blocks, groups of layers, padding.

One pool of equal pages serves layers that cache differently. vLLM (v1/core/kv_cache_utils.py):

    page    = largest page of any layer; smaller attention pages take more tokens per block
    g       = smallest number of layers of one kind (the largest, if within 1.5 of the smallest)
    groups  = sum over kinds of ceil(layers / g)
    blocks  = pool // (g page)
    request = sum over groups of the pages it needs at its length
    tokens printed = blocks // groups x block, later versions concurrency x max_model_len
Recurrent layers raise the attention block until its page holds one layer's state.
Other engines keep a pool for each kind of layer: pages of its own size, windows whole or in cells.
"""

from collections.abc import Sequence
from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.arrays import ceil_div, larger, smaller, whole
from infopt.ledgers.cache import layer_bytes_per_token, layer_state_bytes
from infopt.ledgers.scenario import Scenario
from infopt.profiles.geometry import LayerRun, Mixer

# A model that caches nothing is not limited by its cache.
UNBOUNDED = 10**9


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers that cache alike on one rank.

    layers          how many
    page_bytes      bytes of one page of one layer
    block_tokens    tokens a page holds (attention kinds)
    window_tokens   cap, None for layers that keep everything
    state_slots     pages a sequence holds whatever its length (recurrent kinds), else 0
    cells           the window is a fixed ring of cells (llama.cpp)
    """

    layers: int
    page_bytes: float
    block_tokens: int
    window_tokens: int | None = None
    state_slots: int = 0
    cells: bool = False

    def pages(self, context_tokens: Any, in_flight_tokens: int) -> Any:
        """Pages one sequence of `context_tokens` holds at most.

        A window keeps its last w - 1 tokens and those in flight, and may start inside a block; in cells it keeps
        w and those in flight, rounded up.
        """
        if self.state_slots:
            return self.state_slots
        if self.window_tokens is None:
            return ceil_div(context_tokens, self.block_tokens)
        if self.cells:
            most = ceil_div(self.window_tokens + in_flight_tokens, self.block_tokens)
            return smaller(ceil_div(context_tokens, self.block_tokens), most)
        kept = smaller(context_tokens, self.window_tokens - 1 + in_flight_tokens)
        return ceil_div(kept, self.block_tokens) + 1

    def mean_pages(self, context_tokens: Any) -> Any:
        """Pages a decoding sequence of about `context_tokens` holds on average: rounding adds half a block, less half
        a token; a window starts anywhere in a block and no prompt is in flight."""
        if self.state_slots:
            return self.state_slots
        kept = (context_tokens + (self.block_tokens - 1) / 2) / self.block_tokens
        if self.window_tokens is None:
            return kept
        return smaller(kept, (self.window_tokens + self.block_tokens - 1) / self.block_tokens)


@dataclass(frozen=True, slots=True)
class Layout:
    """How one rank's pool is cut; pools and contexts may be numbers or arrays.

    group_layers  layers of a group: pages of one block
    groups        groups of equal size (padding layers included)
    block_bytes   bytes of one block of the pool
    block_tokens  tokens of the smallest block: what the engine prints and reuses prefixes by
    kinds         the layers by kind, with the number of groups each makes
    in_flight_tokens  scheduled tokens a window keeps beside its own
    padding_layers    layers that exist only to fill groups
    separate          each kind has a pool of its own: there is no common block, only bytes per sequence
    """

    group_layers: int
    groups: int
    block_bytes: float
    block_tokens: int
    kinds: tuple[tuple[LayerKind, int], ...]
    in_flight_tokens: int
    null_blocks: int = 0
    separate: bool = False

    @property
    def padding_layers(self) -> int:
        return self.groups * self.group_layers - sum(kind.layers for kind, _ in self.kinds)

    def blocks(self, pool_bytes: Any) -> Any:
        """Whole blocks a pool holds."""
        return larger(0, whole(pool_bytes // self.block_bytes)) if self.block_bytes else 0

    def request_blocks(self, context_tokens: Any) -> Any:
        """Blocks one sequence of this length draws from the pool."""
        return sum(groups * kind.pages(context_tokens, self.in_flight_tokens) for kind, groups in self.kinds)

    def request_bytes(self, context_tokens: Any) -> Any:
        """Bytes one sequence of this length reserves on this rank."""
        if self.separate:
            pages = ((kind, kind.pages(context_tokens, self.in_flight_tokens)) for kind, _ in self.kinds)
            return sum(kind.layers * count * kind.page_bytes for kind, count in pages)
        return self.request_blocks(context_tokens) * self.block_bytes

    def mean_request_bytes(self, context_tokens: Any) -> Any:
        """Bytes a decoding sequence holds on this rank on average at about this length."""
        if self.separate:
            return sum(kind.layers * kind.mean_pages(context_tokens) * kind.page_bytes for kind, _ in self.kinds)
        return sum(groups * kind.mean_pages(context_tokens) for kind, groups in self.kinds) * self.block_bytes

    def concurrency(self, pool_bytes: Any, context_tokens: Any) -> Any:
        """Sequences of this length the pool holds, as the engine prints it."""
        if not self.kinds:
            return float("inf")
        if self.separate:
            return larger(0.0, pool_bytes) / self.request_bytes(context_tokens)
        return self.blocks(pool_bytes) / self.request_blocks(context_tokens)

    def sequences(self, pool_bytes: Any, context_tokens: Any) -> Any:
        """Whole sequences of this length that can run at once (null blocks held back)."""
        if not self.kinds:
            return UNBOUNDED
        if self.separate:
            return whole(larger(0.0, pool_bytes) // self.request_bytes(context_tokens))
        return larger(0, self.blocks(pool_bytes) - self.null_blocks) // self.request_blocks(context_tokens)

    def tokens(self, pool_bytes: Any, context_tokens: Any, token_line: str) -> Any:
        """The token capacity the engine prints."""
        if self.separate or token_line == "requests":
            return whole(self.concurrency(pool_bytes, context_tokens) * context_tokens)
        return self.blocks(pool_bytes) // max(1, self.groups) * self.block_tokens

    def longest_context_tokens(self, pool_bytes: float, limit_tokens: int) -> int:
        """Longest single sequence the pool holds, at most `limit_tokens`; 0 where not even one token fits."""
        low, high = 0, limit_tokens
        while low < high:
            middle = (low + high + 1) // 2
            if self.sequences(pool_bytes, middle) >= 1:
                low = middle
            else:
                high = middle - 1
        return low


def layout(stage: Sequence[LayerRun], s: Scenario) -> Layout:
    """The pool layout of one pipeline stage on one rank of the scenario's engine."""
    kinds = _kinds(stage, s)
    if not kinds:
        return Layout(0, 0, 0.0, s.block_tokens, (), 0)
    if len({kind.window_tokens for kind in kinds}) == 1 and not any(kind.state_slots for kind in kinds):
        return _one_group(kinds, s)
    if s.engine.windows != "grouped":
        return _separate(kinds, s)
    return _grouped(_same_page(kinds), s)


def _one_group(kinds: list[LayerKind], s: Scenario) -> Layout:
    """All layers need the same token slots: one block table, pages of each layer's own size."""
    layers = sum(kind.layers for kind in kinds)
    block_bytes = sum(kind.layers * kind.page_bytes for kind in kinds)
    first = kinds[0]
    merged = LayerKind(layers, block_bytes / layers, first.block_tokens, first.window_tokens, first.state_slots)
    null = int(s.engine.null_block)
    return Layout(layers, 1, block_bytes, first.block_tokens, ((merged, 1),), s.max_num_batched_tokens, null)


def _separate(kinds: list[LayerKind], s: Scenario) -> Layout:
    """A pool for each kind of layer."""
    return Layout(
        group_layers=max(kind.layers for kind in kinds),
        groups=len(kinds),
        block_bytes=sum(kind.layers * kind.page_bytes for kind in kinds),
        block_tokens=min(kind.block_tokens for kind in kinds),
        kinds=tuple((kind, 1) for kind in kinds),
        in_flight_tokens=s.max_num_batched_tokens,
        separate=True,
    )


def _grouped(kinds: list[LayerKind], s: Scenario) -> Layout:
    """Groups of equal size over kinds with one page size."""
    counts = [kind.layers for kind in kinds]
    size = min(counts)
    if max(counts) < 1.5 * size:
        size = max(counts)
    with_groups = tuple((kind, int(ceil_div(kind.layers, size))) for kind in kinds)
    return Layout(
        group_layers=size,
        groups=sum(groups for _, groups in with_groups),
        block_bytes=size * kinds[0].page_bytes,
        block_tokens=min(kind.block_tokens for kind in kinds),
        kinds=with_groups,
        in_flight_tokens=s.max_num_batched_tokens,
        null_blocks=int(s.engine.null_block),
    )


def _kinds(stage: Sequence[LayerRun], s: Scenario) -> list[LayerKind]:
    """Layers of a stage by what they cache on one rank."""
    attention: dict[tuple[float, int | None], int] = {}
    states: dict[float, int] = {}
    for run in stage:
        state = layer_state_bytes(run.mixer, s.model.compute_dtype, s.tp)
        if state:
            states[state] = states.get(state, 0) + run.layers
        per_token = layer_bytes_per_token(run.mixer, s.kv, s.tp)
        if per_token:
            key = (per_token, _window(run.mixer, s))
            attention[key] = attention.get(key, 0) + run.layers
    if s.extra_cache_layers and attention:
        whole = [per_token for per_token, window in attention if window is None]
        widest = (max(whole or [per_token for per_token, _ in attention]), None)
        attention[widest] = attention.get(widest, 0) + s.extra_cache_layers
    block = _block_tokens(attention, states, s)
    cells = s.engine.windows == "cells"
    kinds = [
        LayerKind(n, per_token * block, block, window, cells=cells) for (per_token, window), n in attention.items()
    ]
    slots = s.state_pages + s.speculative_tokens
    kinds += [LayerKind(n, state, block, None, slots) for state, n in states.items()]
    return kinds


def _window(mixer: Mixer, s: Scenario) -> int | None:
    """Cap the allocator applies: an engine that keeps windows whole holds every token of every layer."""
    if s.engine.windows == "full":
        return None
    if mixer.kind == "chunked" and s.engine.chunked_as_full:
        return None
    return mixer.window_tokens if mixer.kind in ("window", "chunked") else None


def _block_tokens(
    attention_layers: dict[tuple[float, int | None], int], state_layers: dict[float, int], s: Scenario
) -> int:
    """Tokens of a block: raised until an attention page holds the largest state, in steps of the alignment."""
    if not state_layers or not attention_layers or s.engine.windows != "grouped":
        return s.block_tokens
    per_token = max(per_token for per_token, _ in attention_layers)
    align = s.engine.block_align_tokens
    needed = align * int(ceil_div(max(state_layers), align * per_token))
    return max(s.block_tokens, needed)


def _same_page(kinds: list[LayerKind]) -> list[LayerKind]:
    """One page size: smaller attention pages take more tokens where the ratio is whole, everything else is padded."""
    page = max(kind.page_bytes for kind in kinds)
    unified = []
    for kind in kinds:
        block = kind.block_tokens
        if not kind.state_slots and page % kind.page_bytes == 0:
            block = int(kind.block_tokens * (page // kind.page_bytes))
        unified.append(LayerKind(kind.layers, page, block, kind.window_tokens, kind.state_slots))
    return unified
