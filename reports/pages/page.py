"""A page as one file: what it may do (CSP), its style, its scripts, its data.

Nothing is loaded from anywhere: the policy allows the scripts and the style sheet below by their hashes and nothing
else, so text from a file stays text whatever it holds. Data stands in JSON blocks, which no browser executes.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from infopt.frozen import dataclass
from infopt.reports.pages.blocks import Html, Section, links
from infopt.reports.pages.charts import Chart, chart_dict

DATA = Path(__file__).resolve().parent / "data"
# In the order in which they run: the library, then ours from figures as text to charts of the page.
CHART_SCRIPTS = ("echarts.min.js", "written.js", "shapes.js", "options.js", "charts.js")

LINKED = (4, 15)  # sections that are worth a list of links


@dataclass(frozen=True, slots=True)
class Page:
    """What a page holds.

    result   the object that `--json` prints for the same command
    charts   drawn where `blocks.figure` stands
    data     further objects by the id of their block, for scripts of this page
    scripts  further files of `data/`, after those of charts
    """

    title: str
    command: str
    result: Mapping[str, Any]
    body: Iterable[Html]
    charts: tuple[Chart, ...] = ()
    data: Mapping[str, Any] | None = None
    scripts: tuple[str, ...] = ()


def page_text(page: Page) -> str:
    """The page as text."""
    names = (*(CHART_SCRIPTS if page.charts or page.scripts else ()), *page.scripts)
    scripts = [(DATA / name).read_text(encoding="utf-8").strip() for name in names]
    style = (DATA / "page.css").read_text(encoding="utf-8").strip()
    blocks = {"infopt-result": page.result, "infopt-charts": [chart_dict(chart) for chart in page.charts]}
    blocks |= page.data or {}
    text = "\n".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts, style)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(page.title)}</title>",
            f"<style>{style}</style>\n</head>\n<body>\n<main>",
            f"<h1>{escape(page.title)}</h1>",
            *body_of(page),
            f'<p class="soft made">Made by <code>{escape(page.command)}</code></p>\n</main>',
            *(data_block(id, data) for id, data in blocks.items()),
            *(f"<script>{script}</script>" for script in scripts),
            "</body>\n</html>\n",
        )
    )
    # A name of a file need not be text: what is no character is shown as one that is missing.
    return text.encode("utf-8", "replace").decode()


def body_of(page: Page) -> list[Html]:
    """The body, and in front of it the way to its sections where it is long."""
    body = list(page.body)
    sections = [part for part in body if isinstance(part, Section)]
    return [links(sections), *body] if LINKED[0] <= len(sections) <= LINKED[1] else body


def policy(scripts: Iterable[str], style: str) -> str:
    """The Content-Security-Policy: our own scripts and style sheet by hash, and nothing else."""
    allowed = " ".join(f"'{_hash(script)}'" for script in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src-elem '{_hash(style)}'; style-src-attr 'none'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def data_block(id: str, data: Any) -> str:
    """An object as a block of data; nothing in it can end the block or start a tag."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{escape(id)}">{text}</script>'
