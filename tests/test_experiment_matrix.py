"""`experiment matrix`: the cells, what holds and what breaks first, what is not shown."""

import csv
import json
from dataclasses import replace
from io import StringIO
from typing import Any

import jsonschema
import pytest

from infopt.arrivals.matrix import Cell, matrix_cell, matrix_cells
from infopt.cli import run
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.reports.schemas import schema_text
from infopt.simulation.summary import Targets
from infopt.studies.experiment_matrix import MOST_REQUESTS, Matrix, Row, base_job, base_targets, cell_job, matrix
from infopt.studies.scenarios import Request
from infopt.studies.simulate import Choices, Job

QUICK = ("short-short", "bursty", "steady", "high-shared-prefix", "non-streaming", "cancellation")


def base(hw: str = "h100", targets: Targets | None = None, **asked: Any) -> Job:
    request = Request(**asked)
    return base_job(resolve_model("8b"), resolve_hardware(hw), request, Choices(), targets, None)


def cells(*names: str) -> list[Cell]:
    return [matrix_cell(name) for name in names]


def study(*names: str, rate_per_s: float = 8.0, requests: int = 600, **asked: Any) -> Matrix:
    return matrix(base(**asked), cells(*names), rate_per_s, requests, workers=1)


@pytest.fixture(scope="module")
def quick() -> dict[str, Row]:
    return {row.cell.id: row for row in study(*QUICK).rows}


def test_targets_are_those_of_the_base_unless_given() -> None:
    own, share = base_targets()
    assert (base().targets, base().good_share) == (own, share)
    given = Targets(ttft_s=1.0)
    assert (base(targets=given).targets, base(targets=given).good_share) == (given, 0.9)


def test_cells_differ_by_their_traffic_alone() -> None:
    one = base()
    jobs = {cell.id: cell_job(one, cell, 2.0, 100, 0) for cell in matrix_cells()}
    for job in jobs.values():
        assert (job.model, job.hardware) == (one.model, one.hardware)
        assert replace(job.request, input_tokens=None, output_tokens=None) == one.request
    served = {(job.choices.streaming, job.choices.by_priority) for job in jobs.values()}
    assert served == {(True, False), (False, False), (True, True)}
    assert jobs["multi-tenant"].choices.by_priority
    assert jobs["non-streaming"].targets == Targets(None, None, one.targets.e2e_s)


def test_what_is_spread_over_time_breaks_later(quick: dict[str, Row]) -> None:
    """The same requests a second: bursts miss the targets where an even stream has room."""
    good = {name: row.simulation.good_share for name, row in quick.items() if row.simulation}
    assert good["bursty"] < good["short-short"]
    assert good["steady"] >= good["short-short"]
    assert quick["bursty"].verdict == "misses"
    assert quick["steady"].verdict == "holds"


def test_a_shared_prefix_gives_room(quick: dict[str, Row]) -> None:
    assert (quick["high-shared-prefix"].headroom_ratio or 0) > 1.2 * (quick["short-short"].headroom_ratio or 9)


def test_priority_serves_one_tenant_sooner() -> None:
    """Where requests wait: near saturation."""
    simulation = study("multi-tenant", rate_per_s=24.0).rows[0].simulation
    assert simulation is not None
    first, others = simulation.summary.tenants
    assert first.ttft_s is not None
    assert others.ttft_s is not None
    assert 1.2 * first.ttft_s.p99 < others.ttft_s.p99


def test_headroom_is_the_most_over_the_rate(quick: dict[str, Row]) -> None:
    row = quick["short-short"]
    assert row.simulation is not None
    assert row.headroom_ratio == pytest.approx((row.simulation.saturation_per_s or 0) / 8.0)


def test_the_first_to_break_has_the_least_headroom() -> None:
    broken = study("short-short", "long-short", "long-long", rate_per_s=4.0, requests=300)
    assert broken.holds is False
    assert broken.breaks_first is not None
    ratios = {row.cell.id: row.headroom_ratio for row in broken.rows if row.verdict != "holds"}
    assert broken.breaks_first.cell.id == min(ratios, key=lambda name: ratios[name] or 0.0) == "long-long"
    calm = study("short-short", "high-shared-prefix", rate_per_s=2.0, requests=300)
    assert calm.holds is True
    assert calm.breaks_first is not None
    assert calm.breaks_first.cell.id == "short-short"


def test_a_cell_for_which_a_run_is_too_short_runs_longer() -> None:
    """At 1/s 100 requests of long answers end before the first of them does."""
    row = study("short-long", rate_per_s=0.3, requests=50).rows[0]
    assert row.simulation is not None
    assert 50 < row.simulation.summary.requests <= MOST_REQUESTS


def test_requests_too_long_for_the_model_are_left_out_and_counted() -> None:
    row = study("long-long", rate_per_s=4.0, requests=1000).rows[0]
    assert row.simulation is not None
    assert row.simulation.left_out > 0


def test_what_has_no_step_times_is_not_known() -> None:
    found = study("short-short", "bursty", hw="l4")
    assert found.holds is None
    assert [row.verdict for row in found.rows] == ["no estimate"] * 2
    assert found.breaks_first is None


# The command

BASE = ("experiment", "matrix", "--model", "8b", "--hw", "h100", "--requests", "300", "--workers", "1")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--rate", "2/s", "--cell", "short-short", "--cell", "non-streaming"), 0),
        (("--rate", "4/s", "--cell", "short-short", "--cell", "long-long"), 1),
    ],
)
def test_json_follows_its_schema(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int) -> None:
    assert run([*BASE, *arguments, "--json"]) == status
    data = json.loads(capsys.readouterr().out)
    jsonschema.validate(data, json.loads(schema_text("experiment_matrix")), cls=jsonschema.Draft202012Validator)
    assert data["holds"] is (status == 0)


def test_undetermined_follows_the_schema_too(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "experiment",
        "matrix",
        "--model",
        "8b",
        "--hw",
        "l4",
        "--rate",
        "1/s",
        "--cell",
        "short-short",
        "--json",
    ]
    assert run(arguments) == 4
    data = json.loads(capsys.readouterr().out)
    jsonschema.validate(data, json.loads(schema_text("experiment_matrix")), cls=jsonschema.Draft202012Validator)


def test_csv_has_a_line_a_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*BASE, "--rate", "2/s", "--cell", "short-short", "--cell", "steady", "--format", "csv"]) == 0
    rows = list(csv.DictReader(StringIO(capsys.readouterr().out)))
    assert [row["cell"] for row in rows] == ["short-short", "steady"]
    assert all(float(row["ttft_p99_s"]) > 0 for row in rows)


def test_the_page_fits_and_says_what_is_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    cells = [word for name in ("short-short", "non-streaming", "cancellation") for word in ("--cell", name)]
    assert run([*BASE, "--rate", "2/s", *cells]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "NOT SHOWN" in out
    assert "would break first" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "8b", "--rate", "1/s"), "--hw is missing"),
        (("--model", "8b", "--hw", "h100"), "--rate is missing"),
        (("--model", "8b", "--hw", "h100", "--rate", "0/s"), "--rate"),
        (("--model", "8b", "--hw", "h100", "--rate", "1/s", "--cell", "nothing"), "unknown cell"),
        (("--model", "8b", "--hw", "h100", "--rate", "1/s", "--isl", "2k"), "has lengths of its own"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str) -> None:
    assert run(["experiment", "matrix", *arguments]) == 2
    printed = capsys.readouterr()
    assert says in printed.err
    assert not printed.out
