"""The clock of a simulation is the estimate of a plan: formulas to the last digits, and whole runs beside plans."""

import pickle
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.arrivals.synthetic import Lengths, Synthetic
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.estimate import Estimate, NoEstimate, clock, estimate
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.mixed_step import (
    chunk_step_s,
    decode_step_s,
    first_token_alone_s,
    first_token_delay_s,
    meets_others,
    mixed_step,
    prompt_step_s,
)
from infopt.ledgers.scenario import Scenario
from infopt.profiles.resolve import resolve_model
from infopt.simulation.clock import EstimateClock, FixedClock
from infopt.simulation.deployment import simulate
from infopt.simulation.summary import Summary, summary
from infopt.studies.measured_points import calibrated_constants
from infopt.studies.scenarios import Request, build
from infopt.studies.simulated import Asked, Simulated, simulated

MOE = "Qwen/Qwen3-30B-A3B"
PLACES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "dense": ("8b", "h100", {}),
    "tp": ("70b", "h100:8", {}),
    "dp": ("8b", "h100:2", {"dp": 2}),
    "mixture": (MOE, "h100", {}),
    "shared experts": (MOE, "h100:2", {"dp": 2, "ep": 2}),
    "windows": ("google/gemma-3-27b-it", "h100", {}),
    "sparse": ("deepseek-ai/DeepSeek-V3.2-Exp", "h200:8", {}),
    "tensorrt": ("8b", "h100", {"engine": "tensorrt-llm"}),
    "sglang": ("8b", "h100", {"engine": "sglang"}),
    "llama.cpp": ("8b", "rtx 4090", {"engine": "llama.cpp", "weights": "q4_k_m"}),
}


@cache
def scenario(name: str, input_tokens: int = 2000, output_tokens: int = 300, batch: int = 1) -> Scenario:
    model, hardware, changes = PLACES[name]
    request = Request(input_tokens=input_tokens, output_tokens=output_tokens, batch=batch, **changes)
    return build(resolve_model(model), resolve_hardware(hardware), request).scenario


def made(s: Scenario, asked: Asked | None = None) -> Simulated:
    found = simulated(s, asked or Asked(prefix_caching=False))
    assert isinstance(found, Simulated), found
    return found


@cache
def ticking(name: str) -> EstimateClock:
    return made(scenario(name)).clock


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(PLACES)),
    sequences=st.integers(1, 300),
    context_tokens=st.floats(1, 200_000),
    new_tokens=st.integers(1, 20_000),
    cached_tokens=st.integers(0, 200_000),
)
def test_it_is_the_ledger(
    name: str, sequences: int, context_tokens: float, new_tokens: int, cached_tokens: int
) -> None:
    fast = ticking(name)
    m = fast.mixed
    decode_s, prompt = decode_step_s(m, sequences, context_tokens), (new_tokens, cached_tokens)
    assert fast.decode_s(sequences, context_tokens) == pytest.approx(decode_s, rel=1e-12)
    # The ledger's own differences of large sums round at 1e-16 of all that lies before.
    rounding_s = 1e-15 * chunk_step_s(m, new_tokens + cached_tokens, 0)
    assert fast.chunk_s(*prompt) == pytest.approx(chunk_step_s(m, *prompt), rel=1e-12, abs=rounding_s)
    assert fast.prompt_step_s(sequences) == pytest.approx(prompt_step_s(m, sequences), rel=1e-12)


@pytest.mark.parametrize("name", sorted(PLACES))
def test_first_tokens_are_the_ledgers_too(name: str) -> None:
    fast = ticking(name)
    for lengths in ((1, 0), (100, 0), (5000, 0), (20_000, 19_000)):
        assert fast.first_token_delay_s(*lengths) == pytest.approx(first_token_delay_s(fast.mixed, *lengths), abs=1e-12)


@pytest.mark.parametrize("name", sorted(PLACES))
def test_a_copy_in_another_process_ticks_alike(name: str) -> None:
    fast = ticking(name)
    copy = pickle.loads(pickle.dumps(fast))
    assert copy.linear == fast.linear
    assert copy.decode_s(7, 1234.5) == fast.decode_s(7, 1234.5)
    assert copy.chunk_s(300, 128) == fast.chunk_s(300, 128)
    assert copy.first_token_delay_s(300, 128) == fast.first_token_delay_s(300, 128)


