"""`validate` on the bundled speed measurements: what the project claims, and what it refuses to score."""

from pathlib import Path

import pytest

from infopt.errors import InfoptError
from infopt.reports.validate_report import as_dict, render
from infopt.studies.speed_checks import SUSPECT
from infopt.studies.speed_truth import BUNDLED_SPEED, COLUMNS
from infopt.studies.validate import SPEED_GROUPS, validate

SHARED = Path(__file__).resolve().parents[2] / "shared" / "truth" / "speed_truth.csv"


@pytest.fixture(scope="module")
def bundled():
    return validate(BUNDLED_SPEED)


def group(result, name):
    return next(score for score in result.groups if score.group == name)


@pytest.mark.parametrize(("name", "most"), [("served-dense", 0.12), ("served-moe", 0.15)])
def test_served_deployments(bundled, name, most):
    score = group(bundled, name)
    assert score.n >= 100
    assert score.mape <= most
    assert score.below_floor == 0
    assert 0.85 <= score.interval_coverage <= 0.95


@pytest.mark.parametrize(("name", "most"), [("e2e-dense", 0.12), ("e2e-moe", 0.16)])
def test_end_to_end_latency(bundled, name, most):
    assert group(bundled, name).mape <= most


def test_every_row_is_scored_or_has_a_reason(bundled):
    data = as_dict(bundled)
    assert data["scored"] + sum(data["skipped"].values()) == data["rows"]
    assert {score["group"] for score in data["groups"]} <= set(SPEED_GROUPS)


def edited(tmp_path, **changes):
    """A truth file of the first bundled row with some columns changed."""
    header, row = BUNDLED_SPEED.read_text(encoding="utf-8").splitlines()[:2]
    cells = dict(zip(COLUMNS, row.split(","), strict=True)) | changes
    path = tmp_path / "truth.csv"
    path.write_text(f"{header}\n{','.join(cells[name] for name in COLUMNS)}\n", encoding="utf-8")
    return path


def test_a_row_faster_than_its_bytes_is_suspect(tmp_path):
    result = validate(edited(tmp_path, value="0.001"))
    assert not result.scored
    assert result.suspects
    assert "suspect rows: " in render(result)
    assert [check.reason for check in result.checks] == [SUSPECT]


def test_unknown_names_are_reasons(tmp_path):
    assert "model" in next(iter(validate(edited(tmp_path, model="Nobody/Nothing-9B")).skipped))
    assert "hardware" in next(iter(validate(edited(tmp_path, gpu="abacus")).skipped))


def test_a_bad_number_names_its_line(tmp_path):
    with pytest.raises(InfoptError, match=r"truth\.csv:2: value 'fast' is not a number"):
        validate(edited(tmp_path, value="fast"))


def test_a_missing_column_is_named(tmp_path):
    path = tmp_path / "truth.csv"
    path.write_text("id,batch_or_concurrency\na,1\n", encoding="utf-8")
    with pytest.raises(InfoptError, match="column 'source' is missing"):
        validate(path)


@pytest.mark.skipif(not SHARED.is_file(), reason="the collection of measurements is not beside the project")
def test_coverage_of_the_collection():
    """At least 95 % of the served rows of at most 8 devices are scored."""
    result = validate(SHARED)
    served = [check for check in result.checks if check.group.startswith("served")]
    left_out = [
        check for check in served if check.reason and "8 devices" not in check.reason and "flag" not in check.reason
    ]
    scored = [check for check in served if not check.reason]
    assert len(scored) / (len(scored) + len(left_out)) >= 0.95
