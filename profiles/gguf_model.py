"""A GGUF file as a ModelProfile: geometry from the tensors of each layer, exact parameters and bytes by part.

Shapes decide every count; metadata supplies what shapes cannot say (heads, experts per token, windows). An architecture
needs no entry anywhere as long as its tensors are known and its decisive keys present; otherwise it is refused with the
names that are missing.
"""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from infopt.errors import InfoptError
from infopt.profiles.geometry import (
    FeedForward,
    FeedForwardKind,
    LayerRun,
    Mixer,
    MixerKind,
    ModelProfile,
    Quantization,
    StateTensor,
)
from infopt.profiles.gguf_header import GgufHeader, file_types, read_gguf_header
from infopt.profiles.gguf_keys import Keys, conventions, layer_windows, refuse_other_models
from infopt.profiles.gguf_tensors import Block, TensorTable, layers_present, packed_types, some

_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_MAX_SHARDS = 1024
_COMPUTE_BITS = 16
_PLAIN_TYPES = frozenset({"f32", "f16", "bf16"})
_CONVOLUTIONS = ("ssm_conv1d", "ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v", "shortconv.conv")


def profile_from_gguf(path: str, *, id: str | None = None) -> ModelProfile:
    """The model in a GGUF file, or in all shards of a split of which any is given.

    Errors: InfoptError for a malformed file, a missing shard, a model that is no decoder, an unknown architecture with
    unknown tensors; UndeterminedError where a decisive fact is in no key.
    """
    headers = [read_gguf_header(shard) for shard in split_files(path)]
    name = id or _SPLIT.sub("", os.path.basename(path)).removesuffix(".gguf")
    return profile_from_headers(headers, id=name, source=path)


def split_names(name: str) -> list[str]:
    """Names of every shard of the split that `name` belongs to, in order; `name` alone where it is no shard."""
    match = _SPLIT.search(name)
    if match is None:
        return [name]
    number, count = int(match.group(1)), int(match.group(2))
    if not 1 <= number <= count <= _MAX_SHARDS:
        raise InfoptError(f"{name}: shard {number} of {count} is not a split infopt reads")
    return [f"{name[: match.start()]}-{shard:05d}-of-{count:05d}.gguf" for shard in range(1, count + 1)]


def split_files(path: str) -> list[str]:
    """Local files of a split, all present."""
    shards = split_names(path)
    missing = [os.path.basename(shard) for shard in shards if not os.path.exists(shard)]
    if missing and len(shards) > 1:
        raise InfoptError(f"{path}: {len(missing)} of {len(shards)} shards are not beside it: {some(missing)}")
    return shards


def profile_from_headers(headers: Sequence[GgufHeader], *, id: str, source: str) -> ModelProfile:
    """The model described by the headers of all its shards, the first of which carries the metadata."""
    stated = headers[0].metadata.get("split.count", 0)
    if stated not in (0, len(headers)):
        raise InfoptError(f"{source}: is one of {stated} shards but {len(headers)} were found; their names must end in "
                          "-00001-of-0000N.gguf")  # fmt: skip
    keys = Keys(source, headers[0].metadata)
    refuse_other_models(keys)
    tensors = [tensor for header in headers for tensor in header.tensors]
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise InfoptError(f"{source}: two shards hold a tensor of the same name")
    layers, mtp_layers = _count_layers(keys, layers_present(tensors))
    table = TensorTable(keys.where, layers, tensors)
    return _assemble(keys, table, mtp_layers, id)


def _count_layers(keys: Keys, present: set[int]) -> tuple[int, int]:
    """Decoder layers and MTP layers, on which metadata and tensors must agree."""
    blocks, nextn = keys.count("block_count"), keys.count("nextn_predict_layers", default=0)
    if not present or nextn >= blocks or len(present) != max(present) + 1:
        raise keys.error(f"block_count {blocks} does not fit the {len(present)} layers that have tensors")
    if len(present) == blocks - nextn:  # converted without the MTP layers it names
        return len(present), 0
    if len(present) != blocks:
        raise keys.error(f"block_count is {blocks}, tensors make {len(present)} layers")
    return blocks - nextn, nextn