@pytest.mark.parametrize("name", sorted(PLACES))
def test_linear_is_what_it_says(name: str) -> None:
    fast = ticking(name)
    assert fast.linear == (name not in ("windows", "sparse"))
    middle = [fast.decode_s(n, 50_001) - (fast.decode_s(n, 2) + fast.decode_s(n, 100_000)) / 2 for n in (1, 5, 200)]
    assert (max(map(abs, middle)) < 1e-12) == fast.linear


def test_a_floor_that_crosses_the_step_is_no_line() -> None:
    """Bandwidth was measured below what the constants were fitted to: at long contexts the floor is above the step."""
    s = scenario("dense")
    slow = replace(s, accelerator=replace(s.accelerator, bandwidth_bytes_per_s=2.9e12))
    compiled = clock(s)
    assert not isinstance(compiled, NoEstimate)
    fast = EstimateClock(mixed_step(slow, compiled, 8192))
    assert not fast.linear
    short, long = ((slow, context) for context in (100.0, 100_000.0))
    floors = [
        bandwidth_ledger(replace(at, batch=8, decode_context_tokens=context)).step_floor_s
        for at, context in (short, long)
    ]
    assert fast.decode_s(8, 100.0) > floors[0]
    assert fast.decode_s(8, 100_000.0) == pytest.approx(floors[1])
    assert EstimateClock(fast.mixed, 0.5).decode_s(8, 100_000.0) == pytest.approx(floors[1])
    assert EstimateClock(fast.mixed, 1.3).decode_s(8, 100_000.0) == pytest.approx(1.3 * floors[1])


@pytest.mark.parametrize("name", sorted(PLACES))
def test_prompts_have_a_form_where_attention_has_one(name: str) -> None:
    """Else every new length asks the ledger."""
    assert hasattr(ticking(name)._piece, "cache_info") == (name in ("windows", "sparse"))


def test_a_fixed_clock() -> None:
    fixed = FixedClock(0.5)
    assert fixed.linear
    assert (fixed.decode_s(9, 1e6), fixed.chunk_s(100, 0), fixed.prompt_step_s(3)) == (0.5, 0.0, 0.5)
    assert fixed.first_token_delay_s(100, 0) == 0.0


def closed(s: Scenario, ready: Simulated, spread_tokens: int = 0, requests: int | None = None) -> Summary:
    """As many users as the scenario has sequences, at its lengths."""
    outputs = tuple(range(s.output_tokens - spread_tokens, s.output_tokens + spread_tokens + 1))
    source = Synthetic(
        inputs=Lengths(s.input_tokens),
        outputs=Lengths(counted=outputs),
        users=s.batch,
        requests=requests or max(100, 30 * s.batch),
        seed=1,
    )
    return summary(simulate(source, ready.setup))


def alone_s(s: Scenario) -> float:
    """The first token of a request that is alone: a plan's, without the waits for others that are in it."""
    return first_token_alone_s(made(s).clock.mixed, s.input_tokens, 0)


def planned(s: Scenario) -> Estimate:
    found = estimate(s, memory_ledger(s), bandwidth_ledger(s))
    assert isinstance(found, Estimate), found
    return found


@pytest.mark.parametrize("name", sorted(set(PLACES) - {"dp", "shared experts"}))
def test_one_request_at_a_time_is_a_plan_at_batch_1(name: str) -> None:
    """To the last digits, where contexts of a step are the mean of an answer's (lines); windows are within 1 %."""
    s = scenario(name)
    found, expected = closed(s, made(s), requests=10), planned(s)
    assert found.ttft_s is not None
    assert found.tpot_s is not None
    assert found.ttft_s.mean == pytest.approx(alone_s(s), rel=1e-9)
    assert meets_others(ticking(name).mixed) or alone_s(s) == pytest.approx(expected.ttft_s, rel=1e-9)
    # Decode steps see contexts from ISL + 1 to ISL + OSL - 1, whose mean is that of the plan.
    assert found.tpot_s.mean == pytest.approx(expected.tpot_s, rel=1e-9 if ticking(name).linear else 0.01)


