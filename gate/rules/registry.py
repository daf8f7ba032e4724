"""The rules, each a file of its own; a new one is a file and a line here."""

from functools import cache
from importlib import import_module
from typing import cast

from infopt.errors import unknown_name
from infopt.gate.finding import Rule

MODULES = (
    "does_not_fit",
    "no_full_request",
    "tight",
    "placement",
    "gpus_granted",
    "flags",
    "unpinned_image",
)


@cache
def rules() -> tuple[Rule, ...]:
    """All of them."""
    return tuple(cast(Rule, import_module(f"infopt.gate.rules.{module}").RULE) for module in MODULES)


def rule(id: str) -> Rule:
    """The rule of an id; an unknown one lists the nearest."""
    known = {r.id: r for r in rules()}
    if id not in known:
        raise unknown_name("rule", id, list(known), "infopt rules lists them")
    return known[id]
