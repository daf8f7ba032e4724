"""Read the header of safetensors files: names, types, shapes and byte ranges of tensors, never their data.

Layout (huggingface/safetensors, README "Format"): u64 little-endian length, that many bytes of JSON, data without
gaps. Every length is checked against the file before anything is read. The format allows 100 MB of JSON; half of that
holds any known checkpoint many times over and keeps the reader under 200 MB of memory.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.profiles.files import ByteSource, LocalFile, parse_json, read_json_file
from infopt.records import read_yaml

TABLE = Path(__file__).resolve().parent / "data" / "safetensors" / "tensors.yaml"
MAX_HEADER_BYTES = 50_000_000
MAX_INDEX_BYTES = 50_000_000
MAX_ITEMS = 1_000_000  # JSON values of one header or index
MAX_SHARDS = 10_000
INDEX_ENDING = ".safetensors.index.json"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor as stored: `elements` of the stored type (packed formats hold several weights in one)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    stored_bytes: int

    @property
    def elements(self) -> int:
        count = 1
        for side in self.shape:
            count *= side
        return count


def read_safetensors_header(path: str) -> list[StoredTensor]:
    """Tensors of one local file.

    Errors: InfoptError for anything that is not a whole, well-formed safetensors file.
    """
    with LocalFile(path) as file:
        return parse_safetensors_header(file)


def parse_safetensors_header(source: ByteSource) -> list[StoredTensor]:
    """Tensors of any byte source (a local file, a ranged download)."""
    length = int.from_bytes(source.read_at(0, 8), "little")
    if source.size < 10 or length > source.size - 8 or length < 2:
        raise InfoptError(f"{source.name}: is no safetensors file, or cut short: its header has {length} bytes, "
                          f"the file has {source.size}")  # fmt: skip
    if length > MAX_HEADER_BYTES:
        raise InfoptError(f"{source.name}: a header of {length} bytes is more than the {MAX_HEADER_BYTES} read")
    if source.read_at(8, 1) != b"{" or source.read_at(7 + length, 1) not in (b"}", b" "):
        raise InfoptError(f"{source.name}: is no safetensors file (its header is not one JSON object)")
    header = parse_json(source.read_at(8, length), source.name, MAX_ITEMS)
    header.pop("__metadata__", None)
    return _checked(source, header, source.size - 8 - length)


def shards_of(index: Mapping[str, Any], where: str) -> dict[str, list[str]]:
    """Shard file -> names of its tensors, from a parsed `*.safetensors.index.json`."""
    table = index.get("weight_map")
    if not isinstance(table, dict) or not table:
        raise InfoptError(f"{where}: has no weight_map: not a safetensors index")
    shards: dict[str, list[str]] = {}
    for name, shard in table.items():
        if (
            not isinstance(shard, str)
            or os.path.basename(shard) != shard
            or not (shard.endswith(".safetensors") and shard.isprintable())
        ):
            raise InfoptError(f"{where}: {name[:80]!r} is in {str(shard)[:80]!r}, no plain name of a safetensors file")
        shards.setdefault(shard, []).append(name)
    if len(shards) > MAX_SHARDS:
        raise InfoptError(f"{where}: {len(shards)} shards is more than the {MAX_SHARDS} read")
    return shards


def _index(path: str) -> dict[str, list[str]]:
    return shards_of(read_json_file(path, MAX_INDEX_BYTES, MAX_ITEMS), path)


def missing_shards(path: str) -> list[str]:
    """Shards a local index lists that are not beside it."""
    folder = os.path.dirname(path)
    return sorted(shard for shard in _index(path) if not os.path.exists(os.path.join(folder, shard)))


def read_indexed(path: str) -> Iterator[StoredTensor]:
    """Tensors of every shard a local index lists; one that is not beside it is an error naming it."""
    shards, missing = _index(path), missing_shards(path)
    if missing:
        raise InfoptError(f"{path}: {len(missing)} of {len(shards)} shards are not beside it: {', '.join(missing[:4])}"
                          f"{' ...' if len(missing) > 4 else ''}; fetch them, or give config.json alone")  # fmt: skip
    folder = os.path.dirname(path)
    return chain.from_iterable(
        listed_tensors(shard, read_safetensors_header(os.path.join(folder, shard)), names)
        for shard, names in shards.items()
    )


def listed_tensors(shard: str, tensors: list[StoredTensor], names: list[str]) -> list[StoredTensor]:
    """The tensors of a shard that its index lists, all of which it must hold."""
    held = {tensor.name: tensor for tensor in tensors}
    lost = [name for name in names if name not in held]
    if lost:
        raise InfoptError(f"{shard}: does not hold {lost[0]!r}, which the index places there ({len(lost)} such)")
    return [held[name] for name in names]


def _checked(source: ByteSource, header: Mapping[str, Any], data_bytes: int) -> list[StoredTensor]:
    """Every entry well-formed and of its type's size; together they cover the data exactly once."""
    bits = dtype_bits()
    ranges: list[tuple[int, int]] = []
    tensors: list[StoredTensor] = []
    for name, entry in header.items():
        where = f"{source.name}: tensor {name[:80]!r}"
        if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
            raise InfoptError(f"{where} has no dtype, shape and data_offsets")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in bits:
            raise InfoptError(f"{where} has the unknown dtype {str(dtype)[:40]!r}")
        if not _counts(shape) or not _counts(offsets) or len(offsets) != 2 or not name.isprintable():
            raise InfoptError(f"{where} has control characters, no list of sizes as shape, or no pair of data_offsets")
        tensor = StoredTensor(name, dtype, tuple(shape), offsets[1] - offsets[0])
        if tensor.elements * bits[dtype] != tensor.stored_bytes * 8:
            raise InfoptError(f"{where} of {dtype} {shape} cannot have {tensor.stored_bytes} bytes")
        tensors.append(tensor)
        ranges.append((offsets[0], offsets[1]))
    end = 0
    for start, stop in sorted(ranges):
        if start != end:
            raise InfoptError(f"{source.name}: tensor data {'overlaps' if start < end else 'has a gap'} at byte {end}")
        end = stop
    if end != data_bytes:
        raise InfoptError(f"{source.name}: tensors need {end} bytes of data, the file holds {data_bytes} (cut short?)")
    return tensors


def _counts(values: Any) -> bool:
    return (
        isinstance(values, list)
        and len(values) <= 16
        and all(type(value) is int and 0 <= value < 1 << 63 for value in values)
    )


@cache
def dtype_bits() -> dict[str, int]:
    """Bits of one element by dtype name."""
    return dict(tensor_table()["dtypes"])


@cache
def tensor_table() -> dict[str, Any]:
    """Naming rules, companions and types (`data/safetensors/tensors.yaml`)."""
    table: dict[str, Any] = read_yaml(TABLE)
    return table