LOADS = [
    ("dense", 1000, 200, 4),
    ("dense", 1000, 200, 32),
    ("dense", 4000, 500, 64),
    ("tp", 2000, 300, 64),
    ("dp", 1000, 200, 32),
    ("mixture", 1000, 200, 32),
    ("shared experts", 1000, 200, 32),
    ("windows", 1000, 300, 16),
    ("tensorrt", 1000, 200, 32),
]


@pytest.mark.parametrize(("name", "input_tokens", "output_tokens", "batch"), LOADS)
def test_a_closed_loop_out_of_step_is_a_plan(name: str, input_tokens: int, output_tokens: int, batch: int) -> None:
    """Answers of half to one and a half times the length keep users apart.

    TPOT within 2.5 %; throughput within 6 %: a plan's first tokens are of requests that come together.
    """
    s = scenario(name, input_tokens, output_tokens, batch)
    found, expected = closed(s, made(s), output_tokens // 2), planned(s)
    assert found.tpot_s is not None
    assert found.tpot_s.mean == pytest.approx(expected.tpot_s, rel=0.025)
    assert found.output_tokens_per_s == pytest.approx(expected.output_tokens_per_s, rel=0.06)
    assert found.effective_batch == pytest.approx(batch / s.dp * s.sharing_replicas, rel=0.08)


def test_prompts_in_steps_of_their_own_read_the_weights_once_more() -> None:
    s = scenario("sglang", 1000, 200, 32)
    apart = made(s)
    assert apart.setup.scheduler.prefill_first
    together = made(s, Asked(prefix_caching=False, prefill_first=False))
    slow, quick = closed(s, apart, 100), closed(s, together, 100)
    assert slow.tpot_s is not None
    assert quick.tpot_s is not None
    more_s = (32 - 1) / 200 * apart.clock.prompt_step_s(1)
    assert slow.tpot_s.mean - quick.tpot_s.mean == pytest.approx(more_s, rel=0.25)


def test_ends_are_those_of_the_plan() -> None:
    for name, batch in (("dense", 1), ("mixture", 1), ("llama.cpp", 1)):
        s = scenario(name)
        expected, (low, high) = planned(s), made(s).ends(batch)
        first = alone_s(s) / expected.ttft_s
        for setup, tpot_s, ttft_s in (
            (low, expected.tpot_low_s, first * expected.ttft_low_s),
            (high, expected.tpot_high_s, first * expected.ttft_high_s),
        ):
            found = closed(s, replace(made(s), setup=setup), requests=3)
            assert found.tpot_s is not None
            assert found.ttft_s is not None
            assert found.tpot_s.mean == pytest.approx(tpot_s, rel=1e-6)
            own_s = setup.clock.prompt_step_s(1) + setup.clock.chunk_s(2000, 0)
            assert found.ttft_s.mean == pytest.approx(max(ttft_s, own_s), rel=1e-6)


def test_measured_points_move_both_alike() -> None:
    s = scenario("dense", 1000, 200, 1)
    constants = calibrated_constants(s, ["batch=1,tpot=9ms", "batch=16,tpot=14ms"])
    found = simulated(s, Asked(prefix_caching=False), constants)
    assert isinstance(found, Simulated)
    expected = estimate(s, memory_ledger(s), bandwidth_ledger(s), constants)
    assert isinstance(expected, Estimate)
    alone = closed(s, found, requests=3)
    assert alone.tpot_s is not None
    assert alone.tpot_s.mean == pytest.approx(expected.tpot_s, rel=1e-9)
    assert expected.tpot_s == pytest.approx(0.009, rel=0.01)
    assert any("2 measured point(s)" in said.text for said in found.assumptions)


# What is simulated


def test_the_pool_is_the_ledgers() -> None:
    s = scenario("dense")
    memory = memory_ledger(s)
    blocks = int(memory.layout.blocks(memory.kv_pool_bytes_per_gpu))
    assert made(s).setup.cache.capacity == blocks > 0 == memory.layout.null_blocks
    shared = scenario("shared experts")
    alone = memory_ledger(shared)
    found = made(shared).setup
    assert found.replicas == 1
    assert found.cache.capacity == 2 * int(alone.layout.blocks(alone.kv_pool_bytes_per_gpu))
    assert found.scheduler.max_num_seqs == 2 * shared.max_num_seqs
    assert made(scenario("dp")).setup.replicas == 2


def test_kinds_with_pools_of_their_own_are_counted_in_bytes() -> None:
    s = build(
        resolve_model("google/gemma-3-27b-it"),
        resolve_hardware("rtx 4090:2"),
        Request(engine="llama.cpp", weights="q4_k_m", tp=1, pp=2, input_tokens=2000, output_tokens=300),
    ).scenario
    found = made(s).setup.cache
    assert found.layout.separate
    assert found.capacity == int(memory_ledger(s).kv_pool_bytes_per_gpu)
    assert 0 < found.units(2300) < found.capacity


@pytest.mark.parametrize(
    ("engine", "version", "expected"),
    [
        ("vllm", "0.7.3", (False, True, False, True, 0.01)),
        ("vllm", "0.11.0", (True, False, True, False, 0.0)),
        ("vllm", "0.32.0", (True, False, True, True, 0.0)),
        ("sglang", None, (True, True, True, True, 0.0)),
        ("tensorrt-llm", None, (False, False, True, True, 0.0)),
    ],
)
def test_engines_schedule_as_they_do(engine: str, version: str | None, expected: tuple[Any, ...]) -> None:
    request = Request(engine=engine, engine_version=version, input_tokens=1000, output_tokens=100)
    s = build(resolve_model("8b"), resolve_hardware("h100"), request).scenario
    rules = made(s, Asked()).setup.scheduler
    flags = (rules.chunked, rules.prefill_first, rules.prefix_caching, rules.whole_prompt_check)
    assert (*flags, rules.watermark_share) == expected
    assert rules.max_num_batched_tokens == s.max_num_batched_tokens


def test_what_is_asked_goes_before_what_engines_do() -> None:
    asked = Asked(
        chunked=True, prefill_first=False, prefix_caching=True, watermark_share=0.05, max_tokens=5000, chunk_tokens=256
    )
    request = Request(engine_version="0.7.3", input_tokens=1000, output_tokens=100)
    setup = made(build(resolve_model("8b"), resolve_hardware("h100"), request).scenario, asked).setup
    rules = setup.scheduler
    assert (rules.chunked, rules.prefill_first, rules.prefix_caching) == (True, False, True)
    assert (rules.watermark_share, rules.chunk_tokens, setup.max_tokens) == (0.05, 256, 5000)


def test_chunks_come_before_the_delay_of_a_first_token() -> None:
    """In small chunks a prompt's own steps take longer than its first token was expected to: nothing is left to add."""
    s = scenario("mixture", 8000, 100)
    whole, cut = made(s), made(s, Asked(prefix_caching=False, chunk_tokens=64))
    assert whole.clock.first_token_delay_s(8000, 0) > 0 == cut.clock.first_token_delay_s(8000, 0)
    alone, slow = closed(s, whole, requests=3), closed(s, cut, requests=3)
    assert alone.ttft_s is not None
    assert slow.ttft_s is not None
    assert slow.ttft_s.mean > alone.ttft_s.mean == pytest.approx(planned(s).ttft_s, rel=1e-9)


def reason(model: str, hardware: str, asked: Asked | None = None, **request: Any) -> str:
    given = Request(**{"input_tokens": 1000, "output_tokens": 100} | request)
    found = simulated(build(resolve_model(model), resolve_hardware(hardware), given).scenario, asked or Asked())
    assert isinstance(found, NoEstimate)
    return found.reason


def test_without_a_clock_it_says_why() -> None:
    assert reason("70b", "h100") == "it does not fit"
    assert "no measurements of vllm" in reason("8b", "mi300x")
    assert "at most 1 sequence" in reason("8b", "rtx 4090", engine="llama.cpp", weights="q4_k_m", max_num_seqs=4)
    assert "request of" in reason("70b", "h100:2", Asked(max_tokens=100_000))


def test_what_cannot_be_asked() -> None:
    for most, said in ((1, "at least 2"), (10**6, "positions of")):
        with pytest.raises(InfoptError, match=said):
            simulated(scenario("dense"), Asked(max_tokens=most))


def test_loads_outside_the_measurements_are_said() -> None:
    found = made(scenario("dense"))
    assert found.extrapolated(32, 2000, 300) == ()
    assert any("sequences at once 2,000" in text for text in found.extrapolated(2000, 2000, 300))
