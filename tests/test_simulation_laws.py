"""What holds in every simulation, whatever the deployment: Little's law, tokens, blocks, machine time, ends."""

import math
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulations import LineClock, Listed, at_most_s, cache_of, even, separate, states, windows

from infopt.arrivals.arrival import Arrival
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.paging import Layout
from infopt.profiles.resolve import resolve_model
from infopt.simulation.deployment import Deployment, simulate
from infopt.simulation.outcome import CANCELLED, DONE, LOST, REFUSED, TIMED_OUT, Outcome
from infopt.simulation.setup import Cache, Loss, Scheduler, Setup, outages
from infopt.studies.scenarios import Request, build

LONGEST = 400
ROUTINGS = ("round-robin", "random", "least-loaded", "affinity", "scored")
# Models whose caches grow unevenly, on engines that cut them differently.
REAL = (
    ("google/gemma-3-27b-it", "vllm"),
    ("openai/gpt-oss-20b", "vllm"),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "vllm"),
    ("ai21labs/Jamba-v0.1", "vllm"),
    ("google/gemma-3-4b-it", "llama.cpp"),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "sglang"),
)


@cache
def real(model: str, engine: str) -> Layout:
    request = Request(input_tokens=200, output_tokens=200, engine=engine)
    return memory_ledger(build(resolve_model(model), resolve_hardware("h100:4"), request).scenario).layout


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    kind = draw(st.sampled_from(("even", "windows", "states", "separate", "real")))
    block = draw(st.sampled_from((1, 16, 32)))
    if kind == "real":
        return real(*draw(st.sampled_from(REAL)))
    if kind == "windows":
        return windows(block, draw(st.sampled_from((32, 128))), 64)
    if kind == "states":
        return states(block, 1)
    return separate(block, 64) if kind == "separate" else even(block, draw(st.integers(1, 3)))


@st.composite
def sources(draw: st.DrawFn) -> Listed:
    users = draw(st.one_of(st.none(), st.none(), st.integers(1, 12)))
    found, at_s = [], 0.0
    for number in range(draw(st.integers(1, 40))):
        gap_s = draw(st.sampled_from((0.0, 0.013, 0.1, 0.7, 4.0)))
        at_s += gap_s
        shared, own = draw(st.integers(0, 8)), draw(st.integers(0, 4))
        tokens = max(draw(st.integers(1, 200)), 16 * (shared + own))
        family = draw(st.integers(0, 2)) * 100
        found.append(
            Arrival(
                gap_s if users else at_s,
                tokens,
                draw(st.integers(1, 200)),
                tuple(family + i for i in range(shared)) + tuple(1000 * (number + 1) + i for i in range(own)),
                tenant=draw(st.integers(0, 1)),
                priority=draw(st.integers(0, 2)),
                cancelled_after_tokens=draw(st.one_of(st.none(), st.none(), st.integers(1, 200))),
                patience_s=draw(st.one_of(st.none(), st.none(), st.floats(0.01, 20.0))),
            )
        )
    warm = draw(st.sampled_from((0, 3)))
    return Listed(tuple(found), users, 16, ("one", "other"), warmup_s=0.2 * warm, warmup_requests=warm if users else 0)


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    replicas = draw(st.integers(1, 3))
    static = draw(st.integers(0, 3)) == 0
    rules = Scheduler(
        max_num_seqs=draw(st.integers(1, 12)),
        max_num_batched_tokens=draw(st.sampled_from((12, 64, 512))),
        chunk_tokens=draw(st.one_of(st.none(), st.integers(1, 64))),
        chunked=draw(st.booleans()),
        prefill_first=draw(st.booleans()),
        batching="static" if static else "continuous",
        static_batch=draw(st.integers(1, 8)),
        static_wait_s=draw(st.floats(0.01, 3.0)),
        watermark_share=draw(st.sampled_from((0.0, 0.01))),
        prefix_caching=draw(st.booleans()) and not static,
        whole_prompt_check=draw(st.booleans()),
        by_priority=draw(st.booleans()),
        admission_wait_s=draw(st.one_of(st.none(), st.none(), st.floats(0.01, 5.0))),
        most_waiting=draw(st.one_of(st.none(), st.none(), st.integers(0, 6))),
    )
    down = st.one_of(st.none(), st.floats(0.01, 5.0))
    losses = st.builds(Loss, st.integers(0, replicas - 1), st.floats(0.0, 8.0), down)
    return Setup(
        clock=LineClock(
            context_s=draw(st.sampled_from((0.0, 2e-5))),
            delay_s=draw(st.sampled_from((0.0, 1e-3))),
            linear=draw(st.booleans()),
        ),
        scheduler=rules,
        cache=cache_of(draw(layouts()), LONGEST, draw(st.sampled_from((0.0, 0.3, 1.5, 8.0)))),
        max_tokens=2 * LONGEST,
        replicas=replicas,
        routing=draw(st.sampled_from(ROUTINGS)),
        streaming=draw(st.booleans()),
        aborts=draw(st.booleans()),
        losses=tuple(draw(st.lists(losses, max_size=3))) if draw(st.booleans()) else (),
        seed=draw(st.integers(0, 3)),
    )


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(source=sources(), setup=setups())
def test_laws_of_every_simulation(source: Listed, setup: Setup) -> None:
    deployment = Deployment(source, setup)
    with at_most_s(20):
        outcome = deployment.run()
    rows, total = outcome.rows, outcome.total
    assert len(rows) == len(source.arrivals) == total.arrived == total.ended
    assert outcome.little_ratio == pytest.approx(1.0, rel=1e-9)
    for replica in deployment.replicas:
        pool = replica.batch.pool
        assert (replica.load, replica.present, pool.used) == (0, 0, 0)
        assert pool.free >= 0
        assert pool.free + pool.idle_units == setup.cache.capacity
        assert sum(pool._idle.values()) == pool.idle_units
        assert not pool._used
    assert all(0 <= share <= 1 + 1e-12 for share in outcome.samples.used_share)
    tokens_and_machine_time(outcome, setup)
    ends(outcome, source, setup)


