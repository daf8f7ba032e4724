"""Checklists as data: the items of the source documents and those a team adds, one YAML file a list.

An item is a sentence somebody has to stand for. `check` names what computes it (studies/checklist_checks.py); an item
without one is answered by a person. `{words}` in a command stand for what the scenario makes of them.
"""

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, FiniteFloat

from infopt.errors import InfoptError, unknown_name
from infopt.records import Record, read_yaml, validate_record

FOLDER = Path(__file__).resolve().parent / "data" / "checklists"
COMMANDS = Path(__file__).resolve().parent / "data" / "checklist_commands.yaml"

# What of a deployment an item may be about; without it the item does not apply.
Feature = Literal[
    "kv-quantization",
    "weight-quantization",
    "speculation",
    "adapters",
    "offload",
    "persistent-offload",
    "parallelism",
    "tensor-parallel",
    "replicas",
    "experts",
]
# What the words in braces of a command may be.
WORDS = (
    *(
        "scenario",
        "plan",
        "before_kv",
        "before_weights",
        "model",
        "isl",
        "osl",
        "batch",
        "benchmark",
        "benchmark_alone",
    ),
    *("batch_metrics", "prefix_metrics", "acceptance_metrics", "preemption_metrics", "topology", "driver", "memory"),
)
_ID = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")


class Item(Record):
    """One line of a checklist.

    id          unique among all lists in use; lower case, digits, dashes and dots
    document    number of the source document, None for a team's own
    section     of that document
    text        what must be true, as a statement
    check       name of the check that computes it, None where a person answers
    figure      for the check `figure`: the ledger's figure, such as memory.kv_share
    thresholds  numbers in place of the check's own
    applies_to  features of a deployment of which it needs at least one; empty: it always applies
    who         answers it where no number does, and signs
    command     of a shell, that would measure or settle it
    how         the same in words, where no command does it
    """

    id: str
    document: int | None = None
    section: str = ""
    text: str = Field(pattern=r"\S")
    check: str | None = None
    figure: str | None = None
    thresholds: dict[str, FiniteFloat] = Field({})
    applies_to: list[Feature] = Field([])
    who: str = Field(pattern=r"\S")
    command: str = ""
    how: str = ""


class Checklist(Record):
    """One file.

    title   what its items have in common
    source  where they come from
    """

    title: str = Field(min_length=1)
    source: str = Field(min_length=1)
    items: list[Item] = Field(min_length=1)


class VendorCommands(Record):
    """What shows how devices hang together, what is in their memory, and what drives them."""

    topology: str
    memory: str
    driver: str


class Commands(Record):
    """What the words of a command stand for (data/checklist_commands.yaml)."""

    server: str
    benchmark: str
    benchmark_source: str
    prompts_per_request: int
    observe: str
    acceptance: str
    vendors: dict[str, VendorCommands]


@cache
def shipped() -> tuple[Checklist, ...]:
    """The lists that come with infopt, in the order of their file names."""
    return tuple(load_checklist(path) for path in sorted(FOLDER.glob("*.yaml")))


def load_checklist(path: Path) -> Checklist:
    """A list from a file.

    Errors: InfoptError for what cannot be read, unknown fields, an id that is badly spelled or there twice, and words
    in a command that stand for nothing.
    """
    found = validate_record(Checklist, read_yaml(path), str(path))
    for item in found.items:
        if not _ID.fullmatch(item.id):
            raise InfoptError(f"{path}: id {item.id!r}: write lower-case letters, digits, dashes and dots")
        if not item.command.strip() and not item.how.strip():
            raise InfoptError(f"{path}: {item.id}: say what would settle it: `command`, or `how` in words")
        if item.figure is not None and item.check != "figure":
            raise InfoptError(f"{path}: {item.id}: a figure is judged by `check: figure`")
        _check_words(item, path)
    refuse_twice([(found, str(path))])
    return found


def _check_words(item: Item, path: Path) -> None:
    try:
        parts = [part for part in string.Formatter().parse(item.command) if part[1] is not None]
    except ValueError as error:
        raise InfoptError(f"{path}: {item.id}: command: {error}; a brace itself is written twice") from error
    for _, word, form, conversion in parts:
        if word not in WORDS or form or conversion:
            where = f"{path}: {item.id}: a command may have {', '.join(f'{{{w}}}' for w in WORDS)}"
            raise unknown_name("word", str(word), WORDS, where)


def refuse_twice(lists: Iterable[tuple[Checklist, str]]) -> None:
    """Raise InfoptError where two items have one id."""
    seen: dict[str, str] = {}
    for found, where in lists:
        for item in found.items:
            if item.id in seen:
                raise InfoptError(f"{where}: item {item.id!r} is there twice: it is also in {seen[item.id]}")
            seen[item.id] = where


def with_own(paths: Sequence[Path]) -> tuple[Checklist, ...]:
    """The shipped lists and a team's own, in that order."""
    own = [(load_checklist(path), str(path)) for path in paths]
    refuse_twice([*((found, f"the list {found.title!r} of infopt") for found in shipped()), *own])
    return (*shipped(), *(found for found, _ in own))


@cache
def commands() -> Commands:
    """What the words of commands stand for."""
    return validate_record(Commands, read_yaml(COMMANDS), str(COMMANDS))


def filled(template: str, words: Mapping[str, Any]) -> str:
    """A command with its words put in, on one line."""
    return " ".join(template.format_map(words).split())
