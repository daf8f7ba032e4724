"""Measured beside predicted speed as points, by group and unit, and the checks that are farthest off.

    diagonal   predicted = measured;  near   predicted = (1 - NEAR, 1 + NEAR) measured
Figures are brought to base units: seconds, tokens/s, ratios. Sources: the checks of studies/validate.py.
"""

from typing import Literal

from infopt.frozen import dataclass
from infopt.studies.memory_checks import Check
from infopt.studies.validate import GROUPS, SPEED_GROUPS, Validation

NEAR = 0.20
Unit = Literal["s", "tokens/s", "ratio"]
# How the name of a metric ends, its unit, and base units in one of the file's.
ENDINGS: tuple[tuple[str, Unit, float], ...] = (
    ("_ms", "s", 1e-3),
    ("tok_s", "tokens/s", 1.0),
    ("speedup", "ratio", 1.0),
)


@dataclass(frozen=True, slots=True)
class Scatter:
    """One group's figures of one unit; `within` of them lie near the diagonal. Bands are (measured, low, high)."""

    group: str
    unit: Unit
    points: tuple[tuple[float, float], ...]
    diagonal: tuple[tuple[float, float], ...]
    near: tuple[tuple[float, float, float], ...]
    within: int


def scatters(result: Validation) -> tuple[Scatter, ...]:
    """Every group of speed that has positive figures."""
    found: dict[tuple[str, Unit], list[tuple[float, float]]] = {}
    for check in result.scored:
        known = next((row for row in ENDINGS if check.metric.endswith(row[0])), None)
        if check.group not in SPEED_GROUPS or known is None or check.predicted is None:
            continue
        _, unit, base = known
        if check.measured > 0 and check.predicted > 0:
            found.setdefault((check.group, unit), []).append((check.measured * base, check.predicted * base))
    ordered = sorted(found.items(), key=lambda one: SPEED_GROUPS.index(one[0][0]))
    return tuple(_scatter(group, unit, points) for (group, unit), points in ordered)


def _scatter(group: str, unit: Unit, points: list[tuple[float, float]]) -> Scatter:
    ends = sorted({min(measured for measured, _ in points), max(measured for measured, _ in points)})
    return Scatter(
        group=group,
        unit=unit,
        points=tuple(points),
        diagonal=tuple((end, end) for end in ends),
        near=tuple((end, (1 - NEAR) * end, (1 + NEAR) * end) for end in ends),
        within=sum(abs(predicted - measured) <= NEAR * measured for measured, predicted in points),
    )


def farthest(result: Validation, each: int) -> tuple[Check, ...]:
    """The checks of each group that are farthest off, the worst first; those that are right are none."""
    return tuple(
        check
        for group in GROUPS
        for check in sorted((c for c in result.scored if c.group == group and c.error), key=lambda c: -c.error)[:each]
    )
