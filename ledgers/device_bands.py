"""How far a step predicted from the steps of a device may be off.

h is the fit's largest residual with the spread of the samples on top, at least 15 %. Outside what was measured h is
added once more for each doubling: of W beyond the sizes, of n beyond the last, and of the context, there for the share
of the step that is KV; and half of it for each doubling between W and the nearest model whose r was measured, and
between n and the nearest number that was. Noise alone would widen it less (a line through W1 and W2 is off by at most
W2 / (W2 - W1) times as much far beyond W2); what grows is how far matrices of other shapes are from the line, and one
line says nothing of that. Where b was not solved, KV beyond what was measured with this size of model and as many
sequences may take several times as long. Names as in device_fit.py; bench/calibrated_ledger.py has what was seen.
"""

import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.arrays import along, larger, log2
from infopt.ledgers.device_fit import SAME_RATIO, Curve, DeviceFit, curve_at
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.traffic import traffic
from infopt.profiles.step_constants import Band, kernels_per_step

# No interval is narrower, up or down: what untouched steps of bench/calibrated_ledger.py were off (docs/accuracy.md).
LEAST_WIDTH_RATIO = 0.15
MOST_DOUBLINGS = 12  # of the batch, with a band each
CURVE_SHARE = 0.5  # of h for each doubling to the nearest model with a curve, and to the nearest batch on it
LEAST = sys.float_info.min  # instead of 0 where something is divided by it
# Times as long as a byte of weights that a cached one may take where that was not solved: 3 in the median on the CPU of
# bench/calibrated_ledger.py; short contexts of GPUs reach as little of their bandwidth (H200: 0.38 of it at 8k tokens).
KV_DOUBT = 4.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A step to predict; kv_bytes of all its sequences, context_tokens of each, numbers or arrays."""

    kernels: int
    weight_bytes: float
    kv_bytes: Any
    context_tokens: Any
    sequences: int


def step_band(fit: DeviceFit, asked: Asked) -> Band:
    """The interval of a step: that of the fit, wider by how far the step lies outside what was measured."""
    share = kv_share_of_step(fit, asked)
    outside = doublings(asked.weight_bytes, *fit.sizes_bytes)
    outside += share * doublings(larger(1.0, asked.context_tokens), *fit.contexts_tokens)
    if asked.sequences > 1:
        curve = curve_at(fit.curves, asked.weight_bytes) or ((1.0, 1.0),)
        outside += doublings(asked.sequences, 1.0, curve[-1][0])
        outside += CURVE_SHARE * _gap_doublings(curve, asked.sequences)
        outside += CURVE_SHARE * min((doublings(asked.weight_bytes, size, size) for size, _ in fit.curves), default=0.0)
    found = band(fit, asked.sequences, outside)
    if fit.kv_is_solved:
        return found
    return found.model_copy(update={"high": found.high + share * kv_beyond_share(fit, asked) * (KV_DOUBT - 1)})


def kv_share_of_step(fit: DeviceFit, asked: Asked) -> Any:
    """How much of the time of a step its KV is expected to take."""
    curve = curve_at(fit.curves, asked.weight_bytes) or ((1.0, 1.0),)
    weights_s = asked.weight_bytes * fit.weight_s_per_byte * along(curve, asked.sequences)
    kv_s = asked.kv_bytes * fit.kv_s_per_byte
    step_s = asked.kernels * fit.kernel_s + weights_s + kv_s
    return kv_s / larger(step_s, LEAST)


def kv_beyond_share(fit: DeviceFit, asked: Asked) -> Any:
    """Part of the cached bytes of a step beyond what a measured step of so few sequences of this size of model had.

    With models of another size it is all: their weights may hide what a cached byte takes.
    """
    own = [shares for size, shares in fit.kv_shares if 1 / SAME_RATIO < size / asked.weight_bytes < SAME_RATIO]
    if not own:
        return 1.0
    measured = along(own[0], min(float(asked.sequences), own[0][-1][0]))
    return larger(0.0, 1 - measured * asked.weight_bytes / larger(asked.kv_bytes, LEAST))


def doublings(asked: Any, least: Any, most: Any) -> Any:
    """How many times what is asked is twice the end of a range it lies outside of.

    >>> doublings(4.0, 1.0, 2.0), doublings(1.5, 1.0, 2.0), doublings(0.25, 1.0, 2.0)
    (1.0, 0.0, 2.0)
    """
    return larger(0.0, larger(log2(asked / most), log2(least / asked)))


def _gap_doublings(curve: Curve, sequences: int) -> float:
    """Doublings between a number of sequences and the nearest on the curve, on either side of it."""
    for (below, _), (above, _) in pairwise(curve):
        if below < sequences < above:
            return float(min(log2(sequences / below), log2(above / sequences)))
    return 0.0


def band(fit: DeviceFit, sequences: int, outside_steps: Any) -> Band:
    """The fit's interval, wider by itself for each doubling outside what was measured; its ends may be arrays."""
    below = max(LEAST_WIDTH_RATIO, 1 - fit.low_ratio) * (1 + outside_steps)
    above = max(LEAST_WIDTH_RATIO, fit.high_ratio - 1) * (1 + outside_steps)
    # 1 - h while that is far from zero, then ever smaller but never zero.
    low = larger(1 - below, 1 / (1 + 2 * below))
    return Band.model_construct(sequences=sequences, low=low, high=1 + above)


def bands_of(s: Scenario, fit: DeviceFit, weight_bytes: float, curve: Curve) -> list[Band]:
    """One for each number that was measured and for each gap between two, then one for each doubling."""
    context = s.decode_context_tokens * 1.0
    kv_bytes = sum(stage.kv_bytes(1, context) for stage in traffic(s))
    kernels = kernels_per_step(s.model)
    found = []
    for most, n in _counts(curve):
        asked = Asked(kernels, weight_bytes, n * kv_bytes, context, n)
        found.append(step_band(fit, asked).model_copy(update={"sequences": most}))
    return found


def _counts(curve: Curve) -> Iterator[tuple[int, int]]:
    """The last number of sequences of a band and the one it is made for: of a gap its middle."""
    yield 1, 1
    for (below, _), (above, _) in pairwise(curve):
        if above - below > 1:
            yield int(above) - 1, min(int(above) - 1, max(int(below) + 1, round((below * above) ** 0.5)))
        yield int(above), int(above)
    last = int(curve[-1][0])
    yield from ((last * 2**i, last * 2**i) for i in range(1, MOST_DOUBLINGS))
