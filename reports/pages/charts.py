"""What a chart shows, as data in base units. `data/charts.js` draws it; `chart_rows` writes it as a table.

A chart is described by what it means, not by what a drawing library calls it: the library can be changed in one place.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from infopt import units
from infopt.frozen import dataclass

# lines      curves, bands and points over x and y
# waterfall  parts that stack up to a limit: a category, where the part starts and ends
# bars       one bar a category; ranges: a low, a value and a high each
# heat       a value at each pair of categories
# Categories of waterfall, bars and ranges are `x` here, and drawn from top to bottom: names need room.
Kind = Literal["lines", "waterfall", "bars", "ranges", "heat"]
Scale = Literal["linear", "log", "category"]
# What a series is, which decides its colour and dash everywhere.
Role = Literal["estimate", "floor", "interval", "target", "measured", "limit", "chosen", "other", "good", "bad", "open"]
Unit = Literal[
    "s",
    "bytes",
    "decimal bytes",
    "tokens",
    "share",
    "count",
    "usd",
    "bytes/s",
    "flop",
    "flop/s",
    "tokens/s",
    "1/s",
    "ratio",
    "flop/byte",
]
Value = float | int | str | None

# How a figure of a unit is written; `charts.js` has the same table for axes and tooltips.
WRITTEN: Mapping[str, Callable[[Any], str]] = {
    "s": units.format_seconds,
    "bytes": units.format_gib,
    "decimal bytes": units.format_bytes,
    "tokens": lambda value: units.format_whole(round(value)),
    "share": units.format_share,
    "count": units.format_count,
    "usd": units.format_usd,
    "bytes/s": units.format_bytes_per_s,
    "flop": units.format_flop,
    "flop/s": units.format_flop_per_s,
    "tokens/s": lambda value: f"{units.format_count(value)} tokens/s",
    "1/s": lambda value: f"{value:.3g}/s",
    "ratio": lambda value: f"{value:.3g}x",
    "flop/byte": lambda value: f"{units.format_count(value)} FLOP/B",
}


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis; categories in their order where the scale is of them."""

    label: str
    unit: Unit = "count"
    scale: Scale = "linear"
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together; what one holds depends on the mark.

    line    (x, y)                points  (x, y) or (x, y, label)
    band    (x, low, high)        bar     (category, value)
    part    (category, start, end)        range   (category, low, value, high)
    cell    (x category, y category, value)
    """

    name: str
    role: Role
    mark: Literal["line", "points", "band", "bar", "part", "range", "cell"]
    points: Sequence[tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line across: a target, a limit, what is there now."""

    axis: Literal["x", "y"]
    value: float
    label: str
    role: Role = "target"


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture; `description` says in a sentence what to see in it."""

    id: str
    kind: Kind
    title: str
    description: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    lines: tuple[Line, ...] = ()
    values: Axis | None = None  # of cells: what their colour means


def chart_dict(chart: Chart) -> dict[str, Any]:
    """The chart as plain data for `charts.js`."""
    return {
        "id": chart.id,
        "kind": chart.kind,
        "title": chart.title,
        "description": chart.description,
        "x": _axis(chart.x),
        "y": _axis(chart.y),
        "values": None if chart.values is None else _axis(chart.values),
        "series": [
            {"name": s.name, "role": s.role, "mark": s.mark, "points": [list(point) for point in s.points]}
            for s in chart.series
        ],
        "lines": [{"axis": a.axis, "value": a.value, "label": a.label, "role": a.role} for a in chart.lines],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {"label": axis.label, "unit": axis.unit, "scale": axis.scale, "categories": list(axis.categories)}


def written(value: Value, axis: Axis) -> str:
    """A value of an axis as it is read; "-" where it is not known."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else WRITTEN[axis.unit](value)


# Columns of a point by its mark: which axis writes it, and what follows the name of the series.
COLUMNS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "line": (("y", ""),),
    "points": (("y", ""),),
    "bar": (("y", ""),),
    "band": (("y", " low"), ("y", " high")),
    "part": (("y", " from"), ("y", " to")),
    "range": (("y", " low"), ("y", ""), ("y", " high")),
}


def chart_rows(chart: Chart) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of the data: one row for each x, one column (or more) for each series.

    Points of one series at the same x have a row each.
    """
    if chart.kind == "heat":
        return _cell_rows(chart)
    columns, rows = [chart.x.label], dict[Value, list[dict[str, str]]]()
    for series in chart.series:
        names = [f"{series.name}{ending}" for _, ending in COLUMNS[series.mark]]
        columns += names
        for point in series.points:
            label = point[2] if series.mark == "points" and len(point) > 2 else None
            here = rows.setdefault(label if isinstance(label, str) else point[0], [])
            at = next((row for row in here if names[0] not in row), None)
            if at is None:
                here.append(at := {})
            at.update((name, written(value, chart.y)) for name, value in zip(names, point[1:], strict=False))
    ordered = sorted(rows, key=_order) if chart.x.scale != "category" else list(rows)
    found = ((x, row) for x in ordered for row in rows[x])
    return columns, [[written(x, chart.x), *(row.get(name, "") for name in columns[1:])] for x, row in found]


def _order(x: Value) -> tuple[bool, float]:
    return isinstance(x, str), x if isinstance(x, int | float) else 0.0


def _cell_rows(chart: Chart) -> tuple[list[str], list[list[str]]]:
    """A row for each y, a column for each x; a point on a cell is named behind the cell's value."""
    values = chart.values or chart.y
    found: dict[tuple[Value, Value], str] = {}
    for series in chart.series:
        for point in series.points:
            at = (point[0], point[1])
            named = f"{found.get(at, '-')} ({series.name})"
            found[at] = named if series.mark == "points" else written(point[2], values)
    columns = [f"{chart.y.label} \\ {chart.x.label}", *chart.x.categories]
    rows = [[y, *(found.get((x, y), "-") for x in chart.x.categories)] for y in chart.y.categories]
    return columns, rows
