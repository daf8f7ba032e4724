"""Histograms: merged over labels, their mean, and quantiles that lie where the values can be."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.observing.histograms import Histogram, histogram_of
from infopt.probes.metrics_text import Metrics, parse_metrics


def read(text: str) -> Metrics:
    return parse_metrics(text.encode(), "here")


def histogram(text: str) -> Histogram:
    found = histogram_of(read(text), "t")
    assert found is not None
    return found


TWO_RANKS = """
t_bucket{rank="0",le="0.1"} 2
t_bucket{rank="0",le="0.5"} 6
t_bucket{rank="0",le="+Inf"} 8
t_sum{rank="0"} 4
t_count{rank="0"} 8
t_bucket{rank="1",le="0.1"} 0
t_bucket{rank="1",le="0.5"} 4
t_bucket{rank="1",le="+Inf"} 4
t_sum{rank="1"} 2
t_count{rank="1"} 4
"""


def test_ranks_are_merged() -> None:
    found = histogram(TWO_RANKS)
    assert (found.bounds, found.inside, found.beyond) == ((0.1, 0.5), (2.0, 8.0), 2.0)
    assert (found.sum, found.count, found.mean) == (6.0, 12.0, 0.5)
    assert found.quantile(0.5) == pytest.approx(0.1 + 0.4 * (6 - 2) / 8)
    assert found.quantile(0.99) is None  # beyond the last bound: not 0.5
    assert found.quantile(0.0) == 0.0


def test_labels_choose() -> None:
    found = histogram_of(read(TWO_RANKS), "t", lambda labels: dict(labels)["rank"] == "1")
    assert found is not None
    assert (found.inside, found.count) == ((0.0, 4.0), 4.0)
    assert histogram_of(read(TWO_RANKS), "other") is None


def test_bounds_that_only_one_rank_has_are_left_out() -> None:
    found = histogram(TWO_RANKS + 't_bucket{rank="1",le="0.3"} 1\n')
    assert (found.bounds, found.inside) == ((0.1, 0.5), (2.0, 8.0))


@pytest.mark.parametrize(("end", "beyond"), [("t_count 10\nt_sum 1\n", 4.0), ("", 0.0), ("t_count 3\nt_sum 1\n", 0.0)])
def test_without_infinity_the_count_says_how_many_there_are(end: str, beyond: float) -> None:
    found = histogram('t_bucket{le="1"} 2\nt_bucket{le="2"} 6\n' + end)
    assert (found.inside, found.beyond) == ((2.0, 4.0), beyond)


def test_without_buckets_there_is_a_mean_alone() -> None:
    found = histogram('t_sum 3\nt_count 6\nt{quantile="0.5"} 9\n').spread()
    assert found is not None
    assert (found.mean, found.p50, found.count, found.is_bucket) == (0.5, None, 6.0, False)


def test_nothing_observed_is_nothing() -> None:
    assert histogram('t_bucket{le="1"} 0\nt_bucket{le="+Inf"} 0\nt_sum 0\nt_count 0\n').spread() is None


def test_seconds() -> None:
    found = histogram('t_bucket{le="10"} 4\nt_bucket{le="+Inf"} 4\nt_sum 20\nt_count 4\n').spread(0.001)
    assert found is not None
    assert (found.mean, found.p50, found.p90, found.is_bucket) == (0.005, 0.005, pytest.approx(0.009), True)


def test_no_quantile_is_above_what_the_mean_allows() -> None:
    """A queue that is empty: every wait is in the first bucket, up to 0.3 s, and the mean is 20 us."""
    found = histogram('t_bucket{le="0.3"} 100\nt_bucket{le="+Inf"} 100\nt_sum 0.002\nt_count 100\n')
    assert found.quantile(0.5) == pytest.approx(4e-5)
    assert found.quantile(0.9) == pytest.approx(2e-4)
    assert found.quantile(1.0) == 0.3


@pytest.mark.parametrize(
    "rubbish",
    [
        't_bucket{le="1"} 5\nt_bucket{le="2"} 4\n',
        't_bucket{le="1"} -1\n',
        't_bucket{le="1"} NaN\n',
        't_bucket{le="1"} +Inf\n',
        't_bucket{le="x"} 1\n',
        't_bucket{le="NaN"} 1\n',
        't_bucket{le="-Inf"} 1\n',
        "t_bucket 1\n",
        "t_sum NaN\nt_count 1\n",
        "t_sum -1\nt_count 1\n",
    ],
)
def test_rubbish_is_refused(rubbish: str) -> None:
    with pytest.raises(InfoptError, match=r"^t: ") as raised:
        histogram_of(read(rubbish), "t")
    assert "\n" not in str(raised.value)


def test_a_quantile_is_a_share() -> None:
    with pytest.raises(InfoptError, match="from 0 to 1"):
        histogram(TWO_RANKS).quantile(50)


bounds = st.lists(st.floats(1e-4, 1e4), min_size=1, max_size=12, unique=True).map(sorted)
values = st.lists(st.floats(0, 2e4), min_size=1, max_size=200)


def of_values(observed: list[float], edges: list[float], with_sum: bool = True) -> Histogram:
    """As a server writes it, read back."""
    rows = [f't_bucket{{le="{edge!r}"}} {sum(v <= edge for v in observed)}' for edge in edges]
    rows.append(f't_bucket{{le="+Inf"}} {len(observed)}')
    if with_sum:
        rows += [f"t_sum {math.fsum(observed)!r}", f"t_count {len(observed)}"]
    return histogram("\n".join(rows) + "\n")


@given(values, bounds, st.booleans())
def test_quantiles_rise_and_lie_in_the_bucket_of_the_value(
    observed: list[float], edges: list[float], with_sum: bool
) -> None:
    found = of_values(observed, edges, with_sum)
    shares = [0.0, 0.1, 0.5, 0.9, 0.99, 1.0]
    read_back = [found.quantile(q) for q in shares]
    known = [value for value in read_back if value is not None]
    assert read_back[: len(known)] == known  # once beyond the last bound, always
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(known))
    for q, value in zip(shares[1:], read_back[1:], strict=True):
        true = sorted(observed)[max(0, math.ceil(q * len(observed) - 1e-9) - 1)]
        upper = next((edge for edge in edges if true <= edge), None)
        if upper is None:
            assert value is None
            continue
        lower = max((edge for edge in edges if edge < true), default=0.0)
        assert value is not None
        assert lower * (1 - 1e-9) <= value <= upper


@given(values, bounds)
def test_the_mean_is_the_mean(observed: list[float], edges: list[float]) -> None:
    assert of_values(observed, edges).mean == pytest.approx(math.fsum(observed) / len(observed), abs=1e-12)


@given(values, bounds, bounds)
def test_two_ranks_with_the_same_bounds_are_one(first: list[float], edges: list[float], second: list[float]) -> None:
    def rows(observed: list[float], rank: int) -> str:
        inside = "".join(f't_bucket{{r="{rank}",le="{e!r}"}} {sum(v <= e for v in observed)}\n' for e in edges)
        return inside + f't_bucket{{r="{rank}",le="+Inf"}} {len(observed)}\n'

    merged = histogram(rows(first, 0) + rows(second, 1))
    alone = of_values(first + second, edges, with_sum=False)
    assert (merged.bounds, merged.inside, merged.beyond) == (alone.bounds, alone.inside, alone.beyond)


@pytest.mark.parametrize("seed", range(5))
def test_many_samples_agree_with_numpy_within_a_bucket(seed: int) -> None:
    random = np.random.default_rng(seed)
    samples = random.lognormal(-3, 0.6, 20_000)
    edges = [0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0]
    found = of_values(samples.tolist(), edges)
    for q in (0.01, 0.25, 0.5, 0.9, 0.99):
        true = float(np.quantile(samples, q))
        at = next(i for i, edge in enumerate(edges) if true <= edge)
        width = edges[at] - (edges[at - 1] if at else 0.0)
        value = found.quantile(q)
        assert value is not None
        assert abs(value - true) <= width
        assert abs(value - true) <= 0.5 * width  # even inside a bucket it is not far


@given(st.lists(st.floats(0, 100), min_size=5, max_size=50), bounds)
def test_the_mean_never_takes_a_quantile_out_of_reach(observed: list[float], edges: list[float]) -> None:
    """Markov's inequality is exact: with and without the mean, the value's bucket is the same."""
    assume(max(observed) > 0)
    with_mean, without = of_values(observed, edges), of_values(observed, edges, with_sum=False)
    for q in (0.5, 0.9, 0.99):
        a, b = with_mean.quantile(q), without.quantile(q)
        assert (a is None) == (b is None)
        assert a is None or b is None or a <= b
