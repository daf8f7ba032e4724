"""The compute ledger: floating-point operations of prefill and decode, and the least time they take.

    decode per token  2 P_active + sum over layers of 2 h (d_qk + d_v) min(n, w)
    prefill of n      2 P_matrix n + 2 P_head + sum over layers of 2 h (d_qk + d_v) n^2 / 2   (window: n w - w^2 / 2)
    ridge batch       where B tokens' compute time overtakes the memory time of the step
h query heads, d head dims, n tokens, w window; FLOP = 2 x multiply-adds; peaks are dense. Latent attention is
counted at its absorbed shape in decode (2 h (rank + rope + rank) n); recurrent layers by their state (6 per element).
Ignored: softmax, norms, rotary, routing.
"""

from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.arrays import smaller
from infopt.ledgers.bandwidth import BandwidthLedger
from infopt.ledgers.scenario import Scenario
from infopt.profiles.geometry import Mixer, ModelProfile


@dataclass(frozen=True, slots=True)
class ComputeLedger:
    """FLOP counts of one request, and the prefill floor.

    prefill_flop           one prompt of input_tokens
    decode_flop_per_token  one output token at the decode context
    ttft_floor_s           prefill_flop over the dense peak of the replica's devices
    ridge_batch            sequences at which a decode step turns compute-bound; None where none does
    peak_flop_per_s        dense peak used, per device
    peak_format            format of that peak
    """

    prefill_flop: float
    decode_flop_per_token: float
    ttft_floor_s: float | None
    ridge_batch: float | None
    decode_compute_s: float | None
    peak_flop_per_s: float | None
    peak_format: str


def attention_flop_per_token(mixer: Mixer, context_tokens: Any) -> Any:
    """Score and value products of one new token against `context_tokens` cached ones."""
    if mixer.kind in ("latent", "indexed"):
        attended = smaller(context_tokens, mixer.index_topk or None)
        flop = 2 * mixer.q_heads * (mixer.latent_dim + mixer.latent_rank) * attended
        return flop + 2 * mixer.index_heads * mixer.index_dim * context_tokens
    if mixer.kind in ("full", "window", "chunked", "shared"):
        return 2 * mixer.q_heads * (mixer.qk_dim + mixer.v_dim) * smaller(context_tokens, mixer.window_tokens)
    return 6 * sum(tensor.elements for tensor in mixer.state)


def attention_prefill_flop(mixer: Mixer, tokens: Any) -> Any:
    """Causal attention over a prompt: half the square, or a band of the window's width (of the selected tokens).

    An index scores every pair: 2 h_i d_i n^2 / 2.
    """
    if mixer.kind in ("recurrent", "none"):
        return attention_flop_per_token(mixer, tokens) * tokens
    per_pair = 2 * mixer.q_heads * (mixer.qk_dim + mixer.v_dim)
    window = smaller(tokens, mixer.window_tokens or mixer.index_topk or None)
    indexed = mixer.index_heads * mixer.index_dim * tokens * (tokens * 1.0)
    return per_pair * (tokens * 1.0 * window - window * 1.0 * window / 2.0) + indexed


def decode_flop_per_token(model: ModelProfile, context_tokens: Any) -> Any:
    """2 P_active + attention over the context."""
    attention = sum(run.layers * attention_flop_per_token(run.mixer, context_tokens) for run in model.groups)
    return 2.0 * model.params_active + attention


def prefill_flop(model: ModelProfile, tokens: Any) -> Any:
    """Matrices for every prompt token, the head for the last one only, attention over pairs."""
    head = model.head_params or model.embed_params
    matrices = 2.0 * (model.params_active - head) * tokens + 2.0 * head
    return matrices + sum(run.layers * attention_prefill_flop(run.mixer, tokens) for run in model.groups)


def compute_format(s: Scenario) -> str:
    """Format the matrix products run in: the weights' own where the device has a peak for it, else 16 bit.

    A weight-only format, or one the device lacks, is computed in the model's own type.
    """
    peaks = s.accelerator.peak_flop_per_s
    if s.weight_compute in peaks:
        return s.weight_compute
    for candidate in (s.model.compute_dtype, "bf16", "fp16", "fp32"):
        if candidate in peaks:
            return candidate
    return s.model.compute_dtype


def compute_ledger(s: Scenario, bandwidth: BandwidthLedger) -> ComputeLedger:
    """FLOP and floors of the scenario; None where the device's peak is not known."""
    peak_format = compute_format(s)
    peak = s.accelerator.peak_flop_per_s.get(peak_format)
    prefill = prefill_flop(s.model, s.input_tokens)
    per_token = decode_flop_per_token(s.model, s.decode_context_tokens)
    devices = s.tp * s.pp
    return ComputeLedger(
        prefill_flop=prefill,
        decode_flop_per_token=per_token,
        ttft_floor_s=prefill / (devices * peak) if peak else None,
        ridge_batch=_ridge_batch(s, bandwidth, per_token, peak),
        decode_compute_s=s.batch_per_replica * per_token / (devices * peak) if peak else None,
        peak_flop_per_s=peak,
        peak_format=peak_format,
    )


def _ridge_batch(
    s: Scenario, bandwidth: BandwidthLedger, per_token_flop: float, peak_flop_per_s: float | None
) -> float | None:
    """B with B f / F = (W + B k) / BW: W / BW / (f / F - k / BW); None where KV reads outgrow compute.

    W is taken with every expert read, which is where a large batch ends.
    """
    if not peak_flop_per_s:
        return None
    devices = s.tp * s.pp
    bytes_per_s = s.accelerator.bandwidth_bytes_per_s * s.tp
    weights = all_weights_read_bytes(s, bandwidth)
    kv = bandwidth.kv_bytes_per_step / s.batch_per_replica
    gain = per_token_flop / (devices * peak_flop_per_s) - kv / bytes_per_s
    return s.dp * (weights / bytes_per_s) / gain if gain > 0 else None


def all_weights_read_bytes(s: Scenario, bandwidth: BandwidthLedger) -> float:
    """Weights one replica reads when every expert is hit."""
    bits = s.weight_bits
    missing = 0.0
    for run in s.model.groups:
        ff = run.feed_forward
        if ff.experts:
            one = (ff.expert_params * bits["expert"] + ff.expert_small_params * bits["small"]) / 8
            missing += run.layers * (ff.experts - ff.experts_per_token) * one * s.tp / s.expert_shards
    return bandwidth.weight_bytes_per_step + missing
