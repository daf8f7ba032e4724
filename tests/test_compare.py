"""`plan --compare A B`: two plans term by term."""

import csv
import io
import json

import jsonschema
import pytest

from infopt.cli import run
from infopt.cli_compare import compared
from infopt.cli_options import ScenarioOptions
from infopt.cli_overlay import overlaid
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.estimate import Estimate
from infopt.profiles.resolve import resolve_model
from infopt.reports.schemas import schema_text
from infopt.studies.compare import LEDGERS, compare
from infopt.studies.planning import Plan, plan
from infopt.studies.scenarios import Request

PLAN = ("plan", "--model", "70b", "--isl", "2k", "--osl", "300", "--batch", "8")
A, B = "--hw h100:4", "--hw h200:2 --weights fp8"


def planned(hw: str, **request: object) -> Plan:
    return plan(resolve_model("8b"), resolve_hardware(hw), Request(context_tokens=8192, **request))  # type: ignore[arg-type]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert run([*PLAN, *arguments]) == status
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_rows_are_the_figures_of_both_plans() -> None:
    a, b = planned("h100"), planned("h200:2")
    rows = {(row.ledger, row.name): row for row in compare(a, b, "", "").rows}
    assert (rows["memory", "weights"].a, rows["memory", "weights"].b) == (
        a.memory.weights_bytes_per_gpu,
        b.memory.weights_bytes_per_gpu,
    )
    assert isinstance(a.estimate, Estimate)
    assert isinstance(b.estimate, Estimate)
    tpot = rows["estimate", "TPOT"]
    assert tpot.difference == pytest.approx(b.estimate.tpot_s - a.estimate.tpot_s)
    assert tpot.ratio == pytest.approx(b.estimate.tpot_s / a.estimate.tpot_s)
    terms = [row for (ledger, name), row in rows.items() if ledger == "estimate" and name.startswith("  ")]
    assert sum(row.a or 0.0 for row in terms) == pytest.approx(a.estimate.tpot_s)
    # One device has no collectives: the term is there all the same.
    assert rows["memory", "communication"].a == 0
    assert (rows["memory", "communication"].b or 0) > 0


def test_a_scenario_beside_itself_differs_in_nothing() -> None:
    same = compare(planned("h100"), planned("h100"), "", "")
    assert same.rows
    assert all(row.difference == 0 for row in same.rows if row.difference is not None)
    assert [row.ledger for row in same.rows] == sorted((row.ledger for row in same.rows), key=LEDGERS.index)


def test_terms_that_one_plan_lacks_are_null() -> None:
    """No measurements on the one, none of the figures that rest on them."""
    rows = {(row.ledger, row.name): row for row in compare(planned("h100"), planned("mi300x"), "", "").rows}
    assert rows["estimate", "TPOT"].b is None
    assert rows["estimate", "TPOT"].difference is None
    assert rows["bandwidth", "step floor"].b is not None


def test_the_verdict_of_both() -> None:
    fitting, failing = planned("h100"), plan(resolve_model("70b"), resolve_hardware("h100"), Request(gpus=1, tp=1))
    assert compare(fitting, fitting, "", "").fits is True
    assert compare(fitting, failing, "", "").fits is False


def test_options_are_laid_over_the_others() -> None:
    base = ScenarioOptions("70b", "h100:4")
    (laid,) = overlaid([base], "--hw 'h200:2' --weights fp8 --price h200=3")
    assert (laid.model, laid.hw, laid.weights, laid.price) == ("70b", "h200:2", "fp8", ["h200=3"])
    assert overlaid([base], "") == [base]
    assert overlaid([base], "-m 8b")[0].model == "8b"


@pytest.mark.parametrize("text", ["--hw h100 --foo", "h100", "--hw", "'--hw", "--batch -3", "--help", "--hw h1000"])
def test_bad_options_are_one_line(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert run([*PLAN, "--compare", A, text]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("infopt: ")
    assert err.count("\n") == 1


def test_both_need_hardware() -> None:
    with pytest.raises(InfoptError, match="--hw"):
        compared(ScenarioOptions("8b"), "--hw h100", "", "table")


def test_forms(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.loads(printed(capsys, "--compare", A, B, "--json"))
    jsonschema.validate(data, json.loads(schema_text("comparison")), cls=jsonschema.Draft202012Validator)
    for side in ("a", "b"):
        jsonschema.validate(data[side], json.loads(schema_text("plan")), cls=jsonschema.Draft202012Validator)
    assert data["b"]["model"]["weight_format"] == "fp8"
    assert data["a"]["workload"]["batch"] == data["b"]["workload"]["batch"] == 8
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "--compare", A, B, "--format", "csv"))))
    assert len(rows) == len(data["terms"])
    assert "| weights | " in printed(capsys, "--compare", A, B, "--format", "md")
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        page = printed(capsys, "--compare", A, B)
        assert max(len(line) for line in page.splitlines()) <= width
        assert "prefill stall" in page


def test_one_that_does_not_fit_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert "DOES NOT FIT" in " ".join(printed(capsys, "--compare", A, "--hw h100:1", status=1).split())
