"""Writing files whole or not at all, and words that may find no reader."""

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from infopt.errors import InfoptError

# Names of files that are not UTF-8 come as lone surrogates: written as \udcff, which JSON reads back.
BROKEN_NAMES = "backslashreplace"


def write_text(path: Path, text: str) -> None:
    """Write `text` in UTF-8, as `write_bytes` does."""
    write_bytes(path, text.encode("utf-8", BROKEN_NAMES))


def write_bytes(path: Path, content: bytes) -> None:
    """Write to `path` so that nobody ever sees half of it; a link stays one, a pipe or device is written into.

    Where several write at once, what one of them wrote is there, whole. A file that was there keeps its permissions.
    Raises InfoptError where the folder cannot be written or the disk is full: the file is as it was then.
    """
    try:
        mode = _mode(path)
        if mode is None:
            _replace(Path(os.path.realpath(path)), content, 0o666 & ~_umask())
        elif stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            _replace(Path(os.path.realpath(path)), content, stat.S_IMODE(mode))
        else:
            path.write_bytes(content)
    except OSError as error:
        why = "it is a link to itself" if error.errno == errno.ELOOP else error.strerror
        raise InfoptError(f"{path}: cannot be written: {why}") from error


def say(text: str) -> None:
    """Write to standard error; where nobody can read it (a closed pipe, a full disk), that changes nothing else."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        # What is still buffered must go nowhere, or the interpreter ends with a status of its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _mode(path: Path) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _replace(place: Path, content: bytes, mode: int) -> None:
    """Write beside `place`, under a name that is short where its own is as long as names may be, and rename."""
    beside = place.with_name(f".infopt-{os.urandom(8).hex()}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
        beside.chmod(mode)
        beside.replace(place)
    except BaseException:  # also where it is interrupted
        with suppress(OSError):
            beside.unlink()
        raise


def _umask() -> int:
    """The process's mask for new files, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
