"""The simulation's jumps against every step made by itself, and its preemptions against the ledger's replay."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulations import LineClock, Listed, at_most_s, even
from slow_replica import Request, SlowReplica, Windows

from infopt.arrivals.arrival import Arrival
from infopt.ledgers.paging import LayerKind, Layout
from infopt.ledgers.preemption import replay
from infopt.simulation.clock import FixedClock
from infopt.simulation.deployment import simulate
from infopt.simulation.outcome import Outcome
from infopt.simulation.setup import Cache, Scheduler, Setup

# Gaps whose sums do not meet the ends of steps.
GAP_S = math.sqrt(3) / 100
LENGTH = st.integers(1, 60)


@st.composite
def arrivals(draw: st.DrawFn, block_tokens: int) -> tuple[Arrival, ...]:
    """Requests that share the beginnings of their prompts, leave, and are more or less urgent."""
    found, at = [], 0
    for _ in range(draw(st.integers(1, 25))):
        at += draw(st.sampled_from((1, 1, 2, 7, 40, 200)))
        tokens, answer = draw(LENGTH), draw(LENGTH)
        family = draw(st.integers(0, 2))
        shared = min(draw(st.integers(0, 6)), tokens // block_tokens)
        own = tokens // block_tokens - shared if draw(st.booleans()) else 0
        prefix = tuple(family * 1000 + i for i in range(shared)) + tuple(10**6 + at * 1000 + i for i in range(own))
        found.append(
            Arrival(
                at * GAP_S,
                tokens,
                answer,
                prefix,
                priority=draw(st.integers(0, 2)),
                cancelled_after_tokens=draw(st.one_of(st.none(), st.none(), st.integers(1, 60))),
                patience_s=draw(st.one_of(st.none(), st.none(), st.floats(0.05, 5.0))),
            )
        )
    return tuple(found)


@st.composite
def schedulers(draw: st.DrawFn) -> Scheduler:
    chunked = draw(st.booleans())
    return Scheduler(
        max_num_seqs=draw(st.integers(1, 8)),
        max_num_batched_tokens=draw(st.integers(9, 80)),
        chunk_tokens=draw(st.one_of(st.none(), st.integers(1, 30))) if chunked else None,
        chunked=chunked,
        prefill_first=draw(st.booleans()),
        watermark_share=draw(st.sampled_from((0.0, 0.0, 0.01, 0.2))),
        prefix_caching=draw(st.booleans()),
        whole_prompt_check=draw(st.booleans()),
        by_priority=draw(st.booleans()),
        admission_wait_s=draw(st.one_of(st.none(), st.none(), st.floats(0.05, 3.0))),
        most_waiting=draw(st.one_of(st.none(), st.none(), st.integers(0, 5))),
    )


@st.composite
def window_groups(draw: st.DrawFn) -> Windows:
    return Windows(
        draw(st.integers(1, 6)), draw(st.sampled_from((4, 8, 16, 33, 64))), draw(st.sampled_from((1, 16, 80)))
    )


def with_windows(block_tokens: int, windows: Windows) -> Layout:
    """A group of layers that keep everything, and those with a window."""
    kinds = [(LayerKind(1, 1.0, block_tokens), 1)]
    if windows.groups:
        kinds.append((LayerKind(windows.groups, 1.0, block_tokens, windows.window_tokens), windows.groups))
    return Layout(1, 1 + windows.groups, 1.0, block_tokens, tuple(kinds), windows.in_flight_tokens)


def by_arrival(outcome: Outcome) -> list[tuple[float, ...]]:
    """Rows in the order of arrival: sent, first token, end, tokens, tokens found, preemptions, how it ended."""
    r = outcome.rows
    rows = zip(r.sent_s, r.ttft_s, r.e2e_s, r.output_tokens, r.found_tokens, r.preemptions, r.end, strict=True)
    return sorted(rows)


def row_of(one: Request) -> tuple[float, ...]:
    sent_s = one.arrival.time_s
    first_s = math.nan if one.first_s is None else one.first_s - sent_s
    assert one.end_s is not None
    end_s = one.end_s - sent_s
    return sent_s, first_s, end_s, one.answered_tokens, one.found_tokens or 0, one.preemptions, one.how


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_jumps_equal_steps_made_one_by_one(data: st.DataObject) -> None:
    block = data.draw(st.sampled_from((1, 4, 16)), label="block")
    sent = data.draw(arrivals(block), label="arrivals")
    rules = data.draw(schedulers(), label="rules")
    clock = LineClock(context_s=data.draw(st.sampled_from((0.0, 2e-6, 3e-4))))
    aborts = data.draw(st.booleans(), label="aborts")
    windows = data.draw(st.one_of(st.just(Windows()), window_groups()), label="windows")
    if rules.prefix_caching and rules.chunked and not rules.whole_prompt_check:
        windows = Windows()  # simulation/batch.py says where that differs
    layout = with_windows(block, windows)
    whole = max(one.input_tokens + one.output_tokens - 1 for one in sent)
    capacity = Cache(layout, 1).units(whole) + data.draw(st.integers(0, 20), label="spare")
    slow = SlowReplica(clock, rules, capacity, block, aborts, windows)
    with at_most_s(20):
        expected = slow.run(sent)
        setup = Setup(clock, rules, Cache(layout, capacity), 1000, aborts=aborts)
        outcome = simulate(Listed(sent, prefix_block_tokens=block), setup)
    found = by_arrival(outcome)
    assert len(found) == len(expected)
    for one, other in zip(found, map(row_of, expected), strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True)
    assert outcome.total.steps == slow.steps
    assert outcome.total.preemptions == slow.preemptions


@settings(max_examples=150, deadline=None)
@given(
    block=st.sampled_from((1, 8, 16, 128)),
    groups=st.integers(1, 3),
    requests=st.integers(1, 40),
    prompt=st.integers(1, 300),
    answer=st.integers(1, 300),
    spare=st.floats(0, 6),
    seats=st.integers(1, 32),
    budget=st.sampled_from((32, 100, 512, 8192)),
)
def test_preemptions_and_steps_of_a_batch_are_the_ledgers(
    block: int, groups: int, requests: int, prompt: int, answer: int, spare: float, seats: int, budget: int
) -> None:
    """Equal requests that start together: ledgers/preemption.py replays them by itself."""
    layout = even(block, groups)
    capacity = int(Cache(layout, 1).units(prompt + answer - 1) * (1 + spare))
    expected = replay(
        capacity, lambda tokens: int(layout.request_blocks(tokens)), block, requests, prompt, answer, seats, budget
    )
    assert expected is not None
    sent = tuple(Arrival(0.0, prompt, answer) for _ in range(requests))
    setup = Setup(FixedClock(0.01), Scheduler(seats, budget), Cache(layout, capacity), 10_000)
    outcome = simulate(Listed(sent), setup)
    assert (outcome.total.preemptions, outcome.total.steps) == (expected.preemptions, expected.steps)
