"""Which files hold deployments by their names, and which reader a text has that is no YAML."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from infopt.gate.found import Found
from infopt.gate.readers import dockerfile, modelfile, python_source, shell_script

TREES = frozenset({".yaml", ".yml", ".json"})
TEXTS = frozenset({".py", ".modelfile", ".dockerfile"}) | shell_script.ENDINGS
# Files that say what they are by their names alone.
NAMED = ("modelfile", "dockerfile", "containerfile")


class TextReader(Protocol):
    """A reader of texts: by path and content, since some say by name what they are."""

    def recognises(self, path: str, content: str) -> bool: ...

    def read(self, path: str, content: str) -> Iterator[Found]: ...


def wanted(name: str) -> bool:
    """Whether a file of a folder is looked at."""
    return Path(name).suffix.lower() in TREES | TEXTS or name.lower().startswith(NAMED)


def is_tree(path: str) -> bool:
    """Whether a file is YAML or JSON by its name."""
    return Path(path).suffix.lower() in TREES


def is_text(path: str) -> bool:
    """Whether a file is by its name a text that is no YAML."""
    return path != "-" and not is_tree(path) and wanted(Path(path).name)


def found_in_text(path: str, content: str) -> list[Found]:
    """What the first reader that recognises a text finds in it."""
    readers: tuple[TextReader, ...] = (modelfile, dockerfile, python_source, shell_script)
    for reader in readers:
        if reader.recognises(path, content):
            return list(reader.read(path, content))
    return []
