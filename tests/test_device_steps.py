"""Constants from a device's own steps: exact recovery, the batch curve as measured, and intervals outside."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenarios import DENSE, MIXTURE, attention, device, model, scenario

from infopt.boundaries.steps import steps_of
from infopt.hardware.calibration import Step
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.device_fit import curve_at, fit_steps
from infopt.ledgers.device_steps import device_constants
from infopt.ledgers.estimate import NoEstimate, band_of, estimate, step_clock
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.step_time import first_token_s, step_shape, step_terms_s
from infopt.ledgers.traffic import traffic
from infopt.profiles.geometry import LayerRun
from infopt.profiles.step_constants import kernels_per_step

ENGINE = "vllm"
SMALL, MIDDLE, LARGE, HUGE = (
    model(runs=[LayerRun(layers, attention(), DENSE, norm_params=8192)], id=f"test/{layers}")
    for layers in (4, 12, 40, 160)
)
PEAK = device().peak_flop_per_s["bf16"]


def step(profile, *, batch=1, tokens=1, context=256, seconds=None, cost=None, noise=0.0, **changes):
    """A measured step: `seconds`, or what `cost` (kernel_s, weight_s, kv_s, ratio of n) says it takes."""
    stages = traffic(scenario(profile))
    weight_bytes = sum(stage.weight_bytes(1) for stage in stages)
    kv_bytes = sum(stage.kv_bytes(batch, context) for stage in stages)
    kernels = kernels_per_step(profile)
    if seconds is None:
        kernel_s, weight_s, kv_s, ratio = cost
        seconds = kernels * kernel_s + weight_bytes * weight_s * ratio(batch * tokens) + kv_bytes * kv_s
    values = {
        "engine": ENGINE,
        "engine_version": "1",
        "eager": False,
        "model": profile.id,
        "weights": "bf16",
        "kv": "bf16",
        "batch": batch,
        "tokens": tokens,
        "context_tokens": context,
        "tp": 1,
        "weight_bytes": float(weight_bytes),
        "kv_bytes": float(kv_bytes),
        "flop": 2.0 * profile.params_active * batch * tokens,
        "kernels": kernels,
        "layers": profile.layers,
        "layers_run": profile.layers,
        "hidden": profile.hidden,
        "median_s": seconds,
        "p10_s": seconds * (1 - noise),
        "p90_s": seconds * (1 + noise),
        "n": 9,
        "n_clean": 9,
        "contended": False,
        "taken": "2026-11-30T00:00:00Z",
    }
    return Step(**values | changes)


def on(*steps, **changes):
    return device(measured_steps=tuple(steps), **changes)


def step_s(profile, accelerator, batch=1, context=256, **request):
    """Seconds of one decode step by the device's constants."""
    s = scenario(profile, accelerator, **request)
    constants = device_constants(s)
    shape = step_shape(s, constants)
    return sum(step_terms_s(shape, constants, batch, context, 1, 1, with_stall=False).values())


def flat(n):
    return 1.0


@given(kernel_us=st.floats(0, 100), weight_gb_per_s=st.floats(10, 3000), kv_gb_per_s=st.floats(10, 3000))
def test_two_sizes_and_two_contexts_recover_all_three_costs(kernel_us, weight_gb_per_s, kv_gb_per_s):
    cost = (kernel_us * 1e-6, 1e-9 / weight_gb_per_s, 1e-9 / kv_gb_per_s, flat)
    points = [step(SMALL, cost=cost), step(LARGE, cost=cost), step(SMALL, cost=cost, context=32768)]
    fit = fit_steps(tuple(points))
    assert fit.kernel_s == pytest.approx(cost[0], rel=1e-6, abs=1e-12)
    assert fit.weight_s_per_byte == pytest.approx(cost[1], rel=1e-6)
    assert fit.kv_s_per_byte == pytest.approx(cost[2], rel=1e-6)
    for profile, batch, context in ((MIDDLE, 1, 256), (LARGE, 1, 8000), (HUGE, 1, 256)):
        expected = step(profile, cost=cost, batch=batch, context=context).median_s
        assert step_s(profile, on(*points), batch, context) == pytest.approx(expected, rel=1e-6)


