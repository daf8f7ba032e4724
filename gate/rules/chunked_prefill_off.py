"""Whole prompts in one step: everybody who decodes waits for them."""

from collections.abc import Iterator

from infopt.boundaries.chunked_prefill import itl_s, new_tokens, resident, split
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, load_known, running_of
from infopt.units import format_seconds


def check(case: Case) -> Iterator[Hit]:
    """Switched off in the file, and the wait misses the policy's time per token."""
    at, situation = case.deployment.said_at("chunked_prefill"), running_of(case)
    if case.value("chunked_prefill") is not False or at is None or situation is None or case.deployment.found.role:
        return
    target_s = situation.load.targets.tpot_s
    if target_s is None or not (lengths_known(case) and load_known(case)) or resident(situation) < 2:
        return
    if situation.steps.basis != "estimate":
        return
    whole_s = itl_s(situation, situation.steps, new_tokens(situation))
    if whole_s <= target_s:
        return
    most = split(situation, situation.steps).most_tokens
    cure = f"chunks of at most {most:,} tokens keep it" if most else ""
    yield Hit(
        f"a prompt of {new_tokens(situation):,.0f} tokens holds up the others for {format_seconds(whole_s)}; the "
        f"target is {format_seconds(target_s)} a token",
        at=at,
        remedy=cure,
        confidence="likely",
    )


RULE = Rule(
    id="chunked-prefill-off",
    summary="chunked prefill is off and whole prompts stop the others",
    severity="warning",
    why="While one prompt is computed no other request gets a token.",
    remedy="Switch chunked prefill on.",
    check=check,
)
