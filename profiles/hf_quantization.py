"""`quantization_config` of a checkpoint: which format each part is stored in.

A checkpoint converts some matrices and keeps others (listed names, whole layers) in the compute type; some mix two
formats. The answer is one format name, the parts it covers, and the mean bits of parts that differ from it.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from infopt.frozen import dataclass
from infopt.profiles.families import Family
from infopt.profiles.formats import load_weight_format
from infopt.profiles.geometry import LayerRun, Quantization
from infopt.profiles.hf_keys import Keys
from infopt.profiles.hf_modules import Patterns, Unit, layer_units, other_units

NESTED = ("quantization_config", "compression_config", "quantization")
_IGNORE = ("ignore", "modules_to_not_convert", "exclude_modules", "llm_int8_skip_modules", "ignored_layers",
           "modules_to_not_quantize", "not_quantized")  # fmt: skip
# Quantizers that convert the head only where they say so.
_HEAD_CONVERTED = ("compressed-tensors", "modelopt")
_INT_NAMES = {8: "int8", 4: "int4", 3: "int3", 2: "int2"}
_ALGORITHMS = {
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_PB_WO": "fp8_block", "MXFP8": "mxfp8", "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4", "W4A16_NVFP4": "nvfp4", "W4A8_NVFP4_FP8": "nvfp4",
    "MXFP4": "mxfp4", "W4A8_MXFP4_FP8": "mxfp4",
    "W4A16_AWQ": "int4_awq", "INT4_AWQ": "int4_awq", "W4A8_AWQ": "int4_awq",
    "INT8_SQ": "int8", "W8A8_SQ_PER_CHANNEL": "int8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scheme:
    """One format and the modules it is applied to (none given: every matrix).

    bits   including scales; None takes the format's
    """

    format: str
    bits: float | None = None
    targets: Patterns | None = None

    @property
    def bits_per_weight(self) -> float:
        return self.bits if self.bits is not None else _format_bits(self.format)


@cache
def _format_bits(name: str) -> float:
    return load_weight_format(name).bits_per_weight


@dataclass(frozen=True, slots=True)
class Counted:
    """What the checkpoint holds: the layers, the record that names their modules, and what stands outside them."""

    record: Family
    runs: tuple[LayerRun, ...]
    head_params: int
    mtp_params: int
    dtype: str


def quantization(config: Mapping[str, Any], keys: Keys, held: Counted) -> Quantization | None:
    """How the checkpoint is stored, or None when it is in its compute type."""
    declared = _declared(config, keys)
    if declared is None:
        return None
    method = _method(declared, keys)
    schemes = _schemes(method, declared, keys)
    base = _format_bits(held.dtype)
    bits: dict[str, float] = {}  # of all weights of a part
    sizes: dict[str, int] = {}
    used: dict[str, tuple[int, Scheme]] = {}  # weights stored in each format
    for times, unit, ignored in _units(held, schemes, declared, keys):
        scheme = None if ignored else _scheme_of(unit, method, schemes, declared)
        params = times * unit.params
        bits[unit.part] = bits.get(unit.part, 0.0) + params * (scheme.bits_per_weight if scheme else base)
        sizes[unit.part] = sizes.get(unit.part, 0) + params
        if scheme:
            before, first = used.get(scheme.format, (0, scheme))
            used[scheme.format] = (before + params, first)
    if not used:
        return None
    main = max(used.values(), key=lambda entry: entry[0])[1]
    means = {part: bits[part] / sizes[part] for part in sizes}
    covered = frozenset(part for part, mean in means.items() if mean < base)
    return Quantization(
        format="fp8" if main.format == "mxfp8" else main.format,
        parts=covered,
        bits_per_weight=main.bits,
        kv_format=_kv_format(declared, keys),
        part_bits={part: means[part] for part in covered if abs(means[part] - main.bits_per_weight) > 1e-9},
    )


def _units(
    held: Counted, schemes: list[Scheme], declared: Mapping[str, Any], keys: Keys
) -> Iterator[tuple[int, Unit, bool]]:
    """(how many times, matrices, whether the checkpoint leaves them as they were) for every group of matrices."""
    ignored = Patterns(_ignore_list(declared, keys), keys)
    lists = [ignored, *(scheme.targets for scheme in schemes if scheme.targets is not None)]
    layers = sum(run.layers for run in held.runs)
    for patterns in lists:
        patterns.refuse_costly(layers)
    for times, units in layer_units(held.runs, keys.count("hidden"), lists, held.record.modules):
        yield from ((times, unit, ignored.match(unit)) for unit in units)
    yield from ((1, unit, ignored.match(unit)) for unit in other_units(layers, held.head_params, held.mtp_params))


def _declared(config: Mapping[str, Any], keys: Keys) -> Mapping[str, Any] | None:
    found = next((place[name] for name in NESTED for place in (config, keys.config) if place.get(name)), None)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise keys.error("quantization_config is not an object")
    inner = found.get("quantization")  # as in hf_quant_config.json
    found = {**found, **inner} if isinstance(inner, Mapping) else found
    expert_dtype = keys.config.get("expert_dtype")
    return {**found, "expert_dtype": expert_dtype} if expert_dtype else found


def _method(declared: Mapping[str, Any], keys: Keys) -> str:
    method = declared.get("quant_method")
    if method is None and (declared.get("quant_algo") or declared.get("quantized_layers")):
        return "modelopt"
    if method is None and (declared.get("load_in_4bit") or declared.get("load_in_8bit")):
        return "bitsandbytes"
    if not isinstance(method, str):
        raise keys.error("quantization_config has no quant_method")
    if declared.get("quant_algo") == "MIXED_PRECISION":
        return "modelopt"
    method = method.lower().replace("_", "-")
    return {"modelopt-fp4": "modelopt", "modelopt-fp8": "modelopt", "compressed-tensors": "compressed-tensors"}.get(
        method, method
    )


def _schemes(method: str, declared: Mapping[str, Any], keys: Keys) -> list[Scheme]:
    """The formats a method applies, most specific targets first."""
    if method in ("fp8", "fbgemm-fp8"):
        return [_fp8(declared, keys)]
    if method == "mxfp4":
        return [Scheme("mxfp4")]
    if method in ("gptq", "awq", "auto-round", "intel/auto-round", "gptqmodel", "autoround", "moe-wna16"):
        return [_grouped_integer(method, declared, keys)]
    if method == "bitsandbytes":
        return [_bitsandbytes(declared)]
    if method == "eetq":
        return [Scheme("int8")]
    if method == "modelopt":
        return _modelopt(declared, keys)
    if method == "compressed-tensors":
        return _compressed_tensors(declared, keys)
    known = "fp8, fbgemm_fp8, compressed-tensors, gptq, awq, auto-round, bitsandbytes, mxfp4, modelopt, eetq"
    raise keys.error(f"quant_method {method[:40]!r} is not known; known: {known}")


def _number(declared: Mapping[str, Any], names: tuple[str, ...], keys: Keys) -> int | None:
    for name in names:
        value = declared.get(name)
        if value is not None:
            if type(value) is not int or not -1 <= value <= 1_000_000:
                raise keys.error(f"quantization_config.{name} is {str(value)[:30]!r}, expected a whole number")
            return value
    return None


def _fp8(declared: Mapping[str, Any], keys: Keys) -> Scheme:
    block = declared.get("weight_block_size")
    if block is None:
        return Scheme("fp8")
    if not (isinstance(block, list) and len(block) == 2 and all(type(n) is int and 0 < n < 100_000 for n in block)):
        raise keys.error("quantization_config.weight_block_size is not two positive numbers")
    return Scheme("fp8_block", None if block == [128, 128] else 8 + 32 / (block[0] * block[1]))


def _grouped_integer(method: str, declared: Mapping[str, Any], keys: Keys) -> Scheme:
    """b bits, and per group an fp16 scale and a b-bit zero point."""
    bits = _number(declared, ("bits", "w_bit", "num_bits"), keys)
    if bits not in _INT_NAMES:
        raise keys.error(f"quantization_config.bits is {bits}, expected one of 2, 3, 4, 8")
    group = _number(declared, ("group_size", "q_group_size"), keys)
    name = {"gptq": "int4_gptq", "gptqmodel": "int4_gptq", "awq": "int4_awq"}.get(method, "int4")
    overhead = (16 + bits) / group if group is not None and group > 0 else 0.0
    return Scheme(name if bits == 4 else _INT_NAMES[bits], bits + overhead)


def _bitsandbytes(declared: Mapping[str, Any]) -> Scheme:
    """4 bits with an absmax per 64 weights, in fp32 or quantized again; or 8 bits."""
    if declared.get("load_in_8bit") is True:
        return Scheme("int8")
    double = declared.get("bnb_4bit_use_double_quant") is True
    return Scheme("nf4", None if double else 4 + 32 / 64)


def _modelopt(declared: Mapping[str, Any], keys: Keys) -> list[Scheme]:
    layers = declared.get("quantized_layers")
    if isinstance(layers, Mapping) and layers:
        by_algorithm: dict[str, list[object]] = {}
        for module, what in layers.items():
            algorithm = what.get("quant_algo") if isinstance(what, Mapping) else what
            by_algorithm.setdefault(str(algorithm), []).append(module)
        return [_algorithm(name, keys, Patterns(modules, keys)) for name, modules in by_algorithm.items()]
    if declared.get("quant_algo"):
        return [_algorithm(str(declared["quant_algo"]), keys, None)]
    return _compressed_tensors(declared, keys)


def _algorithm(name: str, keys: Keys, targets: Patterns | None) -> Scheme:
    upper = name.upper()
    if upper not in _ALGORITHMS:
        raise keys.error(f"quant_algo {name[:40]!r} is not known; known: {', '.join(sorted(_ALGORITHMS))}")
    found = _ALGORITHMS[upper]
    return Scheme("mxfp8", 8.25, targets) if found == "mxfp8" else Scheme(found, None, targets)


def _compressed_tensors(declared: Mapping[str, Any], keys: Keys) -> list[Scheme]:
    groups = declared.get("config_groups")
    if groups is None and isinstance(declared.get("weights"), Mapping):
        groups = {"group_0": declared}
    if not isinstance(groups, Mapping) or not groups:
        raise keys.error("quantization_config has no config_groups")
    return [_group(group, keys) for group in groups.values()]


def _group(group: Any, keys: Keys) -> Scheme:
    """One group: number of bits, integer or float, scale granularity, and the modules it targets."""
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping):
        raise keys.error("quantization_config has a group without weights")
    bits, size = _number(weights, ("num_bits",), keys), _number(weights, ("group_size",), keys)
    targets = group.get("targets") or []
    if not isinstance(targets, list):
        raise keys.error("quantization_config has a group whose targets are not a list")
    plain = [t for t in targets if not (isinstance(t, str) and t[:1].isupper())]
    chosen = Patterns(plain, keys) if plain and len(plain) == len(targets) else None
    if weights.get("type") == "float" and bits == 4:
        return Scheme("mxfp4" if size == 32 else "nvfp4", None, chosen)
    if weights.get("type") == "float" and bits == 8:
        block = weights.get("block_structure")
        return Scheme("fp8_block" if isinstance(block, list) else "fp8", None, chosen)
    if bits not in _INT_NAMES:
        raise keys.error(f"quantization_config stores weights in {bits} bits, expected 2, 3, 4 or 8")
    zero = 0 if weights.get("symmetric", True) else bits
    overhead = (16 + zero) / size if size is not None and size > 0 else 0.0
    return Scheme(_INT_NAMES[bits], bits + overhead, chosen)


def _ignore_list(declared: Mapping[str, Any], keys: Keys) -> list[object]:
    found: Any = next((declared[name] for name in _IGNORE if declared.get(name)), [])
    if not isinstance(found, list):
        raise keys.error("quantization_config has a list of modules that is not a list")
    return found


def _scheme_of(unit: Unit, method: str, schemes: list[Scheme], declared: Mapping[str, Any]) -> Scheme | None:
    """The scheme that converts a unit, if any does."""
    if method == "mxfp4" and unit.part != "expert":
        return None
    if unit.part == "expert" and declared.get("expert_dtype") == "fp4":  # beside fp8: e8m0 scale per 32 weights
        return Scheme("mxfp4")
    head_asked = declared.get("lm_head") is True or method in _HEAD_CONVERTED
    for scheme in schemes:
        if scheme.targets is not None:
            if scheme.targets.match(unit):
                return scheme
        elif unit.part != "head" or head_asked:
            return scheme
    return None


def _kv_format(declared: Mapping[str, Any], keys: Keys) -> str | None:
    """Cache format the checkpoint asks for."""
    scheme = declared.get("kv_cache_quant_algo") or declared.get("kv_cache_scheme")
    if scheme is None:
        return None
    if isinstance(scheme, Mapping):
        described = f"{scheme.get('type')} {scheme.get('num_bits')}"
        name = {"float 8": "fp8", "int 8": "int8", "float 4": "nvfp4"}.get(described)
    else:
        name = {"FP8": "fp8", "NVFP4": "nvfp4", "INT8": "int8"}.get(str(scheme).upper())
    if name is None:
        raise keys.error(f"quantization_config asks for a KV cache format that is not known: {str(scheme)[:60]}")
    return name
