"""Synthetic traffic: rates, spreads and popularity as described, reproducible, one quantity at a time; senders."""

import math
import pickle
import statistics
from collections import Counter
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.arrivals.arrival import Arrival, Source
from infopt.arrivals.clients import Clients, Tenant
from infopt.arrivals.describe import describe
from infopt.arrivals.matrix import matrix_cell, matrix_cells
from infopt.arrivals.profiles import FOLDER, load_profile, profile_names
from infopt.arrivals.synthetic import CHUNK_REQUESTS, Lengths, SharedPrefix, Synthetic
from infopt.arrivals.traces import Trace, open_trace
from infopt.arrivals.traffic import Traffic
from infopt.errors import InfoptError

FIXED = Lengths(100.0)
N = 40_000


def synthetic(**fields: Any) -> Synthetic:
    return Synthetic(**{"inputs": FIXED, "outputs": FIXED, "rate_per_s": 10.0, "requests": N} | fields)


def times(source: Source) -> list[float]:
    return [arrival.time_s for arrival in source.stream()]


def gaps(source: Source) -> list[float]:
    return [after - before for before, after in pairwise(times(source))]


@pytest.mark.parametrize(
    ("fields", "spread"),
    [
        ({"process": "steady"}, 0.0),
        ({"process": "poisson"}, 1.0),
        ({"process": "gamma", "burstiness_ratio": 0.3}, 0.3),
        ({"process": "gamma", "burstiness_ratio": 3.0}, 3.0),
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rate_and_burstiness(fields: dict[str, Any], spread: float, seed: int) -> None:
    """The mean gap lies within 3.5 standard errors of 1 / rate (2e-4 of correct generators fail)."""
    found = gaps(synthetic(seed=seed, **fields))
    error = 3.5 * spread * 0.1 / math.sqrt(len(found))
    assert statistics.fmean(found) == pytest.approx(0.1, abs=error + 1e-9)
    assert statistics.pstdev(found) / 0.1 == pytest.approx(spread, rel=0.1, abs=1e-6)


def test_poisson_gaps_are_exponential() -> None:
    """Kolmogorov-Smirnov at 1e-3 (critical value 1.95 / sqrt(n))."""
    found = np.sort(gaps(synthetic(process="poisson")))
    expected = 1 - np.exp(-10.0 * found)
    seen = np.arange(1, len(found) + 1) / len(found)
    assert np.max(np.abs(seen - expected)) < 1.95 / math.sqrt(len(found))


@pytest.mark.parametrize("peak_ratio", [1.0, 1.5, 2.0])
def test_periodic_rate_follows_the_sine(peak_ratio: float) -> None:
    """Counts by phase against r (1 + (p - 1) sin): chi-squared of 20 bins below its 1e-4 quantile (50.8)."""
    source = synthetic(process="periodic", period_s=100.0, peak_ratio=peak_ratio, requests=None, duration_s=5000.0)
    found = np.array(times(source))
    counts, edges = np.histogram(found % 100.0, bins=20, range=(0, 100))
    phases = 2 * np.pi * edges / 100
    expected = 5000.0 / 100.0 * 10.0 * (5.0 + (peak_ratio - 1) * 100 / (2 * np.pi) * -np.diff(np.cos(phases)))
    assert float(np.sum((counts - expected) ** 2 / expected)) < 50.8
    assert len(found) == pytest.approx(50_000, abs=4 * math.sqrt(50_000))


def test_the_first_comes_at_zero_and_times_rise() -> None:
    for process in ("steady", "poisson", "gamma", "periodic"):
        found = times(synthetic(process=process, burstiness_ratio=2.0, period_s=7.0, peak_ratio=1.5, requests=25_000))
        assert found[0] == 0.0
        assert all(before <= after for before, after in pairwise(found))
        assert len(found) == 25_000


def test_duration_and_requests_whichever_ends_first() -> None:
    assert times(synthetic(process="steady", requests=None, duration_s=2.0)) == [index / 10 for index in range(20)]
    assert len(times(synthetic(process="steady", requests=5, duration_s=2.0))) == 5
    assert max(times(synthetic(requests=None, duration_s=2000.0))) < 2000.0
    assert len(times(synthetic(process="steady", requests=None, duration_s=2500.0))) == 25_000


@given(
    st.integers(0, 2**32),
    st.sampled_from(["steady", "poisson", "gamma", "periodic"]),
    st.integers(1, 300),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_the_same_seed_gives_the_same_requests(seed: int, process: Any, requests: int, closed: bool) -> None:
    users = 3 if closed and process != "periodic" else None
    source = Clients(
        synthetic(
            process=process,
            inputs=Lengths(500.0, 1.2),
            outputs=Lengths(40.0, 0.7),
            shared=SharedPrefix(128, 9, 0.8),
            period_s=3.0,
            peak_ratio=1.7,
            requests=requests,
            seed=seed,
            users=users,
            think_s=1.0,
        ),
        cancel_share=0.3,
        seed=seed,
    )
    first = list(source.stream())
    assert first == list(pickle.loads(pickle.dumps(source)).stream())
    assert len(first) == requests
    assert all(arrival.input_tokens >= 1 and arrival.output_tokens >= 1 for arrival in first)
    assert all(len(arrival.prefix) <= arrival.input_tokens // 16 for arrival in first)


def test_another_seed_gives_others() -> None:
    assert times(synthetic(seed=1)) != times(synthetic(seed=2))


BASE: dict[str, Any] = {
    "inputs": Lengths(500.0, 1.0),
    "outputs": Lengths(40.0, 0.7),
    "shared": SharedPrefix(64, 9, 0.8),
    "requests": 25_000,
}


def column(source: Source, name: str) -> list[Any]:
    return [getattr(arrival, name) for arrival in source.stream()]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"process": "gamma", "burstiness_ratio": 2.0}, ["input_tokens", "output_tokens", "prefix"]),
        ({"process": "periodic", "period_s": 30.0, "peak_ratio": 1.9}, ["input_tokens", "output_tokens", "prefix"]),
        ({"process": "steady"}, ["input_tokens", "output_tokens", "prefix"]),
        ({"users": 4, "think_s": 1.0}, ["input_tokens", "output_tokens", "prefix"]),
        ({"rate_per_s": 99.0}, ["input_tokens", "output_tokens", "prefix"]),
        ({"outputs": Lengths(9.0, 2.0)}, ["time_s", "input_tokens", "prefix"]),
        ({"inputs": Lengths(900.0, 0.1, least_tokens=64)}, ["time_s", "output_tokens"]),
        ({"shared": SharedPrefix(256, 3, 0.0)}, ["time_s", "input_tokens", "output_tokens"]),
    ],
)
def test_changing_one_quantity_leaves_the_others(change: dict[str, Any], same: list[str]) -> None:
    before, after = synthetic(**BASE), synthetic(**BASE | change)
    for name in same:
        assert column(before, name) == column(after, name), name
    assert list(before.stream()) != list(after.stream())


