"""`validate` on the bundled measurements: what the project claims, and refusals of bad files."""

import pytest

from infopt.errors import InfoptError
from infopt.reports.validate_report import as_dict, page
from infopt.studies.truth import BUNDLED_MEMORY, COLUMNS
from infopt.studies.validate import GROUPS, predictions_csv, validate


@pytest.fixture(scope="module")
def bundled():
    return validate(BUNDLED_MEMORY)


def group(result, name):
    return next(score for score in result.groups if score.group == name)


@pytest.mark.parametrize("name", ["kv-tokens", "concurrency"])
def test_tokens_and_concurrency_from_a_given_pool(bundled, name):
    score = group(bundled, name)
    assert score.n >= 40
    assert score.within_1pct >= 0.95
    assert score.exact >= 0.95


def test_needed_and_longest(bundled):
    """One published case asks for one layer more than its model has (cosmos-reason2-2b); it stays visible."""
    for name in ("needed", "max-length"):
        members = [c for c in bundled.scored if c.group == name]
        off = [c for c in members if c.error > 0.005]
        assert members
        assert {c.case_id for c in off} <= {"f58567173794"}


def test_blind_pool_of_the_swept_version(bundled):
    assert group(bundled, "blind-pool vllm 0.17-0.19 dense").mape <= 0.02
    assert group(bundled, "blind-pool vllm 0.17-0.19 mixture").mape <= 0.04


def test_failed_starts_come_out_as_failures(bundled):
    """Two starts failed at graph capture with memory the logs show as free: no ledger of shapes predicts them."""
    wrong = [c for c in bundled.scored if c.group == "start-verdict" and c.error]
    assert {c.case_id for c in wrong} <= {"jg-gpt-oss-20b-tp1pp1-8192", "jg-gpt-oss-20b-tp2pp1-8192"}


def test_nothing_is_dropped_in_silence(bundled):
    data = as_dict(bundled)
    assert data["scored"] + sum(data["skipped"].values()) == data["rows"]
    assert {score["group"] for score in data["groups"]} <= set(GROUPS)
    assert data["schema"] == "infopt/validate/1"


def test_predictions_hold_every_row(bundled):
    lines = predictions_csv(bundled).splitlines()
    assert lines[0] == "id,group,metric,measured,predicted,low,high,reason"
    assert len(lines) == len(bundled.checks) + 1


def test_the_report_says_what_was_left_out(bundled):
    text = page(bundled)
    assert "not scored:" in text
    assert "kv-tokens" in text
    assert max(len(line) for line in page(bundled).splitlines()) <= 80


def test_bad_truth_files(tmp_path):
    missing = tmp_path / "none.csv"
    with pytest.raises(InfoptError, match="cannot be read"):
        validate(missing)
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(InfoptError, match="column 'id' is missing"):
        validate(wrong)
    text = BUNDLED_MEMORY.read_text(encoding="utf-8").splitlines()[:2]
    row = text[1].split(",")
    row[COLUMNS.index("value")] = "many"
    wrong.write_text("\n".join([text[0], ",".join(row)]), encoding="utf-8")
    with pytest.raises(InfoptError, match=r"wrong\.csv:2: value 'many' is not a number"):
        validate(wrong)
