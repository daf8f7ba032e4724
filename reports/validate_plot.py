"""Measured against predicted, log-log: one panel a group, the diagonal and what lies 30 % off it (extra `report`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.reports.pictures import BLUE, OPTION, base_of, picture, scale, title
from infopt.studies.memory_checks import Check
from infopt.studies.validate import SPEED_GROUPS, Validation

COLUMNS = 4
PANEL_INCHES = 3.2
OFF = 1.3


def draw(result: Validation, path: Path) -> None:
    """One panel for each group of speed.

    Errors: InfoptError where the file cannot be written or nothing can be drawn, MissingExtraError without matplotlib.
    """
    groups = {name: members for name in SPEED_GROUPS if (members := _members(result, name))}
    if not groups:
        raise InfoptError(f"{OPTION}: no measurement of speed was scored; there is nothing to draw")
    across, down = min(COLUMNS, len(groups)), -(-len(groups) // COLUMNS)
    with picture(path, PANEL_INCHES * across, PANEL_INCHES * down) as figure:
        panels = figure.subplots(down, across, squeeze=False)
        for panel in panels.flat[len(groups) :]:
            panel.set_axis_off()
        for panel, (name, members) in zip(panels.flat, groups.items(), strict=False):
            _panel(panel, name, members)
        title(figure, f"Predicted against measured speed; dotted: {OFF:g} times off")


def _panel(panel: Any, name: str, members: Sequence[Check]) -> None:
    measured = [c.measured for c in members]
    predicted = [c.predicted for c in members if c.predicted is not None]  # as of all that were scored
    ends = (min(measured), max(measured))
    for factor, dash in ((1.0, "-"), (OFF, ":"), (1 / OFF, ":")):
        panel.plot(ends, [factor * end for end in ends], dash, color="0.4", linewidth=0.9)
    panel.plot(measured, predicted, ".", color=BLUE, markersize=4, alpha=0.5)
    unit = "tokens/s or ms" if len({c.metric for c in members}) > 1 else _unit(members[0].metric)
    panel.set(title=f"{name}, n {len(members)}", xlabel=f"measured, {unit}", ylabel="predicted")
    for axis in (panel.xaxis, panel.yaxis):
        scale(axis, lambda value: f"{value:,.10g}", 10 if base_of([*measured, *predicted]) else 0)


def _members(result: Validation, group: str) -> list[Check]:
    return [check for check in result.scored if check.group == group]


def _unit(metric: str) -> str:
    return "ms" if metric.endswith("_ms") else "tokens/s" if "tok_s" in metric else "ratio"
