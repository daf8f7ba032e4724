"""A curve in characters: gain against a quantity, verdicts under it, flips named."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from infopt.boundaries.technique import Verdict
from infopt.reports import boundary_words as words
from infopt.reports.screen import plain_characters, terminal_width
from infopt.studies.boundary_curve import Curve

ROWS = 8
LABEL = 8
MARKS: dict[Verdict, str] = {"use": "u", "limited": "l", "measure": "m", "skip": "s", "impossible": "x"}


def drawn(curve: Curve) -> Iterator[RenderableType]:
    """The curve with its axis; a column is a value of the grid, the letters under it are verdicts."""
    known = [point for point in curve.points if point.gain is not None]
    name, unit = curve.quantity.name, curve.quantity.unit
    yield Text(f"gain against {name}", style="bold")
    if not known:
        yield Padding(Text("no gain is known along it", style="dim"), (0, 0, 0, 2))
        return
    columns = min(len(curve.points), max(10, terminal_width() - LABEL - 4))
    points = [curve.points[i * (len(curve.points) - 1) // max(1, columns - 1)] for i in range(columns)]
    values = [p.gain.value if p.gain else None for p in points]
    top = max([1.1, *(v for v in values if v is not None)])
    bottom = min([1.0, *(v for v in values if v is not None)])
    width = max(1, (terminal_width() - LABEL - 4) // columns)
    mark, line = ("*", "-") if plain_characters() else ("●", "─")
    one = _row(1.0, bottom, top)
    for row in range(ROWS, -1, -1):
        label = f"{bottom + (top - bottom) * row / ROWS:.2f}x" if row % 4 == 0 or row == one else ""
        cells = "".join(_cell(v, row, bottom, top, one, mark, line) * 1 + _fill(row, one, line, width) for v in values)
        yield Text(f"{label:>{LABEL}} {cells}".rstrip())
    letters = "".join(MARKS[p.verdict].ljust(width) for p in points)
    yield Text(f"{'':>{LABEL}} {letters}".rstrip(), style="dim")
    low, high = (words.bare_text(points[i].value, unit) for i in (0, -1))
    yield Text(f"{'':>{LABEL}} {low}{high.rjust(max(1, width * columns - len(low)))}", style="dim")
    for flip in curve.flips:
        yield Padding(Text(f"{words.flip_text(flip)}: {words.turn_text(flip)}"), (0, 0, 0, LABEL + 1))
    now = words.bare_text(curve.current, unit)
    yield Padding(Text(f"now {now}; u use, l limited, m measure, s skip, x impossible", style="dim"), (0, 0, 0, 9))


def _row(value: float, bottom: float, top: float) -> int:
    return round((value - bottom) / (top - bottom) * ROWS) if top > bottom else 0


def _cell(value: float | None, row: int, bottom: float, top: float, one: int, mark: str, line: str) -> str:
    if value is not None and _row(value, bottom, top) == row:
        return mark
    return line if row == one else " "


def _fill(row: int, one: int, line: str, width: int) -> str:
    return (line if row == one else " ") * (width - 1)
