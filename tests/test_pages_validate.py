"""`validate --html` and `reproduce --html`: figures are those of --json, scatters hold every measurement."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
from html_page import PageRead, check_figures, read_page

from infopt.cli import run
from infopt.reports.pages.page import page_text
from infopt.reports.pages.validate_page import validate_page
from infopt.studies.scatter import ENDINGS, NEAR, farthest, scatters
from infopt.studies.speed_truth import BUNDLED_SPEED
from infopt.studies.truth import BUNDLED_MEMORY
from infopt.studies.validate import SPEED_GROUPS, Validation, validate

MOST_BYTES = 1_500_000


def written(path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[PageRead, Any]:
    """The page, and what --json printed beside it."""
    assert run([*arguments, "--html", str(path), "--json"]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    assert path.stat().st_size < MOST_BYTES
    return read_page(path), json.loads(out)


@pytest.fixture(scope="module")
def speed() -> Validation:
    return validate(BUNDLED_SPEED)


@pytest.mark.parametrize("truth", [None, BUNDLED_MEMORY, BUNDLED_SPEED])
def test_figures_of_the_page_are_those_of_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], truth: Path | None
) -> None:
    more = () if truth is None else ("--truth", str(truth))
    page, printed = written(tmp_path / "page.html", capsys, "validate", *more)
    assert page.result == printed
    check_figures(page, printed)
    told = {score["group"]: score for score in printed["groups"]}
    for name in ("speed", "memory"):
        if chart := page.charts.get(f"errors-{name}"):
            mean, median = chart["series"]
            assert dict(mean["points"]) == {group: told[group]["mape"] for group in chart["x"]["categories"]}
            assert dict(median["points"]) == {group: told[group]["median_ape"] for group in chart["x"]["categories"]}
    for reason, count in printed["skipped"].items():
        assert f"{count:,}{reason}" in page.text


def test_scatters_hold_every_row_of_speed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.csv"
    page, printed = written(tmp_path / "page.html", capsys, "validate", "--predictions", str(rows))
    scored: dict[str, list[tuple[float, float]]] = {}
    with rows.open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            if row["group"] in SPEED_GROUPS and not row["reason"]:
                base = 1e-3 if row["metric"].endswith("_ms") else 1.0
                pair = (float(row["measured"]) * base, float(row["predicted"]) * base)
                scored.setdefault(row["group"], []).append(pair)
    for group, pairs in scored.items():
        chart = page.charts[f"scatter-{group}"]
        assert [tuple(point) for point in chart["series"][2]["points"]] == pairs
        told = next(score for score in printed["groups"] if score["group"] == group)
        assert f"{round(told['within_20pct'] * told['n']):,} of {told['n']:,} within 20%" in page.text
        table = page.text.split(f"Data of this chart{group}")[1]
        assert table  # the data stands beside the picture


def test_every_metric_of_speed_has_a_unit(speed: Validation) -> None:
    assert {c.metric for c in speed.scored if not any(c.metric.endswith(ending) for ending, _, _ in ENDINGS)} == set()
    assert sum(len(one.points) for one in scatters(speed)) == len(speed.scored)


def test_bands_lie_around_the_diagonal(speed: Validation) -> None:
    for one in scatters(speed):
        for (x, y), (at, low, high) in zip(one.diagonal, one.near, strict=True):
            assert x == y == at
            assert (low, high) == (pytest.approx((1 - NEAR) * x), pytest.approx((1 + NEAR) * x))
        assert one.diagonal[0][0] == min(measured for measured, _ in one.points)


def test_the_farthest_are_the_worst_of_each_group(speed: Validation) -> None:
    found = farthest(speed, 2)
    for group in {check.group for check in found}:
        worst = [check.error for check in found if check.group == group]
        errors = sorted((c.error for c in speed.scored if c.group == group), reverse=True)
        assert worst == errors[:2]


def test_names_in_a_file_of_measurements_stay_texts(tmp_path: Path, speed: Validation) -> None:
    hostile = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    rows = BUNDLED_SPEED.read_text(encoding="utf-8").replace("gptfast-0051", hostile)
    truth, path = tmp_path / "<b>truth.csv", tmp_path / "page.html"
    truth.write_text(rows, encoding="utf-8")
    path.write_text(page_text(validate_page(validate(truth), f"infopt validate --truth {truth}")), encoding="utf-8")
    page = read_page(path)
    assert hostile in page.text
    assert "<b>truth.csv" in page.text
    assert not {"img", "b"} & {tag for tag, _ in page.tags}


def test_a_calibration_record_has_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "--calibration", str(tmp_path / "a.yaml"), "--html", str(tmp_path / "page.html")]) == 2
    assert "--html" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (tmp_path / "missing" / "page.html", tmp_path):
        assert run(["reproduce", "--html", str(file)]) == 2
        out, error = capsys.readouterr()
        assert out == ""
        assert error.count("\n") == 1
        assert str(file) in error
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("more", [(), ("--document", "2")])
def test_claims_of_the_page_are_those_of_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    page, printed = written(tmp_path / "page.html", capsys, "reproduce", *more)
    assert page.result == printed
    told = {key: (value, text) for key, value, text in page.figures}
    for number, item in enumerate(printed["items"]):
        assert told[f"items.{number}.ours"] == (item["ours"], item["ours_text"])
        assert told[f"items.{number}.theirs"] == (item["theirs"], item["theirs_text"])
        assert " ".join(item["statement"].split()) in " ".join(page.text.split())
    counted = {name: count for one in page.charts["claims"]["series"] for name, count in one["points"]}
    assert counted == {
        name: sum(item["status"] == name for item in printed["items"]) for name in ("agrees", "differs", "depends")
    }
