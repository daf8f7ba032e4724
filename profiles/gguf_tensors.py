"""What each tensor of a GGUF file is: its layer, its role, and the parameters and bytes it adds to a part.

Names decide the role (`data/gguf/tensors.yaml`); shapes decide the counts. A name nobody listed is an error, never a
guess: a new kind of layer would otherwise be priced as if it were not there.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from infopt.errors import InfoptError
from infopt.profiles.gguf_header import DATA, TensorInfo, tensor_types
from infopt.records import read_yaml

_BLOCK = re.compile(r"blk\.(\d{1,5})\.(.+)")
_EXPERT_OF_OLD_FILES = re.compile(r"(ffn_(?:gate|up|down))\.\d{1,5}")
_SUFFIXES = ("weight", "bias", "scale", "input_scale")


@dataclass(frozen=True, slots=True)
class TensorName:
    """A tensor's name taken apart: layer (None for the whole model), bare name, suffix."""

    layer: int | None
    bare: str
    suffix: str

    @property
    def prefix(self) -> str:
        return "" if self.layer is None else f"blk.{self.layer}."


def parse_name(name: str) -> TensorName:
    """`blk.3.attn_q.weight` as (3, attn_q, weight); old files' `ffn_up.7` (expert 7) reads as `ffn_up_exps`."""
    match = _BLOCK.match(name)
    layer, inner = (int(match.group(1)), match.group(2)) if match else (None, name)
    bare, _, suffix = inner.rpartition(".")
    if suffix not in _SUFFIXES:
        bare, suffix = inner, "weight"
    old = _EXPERT_OF_OLD_FILES.fullmatch(bare) if match else None
    return TensorName(layer, f"{old.group(1)}_exps" if old else bare, suffix)


@dataclass(slots=True)
class Block:
    """One layer: its tensors by bare name (several where experts are stored one by one) and parameters by role."""

    layer: int
    tensors: dict[str, TensorInfo] = field(default_factory=dict)
    pieces: dict[str, int] = field(default_factory=dict)
    params: dict[str, int] = field(default_factory=dict)

    def has(self, *names: str) -> bool:
        return any(name in self.tensors for name in names)

    def count(self, role: str) -> int:
        return self.params.get(role, 0)

    def outputs(self, name: str) -> int:
        """Outputs of a matrix, all slices together."""
        tensor = self.tensors[name]
        return tensor.elements // tensor.shape[0]


class TensorTable:
    """All tensors of a model sorted into layers and parts.

    blocks      layers by number, MTP layers behind the decoder's
    model       tensors outside layers by bare name
    params, stored   parameters and bytes by part
    packed_params  of `params`, those in a block format
    by_type     bytes of matrices by tensor type
    """

    def __init__(self, where: str, layers: int, tensors: Sequence[TensorInfo]) -> None:
        self.layers = layers
        self.blocks: dict[int, Block] = {}
        self.model: dict[str, TensorInfo] = {}
        self.params: dict[str, int] = {}
        self.stored: dict[str, int] = {}
        self.packed_params: dict[str, int] = {}
        self.by_type: dict[str, int] = {}
        self._types = {tensor.name: tensor.type for tensor in tensors}
        unknown = [tensor.name for tensor in tensors if not self._sort(tensor, parse_name(tensor.name))]
        if unknown:
            raise InfoptError(f"{where}: unknown tensors {some(unknown)}: this architecture's geometry is not known "
                              "(profiles/data/gguf/tensors.yaml lists what is)")  # fmt: skip

    def _sort(self, tensor: TensorInfo, name: TensorName) -> bool:
        """Count one tensor where it belongs; False when its name is unknown."""
        role = role_of(name)
        if role is None:
            return False
        if name.layer is not None and name.layer >= self.layers:
            role = "mtp"
        elif name.suffix != "weight" or len(tensor.shape) == 1:
            role = _as_vector(role)
        counted = tensor.elements if self._is_parameter(name, role) else 0
        if name.layer is None:
            self.model.setdefault(name.bare, tensor)
        else:
            block = self.blocks.setdefault(name.layer, Block(name.layer))
            block.params[role] = block.count(role) + counted
            if name.suffix == "weight":
                block.tensors[name.bare] = tensor
                block.pieces[name.bare] = block.pieces.get(name.bare, 0) + 1
        self._add(_part(role), tensor, counted)
        return True

    def _is_parameter(self, name: TensorName, role: str) -> bool:
        """Not a position table, not the scale of a block format, not a second copy of a matrix."""
        scale = name.suffix in ("scale", "input_scale")
        if scale and self._types.get(f"{name.prefix}{name.bare}.weight") == "nvfp4":
            return False
        # The latent's up-projection is stored whole, or split into its halves; some files hold both.
        twice = name.bare == "attn_kv_b" and f"{name.prefix}attn_k_b.weight" in self._types
        return role != "buffer" and not twice

    def _add(self, part: str, tensor: TensorInfo, counted: int) -> None:
        self.stored[part] = self.stored.get(part, 0) + tensor.stored_bytes
        self.params[part] = self.params.get(part, 0) + counted
        if len(tensor.shape) > 1:
            self.by_type[tensor.type] = self.by_type.get(tensor.type, 0) + tensor.stored_bytes
        if tensor.type in packed_types():
            self.packed_params[part] = self.packed_params.get(part, 0) + counted


@cache
def packed_types() -> frozenset[str]:
    """Tensor types that store weights in blocks with a scale."""
    return frozenset(name for name, weights, _ in tensor_types().values() if weights > 1)


def layers_present(tensors: Iterable[TensorInfo]) -> set[int]:
    """Numbers of the layers that have tensors."""
    return {int(match.group(1)) for tensor in tensors if (match := _BLOCK.match(tensor.name))}


def role_of(name: TensorName) -> str | None:
    """Role of a tensor in `data/gguf/tensors.yaml`, None for a name that is not listed."""
    found = _roles()[name.layer is not None].get(name.bare)
    if found is None and name.layer is None and name.bare.startswith(tuple(_table()["vision_prefixes"])):
        return "vision"
    return found


def some(names: Sequence[str], at_most: int = 4) -> str:
    """A few names of many, for a message of one line."""
    rest = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + rest


def _as_vector(role: str) -> str:
    """Where a bias or a one-axis weight of that role is counted."""
    vectors = {
        "attention": "mixer_small",
        "mlp": "feed_forward_small",
        "shared_expert": "feed_forward_small",
        "expert": "expert_small",
    }
    return vectors.get(role, role)


def _part(role: str) -> str:
    """The part of geometry.PARTS a role belongs to."""
    if role == "shared_gate":
        return "shared_expert"
    return "small" if role.endswith("_small") or role in ("norm", "buffer") else role


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_yaml(DATA / "tensors.yaml")
    return table


@cache
def _roles() -> dict[bool, dict[str, str]]:
    """Bare name -> role, for tensors of a layer (True) and of the whole model (False)."""
    keys = ((True, "block"), (False, "model"))
    return {inside: {n: role for role, names in _table()[key].items() for n in names} for inside, key in keys}
