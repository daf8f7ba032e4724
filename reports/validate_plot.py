"""Measured against predicted, log-log: one panel a group, the diagonal and what lies 30 % off it."""

from pathlib import Path

from infopt.errors import InfoptError
from infopt.reports.pictures import drawing, saved
from infopt.studies.memory_checks import Check
from infopt.studies.validate import SPEED_GROUPS, Validation

COLUMNS = 4
PANEL_INCHES = 3.2
OFF = 1.3


def draw(result: Validation, path: Path) -> None:
    """One panel for each group of speed; raises MissingExtraError without the drawing library."""
    library = drawing(path)
    groups = {name: members for name in SPEED_GROUPS if (members := _members(result, name))}
    if not groups:
        raise InfoptError("--plot: no measurement of speed was scored; there is nothing to draw")
    across, down = min(COLUMNS, len(groups)), -(-len(groups) // COLUMNS)
    figure = library.Figure(figsize=(PANEL_INCHES * across, PANEL_INCHES * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False)
    for panel in panels.flat[len(groups) :]:
        panel.set_axis_off()
    for panel, (name, members) in zip(panels.flat, groups.items(), strict=False):
        measured, predicted = [c.measured for c in members], [c.predicted for c in members]
        ends = (min(measured), max(measured))
        for factor, style in ((1.0, "-"), (OFF, ":"), (1 / OFF, ":")):
            panel.plot(ends, [factor * end for end in ends], style, color="0.6", linewidth=0.8)
        panel.plot(measured, predicted, ".", markersize=3, alpha=0.5)
        unit = "tokens/s or ms" if len({c.metric for c in members}) > 1 else _unit(members[0].metric)
        panel.set(xscale="log", yscale="log", title=f"{name}, n {len(members)}", xlabel=f"measured, {unit}")
        panel.set_ylabel("predicted")
    saved(figure, path)


def _members(result: Validation, group: str) -> list[Check]:
    return [check for check in result.scored if check.group == group]


def _unit(metric: str) -> str:
    return "ms" if metric.endswith("_ms") else "tokens/s" if "tok_s" in metric else "ratio"
