"""The bandwidth ledger: bytes one decode step must read, and the least time that takes.

    step >= sum over stages of max over ranks (W_rank + K_rank) / BW
    W  weights a rank reads once per step: its share of every matrix but the input embedding, k experts per layer
    K  keys, values, latents of the rank's sequences at the decode context; state read and written
k experts is a strict bound; the expected number of distinct experts at batch B under uniform routing is
    E (1 - (1 - k/E)^B)
A tied head is read as the head. Ignored: activations, kernel launch, collectives.
"""

from collections.abc import Sequence
from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.arrays import smaller
from infopt.ledgers.cache import cache_sizes
from infopt.ledgers.scenario import Scenario, stages
from infopt.ledgers.weights import embedding_rank_bytes, expert_padding_ratio, head_rank_bytes, layer_rank_bytes
from infopt.profiles.geometry import LayerRun


@dataclass(frozen=True, slots=True)
class BandwidthLedger:
    """Traffic of one decode step, and the floors it sets.

    weight_bytes_per_step           read by all devices of one replica, k experts per layer (strict)
    weight_bytes_per_step_expected  the same with the distinct experts expected at this batch
    kv_bytes_per_step               cache and state traffic of one replica
    kv_share_of_step                KV share of the traffic of the slowest rank
    step_floor_s                    least duration of one decode step
    tpot_floor_s                    least time per output token of one user
    amortized_s_per_token           step_floor_s / batch: the throughput view
    """

    weight_bytes_per_step: float
    weight_bytes_per_step_expected: float
    kv_bytes_per_step: float
    kv_share_of_step: float
    step_floor_s: float
    tpot_floor_s: float
    amortized_s_per_token: float


def distinct_experts(experts: Any, per_token: Any, batch: Any) -> Any:
    """Expected distinct experts a layer reads for `batch` tokens: E (1 - (1 - k/E)^B), uniform routing.

    >>> round(distinct_experts(8, 2, 1), 6)
    2.0
    """
    return experts * (1 - (1 - per_token / experts) ** batch)


def layer_read_bytes(run: LayerRun, s: Scenario, read_experts: float | None) -> float:
    """Weights one rank reads in one layer; `read_experts` of the layer's experts (None: all it holds).

    Tiles that a kernel pads experts to lie in memory but need not be read, so that they are no part of a bound.
    """
    whole = layer_rank_bytes(run, s)
    ff = run.feed_forward
    if not ff.experts or read_experts is None:
        return whole
    bits = s.weight_bits
    matrices, small = ff.expert_params * bits["expert"] / 8, ff.expert_small_params * bits["small"] / 8
    held = ff.experts * (matrices * expert_padding_ratio(ff, s) + small)
    return whole - (held - read_experts * (matrices + small)) / s.expert_shards


def bandwidth_ledger(s: Scenario) -> BandwidthLedger:
    """Floors of one decode step at the scenario's batch and decode context."""
    bandwidth = s.accelerator.bandwidth_bytes_per_s
    strict = expected = kv = seconds = 0.0
    slow_kv = slow_all = 0.0
    for index, stage in enumerate(stages(s.model, s.pp)):
        ends = _ends_read_bytes(s, index)
        weights = ends + _stage_read(stage, s, 1)
        kv_rank = stage_kv_bytes(stage, s)
        seconds += (weights + kv_rank) / bandwidth
        strict += weights * s.tp
        expected += (ends + _stage_read(stage, s, s.batch_per_replica)) * s.tp
        kv += kv_rank * s.tp
        slow_kv, slow_all = slow_kv + kv_rank, slow_all + weights + kv_rank
    return BandwidthLedger(
        weight_bytes_per_step=strict,
        weight_bytes_per_step_expected=expected,
        kv_bytes_per_step=kv,
        kv_share_of_step=slow_kv / slow_all if slow_all else 0.0,
        step_floor_s=seconds,
        tpot_floor_s=seconds,
        amortized_s_per_token=seconds / s.batch,
    )


def _ends_read_bytes(s: Scenario, index: int) -> float:
    """Head on the last stage (a tied head is the embedding matrix, read whole), final norm."""
    if index != s.pp - 1:
        return 0.0
    head = head_rank_bytes(s) or embedding_rank_bytes(s)
    return head + s.model.small_params * s.weight_bits["small"] / 8


def _stage_read(stage: Sequence[LayerRun], s: Scenario, batch: int) -> float:
    total = 0.0
    for run in stage:
        ff = run.feed_forward
        read = float(distinct_experts(ff.experts, ff.experts_per_token, batch)) if ff.experts else None
        total += run.layers * layer_read_bytes(run, s, read)
    return total


def stage_kv_bytes(stage: Sequence[LayerRun], s: Scenario) -> float:
    """Cache bytes one rank of a stage moves in a step: KV read at the decode context, state read and written.

    Sparse attention reads its selected latents and every index key.
    """
    sizes = cache_sizes(stage, s.kv, s.model.compute_dtype, s.tp)
    context = s.decode_context_tokens
    per_sequence = float(sizes.kv_bytes_per_sequence(context)) + 2 * sizes.state_bytes
    per_sequence -= sum(run.layers * _unread_latents(run, s, context) for run in stage)
    return s.batch_per_replica * per_sequence


def _unread_latents(run: LayerRun, s: Scenario, context_tokens: float) -> float:
    """Latent bytes a sparse-attention layer does not read: those outside its top-k."""
    mixer = run.mixer
    if mixer.kind != "indexed" or not mixer.index_topk:
        return 0.0
    skipped = context_tokens - float(smaller(context_tokens, mixer.index_topk))
    latent = s.kv.latent_bytes_per_token or mixer.latent_dim * s.kv.bits_per_element / 8
    return skipped * latent
