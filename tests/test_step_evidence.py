"""What a ledger calibrated with few steps is worth, on steps that bench/calibrated_ledger.py measured on a CPU."""

from pathlib import Path

import pytest

from infopt.studies.step_evidence import (
    KNOWN,
    LARGE,
    SMALL,
    Row,
    aspect_of,
    markdown,
    predictions,
    read_evidence,
    rows,
    write_evidence,
)

EVIDENCE = Path(__file__).parent / "data" / "calibrated_ledger.json"
# Median errors that calibrating with one context and the batches of one size may leave.
LIMITS = {
    ("bf16", "size between"): 0.10,
    ("fp32", "size between"): 0.15,
    ("bf16", "other context"): 0.10,
    ("fp32", "other context"): 0.15,
    ("bf16", "batch of another size"): 0.20,
    ("fp32", "batch of another size"): 0.20,
}


@pytest.fixture(scope="module")
def evidence():
    return read_evidence(EVIDENCE)


@pytest.fixture(scope="module")
def found(evidence):
    return rows(evidence.runs)


@pytest.mark.parametrize(("weights", "aspect"), LIMITS)
def test_untouched_steps_are_predicted(found, weights, aspect):
    of = [row for row in found if (row.weights, row.aspect) == (weights, aspect)]
    assert of
    assert {row.known for row in of} >= {"batches of the small", "all of both"}
    for row in of:
        assert row.median <= LIMITS[weights, aspect], row


def test_intervals_hold_what_was_measured(found):
    assert all(row.inside == 1 for row in found if row.aspect == "size outside")
    steps = sum(row.steps for row in found)
    assert sum(row.inside * row.steps for row in found) / steps > 0.85


def test_a_model_outside_gets_a_wider_interval(evidence):
    widths = {"size outside": [], "size between": []}
    for p in predictions([s for s in evidence.runs[0] if s.weights == "bf16"], "batches of the small"):
        if p.aspect in widths and p.step.context_tokens == 256:
            widths[p.aspect].append((p.high_s - p.low_s) / p.predicted_s)
    assert min(widths["size outside"]) > 1.3 * max(widths["size between"])


def test_nothing_is_predicted_that_was_calibrated_with(evidence):
    for known in KNOWN:
        calibrated = [s for s in evidence.runs[0] if s.tokens == 1 and aspect_of(s, known) is None]
        assert {s.model for s in calibrated} == {SMALL, LARGE}
        assert not set(calibrated) & {p.step for p in predictions(evidence.runs[0], known)}
        if known != "all of both":
            assert {s.context_tokens for s in calibrated} == {256}
            assert len({s.model for s in calibrated if s.batch > 1}) == 1


def test_evidence_is_kept_as_it_is(evidence, tmp_path):
    write_evidence(evidence, tmp_path / "kept.json")
    assert read_evidence(tmp_path / "kept.json") == evidence


def test_the_table_names_its_runs():
    row = Row("bf16", "size between", "batches of the small", 6, (0.01, 0.03, 0.02), 0.05, 1.0)
    assert markdown([row])[-1] == "| bf16 | size between | one context | 6 | 2.0% | 1.0% to 3.0% | 5.0% | 100% |"
