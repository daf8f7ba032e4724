"""Real weights into the decoder of `probes`: from tensors named as a Hugging Face folder or a GGUF file names them."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.probes.decoder import Layer, Shape, Weights

# Role -> name of the tensor; {} is the layer.
HUGGING_FACE = {
    "embedding": "model.embed_tokens.weight",
    "head": "lm_head.weight",
    "norm": "model.norm.weight",
    "attention_norm": "model.layers.{}.input_layernorm.weight",
    "q": "model.layers.{}.self_attn.q_proj.weight",
    "k": "model.layers.{}.self_attn.k_proj.weight",
    "v": "model.layers.{}.self_attn.v_proj.weight",
    "out": "model.layers.{}.self_attn.o_proj.weight",
    "q_bias": "model.layers.{}.self_attn.q_proj.bias",
    "k_bias": "model.layers.{}.self_attn.k_proj.bias",
    "v_bias": "model.layers.{}.self_attn.v_proj.bias",
    "q_norm": "model.layers.{}.self_attn.q_norm.weight",
    "k_norm": "model.layers.{}.self_attn.k_norm.weight",
    "ff_norm": "model.layers.{}.post_attention_layernorm.weight",
    "gate": "model.layers.{}.mlp.gate_proj.weight",
    "up": "model.layers.{}.mlp.up_proj.weight",
    "down": "model.layers.{}.mlp.down_proj.weight",
}
GGUF = {
    "embedding": "token_embd.weight",
    "head": "output.weight",
    "norm": "output_norm.weight",
    "attention_norm": "blk.{}.attn_norm.weight",
    "q": "blk.{}.attn_q.weight",
    "k": "blk.{}.attn_k.weight",
    "v": "blk.{}.attn_v.weight",
    "out": "blk.{}.attn_output.weight",
    "q_bias": "blk.{}.attn_q.bias",
    "k_bias": "blk.{}.attn_k.bias",
    "v_bias": "blk.{}.attn_v.bias",
    "q_norm": "blk.{}.attn_q_norm.weight",
    "k_norm": "blk.{}.attn_k_norm.weight",
    "ff_norm": "blk.{}.ffn_norm.weight",
    "gate": "blk.{}.ffn_gate.weight",
    "up": "blk.{}.ffn_up.weight",
    "down": "blk.{}.ffn_down.weight",
}


class Tensors(Protocol):
    """Tensors of a checkpoint, by name, in the type and on the device they are wanted in."""

    @property
    def where(self) -> str:
        """The file or folder, for messages."""
        ...

    @property
    def names(self) -> Collection[str]: ...

    def read(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Reader:
    """Tensors by role, their shapes checked."""

    torch: Any
    shape: Shape
    names: Mapping[str, str]
    tensors: Tensors

    def read(self, role: str, size: tuple[int, ...], layer: int = 0) -> Any:
        """One tensor; raises InfoptError where it is absent or of another shape."""
        name = self.names[role].format(layer)
        if name not in self.tensors.names:
            raise InfoptError(f"{self.tensors.where}: {name} is missing; fetch the whole model")
        tensor = self.tensors.read(name)
        if tuple(tensor.shape) != size:
            raise InfoptError(f"{self.tensors.where}: {name} is {tuple(tensor.shape)}, its config makes it {size}")
        return tensor

    def layer(self, index: int) -> Layer:
        """One layer, its matrices fused as the decoder has them."""
        shape = self.shape
        q, kv, wide = shape.q_heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.intermediate

        def fused(roles: tuple[str, ...], sizes: tuple[tuple[int, ...], ...]) -> Any:
            return self.torch.cat([self.read(role, size, index) for role, size in zip(roles, sizes, strict=True)])

        rows, biases = ((q, shape.hidden), (kv, shape.hidden), (kv, shape.hidden)), ((q,), (kv,), (kv,))
        head = (shape.head_dim,)
        return Layer(
            norm=self.read("attention_norm", (shape.hidden,), index),
            qkv=fused(("q", "k", "v"), rows),
            out=self.read("out", (shape.hidden, q), index),
            ff_norm=self.read("ff_norm", (shape.hidden,), index),
            gate_up=fused(("gate", "up"), ((wide, shape.hidden), (wide, shape.hidden))),
            down=self.read("down", (shape.hidden, wide), index),
            qkv_bias=fused(("q_bias", "k_bias", "v_bias"), biases) if shape.qkv_bias else None,
            q_norm=self.read("q_norm", head, index) if shape.qk_norm else None,
            k_norm=self.read("k_norm", head, index) if shape.qk_norm else None,
        )


def assemble(torch: Any, shape: Shape, names: Mapping[str, str], tensors: Tensors) -> Weights:
    """All weights of a checkpoint.

    Errors: InfoptError for a tensor that is missing, of another shape, or that the decoder has no place for: leaving it
    out would make another model.
    """
    reader = Reader(torch, shape, names, tensors)
    refuse_unused(shape, names, tensors)
    embedding = reader.read("embedding", (shape.vocab, shape.hidden))
    head = embedding if shape.tied else reader.read("head", (shape.vocab, shape.hidden))
    norm = reader.read("norm", (shape.hidden,))
    return Weights(embedding, head, norm, tuple(reader.layer(i) for i in range(shape.layers)))


def refuse_unused(shape: Shape, names: Mapping[str, str], tensors: Tensors) -> None:
    """Refuse a checkpoint with tensors of no role; rotary tables say nothing new, and a tied head may be repeated."""
    roles = set(names) - (set() if shape.qkv_bias else {"q_bias", "k_bias", "v_bias"})
    roles -= set() if shape.qk_norm else {"q_norm", "k_norm"}
    used = {names[role].format(i) for role in roles for i in range(shape.layers)}
    for name in sorted(tensors.names):
        if name not in used and not name.endswith("rotary_emb.inv_freq") and name != "rope_freqs.weight":
            raise InfoptError(
                f"{tensors.where}: holds {name[:80]}, which the decoder of this probe has no place for; "
                "it runs Llama, Mistral, Qwen2 and Qwen3"
            )


def parameters(weights: Weights) -> int:
    """Parameters, a tied head counted once."""
    tensors = [weights.embedding, weights.norm] + ([] if weights.head is weights.embedding else [weights.head])
    for layer in weights.layers:
        parts = (layer.norm, layer.qkv, layer.out, layer.ff_norm, layer.gate_up, layer.down)
        optional = (layer.qkv_bias, layer.q_norm, layer.k_norm)
        tensors += [*parts, *(tensor for tensor in optional if tensor is not None)]
    return sum(tensor.numel() for tensor in tensors)


def needed_parameters(shape: Shape) -> int:
    """Parameters of the matrices, before anything is read: what memory must hold."""
    return shape.layers * shape.layer_params + shape.head_params * (1 if shape.tied else 2)
