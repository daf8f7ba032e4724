"""A Hugging Face checkpoint on disk: geometry from config.json, bytes and parameters from the safetensors headers.

Packed formats are recognised by types and companions, never by a name in a config: `F8_E4M3` with a scale is fp8, 4-bit
blocks beside `_scales` are MXFP4, `qweight` with `qzeros` is AWQ or GPTQ by its shape, `U8` with two scales is NVFP4.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from infopt.errors import InfoptError
from infopt.profiles.files import read_json_file, shown
from infopt.profiles.geometry import ModelProfile, Quantization
from infopt.profiles.safetensors_header import (
    INDEX_ENDING,
    StoredTensor,
    missing_shards,
    read_indexed,
    read_safetensors_header,
    tensor_table,
)

_PLAIN = frozenset({"F16", "BF16", "F32", "F64"})
_FP8 = frozenset({"F8_E4M3", "F8_E5M2"})
_KEEP_VECTORS = frozenset({"router", "indexer", "vision", "mtp", "embedding", "head"})
_CACHE_SCALES = ("k_scale", "v_scale", "q_scale", "kv_scale", "prob_output_scale")


@dataclass(slots=True)
class Checkpoint:
    """What the headers of a checkpoint hold.

    stored_bytes, params   by part; parameters with packing undone
    packed_params          of `params`, those stored in a packed format
    formats                bytes by packed format
    uncounted              packed tensors whose parameters no shape tells
    unknown                tensors no rule names (counted as `small`)
    """

    stored_bytes: dict[str, int] = field(default_factory=dict)
    params: dict[str, int] = field(default_factory=dict)
    packed_params: dict[str, int] = field(default_factory=dict)
    formats: dict[str, int] = field(default_factory=dict)
    uncounted: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, part: str, stored_bytes: int, params: int, packed: str | None) -> None:
        self.stored_bytes[part] = self.stored_bytes.get(part, 0) + stored_bytes
        self.params[part] = self.params.get(part, 0) + params
        if packed is not None:
            self.packed_params[part] = self.packed_params.get(part, 0) + params
            self.formats[packed] = self.formats.get(packed, 0) + stored_bytes

    @property
    def quantization(self) -> Quantization | None:
        """The format most packed bytes are in, the parts mostly in it, and their exact bits per weight."""
        parts = [part for part, packed in self.packed_params.items() if 2 * packed > self.params[part]]
        weights = sum(self.params[part] for part in parts)
        if not weights or self.uncounted:
            return None
        mean = 8 * sum(self.stored_bytes[part] for part in parts) / weights
        bits = {part: 8 * self.stored_bytes[part] / self.params[part] for part in parts}
        name = max(self.formats, key=lambda packed: self.formats[packed])
        return Quantization(name, frozenset(parts), bits_per_weight=mean, part_bits=bits)


def profile_from_folder(folder: str, *, id: str | None = None, partial: bool = False) -> ModelProfile:
    """The model in a local folder: config.json, and the headers of its safetensors files where there are any.

    partial  whether weights may be missing, as in a cache that holds what was downloaded: then a note says so
    Errors: InfoptError for a folder without config.json, missing shards, malformed files.
    """
    config_path = os.path.join(folder, "config.json")
    if not os.path.lexists(config_path):
        adapter = os.path.lexists(os.path.join(folder, "adapter_config.json"))
        what = "is a LoRA adapter: give its base model" if adapter else "has neither a config.json nor a GGUF file"
        raise InfoptError(f"{folder}: {what}")
    weights, name = weight_file(folder), id or folder_name(folder)
    absent = missing_shards(weights) if partial and weights is not None and weights.endswith(INDEX_ENDING) else []
    if absent:
        profile = profile_from_files(config_path, None, id=name)
        note = f"{len(absent)} weight files are not downloaded: bytes are counted from config.json"
        return replace(profile, notes=(*profile.notes, note))
    return profile_from_files(config_path, weights, id=name)


def profile_from_files(config_path: str, weights: str | None, *, id: str) -> ModelProfile:
    """The model of a config and, where given, a safetensors file or index."""
    from infopt.profiles.hf_config import profile_from_config

    config = read_json_file(config_path)
    profile = profile_from_config(config, id=id, source=config_path, source_kind="file")
    if weights is None:
        return profile
    tensors = read_indexed(weights) if weights.endswith(INDEX_ENDING) else read_safetensors_header(weights)
    return with_checkpoint(profile, read_checkpoint(tensors, profile.layers, config))


def profile_from_weights(path: str) -> ModelProfile:
    """The model whose safetensors file or index is given; config.json must be beside it."""
    folder = os.path.dirname(path)
    config_path = os.path.join(folder, "config.json")
    if not os.path.exists(config_path):
        raise InfoptError(f"{path}: needs the model's config.json beside it (a header holds no heads and no windows)")
    return profile_from_files(config_path, path, id=folder_name(folder))


def folder_name(folder: str) -> str:
    """A name for the model in a folder: the folder's own, the repository's inside a hub cache."""
    absolute = os.path.abspath(folder)
    cached = re.search(r"models--([^/]+?)--([^/]+)/snapshots/[^/]+$", absolute)
    return f"{cached.group(1)}/{cached.group(2)}" if cached else os.path.basename(absolute) or "model"


def weight_file(folder: str) -> str | None:
    """The index or the single safetensors file that describes a folder's weights, None where there is none."""
    names = sorted(entry for entry in os.listdir(folder) if entry.endswith((".safetensors", INDEX_ENDING)))
    for wanted in ("model" + INDEX_ENDING, "model.safetensors"):
        if wanted in names:
            return os.path.join(folder, wanted)
    indexes = [name for name in names if name.endswith(INDEX_ENDING)]
    found = indexes or [name for name in names if not name.startswith("adapter_")]
    if len(found) > 1:
        raise InfoptError(f"{folder}: {len(found)} safetensors files and no model{INDEX_ENDING} to say which are the "
                          f"model: {', '.join(map(shown, found[:4]))}; name one")  # fmt: skip
    return os.path.join(folder, found[0]) if found else None


