"""A small dense decoder in torch: the geometry of a model, with random or real weights, and a static KV cache.

One forward pass takes [B, N] tokens behind `start` cached ones: N = 1 decodes, N > 1 verifies or reads a prompt.

    per layer:  x += W_o attention(rope(W_qkv norm(x)), cache);  x += W_down (silu(W_gate n) * W_up n),  n = norm(x)
    logits = W_head norm(x)

Query, key and value matrices are one product, gate and up another, as serving engines fuse them. Grouped queries read
their keys once. Covered: Llama, Mistral, Qwen2 (biases), Qwen3 (norms of queries and keys), tied heads, full attention.
"""

from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.probes.runtime import Runtime
from infopt.profiles.geometry import ModelProfile

ROPE_THETA = 10_000.0  # of random weights: any base costs the same time


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a dense decoder with grouped-query attention.

    rope_factors  what each of the head_dim / 2 frequencies is divided by (Llama 3.1's long contexts), None: 1
    """

    layers: int
    hidden: int
    q_heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    qk_norm: bool = False
    qkv_bias: bool = False
    rope_theta: float = ROPE_THETA
    eps: float = 1e-5
    rope_factors: tuple[float, ...] | None = None

    @property
    def qkv(self) -> int:
        """Rows of the fused query, key and value matrix."""
        return (self.q_heads + 2 * self.kv_heads) * self.head_dim

    @property
    def layer_params(self) -> int:
        """Matrix parameters of one layer."""
        attention = self.hidden * (self.qkv + self.q_heads * self.head_dim)
        return attention + 3 * self.hidden * self.intermediate

    @property
    def head_params(self) -> int:
        return self.vocab * self.hidden

    def read_params(self, layers: int | None = None) -> int:
        """Matrix parameters one pass reads: layers and head, the input embedding left out."""
        return (self.layers if layers is None else layers) * self.layer_params + self.head_params

    def kv_elements(self, layers: int | None = None) -> int:
        """Cached numbers of one token."""
        return 2 * (self.layers if layers is None else layers) * self.kv_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer; matrices are [out, in]."""

    norm: Any
    qkv: Any
    out: Any
    ff_norm: Any
    gate_up: Any
    down: Any
    qkv_bias: Any = None
    q_norm: Any = None
    k_norm: Any = None


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights; `head` is `embedding` where tied."""

    embedding: Any
    head: Any
    norm: Any
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """Where the tokens of a pass stand: behind `start`, up to `end`, with their rotations and what they may see."""

    start: int
    end: int
    cos: Any
    sin: Any
    mask: Any


def shape_of(model: ModelProfile) -> Shape:
    """Sizes of a catalogue model.

    Errors: InfoptError for one that is not dense with full attention in every layer: its step is not built here.
    """
    groups = model.groups
    mixer, ff = groups[0].mixer, groups[0].feed_forward
    if len(groups) > 1 or mixer.kind != "full" or ff.kind != "dense" or mixer.qk_dim != mixer.v_dim:
        kinds = ", ".join(sorted({g.mixer.kind for g in groups} | {g.feed_forward.kind for g in groups}))
        raise InfoptError(
            f"{model.id}: probes build dense models with full attention in every layer, this one has {kinds} layers; "
            "measure a dense one of about its size, as in --model 8b"
        )
    if ff.mlp_params != 3 * model.hidden * ff.intermediate:
        raise InfoptError(f"{model.id}: probes build gated feed-forwards of three matrices, this one has others")
    return Shape(
        layers=model.layers,
        hidden=model.hidden,
        q_heads=mixer.q_heads,
        kv_heads=mixer.kv_heads,
        head_dim=mixer.qk_dim,
        intermediate=ff.intermediate,
        vocab=model.vocab,
        tied=model.tied,
        qk_norm=mixer.qk_norm,
    )


def random_weights(runtime: Runtime, shape: Shape, dtype: Any, layers: int | None = None, seed: int = 0) -> Weights:
    """Random weights, small enough that activations stay finite; the first `layers` only where given."""
    torch = runtime.torch
    generator = torch.Generator(device=runtime.device).manual_seed(seed)
    # One random block, repeated: drawing billions of numbers on a CPU would take longer than the probe.
    block = (torch.rand(1 << 22, generator=generator, device=runtime.device) - 0.5).to(dtype) * 0.04

    def matrix(rows: int, columns: int) -> Any:
        flat = torch.empty(rows * columns, dtype=dtype, device=runtime.device)
        for start in range(0, flat.numel(), block.numel()):
            piece = flat[start : start + block.numel()]
            piece.copy_(block[: piece.numel()])
        return flat.view(rows, columns)

    def ones(size: int) -> Any:
        return torch.ones(size, dtype=dtype, device=runtime.device)

    def layer() -> Layer:
        return Layer(
            norm=ones(shape.hidden),
            qkv=matrix(shape.qkv, shape.hidden),
            out=matrix(shape.hidden, shape.q_heads * shape.head_dim),
            ff_norm=ones(shape.hidden),
            gate_up=matrix(2 * shape.intermediate, shape.hidden),
            down=matrix(shape.hidden, shape.intermediate),
            q_norm=ones(shape.head_dim) if shape.qk_norm else None,
            k_norm=ones(shape.head_dim) if shape.qk_norm else None,
        )

    embedding = matrix(shape.vocab, shape.hidden)
    count = shape.layers if layers is None else layers
    # A head of its own is another matrix of the same size: read it from its own place.
    head = embedding if shape.tied else matrix(shape.vocab, shape.hidden)
    return Weights(embedding, head, ones(shape.hidden), tuple(layer() for _ in range(count)))


class Cache:
    """Keys and values of every layer, [B, kv_heads, length, head_dim], allocated once."""

    def __init__(self, runtime: Runtime, shape: Shape, batch: int, length: int, dtype: Any, layers: int) -> None:
        torch = runtime.torch
        size = (batch, shape.kv_heads, length, shape.head_dim)
        self.length = length
        self.keys = [torch.zeros(size, dtype=dtype, device=runtime.device) for _ in range(layers)]
        self.values = [torch.zeros(size, dtype=dtype, device=runtime.device) for _ in range(layers)]

    def fill_random(self, runtime: Runtime, seed: int = 1) -> None:
        """As if a context had been read: attention over zeros may be faster than over numbers."""
        generator = runtime.torch.Generator(device=runtime.device).manual_seed(seed)
        for tensor in (*self.keys, *self.values):
            tensor.uniform_(-1, 1, generator=generator)


class Decoder:
    """The forward pass of one shape with one set of weights."""

    def __init__(self, runtime: Runtime, shape: Shape, weights: Weights, max_tokens: int) -> None:
        torch = runtime.torch
        self.runtime, self.shape, self.weights = runtime, shape, weights
        half = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
        frequencies = shape.rope_theta**-half
        if shape.rope_factors is not None:
            frequencies = frequencies / torch.tensor(shape.rope_factors, dtype=torch.float64)
        angles = torch.outer(torch.arange(max_tokens, dtype=torch.float64), frequencies)
        angles = torch.cat((angles, angles), -1)
        dtype = weights.embedding.dtype
        self.cos, self.sin = (f().to(device=runtime.device, dtype=dtype) for f in (angles.cos, angles.sin))

    def cache(self, batch: int, length: int) -> Cache:
        """An empty cache for every layer there is."""
        dtype = self.weights.embedding.dtype
        return Cache(self.runtime, self.shape, batch, length, dtype, len(self.weights.layers))

    def forward(self, tokens: Any, cache: Cache, start: int, layers: int | None = None, last: bool = False) -> Any:
        """Logits [B, N, vocab] of [B, N] tokens behind `start` cached ones, whose keys and values are written.

        layers  only the first of them: an early exit, or one piece of a model;  last  logits of the last token alone
        """
        used = self.weights.layers if layers is None else self.weights.layers[:layers]
        x = self.weights.embedding[tokens]
        end = start + tokens.shape[1]
        at = Position(start, end, self.cos[start:end], self.sin[start:end], self._mask(start, tokens.shape[1]))
        for i, layer in enumerate(used):
            x = x + self._attention(self._norm(x, layer.norm), layer, cache.keys[i], cache.values[i], at)
            x = x + self._feed_forward(self._norm(x, layer.ff_norm), layer)
        if last:
            x = x[:, -1:]
        return self.runtime.torch.nn.functional.linear(self._norm(x, self.weights.norm), self.weights.head)

    def _norm(self, x: Any, weight: Any) -> Any:
        return self.runtime.torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, self.shape.eps)

    def _feed_forward(self, x: Any, layer: Layer) -> Any:
        functional = self.runtime.torch.nn.functional
        gate, up = functional.linear(x, layer.gate_up).chunk(2, -1)
        return functional.linear(functional.silu(gate) * up, layer.down)

    def _mask(self, start: int, count: int) -> Any:
        """Which cached tokens each query of a group sees, [group x count, end]; None where it is all or all before."""
        if count == 1 or start == 0:
            return None
        torch, group = self.runtime.torch, self.shape.q_heads // self.shape.kv_heads
        rows = torch.arange(count, device=self.runtime.device).unsqueeze(1) + start
        seen = torch.arange(start + count, device=self.runtime.device).unsqueeze(0) <= rows
        return seen.repeat(group, 1)

    def _attention(self, x: Any, layer: Layer, keys: Any, values: Any, at: Position) -> Any:
        torch, shape = self.runtime.torch, self.shape
        batch, count = x.shape[:2]
        qkv = torch.nn.functional.linear(x, layer.qkv, layer.qkv_bias)
        heads = qkv.view(batch, count, shape.q_heads + 2 * shape.kv_heads, shape.head_dim).transpose(1, 2)
        q, k, v = heads.split((shape.q_heads, shape.kv_heads, shape.kv_heads), 1)
        if layer.q_norm is not None:
            q, k = self._norm(q, layer.q_norm), self._norm(k, layer.k_norm)
        q, k = rotate(q, at.cos, at.sin, torch), rotate(k, at.cos, at.sin, torch)
        keys[:, :, at.start : at.end] = k
        values[:, :, at.start : at.end] = v
        mixed = self._mix(q, keys[:, :, : at.end], values[:, :, : at.end], at)
        return torch.nn.functional.linear(mixed.transpose(1, 2).reshape(batch, count, -1), layer.out)

    def _mix(self, q: Any, k: Any, v: Any, at: Position) -> Any:
        """softmax(q k' / sqrt(d)) v; behind a cache, the queries of a group are one block, so keys are read once."""
        attention = self.runtime.torch.nn.functional.scaled_dot_product_attention
        batch, heads, count, size = q.shape
        if count > 1 and at.start == 0:
            return attention(q, k, v, is_causal=True, enable_gqa=True)
        grouped = q.reshape(batch, self.shape.kv_heads, -1, size)
        return attention(grouped, k, v, attn_mask=at.mask).view(batch, heads, count, size)


def rotate(x: Any, cos: Any, sin: Any, torch: Any) -> Any:
    """Rotary position embedding, halves rotated against each other."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin
