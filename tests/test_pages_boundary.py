"""`boundary --html`: figures are those of --json, maps and curves those of the study, whatever the verdict."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from html_page import PageRead, answered, check_figures, page_and_json

from infopt.boundaries.registry import techniques
from infopt.boundaries.roots import FLIPS_AT_MOST
from infopt.boundaries.technique import VERDICTS
from infopt.cli import run

LOAD = ("--isl", "2000", "--osl", "300", "--batch", "32")
DENSE = ("--model", "8b", "--hw", "h100", *LOAD)
KNOWN = ("--rate", "8/s", "--shared-prefix", "1000", "--alpha", "0.6", "--adapters", "4", "--tpot", "40ms")
# name -> exit status, arguments
PAGES: dict[str, tuple[int, tuple[str, ...]]] = {
    "all": (0, ("boundary", *DENSE)),
    "everything known": (0, ("boundary", *DENSE, *KNOWN)),
    "in use": (0, ("boundary", *DENSE, "--with", "kv-fp8,weights-fp8")),
    "does not fit": (0, ("boundary", "--model", "70b", "--hw", "h100:1", *LOAD)),
    "mixture": (0, ("boundary", "--model", "deepseek-v3", "--hw", "h200:8", *LOAD)),
    "no constants": (0, ("boundary", "--model", "8b", "--hw", "custom:80GB:3.35TB/s", *LOAD)),
    "use": (0, ("boundary", "speculative", *DENSE, "--alpha", "0.7")),
    "measure": (4, ("boundary", "speculative", *DENSE)),
    "impossible": (1, ("boundary", "speculative", "--model", "70b", "--hw", "h100:1", *LOAD, "--alpha", "0.7")),
    "one quantity": (4, ("boundary", "application-caches", *DENSE)),
    "infinite figure": (0, ("boundary", "kv-offload", *DENSE, "--offload", "nvme", "--reuse-share", "0")),
    "trace": (0, ("boundary", "prefix", "--model", "8b", "--hw", "h100", "--batch", "16", "--trace", "mooncake")),
}


@cache
def written(name: str) -> tuple[PageRead, Any]:
    """The page, and what --json printed beside it."""
    return page_and_json(*PAGES[name])


def verdict_of(page: PageRead) -> str:
    (one,) = [a["class"] or "" for tag, a in page.tags if tag == "p" and "verdict" in (a.get("class") or "")]
    return one.removeprefix("verdict ")


@pytest.mark.parametrize("name", PAGES)
def test_figures_of_the_page_are_those_of_json(name: str) -> None:
    page, printed = written(name)
    assert page.result == printed
    check_figures(page, printed)


@pytest.mark.parametrize("name", ["everything known", "use", "trace"])
def test_a_page_changes_nothing(name: str) -> None:
    status, arguments = PAGES[name]
    assert answered(arguments) == (status, written(name)[1])


@pytest.mark.parametrize("name", ["everything known", "mixture"])
def test_every_technique_stands_in_full(name: str) -> None:
    page, printed = written(name)
    keys = {key for key, _, _ in page.figures}
    for i, one in enumerate(printed["techniques"]):
        assert one["name"] in page.text
        assert one["reason"] in page.text
        assert all(cost in page.text for cost in one["costs"])
        assert (f"techniques.{i}.gain_ratio" in keys) == (one["gain_ratio"] is not None)
        assert {f"techniques.{i}.figures.{j}.value" for j in range(len(one["figures"]))} <= keys
        flips = [j for j, flip in enumerate(one["break_even"]) if flip["value"] is not None]
        assert {f"techniques.{i}.break_even.{j}.value" for j in flips} <= keys


def test_a_technique_has_a_map_or_the_reason_why_not() -> None:
    page, _ = written("everything known")
    for one in techniques():
        told = f"{one.name} has no map" in page.text or f"{one.name} has one verdict" in page.text
        assert (f"map-{one.id}" in page.charts) != told, one.id


@pytest.mark.parametrize("name", ["all", "everything known", "mixture"])
def test_maps_show_where_verdicts_differ(name: str) -> None:
    page, printed = written(name)
    verdicts = {one["technique"]: one["verdict"] for one in printed["techniques"]}
    maps = [chart for id, chart in page.charts.items() if id.startswith("map-")]
    assert maps
    for chart in maps:
        cells = {(x, y): v for s in chart["series"] if s["mark"] == "cell" for x, y, v in s["points"]}
        assert len(cells) == len(chart["x"]["categories"]) * len(chart["y"]["categories"])
        assert set(cells.values()) <= set(VERDICTS)
        assert len(set(cells.values())) > 1
        for series in chart["series"]:
            if series["name"] == "now":
                ((x, y),) = series["points"]
                assert cells[x, y] == verdicts[chart["id"].removeprefix("map-")]


def test_gains_are_coloured_by_verdict() -> None:
    page, printed = written("everything known")
    drawn = {name: (s["name"], value) for s in page.charts["gains"]["series"] for name, _, value, _ in s["points"]}
    known = [one for one in printed["techniques"] if one["gain_ratio"] is not None]
    assert drawn == {one["name"]: (one["verdict"], one["gain_ratio"]) for one in known}


def test_curves_have_their_flips_and_the_present_value() -> None:
    page, printed = written("use")
    flips = [flip for flip in printed["techniques"][0]["break_even"] if flip["value"] is not None]
    assert 0 < len(flips) <= FLIPS_AT_MOST * 4
    for flip in flips:
        lines = page.charts[f"curve-{flip['quantity']}"]["lines"]
        assert flip["value"] in [line["value"] for line in lines if line["role"] == "target"]
        assert flip["current"] in [line["value"] for line in lines if line["role"] == "chosen"]


def test_the_verdict_at_the_top() -> None:
    expected = {
        "all": "pass",
        "does not fit": "fail",
        "use": "pass",
        "measure": "open",
        "impossible": "fail",
        "trace": "open",
    }
    assert {name: verdict_of(written(name)[0]) for name in expected} == expected


def test_a_trace_brings_its_section() -> None:
    page, printed = written("trace")
    rooms = printed["prefix_trace"]["capacities"]
    (sizes,) = [s for s in page.charts["prefix-hits"]["series"] if s["role"] == "chosen"]
    assert sizes["points"] == [[room["bytes_per_gpu"], room["hit_share"], room["name"]] for room in rooms]
    assert {s["name"] for s in page.charts["prefix-found"]["series"]} <= {room["name"] for room in rooms}


def test_one_curve_and_a_page_are_not_asked_for_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.html"
    assert run(["boundary", "kv", *DENSE, "--vary", "batch=1:9", "--html", str(path)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error == "infopt: --vary prints one curve: leave it out with --html, whose page has every curve\n"
    assert not path.exists()


@pytest.mark.parametrize("command", [("boundary", *DENSE), ("search", "--model", "8b", "--isl", "1k", "--osl", "200")])
@pytest.mark.parametrize(("file", "told"), [("no/page.html", "there is no folder"), (".", "is a folder: name a file")])
def test_a_page_that_cannot_be_written_is_told_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], file: str, told: str
) -> None:
    assert run([*command, "--html", str(tmp_path / file)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"infopt: --html {tmp_path / file}: {told}")
    assert error.count("\n") == 1
