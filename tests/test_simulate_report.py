"""Pages of `infopt simulate`: golden pages, widths, Markdown, curves, words."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.cli import run
from infopt.reports import simulate_words as words
from infopt.reports.simulate_curves import spread

GOLDEN = Path(__file__).resolve().parent / "golden"
BASE = ("simulate", "--model", "8b", "--hw", "h100", "--isl", "1k", "--osl", "200", "--requests", "400")
TENANTS = ("--tenant", "paid=30%:0", "--tenant", "free=70%:1")
PAGES: list[tuple[str, int, tuple[str, ...]]] = [
    ("simulate_8b", 80, (*BASE, "--rate", "8/s", "--ttft", "1s", "--tpot", "50ms")),
    ("simulate_saturated", 80, (*BASE, "--rate", "40/s", "--curves")),
    (
        "simulate_tenants",
        60,
        (*BASE, "--rate", "18/s", "--replicas", "2", *TENANTS, "--lose", "1@5s+10s", "--ttft", "1s", "--interval"),
    ),
    ("simulate_compare", 80, (*BASE, "--rate", "8/s", "--compare", "--chunk 256", "--max-num-seqs 8")),
    ("simulate_markdown", 80, (*BASE, "--users", "8", "--output-spread", "1", "--format", "md")),
]


def printed(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    assert run(list(arguments)) in (0, 1)
    out, error = capsys.readouterr()
    assert error == ""
    return out


@pytest.mark.parametrize(("name", "width", "arguments"), PAGES, ids=[name for name, _, _ in PAGES])
def test_golden_page(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    width: int,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.argv", ["infopt", *arguments])
    text = printed(capsys, arguments)
    path = GOLDEN / f"{name}_{width}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("arguments", [page[2] for page in PAGES[:4]], ids=[page[0] for page in PAGES[:4]])
def test_no_line_is_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.argv", ["infopt", *arguments])
    text = printed(capsys, arguments)
    assert max(len(line) for line in text.splitlines()) <= width
    tables = re.findall(r"^  (?:TTFT|TPOT|paid|free|before|whole answer|with one away) .*$", text, re.MULTILINE)
    cut = [line for line in tables if not re.search(r"( u?m?s|%|/s|-|[<>=]|x|A|B)$", line)]
    assert not cut


def test_the_next_command_is_one_that_keeps_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (*BASE, "--rate", "40/s")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.argv", ["infopt", *arguments])
    assert run(list(arguments)) == 1
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  next"))
    suggested = line.split()[2:]
    assert suggested[-2] == "--replicas"
    assert run([*suggested[:-1], suggested[-1]]) == 0
    text = capsys.readouterr().out
    assert "KEEPS UP" in text


def test_the_picture_is_written_whole(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for ending in ("svg", "png"):
        path = tmp_path / f"curves.{ending}"
        printed(capsys, (*BASE, "--rate", "8/s", "--plot", str(path)))
        assert path.stat().st_size > 1000
    assert len(list(tmp_path.iterdir())) == 2


def test_curves_in_ascii_where_the_terminal_takes_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("curves", "terminal"):
        monkeypatch.setattr(f"infopt.reports.{module}.plain_characters", lambda: True)
    text = printed(capsys, (*BASE, "--rate", "40/s", "--curves"))
    curves = text.partition("running\n")[2].partition("assumed")[0]
    assert curves.isascii()
    assert "#" in curves


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.integers(1, 40))
def test_columns_of_a_curve_stay_between_its_ends(values: list[float], width: int) -> None:
    times = [float(at) for at in range(len(values))]
    columns = spread(times, values, width)
    assert len(columns) == width
    assert min(values) * (1 - 1e-9) <= min(columns)
    assert max(columns) <= max(values) * (1 + 1e-9)
    if width >= len(values) > 1:
        assert columns[0] == values[0]


@pytest.mark.parametrize(
    ("value", "text"), [(0.001, "0.00"), (9.994, "9.99"), (12.34, "12.3"), (123.4, "123"), (12345.0, "12,345")]
)
def test_numbers(value: float, text: str) -> None:
    assert words.number(value) == text
