"""What attention takes of a prompt, fused and with its score matrix in memory.

    matrices   2 (P_active - P_head) n                                  FLOP of a prompt of n tokens
    fused      sum over layers of causal FLOP (ledgers/compute.py) / F
    unfused    sum over layers of max(2 h (d_qk + d_v) n^2 / F,  2 p h n^2 / BW)
    gain       (matrices + unfused) / (matrices + fused)
h query heads, d head dims, F dense 16-bit peak, BW bandwidth, p passes over the n x n matrix of 2 bytes. Unfused
kernels compute the whole square, fused ones skip what the mask hides. Ignored: softmax arithmetic, chunks.
Source: FlashAttention, arXiv 2205.14135.
"""

from infopt.ledgers.compute import attention_prefill_flop
from infopt.profiles.geometry import Mixer, ModelProfile

SCORE_BYTES = 2
ATTENDING = frozenset({"full", "window", "chunked", "shared", "latent", "indexed"})


def linear_flop(model: ModelProfile, tokens: float) -> float:
    """Matrix FLOP of a prompt, the head left out (only the last token needs it)."""
    head = model.head_params or model.embed_params
    return 2.0 * (model.params_active - head) * tokens


def fused_flop(model: ModelProfile, tokens: float) -> float:
    """Attention FLOP of a prompt, the masked half left out."""
    return sum(run.layers * float(attention_prefill_flop(run.mixer, tokens)) for run in model.groups)


def pair_flop(mixer: Mixer) -> float:
    """FLOP of one query and key of every head: 2 h (d_qk + d_v)."""
    return 2.0 * mixer.q_heads * (mixer.qk_dim + mixer.v_dim) if mixer.kind in ATTENDING else 0.0


def square_flop(model: ModelProfile, tokens: float) -> float:
    """Attention FLOP of a prompt with every query against every key."""
    return sum(run.layers * pair_flop(run.mixer) for run in model.groups) * tokens**2


def unfused_ratio(pair_dim: float, flop_per_s: float, bytes_per_s: float, passes: float) -> float:
    """Time of one pair of one head with its score in memory over that with it on the chip.

    max(2 pair_dim / F, 2 passes / BW) / (2 pair_dim / F); pair_dim = d_qk + d_v.

    >>> round(unfused_ratio(256, 989.4e12, 3.35e12, 4), 2)
    4.61
    """
    compute_s = 2 * pair_dim / flop_per_s
    return max(compute_s, SCORE_BYTES * passes / bytes_per_s) / compute_s


def unfused_s(model: ModelProfile, tokens: float, flop_per_s: float, bytes_per_s: float, passes: float) -> float:
    """Attention of a prompt with its score matrices in memory, on one device of these rates."""
    total = 0.0
    for run in model.groups:
        if run.mixer.kind in ATTENDING:
            ratio = unfused_ratio(run.mixer.qk_dim + run.mixer.v_dim, flop_per_s, bytes_per_s, passes)
            total += run.layers * pair_flop(run.mixer) * tokens**2 / flop_per_s * ratio
    return total


def prefill_gain_ratio(linear_s: float, slow_s: float, fast_s: float) -> float:
    """A prompt with slow attention over one with fast: its matrices gain nothing."""
    return (linear_s + slow_s) / (linear_s + fast_s)
