"""A target: one place where the package reads bytes of somebody else, called as its users call it."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "tests" / "corpus"
MOST_SEED_BYTES = 20_000
# How inputs of a target are changed: see mutation.py.
Form = Literal["json", "lines", "binary", "headed"]


@dataclass(frozen=True)
class Target:
    """One reader.

    name   of its folder in tests/corpus
    form   how its inputs are written
    call   reads one input; raises InfoptError, or a `Broken` where the reader hides what went wrong
    also   files of ours, beside those of the corpus, that inputs are made from: globs from the root
    """

    name: str
    form: Form
    call: Callable[[bytes], object]
    also: tuple[str, ...] = ()

    def corpus(self) -> list[Path]:
        """The inputs that are kept, by name."""
        return sorted(path for path in (CORPUS / self.name).glob("*") if path.is_file())

    def seeds(self) -> list[bytes]:
        """What inputs are made from: the corpus, and other files of ours that are small."""
        others = (path for pattern in self.also for path in sorted(ROOT.glob(pattern)) if path.is_file())
        read = (path.read_bytes() for path in (*self.corpus(), *others))
        return [data for data in read if len(data) <= MOST_SEED_BYTES]


class BrokenError(Exception):
    """The package answered, and what it says breaks the rule; the text names the place."""


def scratch() -> Path:
    """A folder of this process for inputs that are files, in memory where the system has such a place."""
    global _scratch
    if _scratch is None:
        memory = Path("/dev/shm")
        _scratch = Path(tempfile.mkdtemp(prefix="infopt-fuzz-", dir=memory if memory.is_dir() else None))
        atexit.register(shutil.rmtree, _scratch, ignore_errors=True)
    return _scratch


_scratch: Path | None = None


def file_of(name: str, data: bytes) -> Path:
    """The input as a file."""
    path = scratch() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def text_of(data: bytes) -> str:
    """The input as text that came through an interface of text: bytes that are none are lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def every(targets: Iterator[Target]) -> dict[str, Target]:
    """Targets by name; two of one name are a mistake of the table."""
    found: dict[str, Target] = {}
    for target in targets:
        if target.name in found:
            raise ValueError(f"two targets are called {target.name}")
        found[target.name] = target
    return found
