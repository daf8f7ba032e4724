"""A page that `--html` wrote, read by tests: its blocks of data, its figures, its tables, its text."""

import contextlib
import io
import json
import tempfile
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from infopt.cli import run

MOST_BYTES = 1_500_000  # of a page
VOID = ("meta", "br", "img", "input", "link", "hr")


@dataclass
class PageRead(HTMLParser):
    """figures: path in the result, value (None where empty), text; `tags` are all that were opened."""

    figures: list[tuple[str, float | None, str]] = field(default_factory=list)
    blocks: dict[str, Any] = field(default_factory=dict)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""
    stack: list[tuple[str, dict[str, str | None], list[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        for _, _, parts in self.stack:
            parts.append(data)
        if self.stack and self.stack[-1][0] not in ("script", "style"):
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        name, attributes, parts = self.stack.pop()
        assert name == tag, f"<{name}> is closed by </{tag}>"
        words = "".join(parts)
        if tag == "data":
            value = attributes["value"]
            self.figures.append((attributes["data-key"] or "", float(value) if value else None, words))
        elif tag == "script" and attributes.get("type") == "application/json":
            self.blocks[attributes["id"] or ""] = json.loads(words)

    @property
    def result(self) -> Any:
        return self.blocks["infopt-result"]

    @property
    def charts(self) -> dict[str, Any]:
        return {chart["id"]: chart for chart in self.blocks["infopt-charts"]}


def read_page(path: Path) -> PageRead:
    """The page of a file; every element is closed."""
    page = PageRead()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    assert not page.stack
    return page


def at(result: Any, key: str) -> Any:
    """The value at a path such as `groups.3.mape`; None below a null."""
    for part in key.split("."):
        if result is None:
            return None
        result = result[int(part)] if isinstance(result, list) else result[part]
    return result


def check_figures(page: PageRead, printed: Any) -> None:
    """All figures of a page are those of `--json`, and every figure's place of a chart has its chart."""
    assert page.figures
    for key, value, text in page.figures:
        assert value == at(printed, key), key
        assert text.strip()
        assert (value is None) == (text == "-"), key
    drawn = [attributes["id"] for tag, attributes in page.tags if tag == "figure"]
    assert sorted(str(id) for id in drawn) == sorted(page.charts)


def answered(arguments: tuple[str, ...]) -> tuple[int, Any]:
    """Exit status and what --json printed; nothing else is said."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = run([*arguments, "--json"])
    assert error.getvalue() == ""
    return status, json.loads(out.getvalue())


def page_and_json(status: int, arguments: tuple[str, ...]) -> tuple[PageRead, Any]:
    """The page of a command that ends with `status`, and what --json printed beside it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        found, printed = answered((*arguments, "--html", str(path)))
        assert found == status
        assert path.stat().st_size < MOST_BYTES
        return read_page(path), printed
