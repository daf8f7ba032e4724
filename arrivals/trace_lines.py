"""The lines of a trace file: opened, unpacked, decoded and split into cells, one at a time.

A row is (line number, cells); the cells of CSV are text, those of JSONL what JSON says. Files may be packed with gzip
or xz. What cannot be read ends in one line with the file and the line.
"""

import csv
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from infopt.errors import InfoptError

PACKED = (".gz", ".xz")
KINDS = {".csv": "csv", ".jsonl": "jsonl"}
MOST_HEAD_CHARACTERS = 1_000_000  # of the first line: a file without line ends is no trace
MOST_LINE_CHARACTERS = 4_000_000  # of any line; longer than all cells that a CSV line of a known form may have
MOST_BLANK_LINES = 1000  # before the first that is not


def kind_of(path: Path) -> str:
    """csv or jsonl, by the name without .gz or .xz."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    kind = KINDS.get(suffixes[-1]) if suffixes else None
    if kind is None:
        raise InfoptError(f"{path}: a trace is a .csv or .jsonl file, as it is or packed (.gz, .xz)")
    return kind


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """The text of a trace file; a packed one is unpacked as it is read."""
    if path.is_dir():
        raise InfoptError(f"{path}: is a folder, not a trace: name one file")
    if path.exists() and not path.is_file():
        raise InfoptError(f"{path}: a trace is read more than once, which a pipe cannot: save it to a file")
    try:
        with cast(IO[str], _opener(path)(path, "rt", encoding="utf-8-sig", newline="")) as file:
            yield file
    except UnicodeDecodeError as error:
        raise InfoptError(f"{path}: is not UTF-8 text: {error.reason}") from error
    except (EOFError, zlib.error) as error:
        raise InfoptError(f"{path}: the packed file is broken off or damaged: fetch it again") from error
    except OSError as error:
        raise InfoptError(f"{path}: cannot be read: {error.strerror or error}") from error


def _opener(path: Path) -> Any:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        import gzip

        return gzip.open
    if suffix == ".xz":
        return _open_xz
    return open


def _open_xz(path: Path, mode: str, *, encoding: str, newline: str) -> IO[str]:
    """lzma.open, whose errors about damage become those of gzip."""
    import io
    import lzma

    class Unpacked(lzma.LZMAFile):
        def read1(self, size: int = -1) -> bytes:
            try:
                return super().read1(size)
            except lzma.LZMAError as error:
                raise EOFError(str(error)) from error

    return io.TextIOWrapper(cast(IO[bytes], Unpacked(path)), encoding=encoding, newline=newline)


def columns_of(path: Path) -> list[str]:
    """Names of the columns: the header of CSV, the keys of the first object of JSONL."""
    kind = kind_of(path)
    with opened(path) as file:
        line = file.readline(MOST_HEAD_CHARACTERS)
        blank = 0
        while line and not line.strip() and blank < MOST_BLANK_LINES:
            line = file.readline(MOST_HEAD_CHARACTERS)
            blank += 1
    if not line.strip():
        raise InfoptError(f"{path}: is empty: a trace has one request a line")
    if len(line) >= MOST_HEAD_CHARACTERS:
        raise InfoptError(f"{path}: its first line is longer than {MOST_HEAD_CHARACTERS} characters: not a trace")
    if kind == "jsonl":
        return list(parse_object(line, f"{path}: line 1"))
    try:
        return [name.strip() for name in next(csv.reader([line]))]
    except csv.Error as error:
        raise InfoptError(f"{path}: its first line is not readable as CSV: {error}") from error


def parse_object(line: str, where: str) -> dict[str, Any]:
    """The JSON object of one line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        why = getattr(error, "msg", None) or "nested too deeply"
        raise InfoptError(f"{where}: not a JSON object: {why}") from error
    if not isinstance(value, dict):
        raise InfoptError(f"{where}: not a JSON object: JSONL has one object {{...}} a line")
    return value


def _lines(file: IO[str]) -> Iterator[str]:
    """Lines, none longer than is allowed: of a longer one the next piece, so that it is never held whole."""
    return iter(partial(file.readline, MOST_LINE_CHARACTERS), "")


def csv_rows(path: Path, file: IO[str]) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of every row, the header first; blank lines are none."""
    # A piece of a longer line has too many cells, or one that is too long.
    reader = csv.reader(_lines(file), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise InfoptError(f"{path}: line {reader.line_num}: not readable as CSV: {error}") from error


def json_rows(path: Path, file: IO[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of every line; blank lines are none."""
    for number, line in enumerate(_lines(file), 1):
        if len(line) >= MOST_LINE_CHARACTERS:
            raise InfoptError(f"{path}: line {number}: is longer than {MOST_LINE_CHARACTERS} characters: not a request")
        if not line.isspace():
            yield number, parse_object(line, f"{path}: line {number}")
