"""What people answered: an item's id, a status, and who stands for it.

A signature settles what no number does. Where a number says fail, only an answer with a note turns it into a pass, and
both are shown; where a person says fail, no number helps.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, field_validator

from infopt.errors import InfoptError, unknown_name
from infopt.records import Record, read_yaml, validate_record

NAME = "--signed"


class Signature(Record):
    """One answer."""

    status: Literal["pass", "fail"]
    by: str = Field(pattern=r"\S")
    note: str = ""
    date: datetime.date | None = None

    @field_validator("date", mode="before")
    @classmethod
    def _written(cls, value: Any) -> Any:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else value


def read_answers(path: Path) -> dict[str, Signature]:
    """Answers by the id of their item.

    Errors: InfoptError for what cannot be read, an unknown status, an answer without a name.
    """
    data = read_yaml(path)
    if not isinstance(data, dict) or not data:
        raise InfoptError(f"{path}: answers are written as ID: {{status: pass, by: NAME, note: ..., date: 2026-11-29}}")
    _refuse_twice(path)
    return {str(id): validate_record(Signature, answer, f"{path}: {id}") for id, answer in data.items()}


def _refuse_twice(path: Path) -> None:
    """YAML lets the last of two answers win; a signature must not vanish like that."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one `read_yaml` has read the file with
    node = yaml.compose(path.read_text(encoding="utf-8"), Loader=loader)
    assert isinstance(node, yaml.MappingNode)
    lines: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if key.value in lines:
            raise InfoptError(f"{path}:{line}: {key.value} is answered twice, first on line {lines[key.value]}")
        lines[key.value] = line


def signed(texts: Sequence[str]) -> dict[str, Signature]:
    """Signatures given as ITEM=NAME: those items pass, and NAME stands for it."""
    found: dict[str, Signature] = {}
    for text in texts:
        id, equals, name = (part.strip() for part in text.partition("="))
        if not equals or not id or not name:
            raise InfoptError(f"{NAME} {text}: write ITEM=NAME, such as rollback='Jane Doe'")
        if id in found:
            raise InfoptError(f"{NAME} {text}: {id} is signed twice")
        found[id] = Signature(status="pass", by=name)
    return found


def merged(answers: Mapping[str, Signature], signatures: Mapping[str, Signature]) -> dict[str, Signature]:
    """Both together; an item answered in both is an error."""
    for id in signatures:
        if id in answers:
            raise InfoptError(f"{NAME} {id}: the answers file answers it too; leave one of them out")
    return {**answers, **signatures}


def refuse_unknown(answers: Iterable[str], known: Sequence[str]) -> None:
    """Raise InfoptError for an answer to an item that is not there."""
    for id in answers:
        if id not in known:
            raise unknown_name("checklist item", id, known, "the checklist prints the id of every item")