def test_without_contexts_that_differ_a_cached_byte_costs_what_a_weight_costs():
    cost = (5e-6, 1e-12, 9e-12, flat)
    fit = fit_steps((step(SMALL, cost=cost, context=256), step(LARGE, cost=cost, context=256)))
    assert fit.kv_s_per_byte == fit.weight_s_per_byte


def test_what_would_be_negative_is_zero():
    cost = (-2e-5, 1e-12, 1e-12, flat)
    fit = fit_steps((step(SMALL, cost=cost), step(LARGE, cost=cost)))
    assert fit.kernel_s == 0
    assert 0.5e-12 < fit.weight_s_per_byte < 1e-12


BUMP = {1: 1.0, 2: 2.0, 3: 3.0, 4: 1.8, 8: 2.2, 16: 3.0}


@given(batch=st.integers(1, 64))
def test_a_curve_that_is_not_monotone_is_kept_and_goes_on_along_its_last_points(batch):
    cost = (8e-6, 1e-12, 2e-12, BUMP.__getitem__)
    curve = [step(SMALL, cost=cost, batch=n) for n in BUMP]
    accelerator = on(*curve, step(LARGE, cost=cost), step(LARGE, cost=cost, context=32768))
    expected = np.interp(batch, list(BUMP), list(BUMP.values())) if batch <= 16 else 3.0 + 0.1 * (batch - 16)
    whole = step(LARGE, cost=(*cost[:3], lambda n: expected), batch=batch).median_s
    assert step_s(LARGE, accelerator, batch) == pytest.approx(whole, rel=1e-6)


def test_an_array_of_batches_is_each_batch():
    cost = (8e-6, 1e-12, 2e-12, BUMP.__getitem__)
    accelerator = on(*(step(SMALL, cost=cost, batch=n) for n in BUMP), step(LARGE, cost=cost))
    batches, contexts = np.array([1.0, 2.5, 3.0, 16.0, 90.0]), np.array([256.0, 1.0, 9000.0, 256.0, 4096.0])
    together = step_s(MIDDLE, accelerator, batches, contexts)
    for i in range(len(batches)):
        assert together[i] == step_s(MIDDLE, accelerator, float(batches[i]), float(contexts[i]))


def test_curves_of_two_sizes_meet_between_them():
    curves = ((1e9, ((1.0, 1.0), (2.0, 1.0), (4.0, 2.0))), (4e9, ((1.0, 1.0), (2.0, 3.0), (4.0, 3.0))))
    assert curve_at(curves, 1e8) == curves[0][1]
    assert curve_at(curves, 1e12) == curves[1][1]
    assert curve_at(curves, 2e9) == ((1.0, 1.0), (2.0, 2.0), (4.0, 2.5))


def test_verified_tokens_fill_in_where_no_batch_of_so_many_was_measured():
    cost = (0.0, 1e-12, 1e-12, float)
    decoded = [step(SMALL, cost=cost), step(SMALL, cost=cost, batch=4), step(LARGE, cost=cost)]
    verified = [step(SMALL, cost=(0.0, 1e-12, 1e-12, lambda n: 9.0), tokens=n) for n in (3, 4)]
    (_, curve), *others = fit_steps((*decoded, *verified)).curves
    assert not others
    assert [n for n, _ in curve] == [1, 3, 4]
    assert [ratio for _, ratio in curve] == pytest.approx([1, 9, 4])


def test_verifying_drafts_takes_what_the_curve_says():
    cost = (8e-6, 1e-12, 1e-12, BUMP.__getitem__)
    accelerator = on(*(step(SMALL, cost=cost, batch=n) for n in BUMP), step(LARGE, cost=cost))
    steps = steps_of(scenario(LARGE, accelerator, context_tokens=256))
    assert steps.basis == "estimate"
    for tokens in (1, 3, 4, 16):
        verify_s = step(LARGE, cost=cost, tokens=tokens).median_s
        assert steps.step_s(1, 256, tokens) == pytest.approx(verify_s, rel=1e-6)


def interval(profile, accelerator, batch=1, **request):
    s = scenario(profile, accelerator, context_tokens=256, **request)
    found = band_of(device_constants(s), batch)
    return found.low, found.high