def test_more_requests_begin_as_fewer_do() -> None:
    fewer = list(synthetic(**BASE | {"requests": CHUNK_REQUESTS + 7}).stream())
    assert list(islice(synthetic(**BASE).stream(), CHUNK_REQUESTS + 7)) == fewer


@pytest.mark.parametrize(("mean", "spread"), [(1000.0, 0.0), (1000.0, 0.5), (300.0, 1.0), (40.0, 2.0)])
def test_lengths(mean: float, spread: float) -> None:
    """Rounding up to one token moves the mean by less than half a token."""
    found = column(synthetic(outputs=Lengths(mean, spread)), "output_tokens")
    error = 3.5 * spread * mean / math.sqrt(N)
    assert statistics.fmean(found) == pytest.approx(mean, abs=error + 0.5)
    assert statistics.pstdev(found) / mean == pytest.approx(spread, rel=0.06, abs=1e-9)
    assert min(found) >= 1


def test_lengths_clipped_and_counted() -> None:
    clipped = column(synthetic(inputs=Lengths(100.0, 1.0, least_tokens=50, most_tokens=200)), "input_tokens")
    assert (min(clipped), max(clipped)) == (50, 200)
    counted = Counter(column(synthetic(inputs=Lengths(counted=(7, 9, 9))), "input_tokens"))
    assert set(counted) == {7, 9}
    assert counted[9] / N == pytest.approx(2 / 3, abs=4 * math.sqrt(2 / 9 / N))


def test_prefixes_are_shared_by_zipfs_law() -> None:
    source = synthetic(inputs=Lengths(100.0), shared=SharedPrefix(70, 5, 1.0))
    found = Counter(column(source, "prefix"))
    assert source.prefix_block_tokens == 16
    assert set(found) == {tuple(range(4 * rank, 4 * rank + 4)) for rank in range(5)}
    harmonic = sum(1 / rank for rank in range(1, 6))
    for rank in range(5):
        share = 1 / (rank + 1) / harmonic
        assert found[tuple(range(4 * rank, 4 * rank + 4))] / N == pytest.approx(share, abs=4 * math.sqrt(share / N))


