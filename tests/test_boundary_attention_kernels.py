"""Fused attention: rooflines by hand, the prompt at which attention outweighs the matrices, windows as a what-if."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import DENSE, attention, device, latent, model, recurrent, scenario

from infopt.boundaries import attention_kernels as kernels
from infopt.boundaries.quantities import CONTEXT
from infopt.boundaries.registry import judge, technique
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.attention import fused_flop, linear_flop, pair_flop, square_flop, unfused_ratio, unfused_s
from infopt.profiles.geometry import LayerRun
from infopt.profiles.resolve import resolve_model
from infopt.studies.claim_techniques import fused_prefill_gain
from infopt.studies.scenarios import Request, build


def situation(name: str, hardware: str, **request: Any) -> Situation:
    request = {"input_tokens": 2000, "output_tokens": 300} | request
    return Situation(build(resolve_model(name), resolve_hardware(hardware), Request(**request)).scenario)


def figures(judgement: Judgement) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in judgement.figures}


def test_flop_of_a_prompt_by_hand() -> None:
    m = model([LayerRun(10, attention(q_heads=32, head_dim=128), DENSE)])
    assert pair_flop(m.runs[0].mixer) == 2 * 32 * 256
    assert square_flop(m, 1000) == 10 * 2 * 32 * 256 * 1000**2
    assert fused_flop(m, 1000) == square_flop(m, 1000) / 2
    assert linear_flop(m, 1000) == 2 * (m.params_active - m.head_params) * 1000
    assert square_flop(model([LayerRun(4, recurrent(), DENSE)]), 1000) == 0


def test_score_matrices_by_hand() -> None:
    # H100: 4 passes of 2 bytes at 3.35 TB/s against 512 FLOP at 989.4 TFLOP/s
    assert unfused_ratio(256, 989.4e12, 3.35e12, 4) == pytest.approx((8 / 3.35e12) / (512 / 989.4e12))
    assert unfused_ratio(1e6, 989.4e12, 3.35e12, 4) == 1.0  # heads so wide that products take longer
    m = model([LayerRun(10, attention(q_heads=32), DENSE)])
    assert unfused_s(m, 1000, 989.4e12, 3.35e12, 4) == pytest.approx(10 * 32 * 1000**2 * 8 / 3.35e12)


def test_the_claim_of_document_3_is_the_same_arithmetic() -> None:
    """`reproduce` takes no causal skipping in either: the technique's gain with the whole square."""
    s = situation("70b", "h100:1", input_tokens=2048).scenario
    prompt = kernels.prompt_of(s, 2048)
    assert prompt is not None
    assert prompt.gain.low == pytest.approx(fused_prefill_gain("70b", "h100", 4, 2048))
    assert prompt.gain.value > prompt.gain.low


def test_where_attention_outweighs_the_matrices() -> None:
    s = situation("70b", "h100:4").scenario
    tokens = kernels.overtaking_tokens(s)
    # 2 x 68.5e9 n = 80 x 2 x 64 x 256 n^2 / 2
    linear = s.model.params_active - s.model.head_params
    assert tokens == pytest.approx(2 * linear / (80 * 64 * 256), abs=1)
    assert figures(kernels.judge(situation("70b", "h100:4")))["attention_overtakes_tokens"] == tokens
    windows = scenario(model([LayerRun(4, attention(window=1024), DENSE)]))
    assert kernels.overtaking_tokens(windows) is None


@settings(max_examples=30)
@given(tokens=st.integers(10, 100_000), more=st.integers(1, 50_000))
def test_share_and_gain_rise_with_the_prompt(tokens: int, more: int) -> None:
    s = situation("8b", "l40s:1").scenario
    short, long = kernels.prompt_of(s, tokens), kernels.prompt_of(s, tokens + more)
    assert short is not None
    assert long is not None
    assert long.share > short.share
    assert long.gain.value >= short.gain.value >= 1


@pytest.mark.parametrize(("name", "hw"), [("70b", "h100:4"), ("deepseek-v3", "h200:8"), ("gpt-oss-120b", "h100:1")])
def test_the_prompt_from_which_it_is_worth_it(name: str, hw: str) -> None:
    s = situation(name, hw)
    flips = break_evens(lambda other: judge(technique("attention-kernels"), other).verdict, CONTEXT, s)
    assert [(f.below, f.above) for f in flips] == [("limited", "use")]
    gains = [kernels.judge(CONTEXT.set(s, (flips[0].value or 0) + more)).gain for more in (-1, 0)]
    assert gains[0] is not None
    assert gains[1] is not None
    assert gains[0].value < 1.10 <= gains[1].value


def test_a_window_past_100k() -> None:
    s = situation("70b", "h100:8", input_tokens=120_000, output_tokens=1000)
    found = figures(kernels.judge(s))
    # 4096 of 121,000 tokens are kept; the prompt's attention falls from n^2/2 to about n w.
    assert found["window_kv_bytes_per_sequence"] == 4096 * s.memory.kv_bytes_per_token
    assert found["kv_bytes_per_sequence"] == 121_000 * s.memory.kv_bytes_per_token
    prompt = kernels.prompt_of(s.scenario, 120_000)
    assert prompt is not None
    cut = prompt.fused_s * (120_000 * 4096 - 4096**2 / 2) / (120_000**2 / 2)
    ratio = (prompt.linear_s + prompt.fused_s) / (prompt.linear_s + cut)
    assert found["window_prefill_ratio"] == pytest.approx(ratio)
    assert (found["linear_prefill_ratio"] or 0) > ratio > 1.9
    assert (found["window_tpot_ratio"] or 0) > 1.1
    near = figures(kernels.judge(situation("70b", "h100:8")))
    assert near["window_prefill_ratio"] == near["window_tpot_ratio"] == 1.0


def test_scores_that_would_not_fit() -> None:
    found = figures(kernels.judge(situation("8b", "h100:1", input_tokens=100_000)))
    assert found["scores_bytes_per_gpu"] == 32 * 100_000**2 * 2
    # llama.cpp takes chunks of 512: 8,192 MiB of the 8,480 its log shows without -fa at 131,072 tokens.
    local = situation("8b", "rtx-4090:1", engine="llama.cpp", input_tokens=131_000, output_tokens=72)
    assert kernels.scores_bytes(local.scenario) == 8192 * 2**20


def test_it_says_what_runs_by_default() -> None:
    served, local = situation("8b", "h100:1"), situation("8b", "rtx-4090:1", engine="llama.cpp")
    assert "always runs it" in kernels.judge(served).costs[0]
    assert "-fa auto" in kernels.judge(local).costs[0]
    # No measured curve is needed, and where the batch does not fit the prompt is the same.
    assert kernels.judge(situation("8b", "h100:1", batch=4000)).gain == kernels.judge(served).gain


def test_models_and_devices_at_the_edge() -> None:
    states = Situation(scenario(model([LayerRun(4, recurrent(), DENSE)])))
    assert kernels.judge(states).verdict == kernels.quick(states) == "skip"
    unknown = Situation(scenario(on=device(peak_flop_per_s={})))
    found = kernels.judge(unknown)
    assert (found.verdict, kernels.quick(unknown)) == ("measure", "measure")
    assert found.settle
    latents = Situation(scenario(model([LayerRun(4, latent(), DENSE)])))
    assert "window_tokens" not in figures(kernels.judge(latents))
    for hw in ("a100-sxm-80gb", "mi300x"):
        s = situation("8b", hw)
        assert kernels.judge(s).verdict == kernels.quick(s) == "use"