def _assemble(keys: Keys, table: TensorTable, mtp_layers: int, id: str) -> ModelProfile:
    embedding = table.model.get("token_embd")
    if embedding is None or len(embedding.shape) != 2 or embedding.shape[0] != keys.count("embedding_length"):
        raise keys.error("no token_embd.weight of embedding_length columns")
    hidden, vocab = embedding.shape
    dtype, quantization = _format(keys, table)
    layers = _layers(keys, table, hidden, dtype)
    mtp = [_mixer(keys, table.blocks[table.layers + n], hidden, dtype) for n in range(mtp_layers)]
    return ModelProfile(
        id=id,
        architecture=str(keys.arch),
        hidden=hidden,
        vocab=vocab,
        max_position_tokens=keys.count("context_length", default=0) or None,
        runs=_merged(layers),
        embed_params=table.params.get("embedding", 0),
        head_params=table.params.get("head", 0),
        small_params=table.params.get("small", 0) - sum(_small_of_layer(layer) for layer in layers),
        extra_params={part: table.params[part] for part in ("vision", "mtp") if table.params.get(part)},
        mtp_layers=mtp_layers,
        mtp_cache_elements_per_token=sum(mixer.cache_elements_per_token for mixer in mtp),
        compute_dtype=dtype,
        quantization=quantization,
        stored_bytes=table.stored,
        source=keys.source,
        source_kind="gguf",
        notes=_notes(keys, table),
    )


def _small_of_layer(layer: LayerRun) -> int:
    ff = layer.feed_forward
    return layer.mixer.small_params + ff.small_params + ff.experts * ff.expert_small_params + layer.norm_params


def _layers(keys: Keys, table: TensorTable, hidden: int, dtype: str) -> list[LayerRun]:
    windows = layer_windows(keys, table.layers)
    chunked = conventions()["windows"].get(keys.arch, {}).get("chunked", False)
    fixed = conventions()["layers_with_cache"].get(keys.arch)
    own_cache = fixed or table.layers - keys.count("attention.shared_kv_layers", default=0)
    layers = []
    for number in range(table.layers):
        block, window = table.blocks[number], windows[number]
        kind: MixerKind = "full" if window is None else "chunked" if chunked else "window"
        mixer = _mixer(keys, block, hidden, dtype, "shared" if number >= own_cache else kind, window)
        layers.append(LayerRun(1, mixer, _feed_forward(keys, block), block.count("norm")))
    return layers


def _mixer(
    keys: Keys, block: Block, hidden: int, dtype: str, kind: MixerKind = "full", window: int | None = None
) -> Mixer:
    """The token mixer that the layer's tensors make: latent, recurrent, attention, attention beside a scan, or none."""
    if block.has("attn_kv_a_mqa"):
        return _latent(keys, block)
    linear, small = block.count("attention"), block.count("mixer_small")
    recurrent = block.has("ssm_out", *_CONVOLUTIONS)
    beside = block.has("attn_k") and not block.has("ssm_conv1d_q")  # a delta-rule layer has keys, but no cache of them
    attends = beside or (block.has("attn_qkv", "attn_q") and not recurrent)
    if not attends and not recurrent:
        return Mixer("none", linear, small)
    if not attends:
        return _recurrence(keys, block, dtype)
    scan = _recurrence(keys, block, dtype) if recurrent else Mixer("none")
    heads = _heads(keys, block, hidden)
    return Mixer(
        kind,
        linear,
        small,
        kv_linear_params=heads.kv_params,
        q_heads=heads.q_heads,
        kv_heads=heads.kv_heads,
        qk_dim=heads.qk_dim,
        v_dim=heads.v_dim,
        window_tokens=window,
        state=scan.state,
        variant=scan.variant,
    )


class _Heads(NamedTuple):
    """Attention shape of one layer."""

    q_heads: int
    kv_heads: int
    qk_dim: int
    v_dim: int
    kv_params: int


