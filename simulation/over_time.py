"""Times of a simulation as curves: percentiles window by window, and the distribution of all measured requests.

    window       requests answered whole, by when they were sent; all windows are equally long
    quantiles    the time that a share of the requests does not exceed
Where a window has no such request, its percentiles are None. Source: rows of the requests (simulation/outcome.py).
"""

from typing import TYPE_CHECKING

from infopt.frozen import dataclass
from infopt.simulation.outcome import DONE, Rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# A percentile needs requests, and a curve needs points.
REQUESTS_OF_A_WINDOW = 25
MOST_WINDOWS = 200
PERCENTS = (50, 90, 99)
# Shares at which a distribution is told: every hundredth, and every thousandth of the last one.
SHARES = (*(i / 100 for i in range(100)), *(0.99 + i / 1000 for i in range(1, 11)))


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds, one each window; None where nothing that was sent in it was answered."""

    p50: tuple[float | None, ...]
    p90: tuple[float | None, ...]
    p99: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class OverTime:
    """Windows of `every_s`, with the time in the middle of each."""

    every_s: float
    time_s: tuple[float, ...]
    ttft_s: Percentiles
    tpot_s: Percentiles


@dataclass(frozen=True, slots=True)
class Distribution:
    """Seconds at SHARES of the measured requests; empty where there is none."""

    ttft_s: tuple[float, ...]
    tpot_s: tuple[float, ...]


def over_time(rows: Rows) -> OverTime:
    """Percentiles of TTFT and TPOT in windows of time."""
    import numpy as np

    sent_s, ttft_s, tpot_s = _answered(rows, 0.0)
    last_s = float(sent_s[-1]) if len(sent_s) else 0.0
    count = max(1, min(MOST_WINDOWS, len(sent_s) // REQUESTS_OF_A_WINDOW)) if last_s else 1
    edges_s = np.linspace(0.0, last_s, count + 1)
    cuts = np.searchsorted(sent_s, edges_s[1:-1])
    return OverTime(
        every_s=last_s / count,
        time_s=tuple(((edges_s[:-1] + edges_s[1:]) / 2).tolist()),
        ttft_s=_percentiles(np.split(ttft_s, cuts)),
        tpot_s=_percentiles(np.split(tpot_s, cuts)),
    )


def distribution(rows: Rows, from_s: float) -> Distribution:
    """Quantiles of the requests that were sent from `from_s` on."""
    _, ttft_s, tpot_s = _answered(rows, from_s)
    return Distribution(_quantiles(ttft_s), _quantiles(tpot_s))


def _answered(rows: Rows, from_s: float) -> "tuple[Floats, Floats, Floats]":
    """When requests that were answered whole were sent, their TTFT and their TPOT, in order of sending."""
    import numpy as np

    sent_s, ttft_s, tpot_s = (np.asarray(column, dtype=float) for column in (rows.sent_s, rows.ttft_s, rows.tpot_s))
    chosen = np.flatnonzero((np.asarray(rows.end, dtype=int) == DONE) & (sent_s >= from_s))
    order = chosen[np.argsort(sent_s[chosen], kind="stable")]
    return sent_s[order], ttft_s[order], tpot_s[order]


def _percentiles(windows: "list[Floats]") -> Percentiles:
    import numpy as np

    told = [one[~np.isnan(one)] for one in windows]
    found = [np.percentile(one, PERCENTS).tolist() if len(one) else [None] * len(PERCENTS) for one in told]
    return Percentiles(*zip(*found, strict=True))


def _quantiles(column: "Floats") -> tuple[float, ...]:
    import numpy as np

    told = column[~np.isnan(column)]
    return tuple(np.percentile(told, [100 * share for share in SHARES]).tolist()) if len(told) else ()
