"""Read one YAML record from disk, strictly.

A record is one file; its name is the file's stem. Only the record asked for is parsed: the catalogue
is never read as a whole at start-up. Unknown fields and text where a number is due are errors.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from infopt.errors import InfoptError, unknown_name

ROOT = Path(__file__).resolve().parent
MAX_YAML_BYTES = 10_000_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Record(BaseModel):
    """Base of every file record: frozen, strict, no unknown fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)


R = TypeVar("R", bound=Record)


def _refuse_aliases(text: str) -> None:
    """Raise at the first alias, so that no file can expand to more than its own size.

    The C loader composes nodes without calling back into Python, so events are read first; only in a text that could
    hold an anchor and an alias, since reading twice costs time at every start.
    """
    if "&" not in text or "*" not in text:
        return
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            mark: Any = event.start_mark
            raise yaml.MarkedYAMLError(None, None, f"alias *{event.anchor} is not allowed", mark)


def read_yaml(path: Path) -> Any:
    """Parse one YAML document from `path`; aliases, oversized files and bad syntax are errors."""
    try:
        size = path.stat().st_size
        if size > MAX_YAML_BYTES:
            raise InfoptError(f"{path}: {size} bytes is more than the {MAX_YAML_BYTES} read as YAML")
        text = path.read_text(encoding="utf-8")
        _refuse_aliases(text)
        return yaml.load(text, Loader=_Loader)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InfoptError(f"{path}: cannot be read: {why}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a 13th month, a number of 5000 digits
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise InfoptError(f"{path}{where}: not readable as YAML: {_problem(error)}") from error


def _problem(error: Exception) -> str:
    """What is wrong with a text, without where."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    named = getattr(error, "problem", None) or getattr(error, "reason", None)
    return str(named or error).split(";")[0]


def validate_record(kind: type[R], data: Any, where: str) -> R:
    """`data` as a record of type `kind`; the first problem becomes a one-line error naming the field."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the record"
        raise InfoptError(f"{where}: {field}: {first['msg'].removeprefix('Value error, ')}") from error


@cache
def names_in(folder: Path) -> tuple[str, ...]:
    """Names of the records in a data folder, sorted."""
    return tuple(sorted(e.name[:-5] for e in os.scandir(folder) if e.name.endswith(".yaml")))


def load_record(kind: type[R], folder: Path, name: str, what: str, remedy: str) -> R:
    """The record `name` of `folder`; an unknown name lists the nearest ones."""
    path = folder / f"{name}.yaml"
    if os.sep in name or not os.path.isfile(path):  # which takes names that no file can have
        raise unknown_name(what, name, names_in(folder), remedy)
    found: R = _record(kind, path)
    return found


@cache
def _record(kind: type[R], path: Path) -> R:
    """A record, read once: many scenarios of one run ask for the same few."""
    return validate_record(kind, read_yaml(path), str(path))
