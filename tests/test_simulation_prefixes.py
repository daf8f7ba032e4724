"""Prefix caching in a replica: what vLLM counted, and what counting blocks of the least recently used finds."""

import random

import pytest
from simulations import LineClock, Listed, even

from infopt.arrivals.arrival import Arrival
from infopt.ledgers.prefix_cache import lru_hit_share
from infopt.simulation.deployment import simulate
from infopt.simulation.setup import Cache, Scheduler, Setup

QUICK = LineClock(step_s=1e-4, sequence_s=0.0, context_s=0.0, token_s=1e-6, pair_s=0.0)


def found_tokens(arrivals: list[Arrival], block_tokens: int, blocks: int, prefix_block_tokens: int) -> list[int]:
    rules = Scheduler(64, 8192, prefix_caching=True)
    setup = Setup(QUICK, rules, Cache(even(block_tokens), blocks), 10**6)
    rows = simulate(Listed(tuple(arrivals), prefix_block_tokens=prefix_block_tokens), setup).rows
    return [found for _, found in sorted(zip(rows.sent_s, rows.found_tokens, strict=True))]


@pytest.mark.parametrize(
    ("shared", "block", "hit"), [(1024, 128, 1024), (100, 128, 0), (1087, 128, 1024), (1024, 16, 1024)]
)
def test_hits_are_whole_blocks_as_vllm_counts_them(shared: int, block: int, hit: int) -> None:
    """vLLM 0.32 on a CPU, block 128: of four prompts, 1024 tokens shared and 64 own, 4096 of 4352 were hits."""
    prompts = 5
    ids = tuple(range(shared))  # one id a token
    sent = [Arrival(float(i), 1088, 32, ids) for i in range(prompts)]
    found = found_tokens(sent, block, 1000, 1)
    assert found == [0, *[hit] * (prompts - 1)]
    if (shared, block) == (1024, 128):
        assert sum(found[1:]) / (1088 * (prompts - 1)) == 4096 / 4352


def test_a_whole_prompt_that_is_known_still_computes_its_last_block() -> None:
    sent = [Arrival(float(i), 64, 4, (1, 2, 3, 4)) for i in range(2)]
    assert found_tokens(sent, 16, 100, 16) == [0, 48]


def test_prompts_of_one_moment_share_what_the_first_computes() -> None:
    """Blocks are known from the moment they are scheduled, as in vLLM."""
    sent = [Arrival(0.0, 65, 4, (1, 2, 3, 4)) for _ in range(3)]
    assert found_tokens(sent, 16, 100, 16) == [0, 64, 64]


@pytest.mark.parametrize("blocks", [40, 120, 400, 1000])
def test_hits_at_low_load_are_those_of_counted_blocks(blocks: int) -> None:
    """Requests that do not meet: the pool is nothing but the cache, and each leaves one block without a name."""
    drawn = random.Random(3)
    families = [tuple(range(100 * f, 100 * f + drawn.randint(1, 12))) for f in range(150)]
    weights = [1 / (rank + 1) for rank in range(len(families))]
    prefixes = drawn.choices(families, weights, k=6000)
    sent = [Arrival(float(i), 16 * len(prefix) + 1, 1, prefix) for i, prefix in enumerate(prefixes)]
    found = sum(found_tokens(sent, 16, blocks, 16)) / sum(16 * len(prefix) for prefix in prefixes)
    named = sum(map(len, prefixes))
    asked = [[*prefix, ("own", i)] for i, prefix in enumerate(prefixes)]
    expected = lru_hit_share(asked, blocks) * (named + len(prefixes)) / named
    assert 0.05 < expected < 0.999
    # An engine gives the end of a prefix up first; in a pool of a few prompts that keeps more of their beginnings.
    assert expected - 0.001 < found < expected + (0.025 if blocks < 100 else 0.01)