def with_checkpoint(profile: ModelProfile, held: Checkpoint) -> ModelProfile:
    """`profile` with what its files really hold: bytes by part, packed format, MTP and vision parameters."""
    notes = list(profile.notes)
    extra = {part: held.params[part] for part in ("vision", "mtp") if held.params.get(part)}
    text = sum(count for part, count in held.params.items() if part not in extra)
    repeated_head = held.params.get("head", 0) if profile.tied else 0
    if repeated_head:
        notes.append("the files repeat the tied head; engines load it once")
    if held.uncounted:
        notes.append(f"{len(held.uncounted)} packed tensors of a layout infopt does not unpack ({held.uncounted[0]}): "
                     "parameters are those of config.json")  # fmt: skip
        extra = dict(profile.extra_params)
    elif text - repeated_head != profile.params_total:
        notes.append(f"the files hold {text - repeated_head:,} parameters, config.json makes {profile.params_total:,}")
    if held.unknown:
        notes.append(f"{len(held.unknown)} tensors of unknown role count as small ({held.unknown[0]})")
    if profile.quantization is not None and held.quantization is None and not held.uncounted:
        notes.append(f"config.json asks for {profile.quantization.format}, the files are not packed: counted as stored")
    quantization = held.quantization or (profile.quantization if held.uncounted else None)
    if quantization is not None and profile.quantization is not None:
        quantization = replace(quantization, kv_format=profile.quantization.kv_format)
    return replace(
        profile,
        stored_bytes=dict(held.stored_bytes),
        extra_params=extra,
        mtp_layers=profile.mtp_layers if extra.get("mtp") else 0,
        mtp_cache_elements_per_token=profile.mtp_cache_elements_per_token if extra.get("mtp") else 0,
        quantization=quantization,
        notes=tuple(notes),
    )


