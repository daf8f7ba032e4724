"""Calibration with measured points: what it must recover, its bounds, and what it is worth on a published sweep."""

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.calibrate_step import OVERHEAD, Point, calibrate
from infopt.ledgers.estimate import estimate, step_clock
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.step_time import step_shape, step_terms_s
from infopt.profiles.catalogue import load_catalogue_model
from infopt.studies.measured_points import calibrated_constants
from infopt.studies.scenarios import Request, build
from infopt.studies.speed_single import single_scenario
from infopt.studies.speed_truth import BUNDLED_SPEED, read_speed_rows, seconds_per_token


def placed(weights, device="rtx 4090", batch=1, engine="llama.cpp"):
    request = Request(input_tokens=100, output_tokens=200, batch=batch, engine=engine, weights=weights)
    model = load_catalogue_model("meta-llama/Llama-3.1-8B")
    s = build(model, resolve_hardware(device), request).scenario
    return s, step_clock(s)


def time_s(s, constants):
    shape = step_shape(s, constants)
    terms = step_terms_s(shape, constants, s.batch, s.decode_context_tokens, s.input_tokens, s.output_tokens)
    return sum(terms.values()), sum(v for k, v in terms.items() if k in OVERHEAD)


def point(s, clock, tpot_s):
    return Point(clock.shape, s.batch, s.decode_context_tokens, s.input_tokens, s.output_tokens, tpot_s)


@given(slope=st.floats(1.0, 3.0), overhead=st.floats(0.1, 5.0))
def test_two_points_recover_slope_and_overhead(slope, overhead):
    points = []
    for weights in ("q4_k_m", "fp16"):
        s, clock = placed(weights)
        total, fixed = time_s(s, clock.constants)
        points.append(point(s, clock, slope * (total - fixed) + overhead * fixed))
    constants = calibrate(clock.constants, points)
    assert constants.traffic_ratio == pytest.approx(slope * clock.constants.traffic_ratio)
    assert constants.kernel_s == pytest.approx(overhead * clock.constants.kernel_s)


def test_two_batches_of_a_server_are_enough():
    measured = {1: 0.0121, 64: 0.031}
    points = []
    for batch, tpot_s in measured.items():
        s, clock = placed("bf16", "h100", batch, "vllm")
        points.append(point(s, clock, tpot_s))
    constants = calibrate(clock.constants, points)
    for batch, tpot_s in measured.items():
        assert time_s(placed("bf16", "h100", batch, "vllm")[0], constants)[0] == pytest.approx(tpot_s)


def test_one_point_shifts_the_overhead_only():
    s, clock = placed("q4_k_m")
    total, _ = time_s(s, clock.constants)
    constants = calibrate(clock.constants, [point(s, clock, 1.5 * total)])
    assert constants.traffic_ratio == clock.constants.traffic_ratio
    assert time_s(s, constants)[0] == pytest.approx(1.5 * total)


@given(shares=st.lists(st.floats(0.01, 3.0), min_size=1, max_size=2))
def test_no_point_makes_bytes_faster_than_the_memory(shares):
    points = []
    for share, weights in zip(shares, ("fp16", "q4_k_m"), strict=False):
        s, clock = placed(weights)
        points.append(point(s, clock, share * time_s(s, clock.constants)[0]))
    constants = calibrate(clock.constants, points)
    assert constants.traffic_ratio >= 1 - 1e-12
    assert constants.kernel_s >= 0
    assert time_s(s, constants)[0] >= bandwidth_ledger(s).step_floor_s * (1 - 1e-9)


def test_the_same_point_twice_is_one_point():
    s, clock = placed("q4_k_m")
    once = point(s, clock, 0.009)
    twice = calibrate(clock.constants, [once, once])
    assert twice.traffic_ratio == clock.constants.traffic_ratio
    assert time_s(s, twice)[0] == pytest.approx(0.009)


def test_bad_points():
    s, clock = placed("q4_k_m")
    with pytest.raises(InfoptError, match="no measured point"):
        calibrate(clock.constants, [])
    with pytest.raises(InfoptError, match="above 0"):
        calibrate(clock.constants, [point(s, clock, 0.0)])


def test_two_probes_bring_a_sweep_of_devices_within_six_percent():
    """llama.cpp on 11 devices: 8B in 4 and 16 bits at the least depth predict the rest (GPU Benchmarks, May 2024)."""
    by_device = defaultdict(list)
    for row in read_speed_rows(BUNDLED_SPEED):
        if row.prefix == "xj" and row.metric == "tg_tok_s":
            by_device[row.gpu].append((row, single_scenario(row)))
    errors = []
    for rows in by_device.values():
        probes = [least(rows, name) for name in ("Q4_K_M", "F16")]
        if None in probes:
            continue
        clock = step_clock(probes[0][1])
        points = [point(s, step_clock(s), seconds_per_token(row)) for row, s in probes]
        constants = calibrate(clock.constants, points)
        for row, s in rows:
            if row.id not in {probe[0].id for probe in probes}:
                errors.append(abs(time_s(s, constants)[0] / seconds_per_token(row) - 1))
    assert len(errors) > 200
    assert sum(errors) / len(errors) <= 0.06


def least(rows, weights):
    """The small model in a format: fewest devices, least depth."""
    found = [x for x in rows if "8B" in x[0].model and x[0].weight_format == weights]
    return min(found, key=lambda x: (x[0].gpus, x[1].decode_context_tokens), default=None)


def test_points_as_people_write_them():
    s, _ = placed("bf16", "h100", 1, "vllm")
    constants = calibrated_constants(s, ["batch=1,tpot=12.1ms", "batch=64, tpot=31ms"])
    for batch, tpot_s in ((1, 0.0121), (64, 0.031)):
        of = replace(s, batch=batch)
        found = estimate(of, memory_ledger(of), bandwidth_ledger(of), constants)
        assert found.tpot_s == pytest.approx(tpot_s)
        assert found.tpot_low_s < tpot_s < found.tpot_high_s
        assert "measured point" in found.source


def test_points_of_two_formats():
    s, _ = placed("q4_k_m")
    constants = calibrated_constants(s, ["batch=1,tpot=8ms", "batch=1,tpot=20ms,weights=fp16"])
    assert time_s(s, constants)[0] == pytest.approx(0.008)
    assert time_s(placed("fp16")[0], constants)[0] == pytest.approx(0.020)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch=1", "tpot is missing"),
        ("tpot=3ms", "batch is missing"),
        ("batch=1,tpot=3ms,batch=2", "once"),
        ("batch=1,speed=3", "is not one of"),
        ("fast", "is not one of"),
        ("batch=0,tpot=3ms", "--point"),
        ("batch=1,tpot=soon", "--point"),
    ],
)
def test_points_that_cannot_be_read(text, said):
    with pytest.raises(InfoptError, match=said):
        calibrated_constants(placed("q4_k_m")[0], [text])


def test_nothing_to_calibrate():
    with pytest.raises(InfoptError, match="nothing to calibrate"):
        calibrated_constants(placed("bf16", "mi300x", 1, "vllm")[0], ["batch=1,tpot=12ms"])
