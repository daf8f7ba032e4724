"""A length limit far above the requests that come: long ones may take the room of many."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import lengths_known, situation_of


def check(case: Case) -> Iterator[Hit]:
    """The limit is a multiple of input and output of the policy."""
    situation = situation_of(case)
    if situation is None or case.plan is None or not lengths_known(case):
        return
    limit, asked = case.plan.scenario.context_tokens, situation.scenario.context_tokens
    if limit < case.parameter(RULE.id, "times") * asked:
        return
    at, whole = case.deployment.said_at("context_tokens"), case.plan.memory.max_sequences
    start = f"the length limit of {limit:,} tokens is {limit / asked:.0f} times the {asked:,} of the workload"
    remedy = f"a length limit of {_rounded(asked):,} tokens holds the workload"
    held = situation.memory.max_sequences
    if whole < 1 and held >= 1:
        yield Hit(f"{start}: not one request of that length fits, {held:,} of the workload's do", at, remedy=remedy)
    elif held > whole and case.plan.scenario.engine.windows == "cells":
        text = f"{start}: every slot is reserved for it, {whole:,} fit instead of {held:,}"
        yield Hit(text, at, remedy=remedy)
    elif limit / asked >= case.parameter(RULE.id, "room_share") * held > 0:
        text = f"{start}: {held:,} sequences of the workload fit, one of full length takes the room of {limit // asked}"
        yield Hit(text, at, remedy=remedy, severity="note", confidence="likely")


def _rounded(tokens: int) -> int:
    """The next multiple of 1,024."""
    return -(-tokens // 1024) * 1024


RULE = Rule(
    id="context-above-workload",
    summary="the length limit is far above the workload's requests",
    severity="warning",
    why="The engine must hold one request of the limit to start, and one such request pushes out many usual ones.",
    remedy="A length limit near the longest request of the workload.",
    check=check,
    parameters={"times": 4, "room_share": 0.2},
)