def tokens_and_machine_time(outcome: Outcome, setup: Setup) -> None:
    """Output tokens and busy time are those of the requests; what a failure destroys is in nobody's row."""
    rows, total = outcome.rows, outcome.total
    if setup.losses:
        assert sum(rows.output_tokens) <= total.output_tokens
        assert math.fsum(rows.machine_s) <= total.busy_s * (1 + 1e-9)
        return
    assert sum(rows.output_tokens) == total.output_tokens
    assert math.fsum(rows.machine_s) == pytest.approx(total.busy_s, rel=1e-9, abs=1e-9)
    assert total.wasted_tokens <= total.output_tokens
    if setup.scheduler.batching == "static":
        assert not total.preemptions
    assert sum(rows.preemptions) == total.preemptions


def ends(outcome: Outcome, source: Listed, setup: Setup) -> None:
    """Every way to end has its cause, and nobody is answered more than asked."""
    ends = set(outcome.rows.end)
    sent = source.arrivals
    rules = setup.scheduler
    if not setup.losses:
        assert LOST not in ends
    if rules.admission_wait_s is None and rules.most_waiting is None:
        assert REFUSED not in ends
    if all(one.cancelled_after_tokens is None for one in sent):
        assert CANCELLED not in ends
    if all(one.patience_s is None for one in sent):
        assert TIMED_OUT not in ends
    rows = outcome.rows
    asked = sorted(one.output_tokens for one in sent)
    done = sorted(tokens for tokens, end in zip(rows.output_tokens, rows.end, strict=True) if end == DONE)
    assert all(tokens in asked for tokens in done)
    assert sum(rows.input_tokens) == sum(one.input_tokens for one in sent)
    assert all(found < given for found, given in zip(rows.found_tokens, rows.input_tokens, strict=True))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(source=sources(), setup=setups())
def test_same_seed_same_bytes(source: Listed, setup: Setup) -> None:
    one, other = (simulate(source, setup) for _ in range(2))
    assert repr(one.rows) == repr(other.rows)
    assert repr((one.total, one.window, one.samples)) == repr((other.total, other.window, other.samples))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 40), st.integers(0, 40))
