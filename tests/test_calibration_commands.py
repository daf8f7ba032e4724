"""`--calibration` in every command, `hardware show`, `probe compare`, and the engine torch."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from calibrations import acceptance, calibration, device, measurement, product, step, written

from infopt.cli import run
from infopt.errors import InfoptError
from infopt.gate.case import _labelled as labelled
from infopt.gate.readers.pods import _is_device as is_device
from infopt.hardware import detect, host
from infopt.hardware.calibration import Calibration, State
from infopt.profiles.engine_flags import engine_flags
from infopt.profiles.engines import engine_name, engine_names, load_engine
from infopt.reports.calibration_compare import as_dict, render_comparison
from infopt.reports.schemas import schema_text
from infopt.studies.calibration_compare import compare, compare_files

H200 = ("--hw", "h200", "--isl", "1k", "--osl", "256")
NOTE = "bandwidth 4.00 TB/s (read fp32, rated 4.80 TB/s)"
DEPLOYMENT = """
services:
  chat:
    image: vllm/vllm-openai:v0.19.1
    command: --model Qwen/Qwen3-8B --max-model-len 8192
"""


@pytest.fixture(autouse=True)
def record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A record of an H200, which is also the only one stored."""
    monkeypatch.setenv("INFOPT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("infopt.hardware.calibration.MEASURED", tmp_path / "package")
    return written(
        tmp_path / "data" / "calibrations" / "h200.yaml", calibration(measurement(value=4e12), product(), step())
    )


def ran(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    assert run(arguments) == status, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.out, " ".join(captured.err.split())


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran(capsys, *arguments, "--json", status=status)[0])
    return found


@pytest.mark.parametrize("given", ["auto", "file"])
def test_plan(capsys: pytest.CaptureFixture[str], record: Path, given: str) -> None:
    named = ("--calibration", str(record) if given == "file" else "auto")
    rated, found = (as_json(capsys, "plan", "--model", "8b", *H200, *more) for more in ((), named))
    assert (rated["hardware"]["calibration"], found["hardware"]["calibration"]) == (None, str(record))
    assert found["hardware"]["bandwidth_bytes_per_s"] == 4e12
    assert found["bandwidth"]["step_floor_s"] == pytest.approx(1.2 * rated["bandwidth"]["step_floor_s"])
    assert found["estimate"]["tpot_s"] == rated["estimate"]["tpot_s"]
    assert any(NOTE in one["text"] for one in found["assumptions"] if one["id"] == "calibration")
    jsonschema.validate(found, json.loads(schema_text("plan")))
    page, _ = ran(capsys, "plan", "--model", "8b", *H200, *named)
    assert "4.00 TB/s (measured)" in page
    assert NOTE in " ".join(page.split())


def test_plan_without_hardware_calibrates_what_was_measured(capsys: pytest.CaptureFixture[str], record: Path) -> None:
    out, err = ran(capsys, "plan", "--model", "8b", "--calibration", "auto", "--json")
    files = {one["hardware"]["id"]: one["hardware"]["calibration"] for one in json.loads(out)["choices"]}
    assert files.pop("h200-sxm-141gb") == str(record)
    assert set(files.values()) == {None}
    assert NOTE in err


def test_the_next_command_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, record: Path
) -> None:
    """The best hardware is not what was measured: the command to look closer leaves the record out."""
    for flag in (("--calibration", str(record)), (f"--calibration={record}",)):
        words = ("plan", "--model", "8b", "--ctx", "8k", *flag)
        monkeypatch.setattr("sys.argv", ["infopt", *words])
        page, _ = ran(capsys, *words)
        shown = page.rpartition("  next")[2].split("infopt ")[1].split()
        assert "--calibration" not in " ".join(shown)
        assert shown[:4] == ["plan", "--model", "8b", "--ctx"]
        ran(capsys, *shown)


