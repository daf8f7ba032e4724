"""Placements and shapes that no version of the engine runs."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.ledgers.scenario import allowed_tensor_parallel


def check(case: Case) -> Iterator[Hit]:
    """The ledger's own refusal; heads have rules of their own."""
    if not case.refused:
        return
    if case.model is not None and case.placed.attention_tp not in allowed_tensor_parallel(case.model):
        return
    names = ("pp", "ep", "tp", "dp", "context_tokens")
    at = next((said for name in names if (said := case.deployment.said_at(name)) is not None), None)
    yield Hit(case.refused, at=at)


RULE = Rule(
    id="placement",
    summary="the model cannot be placed or loaded this way",
    severity="error",
    why="Layers, experts or formats do not go together: the engine stops.",
    remedy="One of the values the message names.",
    check=check,
    source="ledgers/scenario.py check_placement",
)
