"""A technique across two quantities: verdict and gain at each pair of values, judged as `boundary` judges anywhere.

There is no formula of its own here: a cell is the technique's judgement with both values set. Values lie in equal
ratios over the range that is searched for flips (shares evenly), with those of the situation among them.
"""

from infopt.boundaries.quantities import Quantity
from infopt.boundaries.registry import judge, verdict
from infopt.boundaries.roots import grid
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Gain, Technique, Verdict
from infopt.errors import InfoptError
from infopt.frozen import dataclass

STEPS = 11  # of each quantity: 144 cells, or a few more where the situation lies between two values
# A value so near to the situation's own would be read as the same.
APART = 0.03


@dataclass(frozen=True, slots=True)
class Cell:
    """One pair of values; gain None where there is none, or where only verdicts were asked for."""

    verdict: Verdict
    gain: Gain | None


@dataclass(frozen=True, slots=True)
class BreakEvenMap:
    """A technique across two quantities, everything else as it is.

    x_values, y_values  rising
    cells   a row for each of y_values, in it a cell for each of x_values
    x_here, y_here      where we are; None where that is not given, or outside of the range
    """

    technique: Technique
    x: Quantity
    y: Quantity
    x_values: tuple[float, ...]
    y_values: tuple[float, ...]
    cells: tuple[tuple[Cell, ...], ...]
    x_here: float | None
    y_here: float | None

    @property
    def only(self) -> Verdict | None:
        """The verdict of every cell; None where they differ."""
        verdicts = {cell.verdict for row in self.cells for cell in row}
        return next(iter(verdicts)) if len(verdicts) == 1 else None


def break_even_map(technique: Technique, situation: Situation, with_gain: bool = False) -> BreakEvenMap | None:
    """Verdicts across the plane of a technique, with gains where they are asked for; None where it has no plane."""
    if technique.plane is None:
        return None
    x, y = technique.plane
    x_values, y_values = places(x, situation), places(y, situation)
    rows = tuple(_row(technique, situation, (x, y), x_values, value, with_gain) for value in y_values)
    here = _among(x_values, x.get(situation)), _among(y_values, y.get(situation))
    return BreakEvenMap(technique, x, y, x_values, y_values, rows, *here)


def places(quantity: Quantity, situation: Situation) -> tuple[float, ...]:
    """Values of an axis: the present one among them, and none so near to it that both read the same."""
    high = max(quantity.low, quantity.high(situation))
    here = quantity.get(situation)
    values = grid(quantity, quantity.low, high, here, STEPS)
    return tuple(value for value in values if value == here or not _same(value, here, quantity))


def _same(value: float, here: float | None, quantity: Quantity) -> bool:
    if here is None or quantity.whole:
        return here is not None and abs(value - here) < APART * here
    return abs(value - here) < (APART / 2 if quantity.share else APART * abs(here))


def _among(values: tuple[float, ...], here: float | None) -> float | None:
    return here if here in values else None


def _row(
    technique: Technique,
    situation: Situation,
    plane: tuple[Quantity, Quantity],
    x_values: tuple[float, ...],
    y_value: float,
    with_gain: bool,
) -> tuple[Cell, ...]:
    x, y = plane
    try:
        beside = y.set(situation, y_value)
    except InfoptError:
        return (Cell("impossible", None),) * len(x_values)
    return tuple(_cell(technique, beside, x, value, with_gain) for value in x_values)


def _cell(technique: Technique, situation: Situation, quantity: Quantity, value: float, with_gain: bool) -> Cell:
    """A value no engine runs is impossible."""
    try:
        there = quantity.set(situation, value)
        if not with_gain:
            return Cell(verdict(technique, there), None)
        answer = judge(technique, there)
    except InfoptError:
        return Cell("impossible", None)
    return Cell(answer.verdict, answer.gain)
