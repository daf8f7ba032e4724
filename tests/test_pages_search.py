"""`search --html`: figures are those of --json, points those of the front, also where nothing meets the targets."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from html_page import MOST_BYTES, PageRead, check_figures, page_and_json, read_page

from infopt.profiles.resolve import resolve_model
from infopt.reports.pages.page import page_text
from infopt.reports.pages.search_overview import CUT, MOST_ROWS, search_page
from infopt.reports.search_report import as_dict
from infopt.studies.scenarios import Request
from infopt.studies.search import Search, Targets, search
from infopt.studies.search_points import beaten, fastest
from infopt.studies.search_space import all_devices

LENGTHS = ("--isl", "1k", "--osl", "256")
SMALL = ("search", "--model", "8b", *LENGTHS)
BOTH = ("--ttft", "300ms", "--tpot", "20ms")
# The means just keep the targets; bursts do not.
TIGHT = ("--rate", "12/s", "--ttft", "152ms", "--tpot", "11ms", "--hw", "h200:1", "--weights", "bf16", "--kv", "bf16")
# name -> exit status, arguments
PAGES: dict[str, tuple[int, tuple[str, ...]]] = {
    "one device": (0, (*SMALL, *BOTH, "--rate", "12/s", "--hw", "h200")),
    "every device": (0, ("search", "--model", "gpt-oss-120b", *LENGTHS, "--tpot", "20ms", "--rate", "12/s")),
    "no rate": (0, (*SMALL, "--hw", "h100,h200")),
    "no price": (0, (*SMALL, "--rate", "2/s", "--hw", "b100")),
    "mixture": (0, ("search", "--model", "deepseek-v3", *LENGTHS, "--rate", "5/s", "--hw", "h200", "--tpot", "50ms")),
    "row": (0, (*SMALL, *BOTH, "--rate", "12/s", "--hw", "h200", "--row", "3")),
    "explained": (0, (*SMALL, *BOTH, "--rate", "12/s", "--hw", "h200", "--explain")),
    "nothing": (1, (*SMALL, "--tpot", "1ms", "--rate", "12/s", "--hw", "h200")),
    "too large": (1, ("search", "--model", "deepseek-v3", *LENGTHS, "--hw", "h100", "--max-gpus", "1")),
    "simulated": (0, (*SMALL, *BOTH, "--rate", "12/s", "--hw", "h200:2", "--simulate", "--workers", "1")),
    "none holds": (1, (*SMALL, *TIGHT, "--simulate", "--simulate-burstiness", "3", "--workers", "1")),
}


@cache
def written(name: str) -> tuple[PageRead, Any]:
    """The page, and what --json printed beside it."""
    return page_and_json(*PAGES[name])


@pytest.mark.parametrize("name", PAGES)
def test_figures_of_the_page_are_those_of_json(name: str) -> None:
    page, printed = written(name)
    assert page.result == printed
    if "front" in printed and not printed["front"]:
        assert page.figures == []
        return
    check_figures(page, printed)


@pytest.mark.parametrize("name", ["one device", "every device", "mixture"])
def test_every_row_has_its_figures_and_its_command(name: str) -> None:
    page, printed = written(name)
    keys = {key for key, _, _ in page.figures}
    for i, one in enumerate(printed["front"]):
        assert f"front.{i}.estimate.tpot_s" in keys
        assert f"front.{i}.usd_per_million_output_tokens" in keys
        assert f"# row {one['rank']}: " in page.text
        assert f"\n{one['command']}" in page.text


@pytest.mark.parametrize("name", ["one device", "every device", "no price", "mixture"])
def test_points_are_the_rows(name: str) -> None:
    page, printed = written(name)
    for id, pick in (
        ("front-speed", lambda one: one["output_tokens_per_s_per_gpu"]),
        ("front-latency", lambda one: one["estimate"]["ttft_s"]),
        ("front-cost", price_or_devices(printed)),
    ):
        drawn = {p[2]: p[:2] for s in page.charts[id]["series"] for p in s["points"] if len(p) > 2}
        rows = {str(one["rank"]): [one["estimate"]["tpot_s"], pick(one)] for one in printed["front"]}
        assert drawn == {n: pytest.approx(pair, rel=1e-9) for n, pair in rows.items() if pair[1] is not None}
        (chosen,) = [s for s in page.charts[id]["series"] if s["role"] == "chosen"]
        assert [point[2] for point in chosen["points"]] == ["1"]


def price_or_devices(printed: Any) -> Any:
    key = "usd_per_million_output_tokens"
    return lambda one: one[key if any(row[key] is not None for row in printed["front"]) else "gpus"]


def test_targets_are_lines() -> None:
    page, _ = written("one device")
    lines = {(line["axis"], line["value"]) for line in page.charts["front-latency"]["lines"]}
    assert lines == {("x", 0.02), ("y", 0.3)}


def test_what_binds_is_said_and_drawn() -> None:
    for name in ("nothing", "too large"):
        page, printed = written(name)
        assert f"Nothing meets the targets: {printed['binding']}" in page.text
    page, _ = written("nothing")
    points = [point for series in page.charts["nearest"]["series"] for point in series["points"]]
    assert points
    assert all(tpot_s > 1e-3 for tpot_s, _ in points)


def test_simulated_tails_are_bars_against_the_targets() -> None:
    page, printed = written("simulated")
    for name, target_s in (("ttft", 0.3), ("tpot", 0.02)):
        chart = page.charts[f"tails-{name}"]
        assert [line["value"] for line in chart["lines"]] == [target_s]
        for series in chart["series"]:
            for row, p99_s in series["points"]:
                one = printed["front"][int(row.split()[1]) - 1]["simulated"]
                assert p99_s == one[f"{name}_p99_s"]
                assert series["role"] == ("good" if one["holds"] else "bad")


def test_no_row_that_holds_is_no_recommendation() -> None:
    page, printed = written("none holds")
    assert printed["simulated"]["holding"] == []
    assert "No row holds in simulation" in page.text


@cache
def large() -> Search:
    """One replica of anything at any concurrency: hundreds of rows."""
    request = Request(input_tokens=1024, output_tokens=256)
    return search(resolve_model("8b"), request, all_devices(), Targets())


def test_a_front_too_large_for_a_page_is_cut_and_that_is_said(tmp_path: Path) -> None:
    result = large()
    data, path = as_dict(result), tmp_path / "page.html"
    assert len(data["front"]) > MOST_ROWS
    path.write_text(page_text(search_page(result, "infopt search")), encoding="utf-8")
    assert path.stat().st_size < MOST_BYTES
    page = read_page(path)
    check_figures(page, data)
    assert f"{len(data['front']) - MOST_ROWS} more rows are on the front" in page.text
    assert CUT in page.text
    kept = page.result["front"]
    assert len(kept) == MOST_ROWS
    assert all(row.items() >= lean.items() for row, lean in zip(data["front"], kept, strict=False))
    points = [point for series in page.charts["front-speed"]["series"] for point in series["points"] if len(point) > 2]
    assert len(points) == len(data["front"])


def test_beaten_deployments_are_within_the_targets_and_not_on_the_front() -> None:
    targets = Targets(ttft_s=0.3, tpot_s=0.02, rate_per_s=12.0)
    result = search(resolve_model("8b"), Request(input_tokens=1024, output_tokens=256), all_devices(), targets)
    found, kinds = list(beaten(result)), set()
    for d in found:
        assert d.ttft_s <= 0.3
        assert d.tpot_s <= 0.02
        assert not any(d.replica is one.replica and d.replicas == one.replicas for one in result.front)
        kinds.add(d.replica.kind)
    assert len(kinds) == len(found) > 0
    assert all(one.replica.times is not None for one in fastest(result))
