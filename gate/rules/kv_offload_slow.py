"""Cached tokens moved to the host where computing them again is as fast, or nothing ever leaves the device."""

from collections.abc import Iterator

from infopt.boundaries.kv_offload import judge
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import figure_of, lengths_known, situation_of


def check(case: Case) -> Iterator[Hit]:
    """A second home that gains nothing even for prompts found whole in it."""
    names = ("kv_offload_gib", "host_cache")
    at = next((said for name in names if (said := case.deployment.said_at(name)) is not None), None)
    asked = case.value("kv_offload_gib") or case.value("host_cache")
    situation = situation_of(case)
    if at is None or not asked or situation is None or not lengths_known(case):
        return
    found = judge(situation)
    if found.verdict != "skip":
        return
    shortest = figure_of(found, "break_even_prefix_tokens")
    turn = f"; it pays from prompts of {shortest:,.0f} tokens" if shortest is not None else ""
    yield Hit(f"cache offload: {found.reason}{turn}", at=at, confidence="likely")


RULE = Rule(
    id="kv-offload-slow",
    summary="cache offload that gains nothing",
    severity="note",
    why="Host memory is pinned, and restores share the link with everything else.",
    remedy="Leave it out, or offload where long prompts come back.",
    check=check,
)
