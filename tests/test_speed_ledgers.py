"""Step time, first token, maximal load and speculation: what the formulas must do, whatever the constants."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.hardware.multiprocessors import multiprocessor_cycles_per_s
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.estimate import NoEstimate, clock, estimate, expected_times, step_clock
from infopt.ledgers.max_load import load_parts, load_terms_s
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.speculation import speedup_ratio, tokens_per_cycle, tokens_per_cycle_at_rate
from infopt.ledgers.step_time import prompt_fill_ratio, prompt_parts_s, step_terms_s
from infopt.profiles.catalogue import load_catalogue_model
from infopt.profiles.load_constants import load_constants
from infopt.studies.scenarios import Request, build

MODELS = {"8b": "meta-llama/Llama-3.1-8B", "70b": "meta-llama/Llama-3.1-70B", "30b": "Qwen/Qwen3-30B-A3B"}


def placed(name="8b", hw="rtx 4090", engine="llama.cpp", weights="q4_k_m", **more):
    request = Request(**{"input_tokens": 512, "output_tokens": 128, "engine": engine, "weights": weights} | more)
    return build(load_catalogue_model(MODELS[name]), resolve_hardware(hw), request).scenario


def expected(s):
    found = estimate(s, memory_ledger(s), bandwidth_ledger(s))
    assert not isinstance(found, NoEstimate), found
    return found


@pytest.mark.parametrize(
    ("device", "cycles_per_s"),
    [("a100", 108 * 1.41e9), ("h100-pcie-80gb", 114 * 1.755e9), ("rtx 4090", 128 * 2.52e9), ("rtx 3090", 82 * 1.695e9)],
)
def test_multiprocessor_cycles(device, cycles_per_s):
    """Multiprocessors times boost clock, as published (NVIDIA white papers of GA100, GH100, AD102, GA102)."""
    assert multiprocessor_cycles_per_s(resolve_hardware(device).accelerator) == pytest.approx(cycles_per_s, rel=0.01)


def test_cycles_are_unknown_where_the_lanes_are():
    assert multiprocessor_cycles_per_s(resolve_hardware("mi300x").accelerator) is None


@pytest.mark.parametrize("hw", ["rtx 4090", "a100", "h100", "m2 ultra 192gb", "dgx spark"])
@pytest.mark.parametrize("weights", ["q4_k_m", "q8_0", "fp16"])
def test_no_estimate_of_a_local_engine_beats_its_floor(hw, weights):
    s = placed(hw=hw, weights=weights)
    found = expected(s)
    floor_s = bandwidth_ledger(s).step_floor_s
    assert floor_s <= found.tpot_low_s <= found.tpot_s <= found.tpot_high_s
    assert found.ttft_high_s <= 3.01 * found.ttft_low_s


def test_loads_in_flight_bind_on_fast_memory_only():
    """llama.cpp keeps few loads in flight: an A100 reads far below its 1.6 TB/s, a 4090 near its 1 TB/s."""
    ratio = {}
    for hw in ("a100", "rtx 4090"):
        compiled = step_clock(placed(hw=hw, weights="fp16"))
        ratio[hw] = compiled.shape.weight_ratio / compiled.constants.traffic_ratio
    assert ratio["rtx 4090"] == 1.0
    assert ratio["a100"] > 1.4  # 40 GB, 1.555 TB/s


def test_quantized_weights_are_unpacked_and_full_ones_are_not():
    whole, packed = (step_clock(placed(hw="m1 max 64gb", weights=w)).shape.weight_ratio for w in ("fp16", "q4_k_m"))
    assert packed > 1.5 * whole


def test_local_engines_are_refused_beyond_one_sequence():
    s = placed(batch=2)
    found = estimate(s, memory_ledger(s), bandwidth_ledger(s))
    assert isinstance(found, NoEstimate)
    assert "one" in found.reason or "1 sequence" in found.reason


def test_a_scenario_among_the_measurements_is_not_extrapolated():
    s = placed("70b", "h100:4", "vllm", "fp8", input_tokens=2000, output_tokens=300, batch=32)
    assert expected(s).extrapolated == ()


@pytest.mark.parametrize(
    ("hw", "changed", "told"),
    [
        ("h100:4", {"input_tokens": 32_000, "batch": 8}, "prompt tokens 32,000, measured 1,000 to 8,192"),
        ("h100:4", {"batch": 1}, "sequences at once 1, measured 4 to 512"),
        ("h100:4", {"tp": 2, "pp": 2}, "pipeline stages 2, measured 1"),
        ("h100:16", {"tp": 16}, "devices of a replica 16, measured 1 to 8"),
        ("h100-pcie-80gb:4", {}, "tensor parallelism over PCIe, measured over NVLink"),
    ],
)
def test_what_lies_outside_the_measurements_is_told(hw, changed, told):
    load = {"input_tokens": 2000, "output_tokens": 300, "batch": 32} | changed
    assert told in expected(placed("70b", hw, "vllm", "fp8", **load)).extrapolated


def test_replicas_of_a_dense_model_are_measured_one_by_one():
    s = placed("70b", "h100:16", "vllm", "fp8", input_tokens=2000, output_tokens=300, batch=128, tp=4, dp=4)
    assert expected(s).extrapolated == ()


def test_arrays_beyond_what_was_measured_are_nan():
    s = replace(placed(), batch=np.array([1, 2, 8]))
    times = expected_times(s, clock(placed()), 0.0)
    assert np.isfinite(times.tpot_s[0])
    assert np.isnan(times.tpot_s[1:]).all()


def test_engines_without_a_prompt_or_a_step_have_no_estimate():
    for engine in ("gpt-fast", "lmdeploy"):
        s = placed(hw="a100", weights="fp16")
        s = replace(s, engine=s.engine.model_copy(update={"engine": engine}))
        assert isinstance(estimate(s, memory_ledger(s), bandwidth_ledger(s)), NoEstimate)


def test_pipeline_hops_and_collectives_cost_time():
    one = sum(step_terms(placed("8b", "h100", pp=1, gpus=1)).values())
    four = step_terms(placed("8b", "h100", pp=4, gpus=4, tp=1))
    assert four["links"] > 0
    assert sum(four.values()) > one


def step_terms(s):
    compiled = step_clock(s)
    return step_terms_s(compiled.shape, compiled.constants, 1, s.decode_context_tokens, s.input_tokens, s.output_tokens)


@given(before=st.integers(0, 4000), tokens=st.integers(1, 4000))
def test_a_prompt_in_two_pieces_is_the_prompt(before, tokens):
    shape = clock(placed()).shape
    whole = prompt_parts_s(shape, before + tokens, 0)
    first, second = prompt_parts_s(shape, before, 0), prompt_parts_s(shape, tokens, before)
    for i in range(2):
        assert first[i] + second[i] == pytest.approx(whole[i], rel=1e-6, abs=1e-12)


def test_stages_of_a_pipeline_wait_for_the_first_piece():
    shape = clock(placed(pp=4, gpus=4, tp=1)).shape
    assert prompt_fill_ratio(shape, 512, 100) == 4
    assert prompt_fill_ratio(shape, 512, 512 * 97) == pytest.approx(100 / 97)


@pytest.mark.parametrize("name", ["8b", "30b"])
@pytest.mark.parametrize("batch", [1, 64, 512])
def test_maximal_load_stays_above_its_floor(name, batch):
    s = placed(name, "h200", "tensorrt-llm", "fp8", batch=batch)
    parts = load_parts(s)
    terms = load_terms_s(parts, s.model.experts > 0, load_constants("tensorrt-llm", "nvidia"))
    assert sum(terms.values()) >= parts.floor_s > 0


def test_more_sequences_give_more_tokens_until_products_bind():
    rates = []
    for batch in (1, 16, 256):
        s = placed("8b", "h200", "tensorrt-llm", "fp8", batch=batch)
        rates.append(batch / sum(load_terms_s(load_parts(s), False, load_constants("tensorrt-llm", "nvidia")).values()))
    assert rates == sorted(rates)


def test_no_maximal_load_is_known_of_other_engines():
    assert load_constants("llama.cpp", "nvidia") is None


@given(ratio=st.floats(0, 1), drafted=st.integers(0, 10))
def test_tokens_per_cycle(ratio, drafted):
    tokens = tokens_per_cycle_at_rate(ratio, drafted)
    assert 1 <= tokens <= drafted + 1
    assert tokens == pytest.approx(tokens_per_cycle([ratio**i for i in range(1, drafted + 1)]))


def test_published_acceptance_gives_the_published_length():
    """vLLM issue 19254, n-gram with 3 drafted tokens: positions 0.543, 0.357, 0.264 and a length of 2.16."""
    assert tokens_per_cycle((0.543, 0.357, 0.264)) == pytest.approx(2.16, abs=0.01)
    assert tokens_per_cycle((0.615, 0.464, 0.383)) == pytest.approx(2.46, abs=0.01)


def test_deepseek_mtp_speedups():
    """TensorRT-LLM blog 1: accepted 1.92, 2.58, 2.82 tokens at 1.08, 1.15, 1.24 plain steps a cycle."""
    assert [round(speedup_ratio(t, c), 2) for t, c in ((1.92, 1.08), (2.58, 1.15), (2.82, 1.24))] == [1.78, 2.24, 2.27]
