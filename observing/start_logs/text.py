"""The lines of a log, whatever wrote them down: colours, JSON of a container runtime and progress bars taken off.

A file of any size costs the same: its head (where a start-up stands) and its tail (where the last of several stands).
"""

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from infopt.errors import InfoptError

HEAD_BYTES = 16 * 2**20
TAIL_BYTES = 4 * 2**20
MAX_LINE_CHARS = 32_768
# A text has next to no NUL bytes; an archive or a core file has many.
MAX_NUL_SHARE = 0.001
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,40}[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
_JSON_TEXTS = ("log", "message", "msg", "body", "textPayload", "event")


def read_log_text(path: Path) -> tuple[str, int]:
    """Text of a log file and the bytes between head and tail that were not read.

    Errors: InfoptError where it cannot be read, is no regular file, is empty or is not text.
    """
    try:
        with path.open("rb") as handle:
            if not stat.S_ISREG(path.stat().st_mode):
                raise InfoptError(f"{path}: not a regular file; save the log to one")
            head = handle.read(HEAD_BYTES)
            end = handle.seek(0, 2)
            skipped = max(0, end - len(head) - TAIL_BYTES)
            handle.seek(len(head) + skipped)
            tail = handle.read(TAIL_BYTES)
    except OSError as error:
        raise InfoptError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not head.strip():
        raise InfoptError(f"{path}: empty; give the log of an engine from its start on")
    between = b"\n" if skipped else b""
    return _decoded(head + between + tail, path), skipped


def _decoded(data: bytes, path: Path) -> str:
    """UTF-8 with what is not replaced; UTF-16 where a mark says so (a redirect of PowerShell)."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    if data.count(0) > MAX_NUL_SHARE * len(data):
        raise InfoptError(f"{path}: not text; give the log as the engine printed it (unpack it first)")
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")


def log_lines(text: str) -> Iterator[str]:
    """Lines without colours and control characters; of a JSON line what was logged; each at most MAX_LINE_CHARS."""
    for raw in _clean(text).split("\n"):
        line = raw[:MAX_LINE_CHARS]
        if line.startswith("{"):
            yield from _clean(_logged(line)).split("\n")
        elif line:
            yield line


def _clean(text: str) -> str:
    """Without colours and control characters; a progress bar's returns end lines."""
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    return _CONTROL.sub(" ", text.replace("\r", "\n"))


def _logged(line: str) -> str:
    """What a JSON log line says, the line itself where it is none."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if isinstance(data, dict):
        for name in _JSON_TEXTS:
            if isinstance(data.get(name), str):
                return str(data[name])
    return line
