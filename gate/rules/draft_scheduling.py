"""A draft method for which the engine gives up scheduling ahead of the device."""

from collections.abc import Iterator
from dataclasses import replace

from infopt.gate.case import Case
from infopt.gate.drafts import draft_of, drafting_case, drafts, said_at
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import own_engine, running_of
from infopt.units import format_seconds


def check(case: Case) -> Iterator[Hit]:
    """The version is one of those, and what it costs is a share of a step."""
    if not drafts(case) or not own_engine(case) or case.deployment.version is None:
        return
    situation, draft = running_of(case), draft_of(case)
    if situation is None or draft is None:
        return
    made = drafting_case(situation.changed(load=replace(situation.load, draft=draft)))
    if made is None or not made.drafting.lost or made.basis == "floor":
        return
    step_s, lost_s = made.step_s(situation.steps, situation.batch), made.drafting.cycle_s[1]
    share = lost_s / step_s
    if share < case.parameter(RULE.id, "least_share"):
        return
    yield Hit(
        f"{made.drafting.lost}: each cycle takes {format_seconds(lost_s)} longer, {share:.0%} of a step of "
        f"{format_seconds(step_s)} at batch {situation.scenario.batch}",
        at=said_at(case),
        detail=f"seen from {format_seconds(made.drafting.cycle_s[0])} to {format_seconds(made.drafting.cycle_s[2])}",
        severity="warning" if share >= case.parameter(RULE.id, "large_share") else "note",
        confidence="likely",
    )


RULE = Rule(
    id="draft-scheduling",
    summary="this draft method switches off scheduling ahead",
    severity="warning",
    why="The device waits for the host between steps, which takes part of what drafts gain.",
    remedy="EAGLE or the model's own prediction layers, or a version that keeps it.",
    check=check,
    parameters={"least_share": 0.05, "large_share": 0.2},
    source="boundaries/data/draft_methods.yaml, scheduling",
)