def test_a_prompt_shares_no_more_than_it_has() -> None:
    source = synthetic(inputs=Lengths(counted=(15, 33, 500)), shared=SharedPrefix(64, 2, 0.0, block_tokens=32))
    lengths = {(arrival.input_tokens, len(arrival.prefix)) for arrival in source.stream()}
    assert lengths == {(15, 0), (33, 1), (500, 2)}
    assert column(synthetic(shared=SharedPrefix(15, 3)), "prefix") == [()] * N


def test_a_closed_loop_thinks() -> None:
    source = synthetic(users=8, think_s=2.0, process="steady", requests=100)
    assert (source.users, times(source)) == (8, [2.0] * 100)
    thinking = times(synthetic(users=8, think_s=2.0, process="poisson"))
    assert statistics.fmean(thinking) == pytest.approx(2.0, abs=3.5 * 2.0 / math.sqrt(N))
    assert times(synthetic(users=1, requests=3)) == [0.0, 0.0, 0.0]


def test_warm_up() -> None:
    assert synthetic(requests=1000).warmup_s == pytest.approx(10.0)
    assert synthetic(requests=1000, duration_s=50.0).warmup_s == pytest.approx(5.0)
    assert synthetic(requests=None, duration_s=600.0).warmup_s == pytest.approx(60.0)
    assert synthetic(given_warmup_s=3.0).warmup_s == 3.0
    closed = synthetic(users=4, requests=1000)
    assert (closed.warmup_s, closed.warmup_requests) == (0.0, 100)
    assert Clients(closed).warmup_requests == 100
    assert open_trace("azure-code").warmup_s == 0.0


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"rate_per_s": 0.0}, "a rate of 0/s is not more than 0"),
        ({"rate_per_s": math.nan}, "a rate of nan/s"),
        ({"requests": 0}, "0 requests"),
        ({"requests": None}, "needs a number of requests or a time"),
        ({"duration_s": -1.0}, "duration must be more than 0"),
        ({"seed": -1}, "seed -1"),
        ({"process": "gamma", "burstiness_ratio": 0.0}, "burstiness of 0"),
        ({"process": "periodic"}, "needs a period"),
        ({"process": "periodic", "period_s": 5.0, "peak_ratio": 2.5}, "a peak of 2.5 times"),
        ({"process": "periodic", "period_s": 5.0, "users": 2}, "cannot come periodically"),
        ({"users": 0}, "0 users"),
        ({"users": 2, "think_s": -1.0}, "think time of -1"),
        ({"users": 2, "requests": None, "duration_s": 5.0}, "need a number of requests"),
        ({"inputs": Lengths(0.5)}, "input: a mean of 0.5 tokens"),
        ({"outputs": Lengths(5.0, -1.0)}, "output: a spread of -1"),
        ({"inputs": Lengths(5.0, most_tokens=0)}, "input: from 1 to 0"),
        ({"inputs": Lengths(counted=(3, 0))}, "input: a counted length"),
        ({"shared": SharedPrefix(64, 0)}, "0 shared prefixes"),
        ({"shared": SharedPrefix(64, 2, -1.0)}, "a skew of -1"),
        ({"shared": SharedPrefix(-1)}, "shared prefix of -1"),
        ({"shared": SharedPrefix(64, block_tokens=24)}, "24 tokens is no multiple of 16"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_first_request(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InfoptError, match=why):
        synthetic(**fields).stream()


# Senders.


def test_cancelled_requests() -> None:
    source = Clients(synthetic(outputs=Lengths(counted=(1, 11))), cancel_share=0.25)
    found = list(source.stream())
    assert all(arrival.cancelled_after_tokens is None for arrival in found if arrival.output_tokens == 1)
    longer = [arrival.cancelled_after_tokens for arrival in found if arrival.output_tokens == 11]
    left = [after for after in longer if after is not None]
    assert len(left) / len(longer) == pytest.approx(0.25, abs=4 * math.sqrt(0.1875 / len(longer)))
    shares = {after: times / len(left) for after, times in Counter(left).items()}
    assert set(shares) == set(range(1, 11))
    assert all(share == pytest.approx(0.1, abs=4 * math.sqrt(0.1 / len(left))) for share in shares.values())


def test_tenants() -> None:
    tenants = (Tenant("paid", 1.0, 0), Tenant("free", 3.0, 5, inputs=Lengths(20.0), outputs=Lengths(7.0)))
    source = Clients(synthetic(shared=SharedPrefix(64)), senders=tenants, patience_s=9.0)
    found = list(source.stream())
    assert source.tenants == ("paid", "free")
    seen = {
        (arrival.tenant, arrival.priority, arrival.input_tokens, arrival.output_tokens, len(arrival.prefix))
        for arrival in found
    }
    assert seen == {(0, 0, 100, 100, 4), (1, 5, 20, 7, 1)}
    share = sum(arrival.tenant for arrival in found) / N
    assert share == pytest.approx(0.75, abs=4 * math.sqrt(0.1875 / N))
    assert {arrival.patience_s for arrival in found} == {9.0}


def test_senders_of_a_trace_leave_the_rest_as_it_is() -> None:
    trace = open_trace("mooncake", most_requests=12_000)
    assert list(Clients(trace).stream()) == list(trace.stream())
    sent = Clients(trace, cancel_share=0.5, senders=(Tenant("a", 1.0), Tenant("b", 1.0, 1)), seed=4)
    for before, after in zip(trace.stream(), sent.stream(), strict=True):
        assert (before.time_s, before.input_tokens, before.output_tokens, before.prefix) == (
            after.time_s,
            after.input_tokens,
            after.output_tokens,
            after.prefix,
        )
    assert sent.prefix_block_tokens == 512
    assert sent.requests is None


def test_changing_one_of_the_senders_properties_leaves_the_others() -> None:
    tenants = (Tenant("a", 1.0), Tenant("b", 1.0))
    plain, cancelled = Clients(synthetic(), senders=tenants), Clients(synthetic(), 0.5, senders=tenants)
    assert column(plain, "tenant") == column(cancelled, "tenant")
    few, many = Clients(synthetic(), 0.1), Clients(synthetic(), 0.9)
    kept = [
        (less, more)
        for less, more in zip(
            column(few, "cancelled_after_tokens"), column(many, "cancelled_after_tokens"), strict=True
        )
        if less is not None
    ]
    assert kept
    assert all(less == more for less, more in kept)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"cancel_share": 1.5}, "a share of 1.5"),
        ({"patience_s": 0.0}, "a patience of 0"),
        ({"senders": (Tenant("a", 1.0), Tenant("a", 2.0))}, "twice"),
        ({"senders": (Tenant("a", 0.0),)}, "a share of 0"),
        ({"senders": (Tenant("a", 1.0, -1),)}, "priority -1"),
        ({"senders": (Tenant("a", 1.0, inputs=Lengths(0.0)),)}, "tenant a: a mean of 0"),
    ],
)
def test_senders_that_make_no_sense(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InfoptError, match=why):
        Clients(synthetic(), **fields).stream()