def test_with_room_for_all_nobody_is_preempted_and_nothing_takes_longer(
    prompt: int, answer: int, requests: int, spare: int
) -> None:
    """Between no room and that neither is monotone: one block more lets one more in, which may be preempted."""
    sent = Listed(tuple(Arrival(0.0, prompt, answer) for _ in range(requests)))
    one = -(-(prompt + answer - 1) // 16)
    rules = Scheduler(64, 10**6)
    small, large = (
        simulate(sent, Setup(LineClock(), rules, Cache(even(16), blocks), 1000)).total
        for blocks in (one + spare, one * requests)
    )
    assert large.preemptions == 0
    assert large.busy_s <= small.busy_s * (1 + 1e-9)


def test_growth_by_layout_is_what_each_block_takes() -> None:
    """Counting crossings is allowed only where every block of every sequence takes as many units."""
    for name in REAL:
        cut = Cache(real(*name), 1)
        block = cut.block_tokens
        lengths = range(1, 40 * block, max(1, block // 3))
        assert all(cut.units(n) == cut.units(-(-n // block) * block) for n in lengths)
        if cut.even is not None:
            fixed, per_block = cut.even
            assert all(cut.units(n) == fixed + per_block * -(-n // block) for n in lengths)


def freed_as_vllm_does(tokens: int, window_tokens: int, block_tokens: int) -> int:
    """Blocks of a window's group while a sequence decodes, token by token: allocate_slots frees, then allocates.

    vLLM v1/core/single_type_kv_cache_manager.py: of c computed tokens max(0, c - w + 1) are skipped, whole blocks of
    them freed, before the blocks of token c + 1 are allocated.
    """
    skipped_tokens = max(0, tokens - 1 - window_tokens + 1)
    return -(-tokens // block_tokens) - skipped_tokens // block_tokens


@pytest.mark.parametrize(
    ("model", "window_tokens", "window_groups", "let_in", "decoding"),
    [("google/gemma-3-27b-it", 1024, 6, 1014, 534), ("openai/gpt-oss-20b", 128, 1, 289, 153)],
)
def test_answers_hold_what_vllm_has_not_freed(
    model: str, window_tokens: int, window_groups: int, let_in: int, decoding: int
) -> None:
    """Of 2,300 tokens, one group of layers keeps all."""
    cut = Cache(real(model, "vllm"), 1)
    assert (cut.units(2300), cut.decoding_units(2300)) == (let_in, decoding)
    for block in range(1, 200):
        lengths = range(16 * block - 15, 16 * block + 1)
        held = [freed_as_vllm_does(tokens, window_tokens, 16) for tokens in lengths]
        assert {cut.decoding_units(tokens) for tokens in lengths} == {block + window_groups * max(held)}
        assert max(held) - min(held) <= 1


def test_only_windows_are_given_back() -> None:
    for name in REAL:
        cut = Cache(real(*name), 1)
        assert cut.gives_back == (name[0] in ("google/gemma-3-27b-it", "openai/gpt-oss-20b"))
        for tokens in range(40 * cut.block_tokens):
            held, most = cut.decoding_units(tokens), cut.units(tokens)
            assert cut.kept_units(tokens) <= held <= most
            assert cut.gives_back or held == most


def test_windows_given_back_let_more_run() -> None:
    """A pool of three prompts of 2,000 tokens of gemma-3: the third and the fourth run beside two that answer."""
    layout = real("google/gemma-3-27b-it", "vllm")
    assert (Cache(layout, 1).units(2000), Cache(layout, 1).decoding_units(2300)) == (881, 534)
    sent = Listed(tuple(Arrival(0.0, 2000, 300) for _ in range(4)))
    setup = Setup(LineClock(), Scheduler(8, 2000), Cache(layout, 3 * 534 + 881), 4000)
    outcome = simulate(sent, setup)
    assert outcome.total.preemptions == 0
    assert max(outcome.rows.ttft_s) < min(outcome.rows.e2e_s)  # all four at once; 4 x 1,014 would not fit
    short = simulate(sent, replace(setup, cache=Cache(layout, 4 * 534 - 1)))
    assert short.total.preemptions or max(short.rows.ttft_s) > min(short.rows.e2e_s)


def test_losses_of_one_replica_that_overlap_are_one() -> None:
    sent = Listed(tuple(Arrival(0.1 * i, 50, 100) for i in range(60)))
    setup = Setup(LineClock(), Scheduler(8, 512), Cache(even(16), 200), 1000, replicas=2)

    def lost(*losses: Loss) -> Outcome:
        return simulate(sent, replace(setup, losses=losses))

    one = lost(Loss(0, 2.0, 3.0))
    for pair in ((Loss(0, 2.0, 1.0), Loss(0, 2.5, 2.5)), (Loss(0, 4.0, 1.0), Loss(0, 2.0, 2.0))):
        assert repr(lost(*pair)) == repr(one)
    assert repr(lost(Loss(0, 2.0, 3.0), Loss(0, 3.0, 0.5))) == repr(one)
    assert repr(lost(Loss(0, 2.0, 1.0), Loss(0, 2.5))) == repr(lost(Loss(0, 2.0)))  # the permanent one counts
    assert repr(lost(Loss(0, 2.0), Loss(0, 2.5, 0.5))) == repr(lost(Loss(0, 2.0)))
    apart = (Loss(0, 2.0, 1.0), Loss(1, 2.5, 0.5), Loss(0, 3.5, 1.0))
    assert outages(apart) == list(apart)
    assert lost(*apart).total.alive_s == pytest.approx(2 * lost(*apart).total.time_s - 2.5)


def test_lost_replicas_and_those_that_come_back() -> None:
    sent = Listed(tuple(Arrival(0.1 * i, 50, 100) for i in range(40)))
    setup = Setup(LineClock(), Scheduler(8, 512), Cache(even(16), 200), 1000, replicas=2)
    calm = simulate(sent, setup)
    one = simulate(sent, replace(setup, losses=(Loss(0, 2.0),)))
    back = simulate(sent, replace(setup, losses=(Loss(0, 2.0, 1.0), Loss(1, 2.2, 0.5))))
    none = simulate(sent, replace(setup, losses=(Loss(0, 2.0), Loss(1, 2.2))))
    assert calm.total.time_s < back.total.time_s < one.total.time_s
    assert set(one.rows.end) == set(back.rows.end) == {DONE}
    assert one.total.output_tokens > calm.total.output_tokens  # what was lost is answered again
    assert none.total.alive_s == pytest.approx(4.2)
    assert list(none.rows.end).count(LOST) == 40 - list(none.rows.end).count(DONE) > 18
    with pytest.raises(InfoptError, match="replica 2 cannot fail: there are 2"):
        simulate(sent, replace(setup, losses=(Loss(2, 1.0),)))


def test_a_replica_that_comes_back_serves_at_once() -> None:
    """Whatever it computed when it failed, a group of static batches as well."""
    sent = Listed((Arrival(0.0, 10, 400), Arrival(2.0, 10, 10)))
    for batching in ("continuous", "static"):
        rules = Scheduler(8, 512, batching=batching, static_batch=1)
        setup = Setup(LineClock(), rules, Cache(even(16), 200), 1000, losses=(Loss(0, 1.0, 0.5),))
        outcome = simulate(sent, setup)
        alone = simulate(Listed(sent.arrivals[:1]), replace(setup, losses=())).total.time_s
        assert min(outcome.rows.e2e_s) + 2.0 < 1.5 + alone + 1.0
        assert max(outcome.rows.e2e_s) == pytest.approx(1.5 + alone, rel=0.1)


def test_what_no_replica_can_serve_is_refused() -> None:
    setup = Setup(LineClock(), Scheduler(8, 512), Cache(even(16), 10), 300)
    with pytest.raises(InfoptError, match="tokens are more than the 300"):
        simulate(Listed((Arrival(0.0, 1, 300),)), setup)
    with pytest.raises(InfoptError, match="would wait for ever"):
        simulate(Listed((Arrival(0.0, 100, 100),)), setup)
    with pytest.raises(InfoptError, match="no request arrives"):
        simulate(Listed(()), setup)
