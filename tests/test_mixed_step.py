"""A step that decodes and computes prompts: in a steady batch it takes a plan's TPOT, alone its TTFT."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.hardware.names import resolve_hardware
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.estimate import Clock, clock, expected_times
from infopt.ledgers.mixed_step import (
    MixedStep,
    chunk_step_s,
    decode_step_s,
    first_token_alone_s,
    first_token_delay_s,
    meets_others,
    mixed_step,
    own_steps_s,
    piece_s,
    prompt_step_s,
)
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import first_token_of, prompt_work_s, weights_once_s
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build

SERVED = {
    "dense": ("8b", "h100", {}),
    "tensor parallel": ("70b", "h100:4", {}),
    "mixture": ("Qwen/Qwen3-30B-A3B", "h100", {}),
    "shared experts": ("Qwen/Qwen3-30B-A3B", "h100:2", {"dp": 2, "ep": 2}),
    "windows": ("google/gemma-3-27b-it", "h100", {}),
    "sparse": ("deepseek-ai/DeepSeek-V3.2-Exp", "h200:8", {}),
}
LOCAL = {
    "llama.cpp": ("8b", "rtx 4090", {"engine": "llama.cpp", "weights": "q4_k_m"}),
    "two stages": ("70b", "2x rtx 4090", {"engine": "llama.cpp", "weights": "q4_k_m", "tp": 1, "pp": 2}),
}
STEP_TOKENS = 2048


@cache
def scenario(name: str) -> Scenario:
    model, hardware, changes = (SERVED | LOCAL)[name]
    request = Request(**{"input_tokens": 2000, "output_tokens": 300, "max_num_seqs": 64} | changes)
    return build(resolve_model(model), resolve_hardware(hardware), request).scenario


@cache
def clock_of(name: str) -> Clock:
    found = clock(scenario(name))
    assert isinstance(found, Clock), found
    return found


def step(name: str, step_tokens: int = STEP_TOKENS, **changes: Any) -> MixedStep:
    return mixed_step(replace(scenario(name), **changes), clock_of(name), step_tokens)


def load(input_tokens: int, output_tokens: int, batch: int) -> dict[str, Any]:
    lengths = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    return {**lengths, "batch": batch, "decode_context_tokens": input_tokens + output_tokens / 2}


def planned(name: str, **loaded: Any) -> Any:
    s = replace(scenario(name), **loaded)
    return expected_times(s, clock_of(name), bandwidth_ledger(s).step_floor_s)


LENGTHS = {"input_tokens": st.integers(1, 20_000), "output_tokens": st.integers(2, 2000)}


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(SERVED)), batch=st.integers(1, 200), **LENGTHS)
def test_a_steady_batch_takes_the_planned_tpot(name: str, batch: int, input_tokens: int, output_tokens: int) -> None:
    """Out of step, each token waits for (B - 1) / OSL prompts of others, whose chunks its steps hold."""
    batch *= scenario(name).sharing_replicas
    loaded = load(input_tokens, output_tokens, batch)
    m = step(name, **loaded)
    stall_s = (batch - 1) / output_tokens * chunk_step_s(m, input_tokens, 0)
    found_s = decode_step_s(m, batch, loaded["decode_context_tokens"]) + stall_s
    assert found_s == pytest.approx(planned(name, **loaded).tpot_s, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(SERVED | LOCAL)), step_tokens=st.integers(64, 30_000), **LENGTHS)
def test_a_prompt_alone_takes_the_planned_ttft(
    name: str, step_tokens: int, input_tokens: int, output_tokens: int
) -> None:
    """Its own steps, and what is left until the first token; never less than its steps.

    Servers of dense models: kernels of a prompt's step are left, and none of the waits for others in their TTFT.
    """
    loaded = load(input_tokens, output_tokens, 1)
    m, planned_s = step(name, step_tokens, **loaded), planned(name, **loaded).ttft_s
    own_s = own_steps_s(m, input_tokens, 0)
    whole_s = own_s + first_token_delay_s(m, input_tokens, 0)
    if meets_others(m):
        planned_s = own_s + m.clock.shape.kernels * first_token_of(m.clock.constants).kernel_s
    assert first_token_alone_s(m, input_tokens, 0) == pytest.approx(planned_s, rel=1e-12)
    assert whole_s == pytest.approx(max(planned_s, own_s), rel=1e-12)
    assert own_s >= -(-input_tokens // step_tokens) * weights_once_s(m.clock.shape)


@pytest.mark.parametrize(
    ("name", "waits"), [("dense", True), ("windows", True), ("mixture", False), ("llama.cpp", False)]
)
def test_waits_for_others_are_in_the_first_tokens_of_dense_servers_only(name: str, waits: bool) -> None:
    m = step(name)
    assert meets_others(m) == waits
    if waits:  # a plan's TTFT has them
        assert first_token_alone_s(m, 1000, 0) < 0.7 * planned(name, **load(1000, 100, 1)).ttft_s


@pytest.mark.parametrize("name", sorted(SERVED))
def test_first_tokens_of_servers_come_after_their_steps(name: str) -> None:
    assert first_token_delay_s(step(name), 2000, 0) > 0


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(set(SERVED) - {"windows", "sparse"})),
    cuts=st.lists(st.integers(1, 5000), min_size=1, max_size=6),
)
def test_pieces_of_a_prompt_add_up(name: str, cuts: list[int]) -> None:
    m, done, total_s = step(name), 0, 0.0
    for tokens in cuts:
        total_s += chunk_step_s(m, tokens, done)
        done += tokens
    assert total_s == pytest.approx(chunk_step_s(m, done, 0), rel=1e-9)
    assert total_s == pytest.approx(prompt_work_s(m.clock.shape, m.clock.constants, done), rel=1e-9)


def test_a_piece_behind_more_tokens_takes_longer_and_cached_ones_nothing() -> None:
    m = step("dense")
    behind = [chunk_step_s(m, 64, cached) for cached in (0, 1024, 100_000)]
    assert behind == sorted(set(behind))
    assert chunk_step_s(m, 64, 1024) < 0.1 * chunk_step_s(m, 1088, 0)


@pytest.mark.parametrize("name", sorted(SERVED | LOCAL))
def test_a_step_of_prompts_reads_the_weights(name: str) -> None:
    m = step(name)
    assert prompt_step_s(m, 1) >= weights_once_s(m.clock.shape)
    assert prompt_step_s(m, 8) >= prompt_step_s(m, 1)


def test_more_prompts_cost_what_requests_cost() -> None:
    m = step("dense")
    request_s = m.clock.constants.request_s
    assert prompt_step_s(m, 8) - prompt_step_s(m, 1) == pytest.approx(7 * request_s, rel=1e-9)
    assert request_s > 0


def test_by_own_steps_a_plan_and_a_chunk_mean_the_same_work() -> None:
    """Attention may run in another format than matrices: what it takes is the first token's, for those who wait too."""
    s, known = scenario("dense"), clock_of("dense")
    f = known.constants.first_token
    assert f is not None
    alone = f.model_copy(
        update={"steps": 0.0, "kernel_s": 6e-6, "prefill_ratio": 2.0, "attention_ratio": 1.2, "token_s": 0.0}
    )
    own = {"of_device": True, "prefill_ratio": 2.0, "prefill_token_s": 0.0, "kernel_s": 6e-6, "first_token": alone}
    constants = known.constants.model_copy(update=own)
    m = mixed_step(s, replace(known, constants=constants), STEP_TOKENS)
    for cached_tokens in (0, 5000):
        work_s = prompt_work_s(m.clock.shape, constants, cached_tokens + 1000, cached_tokens)
        assert chunk_step_s(m, 1000, cached_tokens) == pytest.approx(work_s)
    assert prompt_step_s(m, 3) == prompt_step_s(m, 1)
    assert first_token_delay_s(m, 1000, 0) == pytest.approx(0.0, abs=1e-12)


