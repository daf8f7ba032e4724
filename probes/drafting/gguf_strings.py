"""Texts in a GGUF file's metadata: the vocabulary, which the header reader of `profiles` steps over.

That reader has checked every length against the file before this one walks the same bytes; gguf's own takes seconds.
"""

import struct
from collections.abc import Collection
from typing import Any

from infopt.errors import InfoptError
from infopt.profiles.files import LocalFile
from infopt.profiles.gguf_header import read_gguf_header

_STRING, _ARRAY = 8, 9
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_FIRST_PAIR = 24  # bytes: magic, version, two counts
MOST_HEADER_BYTES = 1 << 26  # 64 MiB: a million tokens and merges of 30 bytes each are half of it


def read_strings(path: str, wanted: Collection[str]) -> dict[str, Any]:
    """Values of the metadata keys wanted that are there: numbers, texts, lists of either.

    Errors: InfoptError for a file that is not a whole GGUF file of little-endian numbers, whose metadata is larger than
    MOST_HEADER_BYTES, or whose text is not UTF-8.
    """
    header = read_gguf_header(path)
    if header.big_endian:
        raise InfoptError(f"{path}: big-endian; convert it with gguf-convert-endian")
    if header.header_bytes > MOST_HEADER_BYTES:
        size = f"{header.header_bytes} bytes of metadata"
        raise InfoptError(f"{path}: {size}, and no more than {MOST_HEADER_BYTES} are read: not a model's file")
    with LocalFile(path) as file:
        data = file.read_at(0, header.header_bytes)
    pairs, at = struct.unpack_from("<Q", data, 16)[0], _FIRST_PAIR
    found: dict[str, Any] = {}
    try:
        for _ in range(pairs):
            key, at = _text(data, at)
            kind = struct.unpack_from("<I", data, at)[0]
            value, at = _value(data, at + 4, kind)
            if key in wanted:
                found[key] = value
    except UnicodeDecodeError as error:
        raise InfoptError(f"{path}: a text of its metadata is not UTF-8") from error
    return found


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 8 + struct.unpack_from("<Q", data, at)[0]
    return data[at + 8 : end].decode("utf-8"), end


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == _STRING:
        return _text(data, at)
    if kind != _ARRAY:
        code = "<" + _CODES[kind]
        return struct.unpack_from(code, data, at)[0], at + struct.calcsize(code)
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner != _STRING:
        code = f"<{count}{_CODES[inner]}"
        return list(struct.unpack_from(code, data, at)), at + struct.calcsize(code)
    texts = []
    for _ in range(count):
        text, at = _text(data, at)
        texts.append(text)
    return texts, at
