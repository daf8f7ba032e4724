"""Number formats of weights and of the KV cache: bits with their real overheads, and what they cover."""

from pathlib import Path

from infopt.errors import InfoptError, unknown_name
from infopt.profiles.geometry import PARTS, ModelProfile
from infopt.records import Record, load_record, names_in, read_yaml

_DATA = Path(__file__).parent / "data"
WEIGHTS = _DATA / "weights"
KV = _DATA / "kv"


class WeightFormat(Record):
    """How weights are stored.

    bits_per_weight  including scales and zero points
    parts            the parts of a model it covers; the others stay in the compute type
    compute          the type matrix products run in where the device has it (key of `peak_flop_per_s`)
    quality_share    [low, high] share of full-precision quality, where a source document says so
    """

    bits_per_weight: float
    parts: list[str]
    compute: str
    quality_share: list[float] | None = None
    note: str | None = None
    source: str

    @property
    def quality_range(self) -> tuple[float, float] | None:
        return (self.quality_share[0], self.quality_share[1]) if self.quality_share else None

    @property
    def covers_everything(self) -> bool:
        return len(self.parts) == len(PARTS)


class KvFormat(Record):
    """How cached keys and values are stored.

    bits_per_element        including block scales
    bytes_per_vector        extra bytes per cached head vector (a scale per token and head)
    latent_bytes_per_token  whole latent entry of one layer, where the format fixes it
    index_bytes_per_token   index key of one layer, where the format fixes it
    """

    bits_per_element: float
    bytes_per_vector: int = 0
    latent_bytes_per_token: int | None = None
    index_bytes_per_token: int | None = None
    source: str


def format_name(text: str, kind: str) -> str:
    """The record name for a spelling (`awq`, `FP8`, `Q4_K_M`, `float16`); kind is "weights" or "kv"."""
    folder = WEIGHTS if kind == "weights" else KV
    name = text.strip().lower().replace("-", "_")
    if name in names_in(folder):
        return name
    aliases: dict[str, str] = read_yaml(_DATA / "format_aliases.yaml")[kind]
    if name in aliases:
        return aliases[name]
    what = "weight format" if kind == "weights" else "KV cache format"
    raise unknown_name(what, text, [*names_in(folder), *aliases], "see docs/formats.md for the list")


def format_spellings(kind: str) -> list[str]:
    """Every spelling of a format that is known; kind is "weights" or "kv"."""
    aliases: dict[str, str] = read_yaml(_DATA / "format_aliases.yaml")[kind]
    return sorted({*names_in(WEIGHTS if kind == "weights" else KV), *aliases})


def load_weight_format(text: str) -> WeightFormat:
    """The weight format a spelling names."""
    name = format_name(text, "weights")
    return load_record(WeightFormat, WEIGHTS, name, "weight format", "see docs/formats.md")


def load_kv_format(text: str) -> KvFormat:
    """The cache format a spelling names."""
    name = format_name(text, "kv")
    return load_record(KvFormat, KV, name, "KV cache format", "see docs/formats.md")


def weight_bits_by_part(model: ModelProfile, asked: str | None) -> tuple[str, dict[str, float]]:
    """Name of the weight format, and bits per weight of each part of `model` in it.

    `asked` None or "auto" means as stored. A format that does not cover a part leaves it in the model's
    compute type, as checkpoints do with embeddings, head, router and norms.

    Raises InfoptError for a format no record describes.
    """
    base_bits = load_weight_format(model.compute_dtype).bits_per_weight
    stored = model.quantization
    if asked in (None, "auto"):
        if stored is None:
            return model.compute_dtype, dict.fromkeys(PARTS, base_bits)
        record = load_weight_format(stored.format)
        bits = stored.bits_per_weight or record.bits_per_weight
        own = stored.part_bits
        return stored.format, {p: own.get(p, bits) if p in stored.parts else base_bits for p in PARTS}
    name = format_name(str(asked), "weights")
    record = load_weight_format(name)
    # A format the checkpoint already has keeps the parts it really covers.
    covered = stored.parts if stored is not None and stored.format == name else frozenset(record.parts)
    if not covered <= set(PARTS):
        raise InfoptError(f"weight format {name}: unknown parts {sorted(set(covered) - set(PARTS))}")
    return name, {p: record.bits_per_weight if p in covered else base_bits for p in PARTS}


def kv_format_name(model: ModelProfile, asked: str | None) -> str:
    """`auto` is the model's compute type, whatever the weights are stored in, unless the checkpoint says otherwise."""
    if asked not in (None, "auto"):
        return format_name(str(asked), "kv")
    if model.quantization is not None and model.quantization.kv_format is not None:
        return format_name(model.quantization.kv_format, "kv")
    return model.compute_dtype
