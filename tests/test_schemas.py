"""What JSON promises: every output names its schema and fulfils it, and no promise is broken under the same name."""

import copy
import json
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from infopt.cli import run
from infopt.reports.schemas import schema_names, schema_text

ROOT = Path(__file__).resolve().parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "schema_keys.py"))
FROZEN: dict[str, dict[str, str]] = json.loads((ROOT / "tests/data/schema_keys.json").read_text(encoding="utf-8"))
PLAN = ("plan", "--model", "8b", "--hw", "h100", "--isl", "1k", "--osl", "128")
TRAFFIC = (
    "simulate",
    "--model",
    "8b",
    "--hw",
    "h100",
    "--isl",
    "500",
    "--osl",
    "50",
    "--rate",
    "4/s",
    "--requests",
    "100",
)
COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": PLAN,
    "choices": ("plan", "--model", "8b", "--ctx", "8k"),
    "comparison": (*PLAN, "--compare", "--batch 2", "--batch 4"),
    "ladder": (*PLAN, "--batch", "8", "--ladder"),
    "boundary": ("boundary", *PLAN[1:]),
    "curve": ("boundary", "kv-quantization", *PLAN[1:], "--vary", "batch=1:64"),
    "search": (
        "search",
        "--model",
        "8b",
        "--tpot",
        "20ms",
        "--rate",
        "2/s",
        "--isl",
        "1k",
        "--osl",
        "64",
        "--hw",
        "h200",
    ),
    "simulate": TRAFFIC,
    "simulate_comparison": (*TRAFFIC, "--compare", "--chunk 512", "--chunk 1k"),
    "simulate_grid": (*TRAFFIC, "--vary", "chunk=512,1k", "--workers", "1"),
    "gate": ("gate", "docs/examples/vllm.yaml"),
    "checklist": ("checklist", *PLAN[1:]),
    "models": ("models", "list"),
    "model": ("models", "show", "8b"),
    "hardware": ("hardware", "list"),
    "accelerator": ("hardware", "show", "h100"),
    "rules": ("rules",),
    "reproduce": ("reproduce",),
    "error": ("plan", "--model", "no such model"),
}
# Validated where their inputs are: tests of probes, observe, experiments, validate, sweeps; `policy` is of a file.
ELSEWHERE = {
    *("calibration", "calibration_check", "calibration_comparison", "observe", "observations", "run", "validate"),
    *("experiment_compare", "experiment_ladder", "experiment_matrix", "sweep", "policy"),
}
# Neither is an object that a command prints: a line of columns, and a file.
WITHOUT_SCHEMA = {"sweep", "policy"}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_output_names_its_schema_and_fulfils_it(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    run([*COMMANDS[name], "--json"])
    data = json.loads(capsys.readouterr().out)
    schema = json.loads(schema_text(name))
    assert data["schema"] == schema["$id"] == f"infopt/{name}/1"
    jsonschema.validate(data, schema, cls=jsonschema.Draft202012Validator)


def test_every_schema_is_tested_somewhere() -> None:
    assert set(schema_names()) == set(COMMANDS) | ELSEWHERE
    texts = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    for name in ELSEWHERE - {"observations"}:
        assert f'schema_text("{name}")' in texts or f'"{name}"' in texts, name


@pytest.mark.parametrize("name", schema_names())
def test_a_schema_is_one_and_is_called_by_name_and_version(name: str) -> None:
    schema = json.loads(schema_text(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    kind, own, version = schema["$id"].split("/")
    assert (kind, own) == ("infopt", name)
    assert version.isdigit()
    if name not in WITHOUT_SCHEMA:
        assert schema["properties"]["schema"]["const"] == schema["$id"]
        assert "schema" in schema["required"]


def test_promises_are_kept_and_written_down() -> None:
    """New keys: `python tools/schema_keys.py`. A key that goes or changes its type: a new version of the schema."""
    assert TOOL["broken"](FROZEN, TOOL["promised"]()) == []
    assert TOOL["promised"]() == FROZEN


CHANGES: list[tuple[str, Any]] = [
    ("gone", lambda plan: plan["properties"]["memory"]["properties"].pop("fits")),
    ("type", lambda plan: plan["properties"]["memory"]["properties"].update(fits={"type": "string"})),
    ("null", lambda plan: plan["properties"]["memory"]["properties"].update(kv_share={"type": ["number", "null"]})),
    ("optional", lambda plan: plan["required"].remove("memory")),
]


@pytest.mark.parametrize(("what", "change"), CHANGES)
def test_a_broken_promise_is_found(what: str, change: Any) -> None:
    keys, plan = TOOL["keys"], json.loads(schema_text("plan"))
    before = {"infopt/plan/1": dict(keys(plan, plan))}
    changed = copy.deepcopy(plan)
    change(changed)
    now = {"infopt/plan/1": dict(keys(changed, changed))}
    assert TOOL["broken"](before, now), what
    assert not TOOL["broken"](before, {"infopt/plan/2": dict(keys(changed, changed))})
    assert TOOL["broken"](before, {})


def test_new_keys_break_nothing() -> None:
    keys, plan = TOOL["keys"], json.loads(schema_text("plan"))
    more = copy.deepcopy(plan)
    more["properties"]["more"] = {"type": "number"}
    found = [{"infopt/plan/1": dict(keys(one, one))} for one in (plan, more)]
    assert TOOL["broken"](*found) == []