def test_comparison_and_ladder_say_it(capsys: pytest.CaptureFixture[str], record: Path) -> None:
    both = ("--hw h200", f"--hw h200 --calibration {record}")
    found, err = ran(capsys, "plan", "--model", "8b", "--isl", "1k", "--osl", "256", "--compare", *both, "--json")
    assert NOTE in err
    jsonschema.validate(json.loads(found), json.loads(schema_text("comparison")))
    assert "4.00 TB/s" in found
    _, err = ran(capsys, "plan", "--model", "8b", *H200, "--ladder", "--calibration", "auto")
    assert NOTE in err


def test_boundary(capsys: pytest.CaptureFixture[str], record: Path) -> None:
    found = as_json(capsys, "boundary", "--model", "8b", *H200, "--calibration", str(record))
    assert found["hardware"]["calibration"] == str(record)
    assert any(NOTE in one["text"] for one in found["assumptions"])
    jsonschema.validate(found, json.loads(schema_text("boundary")))
    faster, _ = ran(capsys, "boundary", "more-bandwidth", "--model", "8b", *H200, "--calibration", "auto", "--json")
    names = [one["name"] for one in json.loads(faster)["techniques"][0]["figures"]]
    assert any("b200" in name for name in names)
    assert not any("h200" in name for name in names)  # it is not faster than itself


def test_checklist(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, record: Path) -> None:
    options = ("--model", "8b", *H200, "--calibration", "auto", "--allow-undetermined")
    monkeypatch.setattr("sys.argv", ["infopt", "checklist", *options, "--json"])
    assert run(("checklist", *options, "--json")) in (0, 1)
    found = json.loads(capsys.readouterr().out)
    assert found["hardware"]["calibration"] == str(record)
    assert any(NOTE in one["text"] for one in found["assumptions"])
    commands = json.dumps(found["items"])
    assert "--calibration auto" in commands  # commands to copy are those of this deployment
    jsonschema.validate(found, json.loads(schema_text("checklist")))


def test_search(capsys: pytest.CaptureFixture[str], record: Path) -> None:
    asked = ("search", "--model", "8b", "--tpot", "20ms", "--rate", "1/s", "--isl", "1k", "--osl", "256")
    out, err = ran(capsys, *asked, "--hw", "h200", "--calibration", "auto", "--json")
    assert NOTE in err
    front = json.loads(out)["front"]
    assert {one["hardware"]["calibration"] for one in front} == {str(record)}
    jsonschema.validate(json.loads(out), json.loads(schema_text("search")))
    _, err = ran(capsys, *asked, "--hw", "h200,h100", "--calibration", "auto", status=2)
    assert "no record of h100-sxm-80gb is stored" in err


def test_search_of_everything(capsys: pytest.CaptureFixture[str], record: Path) -> None:
    asked = ("search", "--model", "8b", "--tpot", "8ms", "--rate", "1/s", "--isl", "1k", "--osl", "256")
    out, err = ran(capsys, *asked, "--calibration", str(record), "--json")
    assert NOTE in err
    for one in json.loads(out)["front"]:
        assert (one["hardware"]["calibration"] == str(record)) == (one["hardware"]["id"] == "h200-sxm-141gb")


def test_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("sweep", "--model", "8b", *H200, "--batch", "1,8", "--json")
    rated, _ = ran(capsys, *asked)
    found, err = ran(capsys, *asked, "--calibration", "auto")
    assert NOTE in err
    for before, after in zip(map(json.loads, rated.splitlines()), map(json.loads, found.splitlines()), strict=True):
        assert after["step_floor_s"] == pytest.approx(1.2 * before["step_floor_s"])
        assert after["tpot_s"] == before["tpot_s"]


