"""What grew between scrapes, and what a restart took: counters made into those of one window.

A counter only grows, so one that fell, or is gone, was begun anew: by a restart, or because another server answered at
the same address. What happened in such an interval is not known; it is left out, its time too, and said.
"""

import itertools
import math
from collections.abc import Mapping, Sequence, Set

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.probes.metrics_text import Labels, Metrics

STARTED = "process_start_time_seconds"  # every Prometheus client library has it
SLACK = 1e-9  # a sum of floats may be written with fewer digits


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One scrape.

    at_s   monotonic seconds; 0.0 for a file whose time is not known
    taken  UTC, ISO 8601
    slots  llama.cpp: slots that were busy, as /slots says
    """

    metrics: Metrics
    at_s: float = 0.0
    taken: str | None = None
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """Counters of a window.

    grown     what each counter grew by, as series of the same names
    seconds   time of the intervals that count, None where it is not known
    fell      names of counters that fell, by interval left out
    intervals  of scrapes, those left out too
    """

    grown: Metrics
    seconds: float | None
    fell: tuple[str, ...]
    intervals: int


def check_times(snapshots: Sequence[Snapshot], source: str) -> bool:
    """Whether the scrapes have times.

    Errors: InfoptError where a scrape is not later than the one before it.
    """
    if all(snapshot.at_s == 0.0 for snapshot in snapshots):
        return False
    for before, after in itertools.pairwise(snapshots):
        if not after.at_s > before.at_s:
            raise InfoptError(
                f"{source}: a scrape at {after.at_s:g} s comes after one at {before.at_s:g} s: the clock jumped or the "
                "scrapes are out of order; give them in the order they were taken"
            )
    return True


def window_of(snapshots: Sequence[Snapshot], growing: Set[str], source: str) -> Window:
    """What `growing` counters grew by from the first scrape to the last; of one scrape, all since the start."""
    timed = check_times(snapshots, source)
    if len(snapshots) == 1:
        whole = {name: series for name, series in snapshots[0].metrics.series.items() if name in growing}
        return Window(Metrics(whole, 0), None, (), 0)
    grown: dict[str, dict[Labels, float]] = {}
    fell: list[str] = []
    seconds = 0.0
    for before, after in itertools.pairwise(snapshots):
        fallen = _fallen(before.metrics, after.metrics, growing)
        if fallen is not None:
            fell.append(fallen)
            continue
        seconds += after.at_s - before.at_s
        _add(grown, before.metrics, after.metrics, growing)
    known = timed and len(fell) < len(snapshots) - 1
    return Window(_finite(grown), seconds if known else None, tuple(fell), len(snapshots) - 1)


def _fallen(before: Metrics, after: Metrics, growing: Set[str]) -> str | None:
    """The first counter that fell or is gone; None where all grew or stayed."""
    started, again = before.total(STARTED), after.total(STARTED)
    if started is not None and again is not None and again > started + 1:
        return STARTED
    for name in sorted(growing & before.series.keys()):
        ends, counts = after.series.get(name, {}), _counts_of(name, after)
        for labels, begin in before.series[name].items():
            # A sum that is gone from a histogram that is not could not be read.
            if ends.get(labels, math.nan if labels in counts else 0.0) < begin * (1 - SLACK):
                return name
    return None


def _counts_of(name: str, metrics: Metrics) -> Mapping[Labels, float]:
    """The counts that belong to sums; none for any other name."""
    return metrics.series.get(name.removesuffix("_sum") + "_count", {}) if name.endswith("_sum") else {}


def _add(grown: dict[str, dict[Labels, float]], before: Metrics, after: Metrics, growing: Set[str]) -> None:
    """Add what each series grew by; one that first appears began at 0."""
    for name in growing & (before.series.keys() | after.series.keys()):
        begins, ends, sums = before.series.get(name, {}), after.series.get(name, {}), grown.setdefault(name, {})
        counted = _counts_of(name, before)
        for labels in begins.keys() | ends.keys():
            # A sum that could not be read before is not 0; one that cannot be read now is unknown.
            begin = begins.get(labels, math.nan if counted.get(labels, 0.0) > 0 else 0.0)
            sums[labels] = sums.get(labels, 0.0) + ends.get(labels, math.nan) - begin


def _finite(grown: dict[str, dict[Labels, float]]) -> Metrics:
    """What is known, without the last digits that floats lose."""
    known = {name: {k: max(0.0, v) for k, v in series.items() if not math.isnan(v)} for name, series in grown.items()}
    return Metrics({name: series for name, series in known.items() if series}, 0)
