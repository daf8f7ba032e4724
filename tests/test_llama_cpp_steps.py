"""Steps that a real llama.cpp took (data/llama_cpp_runs.csv) against the ledger calibrated with some of them.

The figures of docs/accuracy.md, llama.cpp: where the ledger does not hold, that is what is kept here.
"""

import csv
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.calibration import Step
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.estimate import NoEstimate, clock, expected_times
from infopt.ledgers.traffic import traffic
from infopt.profiles.catalogue import load_catalogue_model
from infopt.profiles.resolve import resolve_model
from infopt.profiles.step_constants import kernels_per_step
from infopt.studies.predicted_steps import HERE, predicted_s
from infopt.studies.scenarios import Request, build

RUNS = Path(__file__).parent / "data" / "llama_cpp_runs.csv"
SMALL, BETWEEN = "HuggingFaceTB/SmolLM2-135M", "HuggingFaceTB/SmolLM2-360M-Instruct"
LARGE = "TinyLlama-1.1B with this vocabulary"  # in no catalogue: it only calibrates
HEAD = 64
OUTSIDE = "HuggingFaceTB/SmolLM2-1.7B-Instruct"
FORMATS = ("q8_0", "fp16", "q4_1")  # runs, each calibrated for itself
SHORT = 200  # tokens: contexts below it are the batches'


@cache
def rows() -> tuple[dict[str, str], ...]:
    lines = RUNS.read_text(encoding="utf-8").splitlines()
    return tuple(csv.DictReader(line for line in lines if not line.startswith("#")))


def steps(run: str) -> tuple[Step, ...]:
    return tuple(step(row) for row in rows() if row["run"] == run)


def step(row: dict[str, str]) -> Step:
    layers, batch, context = int(row["layers"]), int(row["batch"]), int(row["context_tokens"])
    return Step(
        engine="llama.cpp",
        engine_version="11549",
        eager=True,
        model=row["model"],
        weights=row["weights"],
        kv="fp16",
        batch=batch,
        tokens=1,
        context_tokens=context,
        tp=1,
        weight_bytes=float(row["weight_bytes"]),
        kv_bytes=float(2 * layers * int(row["kv_heads"]) * HEAD * 2 * context * batch),
        flop=2.0 * float(row["weight_bytes"]) * batch,
        kernels=kernels_per_step(load_catalogue_model(SMALL)) // 30 * layers,
        layers=layers,
        layers_run=layers,
        hidden=int(row["hidden"]),
        median_s=float(row["step_ms"]) / 1e3,
        p10_s=float(row["least_ms"]) / 1e3,
        p90_s=float(row["most_ms"]) / 1e3,
        n=int(row["rounds"]),
        n_clean=int(row["rounds"]),
        contended=False,
        taken="2026-11-30T10:20:00Z",
    )


def one(run: str, model: str, batch: int, is_short: bool = True) -> Step:
    return next(s for s in steps(run) if (s.model, s.batch, s.context_tokens < SHORT) == (model, batch, is_short))


@pytest.mark.parametrize("model", [SMALL, BETWEEN])
@pytest.mark.parametrize("run", FORMATS)
def test_bytes_are_the_ledgers(run: str, model: str) -> None:
    measured = one(run, model, 1)
    choice = HardwareChoice(HERE, None, "here")
    request = Request(context_tokens=measured.context_tokens + 1, weights=measured.weights, kv="fp16")
    stages = traffic(build(load_catalogue_model(model), choice, request).scenario)
    assert sum(stage.weight_bytes(1) for stage in stages) == pytest.approx(measured.weight_bytes, rel=0.002)
    assert sum(stage.kv_bytes(1, measured.context_tokens) for stage in stages) == measured.kv_bytes


@pytest.mark.parametrize("run", FORMATS)
def test_two_sizes_at_one_context_predict_the_size_between(run: str) -> None:
    known = (one(run, SMALL, 1), one(run, LARGE, 1))
    measured = one(run, BETWEEN, 1)
    predicted, low, high = predicted_s(measured, known)
    assert predicted == pytest.approx(measured.median_s, rel=0.10)
    assert low < measured.median_s < high


@pytest.mark.parametrize(
    ("run", "batch"), [(s["run"], int(s["batch"])) for s in rows() if s["model"] == BETWEEN and s["batch"] != "1"]
)
def test_batches_of_both_sizes_predict_those_of_the_size_between(run: str, batch: int) -> None:
    known = tuple(s for s in steps(run) if s.model != BETWEEN)
    measured = one(run, BETWEEN, batch)
    predicted, low, high = predicted_s(measured, known)
    assert predicted == pytest.approx(measured.median_s, rel=0.15)
    assert low < measured.median_s < high


@pytest.mark.parametrize("batch", [1, 2])
def test_a_larger_size_of_a_later_run_is_predicted(batch: int) -> None:
    known = tuple(s for s in steps("q8_0") if s.model != BETWEEN)
    measured = one("large", OUTSIDE, batch)
    predicted, low, high = predicted_s(measured, known)
    assert predicted == pytest.approx(measured.median_s, rel=0.15)
    assert low < measured.median_s < high


def test_a_longer_context_is_predicted_where_one_was_measured() -> None:
    """A cached byte costs nine to twenty times what one of weights does here, by model: the least good of these."""
    known = tuple(s for s in steps("q8_0") if s.model != BETWEEN)
    measured = one("q8_0", BETWEEN, 1, is_short=False)
    predicted, *_ = predicted_s(measured, known)
    assert predicted == pytest.approx(measured.median_s, rel=0.20)


@pytest.mark.parametrize("model", [SMALL, BETWEEN, LARGE])
def test_two_sequences_take_longer_than_two_steps(model: str) -> None:
    """Why a curve of batches is measured and no law is laid over it."""
    assert one("q8_0", model, 2).median_s > 2 * one("q8_0", model, 1).median_s
    assert one("q8_0", model, 8).median_s < 8 * one("q8_0", model, 1).median_s


def test_times_of_more_sequences_than_were_measured_are_no_number() -> None:
    """As in arrays; the plan says why in place of them."""
    request = Request(context_tokens=4, batch=2, engine="llama.cpp", gpus=1)
    s = build(resolve_model("8b"), resolve_hardware("h100"), request).scenario
    compiled = clock(replace(s, batch=1))
    assert not isinstance(compiled, NoEstimate)
    assert compiled.constants.most_sequences == 1
    assert math.isnan(expected_times(s, compiled, 1.0).tpot_s)
    assert expected_times(replace(s, batch=1), compiled, 1.0).tpot_s == 1.0
