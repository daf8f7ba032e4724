"""The frozen grid: today's answers are the accepted ones, and a change of them is noticed and needs a reason."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from scripts import ROOT, script


@pytest.fixture
def regression() -> ModuleType:
    return script("bench/regression.py")


def row(**cells: str) -> dict[str, str]:
    regression = script("bench/regression.py")
    blank = dict.fromkeys([*regression.INPUTS, *regression.ANSWERS], "")
    return (
        blank | {"model": "some/model", "hw": "h100", "fits": "true", "tpot_s": "0.02", "max_sequences": "50"} | cells
    )


def changed(regression: ModuleType, old: dict[str, str], new: dict[str, str]) -> list[tuple[str, float]]:
    return [(change.kind, change.size) for change in regression.changes([old], [new])]


def test_todays_answers_are_the_accepted_ones() -> None:
    ran = subprocess.run([sys.executable, "bench/regression.py"], cwd=ROOT, text=True, capture_output=True, check=False)
    last = ran.stdout.splitlines()[-1]
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = re.fullmatch(r"regression: ([\d,]+) scenarios \(([\d,]+) fit\): 0 worked and fail, .*: holds", last)
    assert found is not None, last
    scenarios, fit = (int(number.replace(",", "")) for number in found.groups())
    assert scenarios > 4_500
    assert 0.5 < fit / scenarios < 0.9  # the grid has both


def test_what_worked_and_fails_is_to_be_accepted(regression: ModuleType) -> None:
    fails = row(fits="false", tpot_s="", error="not one sequence fits")
    refused = row(fits="", tpot_s="", error="unknown weight format")
    assert changed(regression, row(), fails) == [("worked, fails", math.inf)]
    assert changed(regression, row(), refused) == [("worked, fails", math.inf)]
    assert changed(regression, fails, row()) == [("failed, works", math.inf)]


def test_a_figure_may_move_by_one_percent_and_no_more(regression: ModuleType) -> None:
    assert changed(regression, row(), row(tpot_s="0.02019")) == []
    assert changed(regression, row(), row(tpot_s="0.0203")) == [("moved", pytest.approx(0.015))]
    assert changed(regression, row(), row(max_sequences="49")) == [("moved", pytest.approx(0.02))]
    assert changed(regression, row(), row(tpot_s="")) == [("moved", math.inf)]
    assert changed(regression, row(tpot_s=""), row()) == [("moved", math.inf)]


def test_figures_of_what_does_not_fit_are_compared_too(regression: ModuleType) -> None:
    old, new = row(fits="false", step_floor_s="0.002"), row(fits="false", step_floor_s="0.003")
    assert changed(regression, old, new) == [("moved", pytest.approx(0.5))]


def test_the_table_cannot_be_changed_without_a_reason(
    regression: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression, "FROZEN", tmp_path / "table.csv")
    monkeypatch.setattr(regression, "ACCEPTED", tmp_path / "accepted.yaml")
    regression.accept("a ledger was wrong", [], [row()])
    assert list(regression.of_the_reasons()) == []
    regression.save(tmp_path / "table.csv", [row(tpot_s="0.04")], [*regression.INPUTS, *regression.ANSWERS])
    assert "without a reason" in next(regression.of_the_reasons())
    regression.accept("it was right", list(regression.changes([row()], [row(tpot_s="0.04")])), [row(tpot_s="0.04")])
    assert list(regression.of_the_reasons()) == []
    assert [entry["reason"] for entry in regression.accepted()] == ["a ledger was wrong", "it was right"]
    assert regression.accepted()[-1]["changes"] == {"moved": 1}
    assert sorted(os.listdir(tmp_path)) == ["accepted.yaml", "table.csv"]


def test_another_grid_is_to_be_accepted(regression: ModuleType) -> None:
    frozen = regression.read(regression.FROZEN)
    assert list(regression.of_the_grid(frozen)) == []
    assert "1 scenarios of" in next(regression.of_the_grid(frozen[1:]))
    assert "1 are no longer" in next(regression.of_the_grid([*frozen, row()]))


@pytest.mark.parametrize("reason", ["", "because", "new version"])
def test_a_reason_is_a_sentence(reason: str) -> None:
    command = [sys.executable, "bench/regression.py", "--accept", reason]
    ran = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    assert ran.returncode == 1
    assert "say why in a sentence" in ran.stderr