def test_the_interval_is_never_narrow_and_widens_outside():
    cost = (8e-6, 1e-12, 1e-12, float)
    points = [step(p, cost=cost, context=c) for p in (SMALL, LARGE) for c in (256, 32768)]
    points.append(step(LARGE, cost=cost, batch=4))
    exact = on(*points)
    assert interval(MIDDLE, exact) == interval(LARGE, exact, batch=4) == (0.85, 1.15)
    larger = interval(HUGE, exact)
    assert larger[0] < 0.82
    assert larger[1] > 1.2
    assert interval(LARGE, exact, batch=8) == pytest.approx((0.7, 1.3))
    assert interval(LARGE, exact, batch=16) == pytest.approx((0.55, 1.45))
    noisy = on(*(p.model_copy(update={"p10_s": 0.7 * p.median_s, "p90_s": 1.5 * p.median_s}) for p in points))
    assert interval(MIDDLE, noisy) == pytest.approx((0.7, 1.5))


def test_batches_of_another_size_are_less_certain():
    cost = (8e-6, 1e-12, 1e-12, float)
    points = [step(p, cost=cost, context=c) for p in (SMALL, LARGE) for c in (256, 32768)]
    one = on(*points, step(LARGE, cost=cost, batch=4))
    both = on(*points, step(LARGE, cost=cost, batch=4), step(SMALL, cost=cost, batch=4))
    assert interval(SMALL, one, batch=4)[1] > interval(MIDDLE, one, batch=4)[1] > 1.15
    assert interval(MIDDLE, both, batch=4)[1] <= interval(MIDDLE, one, batch=4)[1]
    assert interval(SMALL, both, batch=4) == (0.85, 1.15)


def test_a_cache_whose_cost_was_not_told_apart_may_take_longer():
    cost = (8e-6, 1e-12, 1e-12, float)
    one_context = on(step(SMALL, cost=cost), step(LARGE, cost=cost))
    two = on(*(step(p, cost=cost, context=c) for p in (SMALL, LARGE) for c in (256, 65536)))
    assert interval(LARGE, one_context) == interval(LARGE, two) == pytest.approx((0.85, 1.15))  # as was measured
    assert interval(MIDDLE, one_context)[1] > interval(MIDDLE, two)[1] == pytest.approx(1.15)

    def longer(accelerator):
        return band_of(device_constants(scenario(LARGE, accelerator, context_tokens=512)), 1)

    assert longer(one_context).low > 0.8
    assert longer(one_context).high > longer(two).high == pytest.approx(1.15)


def test_batches_between_two_that_were_measured_are_less_certain():
    cost = (8e-6, 1e-12, 1e-12, float)
    points = [step(p, cost=cost, context=c) for p in (SMALL, LARGE) for c in (256, 32768)]
    points += [step(p, cost=cost, batch=n) for p in (SMALL, LARGE) for n in (4, 16)]
    widths = {n: interval(LARGE, on(*points), batch=n)[1] for n in (1, 2, 3, 4, 8, 16, 32)}
    assert widths[1] == widths[4] == widths[16] == 1.15
    assert widths[2] == widths[3] == widths[8] == pytest.approx(1.225)
    assert widths[32] == pytest.approx(1.3)


def test_a_long_context_widens_it_by_the_share_of_kv():
    cost = (8e-6, 1e-12, 1e-12, float)
    accelerator = on(step(SMALL, cost=cost), step(LARGE, cost=cost))
    widths = [
        band_of(device_constants(scenario(MIDDLE, accelerator, context_tokens=context)), 1).high
        for context in (256, 4096, 65536)
    ]
    assert widths[0] < widths[1] < widths[2]


def test_disturbed_steps_count_only_where_nothing_else_says_as_much():
    cost = (8e-6, 1e-12, 1e-12, flat)
    good = (step(SMALL, cost=cost), step(LARGE, cost=cost))
    disturbed = step(LARGE, cost=(8e-6, 3e-12, 1e-12, flat), context=300, contended=True)
    kept = fit_steps((*good, disturbed))
    assert kept.weight_s_per_byte == pytest.approx(1e-12)
    assert (kept.low_ratio, kept.high_ratio) == pytest.approx((1.0, 1.0))
    without = fit_steps((good[0], disturbed))
    assert without.kernel_s > 2 * 8e-6
    assert (without.low_ratio, without.high_ratio) != (1.0, 1.0)