def test_sweep_of_cases_refuses_other_hardware_row_by_row(
    capsys: pytest.CaptureFixture[str], record: Path, tmp_path: Path
) -> None:
    cases = tmp_path / "cases.csv"
    cases.write_text("model,hw,ctx,concurrency\n8b,h200,8k,1\n8b,h100,8k,1\n", encoding="utf-8")
    out, err = ran(capsys, "sweep", "--cases", str(cases), "--calibration", str(record), "--json")
    first, second = map(json.loads, out.splitlines())
    assert first["step_floor_s"] > 0
    assert not first.get("error")
    assert "it is of NVIDIA H200" in second["error"]
    assert NOTE in err


def test_gate(capsys: pytest.CaptureFixture[str], record: Path, tmp_path: Path) -> None:
    compose = tmp_path / "compose.yaml"
    compose.write_text(DEPLOYMENT, encoding="utf-8")
    asked = ("gate", str(compose), "--calibration", str(record), "--json", "--allow-undetermined", "--gpu")
    assert NOTE in ran(capsys, *asked, "h200")[0]
    assert "it is of NVIDIA H200" in ran(capsys, *asked, "h100")[0]
    assert "cannot be read" in ran(capsys, "gate", str(compose), "--calibration", "no.yaml", status=2)[1]


@pytest.mark.parametrize("label", ["auto", "cpu", "CPU"])
def test_a_label_of_a_file_is_not_the_machine_the_gate_runs_on(
    monkeypatch: pytest.MonkeyPatch, record: Path, label: str
) -> None:
    """`--hw cpu` and `auto` mean this machine; a node label of that name means the machine it is on."""
    monkeypatch.setattr(host, "processor_name", lambda: "AMD EPYC 9654 96-Core Processor")
    monkeypatch.setattr(detect, "PROBES", (lambda: [detect.Found("NVIDIA H200", None, "NVML")],))
    assert not is_device(label)
    assert labelled(label) is None
    assert labelled("h200") is not None


@pytest.mark.parametrize("command", ["plan", "boundary", "checklist", "sweep"])
def test_a_foreign_record_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], record: Path, command: str
) -> None:
    asked = (command, "--model", "8b", "--hw", "h100", "--ctx", "8k", "--calibration")
    _, err = ran(capsys, *asked, str(record), status=2)
    assert "it is of NVIDIA H200 (h200-sxm-141gb), not of NVIDIA H100" in err
    _, err = ran(capsys, *asked, "none.yaml", status=2)
    assert "none.yaml: cannot be read" in err


