"""A calibration record checked against itself: bounds, untouched steps, and what it says where it cannot tell."""

import json
from pathlib import Path

import calibrations
import pytest
from jsonschema import Draft202012Validator

from infopt.cli import run
from infopt.profiles.catalogue import load_catalogue_model
from infopt.reports.schemas import schema_text
from infopt.studies.calibration_check import calibrating, check_calibration

SMALL, LARGE = "HuggingFaceTB/SmolLM2-135M", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"
KERNEL_S, BYTE_S = 2e-6, 1 / 1e10  # of steps made up: a tenth of a terabyte a second
GROWTH = {1: 1.0, 4: 1.5}


def step(model: str, batch: int = 1, context_tokens: int = 256, off: float = 1.0):
    profile = load_catalogue_model(model)
    weight_bytes = 4.0 * profile.params_active
    elements = sum(g.layers * g.mixer.cache_elements_per_token for g in profile.groups)
    kv_bytes = 4.0 * batch * context_tokens * elements
    kernels = 10 * profile.layers
    seconds = kernels * KERNEL_S + (GROWTH[batch] * weight_bytes + kv_bytes) * BYTE_S
    return calibrations.step(
        off * seconds, model=model, weights="fp32", kv="fp32", eager=True, batch=batch, context_tokens=context_tokens,
        weight_bytes=weight_bytes, kv_bytes=kv_bytes, kernels=kernels, layers=profile.layers,
        layers_run=profile.layers, hidden=profile.hidden,
    )  # fmt: skip


def record(*figures, read_bytes_per_s: float = 2e10):
    read = calibrations.measurement(value=read_bytes_per_s)
    return calibrations.calibration(read, *figures, device=calibrations.device(kind="cpu", accelerator=None))


KNOWN = [step(SMALL), step(SMALL, 4), step(LARGE)]
UNTOUCHED = [step(SMALL, context_tokens=1024), step(LARGE, context_tokens=1024), step(LARGE, 4)]


def test_steps_that_follow_the_ledger_hold() -> None:
    found = check_calibration(record(*KNOWN, *UNTOUCHED))
    assert found.passes is True
    assert {row.step for row in found.rows if row.predicted_s is None} == set(KNOWN)
    assert {(g.name, g.n) for g in found.groups} == {("fp32, one sequence", 2), ("fp32, batches", 1)}
    assert all(g.worst_error_ratio < 0.02 for g in found.groups)


def test_steps_in_graphs_of_a_gpu_are_predicted_apart_from_eager_ones() -> None:
    graphs = [s.model_copy(update={"eager": False}) for s in (*KNOWN, *UNTOUCHED)]
    slower = [s.model_copy(update={"median_s": 3 * s.median_s}) for s in (*KNOWN, *UNTOUCHED)]
    found = check_calibration(record(*graphs, *slower))
    assert found.unknown == ()
    assert sum(row.predicted_s is not None for row in found.rows) == 2 * len(UNTOUCHED)
    assert all(g.worst_error_ratio < 0.02 for g in found.groups)


def test_a_step_below_the_floor_fails_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = record(*KNOWN, *UNTOUCHED, read_bytes_per_s=8e9)
    assert check_calibration(made).passes is False
    assert run(["validate", "--calibration", str(calibrations.written(tmp_path / "a.yaml", made))]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "steps below the floor: SmolLM2-135M fp32 batch 1 behind 256" in printed


@pytest.mark.parametrize(("off", "passes"), [(1.05, True), (1.5, False), (0.6, False)])
def test_untouched_steps_that_are_off_fail(off: float, passes: bool) -> None:
    others = [step(SMALL, context_tokens=1024, off=off), step(LARGE, context_tokens=1024, off=off), UNTOUCHED[-1]]
    assert check_calibration(record(*KNOWN, *others, read_bytes_per_s=9e10)).passes is passes


def test_contended_steps_judge_nothing() -> None:
    wild = step(LARGE, context_tokens=1024, off=9.0).model_copy(update={"contended": True})
    found = check_calibration(record(*KNOWN, *UNTOUCHED, wild))
    assert (found.left_out, found.passes) == (1, True)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ([], "no step is without contention"),
        ([step(SMALL), step(SMALL, 4)], "one size of model was measured"),
    ],
)
def test_too_little_is_undetermined(figures: list, said: str) -> None:
    found = check_calibration(record(*figures))
    assert found.passes is None
    assert any(said in text for text in found.unknown)


def test_the_model_with_most_batches_gives_the_curve() -> None:
    known, reason = calibrating([*KNOWN, *UNTOUCHED])
    assert reason is None
    assert set(known) == set(KNOWN)


def test_json_is_its_schema_and_text_forms_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(calibrations.written(tmp_path / "a.yaml", record(*KNOWN, *UNTOUCHED)))
    assert run(["validate", "--calibration", path, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    Draft202012Validator(json.loads(schema_text("calibration_check"))).validate(data)
    assert data["holds"] is True
    for form, said in (("table", "the record HOLDS"), ("md", "the record holds"), ("csv", "predicted_s")):
        assert run(["validate", "--calibration", path, "--format", form]) == 0
        assert said in capsys.readouterr().out


def test_options_that_contradict_each_other_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "--calibration", "a.yaml", "--truth", "b.csv"]) == 2
    assert "leave --truth, --predictions, --plot and --html out" in capsys.readouterr().err
