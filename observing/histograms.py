"""Histograms of a Prometheus text: merged over labels, their mean, and quantiles read between bounds.

    quantile q = lower + (upper - lower) x (q n - below) / inside

in the bucket where the count reaches q n: `below` observations are under it, `inside` in it (what Prometheus'
histogram_quantile does, https://prometheus.io/docs/practices/histograms). The first bucket begins at 0: these are
times. Within a bucket observations are taken to be even, so the error is at most the bucket's width. A quantile beyond
the last finite bound is not known: Prometheus gives the bound, which reads as a measurement and is none. Where the mean
is known no quantile is above mean / (1 - q) (Markov's inequality, exact for what is never negative): a queue that is
empty reads as 0 and not as half of its first bucket.
"""

import math
from collections.abc import Callable, Mapping

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.observing.observation import Spread, spread_of
from infopt.probes.metrics_text import Labels, Metrics

QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
SLACK = 1e-9  # of a count that float sums may lose


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations by value.

    bounds  finite upper bounds, rising; inside[i] observations are at most bounds[i] and above the bound before
    beyond  observations above the last finite bound
    sum, count  of all observations by the server's own account, None where it gives none
    """

    bounds: tuple[float, ...]
    inside: tuple[float, ...]
    beyond: float
    sum: float | None = None
    count: float | None = None

    @property
    def total(self) -> float:
        """Observations in all buckets."""
        return math.fsum(self.inside) + self.beyond

    @property
    def mean(self) -> float | None:
        """sum / count; None where there is neither or nothing was observed."""
        return self.sum / self.count if self.sum is not None and self.count else None

    def quantile(self, q: float) -> float | None:
        """The q-quantile; None where nothing was observed or it lies beyond the last finite bound."""
        total = self.total
        if not 0 <= q <= 1:
            raise InfoptError(f"a quantile is from 0 to 1, not {q}")
        if total <= 0:
            return None
        wanted, below, lower = q * total, 0.0, 0.0
        for upper, inside in zip(self.bounds, self.inside, strict=True):
            if inside > 0 and below + inside >= wanted * (1 - SLACK):
                share = min(1.0, max(0.0, (wanted - below) / inside))
                most = math.inf if self.mean is None or q == 1 else self.mean / (1 - q)
                return max(min(upper, lower + (upper - lower) * share, most), min(lower, upper))
            below, lower = below + inside, max(upper, 0.0)
        return None

    def spread(self, scale: float = 1.0, where: str = "a histogram") -> Spread | None:
        """Mean and percentiles in seconds, `scale` seconds being one unit of the bounds; None if nothing was seen.

        Errors: InfoptError naming `where` for figures that no time can be: below 0, out of all bounds.
        """
        count = self.count if self.count is not None else self.total
        if count <= 0:
            return None
        found = {name: self.quantile(q) for name, q in QUANTILES}
        scaled = {name: None if value is None else value * scale for name, value in found.items()}
        mean = self.mean
        is_bucket = any(value is not None for value in scaled.values())
        return spread_of(where, None if mean is None else mean * scale, count, is_bucket=is_bucket, **scaled)


def histogram_of(metrics: Metrics, name: str, fits: Callable[[Labels], bool] = lambda _: True) -> Histogram | None:
    """The histogram `name`, merged over all labels but `le`; None where the text has none.

    Where ranks have different bounds, those that all of them have are kept. Without a bucket +Inf the count takes its
    place, else the highest bucket does.

    Errors: InfoptError where counts fall from one bound to a higher one, or are no counts.
    """
    sums, counts = _chosen(metrics, f"{name}_sum", fits), _chosen(metrics, f"{name}_count", fits)
    by_rank: dict[Labels, dict[float, float]] = {}
    for labels, value in _chosen(metrics, f"{name}_bucket", fits).items():
        bound = _bound(name, dict(labels).get("le", ""))
        rest = tuple(pair for pair in labels if pair[0] != "le")
        by_rank.setdefault(rest, {})[bound] = value
    if not (sums and counts) and not by_rank:
        return None
    said_sum, said_count = _added(name, sums), _added(name, counts)
    if not by_rank:
        return Histogram((), (), 0.0 if said_count is None else said_count, said_sum, said_count)
    for rank, buckets in by_rank.items():
        _check(name, buckets)
        buckets.setdefault(math.inf, max(counts.get(rank, 0.0), *buckets.values()))
    shared = sorted(set.intersection(*(set(buckets) for buckets in by_rank.values())))
    cumulative = [math.fsum(buckets[bound] for buckets in by_rank.values()) for bound in shared]
    inside = [max(0.0, after - before) for before, after in zip([0.0, *cumulative], cumulative, strict=False)]
    return Histogram(tuple(shared[:-1]), tuple(inside[:-1]), inside[-1], said_sum, said_count)


def _chosen(metrics: Metrics, name: str, fits: Callable[[Labels], bool]) -> dict[Labels, float]:
    return {labels: value for labels, value in metrics.series.get(name, {}).items() if fits(labels)}


def _added(name: str, series: Mapping[Labels, float]) -> float | None:
    if not series:
        return None
    total = math.fsum(series.values()) if all(map(math.isfinite, series.values())) else math.nan
    if not total >= 0:
        raise InfoptError(f"{name}: its sum or count is no number from 0 up")
    return total


def _bound(name: str, text: str) -> float:
    try:
        bound = float(text)
    except ValueError:
        bound = math.nan
    if math.isnan(bound) or bound == -math.inf:
        raise InfoptError(f"{name}: a bucket's bound (le) is {text[:20]!r}, which is no number")
    return bound


def _check(name: str, buckets: Mapping[float, float]) -> None:
    """Refuse what is not cumulative."""
    before = 0.0
    for bound in sorted(buckets):
        value = buckets[bound]
        if not (math.isfinite(value) and value >= before * (1 - SLACK)):
            raise InfoptError(f"{name}: {value:g} observations up to {bound:g}, fewer than the {before:g} below it")
        before = value
