"""Prefix cache ledger: whole blocks, hits of a finite pool against direct counts, replicas; caches of answers."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.hardware.names import resolve_hardware
from infopt.ledgers.answer_cache import api_saved_share, cost_ratio, needed_hit_share, needed_uses
from infopt.ledgers.compute import prefill_flop
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.prefix_cache import (
    Popularity,
    counted,
    hashing_spread_ratio,
    hit_block_tokens,
    hit_share,
    hit_tokens,
    hot_spot_ratio,
    lru_hit_share,
    remembered_requests,
    saved_flop,
    zipf,
)
from infopt.profiles.catalogue import load_catalogue_model
from infopt.studies.scenarios import Request, build

TRACE = Path(__file__).resolve().parents[2] / "shared/truth/traces/mooncake_conversation.jsonl"


@pytest.mark.parametrize(
    ("shared", "prompt", "block", "hits"),
    [
        # vllm issue 40696: one prompt sent again and again to a hybrid with blocks of 528.
        (527, 527, 528, 0),
        (552, 552, 528, 528),
        (979, 979, 528, 528),
        # 1,024 tokens shared and 64 of its own, blocks of 128 (vLLM 0.32 on a CPU: 4096 of 4352 tokens hit).
        (1024, 1088, 128, 1024),
        (100, 164, 128, 0),
        # The last token is always computed, and with it its block.
        (1024, 1024, 128, 896),
        (5000, 1024, 128, 896),
        (7, 8, 1, 7),
        (0, 8, 1, 0),
        (8, 0, 1, 0),
    ],
)
def test_hits_come_in_whole_blocks(shared: int, prompt: int, block: int, hits: int) -> None:
    assert hit_tokens(shared, prompt, block) == hits


@pytest.mark.parametrize(
    ("model", "version", "block"),
    # vllm issue 40696 (0.19, block raised to 528); issue 51198 (0.26, 561 shared tokens, no hit at all).
    [
        ("Qwen/Qwen3.5-4B", "0.19.1", 528),
        ("Qwen/Qwen3.6-35B-A3B", "0.26.0", 1056),
        ("meta-llama/Llama-3.1-8B", None, 16),
    ],
)
def test_hybrids_hit_in_blocks_of_hundreds(model: str, version: str | None, block: int) -> None:
    request = Request(input_tokens=1000, output_tokens=100, engine_version=version)
    s = build(load_catalogue_model(model), resolve_hardware("h100:1"), request).scenario
    assert hit_block_tokens(memory_ledger(s).layout) == block


def test_saved_flop_of_a_dense_model() -> None:
    """Llama-3.1-8B: 2 x (8.03e9 - 2 x 128256 x 4096) per token, 32 layers of 32 heads of 2 (128 + 128) n^2 / 2."""
    model = load_catalogue_model("meta-llama/Llama-3.1-8B")
    matrices, n = 2 * (8_030_261_248 - 2 * 128256 * 4096), 1000
    assert saved_flop(model, n) == pytest.approx(matrices * n + 32 * 32 * 2 * 256 * n * n / 2, rel=1e-4)
    assert saved_flop(model, 0) == 0
    assert 0 < saved_flop(model, n) < prefill_flop(model, n)


@given(st.integers(1, 100_000), st.floats(0, 3))
def test_popularity_is_whole_and_falls(prefixes: int, skew: float) -> None:
    popularity = zipf(prefixes, skew)
    assert popularity.counts.sum() == pytest.approx(prefixes)
    assert popularity.counts @ popularity.shares == pytest.approx(1)
    assert (np.diff(popularity.shares) <= 0).all()


@given(st.integers(1, 10_000), st.floats(0.001, 1))
def test_prefixes_alike_hit_as_often_as_they_are_held(prefixes: int, held: float) -> None:
    popularity, capacity = zipf(prefixes, 0.0), held * prefixes * 0.999
    found = hit_share(popularity, remembered_requests(popularity, capacity))
    assert found == pytest.approx(capacity / prefixes, rel=1e-6)


def test_a_pool_that_holds_everything_never_forgets() -> None:
    assert remembered_requests(zipf(100, 1.0), 100) == math.inf
    assert hit_share(zipf(100, 1.0), math.inf) == pytest.approx(1)
    assert remembered_requests(zipf(100, 1.0), 0) == 0


def test_one_prefix_in_every_request_is_always_there() -> None:
    """A pool of 10 prefixes, and every request brings half of one of its own: (10 - 1) / 0.5 requests."""
    assert remembered_requests(zipf(1, 0.0), 10, 0.5) == pytest.approx(18)
    assert hit_share(zipf(1, 0.0), 1) == pytest.approx(1)


@settings(max_examples=60)
@given(st.integers(1, 20_000), st.floats(0, 2), st.floats(0.1, 5000), st.just(0.0) | st.floats(1e-6, 5))
def test_what_is_remembered_fills_the_pool(prefixes: int, skew: float, capacity: float, own: float) -> None:
    popularity = zipf(prefixes, skew)
    requests = remembered_requests(popularity, capacity, own)
    if requests == math.inf:
        assert own == 0
        assert capacity >= prefixes
        return
    left = (1 - np.minimum(popularity.shares, 1 - 1e-15)) ** requests
    assert popularity.counts @ (1 - left) + own * requests == pytest.approx(capacity, rel=1e-5)
    more = remembered_requests(popularity, 1.1 * capacity, own)
    assert hit_share(popularity, more) >= hit_share(popularity, requests)


@pytest.mark.parametrize(("prefixes", "skew"), [(5000, 0.7), (100_000, 1.0), (3000, 1.4)])
def test_classes_of_ranks_stand_for_all_of_them(prefixes: int, skew: float) -> None:
    weights = np.arange(1, prefixes + 1.0) ** -skew
    exact = Popularity(weights / weights.sum(), np.ones(prefixes))
    for capacity in (20, 200, 2000):
        one, other = (hit_share(p, remembered_requests(p, capacity)) for p in (exact, zipf(prefixes, skew)))
        assert other == pytest.approx(one, abs=1e-4)


def drawn(prefixes: int, skew: float, requests: int) -> list[int]:
    weights = np.arange(1, prefixes + 1.0) ** -skew
    return list(map(int, np.random.default_rng(7).choice(prefixes, size=requests, p=weights / weights.sum())))


@pytest.mark.parametrize(
    ("prefixes", "skew", "capacity"), [(1000, 0.0, 300), (1000, 0.8, 100), (1000, 1.0, 50), (200, 0.6, 150)]
)
def test_the_formula_is_what_a_cache_counts(prefixes: int, skew: float, capacity: int) -> None:
    """Independent requests through a real LRU cache: within one point, first uses (1 %) included."""
    popularity = zipf(prefixes, skew)
    found = hit_share(popularity, remembered_requests(popularity, capacity))
    assert lru_hit_share(([i] for i in drawn(prefixes, skew, 60_000)), capacity) == pytest.approx(found, abs=0.01)


def test_tokens_of_one_request_alone_push_prefixes_out() -> None:
    """Prefixes of 4 blocks, 6 more of each request alone, 400 blocks: 46 requests are remembered, half of them hit."""
    trace = drawn(200, 0.9, 20_000)
    requests = [[*((i, j) for j in range(4)), *((-n, j) for j in range(6))] for n, i in enumerate(trace, 1)]
    popularity = zipf(200, 0.9)
    remembered = remembered_requests(popularity, 400 / 4, 6 / 4)
    assert remembered == pytest.approx(46, abs=0.5)
    counted_share = lru_hit_share(requests, 400) * 10 / 4
    assert hit_share(popularity, remembered) == pytest.approx(counted_share, abs=0.01)
    assert hit_share(popularity, remembered_requests(popularity, 100)) > counted_share + 0.2


def test_the_counter_by_hand() -> None:
    """Hits: none, 1 and 2, none (and 1, 2 are out: 3, 4, 5 stay), none; 2 of 10 blocks."""
    requests = [[1, 2, 3], [1, 2, 4], [5], [1, 2, 3]]
    assert lru_hit_share(requests, 3) == 2 / 10
    assert lru_hit_share(requests) == 5 / 10
    # A block behind one that is missing is no hit.
    assert lru_hit_share([[1, 2], [9, 2]]) == 0
    assert lru_hit_share([]) == 0


def test_hot_spots_by_hand() -> None:
    """Three alike on two replicas: 2/3 on one. Half of all requests on one of four: twice its share."""
    assert hot_spot_ratio(zipf(3, 0.0), 2) == pytest.approx(4 / 3)
    assert hot_spot_ratio(counted([2, 1, 1]), 4) == pytest.approx(2)
    assert hot_spot_ratio(zipf(1, 0.0), 8) == 8
    assert hot_spot_ratio(zipf(16, 0.0), 8) == 1
    assert hot_spot_ratio(zipf(100_000, 0.5), 8) == 1


@given(st.integers(1, 3000), st.floats(0, 2), st.integers(1, 16))
def test_no_home_keeps_the_most_popular_prefix_cool(prefixes: int, skew: float, replicas: int) -> None:
    popularity = zipf(prefixes, skew)
    ratio = hot_spot_ratio(popularity, replicas)
    assert max(1, replicas * popularity.shares[0]) <= ratio * (1 + 1e-9)
    assert ratio <= replicas * (1 + 1e-9)


def test_hashing_by_hand() -> None:
    """Shares 3/4 and 1/4 on two replicas: loads of the first 1, 3/4, 1/4 or 0, a quarter of the time each."""
    loads = np.array([1, 0.75, 0.25, 0])
    assert hashing_spread_ratio(counted([3, 1]), 2) == pytest.approx(loads.std() / loads.mean())


def trace() -> list[list[int]]:
    if not TRACE.is_file():
        pytest.skip("../shared is not here")
    return [json.loads(line)["hash_ids"] for line in TRACE.read_text().splitlines()]


@pytest.mark.shared
def test_hits_of_a_real_trace() -> None:
    """Mooncake's conversations, counted: shares of 512-token blocks by capacity, as published with the trace."""
    requests = trace()
    published = {
        math.inf: 0.3664, 100_000: 0.3637, 50_000: 0.3546, 30_000: 0.3257, 10_000: 0.2112, 3000: 0.0650, 1000: 0.0445,
    }  # fmt: skip
    for capacity, share in published.items():
        assert lru_hit_share(requests, capacity) == pytest.approx(share, abs=5e-5)