class TestEngineTorch:
    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch: pytest.MonkeyPatch, record: Path) -> None:
        monkeypatch.setattr(detect, "PROBES", ())
        monkeypatch.setattr(host, "processor_name", lambda: "Some CPU")
        monkeypatch.setattr(host, "host_memory_bytes", lambda: (5 * 10**9, 10**10))
        cpu = device(kind="cpu", name="Some CPU", accelerator=None, uuid_hash=None)
        common = {"weights": "fp32", "kv": "fp32", "eager": True, "batch": 1, "kv_bytes": 4.7e7}
        steps = (
            step(0.055, model="a", weight_bytes=5.38e8, kernels=421, layers=30, hidden=576, **common),
            step(0.160, model="b", weight_bytes=1.98e9, kernels=337, layers=24, hidden=896, **common),
            step(0.240, model="c", weight_bytes=4.14e9, kernels=309, layers=22, hidden=2048, **common),
            # A prompt of 512 tokens: 2 FLOP a parameter and token, at half of the best product.
            step(
                2.8,
                model="a",
                tokens=512,
                context_tokens=0,
                weight_bytes=5.38e8,
                flop=1.4e11,
                kernels=421,
                layers=30,
                hidden=576,
                **common,
            ),
        )
        figures = (measurement(value=2e10), product(1e11, format="fp32"), *steps)
        written(record.parent / "cpu.yaml", calibration(*figures, device=cpu))

    def test_plans_with_its_own_measured_steps(self, capsys: pytest.CaptureFixture[str]) -> None:
        asked = ("plan", "--model", "smollm2-135m", "--engine", "torch", "--hw", "auto", "--weights", "fp32")
        found = as_json(capsys, *asked, "--ctx", "1k", "--calibration", "auto")
        assert found["engine"]["name"] == "torch"
        assert found["hardware"]["id"] == "cpu"
        assert found["memory"]["margin_bytes"] == 0
        assert found["bandwidth"]["step_floor_s"] == pytest.approx(585_000_000 / 2e10, rel=0.02)
        assert found["estimate"]["reason"] is None
        assert found["estimate"]["tpot_s"] == pytest.approx(0.055, rel=0.1)
        assert found["estimate"]["tpot_low_s"] >= found["bandwidth"]["step_floor_s"]
        texts = [one["text"] for one in found["assumptions"] if one["id"] == "calibration"]
        assert any("4 step times of torch" in text for text in texts)
        assert not any("they count where nothing was measured" in text for text in texts)

    @pytest.mark.parametrize("command", ["boundary", "checklist"])
    def test_serves_nobody(self, capsys: pytest.CaptureFixture[str], command: str) -> None:
        asked = ("--model", "smollm2-135m", "--engine", "torch", "--hw", "cpu", "--ctx", "1k", "--calibration", "auto")
        _, err = ran(capsys, command, *asked, status=2)
        assert "engine torch is the decoder of `infopt probe`, which serves nobody" in err

    def test_is_no_engine_of_the_lists(self) -> None:
        assert "torch" not in engine_names()
        assert engine_name("Torch") == "torch"
        constants, version = load_engine("torch")
        assert (constants.budget, constants.utilization, constants.margin_bytes, version) == ("exact", 1.0, 0, "2")
        with pytest.raises(InfoptError, match=r"serves nobody: plan with it, here name .*vllm"):
            engine_flags("torch")


def test_hardware_show_lists_what_is_stored(capsys: pytest.CaptureFixture[str], record: Path) -> None:
    other = device(name="NVIDIA H100", accelerator="h100-sxm-80gb")
    written(record.parent / "h100.yaml", calibration(device=other))
    figures = (measurement(), measurement("copy", contended=True), step(), acceptance())
    written(record.parent / "h200-sxm-141gb-2.yaml", calibration(*figures, complete=False))
    written(record.parent / "h200-sxm-141gb-old.yaml", calibration(method=0))
    found = as_json(capsys, "hardware", "show", "h200")
    jsonschema.validate(found, json.loads(schema_text("accelerator")))
    by_file = {Path(one["file"]).name: one for one in found["calibrations"]}
    assert set(by_file) == {"h200.yaml", "h200-sxm-141gb-2.yaml", "h200-sxm-141gb-old.yaml"}
    assert by_file["h200.yaml"]["holds"] == ["bandwidth 1", "compute 1", "steps 1"]
    second = by_file["h200-sxm-141gb-2.yaml"]
    assert (second["holds"], second["contended"], second["complete"]) == (
        ["bandwidth 2", "steps 1", "drafts 1"],
        1,
        False,
    )
    assert "taken by method 0" in by_file["h200-sxm-141gb-old.yaml"]["problem"]
    page = " ".join(ran(capsys, "hardware", "show", "h200")[0].split())
    for words in ("CALIBRATIONS", "1 contended: not used", "interrupted", "not usable: taken by method 0"):
        assert words in page
    assert "CALIBRATIONS" not in ran(capsys, "hardware", "show", "l4")[0]
    assert str(record) in ran(capsys, "hardware", "show", "h200", "--format", "csv")[0]


def test_hardware_show_of_a_processor_nobody_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, record: Path
) -> None:
    monkeypatch.setattr(host, "processor_name", lambda: "Some CPU")
    assert "not in the catalogue" in ran(capsys, "hardware", "show", "cpu", status=2)[1]
    cpu = device(kind="cpu", name="Some CPU", accelerator=None)
    written(record.parent / "cpu.yaml", calibration(measurement(value=2e10), step(), device=cpu))
    found = as_json(capsys, "hardware", "show", "cpu")
    assert found["accelerator"]["bandwidth_bytes_per_s"] == 2e10
    assert [one["device"] for one in found["calibrations"]] == ["Some CPU"]


