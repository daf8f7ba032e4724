"""The checklist: page, Markdown, CSV, JSON; the page for a browser is in pages/checklist_page.py."""

import re
from collections.abc import Iterator
from typing import Any

from infopt.reports import words
from infopt.reports.json_report import model_dict, placed_dict, workload_dict
from infopt.studies.checklist import Checked, Entry, Section
from infopt.studies.checklist_context import Status
from infopt.units import format_gib, format_seconds, format_share

SCHEMA = "infopt/checklist/1"
LABELS: dict[Status, str] = {"pass": "pass", "fail": "FAIL", "needs-measurement": "open"}
VERDICTS: dict[bool | None, Status] = {True: "pass", False: "fail", None: "needs-measurement"}
MARKS: dict[Status, str] = {"pass": "✅", "fail": "❌", "needs-measurement": "❔"}
BLANK = "________________"


def as_dict(found: Checked) -> dict[str, Any]:
    """The contract (DESIGN section 4), and what was checked."""
    s, plan = found.context.scenario, found.context.plan
    return {
        "schema": SCHEMA,
        "model": model_dict(s.model, s.weight_format, s.kv_format),
        **placed_dict(s),
        "workload": workload_dict(s),
        "fits": plan.fits,
        "features": list(found.features),
        "verdict": VERDICTS[found.passes],
        "counts": {
            **{status.replace("-", "_"): found.count(status) for status in LABELS},
            "does_not_apply": found.left_out,
        },
        "assumptions": [{"id": c.id, "text": c.text} for c in found.assumptions],
        "ignored": list(found.ignored),
        "items": rows(found),
    }


def rows(found: Checked) -> list[dict[str, Any]]:
    """Items in order, flat but for the signature."""
    return [_row(entry) for entry in found.entries]


def _row(entry: Entry) -> dict[str, Any]:
    item, signature = entry.item, entry.signature
    return {
        "id": item.id,
        "status": entry.status,
        "value": entry.answer.value,
        "unit": entry.answer.unit,
        "command": entry.command or None,
        "how": item.how or None,
        "order": entry.order,
        "document": item.document,
        "section": item.section,
        "text": item.text,
        "reason": entry.answer.reason,
        "who": item.who,
        "applies": entry.applies,
        "computed_status": entry.answer.status,
        "signed": None
        if signature is None
        else {
            "status": signature.status,
            "by": signature.by,
            "note": signature.note,
            "date": signature.date.isoformat() if signature.date else None,
        },
    }


def summary(found: Checked) -> str:
    """How many there are of each status."""
    fails, waits, good = (found.count(status) for status in ("fail", "needs-measurement", "pass"))
    verb = "fails" if fails == 1 else "fail"
    passes, none = words.counted(good - found.left_out, "passes", "pass"), found.left_out
    apply = f"{none} {'does' if none == 1 else 'do'} not apply"
    return f"{fails} {verb}, {waits} open (to be measured or signed), {passes}, {apply}"


def value_words(entry: Entry) -> str:
    """The number of an item, empty where there is none."""
    value, unit = entry.answer.value, entry.answer.unit
    if value is None:
        return ""
    if unit == "share":
        return format_share(value)
    if unit == "bytes":
        return format_gib(value)
    if unit == "s":
        return format_seconds(value)
    if unit == "ratio":
        return f"{value:.3g}x"
    # Of counts, sentences say more than the bare number.
    return "" if unit else f"{value:,.4g}"


def reason_words(entry: Entry) -> str:
    """Why; that a person must answer is said by the line to sign."""
    return entry.answer.reason if entry.item.check is not None or not entry.applies else ""


def signature_words(entry: Entry) -> str:
    """Who stands for an item, or whose name is missing."""
    signature = entry.signature
    if signature is None:
        return f"{entry.item.who}: {BLANK}"
    date = f", {signature.date.isoformat()}" if signature.date else ""
    note = f": {signature.note}" if signature.note else ""
    against = "" if entry.answer.status == entry.status else f" (the number: {entry.answer.status})"
    if entry.answer.status == "needs-measurement":
        against = ""
    return f"signed {signature.status}{against}, {signature.by}{date}{note}"


def box(entry: Entry) -> str:
    return "[ ]" if entry.signature is None else "[x]"


