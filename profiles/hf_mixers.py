"""Attention of one layer, counted from a config: grouped-query, latent (MLA), latent with an index (DSA).

Symbols: H hidden size, q and k heads, d head size, dv value head size, r ranks. Counts only; the rules were
read from the implementation each family record names.
"""

from infopt.profiles.families import Family
from infopt.profiles.geometry import Mixer, MixerKind
from infopt.profiles.hf_keys import Keys


def attention(keys: Keys, family: Family, kind: MixerKind) -> Mixer:
    """The attention of a layer of `kind` (`full`, `window`, `chunked`, `latent`, `indexed`)."""
    renames = family.kind_keys.get(kind, {})
    keys = keys.for_kind(renames) if renames else keys
    if family.attention == "grouped":
        return grouped_query(keys, family, kind)
    return latent(keys, family, kind)


def qk_norm_params(keys: Keys, family: Family, q: int, kv: int, d: int) -> int:
    """Norms on queries and keys: one head-sized vector each, or one for every head."""
    if family.qk_norm == "none" or not keys.switch(family.qk_norm_when):
        return 0
    width = 2 * d if family.qk_norm == "head" else q * d + kv * d
    return width * (2 if family.qk_norm_bias else 1)


def grouped_query(keys: Keys, family: Family, kind: MixerKind) -> Mixer:
    """Q, K, V, O projections: H q d + H k d + H k dv + q dv H, with biases, norms, gate and sinks as the family says."""
    hidden, q, kv = keys.count("hidden"), keys.count("q_heads"), keys.count("kv_heads")
    d = keys.count("head_dim")
    dv = keys.maybe("v_head_dim") or d
    if q % kv:
        raise keys.error(f"{q} attention heads are not a multiple of {kv} key-value heads")
    key_params, value_params = hidden * kv * d, hidden * kv * dv
    if kind == "full" and keys.switch(family.shared_kv_value):
        value_params = 0
    gate = 0
    if family.output_gate != "none" and keys.switch(family.output_gate_when):
        gate = hidden * q * (dv if family.output_gate == "elementwise" else 1)
    small = qk_norm_params(keys, family, q, kv, d)
    if keys.switch(family.qkv_bias):
        small += q * d + kv * (d + dv)
    small += hidden if keys.switch(family.o_bias) else 0
    small += q if keys.switch(family.sinks) else 0
    return Mixer(
        kind=kind,
        linear_params=hidden * q * d + key_params + value_params + gate + q * dv * hidden,
        small_params=small,
        kv_linear_params=key_params + value_params,
        q_heads=q,
        kv_heads=kv,
        qk_dim=d,
        v_dim=dv,
        window_tokens=window_tokens(keys, kind),
    )


def window_tokens(keys: Keys, kind: MixerKind) -> int | None:
    """Cap of a sliding window, or the length of a chunk."""
    if kind == "window":
        return keys.count("sliding_window")
    if kind == "chunked":
        return keys.count("attention_chunk_size")
    return None


def latent(keys: Keys, family: Family, kind: MixerKind) -> Mixer:
    """Latent attention: Q through rank rq (or straight), K and V from one latent of rank rkv + rope.

    The down projections are whole on every tensor-parallel rank, as the cache is: they are the
    `kv_linear_params`, and `kv_heads` is 1.
    """
    hidden, q = keys.count("hidden"), keys.count("q_heads")
    nope, rope, dv = keys.count("qk_nope_head_dim", 0), keys.count("qk_rope_head_dim"), keys.count("v_head_dim")
    rkv, rq = keys.count("kv_lora_rank"), keys.maybe("q_lora_rank")
    down = hidden * (rkv + rope)
    small = rkv
    if rq:
        down += hidden * rq
        small += rq
    query = (rq or hidden) * q * (nope + rope)
    linear = down + query + rkv * q * (nope + dv) + q * dv * hidden
    if family.output_gate == "elementwise" and keys.switch(family.output_gate_when):
        linear += hidden * q * dv
    if keys.switch(family.qkv_bias):
        small += rkv + rope + (rq or 0)
    small += hidden if keys.switch(family.o_bias) else 0
    index = kind == "indexed"
    index_heads = keys.count("index_n_heads") if index else 0
    index_dim = keys.count("index_head_dim") if index else 0
    return Mixer(
        kind=kind,
        linear_params=linear,
        small_params=small,
        indexer_params=_indexer(keys, hidden, rq or hidden, index_heads, index_dim) if index else 0,
        kv_linear_params=down,
        q_heads=q,
        kv_heads=1,
        qk_dim=nope + rope,
        v_dim=dv,
        latent_dim=rkv + rope,
        index_dim=index_dim,
        index_heads=index_heads,
        index_topk=keys.count("index_topk") if index else 0,
    )


def _indexer(keys: Keys, hidden: int, rank: int, heads: int, dim: int) -> int:
    """Query from the query latent, one key per token with its norm, and a weight per index head."""
    return rank * heads * dim + hidden * dim + 2 * dim + hidden * heads
