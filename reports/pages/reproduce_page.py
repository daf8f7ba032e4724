"""The documents' numbers beside ours as a page: how many agree, and every claim with what makes it true."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from infopt.reports.pages.blocks import Html, datum, figure, paragraph, section, table
from infopt.reports.pages.charts import Axis, Chart, Role, Series
from infopt.reports.pages.figures import found
from infopt.reports.pages.page import Page
from infopt.reports.reproduce_report import as_dict, explanation, summary
from infopt.studies.reproduce import Item, Status, titles

COLUMNS = ("section", "claim", "theirs", "ours", "", "what makes theirs true, or decides")
STATUSES: tuple[tuple[Status, Role], ...] = (("agrees", "good"), ("differs", "bad"), ("depends", "open"))


def reproduce_page(items: Sequence[Item], command: str) -> Page:
    """The page."""
    result = as_dict(items)
    chart = _chart(items)
    return Page("The documents' numbers beside ours", command, result, _body(items, result, chart), (chart,))


def _body(items: Sequence[Item], result: Mapping[str, Any], chart: Chart) -> Iterator[Html]:
    yield paragraph(summary(items))
    yield figure(chart)
    for document, members in groupby(enumerate(items), key=lambda one: one[1].document):
        rows = [_row(result, number, item) for number, item in members]
        note = "Theirs is what the document prints; ours is computed when asked. Depends: an assumption decides."
        title = f"Document {document}: {titles()[document]}"
        yield section(title, table(COLUMNS, rows, f"Claims of document {document}", (2, 3)), note=note)


def _row(result: Mapping[str, Any], number: int, item: Item) -> tuple[str, ...]:
    at = f"items.{number}"
    theirs, ours = (
        datum(f"{at}.{key}", found(result, f"{at}.{key}"), text)
        for key, text in (("theirs", item.theirs_text), ("ours", item.ours_text))
    )
    return item.section, item.statement, theirs, ours, item.status, explanation(item)


def _chart(items: Sequence[Item]) -> Chart:
    count = Counter(item.status for item in items)
    return Chart(
        "claims",
        "bars",
        "Claims",
        "How many agree with what the ledgers say.",
        Axis("status", "count", "category", tuple(status for status, _ in STATUSES)),
        Axis("claims", "count"),
        tuple(Series(status, role, "bar", [(status, count[status])]) for status, role in STATUSES),
    )
