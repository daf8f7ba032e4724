"""Read the header of a GGUF file: metadata and tensor descriptions, never tensor data.

Layout (ggml-org/ggml, docs/gguf.md): magic `GGUF`, u32 version, u64 tensor count, u64 metadata count, metadata
pairs, tensor descriptions, padding to the alignment, tensor data. Versions 2 and 3, either byte order. Every
count and length is checked against the bytes the file has, and against a cap, before anything is allocated.
"""

import struct
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.profiles.files import ByteSource, LocalFile
from infopt.records import read_yaml

DATA = Path(__file__).resolve().parent / "data" / "gguf"
MAX_METADATA = 16_384
MAX_TENSORS = 100_000
MAX_KEY_BYTES = 1_024
MAX_NAME_BYTES = 256  # llama.cpp allows 64
MAX_STRING_BYTES = 65_536  # of a value that is kept
MAX_ARRAY = 65_536  # longer ones are stepped over
MAX_KEPT = 1_000_000  # numbers and characters kept of one file
MAX_SKIPPED_STRINGS = 2_000_000  # vocabulary and merges of one file
_CHUNK_BYTES = 1 << 18
_KEPT_TEXTS = ("general.architecture", "general.type", "general.name")
_ARRAY, _STRING, _BOOL = 9, 8, 7
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_SIZES = {kind: struct.calcsize("<" + code) for kind, code in _SCALARS.items()}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor: `shape` fastest axis first, as stored (a matrix is [inputs, outputs])."""

    name: str
    shape: tuple[int, ...]
    type: str
    offset: int
    stored_bytes: int

    @property
    def elements(self) -> int:
        count = 1
        for side in self.shape:
            count *= side
        return count


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata kept (architecture, split and general keys) and every tensor description of one file."""

    name: str
    version: int
    big_endian: bool
    metadata: Mapping[str, Any]
    tensors: tuple[TensorInfo, ...]
    header_bytes: int


def read_gguf_header(path: str) -> GgufHeader:
    """The header of one local file.

    Errors: InfoptError for anything that is not a whole, well-formed GGUF file of version 2 or 3.
    """
    with LocalFile(path) as file:
        return parse_gguf_header(file)


