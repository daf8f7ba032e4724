"""More bandwidth or a mixture: what doubling gains, where batch 4 lies, devices with prices, mixtures that lose."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import MIXTURE, attention, model

from infopt.boundaries import more_bandwidth as more
from infopt.boundaries.load import Load, Targets, Traffic
from infopt.boundaries.quantities import BANDWIDTH, BATCH, RATE
from infopt.boundaries.registry import judge, technique
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import BreakEven, Judgement
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.mixture import all_experts_batch, halving_active_share, read_share
from infopt.ledgers.traffic import distinct_experts
from infopt.profiles.geometry import LayerRun
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build

TECHNIQUE = technique("more-bandwidth")


def situation(name: str, hardware: str, load: Load | None = None, **request: Any) -> Situation:
    request = {"input_tokens": 2000, "output_tokens": 300} | request
    return Situation(build(resolve_model(name), resolve_hardware(hardware), Request(**request)).scenario, load)


def figures(judgement: Judgement) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in judgement.figures}


def flips(s: Situation, quantity: Any) -> list[BreakEven]:
    return list(break_evens(lambda other: judge(TECHNIQUE, other).verdict, quantity, s))


def arriving(rate_per_s: float) -> Load:
    return Load(traffic=Traffic(rate_per_s=rate_per_s))


def test_doubling_halves_the_bytes_and_nothing_else() -> None:
    s = situation("70b", "h100:4", batch=1)
    terms = s.steps.terms_s(1, s.scenario.decode_context_tokens)
    total, bytes_s = sum(terms.values()), terms["weights"] + terms["kv"]
    gain = more.judge(s).gain
    assert gain is not None
    assert gain.value == pytest.approx(total / (total - bytes_s / 2))
    assert 1 < gain.low < gain.high <= 2


def test_batch_four_is_where_it_ends() -> None:
    assert [(f.value, f.below, f.above) for f in flips(situation("70b", "h100:4", batch=1), BATCH)] == [
        (4, "use", "skip")
    ]
    assert more.judge(situation("70b", "h100:4", batch=64)).verdict == "skip"


def test_the_rate_decides_where_it_is_given() -> None:
    """A deployment made for 64 that is asked seldom has an effective batch below 4."""
    quiet, busy = (situation("70b", "h100:4", arriving(rate), batch=64) for rate in (0.2, 5.0))
    assert more.judge(quiet).verdict == "use"
    assert more.judge(busy).verdict == "skip"
    assert (figures(more.judge(quiet))["effective_batch"] or 0) < 4
    (flip,) = flips(quiet, RATE)
    assert flip.value is not None
    at = more.decide(RATE.set(quiet, flip.value))
    assert at.batch == pytest.approx(4, rel=1e-3)


@settings(max_examples=20)
@given(batch=st.integers(1, 400), step=st.integers(1, 100))
def test_bandwidth_gains_less_the_larger_the_batch(batch: int, step: int) -> None:
    s = situation("8b", "h100:1", batch=1, input_tokens=500)

    def gain(at: int) -> float:
        return s.tpot_s(batch=at) / more.with_bandwidth(s, 2.0).tpot_s(batch=at)

    assert gain(batch + step) <= gain(batch) * (1 + 1e-9)


def test_enough_bandwidth_is_enough() -> None:
    s = situation("8b", "h100:1", batch=1)
    found = flips(s, BANDWIDTH)
    end = next(f for f in found if f.below == "use")
    assert end.value is not None
    gains = [more.decide(BANDWIDTH.set(s, end.value * ratio)).gain.value for ratio in (0.999, 1.001)]
    assert gains[0] >= 1.10 > gains[1]


def test_steps_that_wait_for_kernels_gain_little_and_the_rule_says_why() -> None:
    fast = situation("8b", "h100:1", batch=1)
    device = replace(fast.scenario.accelerator, bandwidth_bytes_per_s=6e13)
    found = more.judge(fast.changed(accelerator=device))
    assert found.verdict in ("limited", "skip")
    assert found.rule is not None
    assert found.rule.says == "use"
    assert "waits for more than bytes" in found.rule.why


def test_devices_with_price_and_cost_by_hand() -> None:
    s = situation("70b", "h100:4", batch=1)
    found = figures(more.judge(s))
    hour, tpot_s = found["price_h200_sxm_141gb_usd_per_hour"], found["tpot_h200_sxm_141gb_s"]
    h200 = resolve_hardware("h200").accelerator
    assert h200.usd_per_hour is not None
    assert hour == 4 * h200.usd_per_hour
    assert tpot_s is not None
    assert found["cost_h200_sxm_141gb_usd_per_million"] == pytest.approx(hour / 3600 * tpot_s * 1e6)
    assert tpot_s < (found["tpot_here_s"] or 0)
    # No dated price of a MI300X is known, and none is made up.
    assert found["price_mi300x_usd_per_hour"] is None
    assert found["cost_mi300x_usd_per_million"] is None
    assert not any("l40s" in name for name in found)
    speeds = [device.bandwidth_bytes_per_s for device in more.faster(s.scenario)]
    assert speeds == sorted(speeds)
    assert min(speeds) > s.scenario.accelerator.bandwidth_bytes_per_s


def test_replicas_answer_side_by_side() -> None:
    one, two = situation("8b", "h100:1", batch=1), situation("8b", "h100:2", batch=2, tp=1, dp=2)
    cost, both = (figures(more.judge(s))["cost_here_usd_per_million"] for s in (one, two))
    assert cost == pytest.approx(both)


# --- mixtures ---------------------------------------------------------------------------------------------------------


def test_active_share_by_hand() -> None:
    assert read_share(2 / 8, 1) == 0.25
    assert read_share(2 / 8, 3) == pytest.approx(1 - 0.75**3)
    # Half of W + K: 100 + 20 bytes become 60, so 40 of the 100 may be read.
    assert halving_active_share(100.0, 20.0, 1) == pytest.approx(0.4)
    assert halving_active_share(100.0, 20.0, 2) == pytest.approx(1 - 0.6**0.5)
    assert halving_active_share(100.0, 100.0, 1) is None


@settings(max_examples=50)
@given(experts=st.integers(2, 512), k=st.integers(1, 16))
def test_all_experts_are_read_from_there(experts: int, k: int) -> None:
    k = min(k, experts)
    n = all_experts_batch(experts, k)
    assert distinct_experts(experts, k, n) >= experts - 0.5 - 1e-6
    if n > 1:
        assert distinct_experts(experts, k, n * 0.99) < experts - 0.5


def test_the_share_a_mixture_of_the_same_size_may_use() -> None:
    s = situation("70b", "h100:4", batch=1)
    found = figures(more.judge(s))
    w, k = s.bandwidth.weight_bytes_per_step, s.bandwidth.kv_bytes_per_step
    assert found["mixture_active_share"] == pytest.approx((w - k) / (2 * w))
    three = figures(more.judge(s.changed(batch=3)))
    assert (three["mixture_active_share"] or 0) < (found["mixture_active_share"] or 0) / 2


def test_mixtures_of_a_similar_size_beside_it() -> None:
    dense = resolve_model("70b")
    names = [m.id for m in more.similar_mixtures(dense)]
    assert names == ["Qwen/Qwen3-Next-80B-A3B-Instruct", "mistralai/Mixtral-8x7B-v0.1"]
    s = situation("70b", "h100:4", batch=1)
    other = more.with_model(s, resolve_model("mixtral-8x7b"))
    found = figures(more.judge(s))
    assert found["mixture_mixtral_8x7b_v0_1_ratio"] == pytest.approx(s.tpot_s() / other.tpot_s())
    assert other.scenario.kv_format == "bf16"


def test_a_mixture_that_reads_everything_loses_its_advantage() -> None:
    """An 8B beside a 30B with 3B active: each token reads less, but a batch reads all the experts."""
    s = situation("8b", "h100:1", batch=1)
    found = figures(more.judge(s))
    end = found["mixture_gpt_oss_20b_ends_batch"]
    assert end is None or end > 1
    other = more.with_model(s, resolve_model("qwen3-30b-a3b"))
    limit = more._loses_batch(s, other)
    assert limit is not None
    assert s.tpot_s(batch=limit - 1) > other.tpot_s(batch=limit - 1) or limit == 1
    assert s.tpot_s(batch=limit) <= other.tpot_s(batch=limit)


def test_a_mixture_itself_says_when_all_is_read() -> None:
    found = figures(more.judge(situation("gpt-oss-120b", "h100:1", batch=1)))
    assert found["all_experts_batch"] == pytest.approx(all_experts_batch(128, 4))
    assert "mixture_active_share" not in found


def test_a_placement_the_mixture_does_not_take() -> None:
    twelve = model([LayerRun(4, attention(q_heads=12, kv_heads=12), MIXTURE)])
    with pytest.raises(InfoptError, match="tp 8 does not divide"):
        more.with_model(situation("70b", "h100:8", batch=1), twelve)


# --- edges ------------------------------------------------------------------------------------------------------------


def test_where_nothing_fits_memory_is_missing() -> None:
    found = more.judge(situation("70b", "h100:1", batch=1))
    assert (found.verdict, found.gain) == ("skip", None)
    assert "memory is missing" in found.reason


def test_other_devices_and_engines() -> None:
    for name, hw, engine in (
        ("8b", "a100-sxm-80gb:1", "vllm"),
        ("8b", "mi300x:1", "vllm"),
        ("8b", "rtx-4090:1", "llama.cpp"),
    ):
        found = more.judge(situation(name, hw, engine=engine, batch=1))
        assert found.verdict in ("use", "measure")
        assert found.gain is not None


def test_llama_cpp_cannot_use_all_the_bandwidth_of_hbm() -> None:
    """Its kernels keep few loads in flight: past about 2 TB/s on a 4090's multiprocessors more gains nothing."""
    s = situation("8b", "rtx-4090:1", engine="llama.cpp", batch=1)
    last = flips(s, BANDWIDTH)[-1]
    assert last.above == "skip"
    assert last.value is not None
    assert 1.5e12 < last.value < 4e12


