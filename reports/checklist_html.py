"""The checklist as one page for a browser or a printer: no script, no network, light and dark."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from infopt.reports import words
from infopt.reports.checklist_report import (
    LABELS,
    VERDICTS,
    answered,
    left_out,
    reason_words,
    setting,
    signature_words,
    summary,
    value_words,
)
from infopt.studies.checklist import Checked, Entry

STYLE = Path(__file__).resolve().parent / "data" / "page.css"
# Nothing is loaded from anywhere, whatever a model or a team's item is called.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html_page(found: Checked, command: str) -> str:
    """The page as text; `command` made it."""
    return "\n".join(_lines(found, command)) + "\n"


def _lines(found: Checked, command: str) -> Iterator[str]:
    title = f"Checklist: {words.title(found.context.plan)}"
    label = LABELS[VERDICTS[found.passes]]
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)}</title>"
    yield f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n<main>"
    yield f"<h1>{escape(title)}</h1>\n<table>"
    yield from (f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>' for name, text in setting(found))
    yield "</table>"
    yield f'<p class="verdict {label.lower()}"><strong>{label.upper()}</strong>: {escape(summary(found))}</p>'
    for section in found.sections:
        yield f'<section>\n<h2>{escape(section.title)}</h2>\n<p class="soft">{escape(section.source)}</p>'
        for entry in answered(section):
            yield from _item(entry)
        if left_out(section):
            yield f'<p class="soft">{escape(left_out(section).capitalize())}.</p>'
        yield "</section>"
    yield f'<p class="soft">Made by <code>{escape(command)}</code></p>\n</main>\n</body>\n</html>'


def _item(entry: Entry) -> Iterator[str]:
    item, label = entry.item, LABELS[entry.status]
    number = value_words(entry)
    value = f' <span class="value">{escape(number)}</span>' if number else ""
    yield f'<article class="{label.lower()}" id="{escape(item.id)}">'
    yield f'<span class="status">{label}</span> <h3>{escape(item.text)}</h3>{value}'
    if reason_words(entry):
        yield f'<p class="soft">{escape(reason_words(entry))}</p>'
    if entry.status != "pass":
        yield f"<p><code>{escape(entry.command)}</code></p>" if entry.command else f"<p>By: {escape(item.how)}</p>"
    yield from _signature(entry)
    yield "</article>"


def _signature(entry: Entry) -> Iterator[str]:
    """The name, or a line to write one on."""
    if entry.signature is not None:
        yield f'<p class="sign">☑ {escape(signature_words(entry))} <code>{escape(entry.item.id)}</code></p>'
        return
    who, id = escape(entry.item.who), escape(entry.item.id)
    yield f'<p class="sign">☐ {who} <span class="blank"></span> <code>{id}</code></p>'
