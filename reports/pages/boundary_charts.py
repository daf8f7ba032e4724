"""Charts of boundaries: gains beside each other, verdicts and gains across two quantities, gains along one."""

from collections.abc import Iterable, Mapping, Sequence

from infopt.boundaries.quantities import Quantity
from infopt.boundaries.technique import VERDICTS, Boundary, BreakEven, Technique, Verdict
from infopt.reports import boundary_words as words
from infopt.reports.pages.charts import Axis, Chart, Line, Role, Scale, Series, Unit
from infopt.studies.boundary_curve import Curve
from infopt.studies.break_even_map import BreakEvenMap, Cell

# The same verdict has the same colour everywhere.
ROLES: Mapping[Verdict, Role] = {
    "use": "good",
    "limited": "interval",
    "measure": "open",
    "skip": "other",
    "impossible": "bad",
}
UNITS: Mapping[str, Unit] = {
    "bytes/s": "bytes/s",
    "requests/s": "1/s",
    "s": "s",
    "share": "share",
    "tokens": "tokens",
    "": "ratio",
}
BAND = "The shaded band is what the gain may be instead. "
NO_CHANGE = Line("y", 1.0, "no change", "other")


def gains_chart(techniques: Sequence[Boundary]) -> Chart | None:
    """The gain of every technique with its interval, coloured by verdict; None where no gain is known."""
    known = [b for b in techniques if b.judgement.gain is not None]
    if not known:
        return None
    return Chart(
        "gains",
        "ranges",
        "Gain of each technique",
        "Right of 1 it makes its figure better: the mark is what to expect, the bar what it may be instead.",
        Axis("technique", scale="category", categories=tuple(b.technique.name for b in known)),
        Axis("gain", "ratio", "log"),
        tuple(_gains_of(known)),
        (NO_CHANGE,),
    )


def _gains_of(known: Sequence[Boundary]) -> Iterable[Series]:
    """One series for each verdict that is given."""
    for verdict in VERDICTS:
        points = [
            (b.technique.name, gain.low, gain.value, gain.high)
            for b in known
            if b.judgement.verdict == verdict and (gain := b.judgement.gain) is not None
        ]
        if points:
            yield Series(verdict, ROLES[verdict], "range", points)


def verdict_map(found: BreakEvenMap) -> Chart:
    """The verdict at each pair of values."""
    series = [
        Series(verdict, ROLES[verdict], "cell", points)
        for verdict in VERDICTS
        if (points := [(x, y, cell.verdict) for x, y, cell in _cells(found) if cell.verdict == verdict])
    ]
    return Chart(
        f"map-{found.technique.id}",
        "heat",
        f"{found.technique.name}: verdict",
        f"By {found.x.name} and {found.y.name}, all else as it is. {_here_words(found)}",
        *_axes(found),
        (*series, *_here(found)),
        values=Axis("verdict", scale="category", categories=VERDICTS),
    )


def gain_map(found: BreakEvenMap) -> Chart | None:
    """The gain at each pair of values; None where none is known."""
    points = [(x, y, cell.gain.value if cell.gain else None) for x, y, cell in _cells(found)]
    if all(value is None for _, _, value in points):
        return None
    return Chart(
        f"gain-map-{found.technique.id}",
        "heat",
        f"{found.technique.name}: gain",
        f"By {found.x.name} and {found.y.name}, all else as it is; empty where there is none. {_here_words(found)}",
        *_axes(found),
        (Series("gain", "estimate", "cell", points), *_here(found)),
        values=Axis("gain", "ratio", "log"),
    )


def _cells(found: BreakEvenMap) -> list[tuple[str, str, Cell]]:
    columns, rows = labels(found.x, found.x_values, found.x_here), labels(found.y, found.y_values, found.y_here)
    return [
        (x, y, cell) for y, cells in zip(rows, found.cells, strict=True) for x, cell in zip(columns, cells, strict=True)
    ]


def _axes(found: BreakEvenMap) -> tuple[Axis, Axis]:
    return _axis(found.x, found.x_values, found.x_here), _axis(found.y, found.y_values, found.y_here)


def _axis(quantity: Quantity, values: Sequence[float], here: float | None) -> Axis:
    return Axis(quantity.name, UNITS.get(quantity.unit, "count"), "category", labels(quantity, values, here))


def labels(quantity: Quantity, values: Sequence[float], here: float | None) -> tuple[str, ...]:
    """Values as categories: each reads differently, the present one says so."""
    short = [words.bare_text(value, quantity.unit) for value in values]
    if len(set(short)) < len(short):
        short = [f"{value:.6g}" for value in values]
    return tuple(f"{text} now" if value == here else text for value, text in zip(values, short, strict=True))


def _here(found: BreakEvenMap) -> tuple[Series, ...]:
    """A mark on the cell of the situation, where both its values are known."""
    if found.x_here is None or found.y_here is None:
        return ()
    pair = tuple(
        labels(q, values, here)[values.index(here)]
        for q, values, here in ((found.x, found.x_values, found.x_here), (found.y, found.y_values, found.y_here))
    )
    return (Series("now", "chosen", "points", (pair,)),)


def _here_words(found: BreakEvenMap) -> str:
    names = [q.name for q, here in ((found.x, found.x_here), (found.y, found.y_here)) if here is None]
    if not names:
        return "The frame is where you are."
    return f"Your {' and '.join(names)} {'is' if len(names) == 1 else 'are'} not given."


def curve_chart(curve: Curve) -> Chart | None:
    """Gain along a quantity with its interval, where verdicts flip, and where we are; None where no gain is known."""
    known = [(p.value, p.gain) for p in curve.points if p.gain is not None]
    if len(known) < 2:
        return None
    q, ends = curve.quantity, [(value, gain.low, gain.high) for value, gain in known]
    band = [Series("interval", "interval", "band", ends)] if any(low < high for _, low, high in ends) else []
    now = () if curve.current is None else (_line(q, curve.current, "now", "chosen"),)
    return Chart(
        f"curve-{q.name}",
        "lines",
        f"Gain against {q.name}",
        f"Above 1 it pays. {BAND if band else ''}Lines across are where the verdict changes.",
        Axis(q.name, UNITS.get(q.unit, "count"), _scale(q)),
        Axis("gain", "ratio"),
        (*band, Series("gain", "estimate", "line", [(value, gain.value) for value, gain in known])),
        (NO_CHANGE, *(_flip_line(q, flip) for flip in curve.flips if flip.value is not None), *now),
    )


def _scale(quantity: Quantity) -> Scale:
    return "linear" if quantity.share or quantity.low <= 0 else "log"


def _flip_line(quantity: Quantity, flip: BreakEven) -> Line:
    return _line(quantity, flip.value or 0.0, words.turn_text(flip), "target")


def _line(quantity: Quantity, value: float, label: str, role: Role) -> Line:
    return Line("x", value, f"{label} ({words.bare_text(value, quantity.unit)})", role)


def no_map_words(technique: Technique) -> str:
    """Why a technique has no map."""
    names = " and ".join(q.name for q in technique.quantities)
    return f"{technique.name} has no map: its verdict turns with {names} alone."


def flat_words(found: BreakEvenMap) -> str:
    """A map of one colour, said."""
    ends = [
        f"{q.name} {words.bare_text(values[0], q.unit)} to {words.bare_text(values[-1], q.unit)}"
        for q, values in ((found.x, found.x_values), (found.y, found.y_values))
    ]
    return f"{found.technique.name} has one verdict for every {' and '.join(ends)}: {found.only}."
