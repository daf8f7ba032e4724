"""What a decode step moves, compiled once per placement: the batch and the context stay free.

    W(n) = fixed + sum over expert blocks of  bytes(one expert) distinct(E, k, n)
    K(B, c) = B (cache bytes at context c + 2 state - latents a sparse attention does not read)
per rank of a stage. n tokens of one step, B sequences, c tokens of context; each may be a number or an array.
"""

from collections.abc import Sequence
from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.arrays import smaller
from infopt.ledgers.cache import CacheSizes, cache_sizes, layer_bytes_per_token
from infopt.ledgers.scenario import Scenario, stages
from infopt.ledgers.weights import embedding_rank_bytes, expert_padding_ratio, head_rank_bytes, layer_rank_bytes
from infopt.profiles.geometry import LayerRun


@dataclass(frozen=True, slots=True)
class ExpertBlock:
    """Equal mixture layers of a stage.

    expert_bytes  one expert of every layer, on average over the ranks that share the experts
    layers, experts, experts_per_token  how many layers, E and k
    """

    expert_bytes: float
    layers: int
    experts: int
    experts_per_token: int


@dataclass(frozen=True, slots=True)
class StageTraffic:
    """One pipeline stage on one of its ranks.

    fixed_weight_bytes  matrices every step reads whole, the head on the last stage
    experts             routed experts
    cache               cache of one sequence
    sparse              (latent_bytes_per_token, tokens read) of sparse attention, summed over equal layers
    """

    fixed_weight_bytes: float
    experts: tuple[ExpertBlock, ...]
    cache: CacheSizes
    sparse: tuple[tuple[float, int], ...]

    def weight_bytes(self, tokens: Any) -> Any:
        """Weights read for `tokens` tokens of one step, with the distinct experts expected; 1 is the strict bound."""
        total = self.fixed_weight_bytes
        for block in self.experts:
            total = total + block.expert_bytes * distinct_experts(block.experts, block.experts_per_token, tokens)
        return total

    def kv_bytes(self, sequences: Any, context_tokens: Any) -> Any:
        """Cache read, and state read and written, for `sequences` at this mean context."""
        per_sequence = self.cache.kv_bytes_per_sequence(context_tokens) + 2 * self.cache.state_bytes
        for latent, topk in self.sparse:
            per_sequence = per_sequence - latent * (context_tokens - smaller(context_tokens, topk))
        return sequences * per_sequence


def distinct_experts(experts: Any, per_token: Any, tokens: Any) -> Any:
    """Expected distinct experts a layer reads for `tokens` tokens: E (1 - (1 - k/E)^n), uniform routing.

    >>> round(distinct_experts(8, 2, 1), 6)
    2.0
    """
    return experts * (1 - (1 - per_token / experts) ** tokens)


def traffic(s: Scenario) -> tuple[StageTraffic, ...]:
    """The stages of a scenario."""
    return tuple(_stage(stage, s, index) for index, stage in enumerate(stages(s.model, s.pp)))


def _stage(stage: Sequence[LayerRun], s: Scenario, index: int) -> StageTraffic:
    fixed = _ends_read_bytes(s, index)
    blocks: dict[tuple[float, int, int], int] = {}
    # Layers that alternate in dozens of runs share their parts: what a layer reads is computed once a kind.
    read: dict[tuple[int, int, int], float] = {}
    for run in stage:
        ff = run.feed_forward
        kind = (id(run.mixer), id(ff), run.norm_params)
        if kind not in read:
            read[kind] = layer_rank_bytes(run, s) - _held_expert_bytes(run, s)
        fixed += run.layers * read[kind]
        if ff.experts:
            key = (_expert_bytes(run, s) / s.expert_shards, ff.experts, ff.experts_per_token)
            blocks[key] = blocks.get(key, 0) + run.layers
    experts = tuple(ExpertBlock(one * layers, layers, e, k) for (one, e, k), layers in blocks.items())
    cache = cache_sizes(stage, s.kv, s.model.compute_dtype, s.tp)
    return StageTraffic(fixed, experts, cache, _sparse(stage, s))


def _expert_bytes(run: LayerRun, s: Scenario) -> float:
    """One expert of one layer, without the tiles a kernel pads it to: those lie in memory but need not be read."""
    ff, bits = run.feed_forward, s.weight_bits
    return (ff.expert_params * bits["expert"] + ff.expert_small_params * bits["small"]) / 8


def _held_expert_bytes(run: LayerRun, s: Scenario) -> float:
    """Routed experts of one layer as one rank holds them, padding included."""
    ff, bits = run.feed_forward, s.weight_bits
    matrices, small = ff.expert_params * bits["expert"] / 8, ff.expert_small_params * bits["small"] / 8
    return ff.experts * (matrices * expert_padding_ratio(ff, s) + small) / s.expert_shards


def _ends_read_bytes(s: Scenario, index: int) -> float:
    """Head on the last stage (a tied head is the embedding matrix, read whole), final norm."""
    if index != s.pp - 1:
        return 0.0
    head = head_rank_bytes(s) or embedding_rank_bytes(s)
    return head + s.model.small_params * s.weight_bits["small"] / 8


def _sparse(stage: Sequence[LayerRun], s: Scenario) -> tuple[tuple[float, int], ...]:
    """Bytes per cached token of sparse-attention layers, index key left out, by the tokens each query reads."""
    found: dict[int, float] = {}
    for run in stage:
        mixer = run.mixer
        if mixer.index_topk and mixer.index_dim:
            index = s.kv.index_bytes_per_token or mixer.index_dim * s.kv.bits_per_element / 8
            selected = layer_bytes_per_token(mixer, s.kv, s.tp) - index
            found[mixer.index_topk] = found.get(mixer.index_topk, 0.0) + run.layers * selected
    return tuple((latent, topk) for topk, latent in sorted(found.items()))
