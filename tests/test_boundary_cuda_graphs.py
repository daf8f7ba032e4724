"""CUDA graphs: what launching one by one costs, and what a start takes."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.boundaries import cuda_graphs
from infopt.boundaries.load import Load, Targets
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.cold_start import Range, eager_step_s
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build


def situation(name: str, hardware: str, load: Load | None = None, curve: Any = (), **request: Any) -> Situation:
    request = {"input_tokens": 1000, "output_tokens": 300} | request
    scenario = build(resolve_model(name), resolve_hardware(hardware), Request(**request)).scenario
    return Situation(scenario, load, curve=curve)


def by(start_s: float) -> Load:
    return Load(targets=Targets(start_s=start_s))


def figure(judgement: Judgement, name: str) -> float:
    value = next(f.value for f in judgement.figures if f.name == name)
    assert value is not None
    return value


EIGHT = situation("8b", "h100:1")


def test_eager_steps_by_hand() -> None:
    assert eager_step_s(0.005, 320, 30e-6, 2e-6) == pytest.approx(0.0096)  # the host is slower
    assert eager_step_s(0.050, 320, 30e-6, 2e-6) == pytest.approx(0.05064)  # the device is


def test_launches_by_hand() -> None:
    assert cuda_graphs.launches(EIGHT.scenario) == 32 * 10
    assert cuda_graphs.launches(situation("70b", "h100:4").scenario) == 80 * 10 + 2 * 80


def test_measured_eager_steps() -> None:
    # Llama-3.1-8B on H100, batch 1: 8.4 ms eager, 5.1 captured (cloudai.pt); 1.26x for Qwen2.5-7B (arxiv 2605.30571)
    found = cuda_graphs.judge(EIGHT)
    assert figure(found, "tpot_eager_s") == pytest.approx(8.4e-3, rel=0.2)
    assert found.gain is not None
    assert found.gain.low < 1.26 < found.gain.high
    assert found.gain.low < 8.4 / 5.1 < found.gain.high
    # 1.03x on L4, where launches hide behind bytes
    slow = cuda_graphs.judge(situation("8b", "l4:1"))
    assert slow.gain is not None
    assert slow.gain.low < 1.028 < slow.gain.high


def test_use_at_small_batch_skip_at_large() -> None:
    assert cuda_graphs.judge(situation("70b", "h100:4", batch=8)).verdict == "use"
    assert cuda_graphs.judge(situation("70b", "h100:4", batch=256)).verdict == "skip"


@settings(max_examples=20)
@given(st.integers(1, 256), st.integers(1, 256))
def test_gain_falls_with_batch(one: int, other: int) -> None:
    few, many = sorted((one, other))
    gains = [cuda_graphs.judge(EIGHT.changed(batch=batch)).gain for batch in (few, many)]
    assert gains[0] is not None
    assert gains[1] is not None
    assert gains[0].value >= gains[1].value - 1e-9
    assert gains[1].value >= 1.0
    assert gains[1].low <= gains[1].value <= gains[1].high


def test_break_evens_are_roots() -> None:
    def verdict(other: Situation) -> Any:
        return cuda_graphs.judge(other).verdict

    for quantity in cuda_graphs.TECHNIQUE.quantities:
        flips = break_evens(verdict, quantity, EIGHT)
        assert [f.value for f in flips] != [None], quantity.name
        for flip in flips:
            assert flip.value is not None
            below = flip.value - 1 if quantity.whole else flip.value * 0.99
            above = flip.value if quantity.whole else flip.value * 1.01
            assert verdict(quantity.set(EIGHT, below)) == flip.below != flip.above
            assert verdict(quantity.set(EIGHT, above)) == flip.above


def test_parts_of_a_start_as_profiled() -> None:
    # upb-cn/vllm-startup-profiler, vLLM 0.10.1.1 on H100 NVL: torch.compile without and with its cache
    for layers, cold, warm in ((24, 18.06, 7.87), (32, 23.24, 9.82), (40, 28.99, 12.53), (48, 33.65, 15.19)):
        profile = resolve_model("8b")
        run = profile.runs[0]
        cut = EIGHT.changed(model=_with_layers(profile, run, layers)).scenario
        start = cuda_graphs.start_of(cut, 16e9)
        assert start.compile_s.value == pytest.approx(cold, rel=0.04)
        assert start.compile_cached_s.value == pytest.approx(warm, rel=0.06)


def _with_layers(profile: Any, run: Any, layers: int) -> Any:
    return replace(profile, runs=(replace(run, layers=layers),))


def test_a_start_by_hand() -> None:
    start = cuda_graphs.start_of(EIGHT.scenario, 16e9, 4e9)
    assert start.load_s == Range(4.0, 4.0, 4.0)
    assert start.eager_s.value == pytest.approx(10 + 4 + 3)
    assert start.cold_s.value == pytest.approx(17 + 2.5 + 0.65 * 32 + 0.19 * 32)
    assert start.warm_s.value == pytest.approx(17 + 0.55 + 0.305 * 32 + 0.19 * 32)


def test_whole_starts_lie_in_the_range() -> None:
    # Llama-2-7B on H100 NVL: 48.0 s cold from disk, 24.5 s warm from memory (same source)
    start = cuda_graphs.start_of(EIGHT.scenario, 13.5e9)
    assert start.warm_s.low < 24.5 < start.cold_s.high
    assert start.cold_s.low < 48.0 < start.cold_s.high


@pytest.mark.parametrize(("target", "verdict"), [(10.0, "use"), (40.0, "limited"), (30.0, "limited"), (60.0, "use")])
def test_a_start_that_only_compiling_makes_too_late(target: float, verdict: str) -> None:
    found = cuda_graphs.judge(EIGHT.changed(load=by(target)))
    assert found.verdict == verdict
    if verdict == "limited":
        assert found.settle
        cure = "compile cache is kept" if target > figure(found, "start_warm_s") else "without graphs"
        assert cure in found.reason


def test_faster_storage_brings_the_start_forward() -> None:
    slow = cuda_graphs.judge(EIGHT.changed(load=Load(storage_bytes_per_s=1e9)))
    fast = cuda_graphs.judge(EIGHT.changed(load=Load(storage_bytes_per_s=8e9)))
    stored = EIGHT.memory.stored_weights_bytes
    assert figure(slow, "start_cold_s") - figure(fast, "start_cold_s") == pytest.approx(stored * (1e-9 - 1 / 8e9))


def test_eager_now() -> None:
    assert "TPOT is" in cuda_graphs.judge(EIGHT.changed(load=Load(eager=True))).reason
    curve = ((1.0, 0.0251), (8.0, 0.0359))
    measured = situation("8b", "h100:1", Load(eager=True), curve)
    assert cuda_graphs.judge(measured).verdict == "measure"


def test_a_measured_curve_of_captured_steps() -> None:
    found = cuda_graphs.judge(situation("8b", "h100:1", curve=((1.0, 0.004), (64.0, 0.02))))
    assert found.gain is not None
    # The curve's step and the stall of no other prompt at batch 1
    assert found.gain.value == pytest.approx(0.0096 / 0.004)
    assert found.verdict == "use"


def test_where_nothing_is_captured() -> None:
    assert cuda_graphs.judge(situation("8b", "apple-m2-ultra:1", engine="llama.cpp")).verdict == "skip"
    assert cuda_graphs.judge(situation("8b", "epyc-9654:1", engine="llama.cpp")).verdict == "skip"


def test_lent_constants_ask_for_a_measurement() -> None:
    found = cuda_graphs.judge(situation("8b", "mi300x:1"))
    assert found.verdict == "measure"
    assert "--enforce-eager" in found.settle
    assert cuda_graphs.judge(situation("8b", "a100-sxm-80gb:1")).verdict == "measure"


def test_mixtures_launch_more() -> None:
    sparse = cuda_graphs.judge(situation("gpt-oss-120b", "h100:1"))
    assert sparse.verdict == "use"
    assert figure(sparse, "kernels") == 36 * 16
    assert cuda_graphs.judge(situation("deepseek-v3", "h200:8", batch=32)).verdict == "use"


def test_a_consumer_card_gains_little() -> None:
    # llama.cpp: 1.03x on RTX 3090, up to 1.2x on H100
    found = cuda_graphs.judge(situation("8b", "rtx-4090:1", engine="llama.cpp", weights="q4_k_m"))
    assert found.gain is not None
    assert 1.03 < found.gain.value < 1.2
    assert figure(found, "start_cold_s") < 10


def test_what_does_not_fit() -> None:
    assert cuda_graphs.judge(situation("70b", "h100:1")).verdict == "impossible"


@pytest.mark.parametrize(
    ("load", "option"), [(by(-1.0), "--start"), (Load(storage_bytes_per_s=0.0), "--storage-bandwidth")]
)
def test_bad_input_names_the_option(load: Load, option: str) -> None:
    with pytest.raises(InfoptError, match=option):
        cuda_graphs.judge(EIGHT.changed(load=load))


def test_compiling_pays_on_a_cpu_too() -> None:
    """Our runs of vLLM 0.32 on a Zen 4, SmolLM2-135M at 1, 4 and 8 clients: TPOT eager over compiled."""
    found = cuda_graphs.judge(situation("HuggingFaceTB/SmolLM2-135M", "ryzen-9-7950x"))
    assert found.verdict == "measure"
    assert "1.13x to 1.21x" in found.reason
    for eager, compiled in ((30.5249, 25.4184), (36.7729, 30.3501), (46.0602, 40.6047)):
        assert 1.13 <= round(eager / compiled, 2) <= 1.21
    assert cuda_graphs.judge(situation("8b", "ryzen-9-7950x", engine="llama.cpp", weights="q4_k_m")).verdict == "skip"
