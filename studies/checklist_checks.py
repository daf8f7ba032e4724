"""The checks an item may name: a function each, described with its limits in data/checks.yaml."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from pydantic import Field, FiniteFloat

from infopt.errors import InfoptError, unknown_name
from infopt.profiles.checklists import Item
from infopt.records import Record, read_yaml, validate_record
from infopt.studies import checklist_latency, checklist_memory, checklist_techniques
from infopt.studies.checklist_context import Answer, Context

DATA = Path(__file__).resolve().parent / "data" / "checks.yaml"
MODULES = (checklist_memory, checklist_latency, checklist_techniques)


class Limit(Record):
    """A number a check uses unless an item gives its own."""

    value: FiniteFloat
    source: str


class Check(Record):
    """One check.

    text         what it does
    limits       its numbers by name
    open_limits  names of numbers that have no value unless an item gives one; at least one is needed
    """

    text: str
    limits: dict[str, Limit] = Field({})
    open_limits: list[str] = Field([])


@cache
def checks() -> dict[str, Check]:
    """All checks by name."""
    return {name: validate_record(Check, row, f"{DATA}: {name}") for name, row in read_yaml(DATA).items()}


def function(name: str) -> Callable[..., Answer]:
    """The function of a check: its name with underscores, in one of the check modules."""
    wanted = name.replace("-", "_")
    found: Callable[..., Answer] = next(vars(module)[wanted] for module in MODULES if wanted in vars(module))
    return found


def refuse_unknown(item: Item, where: str) -> None:
    """Raise InfoptError for an item with an unknown check, limit or figure, or without the limits it needs."""
    if item.check is None:
        if item.thresholds:
            raise InfoptError(f"{where}: {item.id}: thresholds without a check")
        return
    if item.check not in checks():
        raise unknown_name("check", item.check, checks(), f"{where}: {item.id}; docs/checklist.md lists them")
    check = checks()[item.check]
    for name in item.thresholds:
        if name not in (*check.limits, *check.open_limits):
            known = ", ".join((*check.limits, *check.open_limits)) or "none"
            raise InfoptError(f"{where}: {item.id}: check {item.check} has no threshold {name!r}, only {known}")
    if check.open_limits:
        if item.figure is None:
            raise InfoptError(f"{where}: {item.id}: say which figure, such as `figure: memory.kv_share`")
        checklist_memory.split_figure(item.figure, f"{where}: {item.id}")
        if not item.thresholds:
            raise InfoptError(f"{where}: {item.id}: thresholds need {' or '.join(check.open_limits)}")


def run(item: Item, context: Context) -> Answer:
    """The answer of an item's check."""
    assert item.check is not None
    check, work = checks()[item.check], function(item.check)
    limits: Mapping[str, float] = {name: limit.value for name, limit in check.limits.items()} | item.thresholds
    return work(context, limits, item.figure) if item.figure is not None else work(context, limits)
