"""The frozen grid: today's answers are the accepted ones, and a change of them is noticed and needs a reason."""

import math
import os
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


FROZEN = script("bench/regression.py")
PARTS = 12
MEANT = 'if this is meant: python bench/regression.py --accept "why", in the same change'


@pytest.mark.parametrize("part", range(PARTS))
def test_todays_answers_are_the_accepted_ones(part: int) -> None:
    """Every twelfth scenario."""
    before = FROZEN.read(FROZEN.FROZEN)[part::PARTS]
    assert list(map(str, FROZEN.changes(before, FROZEN.computed(before)))) == [], MEANT


@pytest.mark.parametrize("scenario", FROZEN.of_boundary.scenarios())
def test_todays_boundaries_are_the_accepted_ones(scenario: str) -> None:
    before = {key: value for key, value in FROZEN.of_boundary.frozen().items() if key[0] == scenario}
    assert len(before) > 250
    assert list(map(str, FROZEN.boundary_changes(before, FROZEN.of_boundary.answered(scenario)))) == [], MEANT


def test_the_tables_are_those_of_the_grid_and_of_the_last_reason() -> None:
    rows = FROZEN.read(FROZEN.FROZEN)
    assert [*FROZEN.of_the_grid(rows), *FROZEN.of_the_reasons()] == []
    assert {key[0] for key in FROZEN.of_boundary.frozen()} == set(FROZEN.of_boundary.scenarios())
    assert len(rows) > 4_500
    assert 0.5 < sum(map(FROZEN.works, rows)) / len(rows) < 0.9  # the grid has both


def test_the_figure_counts_what_is_to_be_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    found = [FROZEN.Change("a", "worked, fails", "does not fit", math.inf), FROZEN.Change("b", "moved", "tpot_s", 0.2)]
    figure = FROZEN.compared([row(), row(fits="false")], found, [])
    assert figure.holds is False
    assert "1 worked and fail, 0 failed and work, 1 figures moved" in figure.figure
    assert capsys.readouterr().out.splitlines()[0] == "worked, fails: a: does not fit"
    assert FROZEN.compared([row()], [], []).holds
    assert not FROZEN.compared([row()], [], ["another grid"]).holds


def test_a_verdict_that_turns_is_to_be_accepted() -> None:
    old = {("dense", "kv", "verdict"): "use", ("dense", "kv", "gain_ratio"): "1.25", ("dense", "kv", "gone"): "1"}
    new = {("dense", "kv", "verdict"): "skip", ("dense", "kv", "gain_ratio"): "1.26", ("dense", "kv", "new"): "2"}
    told = [(change.what, change.size) for change in FROZEN.boundary_changes(old, new)]
    assert told == [
        ("gone 1 -> no such figure", math.inf),
        ("new no such figure -> 2", math.inf),
        ("verdict use -> skip", math.inf),
    ]


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
    monkeypatch.setattr(regression.of_boundary, "FROZEN", tmp_path / "boundary.csv")
    tables = {("dense", "kv", "verdict"): "use"}
    regression.accept("a ledger was wrong", [], [row()], tables)
    assert list(regression.of_the_reasons()) == []
    regression.save(tmp_path / "table.csv", [row(tpot_s="0.04")], [*regression.INPUTS, *regression.ANSWERS])
    assert "without a reason" in next(regression.of_the_reasons())
    new = [row(tpot_s="0.04")]
    regression.accept("it was right", list(regression.changes([row()], new)), new, tables)
    assert list(regression.of_the_reasons()) == []
    assert [entry["reason"] for entry in regression.accepted()] == ["a ledger was wrong", "it was right"]
    assert regression.accepted()[-1]["changes"] == {"moved": 1}
    regression.of_boundary.save({("dense", "kv", "verdict"): "skip"})
    assert "without a reason" in next(regression.of_the_reasons())
    assert sorted(os.listdir(tmp_path)) == ["accepted.yaml", "boundary.csv", "table.csv"]


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