def parse_gguf_header(source: ByteSource) -> GgufHeader:
    """The header of any byte source (a local file, a ranged download)."""
    cursor = _Cursor(source)
    if cursor.take(4, "the magic number") != b"GGUF":
        raise InfoptError(f"{source.name}: is not a GGUF file (it does not start with GGUF)")
    version = cursor.number("I", "the version")
    if version not in (2, 3):
        cursor.order = ">"
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in (2, 3):
        little = int.from_bytes(version.to_bytes(4, "little"), "big")
        raise InfoptError(f"{source.name}: GGUF version {min(version, little)} is not read, only 2 and 3")
    tensors, pairs = cursor.number("Q", "the tensor count"), cursor.number("Q", "the metadata count")
    cursor.check_count(tensors, MAX_TENSORS, 24, "tensors")
    cursor.check_count(pairs, MAX_METADATA, 13, "metadata entries")
    metadata = _read_metadata(cursor, pairs)
    raw = [_read_tensor(cursor) for _ in range(tensors)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
        raise InfoptError(f"{source.name}: general.alignment is {alignment!r}, not a power of two")
    data_start = -(-cursor.position // alignment) * alignment
    infos = _check_layout(source, raw, data_start, alignment)
    return GgufHeader(source.name, version, cursor.order == ">", metadata, infos, cursor.position)


@cache
def tensor_types() -> dict[int, tuple[str, int, int]]:
    """Tensor type id -> (name, weights per block, bytes per block)."""
    return {number: (name, block, size) for number, (name, block, size) in _types()["types"].items()}


@cache
def file_types() -> dict[int, str]:
    """`general.file_type` -> the format's usual name (q4_k_m, ...)."""
    return dict(_types()["file_types"])


@cache
def _types() -> dict[str, Any]:
    found: dict[str, Any] = read_yaml(DATA / "types.yaml")
    return found


class _Cursor:
    """A forward reader over a byte source with a small window; every step is checked against the file's size."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.order = "<"
        self.strings_left = MAX_SKIPPED_STRINGS
        self.kept = 0
        self._window = b""
        self._start = 0  # offset of the window in the file
        self._at = 0  # next byte, inside the window or past it

    @property
    def position(self) -> int:
        return self._start + self._at

    def take(self, count: int, what: str) -> bytes:
        if self._at + count > len(self._window):
            self._refill(count, what)
        piece = self._window[self._at : self._at + count]
        self._at += count
        return piece

    def skip(self, count: int, what: str) -> None:
        if count > self.source.size - self.position:
            raise self._cut(what)
        self._at += count

    def number(self, code: str, what: str) -> Any:
        layout = self.order + code
        return struct.unpack(layout, self.take(struct.calcsize(layout), what))[0]

    def text(self, limit: int, what: str) -> str:
        length = self.number("Q", what)
        if length > limit:
            raise InfoptError(f"{self.source.name}: the length of {what} is {length} bytes, more than {limit}")
        try:
            text = self.take(length, what).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InfoptError(f"{self.source.name}: {what} is not UTF-8") from error
        return text

    def word(self, limit: int, what: str) -> str:
        """A key or a name: it may stand in a message, so no control characters."""
        word = self.text(limit, what)
        if not word.isprintable():
            raise InfoptError(f"{self.source.name}: {what} holds control characters: {word[:60]!r}")
        return word

    def skip_strings(self, count: int, what: str) -> None:
        """Step over `count` strings without building them."""
        self.strings_left -= count
        if self.strings_left < 0:
            raise InfoptError(f"{self.source.name}: {what} brings the strings to more than {MAX_SKIPPED_STRINGS}")
        length_at = struct.Struct(self.order + "Q").unpack_from
        while count:
            self._refill(8, what)
            window, at, last = self._window, self._at, len(self._window) - 8
            while count and at <= last:
                at += 8 + length_at(window, at)[0]
                count -= 1
            if at > len(window):
                self.skip(at - self._at, what)
            else:
                self._at = at

    def keep(self, count: int, what: str) -> None:
        """Account for what stays in memory."""
        self.kept += count
        if self.kept > MAX_KEPT:
            raise InfoptError(
                f"{self.source.name}: {what} brings the metadata to more than {MAX_KEPT} numbers and letters"
            )

    def check_count(self, count: int, cap: int, least_bytes: int, what: str) -> None:
        if count > cap or count * least_bytes > self.source.size - self.position:
            raise InfoptError(f"{self.source.name}: announces {count} {what}: more than its {self.source.size} bytes "
                              f"hold (cut short?) or infopt reads ({cap})")  # fmt: skip

    def _refill(self, count: int, what: str) -> None:
        """Make the window hold at least `count` bytes from the current position."""
        start = self.position
        if count > self.source.size - start:
            raise self._cut(what)
        if self._at + count > len(self._window):
            self._window = self.source.read_at(start, max(count, min(_CHUNK_BYTES, self.source.size - start)))
            self._start, self._at = start, 0
            if len(self._window) < count:
                raise self._cut(what)

    def _cut(self, what: str) -> InfoptError:
        return InfoptError(f"{self.source.name}: ends inside {what} (the file has {self.source.size} bytes)")


def _read_metadata(cursor: _Cursor, pairs: int) -> dict[str, Any]:
    """Every scalar and short numeric array; vocabularies and long texts are stepped over."""
    found: dict[str, Any] = {}
    for number in range(pairs):
        key = cursor.word(MAX_KEY_BYTES, f"metadata key {number}")
        if key in found:
            raise InfoptError(f"{cursor.source.name}: the metadata key {key!r} appears twice")
        kind = cursor.number("I", f"the type of {key!r}")
        found[key] = _read_value(cursor, kind, key)
    return found


def _read_value(cursor: _Cursor, kind: int, key: str) -> Any:
    """One value; None stands for one that was stepped over."""
    what = f"the value of {key!r}"
    if kind == _STRING:
        if key in _KEPT_TEXTS or not key.startswith(("general.", "tokenizer.")):
            kept = cursor.text(MAX_STRING_BYTES, what)
            cursor.keep(len(kept), what)
            return kept
        cursor.skip(cursor.number("Q", what), what)
        return None
    if kind == _ARRAY:
        return _read_array(cursor, key, what)
    if kind not in _SCALARS:
        raise InfoptError(f"{cursor.source.name}: {what} has the unknown type {kind}")
    value = cursor.number(_SCALARS[kind], what)
    return bool(value) if kind == _BOOL else value


def _read_array(cursor: _Cursor, key: str, what: str) -> tuple[Any, ...]:
    """The numbers of a short array; an empty tuple stands for one that was stepped over."""
    kind, count = cursor.number("I", what), cursor.number("Q", what)
    if kind == _STRING:
        cursor.check_count(count, MAX_SKIPPED_STRINGS, 8, f"strings in {key!r}")
        cursor.skip_strings(count, what)
        return ()
    if kind not in _SCALARS:
        problem = "an array of arrays" if kind == _ARRAY else f"an array of the unknown type {kind}"
        raise InfoptError(f"{cursor.source.name}: {what} is {problem}, which is not read")
    if count > MAX_ARRAY or key.startswith("tokenizer."):
        cursor.skip(count * _SIZES[kind], what)
        return ()
    cursor.keep(count, what)
    raw = cursor.take(count * _SIZES[kind], what)
    values = struct.unpack(f"{cursor.order}{count}{_SCALARS[kind]}", raw)
    return tuple(map(bool, values)) if kind == _BOOL else values


def _read_tensor(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    name = cursor.word(MAX_NAME_BYTES, "a tensor name")
    what = f"the description of tensor {name!r}"
    axes = cursor.number("I", what)
    if not 1 <= axes <= 4:
        raise InfoptError(f"{cursor.source.name}: tensor {name!r} has {axes} axes, expected 1 to 4")
    shape = struct.unpack(f"{cursor.order}{axes}Q", cursor.take(8 * axes, what))
    return name, shape, cursor.number("I", what), cursor.number("Q", what)


def _check_layout(
    source: ByteSource, raw: list[tuple[str, tuple[int, ...], int, int]], data_start: int, alignment: int
) -> tuple[TensorInfo, ...]:
    """Sizes from shapes and types; every tensor inside the file, aligned, and none on another."""
    infos: list[TensorInfo] = []
    names: set[str] = set()
    for name, shape, type_id, offset in raw:
        if name in names:
            raise InfoptError(f"{source.name}: the tensor {name!r} appears twice")
        names.add(name)
        if type_id not in tensor_types():
            raise InfoptError(f"{source.name}: tensor {name!r} has type {type_id}, which profiles/data/gguf/types.yaml "
                              "does not list (removed or newer)")  # fmt: skip
        type_name, block, block_bytes = tensor_types()[type_id]
        info = TensorInfo(name, shape, type_name, offset, 0)
        if 0 in shape or shape[0] % block:
            raise InfoptError(f"{source.name}: tensor {name!r} of shape {list(shape)} does not fill blocks of {block}")
        size = info.elements // block * block_bytes
        if offset % alignment or data_start + offset + size > source.size:
            problem = "is not aligned" if offset % alignment else f"ends at byte {data_start + offset + size}"
            raise InfoptError(f"{source.name}: tensor {name!r} {problem}, the file has {source.size} bytes "
                              "(a part of a download?)")  # fmt: skip
        infos.append(TensorInfo(name, shape, type_name, offset, size))
    end = 0
    for info in sorted(infos, key=lambda info: info.offset):
        if info.offset < end:
            raise InfoptError(f"{source.name}: tensor {info.name!r} lies on the one before it")
        end = info.offset + info.stored_bytes
    return tuple(infos)
