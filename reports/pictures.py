"""Pictures in files: the drawing library, which endings it writes, and saving whole or not at all."""

import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError, MissingExtraError

ENDINGS = (".svg", ".png", ".pdf")


def drawing(path: Path, option: str = "--plot") -> Any:
    """The drawing library; raises MissingExtraError without it, InfoptError for a file it cannot write."""
    if path.suffix.lower() not in ENDINGS:
        raise InfoptError(f"{option} {path}: the name must end in {', '.join(ENDINGS)}")
    if not path.parent.is_dir():
        raise InfoptError(f"{option} {path}: there is no folder {path.parent}")
    try:
        return import_module("matplotlib.figure")
    except ImportError as error:
        raise MissingExtraError(option, "report") from error


def saved(figure: Any, path: Path) -> None:
    """Write a figure beside its place and rename it; the same figure makes the same file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=path.suffix)
    os.close(handle)
    try:
        figure.savefig(name, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
