"""The page of checks is made of the records that they leave, and hides none."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scripts import ROOT, script


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    figure = script("trust/figure.py")
    monkeypatch.setattr(figure, "RECORDS", tmp_path / "records")
    return tmp_path / "records"


def leave(name: str, **fields: Any) -> Any:
    """What a check's script does last; its exit status."""
    figure = sys.modules["figure"]
    given = {"claim": "nothing | breaks", "figure": "0 of 10", "holds": True, "command": f"make {name}"} | fields
    with pytest.raises(SystemExit) as ended:
        figure.conclude(figure.Figure(name=name, **given))
    return ended.value.code


def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = script("trust/summary.py")
    monkeypatch.setattr(module, "PAGE", tmp_path / "trust.md")
    monkeypatch.setattr(module, "CHECKS", ("fuzz", "mutation", "peers"))
    monkeypatch.setattr(sys, "argv", ["summary.py"])
    return module


@pytest.mark.parametrize(
    ("holds", "status", "word"), [(True, 0, "holds"), (False, 1, "DOES NOT HOLD"), (None, 3, "not")]
)
def test_a_check_prints_its_figure_last_and_keeps_it(
    records: Path, capsys: pytest.CaptureFixture[str], holds: bool | None, status: int, word: str
) -> None:
    assert leave("fuzz", holds=holds, seed=7) == status
    assert re.fullmatch(rf"fuzz: 0 of 10: {word}.*", capsys.readouterr().out.splitlines()[-1])
    kept = json.loads((records / "fuzz.json").read_text(encoding="utf-8"))
    assert (kept["holds"], kept["seed"], kept["command"]) == (holds, 7, "make fuzz")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kept["date"])


def test_the_page_has_every_figure_and_says_what_is_missing(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave("mutation", seed=3, limits=["2 survive"], table=[["mutant", "why"], ["a < b", "equal"]])
    leave("fuzz", holds=False)
    module = summary(tmp_path, monkeypatch)
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "trust: 1 of 3 checks hold; fuzz do not hold; peers left no record"
    page = (tmp_path / "trust.md").read_text(encoding="utf-8")
    assert "| [fuzz](#fuzz) | nothing \\| breaks | 0 of 10 | **does not hold** |" in page
    assert "## mutation\n\n`make mutation`, " in page
    assert ", seed 3; " in page
    assert "| a < b | equal |" in page
    assert "- 2 survive\n" in page
    assert page.index("(#fuzz)") < page.index("(#mutation)")
    assert "Known limits" in page


def test_all_hold(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("peers", "fuzz", "mutation"):
        leave(name)
    module = summary(tmp_path, monkeypatch)
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 0


def test_every_check_is_a_target_of_make() -> None:
    """And `make trust` runs them all."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    checks = set(script("trust/summary.py").CHECKS)
    assert checks <= targets
    assert "trust" in targets


def test_the_shipped_page_is_whole() -> None:
    """Every check stands on it, measured."""
    checks = script("trust/summary.py").CHECKS
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[([a-z-]+)\]\(#", page, re.MULTILINE) == list(checks)
    assert "does not hold" not in page
