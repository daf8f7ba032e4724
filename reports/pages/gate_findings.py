"""Findings and rules of a gate as tables of a page. Every text of a file is cleaned and escaped."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeVar

from infopt.gate.finding import Finding, Rule
from infopt.gate.rules.registry import by_id
from infopt.reports.gate_words import ORDER, clean, counted, ordered
from infopt.reports.pages.blocks import Html, details, paragraph, table

# Findings of one deployment, in characters of a page.
MOST_OF_FINDINGS = 60_000
COLUMNS = ("severity", "rule", "line", "finding")
Row = TypeVar("Row", bound=Sequence[str])


def within(most: int, rows: Sequence[Row]) -> tuple[Sequence[Row], int]:
    """The first rows that have room in `most` characters, one at least, and how many are left out."""
    room = most
    for number, row in enumerate(rows):
        room -= sum(map(len, row))
        if room < 0 and number:
            return rows[:number], len(rows) - number
    return rows, 0


def finding_tables(findings: Iterable[Finding], with_file: bool = False) -> list[Html]:
    """What is open, the graver first; what was accepted is folded, with its reason."""
    found = sorted(ordered(findings), key=lambda finding: ORDER[finding.severity])
    open_ones = [finding for finding in found if finding.suppressed is None]
    accepted = [finding for finding in found if finding.suppressed is not None]
    parts = _table(open_ones, "Findings", with_file) if open_ones else [paragraph("Nothing was found.", soft=True)]
    if accepted:
        parts.append(details(f"{len(accepted)} accepted", *_table(accepted, "Accepted findings", with_file)))
    return parts


def _table(findings: Sequence[Finding], caption: str, with_file: bool) -> list[Html]:
    rows = [
        (finding.severity, rule_link(finding.rule), _place(finding, with_file), _said(finding)) for finding in findings
    ]
    kept, more = within(MOST_OF_FINDINGS, rows)
    parts = [table(COLUMNS, kept, caption)]
    told = f"{counted(more, 'more finding')} left out here: infopt gate --json prints all of it."
    return [*parts, paragraph(told)] if more else parts


def _place(finding: Finding, with_file: bool) -> str:
    place = f"{finding.line}:{finding.column}"
    return clean(f"{finding.file}:{place}") if with_file else place


def _said(finding: Finding) -> Html:
    """Message, arithmetic, remedy, and why it was accepted."""
    doubt = "" if finding.confidence == "certain" else f" ({finding.confidence})"
    lines = [paragraph(f"{clean(finding.message)}{doubt}")]
    if finding.detail:
        lines.append(paragraph(clean(finding.detail), soft=True))
    if finding.remedy:
        lines.append(paragraph(f"Remedy: {clean(finding.remedy)}"))
    if finding.suppressed is not None:
        lines.append(paragraph(f"Accepted: {clean(finding.suppressed) or 'no reason is given'}", soft=True))
    return Html("".join(lines))


def rule_link(id: str) -> Html:
    """The rule's name, which leads to its row."""
    return Html(f'<a href="#rule-{escape(id)}">{escape(id)}</a>')


def rule_table(ids: Iterable[str]) -> Html:
    """The rules that have findings here."""
    rules = [by_id()[id] for id in sorted(ids)]
    return table(("rule", "why it matters", "what to do"), map(_rule_row, rules), "Rules")


def _rule_row(rule: Rule) -> tuple[str, ...]:
    name = Html(f'<span id="rule-{escape(rule.id)}">{escape(rule.id)}</span>')
    return name, Html(f"{paragraph(rule.summary)}{paragraph(rule.why, soft=True)}"), rule.remedy
