"""The documents' numbers beside ours: for a terminal, as Markdown, CSV and the JSON contract."""

import csv
import io
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from infopt.studies.reproduce import Item, Span, titles

# Below this width of text the explanation goes under the figures instead of beside them.
NARROW = 40
INDENT = "  "


def render(items: Sequence[Item], width: int) -> str:
    """Text for a terminal of `width` columns."""
    parts = [_document(number, list(group), width) for number, group in groupby(items, lambda item: item.document)]
    return "\n\n".join([*parts, textwrap.fill(summary(items), width)])


def summary(items: Sequence[Item]) -> str:
    """How many claims there are of each status."""
    count = Counter(item.status for item in items)
    return f"{len(items)} claims: {count['agrees']} agree, {count['differs']} differ, {count['depends']} depend"


def as_dict(items: Sequence[Item]) -> dict[str, Any]:
    """The JSON contract (DESIGN section 4): base units; `*_high` is the upper end where a claim is a range."""
    return {"schema": "infopt/reproduce/1", "items": [_item_dict(item) for item in items]}


def markdown(items: Sequence[Item]) -> str:
    """One table a document."""
    tables = []
    for number, group in groupby(items, lambda item: item.document):
        lines = [f"### Document {number}: {titles()[number]}", ""]
        lines += [
            "| section | claim | theirs | ours | | what makes theirs true, or decides |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_markdown_row(item) for item in group]
        tables.append("\n".join(lines))
    return "\n\n".join([*tables, summary(items)]) + "\n"


def csv_text(items: Sequence[Item]) -> str:
    """One row a claim, values in base units."""
    rows = as_dict(items)["items"]
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=[name for name in _item_dict_keys() if name != "values"])
    writer.writeheader()
    writer.writerows({key: value for key, value in row.items() if key != "values"} for row in rows)
    return out.getvalue()


def _item_dict_keys() -> tuple[str, ...]:
    return (
        *("id", "document", "section", "statement", "theirs", "theirs_high", "ours", "ours_high", "unit"),
        *("status", "assumption", "values", "theirs_text", "ours_text", "source"),
    )


def _item_dict(item: Item) -> dict[str, Any]:
    theirs, theirs_high = _ends(item.theirs)
    ours, ours_high = _ends(item.ours)
    row = {
        **{name: getattr(item, name) for name in ("id", "document", "section", "statement", "unit", "status")},
        **{name: getattr(item, name) for name in ("assumption", "theirs_text", "ours_text", "source")},
        "values": dict(item.values),
        "theirs": theirs,
        "theirs_high": theirs_high,
        "ours": ours,
        "ours_high": ours_high,
    }
    return {key: row[key] for key in _item_dict_keys()}


def _ends(span: Span | None) -> tuple[float | None, float | None]:
    """The value, or the lower end and the upper one of a range."""
    if span is None:
        return None, None
    return span.low, None if span.low == span.high else span.high


def _document(number: int, items: Sequence[Item], width: int) -> str:
    theirs = max(len("theirs"), *(len(item.theirs_text) for item in items))
    ours = max(len("ours"), *(len(item.ours_text) for item in items))
    lines = [*textwrap.wrap(f"Document {number}: {titles()[number]}", width), ""]
    head = f"{'':7}  {'theirs':>{theirs}}  {'ours':>{ours}}"
    if width - len(head) >= NARROW:
        lines.append(head)
    for item in items:
        figures = f"{item.status:7}  {item.theirs_text:>{theirs}}  {item.ours_text:>{ours}}"
        lines += _beside(figures, item, width) if width - len(figures) >= NARROW else _under(item, width)
    return "\n".join(lines)


def explanation(item: Item) -> str:
    """The assumption, and where facts in it come from."""
    return f"{item.assumption} (source: {item.source})" if item.source else item.assumption


def _beside(figures: str, item: Item, width: int) -> list[str]:
    """Figures on the left, words on the right."""
    room = width - len(figures) - 2
    words = textwrap.wrap(item.statement, room) + textwrap.wrap(
        explanation(item), room, initial_indent=INDENT, subsequent_indent=INDENT
    )
    left = [figures, *[" " * len(figures)] * (len(words) - 1)]
    return [f"{figure}  {word}".rstrip() for figure, word in zip(left, words, strict=True)]


def _under(item: Item, width: int) -> list[str]:
    """Status on the left, everything else under each other beside it."""
    left = f"{item.status:7}  "
    room = max(width - len(left), 20)
    figures = f"theirs {item.theirs_text}, ours {item.ours_text}"
    words = [line for text in (item.statement, figures, explanation(item)) for line in textwrap.wrap(text, room)]
    return [f"{left if place == 0 else ' ' * len(left)}{word}" for place, word in enumerate(words)]


def _markdown_row(item: Item) -> str:
    cells = (item.section, item.statement, item.theirs_text, item.ours_text, item.status, explanation(item))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