# Statistics.


class Listed:
    """A source of given requests."""

    users, tenants, prefix_block_tokens, requests, warmup_s = None, ("a", "b"), 16, None, 0.0

    def __init__(self, *arrivals: Arrival) -> None:
        self.arrivals = arrivals

    def stream(self) -> Any:
        return iter(self.arrivals)


def test_describe_by_hand() -> None:
    source = Listed(
        Arrival(0.0, 10, 1, (1, 2)),
        Arrival(0.5, 20, 2, (1, 3)),
        Arrival(0.9, 30, 3, (9, 2), tenant=1),
        Arrival(100.0, 40, 94),
    )
    found = describe(source)
    assert (found.requests, found.duration_s, found.rate_per_s) == (4, 100.0, 0.03)
    assert found.peaks_per_s == ((1.0, 3.0), (60.0, 3 / 60))
    assert found.burstiness_ratio == pytest.approx(
        statistics.pstdev([0.5, 0.4, 99.1]) / statistics.fmean([0.5, 0.4, 99.1])
    )
    assert (found.inputs.mean_tokens, found.inputs.p50_tokens, found.inputs.p99_tokens) == (25.0, 20, 40)
    assert found.outputs.most_tokens == 94
    assert found.inputs.spread_ratio == pytest.approx(statistics.pstdev([10, 20, 30, 40]) / 25)
    # (1, 3) shares its first block; (9, 2) shares nothing, for its first block is new.
    assert (found.prefix_blocks, found.distinct_blocks, found.hit_share) == (6, 4, 1 / 6)
    assert found.shares == (("a", 0.75), ("b", 0.25))


