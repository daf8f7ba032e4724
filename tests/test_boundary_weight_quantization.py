"""Weight quantization: bytes and shards by hand, kernels by device and version, measured gains, its edges."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import DENSE, MIXTURE, attention, device, latent, model, scenario

from infopt.boundaries import weight_quantization as weights
from infopt.boundaries.capacity import fewest_devices, holds
from infopt.boundaries.load import Load
from infopt.boundaries.quantities import BATCH
from infopt.boundaries.registry import bounded, judge, technique
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement
from infopt.boundaries.weight_kernels import gain_share, kernels, obstacle, storage_only, unpacking
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.shards import group_tensor_parallel, rank_widths, uncut
from infopt.profiles.geometry import LayerRun
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build


def situation(name: str, hardware: str, load: Load | None = None, **request: Any) -> Situation:
    request = {"input_tokens": 2000, "output_tokens": 300} | request
    return Situation(build(resolve_model(name), resolve_hardware(hardware), Request(**request)).scenario, load)


def asking(weight_format: str) -> Load:
    return Load(weight_format=weight_format)


def figures(judgement: Judgement) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in judgement.figures}


def test_fp8_halves_what_it_covers() -> None:
    found = figures(weights.judge(situation("70b", "h100:4", asking("fp8"), batch=8)))
    model = resolve_model("70b")
    covered = sum(n for part, n in model.params_by_part.items() if part in ("attention", "mlp"))
    before, after = found["weights_bytes_per_gpu"], found["weights_after_bytes_per_gpu"]
    assert before is not None
    assert after is not None
    # 16 to 8 bits of attention and feed-forward, a quarter of them on each rank.
    assert before - after == pytest.approx(covered / 4)


def test_the_step_with_int4_by_hand() -> None:
    s = situation("8b", "a100-sxm-80gb:1", asking("int4"), batch=1)
    after = weights.in_format(s, "int4")
    row = unpacking(after.scenario)
    assert row is not None
    now, then = (x.steps.terms_s(1, s.scenario.decode_context_tokens) for x in (s, after))
    ledger = after.bandwidth.weight_bytes_per_step / s.bandwidth.weight_bytes_per_step
    assert then["weights"] == pytest.approx(now["weights"] * ledger * row.traffic_ratio[1])
    assert then["kv"] == now["kv"]
    assert then["kernels"] == now["kernels"]


@pytest.mark.parametrize(
    ("name", "gpus", "asked", "measured"),
    [
        ("llama-2-7b", 1, "fp8", 155.58 / 104.9),  # int8 weights, unpacked like fp8 there
        ("llama-2-7b", 1, "int4", 196.8 / 104.9),
        ("llama-2-70b", 8, "int4", 90.77 / 62.5),
    ],
)
def test_gpt_fast_on_a100_lies_in_the_interval(name: str, gpus: int, asked: str, measured: float) -> None:
    """meta-pytorch/gpt-fast README@6ecad9b5, tokens/s at batch 1; another engine, so within 20 % and the interval."""
    s = situation(name, f"a100-sxm-80gb:{gpus}", asking(asked), batch=1, input_tokens=20, output_tokens=200)
    gain = weights.judge(s).gain
    assert gain is not None
    assert gain.low <= measured <= gain.high
    assert gain.value == pytest.approx(measured, rel=0.20)


def test_fp8_on_hopper_is_native_and_on_ampere_is_not() -> None:
    hopper, ampere = (weights.in_format(situation("8b", hw), "fp8").scenario for hw in ("h100", "a100-sxm-80gb"))
    assert (storage_only(hopper), storage_only(ampere)) == (False, True)
    assert storage_only(weights.in_format(situation("8b", "h100"), "int4").scenario)
    assert not storage_only(situation("8b", "h100").scenario)


def test_native_units_gain_where_unpacking_does_not() -> None:
    """A100 at batch 64: int8 multiplies faster, fp8 and int4 only shrink."""
    found = figures(weights.judge(situation("8b", "a100-sxm-80gb:1", batch=64)))
    native, stored, small = (found[f"gain_{name}_ratio"] for name in ("int8", "fp8", "int4"))
    assert native is not None and stored is not None and small is not None  # noqa: PT018
    assert native > 1.3 > 1.1 > max(stored, small)


def test_weight_only_gain_ends_with_the_batch() -> None:
    s = situation("8b", "h100:1", asking("int4"), batch=8)
    end = weights.gain_ends_batch(s, weights.in_format(s, "int4"))
    assert end is not None

    def gain(batch: int) -> float:
        at = s.changed(batch=batch)
        return at.tpot_s() / weights.in_format(at, "int4").tpot_s()

    assert gain(end - 1) >= 1.10 > gain(end)
    # The verdict turns no later: constants are lent, so both ends of the interval must agree.
    flips = break_evens(lambda other: judge(technique("weights"), other).verdict, BATCH, s)
    first = next(flip for flip in flips if flip.below == "use")
    assert first.value is not None
    assert first.value <= end
    assert figures(weights.judge(s))["gain_int4_ends_batch"] == end


def test_native_products_gain_at_any_batch() -> None:
    s = situation("8b", "h100:1", asking("fp8"), batch=8)
    assert weights.gain_ends_batch(s, weights.in_format(s, "fp8")) is None


@settings(max_examples=25)
@given(batch=st.integers(1, 500), more=st.integers(1, 200))
def test_unpacked_weights_gain_less_the_larger_the_batch(batch: int, more: int) -> None:
    s = situation("8b", "h100:1", batch=1)
    after = weights.in_format(s, "int4")
    gains = [s.tpot_s(batch=b) / after.tpot_s(batch=b) for b in (batch, batch + more)]
    assert gains[1] <= gains[0] * (1 + 1e-9)


def test_of_formats_about_as_good_the_one_with_more_bits() -> None:
    """70B on four H100: four bits win alone where they gain clearly more, at batch 1; then FP8 does as much."""
    assert "int4 weights" in weights.judge(situation("70b", "h100:4", batch=1)).reason
    assert "fp8 weights" in weights.judge(situation("70b", "h100:4", batch=8)).reason
    assert "nvfp4 weights" in weights.judge(situation("70b", "b200:2", batch=8)).reason


def test_memory_decides_where_it_does_not_fit() -> None:
    found = weights.judge(situation("70b", "h100:1", batch=1, input_tokens=1000, output_tokens=200))
    assert found.verdict == "use"
    assert found.gain is None
    values = figures(found)
    assert values["max_sequences"] == 0
    assert (values["max_sequences_after"] or 0) >= 1
    assert (values["fewest_devices"], values["fewest_devices_after"]) == (2, 1)


def test_nothing_fits_in_any_format() -> None:
    found = weights.judge(situation("deepseek-v3", "h100:1", batch=1))
    assert found.verdict == "impossible"
    assert "no sequence fits" in found.reason


def test_sequences_count_where_the_batch_does_not_fit() -> None:
    found = weights.judge(situation("70b", "h100:4", asking("fp8"), batch=1000))
    assert found.verdict == "use"
    assert found.gain is not None
    assert found.gain.metric == "sequences"
    assert "1,000 are asked for" in found.reason


def test_devices_saved_by_hand() -> None:
    s = situation("70b", "h100:4", batch=8).scenario
    assert fewest_devices(s) == 4  # 141 GB of weights leave two devices room for 4 sequences only
    assert fewest_devices(weights.in_format(Situation(s), "fp8").scenario) == 2
    assert holds(s)


def test_a_checkpoint_in_four_bits_has_nothing_smaller() -> None:
    found = weights.judge(situation("gpt-oss-120b", "h100:1", batch=4))
    assert found.verdict == "skip"
    assert "mxfp4 already" in found.reason


def test_llama_cpp_takes_its_own_types() -> None:
    found = weights.judge(situation("8b", "rtx-4090:1", engine="llama.cpp", batch=1))
    assert found.verdict == "use"
    assert {name for name in figures(found) if name.endswith("_ratio")} == {
        "gain_q8_0_ratio",
        "gain_q6_k_ratio",
        "gain_q5_k_m_ratio",
        "gain_q4_k_m_ratio",
    }


# --- shards -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "tp", "share"),
    [(18432, 32, 576.0), (768, 4, 192.0), (320, 8, 40.0)],
)
def test_widths_of_block_fp8_reports(width: int, tp: int, share: float) -> None:
    """vllm-project/vllm issue 54178: 18432/32 = 576, 768/4 = 192, 2 x 320/8 = 80 are no multiples of 128."""
    run = LayerRun(4, attention(q_heads=64, kv_heads=8), type(DENSE)("dense", mlp_params=1, intermediate=width))
    assert rank_widths(model([run]), tp)["feed-forward"] == share
    assert share % 128 != 0
    assert rank_widths(model([run]), 1) == {}


def test_blocks_forbid_a_tp_and_name_those_that_work() -> None:
    s = situation("Qwen/Qwen3-30B-A3B", "h100:4", asking("fp8_block"), batch=1)
    found = weights.judge(s)
    assert found.verdict == "impossible"
    assert "192 of the expert" in found.reason
    assert "tp may be 1, 2" in found.reason
    with pytest.raises(InfoptError, match="tp may be 1, 2"):
        weights.apply(s, "fp8_block")
    # Whole experts are not cut; per-tensor FP8 has no blocks.
    whole = situation("Qwen/Qwen3-30B-A3B", "h100:4", asking("fp8_block"), batch=1, ep=4)
    assert weights.judge(whole).verdict != "impossible"
    assert weights.judge(s.changed(load=asking("fp8"))).verdict != "impossible"


def test_group_tensor_parallel_by_hand() -> None:
    s = scenario(model([LayerRun(4, attention(q_heads=32, kv_heads=8), MIXTURE)]), gpus=4, tp=4)
    # experts of 1024: 1024/8 = 128 is whole, 1024/16 is not; 32 heads x 128 / 32 = 128
    assert group_tensor_parallel(s, 128) == [1, 2, 4, 8]
    assert uncut(s, 128, 16) == ("expert", 64.0)
    assert rank_widths(model([LayerRun(4, latent(), DENSE)]), 4) == {"feed-forward": 3584.0}


# --- kernels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hardware", "engine", "version", "name", "says"),
    [
        ("a100-sxm-80gb", "vllm", "0.4.2", "fp8", "8.9"),
        ("a100-sxm-80gb", "vllm", "0.19.1", "fp8", ""),
        ("a100-sxm-80gb", "tensorrt-llm", None, "fp8", "8.9"),
        ("h100", "tensorrt-llm", None, "nvfp4", "need compute capability 10"),
        ("b200", "tensorrt-llm", None, "nvfp4", ""),
        ("mi300x", "vllm", None, "int4", "no kernels for int4 weights on amd"),
        ("mi300x", "vllm", None, "fp8", ""),
    ],
)
def test_where_formats_run(hardware: str, engine: str, version: str | None, name: str, says: str) -> None:
    s = situation("8b", hardware, engine=engine, engine_version=version)
    why = obstacle(weights.in_format(s, name).scenario)
    assert says in why if says else why == ""


def test_fp4_on_blackwell_gains_what_was_measured() -> None:
    """B200, Llama-3.1-70B at tp 8: NVFP4 gained 0.96 to 0.99x over FP8 in the median, bytes alone say 1.08x."""
    s = situation("70b", "b200:8", asking("nvfp4"), engine="tensorrt-llm", weights="fp8", kv="fp8", batch=16)
    gain = weights.judge(s).gain
    assert gain is not None
    assert gain.low < 0.97 < gain.high
    raw = s.tpot_s() / weights.in_format(s, "nvfp4").tpot_s()
    assert gain.value == pytest.approx(raw * gain_share(weights.in_format(s, "nvfp4").scenario))
    assert gain_share(weights.in_format(situation("70b", "h100:4"), "nvfp4").scenario) == 1.0


def test_data_has_sources_and_falls_from_best_to_worst() -> None:
    data = kernels()
    assert all(row.source for row in (*data.runs, *data.unpacking, *data.own_units, data.groups))
    for own in data.own_units:
        assert own.gain_share == sorted(own.gain_share, reverse=True)
    for row in data.unpacking:
        assert row.traffic_ratio == sorted(row.traffic_ratio)
        assert row.compute_share == sorted(row.compute_share, reverse=True)
        assert max(row.compute_share) <= 1 <= min(row.traffic_ratio)


def test_a_device_without_measurements_says_so_or_is_clear() -> None:
    found = weights.judge(situation("8b", "mi300x:1", batch=8))
    assert found.gain is not None
    assert found.gain.low < found.gain.value < found.gain.high
    unknown = Situation(scenario(on=device(peak_flop_per_s={}), batch=8))
    assert unknown.steps.basis == "floor"
    told = weights.judge(unknown)
    assert told.verdict == "measure"
    assert "at most" in told.reason
    assert any("were not read" in cost for cost in told.costs)
    assert not any("were not read" in cost for cost in found.costs)


# --- what others see --------------------------------------------------------------------------------------------------


def test_applied_it_re_prices_and_drops_the_curve() -> None:
    s = situation("70b", "h100:4", batch=8)
    s = s.changed(curve=((1, 0.02), (8, 0.025)))
    after = weights.apply(s, "awq")
    assert after.scenario.weight_format == "int4_awq"
    assert after.used == ("weight-quantization",)
    assert after.curve == ()
    assert after.scenario.weight_quality == (0.95, 0.98)
    assert after.memory.weights_bytes_per_gpu < 0.35 * s.memory.weights_bytes_per_gpu
    # A curve of the present format tells nothing of another: both come from the step model.
    assert weights.judge(s).gain == weights.judge(s.changed(curve=())).gain


def test_unknown_formats_are_refused() -> None:
    s = situation("8b", "h100")
    with pytest.raises(InfoptError, match="unknown weight format"):
        weights.apply(s, "int5")
    with pytest.raises(InfoptError, match="name a format"):
        weights.apply(situation("gpt-oss-120b", "h100"), "")
    assert weights.judge(s.changed(load=asking("fp16"))).verdict == "skip"


def test_the_quick_verdict_is_the_verdict() -> None:
    for name, hw, batch in (("70b", "h100:4", 8), ("deepseek-v3", "h200:8", 32), ("8b", "a100-sxm-80gb:1", 300)):
        s = situation(name, hw, batch=batch)
        assert (
            weights.decide(s).verdict == weights.judge(s).verdict == bounded(technique("weights"), s).judgement.verdict
        )
