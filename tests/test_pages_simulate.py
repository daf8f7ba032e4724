"""`simulate --html`: figures are those of --json, curves are those of the requests, whatever the verdict."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from html_page import PageRead, check_figures, read_page
from hypothesis import given
from hypothesis import strategies as st

from infopt.cli import run
from infopt.simulation.outcome import DONE, LOST, Rows
from infopt.simulation.over_time import MOST_WINDOWS, SHARES, distribution, over_time

BASE = ("simulate", "--model", "8b", "--hw", "h100", "--isl", "1k", "--osl", "200", "--requests", "400")
LOSS = ("--replicas", "2", "--lose", "1@5s+10s", "--tenant", "paid=30%:0", "--tenant", "free=70%:1")
MOST_BYTES = 1_500_000
PAGES: dict[str, tuple[int, tuple[str, ...]]] = {
    "keeps up": (0, (*BASE, "--rate", "8/s", "--ttft", "1s", "--tpot", "50ms", "--interval")),
    "saturated": (1, (*BASE, "--rate", "60/s")),
    "misses": (1, (*BASE, "--rate", "8/s", "--ttft", "1ms")),
    "losses": (0, (*BASE, "--rate", "12/s", *LOSS)),
    "users": (0, (*BASE, "--users", "8", "--output-spread", "1")),
    "whole answers": (0, (*BASE, "--rate", "2/s", "--no-streaming")),
    "compared": (1, (*BASE, "--rate", "8/s", "--compare", "--chunk 256", "--max-num-seqs 8")),
    "one setting": (0, (*BASE, "--rate", "8/s", "--vary", "max-num-seqs=4,64", "--workers", "1")),
    "two settings": (
        0,
        (*BASE, "--rate", "8/s", "--ttft", "1s", "--vary", "chunk=2,512,2k", "--vary", "max-num-seqs=8,64"),
    ),
}


def written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int
) -> tuple[PageRead, Any]:
    """The page, and what --json printed beside it."""
    path = tmp_path / "page.html"
    assert run([*arguments, "--html", str(path), "--json"]) == status
    out, error = capsys.readouterr()
    assert error == ""
    assert path.stat().st_size < MOST_BYTES
    return read_page(path), json.loads(out)


@pytest.mark.parametrize("name", PAGES)
def test_figures_of_the_page_are_those_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, arguments = PAGES[name]
    page, printed = written(tmp_path, capsys, arguments, status)
    assert page.result == printed
    check_figures(page, printed)
    assert run([*arguments, "--json"]) == status
    assert json.loads(capsys.readouterr().out) == printed  # a page changes nothing


def test_the_page_says_what_the_verdict_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, kind, word in (("keeps up", "pass", "KEEPS UP"), ("saturated", "fail", "SATURATED")):
        page, printed = written(tmp_path, capsys, PAGES[name][1], PAGES[name][0])
        assert [a["class"] for tag, a in page.tags if tag == "p" and "verdict" in (a.get("class") or "")] == [
            f"verdict {kind}"
        ]
        assert f"{word}: {printed['verdict']['text']}" in page.text


def test_curves_are_those_of_the_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, printed = written(tmp_path, capsys, PAGES["saturated"][1], 1)
    samples = printed["samples"]
    running, waiting = page.charts["batch-over-time"]["series"]
    assert running["points"] == [list(pair) for pair in zip(samples["time_s"], samples["running"], strict=True)]
    assert waiting["points"] == [list(pair) for pair in zip(samples["time_s"], samples["waiting"], strict=True)]
    (kv,) = page.charts["kv-over-time"]["series"]
    assert [y for _, y in kv["points"]] == samples["kv_share"]


def test_a_saturated_system_has_no_distribution_of_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, _ = written(tmp_path, capsys, PAGES["saturated"][1], 1)
    assert "ttft-over-time" in page.charts
    assert "tpot-distribution" in page.charts
    assert "ttft-distribution" not in page.charts


def test_a_distribution_of_one_side_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, _ = written(tmp_path, capsys, PAGES["compared"][1], 1)
    (series,) = page.charts["ttft-distribution"]["series"]
    assert series["name"] == "A"
    assert page.charts["ttft-distribution"]["description"].endswith("Of A alone: the other one has no such times.")
    assert "alone" not in page.charts["tpot-distribution"]["description"]


def test_distributions_hold_the_percentiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, printed = written(tmp_path, capsys, PAGES["keeps up"][1], 0)
    for name in ("ttft", "tpot"):
        chart, told = page.charts[f"{name}-distribution"], printed[f"{name}_s"]
        found = {share: time_s for time_s, share in chart["series"][0]["points"]}
        for share, part in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (1.0, "most")):
            assert found[share] == pytest.approx(told[part], rel=1e-12)
        assert [line["value"] for line in chart["lines"]] == [printed["targets"][f"{name}_s"]]


def test_losses_are_lines_of_every_curve_over_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, _ = written(tmp_path, capsys, PAGES["losses"][1], 0)
    for id in ("ttft-over-time", "batch-over-time", "tokens-over-time"):
        lines = [line for line in page.charts[id]["lines"] if line["axis"] == "x"]
        assert [(line["value"], line["label"]) for line in lines] == [(5.0, "replica 1 fails")]


def test_whole_answers_have_no_time_between_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, _ = written(tmp_path, capsys, PAGES["whole answers"][1], 0)
    assert "tpot-over-time" not in page.charts
    assert "tpot-distribution" not in page.charts


def test_a_grid_of_two_settings_is_a_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, printed = written(tmp_path, capsys, PAGES["two settings"][1], 0)
    chart = page.charts["grid-simulation-goodput_per_s"]
    assert chart["kind"] == "heat"
    cells = {(x, y): value for x, y, value in chart["series"][0]["points"]}
    for row in printed["rows"]:
        simulation = row["simulation"]
        told = None if simulation is None else simulation["goodput_per_s"]
        assert cells[row["values"]["chunk"], row["values"]["max-num-seqs"]] == told
    assert any(row["error"] for row in printed["rows"])  # chunks of two tokens
    assert "Could not be simulated" in page.text


def test_a_grid_without_any_result_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, printed = written(tmp_path, capsys, (*BASE, "--rate", "8/s", "--vary", "chunk=2,3"), 2)
    assert all(row["simulation"] is None for row in printed["rows"])
    assert page.charts == {}


def test_a_trace_with_prefixes_has_its_caches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("simulate", "--model", "70b", "--hw", "h100:8", "--trace", "mooncake", "--rate", "1/s")
    page, printed = written(tmp_path, capsys, (*arguments, "--leave-out-long", "--requests", "300"), 0)
    points = page.charts["prefix-hits"]["series"][-1]["points"]
    told = [(one["bytes_per_gpu"], one["hit_share"]) for one in printed["prefix"]["capacities"]]
    assert [tuple(point[:2]) for point in points] == [one for one in told if one[0] > 0]


@pytest.mark.parametrize(
    ("file", "told"),
    [("missing/page.html", "no folder"), (".", "folder")],
)
def test_files_that_cannot_be_written_are_told_before_anything_is_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, told: str
) -> None:
    assert run([*BASE, "--rate", "8/s", "--html", str(tmp_path / file)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert told in error


def rows_of(requests: list[tuple[float, float, float, int]]) -> Rows:
    rows = Rows()
    for sent_s, ttft_s, tpot_s, end in requests:
        rows.sent_s.append(sent_s)
        rows.ttft_s.append(ttft_s)
        rows.tpot_s.append(tpot_s)
        rows.end.append(end)
    return rows


SECONDS = st.floats(0.001, 100.0)
REQUESTS = st.lists(
    st.tuples(
        st.floats(0.0, 1000.0), SECONDS, st.one_of(SECONDS, st.just(float("nan"))), st.sampled_from([DONE, LOST])
    ),
    max_size=300,
)


@given(REQUESTS)
def test_windows_hold_every_answered_request_once(requests: list[tuple[float, float, float, int]]) -> None:
    found = over_time(rows_of(requests))
    answered = sorted((sent_s, ttft_s) for sent_s, ttft_s, _, end in requests if end == DONE)
    assert 1 <= len(found.time_s) == len(found.ttft_s.p50) <= MOST_WINDOWS
    assert found.every_s * len(found.time_s) == pytest.approx(answered[-1][0] if answered else 0.0)
    for number, middle_s in enumerate(found.time_s):
        low_s, high_s = middle_s - found.every_s / 2, middle_s + found.every_s / 2
        # The ends of a window are rounded: requests that lie on them may be on either side.
        inside = [ttft_s for sent_s, ttft_s in answered if low_s + 1e-9 < sent_s < high_s - 1e-9]
        around = [ttft_s for sent_s, ttft_s in answered if low_s - 1e-9 <= sent_s <= high_s + 1e-9]
        p50, p99 = found.ttft_s.p50[number], found.ttft_s.p99[number]
        if p50 is None or p99 is None:
            assert not inside
            continue
        assert min(around) <= p50 <= p99 <= max(around)
        if len(inside) == len(around):
            assert p50 == pytest.approx(np.percentile(inside, 50))


@given(REQUESTS, st.floats(0.0, 1000.0))
def test_distributions_are_of_the_measured_requests(
    requests: list[tuple[float, float, float, int]], from_s: float
) -> None:
    found = distribution(rows_of(requests), from_s)
    told = [ttft_s for sent_s, ttft_s, _, end in requests if end == DONE and sent_s >= from_s]
    assert len(found.ttft_s) == (len(SHARES) if told else 0)
    if told:
        assert list(found.ttft_s) == sorted(found.ttft_s)
        assert (found.ttft_s[0], found.ttft_s[-1]) == (min(told), max(told))