def read_checkpoint(tensors: Iterable[StoredTensor], layers: int, config: Mapping[str, Any]) -> Checkpoint:
    """Bytes and parameters by part of a checkpoint's tensors.

    layers  decoder layers; tensors of later layers are multi-token prediction
    config  the parsed config.json, for the bits of formats whose shapes do not tell them
    """
    owners: dict[str, dict[str, StoredTensor]] = {}
    for tensor in tensors:
        owner, role = owner_of(tensor.name)
        if owners.setdefault(owner, {}).setdefault(role, tensor) is not tensor:
            raise InfoptError(f"tensor {tensor.name[:80]!r} is stored twice, in two files")
    held = Checkpoint()
    bits = declared_bits(config)
    for owner, pieces in owners.items():
        _count(held, owner, pieces, layers, bits)
    if "expert" not in held.params:  # a "shared" MLP with nothing routed beside it is the MLP
        for counts in (held.stored_bytes, held.params, held.packed_params):
            if "shared_expert" in counts:
                counts["mlp"] = counts.get("mlp", 0) + counts.pop("shared_expert")
    return held


def _count(held: Checkpoint, owner: str, pieces: dict[str, StoredTensor], layers: int, bits: int | None) -> None:
    """Add one weight with its companions, or each piece by itself where nothing is packed."""
    packed = packed_format(pieces, bits)
    if packed is None:
        for role, tensor in pieces.items():
            _count_plain(held, owner, role, tensor, layers)
        return
    name, params = packed
    bias = pieces.pop("bias", None)
    if bias is not None:
        _count_plain(held, owner, "bias", bias, layers)
    if params is None:
        held.uncounted.append(owner)
    stored = sum(tensor.stored_bytes for tensor in pieces.values())
    held.add(_part(held, owner, layers), stored, params or 0, name)


def _count_plain(held: Checkpoint, owner: str, role: str, tensor: StoredTensor, layers: int) -> None:
    part = _part(held, f"{owner}.bias" if role == "bias" else owner, layers)
    if len(tensor.shape) <= 1 and part not in _KEEP_VECTORS:
        part = "small"
    number = tensor.dtype in _PLAIN or tensor.dtype in _FP8  # else position tables and the like
    params = tensor.elements if number and role not in _CACHE_SCALES else 0
    held.add(part, tensor.stored_bytes, params, "fp8" if tensor.dtype in _FP8 else None)


def packed_format(pieces: Mapping[str, StoredTensor], bits: int | None) -> tuple[str, int | None] | None:
    """(format, parameters) of a packed weight with its companions; None where the weight is stored plainly.

    Parameters are None where the shapes do not tell them and no bits are declared.
    """
    weight = pieces.get("weight") or pieces.get("weight_packed")
    if "qweight" in pieces:
        return _integer_packed(pieces)
    if "blocks" in pieces and "scales" in pieces:
        return "mxfp4", 2 * pieces["blocks"].elements
    if weight is None or weight.dtype in _PLAIN:
        return None
    scale = (
        pieces.get("weight_scale_inv") or pieces.get("weight_scale") or pieces.get("scale") or pieces.get("scale_inv")
    )
    if weight.dtype in _FP8 and scale is not None:
        return "fp8_block" if len(scale.shape) == 2 and scale.shape[-1] > 1 else "fp8", weight.elements
    if weight.dtype == "F4":
        return "nvfp4" if "weight_scale_2" in pieces else "mxfp4", weight.elements
    if weight.dtype == "U8" and any(role.startswith("absmax") for role in pieces):
        return "nf4", 2 * weight.elements
    if weight.dtype in ("U8", "I8") and scale is not None:
        return _byte_packed(weight, scale, pieces)
    if weight.dtype in ("I32", "U32"):
        named = {2: "int2", 3: "int3", 4: "int4", 8: "int8"}.get(bits or 0, "packed")
        return named, weight.elements * 32 // bits if bits else None
    return None