def once_s(profile, kernel_s):
    """What a step takes however many tokens it has: its kernels, and its weights at 1 TB/s."""
    return kernels_per_step(profile) * kernel_s + 1e-12 * sum(x.weight_bytes(1) for x in traffic(scenario(profile)))


def test_prompts_give_the_first_token():
    flop_s, kernel_s = 2 / PEAK, 8e-6
    cost = (kernel_s, 1e-12, 1e-12, flat)
    prompts = [
        step(p, tokens=512, context=0, seconds=once_s(p, kernel_s) + 1024 * p.params_active * flop_s)
        for p in (SMALL, LARGE)
    ]
    accelerator = on(step(SMALL, cost=cost), step(LARGE, cost=cost), step(LARGE, cost=cost, context=1024), *prompts)
    s = scenario(MIDDLE, accelerator, context_tokens=512 + 64, input_tokens=512)
    known = step_clock(s)
    for tokens in (64, 512, 1024):
        expected = once_s(MIDDLE, kernel_s) + tokens * 2 * (MIDDLE.params_active - MIDDLE.head_params) * flop_s
        found = first_token_s(known.shape, known.constants, 0.0, 1, tokens)
        assert found == pytest.approx(expected, rel=0.03)  # attention comes on top
    result = estimate(s, memory_ledger(s), bandwidth_ledger(s))
    assert result.tpot_low_s < result.tpot_s < result.tpot_high_s
    assert "measured on this device" in result.source
    assert result.extrapolated == ()


def test_without_prompts_there_are_steps_but_no_first_token():
    cost = (8e-6, 1e-12, 1e-12, flat)
    s = scenario(MIDDLE, on(step(SMALL, cost=cost), step(LARGE, cost=cost)))
    assert step_clock(s).constants.of_device
    result = estimate(s, memory_ledger(s), bandwidth_ledger(s))
    assert isinstance(result, NoEstimate)
    assert "first token" in result.reason


def test_what_was_not_measured_is_said():
    cost = (8e-6, 1e-12, 1e-12, flat)
    accelerator = on(step(SMALL, cost=cost), step(LARGE, cost=cost), vendor="other")
    assert device_constants(scenario(MIDDLE, on())) is None
    reasons = {
        "one device": scenario(MIDDLE, accelerator, gpus=2, tp=2),
        "experts": scenario(model(runs=[LayerRun(4, attention(), MIXTURE)]), accelerator),
        "not bf16 weights and fp8 cache": scenario(MIDDLE, accelerator, kv="fp8"),
        "without graphs": replace(scenario(MIDDLE, accelerator), eager=True),
        "one size": scenario(MIDDLE, on(step(SMALL, cost=cost), step(SMALL, cost=cost, context=999), vendor="other")),
    }
    for words, s in reasons.items():
        found = step_clock(s)
        assert isinstance(found, NoEstimate), words
        assert words in found.reason
    assert isinstance(device_constants(scenario(SMALL, on(step(SMALL, cost=cost)))).kernel_s, float)


def test_steps_of_another_engine_do_not_stand_in_and_the_reason_names_theirs():
    cost = (8e-6, 1e-12, 1e-12, flat)
    own = [step(p, cost=cost, engine="torch", engine_version="2.0", eager=True) for p in (SMALL, LARGE)]
    s = scenario(MIDDLE, on(*own, memory_class="ddr", processor=True), context_tokens=256)
    result = estimate(s, memory_ledger(s), bandwidth_ledger(s))
    assert isinstance(result, NoEstimate)
    assert "no measurements of vllm" in result.reason
    assert "--engine torch" in result.reason


def test_constants_of_a_class_stay_for_a_device_of_which_nothing_was_measured():
    plain = scenario(MIDDLE, device(vendor="nvidia", compute_capability="9.0"))
    known = step_clock(plain)
    assert not known.constants.of_device
    assert known.constants.weight_curve is None
