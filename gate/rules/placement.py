"""Placements and shapes that no version of the engine runs."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule


def check(case: Case) -> Iterator[Hit]:
    """The ledger's own refusal: heads, layers, experts."""
    if case.refused:
        yield Hit(case.refused, at=case.deployment.said_at("tp") or case.deployment.said_at("pp"))


RULE = Rule(
    id="placement",
    summary="the model cannot be split this way",
    severity="error",
    why="Heads, layers or experts do not divide: the engine stops.",
    remedy="One of the degrees the message names.",
    check=check,
)
