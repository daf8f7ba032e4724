"""Cached tokens moved to the host where computing them again is as fast, or nothing ever leaves the device."""

from collections.abc import Iterator

from infopt.boundaries.kv_offload import judge
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.found import Argument
from infopt.gate.situations import figure_of, lengths_known, situation_of

# Connectors of vLLM that keep a cache in host memory.
CONNECTORS = ("Offloading", "LMCache")


def check(case: Case) -> Iterator[Hit]:
    """A second home that gains nothing even for prompts found whole in it."""
    at = _asked_at(case)
    situation = situation_of(case) if at is not None else None
    if situation is None or not lengths_known(case):
        return
    found = judge(situation)
    if found.verdict != "skip":
        return
    shortest = figure_of(found, "break_even_prefix_tokens")
    turn = f"; it pays from prompts of {shortest:,.0f} tokens" if shortest is not None else ""
    yield Hit(f"cache offload: {found.reason}{turn}", at=at, confidence="likely")


def _asked_at(case: Case) -> Argument | None:
    """Where a cache in host memory is asked for; connectors between prefill and decode are none."""
    for name in ("kv_offload_gib", "host_cache"):
        if case.value(name):
            return case.deployment.said_at(name)
    said = case.value("kv_transfer")
    connector = str(said.get("kv_connector", "")) if isinstance(said, dict) else ""
    return case.deployment.said_at("kv_transfer") if connector.startswith(CONNECTORS) else None


RULE = Rule(
    id="kv-offload-slow",
    summary="cache offload that gains nothing",
    severity="note",
    why="Host memory is pinned, and restores share the link with everything else.",
    remedy="Leave it out, or offload where long prompts come back.",
    check=check,
)