def _byte_packed(weight: StoredTensor, scale: StoredTensor, pieces: Mapping[str, StoredTensor]) -> tuple[str, int]:
    """Two 4-bit weights a byte, or one of 8 bits: told by the scale's type and how many weights share one."""
    group = weight.shape[-1] // max(scale.shape[-1], 1) if scale.shape else 0
    if scale.dtype == "F8_E4M3" or "weight_scale_2" in pieces or "weight_global_scale" in pieces:
        return "nvfp4", 2 * weight.elements
    if scale.dtype in ("F8_E8M0", "U8") and group == 16:  # 32 weights of 4 bits in 16 bytes
        return "mxfp4", 2 * weight.elements
    return "int8", weight.elements


def _integer_packed(pieces: Mapping[str, StoredTensor]) -> tuple[str, int | None]:
    """AWQ packs columns, GPTQ rows; how many weights share 32 bits follows from the zero points."""
    weight, scales, zeros = pieces["qweight"], pieces.get("scales"), pieces.get("qzeros")
    if scales is None or zeros is None or len(scales.shape) != 2 or len(zeros.shape) != 2 or not scales.shape[1]:
        return "packed", None
    bits, left = divmod(32 * zeros.shape[1], scales.shape[1])
    if left or not 1 <= bits <= 8:
        return "packed", None
    by_columns = weight.shape[-1] != scales.shape[1]
    name = {4: "int4_awq" if by_columns else "int4_gptq", 8: "int8", 3: "int3", 2: "int2"}.get(bits, f"int{bits}")
    return name, weight.elements * 32 // bits


def declared_bits(config: Mapping[str, Any]) -> int | None:
    """Bits of one weight as the config's quantization states them (compressed-tensors groups, MLX, plain `bits`)."""
    for key in ("quantization_config", "quantization", "compression_config"):
        declared = config.get(key)
        if not isinstance(declared, Mapping):
            continue
        groups = declared.get("config_groups")
        first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
        weights = (first if isinstance(first, Mapping) else declared).get("weights")
        places = (weights if isinstance(weights, Mapping) else {}, declared)
        found = [place[name] for place in places for name in ("num_bits", "bits", "w_bit") if name in place]
        if found and type(found[0]) is int and 1 <= found[0] <= 16:
            return found[0]
    return None


def owner_of(name: str) -> tuple[str, str]:
    """(weight a tensor belongs to, what it is of it): `x.weight_scale` is (x, weight_scale), `x_blocks` (x, blocks)."""
    nested = re.match(r"(.+)\.weight\.(absmax|quant_map|nested_absmax|nested_quant_map|quant_state\..+)$", name)
    if nested:
        return nested.group(1), nested.group(2)
    owner, _, last = name.rpartition(".")
    if last in _suffixes():
        return owner, last
    packed = re.match(r"(.+)_(blocks|scales)$", name)
    return (packed.group(1), packed.group(2)) if packed else (name, "")


@cache
def _suffixes() -> frozenset[str]:
    return frozenset(tensor_table()["suffixes"])


@cache
def _rules() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((part, re.compile(pattern)) for part, pattern in tensor_table()["rules"])


@cache
def _layer_pattern() -> re.Pattern[str]:
    return re.compile(tensor_table()["layer"])


def part_of(name: str, layers: int) -> str | None:
    """The part of geometry.PARTS a weight belongs to, by its name; None where no rule names it."""
    found = next((part for part, pattern in _rules() if pattern.search(name)), None)
    layer = _layer_pattern().search(name)
    if found != "vision" and layer is not None and int(layer.group(1)) >= layers:
        return "mtp"
    return found


def _part(held: Checkpoint, name: str, layers: int) -> str:
    part = part_of(name, layers)
    if part is None:
        held.unknown.append(name)
        return "small"
    return part
