"""Curves in characters: what is drawn at each column, rows from top to bottom."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.padding import Padding
from rich.text import Text

from infopt.frozen import dataclass
from infopt.reports.screen import plain_characters, terminal_width

LABEL = 10  # columns for the figures of the vertical axis
ROWS = 8
BETWEEN = "   "  # items of a legend
ROUND = (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 7, 8, 9)  # where an axis may end, times a power of ten
BLOCKS, ASCII_BLOCKS = " ▁▂▃▄▅▆▇█", " .:#"
MARKS = {"line": "●", "other": "○", "floor": "·", "band": "░", "rule": "─"}
ASCII_MARKS = {"line": "*", "other": "o", "floor": ".", "band": ":", "rule": "-"}

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Layer:
    """A mark from `low` to `high` at each column, the same twice for a line; None where there is nothing.

    name  for the legend; nothing to be left out of it
    """

    name: str
    mark: str
    low: Values
    high: Values


def mark(name: str) -> str:
    """A character for a kind of mark that the screen can show."""
    return (ASCII_MARKS if plain_characters() else MARKS)[name]


def line(name: str, values: Values, kind: str = "line") -> Layer:
    """A curve."""
    return Layer(name, mark(kind), values, values)


def rule(name: str, value: float, columns: int) -> Layer:
    """A straight line across."""
    return line(name, [value] * columns, "rule")


def width() -> int:
    """Columns that a chart may take."""
    return terminal_width() - LABEL - 2


def even(low: float, high: float, columns: int) -> list[float]:
    """A value for each column, at even ratios.

    >>> even(1.0, 8.0, 4)
    [1.0, 2.0, 4.0, 8.0]
    """
    return [low * (high / low) ** (at / max(1, columns - 1)) for at in range(columns)]


def steps(points: int, columns: int) -> list[float]:
    """The point that stands at each column, where points lie at even distances.

    >>> steps(3, 5)
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """
    return [at * (points - 1) / max(1, columns - 1) for at in range(columns)]


def round_top(most: float) -> float:
    """A round figure at or above the largest: where an axis ends.

    >>> round_top(0.0837), round_top(5.0), round_top(0.0)
    (0.1, 5.0, 1.0)
    """
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next((step * power for step in ROUND if step * power >= most), 10 * power)


def read_off(places: Sequence[float], values: Values, at: Sequence[float]) -> list[float | None]:
    """A curve known at rising `places`, read off at others on straight lines; None outside and beside a gap.

    >>> read_off([1, 2, 4], [10.0, 20.0, None], [1, 1.5, 3, 9])
    [10.0, 15.0, None, None]
    """
    return [_between(places, values, place) for place in at]


def _between(places: Sequence[float], values: Values, place: float) -> float | None:
    right = bisect_left(places, place * (1 - 1e-9))
    if right == len(places) or place < places[0] * (1 - 1e-9):
        return None
    if right == 0 or math.isclose(places[right], place):
        return values[right]
    left_value, right_value = values[right - 1], values[right]
    if left_value is None or right_value is None:
        return None
    share = (place - places[right - 1]) / (places[right] - places[right - 1])
    return left_value + share * (right_value - left_value)


def chart(
    layers: Sequence[Layer], bottom: float, top: float, ticks: Mapping[float, str], rows: int = ROWS
) -> Iterator[Text]:
    """Layers over one another, the last one in front, with the ticks' texts at their height; what is outside is cut."""
    labels = {_row(value, bottom, top, rows): text for value, text in ticks.items()}
    spans = [[_span(*ends, bottom, top, rows) for ends in zip(la.low, la.high, strict=True)] for la in layers]
    columns = max((len(one) for one in spans), default=0)
    for row in range(rows, -1, -1):
        cells = [" "] * columns
        for layer, span in zip(layers, spans, strict=True):
            for column, ends in enumerate(span):
                if ends is not None and ends[0] <= row <= ends[1]:
                    cells[column] = layer.mark
        yield Text(f"{labels.get(row, ''):>{LABEL}} {''.join(cells)}".rstrip())


def scatter(points: Sequence[tuple[float, float, str]], write: Callable[[float], str], rows: int) -> Iterator[Text]:
    """Points (x, y, name), both axes logarithmic: the name where there is room for it, else a dot."""
    columns = width()
    cells = [[" "] * columns for _ in range(rows + 1)]
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    for x, y, name in points:
        row = cells[column_of(y, min(ys), max(ys), rows + 1)]
        at = min(column_of(x, min(xs), max(xs), columns), columns - len(name))
        if all(cell == " " for cell in row[max(0, at - 1) : at + len(name) + 1]):
            row[at : at + len(name)] = name
        elif row[at] == " ":
            row[at] = mark("floor")
    ticks = {0: min(ys), rows // 2: math.sqrt(min(ys) * max(ys)), rows: max(ys)}
    labels = {at: write(value) for at, value in ticks.items()}
    for at in range(rows, -1, -1):
        yield Text(f"{labels.get(at, ''):>{LABEL}} {''.join(cells[at])}".rstrip())


def legend(layers: Sequence[Layer]) -> Padding:
    """Marks and names, the front one first."""
    return legend_of([f"{layer.mark} {layer.name}" for layer in reversed(layers) if layer.name])


def legend_of(items: Sequence[str]) -> Padding:
    """Items beside each other, none of them broken where it fits."""
    lines = [items[0]]
    for item in items[1:]:
        if len(lines[-1]) + len(BETWEEN) + len(item) <= width():
            lines[-1] += BETWEEN + item
        else:
            lines.append(item)
    return Padding(Text("\n".join(lines), style="dim"), (0, 0, 0, LABEL + 1))


def axis(left: str, right: str, columns: int, now: tuple[int, str] | None = None) -> Iterator[Text]:
    """The ends of the horizontal axis; what is `now` at its column above them."""
    if now is not None:
        column, text = now
        pointed = f"^ {text}" if column + len(text) + 2 <= columns else f"{text} ^"
        yield _under(pointed.rjust(column + 1) if pointed.endswith("^") else " " * column + pointed)
    yield _under(left + right.rjust(max(1, columns - len(left))))


def column_of(value: float, low: float, high: float, columns: int) -> int:
    """The column of a value where `even` laid them.

    >>> column_of(4.0, 1.0, 8.0, 4)
    2
    """
    return round(math.log(value / low) / math.log(high / low) * (columns - 1)) if high > low else 0


def area(columns: Sequence[float], top_text: str, rows: int) -> Iterator[Text]:
    """Bars from nothing up to the largest, whose text stands at the top."""
    blocks = ASCII_BLOCKS if plain_characters() else BLOCKS
    levels = len(blocks) - 1
    most = max(columns, default=0.0)
    heights = [round(value / most * rows * levels) if most else 0 for value in columns]
    for row in range(rows - 1, -1, -1):
        label = top_text if row == rows - 1 else "0" if row == 0 else ""
        cells = "".join(blocks[min(levels, max(0, height - row * levels))] for height in heights)
        yield Text(f"{label:>{LABEL}} {cells}".rstrip())


def _row(value: float, bottom: float, top: float, rows: int) -> int:
    return round((value - bottom) / (top - bottom) * rows) if top > bottom else 0


def _span(low: float | None, high: float | None, bottom: float, top: float, rows: int) -> tuple[int, int] | None:
    if low is None or high is None or low > top or high < bottom:
        return None
    return _row(max(low, bottom), bottom, top, rows), _row(min(high, top), bottom, top, rows)


def _under(text: str) -> Text:
    return Text(f"{'':>{LABEL}} {text}", style="dim")