@pytest.mark.shared
def test_independent_requests_are_a_low_guess_of_a_real_trace() -> None:
    """The formula knows how popular blocks are, not that a conversation goes on soon: it finds half to all of the hits.

    First uses are left out: of c uses of a block c - 1 can hit.
    """
    requests = trace()
    uses = Counter(block for blocks in requests for block in blocks)
    times = np.array(sorted(uses.values()), dtype=float)
    for capacity, low, high in ((100_000, 0.85, 1.0), (30_000, 0.5, 0.65), (10_000, 0.45, 0.6), (3000, 0.9, 1.0)):
        remembered = remembered_requests(counted(uses.values()), capacity)
        found = _without_first(times, remembered)
        assert low < found / lru_hit_share(requests, capacity) < high


def _without_first(times: "np.ndarray", remembered: float) -> float:
    shares = times / times.sum()
    return float(((times - 1) / times.sum()) @ (1 - (1 - shares) ** remembered))


def test_an_answer_cache_by_hand() -> None:
    assert cost_ratio(0.3, 0.0) == pytest.approx(0.7)
    assert needed_hit_share(1.1, 0.0) == pytest.approx(1 - 1 / 1.1)
    assert 1 / cost_ratio(needed_hit_share(1.5, 0.04), 0.04) == pytest.approx(1.5)


def test_a_prompt_cache_as_a_price() -> None:
    """Written at 1.25, read at 0.1: 20 uses cost 1.25 + 1.9 of 20; a second use pays for the write."""
    assert api_saved_share(1.0, 20, 0.1, 1.25) == pytest.approx(1 - 3.15 / 20)
    assert api_saved_share(0.5, 20, 0.1, 1.25) == pytest.approx(0.5 * (1 - 3.15 / 20))
    assert needed_uses(1.0, 0.0, 0.1, 1.25) == pytest.approx(1.15 / 0.9)
    assert needed_uses(1.0, 0.9, 0.1, 1.25) == math.inf
    uses = needed_uses(0.8, 0.5, 0.1, 1.25)
    assert api_saved_share(0.8, uses, 0.1, 1.25) == pytest.approx(0.5)
