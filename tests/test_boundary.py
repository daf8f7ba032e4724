"""`infopt boundary`: the table, a technique in full, curves, what is in use, every form, bad input."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from infopt.boundaries.registry import technique, techniques
from infopt.boundaries.technique import VERDICTS
from infopt.cli import run
from infopt.cli_load import parse_acceptance, parse_curve
from infopt.errors import InfoptError
from infopt.reports.schemas import schema_text
from infopt.studies.boundary import named

ROOT = Path(__file__).resolve().parent.parent
HERE = ("--model", "70b", "--hw", "h100:4", "--isl", "2000", "--osl", "300", "--batch", "64")
LOADED = (*HERE, "--shared-prefix", "1000", "--alpha", "0.7", "--method", "ngram", "--rate", "3/s")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["boundary", *arguments]) in (0, 1, 4)
    out, err = capsys.readouterr()
    assert err == ""
    return out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(printed(capsys, *arguments, "--json"))
    return data


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["boundary", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_one_file_a_technique() -> None:
    files = [path for path in (ROOT / "boundaries").glob("*.py") if "\nTECHNIQUE = " in path.read_text()]
    assert len({t.id for t in techniques()}) == len(techniques()) == len(files) >= 14
    names = [name for t in techniques() for name in (t.id, *t.aliases)]
    assert len(names) == len(set(names))
    for t in techniques():
        assert technique(t.id) is t
        assert len({q.name for q in t.quantities}) == len(t.quantities)


@pytest.mark.parametrize("arguments", [HERE, LOADED], ids=["bare", "loaded"])
def test_the_table_holds_every_technique_best_first(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    data = as_json(capsys, *arguments)
    jsonschema.validate(data, json.loads(schema_text("boundary")))
    assert {row["technique"] for row in data["techniques"]} == {t.id for t in techniques()}
    ranks = [(VERDICTS.index(row["verdict"]), -(row["gain_ratio"] or 0)) for row in data["techniques"]]
    assert ranks == sorted(ranks)
    page = printed(capsys, *arguments)
    assert all(len(line) <= 80 for line in page.splitlines())
    for row in data["techniques"]:
        assert f"  {row['technique']} " in page


@pytest.mark.parametrize("id", [t.id for t in techniques()])
def test_a_technique_in_full(id: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, id, *LOADED, "--curves")
    assert all(len(line) <= 80 for line in page.splitlines())
    data = as_json(capsys, id, *LOADED)["techniques"]
    assert [row["technique"] for row in data] == [id]
    assert data[0]["verdict"] in page
    assert printed(capsys, id, *LOADED, "--format", "md").startswith(f"# {technique(id).name}")
    rows = list(csv.DictReader(io.StringIO(printed(capsys, id, *LOADED, "--format", "csv"))))
    assert rows[0]["verdict"] == data[0]["verdict"]


def test_what_makes_it_fit_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    data = as_json(capsys, "--model", "70b", "--hw", "h100:1", "--isl", "2000", "--osl", "300")
    assert data["fits"] is False
    first = data["techniques"][0]
    assert (first["technique"], first["verdict"], first["gain_ratio"]) == ("weight-quantization", "use", None)


def test_a_curve_as_csv_has_every_whole_number(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "kv", *HERE, "--vary", "batch=1:256"))))
    assert [int(row["batch"]) for row in rows] == list(range(1, 257))
    verdicts = [row["verdict"] for row in rows]
    flips = [i + 1 for i in range(1, 256) if verdicts[i] != verdicts[i - 1]]
    known = [flip["value"] for flip in as_json(capsys, "kv", *HERE)["techniques"][0]["break_even"]]
    assert flips == [value for value in known if value and value <= 256][: len(flips)]
    data = as_json(capsys, "kv", *HERE, "--vary", "context=1k:64k")
    jsonschema.validate(data, json.loads(schema_text("curve")))
    assert data["points"][0]["value"] == 1024


def test_what_is_in_use_reprices_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    plain, used = as_json(capsys, *HERE), as_json(capsys, *HERE, "--with", "kv-fp8")
    assert used["with"] == ["kv-fp8"]
    assert used["workload"]["kv_format"] == "fp8"
    assert used["tpot_s"] < plain["tpot_s"]
    assert "kv-quantization" not in {row["technique"] for row in used["techniques"]}


def test_names_with_arguments() -> None:
    assert named("kv-fp8") == (technique("kv-quantization"), "fp8")
    assert named("kv=int8") == (technique("kv-quantization"), "int8")
    assert named("kv-quantization") == (technique("kv-quantization"), "")


def test_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "curve.svg"
    status = run(["boundary", "kv", *HERE, "--plot", str(target)])
    assert status == 0, capsys.readouterr().err
    assert "<svg" in target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "70b"), "--hw"),
        ((*HERE, "--curves"), "name it"),
        (("nonsense", *HERE), "unknown technique"),
        (("kv", *HERE, "--vary", "batch"), "batch=1:256"),
        (("kv", *HERE, "--vary", "acceptance=0:1"), "varies with"),
        (("kv", *HERE, "--vary", "batch=9:3"), "below the second"),
        ((*HERE, "--with", "nonsense"), "unknown technique"),
        ((*HERE, "--alpha", "1.2"), "--alpha"),
        ((*HERE, "--alpha", "0.3,0.5"), "later position"),
        ((*HERE, "--drafted", "0"), "--drafted"),
        ((*HERE, "--rate", "-1/s"), "--rate"),
        ((*HERE, "--rate", "0/s"), "--rate"),
        ((*HERE, "--step-curve", "1"), "--step-curve"),
        ((*HERE, "--step-curve", "1=5ms,1=6ms"), "step curve"),
        ((*HERE, "--output-spread", "-1"), "--output-spread"),
        ((*HERE, "--method", "mtp", "--draft", "1b"), "--draft"),
        (("kv", *HERE, "--to-kv", "fp7"), "fp7"),
        (("kv", *HERE, "--plot", "x.gif"), "must end in"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(capsys, *arguments)


def test_exit_status_of_one_technique(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["boundary", "kv", *HERE]) == 0
    measured = (
        "boundary",
        "kv",
        "--model",
        "8b",
        "--hw",
        "a100-sxm-80gb:1",
        "--isl",
        "2k",
        "--osl",
        "300",
        "--batch",
        "64",
    )
    assert run(list(measured)) == 4
    assert run([*measured, "--allow-undetermined"]) == 0
    capsys.readouterr()


def test_acceptance_and_curves_as_people_write_them() -> None:
    assert parse_acceptance("70%") == (0.7,)
    assert parse_acceptance(".54,.36,.26") == (0.54, 0.36, 0.26)
    assert parse_curve("1=25ms,16=54.5ms") == ((1.0, 0.025), (16.0, 0.0545))
    with pytest.raises(InfoptError, match="--step-curve"):
        parse_curve("x=2")
