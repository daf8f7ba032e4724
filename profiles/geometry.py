"""What a decoder is made of: layers, their parameters and what they cache.

Every architecture is reduced to runs of equal layers. A layer mixes tokens (attention or
recurrence) and then transforms each token (feed-forward). The records hold counts only; bytes need
a format (`formats.py`) and a placement (`ledgers/`).
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from infopt.frozen import dataclass

MixerKind = Literal["full", "window", "chunked", "latent", "indexed", "recurrent", "shared", "none"]
FeedForwardKind = Literal["dense", "mixture", "none"]

# Parts a parameter can belong to. A weight format says which of them it covers.
PARTS = (
    "embedding",  # input token embedding (and per-layer embeddings): a gather, one row is read
    "head",  # output projection; 0 when tied to the embedding
    "attention",  # matrices of attention, latent attention and recurrent mixers
    "mlp",  # matrices of dense feed-forwards
    "expert",  # matrices of routed experts
    "shared_expert",  # matrices of experts that every token passes
    "router",
    "indexer",  # key index of sparse attention
    "small",  # norms, biases, convolutions, decay and gate vectors, position tables
    "vision",  # encoders and projectors of other modalities
    "mtp",  # multi-token-prediction layers: on disk, outside the headline count
)


@dataclass(frozen=True, slots=True)
class StateTensor:
    """Fixed-size recurrent state of one layer for one sequence.

    elements  numbers kept per sequence, whole layer (no parallelism)
    dtype     format the engine keeps it in; None follows the cache format
    """

    name: str
    elements: int
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Mixer:
    """The token-mixing half of one layer.

    linear_params   matrix weights (what quantization covers)
    small_params    norms, biases, convolutions, gates kept in the compute type
    indexer_params  the sparse-attention indexer, 0 elsewhere
    kv_linear_params  of linear_params, the K and V projections (replicated when TP > kv_heads); the
                    down projections of latent attention, whose kv_heads is 1, so that every rank holds them
    q_heads, kv_heads, qk_dim, v_dim  attention shape; qk_dim is the dot-product length
    qk_norm         queries and keys are normalized per head
    window_tokens   cap for `window` and chunk length for `chunked`
    latent_dim      elements cached per token by latent attention (rank + rope); never split by TP
    latent_rank     the rank alone: length of the value product when attention works on latents
    index_dim       elements of the index key cached per token by `indexed`
    index_heads, index_topk  indexer heads, and the tokens each query attends to
    state           recurrent state tensors (`recurrent`)
    variant         mamba1, mamba2, gated_delta, lightning, kda, ... for recurrent kinds
    """

    kind: MixerKind
    linear_params: int = 0
    small_params: int = 0
    indexer_params: int = 0
    kv_linear_params: int = 0
    q_heads: int = 0
    kv_heads: int = 0
    qk_dim: int = 0
    v_dim: int = 0
    qk_norm: bool = False
    window_tokens: int | None = None
    latent_dim: int = 0
    latent_rank: int = 0
    index_dim: int = 0
    index_heads: int = 0
    index_topk: int = 0
    state: tuple[StateTensor, ...] = ()
    variant: str | None = None

    @property
    def params(self) -> int:
        return self.linear_params + self.small_params + self.indexer_params

    @property
    def cache_elements_per_token(self) -> int:
        """Elements one cached token occupies, whole layer: 2 h d for attention, rank + rope for a latent."""
        if self.kind in ("full", "window", "chunked"):
            return self.kv_heads * (self.qk_dim + self.v_dim)
        if self.kind in ("latent", "indexed"):
            return self.latent_dim
        return 0


@dataclass(frozen=True, slots=True)
class FeedForward:
    """The per-token half of one layer.

    mlp_params        matrices of the dense part (0 for a pure mixture)
    experts, experts_per_token, expert_params   routed experts: E, k, matrices of one
    expert_small_params  biases of one routed expert
    shared_params     matrices of shared experts
    router_params     router matrix (and its bias)
    small_params      biases of the dense part
    intermediate      width of the dense part, or of one expert
    """

    kind: FeedForwardKind
    mlp_params: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_params: int = 0
    expert_small_params: int = 0
    shared_params: int = 0
    router_params: int = 0
    small_params: int = 0
    intermediate: int = 0

    @property
    def params(self) -> int:
        routed = self.experts * (self.expert_params + self.expert_small_params)
        return self.mlp_params + routed + self.shared_params + self.router_params + self.small_params

    @property
    def params_active(self) -> int:
        """Parameters one token touches: k experts in place of E."""
        routed = self.experts_per_token * (self.expert_params + self.expert_small_params)
        return self.mlp_params + routed + self.shared_params + self.router_params + self.small_params


@dataclass(frozen=True, slots=True)
class LayerRun:
    """`layers` equal consecutive layers."""

    layers: int
    mixer: Mixer
    feed_forward: FeedForward
    norm_params: int = 0

    @property
    def params_per_layer(self) -> int:
        return self.mixer.params + self.feed_forward.params + self.norm_params


@dataclass(frozen=True, slots=True)
class Quantization:
    """How a checkpoint is stored where that differs from its compute type.

    format         name in `profiles/data/formats` (fp8, fp8_block, int4_awq, int4_gptq, mxfp4, nvfp4, q4_k_m, ...)
    parts          the parts it covers; every other part stays in the compute type
    bits_per_weight  including scales and zero points, where the file says; None takes the format's
    kv_format      cache format the checkpoint itself asks for (a `kv_cache_scheme`), or None
    part_bits      mean bits per weight of covered parts that differ (a second format, layers left as they were)
    """

    format: str
    parts: frozenset[str]
    bits_per_weight: float | None = None
    kv_format: str | None = None
    part_bits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """One decoder, counted.

    runs              layers in order
    embed_params      input embedding; head_params is 0 when tied
    gathered_params   per-layer embeddings beside it: stored, but only one row each is read per token
    small_params      final norm, position tables
    extra_params      other stored parts: {"vision": n, "mtp": n}
    compute_dtype     bf16, fp16 or fp32: the type weights are computed in and `--kv auto` follows
    stored_bytes      exact checkpoint bytes by part where a file header was read, else empty
    unknown           what geometry cannot tell (an uncounted encoder, a cache of its own kind): no plan is certain then
    source, source_kind  where the geometry came from: file, hf_config_copy, vendor_table, ...
    """

    id: str
    architecture: str
    hidden: int
    vocab: int
    max_position_tokens: int | None
    runs: tuple[LayerRun, ...]
    embed_params: int
    head_params: int
    small_params: int = 0
    gathered_params: int = 0
    extra_params: Mapping[str, int] = field(default_factory=dict)
    mtp_layers: int = 0
    mtp_cache_elements_per_token: int = 0
    compute_dtype: str = "bf16"
    quantization: Quantization | None = None
    stored_bytes: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    source_kind: str = ""
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        return counted(self.runs).layers

    @property
    def experts(self) -> int:
        """Routed experts of a mixture layer, 0 for a dense model."""
        return counted(self.runs).experts

    @property
    def tied(self) -> bool:
        return self.head_params == 0

    @property
    def groups(self) -> tuple[LayerRun, ...]:
        """Equal layers merged whatever their place: what a person wants to read."""
        return counted(self.runs).groups

    @property
    def params_by_part(self) -> dict[str, int]:
        """Parameters by part, MTP and vision included; only parts that exist."""
        count = dict.fromkeys(PARTS, 0)
        count["embedding"] = self.embed_params + self.gathered_params
        count["head"], count["small"] = self.head_params, self.small_params
        for run in self.runs:
            mixer, ff, n = run.mixer, run.feed_forward, run.layers
            count["attention"] += n * mixer.linear_params
            count["indexer"] += n * mixer.indexer_params
            count["mlp"] += n * ff.mlp_params
            count["expert"] += n * ff.experts * ff.expert_params
            count["shared_expert"] += n * ff.shared_params
            count["router"] += n * ff.router_params
            count["small"] += n * (
                mixer.small_params + ff.small_params + ff.experts * ff.expert_small_params + run.norm_params
            )
        for part, extra in self.extra_params.items():
            count[part] += extra
        return {part: number for part, number in count.items() if number}

    @property
    def params_total(self) -> int:
        """The headline count: the text decoder, without MTP layers and other modalities."""
        return (
            self.embed_params + self.gathered_params + self.head_params + self.small_params + counted(self.runs).params
        )

    @property
    def params_active_with_embeddings(self) -> int:
        """Convention 1: every matrix a token touches, both embeddings counted whole."""
        return self.params_total - counted(self.runs).params_idle

    @property
    def params_active(self) -> int:
        """Convention 2: without the input embedding, of which a gather reads one row (tied: it is the head)."""
        return self.params_active_with_embeddings - self.gathered_params - (0 if self.tied else self.embed_params)

    @property
    def params_active_without_embeddings(self) -> int:
        """Convention 3: without input embedding and output head."""
        return self.params_active_with_embeddings - self.gathered_params - self.embed_params - self.head_params


@dataclass(frozen=True, slots=True)
class Counted:
    """What follows from the layers alone.

    params_idle  parameters of experts that a token does not pass
    """

    layers: int
    experts: int
    groups: tuple[LayerRun, ...]
    params: int
    params_idle: int


MOST_COUNTED = 256
_counted: dict[int, tuple[tuple[LayerRun, ...], Counted]] = {}


def counted(runs: tuple[LayerRun, ...]) -> Counted:
    """Sums over layers, made once for the same tuple: a search asks thousands of times for those of one model.

    Kept by identity, with the tuple itself so that no other can take its place: hashing layers by value is dear.
    """
    known = _counted.get(id(runs))
    if known is not None and known[0] is runs:
        return known[1]
    if len(_counted) >= MOST_COUNTED:
        _counted.clear()
    made = Counted(
        layers=sum(run.layers for run in runs),
        experts=max((run.feed_forward.experts for run in runs), default=0),
        groups=_merged(runs),
        params=sum(run.layers * run.params_per_layer for run in runs),
        params_idle=sum(run.layers * (run.feed_forward.params - run.feed_forward.params_active) for run in runs),
    )
    _counted[id(runs)] = (runs, made)
    return made


def _merged(runs: tuple[LayerRun, ...]) -> tuple[LayerRun, ...]:
    # By identity first: runs share these objects, and hashing them by value is dear.
    shared: dict[tuple[int, int, int], list[LayerRun]] = {}
    for run in runs:
        shared.setdefault((id(run.mixer), id(run.feed_forward), run.norm_params), []).append(run)
    merged: dict[tuple[Mixer, FeedForward, int], int] = {}
    for first, *rest in shared.values():
        key = (first.mixer, first.feed_forward, first.norm_params)
        merged[key] = merged.get(key, 0) + first.layers + sum(run.layers for run in rest)
    return tuple(LayerRun(n, mixer, ff, norms) for (mixer, ff, norms), n in merged.items())
