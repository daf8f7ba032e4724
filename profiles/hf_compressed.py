"""Compressed attention (DeepSeek-V4): one key-value vector a token kept for a window, and a compressed cache.

    window             the last w vectors only
    compressed_heavy   one vector per 128 tokens, all attended to
    compressed_sparse  one vector per 4 tokens, an index picks those attended to

Elements per token are averages over the rate; the window's vectors are a fixed state per sequence.
"""

from infopt.profiles.families import Family
from infopt.profiles.geometry import Mixer, MixerKind, StateTensor
from infopt.profiles.hf_keys import Keys


def compressed(keys: Keys, family: Family, kind: str) -> Mixer:
    """Q through rank r, one K = V vector of d, grouped low-rank output, and the kind's compressor."""
    hidden, q, d = keys.count("hidden"), keys.count("q_heads"), keys.count("head_dim")
    rank, groups, out_rank = keys.count("q_lora_rank"), keys.count("o_groups"), keys.count("o_lora_rank")
    if q * d % groups:
        raise keys.error(f"{q} heads of {d} do not split into {groups} output groups")
    linear = hidden * rank + rank * q * d + hidden * d + out_rank * q * d + groups * out_rank * hidden
    small = rank + d + q  # two norms, a sink per head
    rate, width = _rate_and_width(keys, kind, d)
    if rate:
        linear += 2 * width * hidden
        small += rate * width + d
    sparse = kind == "compressed_sparse"
    index_dim = keys.count("index_head_dim") if sparse else 0
    index_heads = keys.count("index_n_heads") if sparse else 0
    indexer = 0
    if sparse:
        indexer = 4 * index_dim * hidden + index_heads * index_dim * rank + index_heads * hidden
        small += rate * 2 * index_dim + index_dim
    mixer_kind: MixerKind = "indexed" if sparse else "latent"
    return Mixer(
        mixer_kind,
        linear_params=linear,
        small_params=small,
        indexer_params=indexer,
        kv_linear_params=hidden * rank + hidden * d + (2 * width * hidden if rate else 0),
        q_heads=q,
        kv_heads=1,
        qk_dim=d,
        v_dim=d,
        latent_dim=per_token(keys, d, rate),
        latent_rank=per_token(keys, d, rate),
        index_dim=per_token(keys, index_dim, rate) if sparse else 0,
        index_heads=index_heads,
        index_topk=keys.count("index_topk") if sparse else 0,
        state=(StateTensor("window", keys.count("sliding_window") * d),),
    )


def _rate_and_width(keys: Keys, kind: str, d: int) -> tuple[int, int]:
    """Tokens per cached vector (0: no compressed cache), and the compressor's width."""
    if kind == "compressed_sparse":
        return keys.count("csa_rate"), 2 * d
    return (keys.count("hca_rate"), d) if kind == "compressed_heavy" else (0, 0)


def per_token(keys: Keys, elements: int, rate: int) -> int:
    """Elements a token adds to a cache that keeps one vector per `rate` tokens."""
    if rate and elements % rate:
        raise keys.error(f"a vector of {elements} per {rate} tokens is not a whole number of elements a token")
    return elements // rate if rate else 0
