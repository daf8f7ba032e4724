"""KV quantization: bytes and sequences by hand, where 10 % of memory is, engines and devices that refuse or lose."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import DENSE, device, model, recurrent, scenario

from infopt.boundaries import kv_quantization as kv
from infopt.boundaries.kv_kernels import formats, kernels, loss
from infopt.boundaries.load import Load
from infopt.boundaries.quantities import BATCH, CONTEXT
from infopt.boundaries.registry import judge, technique
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import BreakEven, Judgement
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.profiles.geometry import LayerRun
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build

TECHNIQUE = technique("kv-quantization")


def situation(name: str, hardware: str, load: Load | None = None, **request: Any) -> Situation:
    request = {"input_tokens": 2000, "output_tokens": 300} | request
    return Situation(build(resolve_model(name), resolve_hardware(hardware), Request(**request)).scenario, load)


def figures(judgement: Judgement) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in judgement.figures}


def flips(s: Situation, quantity: Any) -> list[BreakEven]:
    return list(break_evens(lambda other: judge(TECHNIQUE, other).verdict, quantity, s))


def test_70b_at_32k_by_hand() -> None:
    """Document 1: 70B at 32k. Two tensors of 80 layers x 8 heads x 128 elements are 320 KiB a token in 16 bit."""
    s = situation("70b", "h100:4", batch=1, input_tokens=32000, output_tokens=768)
    assert s.memory.kv_bytes_per_token == 2 * 80 * 8 * 128 * 2
    after = kv.apply(s, "fp8")
    assert after.memory.kv_bytes_per_token == s.memory.kv_bytes_per_token / 2
    q8 = kv.apply(s, "q8_0")
    assert q8.memory.kv_bytes_per_token == s.memory.kv_bytes_per_token * 34 / 64


def test_fp8_holds_twice_the_tokens() -> None:
    """vLLM 0.32 on a CPU printed exactly twice the tokens for an FP8 cache (93,184 instead of 46,592)."""
    s = situation("8b", "h100:1", batch=8)
    after = kv.apply(s, "fp8")
    assert after.memory.kv_pool_tokens == pytest.approx(
        2 * s.memory.kv_pool_tokens, abs=s.memory.layout.block_tokens * 2
    )
    found = figures(kv.judge(s))
    assert found["max_sequences_after"] == pytest.approx(2 * (found["max_sequences"] or 0), abs=1)


def test_smaller_types_of_llama_cpp_with_their_scales() -> None:
    s = situation("8b", "rtx-4090:1", engine="llama.cpp", batch=1)
    found = figures(kv.judge(s))
    assert TECHNIQUE.judge(s).reason
    by_bits = [found[f"max_sequences_{name}"] for name in ("q5_1", "q5_0", "q4_1", "q4_0")]
    assert all(value is not None for value in by_bits)
    assert by_bits == sorted(value for value in by_bits if value is not None)
    # 16 bits against 8.5 with scales: 1.88 times, not twice.
    assert (found["max_sequences_after"] or 0) / (found["max_sequences"] or 1) == pytest.approx(16 / 8.5, rel=0.08)
    assert any("flash attention" in cost for cost in kv.judge(s).costs)


def test_the_break_evens_are_ten_percent_of_memory() -> None:
    s = situation("70b", "h100:4", batch=8)
    request = s.memory.layout.request_bytes(s.scenario.context_tokens)
    batch = math.ceil(0.10 * s.memory.capacity_bytes_per_gpu / request)
    found = figures(kv.judge(s))
    assert found["share_limit_batch"] == batch
    assert [(f.value, f.below, f.above) for f in flips(s, BATCH)] == [(batch, "limited", "use")]
    (context,) = flips(s, CONTEXT)
    assert context.value == found["share_limit_context"]
    at = [CONTEXT.set(s, (context.value or 0) + more).memory.kv_share for more in (-1, 0)]
    assert at[0] < 0.10 <= at[1]


@settings(max_examples=20)
@given(batch=st.integers(1, 190), context=st.integers(500, 4000))
def test_the_share_and_the_gain_rise_with_batch(batch: int, context: int) -> None:
    s = CONTEXT.set(situation("70b", "h100:4", batch=batch), context)
    more = s.changed(batch=batch + 5)
    assert more.memory.kv_share > s.memory.kv_share
    found, later = kv.decide(s), kv.decide(more)
    assert found.gain is not None
    assert later.gain is not None
    assert found.gain.value >= 1
    if found.verdict == "use":
        assert later.verdict == "use"


def test_little_memory_but_much_of_the_step() -> None:
    """Below 10 % of memory, yet reading it takes most of a step: bytes read decide, and the rule is told why not."""
    small = model([LayerRun(32, scenario().model.runs[0].mixer, DENSE)])
    huge = device(memory_gib=2000.0, bandwidth=3.35e12, vendor="nvidia", compute_capability="9.0")
    s = Situation(scenario(small, huge, batch=64, input_tokens=12000, output_tokens=2000, context_tokens=None))
    assert s.memory.kv_share < 0.10
    found = kv.judge(s)
    assert found.gain is not None
    assert found.gain.value > 1.10
    assert found.verdict == "use"
    assert found.rule is not None
    assert found.rule.says == "limited"
    assert "every decode step reads" in found.rule.why


def test_room_that_nobody_needs_is_not_a_gain() -> None:
    """Over 10 % of memory with a step of which the cache is little: long prompts of others take the time."""
    s = situation("70b", "h100:4", batch=20, input_tokens=8000, output_tokens=20)
    found = kv.judge(s)
    assert s.memory.kv_share > 0.10
    assert found.gain is not None
    assert found.gain.value < 1.03
    assert found.verdict == "limited"
    assert found.rule is not None
    assert found.rule.says == "use"
    assert found.rule.why


def test_a_batch_that_fits_in_the_smaller_format_only() -> None:
    found = kv.judge(situation("70b", "h100:4", batch=300))
    assert found.verdict == "use"
    assert found.gain is not None
    assert (found.gain.metric, found.gain.value) == ("sequences", 2.0)


def test_nothing_fits() -> None:
    found = kv.judge(situation("70b", "h100:1", batch=8))
    assert found.verdict == "skip"
    assert found.gain is None
    assert "no sequence fits" in found.reason


@pytest.mark.parametrize(
    ("version", "verdict", "says"),
    [("0.6.6", "skip", "0.20x"), ("0.9.2", "impossible", "refuse"), ("0.19.1", "measure", "not measured")],
)
def test_fp8_on_ampere_by_version(version: str, verdict: str, says: str) -> None:
    """Bug case A18: refused by some versions, stored by others; no FP8 units do not forbid to store."""
    found = kv.judge(situation("8b", "a100-sxm-80gb:1", batch=64, engine_version=version))
    assert found.verdict == verdict
    assert says in found.reason
    assert bool(found.settle) == (verdict == "measure")


def test_a_measured_loss_is_no_gain_by_bytes() -> None:
    """argonne-lcf/LLM-Inference-Bench, vLLM of 2024: 0.84x to 0.20x on A100 in every run, 1.01x to 0.78x on H100."""
    for batch in (1, 64):
        found = kv.judge(situation("8b", "a100-sxm-80gb:1", batch=batch, engine_version="0.6.6"))
        assert (found.verdict, found.gain) == ("skip", None)
    found = kv.judge(situation("8b", "h100:1", batch=64, engine_version="0.6.6"))
    assert found.verdict == "measure"
    assert found.settle == kv.MEASURE_KERNELS


def test_memory_decides_on_ampere_too() -> None:
    found = kv.judge(situation("8b", "a100-sxm-80gb:1", batch=300))
    assert found.verdict == "use"
    assert any("not measured" in cost for cost in found.costs)


def test_hopper_lost_in_2024_and_is_not_known_to_lose_now() -> None:
    old, new = (situation("8b", "h100:1", batch=64, engine_version=v).scenario for v in ("0.6.6", "0.19.1"))
    assert loss(old, "fp8") is not None
    assert loss(new, "fp8") is None


def test_latent_caches() -> None:
    v3, v32 = (situation(name, "h200:8", batch=32) for name in ("deepseek-v3", "deepseek-ai/DeepSeek-V3.2"))
    assert kv.target(v3, "") == "fp8"
    assert kv.target(v32, "") == "fp8_ds_mla"
    # 61 layers x 576 elements; the sparse format keeps 656 bytes and an index key of 132.
    assert kv.apply(v3, "").memory.kv_bytes_per_token == 61 * 576
    assert kv.apply(v32, "").memory.kv_bytes_per_token == 61 * (656 + 132)
    assert kv.cache_bits(kv.apply(v32, "").scenario) == pytest.approx(8 * 656 / 576)
    assert kv.judge(v3).verdict == kv.judge(v32).verdict == "limited"


def test_a_mix_of_layers_nobody_read_about() -> None:
    """DeepSeek-V4 has windows beside sparse attention: not said to be refused, and not said to work."""
    s = situation("deepseek-ai/DeepSeek-V4-Flash", "h200:8", batch=8)
    assert kv.judge(s).verdict == "limited"
    assert any("was not read" in cost for cost in kv.judge(s).costs)
    many = kv.judge(s.changed(batch=100_000))
    assert many.verdict == "measure"
    assert many.settle


def test_already_small_or_not_there() -> None:
    done = kv.judge(situation("70b", "h100:4", batch=64, kv="fp8"))
    assert (done.verdict, done.reason) == ("skip", "the cache is in fp8 already")
    states = Situation(scenario(model([LayerRun(8, recurrent(), DENSE)]), device(vendor="nvidia"), batch=4))
    assert kv.judge(states).verdict == "skip"


def test_formats_by_engine_and_version() -> None:
    new = situation("8b", "b200:1", engine_version="0.33.0").scenario
    assert formats(new) == ["fp8", "fp8_per_token_head", "int8_per_token_head", "int4_per_token_head", "nvfp4"]
    assert formats(situation("8b", "h100:1", engine_version="0.19.1").scenario) == ["fp8"]
    assert formats(situation("8b", "a100-sxm-80gb:1", engine="tensorrt-llm").scenario) == []
    refused = kv.judge(situation("8b", "a100-sxm-80gb:1", engine="tensorrt-llm", batch=64))
    assert refused.verdict == "impossible"
    asked = kv.judge(situation("8b", "h100:1", Load(kv_format="int4"), batch=64))
    assert asked.verdict == "impossible"
    assert "takes no int4 cache" in asked.reason
    assert all(row.source for row in (*kernels().takes, *kernels().losses, *kernels().notes))


def test_a_device_without_measurements() -> None:
    found = kv.judge(situation("8b", "mi300x:1", batch=80))
    assert found.verdict in ("use", "measure")
    assert found.gain is not None
    assert found.gain.low < found.gain.high


def test_a_mixture_with_windows() -> None:
    found = kv.judge(situation("gpt-oss-120b", "h100:1", batch=4))
    assert found.verdict == "limited"
    assert figures(found)["kv_share"] == pytest.approx(0.008, abs=0.003)


def test_applied_and_refused() -> None:
    s = situation("70b", "h100:4", batch=8).changed(curve=((1, 0.02), (8, 0.025)))
    after = kv.apply(s, "")
    assert (after.scenario.kv_format, after.used, after.curve) == ("fp8", ("kv-quantization",), ())
    assert kv.judge(after).verdict == "skip"
    assert kv.judge(s).gain == kv.judge(s.changed(curve=())).gain
    with pytest.raises(InfoptError, match="unknown KV cache format"):
        kv.apply(s, "fp7")


def test_the_quick_verdict_is_the_verdict() -> None:
    for name, hw, batch in (("70b", "h100:4", 64), ("8b", "a100-sxm-80gb:1", 64), ("70b", "h100:1", 8)):
        s = situation(name, hw, batch=batch)
        assert kv.decide(s).verdict == kv.judge(s).verdict
