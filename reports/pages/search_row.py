"""One row of a search's front in full: what it is, its command line, why its neighbours lost."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infopt.reports import search_tails as tails
from infopt.reports import search_words as words
from infopt.reports.pages.blocks import Html, above, code_block, datum, details, facts, figure, listing, section, table
from infopt.reports.pages.charts import Chart
from infopt.reports.pages.figures import shown
from infopt.reports.pages.memory_chart import memory_chart
from infopt.reports.pages.plan_charts import terms_chart
from infopt.reports.search_page import folded, why
from infopt.reports.words import line_interval, line_quantity, term_name
from infopt.studies.derivations import explain
from infopt.studies.search import Deployment, Search, plan_of, row_of
from infopt.units import format_seconds, format_share, format_usd, format_whole

COMMAND_WIDTH = 78
# Columns of the front that are figures: head, path in the row's object, how it is written.
FIGURES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("seqs", "workload.batch", format_whole),
    ("TTFT", "estimate.ttft_s", format_seconds),
    ("TPOT", "estimate.tpot_s", format_seconds),
    ("tok/s/GPU", "output_tokens_per_s_per_gpu", "{:.0f}".format),
    ("tok/J", "tokens_per_joule", "{:.2g}".format),
    ("$/h", "usd_per_hour", format_usd),
    ("$/Mtok", "usd_per_million_output_tokens", format_usd),
    ("spare", "headroom_share", lambda share: format_share(round(share, 2))),
)
COLUMNS = ("#", "deployment", "layout", "weights", "cache", *(name for name, _, _ in FIGURES))
NUMERIC = (0, *range(5, len(COLUMNS)))


def row_charts(result: Search, number: int) -> tuple[Chart, ...]:
    """Where the memory of a device goes, and the time of a token."""
    plan = plan_of(row_of(result, number))
    return memory_chart(plan.memory), terms_chart(plan)


def row_section(result: Search, number: int, row: Mapping[str, Any], charts: tuple[Chart, ...]) -> Html:
    """A row as a section; `row` is its object of the result."""
    d = row_of(result, number)
    reason = f"{why(result, d)}weights {words.format_note(result, d)}"
    return section(
        f"Row {number}: {words.deployment_words(d)}",
        *_parts(result, number, row),
        *map(figure, charts),
        note=f"{reason[:1].upper()}{reason[1:]}. Copy the command line; each neighbour below differs in one thing.",
    )


def row_cells(d: Deployment, data: Mapping[str, Any], key: str = "") -> list[str]:
    """A row of the table; its figures are those of its object, which stands at `key` of the result."""
    s = d.replica.scenario
    named = [words.deployment_words(d), words.layout_words(d), s.weight_format, s.kv_format]
    told = [shown(data, key + path, write) for _, path, write in FIGURES]
    return [shown(data, f"{key}rank", format_whole), *named, *told]


def terms_section(result: Search, number: int, row: Mapping[str, Any]) -> Html:
    """Every term of the plan of one replica (`--explain`)."""
    lines = explain(plan_of(row_of(result, number)))
    rows = [
        (
            line.ledger,
            term_name(line.name),
            datum(f"terms.{i}.value", row["terms"][i]["value"], line_quantity(line)),
            line_interval(line) or "",
            above(line.formula, line.source),
        )
        for i, line in enumerate(lines)
    ]
    columns = ("ledger", "term", "value", "interval", "formula, and below it its source")
    return section(
        "Every term", table(columns, rows, "Terms of one replica", (2, 3)), note="Where each figure is from."
    )


def folded_row(result: Search, number: int, row: Mapping[str, Any]) -> Html:
    """A row that opens on demand."""
    d = row_of(result, number)
    return details(f"Row {number}: {words.deployment_words(d)}, {headline(d)}", *_parts(result, number, row))


def headline(d: Deployment) -> str:
    """A deployment in one line."""
    s = d.replica.scenario
    price = "" if d.usd_per_hour is None else f", {format_usd(d.usd_per_hour)} per hour"
    layout = f"{words.layout_words(d)}, {s.weight_format} weights, {s.kv_format} cache"
    return f"{layout}: TTFT {format_seconds(d.ttft_s)}, TPOT {format_seconds(d.tpot_s)}{price}"


def _parts(result: Search, number: int, row: Mapping[str, Any]) -> Iterator[Html]:
    d = row_of(result, number)
    plan = plan_of(d)
    command = words.command_of(plan)
    told = [("simulated", tails.row_words(d, result.tails[number - 1], result.targets))] if result.tails else []
    yield facts([*words.deployment_facts(d, plan), *told])
    if row["notes"]:
        yield listing(row["notes"])
    each = f"Command line of each of {d.replicas} replicas" if d.replicas > 1 else "Command line"
    yield code_block("\n".join(folded(command.parts, COMMAND_WIDTH)), f"{each}, row {number}")
    if command.notes:
        yield listing(command.notes)
    neighbours = [(one["change"], one["verdict"]) for one in row["neighbours"]]
    if neighbours:
        yield table(("neighbour", f"against row {number}"), neighbours, f"Why the neighbours of row {number} lost")
