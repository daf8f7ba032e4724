"""Queueing: how many sequences an arrival rate keeps in the batch, and what static batching would lose.

    B = rate x residence(max(1, B))                 Little's law, residence = prompt + OSL x TPOT(B)
    saturation = max over B <= most of B / residence(B)
B  mean sequences in the system;  rate  requests a second;  OSL  output tokens;  most  what memory or a limit allows.
The more are resident the longer each stays, so B stands on both sides. Of several solutions the smallest counts: an
empty server fills up to it, and there it is stable (below it more arrive than leave). TPOT need not rise with B.
Above saturation there is none: the queue grows.

    static batch:  loss = E[longest of B outputs] / E[output],  filling takes (B - 1) / (2 rate) on average
Ignored: chance. Where arrivals are random a request meets B others beside itself: B = rate x residence(1 + B), exact
for a residence a + b B (birth and death process, tests/test_queueing.py): up to (a + b) / a times as many.
Sources: J. D. C. Little, Operations Research 9 (1961) 383; order statistics of the gamma distribution.
"""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from infopt.errors import InfoptError

# Seconds at a number of resident sequences.
Seconds = Callable[[float], float]
# Of places tried between whole numbers of sequences, and of the solution.
STEP_RATIO = math.sqrt(2)
RELATIVE = 1e-8
# Spreads below it lose in proportion to the spread: the distribution is a normal one there.
LEAST_SPREAD = 0.05
PLACES = 400


def effective_batch(rate_per_s: float, residence_s: Seconds, most: float, marks: Iterable[float] = ()) -> float | None:
    """Mean sequences in the system; None where the rate is above saturation.

    `marks` are further places where residence may turn (points of a measured curve).
    """
    if rate_per_s <= 0:
        raise InfoptError(f"a rate of {rate_per_s:g} requests/s: it must be above 0")
    if most < 1:
        return None
    alone = rate_per_s * residence_s(1.0)
    if alone <= 1:
        return alone
    before = 1.0
    for place in places(most, marks):
        if place / residence_s(place) >= rate_per_s:
            return _crossing(lambda batch: batch / residence_s(batch) >= rate_per_s, before, place)
        before = place
    return None


def saturation_per_s(residence_s: Seconds, most: float, marks: Iterable[float] = ()) -> float:
    """Requests a second that `most` resident sequences can finish at best; 0 where not one fits.

    >>> saturation_per_s(lambda batch: 2.0, 8)
    4.0
    """
    return max((batch / residence_s(batch) for batch in places(most, marks)), default=0.0)


def largest_batch(tpot_s: Seconds, target_s: float, most: float, marks: Iterable[float] = ()) -> int:
    """Most sequences up to which every batch keeps TPOT within the target; 0 where not even one does.

    >>> largest_batch(lambda batch: 0.01 + 0.001 * batch, 0.0155, 64)
    5
    """
    low = 0
    for place in places(most, marks):
        if tpot_s(place) > target_s:
            high = math.ceil(place)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if tpot_s(float(middle)) > target_s else (middle, high)
            return low
        low = math.floor(place)
    return low


def places(most: float, marks: Iterable[float] = ()) -> list[float]:
    """Numbers of sequences worth trying: 1, 2, 3, then two to an octave, the marks, and the most."""
    if most < 1:
        return []
    steps = math.ceil(math.log(most) / math.log(STEP_RATIO))
    tried = {float(round(STEP_RATIO**i)) for i in range(steps)} | {float(mark) for mark in marks} | {float(most)}
    return sorted(place for place in tried if 1 <= place <= most)


def _crossing(holds: Callable[[float], bool], before: float, after: float) -> float:
    """Where a condition that holds at `after` and not at `before` begins to hold."""
    while after - before > RELATIVE * after:
        middle = (before + after) / 2
        if holds(middle):
            after = middle
        else:
            before = middle
    return after


def fill_wait_s(batch: Any, rate_per_s: Any) -> Any:
    """Mean wait until a static batch is full: the first waits for all the others, the last for none.

    >>> fill_wait_s(5, 2.0)
    1.0
    """
    return (batch - 1) / (2 * rate_per_s)


def continuous_gain(loss: Any, decode_s: Any, prompt_s: Any) -> Any:
    """Throughput over static batching at the same batch: (prompt + loss x decode) / (prompt + decode).

    Machine seconds of one request; decode_s is OSL steps shared by the batch. Prompts lose nothing by waiting.

    >>> continuous_gain(3.0, 1.0, 1.0)
    2.0
    """
    return (prompt_s + loss * decode_s) / (prompt_s + decode_s)


def held_tokens(input_tokens: Any, output_tokens: Any, spread: Any = 0.0) -> Any:
    """Mean context of the resident sequences at a random moment: ISL + OSL (1 + spread^2) / 2.

    Long answers are met more often than they arrive (length-biased sampling), each halfway on average.

    >>> held_tokens(1000, 200), held_tokens(1000, 200, 1.0)
    (1100.0, 1200.0)
    """
    return input_tokens + output_tokens * (1 + spread * spread) / 2


def static_loss(batch: float, spread: float) -> float:
    """E[max of B lengths] / E[L]: slot-steps a static batch holds for each one it uses.

    Lengths are gamma distributed with a coefficient of variation of `spread` (1: exponential).
    E[max] = integral over x of 1 - F(x)^B, by the midpoint rule in u with x = low + (high - low) u^3 where F is steep
    at zero, else evenly over 12 standard deviations either side.
    """
    if spread < 0:
        raise InfoptError(f"a spread of output lengths of {spread:g}: it must be at least 0")
    if spread == 0 or batch <= 1:
        return 1.0
    if spread < LEAST_SPREAD:
        return 1.0 + spread / LEAST_SPREAD * (static_loss(batch, LEAST_SPREAD) - 1.0)
    shape = 1 / spread**2
    low, grid = _gamma_grid(shape)
    return float(low + sum(width * (1 - share**batch) for width, share in grid)) / shape


@lru_cache(maxsize=256)
def _gamma_grid(shape: float) -> tuple[float, tuple[tuple[float, float], ...]]:
    """Where F leaves 0, and from there (width, F in its middle) of slices up to where it has reached 1."""
    around = 12 * math.sqrt(shape)
    low, high = max(0.0, shape - around), shape + around + 30
    power = 1 if low else 3
    ends = [low + (high - low) * (i / PLACES) ** power for i in range(PLACES + 1)]
    middles = [low + (high - low) * ((i + 0.5) / PLACES) ** power for i in range(PLACES)]
    return low, tuple(
        (after - before, gamma_share(shape, middle))
        for before, after, middle in zip(ends[:-1], ends[1:], middles, strict=True)
    )


def gamma_share(shape: float, x: float) -> float:
    """Distribution function of the gamma distribution with unit scale (series of the incomplete gamma function)."""
    term = total = 1 / shape
    n = 0
    while term > total * 1e-12:
        n += 1
        term *= x / (shape + n)
        total += term
    return min(1.0, total * math.exp(shape * math.log(x) - x - math.lgamma(shape)))


def spread_for_loss(batch: float, ratio: float, most: float = 6.0) -> float | None:
    """Spread of output lengths at which a static batch loses `ratio`; None where none up to `most` does."""
    if static_loss(batch, most) < ratio:
        return None
    low, high = 0.0, most
    while high - low > 1e-6:
        middle = (low + high) / 2
        if static_loss(batch, middle) >= ratio:
            high = middle
        else:
            low = middle
    return high
