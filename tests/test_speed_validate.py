"""`validate` on the bundled speed measurements: what the project claims, and what it refuses to score."""

import csv
from pathlib import Path

import pytest

from infopt.cli import run
from infopt.errors import InfoptError
from infopt.reports.validate_report import as_dict, page
from infopt.studies.speed_checks import SUSPECT
from infopt.studies.speed_truth import BUNDLED_SPEED, COLUMNS, published_device
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


@pytest.mark.parametrize(
    ("name", "most", "rows"),
    [("single-stream", 0.10, 400), ("max-load", 0.22, 250), ("speculation", 0.10, 30), ("speculation-steps", 0.15, 15)],
)
def test_local_engines_full_load_and_speculation(bundled, name, most, rows):
    score = group(bundled, name)
    assert score.n >= rows
    assert score.mape <= most
    assert score.below_floor == 0
    assert score.interval_coverage >= 0.85


def test_speculation_is_within_15_percent_and_its_verdicts_are_right(bundled):
    """Both ways to a cycle: the source's own and the steps of model and device; a gain of 10 % and any gain at all."""
    checks = [check for check in bundled.scored if check.group.startswith("speculation")]
    assert {check.group for check in checks} == {"speculation", "speculation-steps"}
    assert max(group(bundled, name).median_ape for name in ("speculation", "speculation-steps")) <= 0.15
    for least in (1.0, 1.1):
        right = sum((check.predicted >= least) == (check.measured >= least) for check in checks)
        assert right >= 0.9 * len(checks)


def test_first_tokens_lie_within_their_range(bundled):
    """At least 80 % of them, in ranges whose ends are at most a factor of 3 apart."""
    checks = [check for check in bundled.scored if check.group == "prefill"]
    assert len(checks) >= 300
    assert all(check.high <= 3.01 * check.low for check in checks)
    assert group(bundled, "prefill").interval_coverage >= 0.80


@pytest.mark.parametrize(("name", "most"), [("e2e-dense", 0.12), ("e2e-moe", 0.16)])
def test_end_to_end_latency(bundled, name, most):
    assert group(bundled, name).mape <= most


def test_every_row_is_scored_or_has_a_reason(bundled):
    data = as_dict(bundled)
    assert data["scored"] + sum(data["skipped"].values()) == data["rows"]
    assert {score["group"] for score in data["groups"]} <= set(SPEED_GROUPS)


def edited(tmp_path, **changes):
    """A truth file of one served row of the bundled ones with some columns changed."""
    with BUNDLED_SPEED.open(encoding="utf-8", newline="") as handle:
        cells = next(
            row for row in csv.DictReader(handle) if row["id"].startswith("aic") and row["metric"] == "tpot_ms"
        )
    path = tmp_path / "truth.csv"
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS)
        writer.writeheader()
        writer.writerow(cells | changes)
    return path


def test_a_row_faster_than_its_bytes_is_suspect(tmp_path):
    result = validate(edited(tmp_path, value="0.001"))
    assert not result.scored
    assert result.suspects
    assert "suspect rows: " in page(result)
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


def test_a_label_with_a_cap_or_cores_is_its_device():
    assert published_device("A100-SXM-80GB(330W)").id == "a100-sxm-80gb"
    assert published_device("M1 Max 32\u2011Core GPU 64GB").id == "apple-m1-max-64gb"
    assert published_device("M4 Max 40c").bandwidth_bytes_per_s == 546e9
    assert published_device("MI250X-1GCD").id == "mi250x-gcd"


@pytest.mark.skipif(not SHARED.is_file(), reason="the collection of measurements is not beside the project")
def test_coverage_of_the_collection():
    """At least 95 % of the rows are scored, of served ones those of at most 8 devices."""
    result = validate(SHARED)
    served = [check for check in result.checks if check.group.startswith("served")]
    left_out = [
        check for check in served if check.reason and "8 devices" not in check.reason and "flag" not in check.reason
    ]
    scored = [check for check in served if not check.reason]
    assert len(scored) / (len(scored) + len(left_out)) >= 0.95


def test_a_plot(tmp_path, capsys):
    target = tmp_path / "speed.svg"
    status = run(["validate", "--truth", str(edited(tmp_path)), "--plot", str(target)])
    assert status == 0, capsys.readouterr().err
    first = target.read_text(encoding="utf-8")
    assert "<svg" in first
    run(["validate", "--truth", str(edited(tmp_path)), "--plot", str(target)])
    assert target.read_text(encoding="utf-8") == first


@pytest.mark.parametrize("name", ["speed.txt", "nowhere/speed.svg"])
def test_a_plot_that_cannot_be_written_is_one_line(tmp_path, capsys, name):
    assert run(["validate", "--truth", str(edited(tmp_path)), "--plot", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
