"""Open model files without trusting them: regular files only, bounded reads, one-line errors."""

import errno
import json
import os
import stat
from types import TracebackType
from typing import Any, Protocol

from infopt.errors import InfoptError

MAX_CONFIG_BYTES = 10_000_000
MAX_JSON_ITEMS = 200_000  # of a config; a value costs a hundred times its text once parsed


class ByteSource(Protocol):
    """Something with a known size whose bytes can be read at an offset: a local file or a ranged download."""

    name: str
    size: int

    def read_at(self, offset: int, count: int) -> bytes: ...


class LocalFile:
    """A regular local file, read with `pread`; never blocks on a FIFO, never opens a device.

    Errors: InfoptError for a missing, unreadable, looping or non-regular path.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = shown(os.fspath(path))
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise InfoptError(f"{self.name}: cannot be opened: {_reason(error)}") from error
        status = os.fstat(self._descriptor)
        self.size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise InfoptError(f"{self.name}: is a {_kind(status.st_mode)}, not a regular file")

    def read_at(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes at `offset`; fewer only at the end of the file."""
        pieces = []
        while count > 0:
            try:
                piece = os.pread(self._descriptor, count, offset)
            except OSError as error:
                raise InfoptError(f"{self.name}: cannot be read: {_reason(error)}") from error
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            count -= len(piece)
        return b"".join(pieces)

    def __enter__(self) -> "LocalFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


class MemoryFile:
    """Bytes already in memory, as a ByteSource."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.size, self._data = name, len(data), data

    def read_at(self, offset: int, count: int) -> bytes:
        return self._data[offset : offset + count]


def parse_json(data: bytes, where: str, max_items: int = MAX_JSON_ITEMS) -> Any:
    """JSON text as Python values; duplicate keys, bad syntax, bad UTF-8, too much or too deep are InfoptErrors."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") > max_items:
        raise InfoptError(f"{where}: holds more than {max_items} JSON values")
    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_unique_pairs, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise InfoptError(f"{where}: not readable as JSON: nested too deeply") from error
    except ValueError as error:  # syntax, encoding, duplicate keys, integers of thousands of digits
        problem = str(error).splitlines()[0][:160]
        raise InfoptError(f"{where}: not readable as JSON: {problem}") from error


def read_json_file(
    path: str | os.PathLike[str], max_bytes: int = MAX_CONFIG_BYTES, max_items: int = MAX_JSON_ITEMS
) -> dict[str, Any]:
    """The JSON object in a local file; larger than `max_bytes` or anything but an object is an error."""
    with LocalFile(path) as file:
        if file.size > max_bytes:
            raise InfoptError(f"{file.name}: {file.size} bytes is more than the {max_bytes} read as JSON")
        value = parse_json(file.read_at(0, file.size), file.name, max_items)
    if not isinstance(value, dict):
        raise InfoptError(f"{file.name}: holds a JSON {type(value).__name__}, expected an object")
    return value


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:60]!r} appears twice")
    return found


def _refuse_constant(word: str) -> None:
    # A config may carry Infinity for a limit it never uses; it is not a number any count can be.
    return None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return "too many symbolic links" if error.errno == errno.ELOOP else os.strerror(error.errno).lower()
    return str(error)


def shown(name: str) -> str:
    """A name from outside as it may stand in a message: on one line, without control characters, not endless."""
    return name if name.isprintable() and len(name) < 300 else repr(name[:200])


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "directory", stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")
