"""Writing files whole or not at all."""

import os
import tempfile
from pathlib import Path

from infopt.errors import InfoptError

# Names of files that are not UTF-8 come as lone surrogates: written as \udcff, which JSON reads back.
BROKEN_NAMES = "backslashreplace"


def write_text(path: Path, text: str) -> None:
    """Write `text` in UTF-8, as `write_bytes` does."""
    write_bytes(path, text.encode("utf-8", BROKEN_NAMES))


def write_bytes(path: Path, content: bytes) -> None:
    """Write to `path` so that nobody ever sees half of it; a link stays one, a pipe or device is written into.

    Raises InfoptError where the folder cannot be written or the disk is full.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        try:
            path.write_bytes(content)
        except OSError as error:
            raise InfoptError(f"{path}: cannot be written: {error.strerror}") from error
        return
    if path.is_symlink():
        try:
            path = path.resolve()
        except RuntimeError as error:
            raise InfoptError(f"{path}: cannot be written: it is a link to itself") from error
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InfoptError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except OSError as error:
        os.unlink(name)
        raise InfoptError(f"{path}: cannot be written: {error.strerror}") from error
    except BaseException:
        os.unlink(name)  # interrupted: what was there before stays
        raise


def _umask() -> int:
    """The process's mask for new files, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
