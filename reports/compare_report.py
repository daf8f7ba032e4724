"""Two plans beside each other: page, Markdown, CSV, JSON."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from infopt.reports import words
from infopt.reports.json_report import plan_dict
from infopt.studies.compare import Comparison, Row
from infopt.units import format_share, format_tokens, format_usd, format_whole

SCHEMA = "infopt/comparison/1"
COLUMNS = ("", "A", "B", "B - A", "change")
TITLES = {
    "memory": "MEMORY of the device that decides",
    "capacity": "CAPACITY",
    "kv": "KV CACHE of the whole model",
    "bandwidth": "BANDWIDTH",
    "compute": "COMPUTE",
    "estimate": "ESTIMATE",
    "cost": "COST",
    "hardware": "HARDWARE, one device",
}
QUANTITIES: dict[str, Callable[[float], str]] = {
    "tokens": lambda value: format_whole(round(value)),
    "tokens/s": lambda value: f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}",
    "usd": format_usd,
}
# Differences below this share are none.
SAME = 0.0005


def as_dict(c: Comparison) -> dict[str, Any]:
    """Both plans whole, and every figure of both with what differs."""
    return {
        "schema": SCHEMA,
        "a": plan_dict(c.a),
        "b": plan_dict(c.b),
        "a_options": c.a_options,
        "b_options": c.b_options,
        "fits": c.fits,
        "terms": [_flat(row) for row in c.rows],
    }


def _flat(row: Row) -> dict[str, Any]:
    return {
        "ledger": row.ledger,
        "name": row.name.strip(),
        "unit": "bytes" if row.unit == "gib" else row.unit,
        "a": row.a,
        "b": row.b,
        "difference": row.difference,
        "ratio": row.ratio,
    }


def rows(c: Comparison) -> list[dict[str, Any]]:
    """The figures as flat rows, for CSV."""
    return [_flat(row) for row in c.rows]


def cells(row: Row) -> list[str]:
    """One line of the table."""
    return [words.term_name(row.name), _value(row.a, row.unit), _value(row.b, row.unit), _difference(row), _change(row)]


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return QUANTITIES[unit](value) if unit in QUANTITIES else words.quantity(value, unit)


def _difference(row: Row) -> str:
    if row.difference is None:
        return "-"
    if not row.difference or (row.ratio is not None and abs(row.ratio - 1) < SAME):
        return "="
    sign = "+" if row.difference > 0 else "-"
    return sign + _value(abs(row.difference), row.unit)


def _change(row: Row) -> str:
    if row.ratio is None or abs(row.ratio - 1) < SAME:
        return ""
    return f"{'+' if row.ratio > 1 else '-'}{format_share(abs(row.ratio - 1))}"


def page(c: Comparison) -> str:
    """The terminal form."""
    from infopt.reports.terminal import to_text

    return to_text(_parts(c))


def _parts(c: Comparison) -> Iterator[Any]:
    from rich.text import Text

    from infopt.reports.terminal import columns_table, facts, heading

    yield Text("Two scenarios, term by term", style="bold")
    yield facts([("A", _who(c, "a")), ("B", _who(c, "b"))])
    everything = [cells(row) for row in c.rows]
    for ledger, group in groupby(c.rows, key=lambda row: row.ledger):
        yield ""
        yield heading(TITLES[ledger])
        table = [cells(row) for row in group]
        yield columns_table(COLUMNS, table, "", ("B - A",), indent=2, beside=everything)


def _who(c: Comparison, side: str) -> str:
    plan = c.a if side == "a" else c.b
    s = plan.scenario
    load = f"{words.counted(s.batch, 'sequence')} of {format_tokens(s.context_tokens)} tokens"
    formats = f"{s.weight_format} weights, {s.kv_format} cache"
    return f"{words.title(plan)}, {words.placement_words(plan)}, {formats}, {load}: {words.verdict_word(plan)}"


def markdown(c: Comparison) -> str:
    """One table with a heading row for each ledger."""
    from infopt.reports.markdown import escape, table

    lines = ["### Two scenarios, term by term", "", f"- A: {escape(_who(c, 'a'))}", f"- B: {escape(_who(c, 'b'))}", ""]
    body: list[list[str]] = []
    for ledger, group in groupby(c.rows, key=lambda row: row.ledger):
        body.append([f"**{TITLES[ledger]}**", "", "", "", ""])
        body += [cells(row) for row in group]
    return "\n".join([*lines, *table(COLUMNS, body, "lrrrr")])
