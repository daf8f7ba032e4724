"""The rules: every module beside this one is one of them."""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import cast

from infopt.errors import unknown_name
from infopt.gate.finding import Rule

FOLDER = Path(__file__).resolve().parent


@cache
def rules() -> tuple[Rule, ...]:
    """All of them, by the names of their files."""
    modules = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "registry"))
    return tuple(cast(Rule, import_module(f"infopt.gate.rules.{module}").RULE) for module in modules)


@cache
def catalogue() -> tuple[Rule, ...]:
    """All of them, and those about suppressions and programs, which look at files and not at deployments."""
    of_files = ("infopt.gate.suppression", "infopt.gate.programs")
    return (*rules(), *(rule for module in of_files for rule in cast(tuple[Rule, ...], import_module(module).RULES)))


@cache
def by_id() -> dict[str, Rule]:
    """The catalogue by id."""
    return {rule.id: rule for rule in catalogue()}


def rule(id: str) -> Rule:
    """The rule of an id; an unknown one lists the nearest."""
    known = by_id()
    if id not in known:
        raise unknown_name("rule", id, list(known), "infopt rules lists them")
    return known[id]
