"""Options that this version of the engine does not take as written."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule

SEVERITIES = {"undetermined": "note", "deprecated": "note", "unresolved": "note"}


def check(case: Case) -> Iterator[Hit]:
    """Every problem the parser met."""
    for problem in case.deployment.problems:
        yield Hit(
            problem.message,
            at=problem.argument,
            remedy=problem.remedy,
            severity=SEVERITIES.get(problem.kind),  # type: ignore[arg-type]  # the values are severities
            confidence="likely" if problem.kind == "unknown" else "certain",
        )


RULE = Rule(
    id="flags",
    summary="an option is removed, not there yet, unknown, ambiguous or badly written in this version",
    severity="error",
    why="The engine prints its usage and exits.",
    remedy="Write the option as this version has it, or pin the version that has it.",
    check=check,
)
