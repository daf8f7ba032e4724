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


def effective_batch(
    rate_per_s: float, residence_s: Seconds, most_sequences: float, marks: Iterable[float] = ()
) -> float | None:
    """Mean sequences in the system; None where the rate is above saturation.

    `marks` are further places where residence may turn (points of a measured curve).
    """
    if rate_per_s <= 0:
        raise InfoptError(f"a rate of {rate_per_s:g} requests/s: it must be above 0")
    if most_sequences < 1:
        return None
    alone = rate_per_s * residence_s(1.0)
    if alone <= 1:
        return alone
    before = 1.0
    for place in places(most_sequences, marks):
        if place / residence_s(place) >= rate_per_s:
            return _crossing(lambda batch: batch / residence_s(batch) >= rate_per_s, before, place)
        before = place
    return None


def saturation_per_s(residence_s: Seconds, most_sequences: float, marks: Iterable[float] = ()) -> float:
    """Requests a second that `most_sequences` resident sequences can finish at best; 0 where not one fits.

    >>> saturation_per_s(lambda batch: 2.0, 8)
    4.0
    """
    return max((batch / residence_s(batch) for batch in places(most_sequences, marks)), default=0.0)


def largest_batch(tpot_s: Seconds, target_s: float, most_sequences: float, marks: Iterable[float] = ()) -> int:
    """Most sequences up to which every batch keeps TPOT within the target; 0 where not even one does.

    >>> largest_batch(lambda batch: 0.01 + 0.001 * batch, 0.0155, 64)
    5
    """
    low = 0
    for place in places(most_sequences, marks):
        if tpot_s(place) > target_s:
            high = math.ceil(place)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if tpot_s(float(middle)) > target_s else (middle, high)
            return low
        low = math.floor(place)
    return low


def places(most_sequences: float, marks: Iterable[float] = ()) -> list[float]:
    """Numbers of sequences worth trying: 1, 2, 3, then two to an octave, the marks, and the most."""
    if most_sequences < 1:
        return []
    steps = math.ceil(math.log(most_sequences) / math.log(STEP_RATIO))
    tried = (
        {float(round(STEP_RATIO**i)) for i in range(steps)} | {float(mark) for mark in marks} | {float(most_sequences)}
    )
    return sorted(place for place in tried if 1 <= place <= most_sequences)


def _crossing(holds: Callable[[float], bool], before_batch: float, after_batch: float) -> float:
    """Where a condition that holds at `after_batch` and not at `before_batch` begins to hold."""
    while after_batch - before_batch > RELATIVE * after_batch:
        middle = (before_batch + after_batch) / 2
        if holds(middle):
            after_batch = middle
        else:
            before_batch = middle
    return after_batch


def fill_wait_s(batch: Any, rate_per_s: Any) -> Any:
    """Mean wait until a static batch is full: the first waits for all the others, the last for none.

    >>> fill_wait_s(5, 2.0)
    1.0
    """
    return (batch - 1) / (2 * rate_per_s)


def continuous_gain(loss: Any, decode_s: Any, prompt_s: Any, lasting_share: Any = 1.0) -> Any:
    """Throughput over static batching at the same batch: 1 + lasting (loss - 1) decode / (prompt + decode).

    Machine seconds of one request; decode_s is OSL steps shared by the batch. Prompts lose nothing by waiting.
    lasting_share is the part of a full batch's step that stays when answers have ended: 1 where every step is as long
    as the whole batch's (padding), what does not grow with sequences (weights, kernels) where steps get shorter.

    >>> continuous_gain(3.0, 1.0, 1.0), continuous_gain(3.0, 1.0, 1.0, 0.5)
    (2.0, 1.5)
    """
    return 1 + lasting_share * (loss - 1) * decode_s / (prompt_s + decode_s)


def step_lasting_share(batch: Any, alone_s: Any, together_s: Any) -> Any:
    """Part of a step of `batch` sequences that fewer do not save; steps are linear in sequences, from one to them all.

    >>> step_lasting_share(5, 6.0, 10.0)
    0.5
    """
    return 1 - (together_s - alone_s) / (batch - 1) * batch / together_s


def held_tokens(input_tokens: Any, output_tokens: Any, spread: Any = 0.0) -> Any:
    """Mean context of the resident sequences at a random moment: ISL + OSL (1 + spread^2) / 2.

    Long answers are met more often than they arrive (length-biased sampling), each halfway on average.

    >>> held_tokens(1000, 200), held_tokens(1000, 200, 1.0)
    (1100.0, 1200.0)
    """
    return input_tokens + output_tokens * (1 + spread * spread) / 2


def static_loss_ratio(batch: float, spread_ratio: float) -> float:
    """E[max of B lengths] / E[L]: slot-steps a static batch holds for each one it uses.

    Lengths are gamma distributed with a coefficient of variation of `spread_ratio` (1: exponential).
    E[max] = integral over x of 1 - F(x)^B, by the midpoint rule in u with x = low + (high - low) u^3 where F is steep
    at zero, else evenly over 12 standard deviations either side.
    """
    if spread_ratio < 0:
        raise InfoptError(f"a spread of output lengths of {spread_ratio:g}: it must be at least 0")
    if spread_ratio == 0 or batch <= 1:
        return 1.0
    if spread_ratio < LEAST_SPREAD:
        return 1.0 + spread_ratio / LEAST_SPREAD * (static_loss_ratio(batch, LEAST_SPREAD) - 1.0)
    shape = 1 / spread_ratio**2
    low, grid = _gamma_grid(shape)
    return float(low + sum(width * (1 - share**batch) for width, share in grid)) / shape


@lru_cache(maxsize=256)
def _gamma_grid(shape_ratio: float) -> tuple[float, tuple[tuple[float, float], ...]]:
    """Where F leaves 0, and from there (width, F in its middle) of slices up to where it has reached 1."""
    around = 12 * math.sqrt(shape_ratio)
    low, high = max(0.0, shape_ratio - around), shape_ratio + around + 30
    power = 1 if low else 3
    ends = [low + (high - low) * (i / PLACES) ** power for i in range(PLACES + 1)]
    middles = [low + (high - low) * ((i + 0.5) / PLACES) ** power for i in range(PLACES)]
    return low, tuple(
        (after - before, _gamma_share(shape_ratio, middle))
        for before, after, middle in zip(ends[:-1], ends[1:], middles, strict=True)
    )


def _gamma_share(shape_ratio: float, length_ratio: float) -> float:
    """Distribution function of the gamma distribution with unit scale (series of the incomplete gamma function)."""
    term = total = 1 / shape_ratio
    n = 0
    while term > total * 1e-12:
        n += 1
        term *= length_ratio / (shape_ratio + n)
        total += term
    return min(1.0, total * math.exp(shape_ratio * math.log(length_ratio) - length_ratio - math.lgamma(shape_ratio)))


def spread_for_loss_ratio(batch: float, ratio: float, widest_ratio: float = 6.0) -> float | None:
    """Spread of output lengths at which a static batch loses `ratio`; None where none up to `widest_ratio` does."""
    if static_loss_ratio(batch, widest_ratio) < ratio:
        return None
    low, high = 0.0, widest_ratio
    while high - low > 1e-6:
        middle = (low + high) / 2
        if static_loss_ratio(batch, middle) >= ratio:
            high = middle
        else:
            low = middle
    return high