def _heads(keys: Keys, block: Block, hidden: int) -> _Heads:
    """Attention shape from the projections, checked against the head counts of the metadata."""
    q_heads = keys.count("attention.head_count", block.layer)
    kv_heads = keys.count("attention.head_count_kv", block.layer, q_heads)
    if not q_heads or not kv_heads or q_heads % kv_heads:
        raise keys.error(f"layer {block.layer}: {q_heads} query heads over {kv_heads} KV heads")
    if block.has("attn_k"):
        k_rows = block.outputs("attn_k")
        v_rows = block.outputs("attn_v") if block.has("attn_v") else k_rows  # no V matrix: V is K
        qk_dim, v_dim = k_rows // kv_heads, v_rows // kv_heads
        q_rows = block.outputs("attn_q") if block.has("attn_q") else 0
        kv_params = sum(block.tensors[name].elements for name in ("attn_k", "attn_v") if block.has(name))
        whole = k_rows % kv_heads == 0 and v_rows % kv_heads == 0
    elif block.has("attn_qkv"):
        qk_dim = keys.count("attention.key_length", block.layer, hidden // q_heads)
        v_dim = keys.count("attention.value_length", block.layer, qk_dim)
        q_rows = block.outputs("attn_qkv") - kv_heads * (qk_dim + v_dim)
        kv_params, whole = kv_heads * (qk_dim + v_dim) * hidden, True
    else:  # only queries: the layer reads the cache of an earlier one
        q_rows, kv_params = block.outputs("attn_q"), 0
        qk_dim = v_dim = q_rows // q_heads
        whole = q_rows % q_heads == 0
    # Twice the rows: an output gate beside the queries.
    if not whole or not qk_dim or q_rows not in (q_heads * qk_dim, 2 * q_heads * qk_dim):
        raise keys.error(f"layer {block.layer}: {q_rows} query rows are not {q_heads} heads of {qk_dim} over "
                         f"{kv_heads} KV heads")  # fmt: skip
    return _Heads(q_heads, kv_heads, qk_dim, v_dim, kv_params)


def _latent(keys: Keys, block: Block) -> Mixer:
    """Latent attention: what is cached is what the down-projection puts out, rank + rope."""
    heads, latent = keys.count("attention.head_count", block.layer), block.outputs("attn_kv_a_mqa")
    rank, rope = keys.count("attention.kv_lora_rank"), keys.count("rope.dimension_count", default=0)
    if not heads or (rope and rank + rope != latent):
        raise keys.error(f"layer {block.layer}: a latent of {latent} is not kv_lora_rank {rank} + rope {rope}")
    queries = "attn_q_b" if block.has("attn_q_b") else "attn_q"
    if not block.has(queries) or not block.has("attn_output"):
        raise keys.error(f"layer {block.layer}: latent attention without {queries} or attn_output")
    topk, own = keys.count("attention.indexer.top_k", default=0), block.has("indexer.attn_k")  # some layers share one
    return Mixer(
        "indexed" if topk else "latent",
        block.count("attention"),
        block.count("mixer_small"),
        block.count("indexer"),
        kv_linear_params=sum(block.tensors[n].elements for n in ("attn_q_a", "attn_kv_a_mqa") if block.has(n)),
        q_heads=heads,
        kv_heads=1,
        qk_dim=block.outputs(queries) // heads,
        v_dim=block.tensors["attn_output"].shape[0] // heads,
        latent_dim=latent,
        latent_rank=rank,
        index_dim=block.outputs("indexer.attn_k") if own else 0,
        index_heads=keys.count("attention.indexer.head_count") if own else 0,
        index_topk=topk,
    )


def _recurrence(keys: Keys, block: Block, dtype: str) -> Mixer:
    """What a recurrent layer keeps: `kernel - 1` inputs of each convolution, and the state matrix of the scan."""
    convolutions = [block.tensors[name] for name in _CONVOLUTIONS if block.has(name)]
    tail = sum(conv.elements // conv.shape[0] * (conv.shape[0] - 1) for conv in convolutions)
    kept = (StateTensor("conv", tail, dtype),) if tail else ()
    linear, small = block.count("attention"), block.count("mixer_small")
    if block.has("shortconv.conv"):
        return Mixer("recurrent", linear, small, state=kept, variant="short_conv")
    if block.has("ssm_conv1d_v"):
        inner, state = block.outputs("ssm_conv1d_v"), keys.count("kda.head_dim")
        heads = groups = inner // max(state, 1)
        variant = "kda"
    else:
        inner, state = keys.count("ssm.inner_size"), keys.count("ssm.state_size")
        heads, groups = keys.count("ssm.time_step_rank"), keys.count("ssm.group_count", default=1)
        variant = "gated_delta" if block.has("ssm_ba", "ssm_beta") else "mamba1" if block.has("ssm_x") else "mamba2"
    if variant == "mamba1":  # there the time-step rank is no number of heads: every channel is one
        heads, groups = inner, 1
    if not inner or not state or not heads or inner % heads:
        raise keys.error(f"layer {block.layer}: ssm.inner_size {inner} over {heads} heads with a state of {state}")
    return Mixer(
        "recurrent",
        linear,
        small,
        q_heads=heads,
        kv_heads=groups,
        qk_dim=state,
        v_dim=inner // heads,
        state=(StateTensor("ssm", inner * state, "fp32"), *kept),
        variant=variant,
    )


def _feed_forward(keys: Keys, block: Block) -> FeedForward:
    mlp, small = block.count("mlp"), block.count("feed_forward_small")
    shared = block.count("shared_expert") + block.count("shared_gate")
    down = block.tensors.get("ffn_down_exps")
    if down is None:
        width = block.tensors["ffn_down"].shape[0] if block.has("ffn_down") else 0
        kind: FeedForwardKind = "dense" if mlp or shared else "none"
        router = block.count("router")
        return FeedForward(
            kind, mlp, shared_params=shared, router_params=router, small_params=small, intermediate=width
        )
    experts = block.pieces["ffn_down_exps"] if len(down.shape) == 2 else down.shape[-1]
    stated, used = keys.count("expert_count", block.layer), keys.count("expert_used_count", block.layer)
    if stated != experts or not 0 < used <= experts:
        raise keys.error(f"layer {block.layer}: tensors of {experts} experts, expert_count {stated}, {used} per token")
    return FeedForward(
        "mixture",
        mlp,
        experts=experts,
        experts_per_token=used,
        expert_params=block.count("expert") // experts,
        expert_small_params=block.count("expert_small") // experts,
        shared_params=shared,
        router_params=block.count("router"),
        small_params=small,
        intermediate=down.shape[0],
    )


def _format(keys: Keys, table: TensorTable) -> tuple[str, Quantization | None]:
    """Compute type and quantization: the name from `general.file_type`, the parts and their bits from the tensors."""
    dominant = max(table.by_type, key=lambda name: table.by_type[name])
    dtype = "bf16" if dominant == "bf16" else "fp16"
    packed = {name: size for name, size in table.by_type.items() if name in packed_types()}
    mostly = [part for part, count in table.packed_params.items() if 2 * count > table.params[part]]
    if not packed or not mostly:  # llama.cpp computes and caches in 16 bits whatever the file holds
        return dtype, Quantization("fp32", frozenset(table.params), 32.0) if dominant == "f32" else None
    name = file_types().get(keys.metadata.get("general.file_type", -1), dominant)
    if name in _PLAIN_TYPES or dominant in _PLAIN_TYPES:  # then the label is not about the packed parts
        name = max(packed, key=lambda kind: packed[kind])
    bits = {part: 8 * size / table.params[part] for part, size in table.stored.items() if table.params[part]}
    mean = 8 * sum(table.stored[part] for part in mostly) / sum(table.params[part] for part in mostly)
    other = frozenset(part for part, size in bits.items() if size != _COMPUTE_BITS)
    return dtype, Quantization(name, other, bits_per_weight=mean, part_bits={part: bits[part] for part in other})


def _notes(keys: Keys, table: TensorTable) -> tuple[str, ...]:
    notes = []
    latent = next((block for block in table.blocks.values() if block.has("attn_kv_a_mqa")), None)
    if latent is not None and not latent.has("attn_k_b"):
        notes.append("an old conversion (attn_kv_b not split): llama.cpp caches expanded heads instead of the latent "
                     "counted here")  # fmt: skip
    window = keys.get("attention.sliding_window")
    if window and keys.arch in conventions()["window_ignored"] and keys.get("attention.sliding_window_pattern") is None:
        notes.append(f"the file names a window of {window} tokens that llama.cpp does not apply to {keys.arch}")
    return tuple(notes)


def _merged(layers: Sequence[LayerRun]) -> tuple[LayerRun, ...]:
    """Equal neighbours as one run."""
    runs: list[LayerRun] = []
    for layer in layers:
        last = runs[-1] if runs else None
        same = last and (last.mixer, last.feed_forward, last.norm_params) == (
            layer.mixer, layer.feed_forward, layer.norm_params)  # fmt: skip
        if last and same:
            runs[-1] = LayerRun(last.layers + 1, last.mixer, last.feed_forward, last.norm_params)
        else:
            runs.append(layer)
    return tuple(runs)
