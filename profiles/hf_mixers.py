"""Attention of one layer, counted from a config: grouped-query, latent (MLA), latent with an index (DSA).

Symbols: H hidden size, q and k heads, d head size, dv value head size, r ranks. Counts only; the rules were
read from the implementation each family record names.
"""

from infopt.profiles.families import Family
from infopt.profiles.geometry import Mixer, MixerKind
from infopt.profiles.hf_keys import Keys


def attention(keys: Keys, family: Family, kind: MixerKind) -> Mixer:
    """The attention of a layer of `kind` (`full`, `window`, `chunked`, `shared`, `latent`, `indexed`)."""
    if family.attention == "grouped":
        return grouped_query(keys, family, kind)
    return latent(keys, family, kind)


def qk_norm_params(keys: Keys, family: Family, q: int, kv: int, d: int) -> int:
    """Norms on queries and keys: one head-sized vector each, or one for every head."""
    if family.qk_norm == "none" or not keys.switch(family.qk_norm_when):
        return 0
    own = 2 if kv else 1  # a layer that shares another's keys norms its queries only
    width = own * d if family.qk_norm == "head" else q * d + kv * d
    return width * (2 if family.qk_norm_bias else 1)


def grouped_query(keys: Keys, family: Family, kind: MixerKind) -> Mixer:
    """Q, K, V, O projections: H q d + H k d + H k dv + q dv H; biases, norms, gate, sinks as the family says.

    A query of low rank r costs H r + r q d and a norm of r. A layer that shares another's cache has no K and V.
    """
    hidden, q, kv = keys.count("hidden"), keys.count("q_heads"), keys.count("kv_heads")
    d = keys.count("head_dim")
    dv = keys.maybe("v_head_dim") or d
    if q % kv:
        raise keys.error(f"{q} attention heads are not a multiple of {kv} key-value heads")
    rank = keys.maybe("query_rank")
    query = hidden * rank + rank * q * d if rank else hidden * q * d
    own_kv = 0 if kind == "shared" else kv
    kv_width = own_kv * (d if keys.switch(family.shared_kv_value) else d + dv)
    key_value = hidden * kv_width
    norms = qk_norm_params(keys, family, q, own_kv, d)
    small = norms + (rank or 0)
    small += q * d + kv_width if keys.switch(family.qkv_bias) else 0
    small += q * dv if keys.switch(family.gate_bias) else 0
    small += hidden if keys.switch(family.o_bias) else 0
    small += q if keys.switch(family.sinks) else 0
    index_heads = keys.count("index_n_heads") if family.grouped_index else 0
    index_dim = keys.count("index_head_dim") if family.grouped_index else 0
    return Mixer(
        kind=kind,
        linear_params=query + key_value + gate_params(keys, family, q, dv) + q * dv * hidden,
        small_params=small + sum(keys.evaluate(term) for term in family.attention_small),
        indexer_params=hidden * (index_heads + 1) * index_dim + 2 * index_dim,
        kv_linear_params=key_value,
        q_heads=q,
        kv_heads=kv,
        qk_dim=d,
        v_dim=dv,
        qk_norm=norms > 0,
        window_tokens=window_tokens(keys, kind),
        index_dim=index_dim,
        index_heads=index_heads,
        index_topk=keys.count("index_topk_blocks") * keys.count("index_block_size") if family.grouped_index else 0,
    )


def gate_params(keys: Keys, family: Family, q: int, dv: int) -> int:
    """A gate on the attention output: one number per element, or per head."""
    if family.output_gate == "none" or not keys.switch(family.output_gate_when):
        return 0
    return keys.count("hidden") * q * (dv if family.output_gate == "elementwise" else 1)


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
    linear += gate_params(keys, family, q, dv)
    if keys.switch(family.qkv_bias):
        small += rkv + rope + (rq or 0)
    small += hidden if keys.switch(family.o_bias) else 0
    index = kind == "indexed" and keys.switch(family.own_index)
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
        latent_rank=rkv,
        index_dim=index_dim,
        index_heads=index_heads,
        index_topk=keys.count("index_topk") if kind == "indexed" else 0,
    )


def _indexer(keys: Keys, hidden: int, rank: int, heads: int, dim: int) -> int:
    """Query from the query latent, one key per token with its norm, and a weight per index head."""
    return rank * heads * dim + hidden * dim + 2 * dim + hidden * heads
