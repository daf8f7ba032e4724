"""Every page in every terminal: none wider than it, no figure cut, no control codes where nobody wants them."""

import io
import re

import pytest

from infopt.cli import run

LOAD = ("--model", "8b", "--hw", "h100", "--isl", "2000", "--osl", "300")
SEARCH = ("search", "--model", "8b", "--tpot", "20ms", "--rate", "5/s", "--isl", "1k", "--osl", "256", "--hw", "h200")
PAGES: dict[str, tuple[str, ...]] = {
    "choices": ("plan", "--model", "70b", "--ctx", "32k"),
    "plan": ("plan", "--model", "70b", "--hw", "h100:4", "--ctx", "32k", "--batch", "8", "--tpot", "50ms", "--curves"),
    "does not fit": ("plan", "--model", "70b", "--hw", "rtx-4090", "--curves"),
    "explain": ("plan", "--model", "deepseek-v3", "--hw", "h200:8", "--ctx", "8k", "--explain"),
    "ladder": ("plan", *LOAD, "--ladder"),
    "compare": ("plan", "--model", "70b", "--ctx", "8k", "--compare", "--hw h100:4", "--hw h200:2 --weights fp8"),
    "month": ("plan", *LOAD, "--batch", "32", "--monthly", "5/s", "--baseline-usd", "30000"),
    "boundary": ("boundary", *LOAD, "--batch", "32"),
    "technique": ("boundary", "kv", *LOAD, "--batch", "8", "--curves"),
    "search": (*SEARCH, "--curves"),
    "row": (*SEARCH, "--row", "2", "--explain"),
    "nothing found": (*SEARCH, "--ttft", "1us"),
    "simulate": ("simulate", *LOAD, "--rate", "8/s", "--requests", "200", "--ttft", "1s", "--curves"),
    "simulate two": ("simulate", *LOAD, "--rate", "5/s", "--requests", "50", "--compare", "--chunk 512", "--chunk 2k"),
    "simulate grid": (
        "simulate",
        *LOAD,
        "--rate",
        "5/s",
        "--requests",
        "50",
        "--vary",
        "chunk=512,2k",
        "--workers",
        "1",
    ),
    "matrix": ("experiment", "matrix", "--model", "8b", "--hw", "h100", "--rate", "4/s", "--cell", "short-short"),
    "checklist": ("checklist", "--model", "8b", "--hw", "l40s", "--ctx", "8k"),
    "gate": ("gate", "docs/examples"),
    "rules": ("rules",),
    "rule": ("rules", "tight"),
    "models": ("models", "list", "qwen3", "--long"),
    "model": ("models", "show", "gpt-oss-120b", "--ctx", "128k"),
    "accelerators": ("hardware", "list", "h100"),
    "accelerator": ("hardware", "show", "h100"),
    "observe": ("observe", "tests/data/metrics/sglang_0.4.6_after.txt"),
    "validate": ("validate",),
}
MOST_COLUMNS = 120  # a page never gets wider
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


class Screen(io.TextIOWrapper):
    """Standard output of some encoding, a terminal or not."""

    def __init__(self, encoding: str, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="strict")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown(monkeypatch: pytest.MonkeyPatch, name: str, columns: int, encoding: str, is_terminal: bool) -> str:
    """What is written for a page; a character that the encoding lacks is an error."""
    screen = Screen(encoding, is_terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.argv", ["infopt", *PAGES[name]])
    monkeypatch.setattr("sys.stdout", screen)
    assert run(PAGES[name]) in (0, 1, 4)
    screen.flush()
    return screen.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined,no-any-return]


def figures(text: str) -> set[str]:
    """Words with digits; parts of paths, which may be folded anywhere, left out."""
    words = (word.strip("()[];,.:·") for word in text.split() if not set(word) & set("/_"))
    return {word for word in words if any(letter.isdigit() for letter in word)}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_every_terminal(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for variable in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(variable, raising=False)
    wide = shown(monkeypatch, name, 200, "utf-8", is_terminal=False)
    narrow = shown(monkeypatch, name, 60, "utf-8", is_terminal=False)
    plain = COLOUR.sub("", shown(monkeypatch, name, 80, "ascii", is_terminal=True))
    coloured = COLOUR.sub("", shown(monkeypatch, name, 120, "utf-8", is_terminal=True))
    for text, columns in ((wide, MOST_COLUMNS), (narrow, 60), (plain, 80), (coloured, 120)):
        assert not [line for line in text.splitlines() if len(line) > columns]
        assert not CONTROL.search(text)
        assert "…" not in text
        assert figures(text) <= figures(wide)


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")], ids="=".join)
@pytest.mark.parametrize("name", ["plan", "search", "simulate", "technique", "gate"])
def test_colours_are_for_terminals_that_want_them(
    name: str, variable: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    coloured = shown(monkeypatch, name, 80, "utf-8", is_terminal=True)
    assert COLOUR.search(coloured)
    monkeypatch.setenv(*variable)
    plain = shown(monkeypatch, name, 80, "utf-8", is_terminal=True)
    assert not COLOUR.search(plain)
    assert [line.rstrip() for line in COLOUR.sub("", coloured).splitlines()] == plain.splitlines()
