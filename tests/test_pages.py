"""Pages as files, without a browser: what is in them, what they may do, what comes from where."""

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from browser.gallery import CHARTS, STEP
from browser.pages import PAGES, build
from html_page import at, read_page

from infopt.cli import run
from infopt.reports.pages.blocks import Section, code, datum, details, facts, listing, section, table, verdict
from infopt.reports.pages.charts import Chart, chart_dict, chart_rows
from infopt.reports.pages.page import CHART_SCRIPTS, DATA, Page, page_text

MOST_BYTES = 1_500_000
EVIL = "</script><script>alert(1)</script>\"'<!--&\u2028"
OURS = [path for path in DATA.iterdir() if path.suffix == ".js" and path.name != "echarts.min.js"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_one_small_file_with_the_figures_of_json(tmp_path: Path, name: str) -> None:
    made = build(PAGES[name], tmp_path)
    assert made.path.stat().st_size <= MOST_BYTES
    page = read_page(made.path)
    if page.result != made.printed:  # a long result is cut to what a page has room for, which is said
        assert part_of(page.result, made.printed)
        assert "--json" in page.text
    assert [(key, value) for key, value, _ in page.figures if value != at(made.printed, key)] == []
    assert sorted(page.charts) == sorted(str(attributes["id"]) for tag, attributes in page.tags if tag == "figure")
    addresses = [attributes[key] for _, attributes in page.tags for key in ("src", "href") if key in attributes]
    assert all(address and address.startswith("#") for address in addresses)
    assert {f"#{attributes['id']}" for _, attributes in page.tags if "id" in attributes} >= set(addresses)


def part_of(some: Any, all_of_it: Any) -> bool:
    """Whether every object has some of the keys of its counterpart, and everything else is equal."""
    if isinstance(some, dict):
        return all(key in all_of_it and part_of(value, all_of_it[key]) for key, value in some.items())
    if isinstance(some, list):
        return len(some) == len(all_of_it) and all(map(part_of, some, all_of_it))
    return some == all_of_it


def policy_of(text: str) -> dict[str, list[str]]:
    found = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found is not None
    return {words[0]: words[1:] for words in map(str.split, found[1].split(";"))}


def hashes(text: str, tag: str) -> list[str]:
    found = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S)
    return [f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'" for part in found]


def test_the_policy_allows_what_is_ours_and_nothing_else() -> None:
    text = page_text(Page("T", "c", {}, [verdict("pass", "A", "b")], (STEP,)))
    policy = policy_of(text)
    assert policy == {
        "default-src": ["'none'"],
        "script-src": hashes(text, "script"),
        "style-src-elem": hashes(text, "style"),
        "style-src-attr": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    assert len(policy["script-src"]) == len(CHART_SCRIPTS)


def test_a_page_without_charts_runs_nothing() -> None:
    text = page_text(Page("T", "c", {"a": 1}, [verdict("pass", "A", "b")]))
    assert policy_of(text)["script-src"] == ["'none'"]
    assert "<script>" not in text


def test_the_library_is_the_one_that_was_recorded() -> None:
    """tools/vendor_charts.py makes it; nobody edits it by hand."""
    recorded, name = (DATA / "echarts.min.js.sha256").read_text().split()
    library = (DATA / name).read_bytes()
    assert hashlib.sha256(library).hexdigest() == recorded
    text = library.decode("utf-8")
    for said in ("Apache ECharts 6.1.0", "Apache License, Version 2.0", "BSD 3-Clause", "Mike Bostock"):
        assert said in text.partition("*/")[0]


@pytest.mark.parametrize("path", [DATA / "echarts.min.js", *OURS], ids=lambda path: path.name)
def test_scripts_can_stand_in_a_page(path: Path) -> None:
    """Nothing in one ends it or is refused by the policy."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"</script|<!--", text, re.I)
    assert not re.search(r"\beval\(|new Function|\bimport\(|XMLHttpRequest|\bfetch\(", text)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_our_scripts_are_like_the_rest_of_the_house(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 400
    assert path.name not in CHART_SCRIPTS or max(map(len, lines)) <= 120
    assert "innerHTML" not in "".join(lines)  # texts are set as text


def test_every_block_escapes_what_it_is_given() -> None:
    made = [
        section(EVIL, code(EVIL), listing([EVIL]), note=EVIL),
        facts([(EVIL, EVIL)]),
        table([EVIL], [[EVIL]], EVIL),
        details(EVIL, datum(EVIL, 1.0, EVIL)),
        verdict(EVIL, EVIL, EVIL),
    ]
    text = page_text(Page(EVIL, EVIL, {EVIL: EVIL}, made))
    assert "<script>alert" not in text
    assert "<!--" not in text
    assert text.count("<script") == text.count("</script>") == 2  # the two blocks of data


def test_data_is_what_was_put_in(tmp_path: Path) -> None:
    path = tmp_path / "p.html"
    result = {"a": EVIL, "b": [1, 0.1, None, True]}
    path.write_text(page_text(Page("T", "c", result, [facts([("a", "b")])], (), {"more": [EVIL]})), encoding="utf-8")
    page = read_page(path)
    assert page.result == result
    assert page.blocks["more"] == [EVIL]
    with pytest.raises(ValueError, match="JSON"):
        page_text(Page("T", "c", {"a": float("nan")}, []))


def test_what_is_no_character_does_not_stop_a_page() -> None:
    assert "a?b" in page_text(Page("a\udcffb", "c", {}, []))


def test_links_to_sections_where_there_are_several() -> None:
    parts = [section(title) for title in ("One", "Two & <b>", "Three", "Four")]
    assert [part.id for part in parts] == ["part-one", "part-two-b", "part-three", "part-four"]
    assert '<a href="#part-two-b">Two &amp; &lt;b&gt;</a>' in page_text(Page("T", "c", {}, parts))
    assert "<nav" not in page_text(Page("T", "c", {}, parts[:3]))
    assert "<nav" not in page_text(Page("T", "c", {}, parts * 4))
    assert isinstance(parts[0], Section)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.id)
def test_a_chart_has_its_data_as_a_table(chart: Chart) -> None:
    columns, rows = chart_rows(chart)
    assert {len(row) for row in rows} <= {len(columns)}
    words = " ".join(cell for row in rows for cell in row)
    for series in chart_dict(chart)["series"]:
        names = series["name"] in " ".join(columns) or series["name"] in words or series["mark"] == "cell"
        assert names, series["name"]


WHERE = {
    "plan": ("plan", "--model", "8b", "--hw", "h100"),
    "choices": ("plan", "--model", "8b"),
    **{name: PAGES[name] for name in ("checklist", "boundary", "search", "simulate", "validate", "reproduce")},
    "gate": ("gate", "."),
}


@pytest.mark.parametrize("name", WHERE)
def test_a_place_that_cannot_be_written_is_told_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = {"-": "name a file", ".": "is a folder: name a file", "no/x.html": "there is no folder no"}
    for place, says in refused.items():
        assert run([*WHERE[name], "--html", place]) == 2
        out, error = capsys.readouterr()
        assert out == ""
        assert error.startswith(f"infopt: --html {place}: {says}")
        assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "other"),
    [
        *((name, "--plot") for name in ("plan", "boundary speculative", "search", "simulate", "validate")),
        ("validate", "--predictions"),
        ("gate", "--write-baseline"),
        ("search", "--emit=k8s --out"),
    ],
)
def test_a_page_has_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, other: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words = {**PAGES, **WHERE}[name]
    assert run([*words, *other.split(), "same.svg", "--html", "./same.svg"]) == 2
    assert "each needs a file of its own" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
