"""Values at which a verdict flips, found by judging again: a break-even is a root of the verdict, by construction.

Between two values with different verdicts the first flip is enclosed by halving (a whole number to its neighbour, any
other to a millionth), then the next from there, so that a band such as `limited` gets both its edges. Flips between
two values of the grid with one and the same verdict at both are not looked for. Where a verdict flips back within 1 %
(rounding to blocks) there is no value to name, and none is named.
"""

import itertools
import math
from collections.abc import Callable, Iterator

from infopt.boundaries.quantities import Quantity
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import BreakEven, Verdict
from infopt.errors import InfoptError

GRID = 24
FLIPS_AT_MOST = 8
RELATIVE = 1e-6
BESIDE = 0.01


Judge = Callable[[Situation], Verdict]


def break_evens(judge: Judge, quantity: Quantity, situation: Situation) -> tuple[BreakEven, ...]:
    """The flips of a verdict along a quantity; one without a value where there is none."""
    low, high = quantity.low, max(quantity.low, quantity.high(situation))
    verdict = remembered(lambda value: verdict_at(judge, quantity, situation, value))
    current = quantity.get(situation)
    places = grid(quantity, low, high, current)
    found: list[BreakEven] = []
    for start, end in itertools.pairwise(places):
        for value in flips(verdict, start, end, quantity.whole):
            below, above = sides(verdict, value, quantity.whole, low, high)
            if below != above and not (found and not quantity.whole and _repeats(found[-1], value, below, above)):
                found.append(BreakEven(quantity.name, value, quantity.unit, current, below, above, low, high))
    if found:
        return tuple(found[:FLIPS_AT_MOST])
    only = verdict(current if current is not None else low)
    return (BreakEven(quantity.name, None, quantity.unit, current, only, only, low, high),)


def _repeats(last: BreakEven, value: float, below: Verdict, above: Verdict) -> bool:
    """Whether a flip is the last one again: a verdict between them holds for less than 1 %."""
    near = last.value is not None and value - last.value <= BESIDE * abs(value)
    return near and (last.below, last.above) == (below, above)


def verdict_at(judge: Judge, quantity: Quantity, situation: Situation, value: float) -> Verdict:
    """The verdict with another value; a value no engine runs is impossible."""
    try:
        return judge(quantity.set(situation, value))
    except InfoptError:
        return "impossible"


def remembered(verdict: Callable[[float], Verdict]) -> Callable[[float], Verdict]:
    """The same function, asked once for each value."""
    known: dict[float, Verdict] = {}

    def ask(value: float) -> Verdict:
        if value not in known:
            known[value] = verdict(value)
        return known[value]

    return ask


def grid(quantity: Quantity, low: float, high: float, current: float | None, count: int = GRID) -> list[float]:
    """Values from low to high, evenly or in equal ratios, with the current one among them."""
    if quantity.share or low <= 0:
        places = [low + (high - low) * i / count for i in range(count + 1)]
    else:
        places = [low * (high / low) ** (i / count) for i in range(count)] + [high]
    if current is not None and low <= current <= high:
        places.append(current)
    return sorted({float(round(p)) if quantity.whole else p for p in places})


def flips(verdict: Callable[[float], Verdict], start: float, end: float, whole: bool) -> Iterator[float]:
    """The flips between two values with different verdicts, in order."""
    for _ in range(FLIPS_AT_MOST):
        if start >= end or verdict(start) == verdict(end):
            return
        same, other, first = start, end, verdict(start)
        while not _close(same, other, whole):
            middle = (same + other) // 2 if whole else (same + other) / 2
            if verdict(middle) == first:
                same = middle
            else:
                other = middle
        yield other if whole else (same + other) / 2
        start = other


def _close(same: float, other: float, whole: bool) -> bool:
    return other - same <= 1 if whole else other - same <= RELATIVE * max(abs(other), RELATIVE)


def sides(
    verdict: Callable[[float], Verdict], value: float, whole: bool, low: float, high: float
) -> tuple[Verdict, Verdict]:
    """Verdicts on either side: of a whole number at the one before and at itself, of others 1 % away."""
    if whole:
        return verdict(value - 1), verdict(value)
    return verdict(max(low, value * (1 - BESIDE))), verdict(min(high, value * (1 + BESIDE)))


def first_lost(gains: Callable[[int], bool], most: int) -> int | None:
    """The first whole number from 1 at which a gain that only falls is lost; None where it is kept up to `most`."""
    low, high = 1, most
    if gains(high):
        return None
    if not gains(low):
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gains(middle) else (low, middle)
    return high


def nearest(found: tuple[BreakEven, ...]) -> BreakEven:
    """The flip that lies nearest to where we are."""

    def distance(flip: BreakEven) -> float:
        if flip.value is None or flip.current is None or flip.value <= 0 or flip.current <= 0:
            return math.inf
        return abs(math.log(flip.value / flip.current))

    return min(found, key=distance)
