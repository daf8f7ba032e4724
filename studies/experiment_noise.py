"""How far chance moves the difference of a figure between two runs: Student's t over repetitions.

    paired    d_i = b_i - a_i,  half = t sd(d) / sqrt(n)           the same requests on both sides
    apart     half = t sqrt(sd(a)^2 / n_a + sd(b)^2 / n_b)         Welch, degrees of freedom by Satterthwaite
t    two-sided quantile of the confidence;  sd  standard deviation of repetitions;  n  how many
Repetitions are parts of one run (batch means), seeds, or files. Of parts the difference of the whole runs is shown,
with the half-width of the parts. Ignored: that percentiles of parts are a little biased; what parts leave each other.
Source: data/experiment/metrics.yaml, noise.
"""

import math
from collections.abc import Sequence
from statistics import fmean, variance

from infopt.frozen import dataclass
from infopt.studies.saved_run import Repetition, SavedRun, metric_data


@dataclass(frozen=True, slots=True)
class Half:
    """The half-width of a difference.

    paired       the same requests on both sides
    repetitions  on the side that has fewer
    """

    width: float
    paired: bool
    repetitions: int


def quantile_t(freedom: float) -> float:
    """The two-sided quantile at so many degrees of freedom: of those in the table the next lower, so no less."""
    table = metric_data().noise.t_95
    return table[max((known for known in table if known <= freedom), default=min(table))]


def paired_half(differences: Sequence[float]) -> float:
    """Half-width of a mean of differences."""
    n = len(differences)
    return quantile_t(n - 1) * math.sqrt(variance(differences) / n)


def apart_half(a: Sequence[float], b: Sequence[float]) -> float:
    """Half-width of the difference of two means."""
    va, vb = variance(a) / len(a), variance(b) / len(b)
    if not va + vb:
        return 0.0
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return quantile_t(max(1.0, freedom)) * math.sqrt(va + vb)


def half_width(a: SavedRun, b: SavedRun, name: str) -> Half | None:
    """The half-width of a metric's difference; None where too few repetitions have it."""
    mine, its = _values(a, name), _values(b, name)
    fewer = min(len(mine), len(its))
    if fewer < metric_data().noise.least_repetitions:
        return None
    if is_paired(a, b):
        keys = [key for key in mine if key in its]
        return Half(paired_half([its[key] - mine[key] for key in keys]), True, len(keys))
    return Half(apart_half(list(mine.values()), list(its.values())), False, fewer)


def is_paired(a: SavedRun, b: SavedRun) -> bool:
    """Whether the repetitions of both had the same requests, one by one.

    Parts of users who wait for answers are not: what is sent then depends on what was answered.
    """
    mine, its = a.repetitions, b.repetitions
    if mine is None or its is None or mine.kind != its.kind or mine.kind == "files":
        return False
    if mine.kind == "parts" and (
        a.traffic.sha256 != b.traffic.sha256 or a.traffic.description.get("users") is not None
    ):
        return False
    return _told(mine.runs) == _told(its.runs)


def _told(runs: Sequence[Repetition]) -> list[tuple[str, int]]:
    return [(one.key, one.requests) for one in runs]


def _values(run: SavedRun, name: str) -> dict[str, float]:
    several = run.repetitions.runs if run.repetitions else []
    found = {
        f"{index}" if run.repetitions and run.repetitions.kind == "files" else one.key: one.metrics.get(name)
        for index, one in enumerate(several)
    }
    # A figure that only some repetitions have is of those where it was well: chance cannot be told from them.
    if any(value is None for value in found.values()):
        return {}
    return {key: value for key, value in found.items() if value is not None}


def mean_half(values: Sequence[float]) -> float | None:
    """Half-width of one mean; None of too few."""
    if len(values) < metric_data().noise.least_repetitions:
        return None
    return quantile_t(len(values) - 1) * math.sqrt(variance(values) / len(values))


def mean(values: Sequence[float]) -> float:
    """The mean."""
    return fmean(values)