class TestCompare:
    def pair(self, *, a: Calibration, b: Calibration) -> dict[str, Any]:
        found = as_dict(compare(a, b))
        jsonschema.validate(found, json.loads(schema_text("calibration_comparison")))
        return found

    @pytest.mark.parametrize(
        ("b", "verdict", "status"),
        [
            (measurement(value=4.6e12), "same", 0),  # 9.5 %
            (measurement(value=4.7e12), "drift", 1),  # 12 %
            (measurement(value=3.6e12), "drift", 1),
            (measurement(value=4.7e12, p10=4.1e12), "same", 0),  # A lies within B's spread
            (measurement(value=4.7e12, contended=True), "contended", 4),
            (measurement(value=4.7e12, conditions={"size_bytes": 1}), "only_in_a", 4),
            (measurement("sum", 4.7e12), "only_in_a", 4),
            (measurement(value=4.7e12, unit="s"), "only_in_a", 4),
        ],
    )
    def test_verdicts(self, b: Any, verdict: str, status: int) -> None:
        one, other = calibration(measurement(value=4.2e12)), calibration(b)
        found = self.pair(a=one, b=other)
        assert found["figures"][0]["verdict"] == verdict
        assert compare(one, other).exit_status == status

    def test_drift_is_the_same_from_either_side(self) -> None:
        one, other = calibration(measurement(value=4e12), step()), calibration(measurement(value=5e12), step(0.0052))
        there, back = self.pair(a=one, b=other), self.pair(a=other, b=one)
        assert [f["verdict"] for f in there["figures"]] == [f["verdict"] for f in back["figures"]] == ["drift", "same"]
        assert there["figures"][0]["ratio"] == pytest.approx(1 / back["figures"][0]["ratio"])

    def test_a_record_does_not_drift_from_itself(self, record: Path) -> None:
        found = compare_files(record, record)
        assert found.exit_status == 0
        assert found.differences == ()
        assert {row.ratio for row in found.rows} == {1.0}

    def test_what_else_differs_is_said(self) -> None:
        changed = device(uuid_hash="ffffffffffffffff", driver="999")
        state, software = State(throttle=["board limit"]), {"torch": "2.14.0", "triton": "3.6"}
        other = calibration(device=changed, software=software, state=state)
        assert compare(calibration(), other).differences == (
            "two units of one kind: 0123456789abcdef and ffffffffffffffff",
            "driver: unknown and 999",
            "torch: 2.13.0 and 2.14.0",
            "triton: none and 3.6",
            "B was held back while it was measured: board limit",
        )

    @pytest.mark.parametrize("form", ["table", "md", "csv", "json"])
    def test_forms(self, form: str) -> None:
        a, b = calibration(measurement(), step(), acceptance()), calibration(measurement(value=3e12), product())
        text = render_comparison(compare(a, b), form)
        assert "drift" in text
        assert "only in A" in text or "only_in_a" in text
        if form == "csv":
            assert text.count("\n") == 4

    def test_through_the_command_line(self, capsys: pytest.CaptureFixture[str], record: Path, tmp_path: Path) -> None:
        other = written(tmp_path / "b.yaml", calibration(measurement(value=3e12)))
        assert "1 of 1 figures drifted" in " ".join(
            ran(capsys, "probe", "compare", str(record), str(other), status=1)[0].split()
        )
        assert "none of 3 figures drifted" in " ".join(
            ran(capsys, "probe", "compare", str(record), str(record))[0].split()
        )
        assert "cannot be read" in ran(capsys, "probe", "compare", str(record), "none.yaml", status=2)[1]
