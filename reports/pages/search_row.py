"""One row of a search's front in full: what it is, its command line, why its neighbours lost."""

from collections.abc import Iterator, Mapping
from typing import Any

from infopt.reports import search_tails as tails
from infopt.reports import search_words as words
from infopt.reports.pages.blocks import Html, code_block, details, facts, listing, section, table
from infopt.reports.search_page import folded, why
from infopt.studies.search import Deployment, Search, plan_of, row_of
from infopt.units import format_seconds, format_usd

COMMAND_WIDTH = 78


def row_section(result: Search, number: int, row: Mapping[str, Any]) -> Html:
    """A row as a section; `row` is its object of the result."""
    d = row_of(result, number)
    reason = f"{why(result, d)}weights {words.format_note(result, d)}"
    return section(
        f"Row {number}: {words.deployment_words(d)}",
        *_parts(result, number, row),
        note=f"{reason[:1].upper()}{reason[1:]}. Copy the command line; each neighbour below differs in one thing.",
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
