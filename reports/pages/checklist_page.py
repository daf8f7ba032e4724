"""The checklist as a page for a browser or a printer: how far it is, then every item with a line to sign on."""

from collections.abc import Iterator
from html import escape
from typing import Any

from infopt.reports import words
from infopt.reports.checklist_report import (
    LABELS,
    VERDICTS,
    answered,
    as_dict,
    left_out,
    reason_words,
    setting,
    signature_words,
    summary,
    value_words,
)
from infopt.reports.pages.blocks import Html, Section, code, datum, facts, figure, paragraph, put, section, verdict
from infopt.reports.pages.charts import Axis, Chart, Role, Series
from infopt.reports.pages.page import Page
from infopt.studies.checklist import Checked, Entry
from infopt.studies.checklist import Section as Part

# What the chart counts: its place under `counts` in `--json`, its name, its role.
COUNTS: tuple[tuple[str, str, Role], ...] = (
    ("fail", "fail", "bad"),
    ("needs_measurement", "open: to be measured or signed", "open"),
    ("pass", "pass or do not apply", "good"),
)


def checklist_page(found: Checked, command: str) -> Page:
    """The page; `command` made it."""
    result = as_dict(found)
    chart = _counts(result)
    return Page(f"Checklist: {words.title(found.context.plan)}", command, result, _body(found, chart), (chart,))


def _counts(result: dict[str, Any]) -> Chart:
    series = tuple(Series(name, role, "bar", [(name, result["counts"][key])]) for key, name, role in COUNTS)
    return Chart(
        "counts",
        "bars",
        "Items by their status",
        "What is left before production is what fails and what is open.",
        Axis("status", "count", "category"),
        Axis("items", "count"),
        series,
    )


def _body(found: Checked, chart: Chart) -> Iterator[Html]:
    label = LABELS[VERDICTS[found.passes]]
    yield verdict(label.lower(), label.upper(), summary(found))
    yield facts(setting(found))
    yield figure(chart)
    for part in found.sections:
        yield _part(found, part)


def _part(found: Checked, part: Part) -> Section:
    items = [_item(found, entry) for entry in answered(part)]
    if left_out(part):
        items.append(paragraph(f"{left_out(part).capitalize()}.", soft=True))
    return section(part.title, *items, note=part.source)


def _item(found: Checked, entry: Entry) -> Html:
    """Status, statement and number, why, what to do, and the line to sign."""
    item, label = entry.item, LABELS[entry.status]
    parts = [f'<span class="status">{label}</span> <h3>{escape(item.text)}</h3>', _value(found, entry)]
    if reason_words(entry):
        parts.append(paragraph(reason_words(entry), soft=True))
    if entry.status != "pass":
        parts.append(paragraph(code(entry.command) if entry.command else f"By: {item.how}"))
    parts.append(_signature(entry))
    return Html(f'<article class="{label.lower()}" id="{escape(item.id)}">{"".join(parts)}</article>')


def _value(found: Checked, entry: Entry) -> Html:
    text = value_words(entry)
    if not text:
        return Html("")
    key = f"items.{found.entries.index(entry)}.value"
    return Html(f' <span class="value">{datum(key, entry.answer.value, text)}</span>')


def _signature(entry: Entry) -> Html:
    """The name, or a line to write one on."""
    id = code(entry.item.id)
    if entry.signature is not None:
        return Html(f'<p class="sign">☑ {put(signature_words(entry))} {id}</p>')
    return Html(f'<p class="sign">☐ {put(entry.item.who)} <span class="blank"></span> {id}</p>')