def test_bad_rates_and_targets() -> None:
    with pytest.raises(InfoptError, match="rate"):
        more.judge(situation("8b", "h100:1", arriving(-1.0), batch=1))
    tight = Load(targets=Targets(tpot_s=1e-4))
    assert figures(more.judge(situation("8b", "h100:1", tight, batch=8)))["effective_batch"] == 1.0


def test_a_curve_of_this_device_says_nothing_of_another() -> None:
    s = situation("70b", "h100:4", batch=1)
    assert more.judge(s.changed(curve=((1, 0.02), (8, 0.03)))).gain == more.judge(s).gain


def test_the_quick_verdict_is_the_verdict() -> None:
    for batch in (1, 3, 4, 64):
        s = situation("70b", "h100:4", batch=batch)
        assert TECHNIQUE.quick is not None
        assert TECHNIQUE.quick(s) == more.judge(s).verdict


def test_what_keeps_the_batch_small_is_named() -> None:
    """Eight are asked for, and the target lets one of them run."""
    asked = Request(input_tokens=2000, output_tokens=300, batch=8, points=("batch=8,tpot=20ms",))
    scenario = build(resolve_model("8b"), resolve_hardware("h100"), asked).scenario
    here = Situation(scenario, Load(targets=Targets(tpot_s=0.001)))
    assert "one sequence at a time (of 8, by the TPOT target), fewer than 4" in more.decide(here).reason
    assert "(of 8" not in more.decide(Situation(scenario, Load())).reason