def test_describe_what_has_no_rate() -> None:
    alone = describe(Listed(Arrival(0.0, 1, 1)))
    assert (alone.rate_per_s, alone.burstiness_ratio, alone.peaks_per_s, alone.hit_share) == (None, None, (), None)
    closed = describe(synthetic(users=2, think_s=1.0, requests=50))
    assert (closed.rate_per_s, closed.burstiness_ratio, closed.peaks_per_s) == (None, None, ())


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=60))
def test_percentiles_are_those_of_all_lengths(lengths: list[int]) -> None:
    found = describe(Listed(*(Arrival(float(i), tokens, 1) for i, tokens in enumerate(lengths)))).inputs
    ordered = sorted(lengths)
    assert found.p50_tokens == ordered[math.ceil(0.5 * len(lengths)) - 1]
    assert found.p99_tokens == ordered[math.ceil(0.99 * len(lengths)) - 1]
    assert found.mean_tokens == pytest.approx(statistics.fmean(lengths))


# Profiles and the workload matrix.


@pytest.mark.parametrize("name", profile_names())
def test_profiles(name: str) -> None:
    profile = load_profile(name)
    found = describe(profile.traffic.source(5.0, requests=20_000))
    assert profile.id == name
    clip = 0.05  # what the most tokens take off the mean
    for drawn, said in ((found.inputs, profile.input), (found.outputs, profile.output)):
        error = 4 * said.spread_ratio / math.sqrt(20_000)
        assert drawn.mean_tokens == pytest.approx(said.mean_tokens, rel=error + clip)
    asked = (profile.targets.ttft_s, profile.targets.tpot_s, profile.targets.e2e_s)
    assert any(asked) or not profile.streaming


@pytest.mark.parametrize(
    ("name", "trace"), [("interactive", "azure-conv"), ("code-completion", "azure-code"), ("long-context", "mooncake")]
)
def test_measured_figures_of_profiles_are_those_of_their_traces(name: str, trace: str) -> None:
    profile, found = load_profile(name), describe(open_trace(trace))
    for said, seen in ((profile.input, found.inputs), (profile.output, found.outputs)):
        assert said.mean_tokens == pytest.approx(seen.mean_tokens, rel=1e-3)
        assert said.spread_ratio == pytest.approx(seen.spread_ratio, abs=0.006)
        assert said.most_tokens == seen.most_tokens
    if profile.arrivals.kind == "measured":
        assert profile.arrivals.burstiness_ratio == pytest.approx(found.burstiness_ratio, rel=0.01)


def test_an_unknown_profile_lists_the_known() -> None:
    assert {"interactive", "batch", "long-context", "reasoning"} <= set(profile_names())
    assert set(profile_names()) == {path.stem for path in FOLDER.iterdir()}
    with pytest.raises(InfoptError, match=r"unknown workload profile 'chat'.*known: agents, batch, "):
        load_profile("chat")


# Document 2, section 15, line by line.
ROWS = (
    "Short input/short output",
    "Long input/short output",
    "Short input/long output",
    "Long input/long output",
    "High/low shared prefix",
    "Steady, bursty, and periodic traffic",
    "Streaming and non-streaming",
    "Multi-tenant priority",
    "Tool calling/structured output",
    "Cancellation, timeout, and client disconnects",
)


def test_the_matrix_covers_document_2() -> None:
    cells = matrix_cells()
    assert tuple(dict.fromkeys(cell.row for cell in cells)) == ROWS
    assert [cell.over for cell in cells].count(None) == 1
    assert all(cell.source for cell in cells)


@pytest.mark.parametrize("cell", matrix_cells(), ids=lambda cell: cell.id)
def test_a_cell_differs_in_what_it_says(cell: Any) -> None:
    if cell.over is None:
        assert cell.traffic == load_profile("interactive").traffic
        return
    base, own = matrix_cell(cell.over).traffic.model_dump(), cell.traffic.model_dump()
    assert cell.variable
    assert {name for name in own if own[name] != base[name]} == {name for name, _ in cell.changes}
    assert describe(cell.traffic.source(5.0, requests=500)).requests == 500


def test_grammars_are_said_to_be_missing() -> None:
    assert all("grammar" in matrix_cell(name).not_shown for name in ("tool-calling", "structured-output"))


def test_an_unknown_cell_lists_the_known() -> None:
    with pytest.raises(
        InfoptError, match="unknown cell of the workload matrix 'bursts'; nearest: bursty; known: short"
    ):
        matrix_cell("bursts")


def test_traffic_at_once() -> None:
    source = Traffic(input_mean_tokens=10, output_mean_tokens=5).source(1.0, users=3, requests=10)
    assert (source.users, source.requests) == (3, 10)


def test_sources_keep_the_protocol() -> None:
    sources: list[Source] = [synthetic(), Clients(synthetic()), open_trace("azure-code")]
    assert isinstance(sources[-1], Trace)
    for source in sources:
        assert source.tenants
        assert source.warmup_s >= 0
