"""Counters, gauges and times of one engine's text, by whatever names it has them."""

import itertools
from collections.abc import Sequence

from infopt.errors import InfoptError
from infopt.observing.histograms import histogram_of
from infopt.observing.metric_names import ADDED, Counter, Gauge, MetricNames, Time, Way
from infopt.observing.observation import Spread, spread_of
from infopt.observing.windows import Snapshot
from infopt.probes.metrics_text import Metrics

ALONE = 1.05  # tokens a step of the engine up to which requests ran one by one
ROUNDED = 0.05  # most of a figure that may be lost to digits that are not written


class Readings:
    """What can be read of the scrapes of one window; `notes` grows as it is.

    grown    what counters grew by
    seconds  how long the window took, None where that is not known
    steady   the server was not restarted in it
    decoded  tokens whose time is known, where the engine gives their rate
    """

    def __init__(
        self, names: MetricNames, grown: Metrics, snapshots: Sequence[Snapshot], seconds: float | None, steady: bool
    ) -> None:
        self.names, self.grown, self.snapshots = names, grown, snapshots
        self.seconds, self.steady = seconds, steady
        self.notes: list[str] = []
        self.decoded: float | None = None

    def counter(self, name: Counter) -> float | None:
        """What a counter grew by, over all labels; None where no name of it is there."""
        totals = (way.total(self.grown) for way in self.names.counters.get(name, ()))
        return next((total for total in totals if total is not None), None)

    def gauge(self, name: Gauge) -> float | None:
        """The mean of a gauge over the scrapes that have it."""
        values = self.readings(name)
        return sum(values) / len(values) if values else None

    def readings(self, name: Gauge) -> list[float]:
        """A gauge at each scrape that has it: the sum over ranks of what adds up, the mean of what does not."""
        found = [self.reading(name, snapshot.metrics) for snapshot in self.snapshots]
        return [_joined(name, values) for values in found if values]

    def last(self, name: Gauge) -> float | None:
        """A gauge at the last scrape."""
        found = self.reading(name, self.snapshots[-1].metrics)
        return _joined(name, found) if found else None

    def reading(self, name: Gauge, metrics: Metrics) -> list[float]:
        """Values of all ranks, by the first way that has any."""
        for way in self.names.gauges.get(name, ()):
            chosen = way.chosen(metrics)
            if way.plus or way.less:
                total = way.total(metrics)
                values = [] if total is None else [total]
            elif way.label is None:
                values = [value * way.scale for value in chosen.values()]
            else:
                values = [v * way.scale for labels in chosen if (v := _number(dict(labels).get(way.label))) is not None]
            if values:
                return values
        return []

    def time(self, name: Time) -> Spread | None:
        """A time from its histogram, or from two counters."""
        for way in self.names.times.get(name, ()):
            try:
                found = self._by(way, name)
            except InfoptError as error:
                self.notes.append(f"left out: {error}")
                continue
            if found is not None:
                self.notes += [way.said] if way.said else []
                return found
        return None

    def _by(self, way: Way, name: str) -> Spread | None:
        """A time by one way."""
        if not all(other in self.snapshots[-1].metrics.series for other in way.beside):
            return None
        if way.rate:
            return self._rated(way, way.rate)
        if way.per_request:
            total, output, steps = way.total(self.grown), self.counter("output_tokens"), self.counter("steps")
            requests = self.requests(output)
            alone = output is not None and steps is not None and output <= ALONE * steps
            return (
                spread_of(way.metric, total / requests, requests) if total is not None and requests and alone else None
            )
        return self._ratio(way) if way.count else self._histogram(way, name)

    def _rated(self, way: Way, rate: str) -> Spread | None:
        """Seconds of all looks / what they were of, which is rate x seconds of each look.

        A look whose rate somebody else's look has taken is left out of both; the count is of all seconds.
        """
        seconds = steps = 0.0
        for before, after in itertools.pairwise(self.snapshots):
            grew = sum(way.chosen(after.metrics).values()) - sum(way.chosen(before.metrics).values())
            per_second = sum(way.chosen(after.metrics, rate).values())
            if grew > 0 and per_second > 0:
                seconds += grew
                steps += grew * per_second
        if not steps:
            return None
        mean = seconds / steps
        self.decoded = sum(way.chosen(self.grown).values()) / mean
        return spread_of(way.metric, mean * way.scale, self.decoded)

    def requests(self, output: float | None) -> float | None:
        """Those counted; else one for each token that no decoding gave, where rounding leaves them visible."""
        counted = self.counter("requests")
        if counted is not None or output is None or not self.decoded:
            return counted
        seconds = [way.metric for way in self.names.times["tpot_s"] if way.rate]
        totals = [self.snapshots[-1].metrics.total(name) or 0.0 for name in seconds]
        grown = [self.grown.total(name) or 0.0 for name in seconds]
        rounding = max((self.names.rounding(t) / g for t, g in zip(totals, grown, strict=True) if g), default=0.0)
        first = output - self.decoded
        return float(round(first)) if first > 1 / ROUNDED * output * (rounding + self.names.rounding(1.0)) else None

    def _ratio(self, way: Way) -> Spread | None:
        spent, over = way.chosen(self.grown), sum(way.chosen(self.grown, way.count).values())
        return spread_of(way.metric, sum(spent.values()) * way.scale / over, over) if spent and over > 0 else None

    def _histogram(self, way: Way, name: str) -> Spread | None:
        histogram = histogram_of(self.grown, way.metric, way.fits)
        found = None if histogram is None else histogram.spread(way.scale, way.metric)
        if found is not None and histogram is not None and found.is_bucket and found.p99 is None:
            top = histogram.bounds[-1] * way.scale
            self.notes.append(f"{name}: percentiles beyond the last bucket ({top:g} s) are not known")
        return found

    def share(self, name: str, value: float | None) -> float | None:
        """A share, if it is one."""
        if value is not None and value > 1:
            self.notes.append(f"left out: {name} is {value:g}, more than the whole")
            return None
        return value


def _joined(name: Gauge, values: Sequence[float]) -> float:
    """All ranks together: the sum of what adds up, the mean of what does not."""
    return sum(values) if name in ADDED else sum(values) / len(values)


def _number(text: str | None) -> float | None:
    """A label's number; None for "None" and the like."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None