def test_local_engines_read_the_weights_under_the_products_of_a_prompt() -> None:
    """A step alone takes kernels and the longer of weights and products: a short piece adds nothing to the weights."""
    m = step("llama.cpp")
    once_s = weights_once_s(m.clock.shape)
    assert chunk_step_s(m, 1, 0) == 0.0 > piece_s(m, 1, 0)
    assert chunk_step_s(m, 512, 0) > once_s
    kernels_s = prompt_step_s(m, 1) - once_s
    alone_s = prompt_step_s(m, 1) + chunk_step_s(m, 512, 0)
    assert alone_s == pytest.approx(kernels_s + piece_s(m, 512, 0) + once_s)
    assert alone_s == pytest.approx(first_token_alone_s(m, 512, 0))


def test_the_fill_of_a_pipeline_is_latency_of_the_prompt() -> None:
    """A prompt of one piece passes two stages one after the other: what the second adds delays nobody else."""
    m = step("two stages", step_tokens=512)
    assert m.clock.constants.first_token is not None
    assert m.clock.constants.first_token.chunk_tokens is not None
    assert first_token_delay_s(m, 512, 0) == pytest.approx(own_steps_s(m, 512, 0), rel=0.02)
    assert first_token_delay_s(m, 20 * 512, 0) < 0.1 * own_steps_s(m, 20 * 512, 0)


def test_no_step_is_below_its_floor() -> None:
    """A calibration measured less bandwidth than the constants were fitted to."""
    s = scenario("dense")
    slow = replace(s, accelerator=replace(s.accelerator, bandwidth_bytes_per_s=1e12))
    m = mixed_step(slow, clock_of("dense"), STEP_TOKENS)
    floor_s = bandwidth_ledger(replace(slow, batch=4, decode_context_tokens=3000)).step_floor_s
    assert decode_step_s(m, 4, 3000) == pytest.approx(floor_s)
    assert decode_step_s(step("dense"), 4, 3000) < floor_s


def test_arrays_are_elementwise() -> None:
    m, counts, contexts = step("mixture"), np.array([1, 3, 64]), np.array([10.0, 2000.5, 30_000.0])
    each = [decode_step_s(m, int(n), float(c)) for n, c in zip(counts, contexts, strict=True)]
    assert list(decode_step_s(m, counts, contexts)) == pytest.approx(each)
    new, cached = np.array([1, 100, 2048]), np.array([0, 5000, 100])
    each = [chunk_step_s(m, int(n), int(c)) for n, c in zip(new, cached, strict=True)]
    assert list(chunk_step_s(m, new, cached)) == pytest.approx(each)