def answered(section: Section) -> list[Entry]:
    """Items to be shown one by one: all that apply, and those that somebody signed nevertheless."""
    return [entry for entry in section.entries if entry.applies or entry.signature is not None]


def left_out(section: Section) -> str:
    """The items that do not apply, in one sentence."""
    shown = {entry.order for entry in answered(section)}
    names = [entry.item.id for entry in section.entries if entry.order not in shown]
    return f"does not apply here: {', '.join(names)}" if names else ""


def setting(found: Checked) -> list[tuple[str, str]]:
    """What was checked."""
    plan = found.context.plan
    rows = [
        ("model", words.model_words(plan)),
        ("devices", words.device_words(plan)),
        ("engine", words.engine_words(plan)),
        ("load", words.load_words(plan)),
        ("in use", ", ".join(found.features) or "no technique that an item is about"),
    ]
    rows += [("assumed", text.text) for text in found.context.assumed]
    if found.ignored:
        rows.append(("ignored", f"keys of the observation that are not known: {', '.join(found.ignored)}"))
    return rows


def page(found: Checked) -> str:
    """The terminal form."""
    from infopt.reports.terminal import to_text

    return to_text(_parts(found))


def _parts(found: Checked) -> Iterator[Any]:
    from rich.text import Text

    from infopt.reports.terminal import STYLES, facts, heading

    yield Text(f"Checklist: {words.title(found.context.plan)}", style="bold")
    yield facts(setting(found))
    yield ""
    verdict = LABELS[VERDICTS[found.passes]].upper()
    yield Text().append(verdict, style=STYLES[found.passes]).append(f": {summary(found)}")
    for section in found.sections:
        yield ""
        yield heading(section.title.upper(), section.source)
        for entry in answered(section):
            yield _lines(entry)
        if left_out(section):
            yield facts([("-", left_out(section))], label_width=4)


def _lines(entry: Entry) -> Any:
    """Status, statement, number and reason, command, and the line to sign."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from infopt.reports.terminal import STYLES

    passes = {"pass": True, "fail": False, "needs-measurement": None}[entry.status]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=4, no_wrap=True)
    table.add_column(overflow="fold")
    label = Text(LABELS[entry.status], style=STYLES[passes])
    table.add_row(label, Text(f"{entry.item.text}  ").append(value_words(entry), style="bold"))
    if reason_words(entry):
        table.add_row("", Text(reason_words(entry), style="dim"))
    if entry.status != "pass":
        table.add_row("", f"$ {entry.command}" if entry.command else f"by: {entry.item.how}")
    table.add_row("", f"{box(entry)} {entry.item.id}, {signature_words(entry)}")
    return Padding(table, (0, 0, 0, 2))


def markdown(found: Checked) -> str:
    """For a pull request: a box to tick for every item."""
    return "\n".join(_markdown_lines(found))


def _markdown_lines(found: Checked) -> Iterator[str]:
    from infopt.reports.markdown import escape, table

    yield f"### Checklist: {escape(words.title(found.context.plan))}"
    yield ""
    verdict = VERDICTS[found.passes]
    yield f"{MARKS[verdict]} **{LABELS[verdict].upper()}**: {summary(found)}"
    yield ""
    yield from table(("", ""), setting(found), "ll")
    for section in found.sections:
        yield ""
        yield f"#### {escape(section.title)} ({escape(section.source)})"
        yield ""
        for entry in answered(section):
            yield from _markdown_item(entry)
        if left_out(section):
            yield ""
            yield f"{left_out(section).capitalize()}."


def _markdown_item(entry: Entry) -> Iterator[str]:
    from infopt.reports.markdown import escape

    value = value_words(entry)
    number = f" **{escape(value)}**" if value else ""
    text = f"{MARKS[entry.status]} `{entry.item.id}` {escape(entry.item.text)}{number}"
    how = [] if entry.status == "pass" else [_code(entry.command) if entry.command else escape(entry.item.how)]
    lines = (text, escape(reason_words(entry)), *how, escape(signature_words(entry)))
    yield f"- {box(entry)} {'<br>'.join(line for line in lines if line)}"


def _code(text: str) -> str:
    """A code span, in a longer fence where the text has backticks itself."""
    if "`" not in text:
        return f"`{text}`"
    fence = "`" * (1 + max(len(run) for run in re.findall("`+", text)))
    return f"{fence} {text} {fence}"
