"""A technique's curves in characters: gain against a quantity, verdicts under it, flips named."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from infopt.boundaries.technique import Verdict
from infopt.reports import boundary_words as words
from infopt.reports import curves as drawing
from infopt.studies.boundary_curve import Curve

MARKS: Mapping[Verdict, str] = {"use": "u", "limited": "l", "measure": "m", "skip": "s", "impossible": "x"}
LEAST_TOP = 1.1  # a gain of nothing is a line, not a cliff


def drawn(curve: Curve) -> Iterator[RenderableType]:
    """The curve with its axis; its values lie at even distances, the letters under it are verdicts."""
    name, unit = curve.quantity.name, curve.quantity.unit
    yield Text(f"gain against {name}", style="bold")
    if not any(point.gain for point in curve.points):
        yield Padding(Text("no gain is known along it", style="dim"), (0, 0, 0, 2))
        return
    columns = drawing.width()
    yield from _gain(curve, columns)
    at = drawing.steps(len(curve.points), columns)
    letters = "".join(MARKS[curve.points[round(place)].verdict] for place in at)
    yield Text(f"{'':>{drawing.LABEL}} {letters}", style="dim")
    low, high = (words.bare_text(curve.points[i].value, unit) for i in (0, -1))
    yield from drawing.axis(low, high, columns, _now(curve, at))
    for flip in curve.flips:
        yield Padding(Text(f"{words.flip_text(flip)}: {words.turn_text(flip)}"), (0, 0, 0, drawing.LABEL + 1))
    named = {drawing.mark("line"): "gain", drawing.mark("band"): "interval", **{MARKS[v]: v for v in MARKS}}
    yield drawing.legend_of([f"{mark} {name}" for mark, name in named.items()])


def _gain(curve: Curve, columns: int) -> Iterator[Text]:
    places, at = range(len(curve.points)), drawing.steps(len(curve.points), columns)
    gains = [(p.gain.low, p.gain.value, p.gain.high) if p.gain else (None, None, None) for p in curve.points]
    lows, bests, highs = (drawing.read_off(places, values, at) for values in zip(*gains, strict=True))
    known = [value for three in gains for value in three if value is not None]
    bottom, top = min(1.0, *known), max(LEAST_TOP, *known)
    layers = [
        drawing.Layer("", drawing.mark("band"), lows, highs),
        drawing.rule("", 1.0, columns),
        drawing.line("gain", bests),
    ]
    ticks = {value: f"{value:.2f}x" for value in (bottom, (bottom + top) / 2, top, 1.0)}
    yield from drawing.chart(layers, bottom, top, ticks)


def _now(curve: Curve, at: list[float]) -> tuple[int, str] | None:
    """The column of the value that holds here."""
    values = [point.value for point in curve.points]
    if curve.current is None or not values[0] <= curve.current <= values[-1]:
        return None
    column = min(bisect_left(at, bisect_left(values, curve.current)), len(at) - 1)
    return column, f"now {words.bare_text(curve.current, curve.quantity.unit)}"
