"""The Pareto front in characters: what latency costs, each deployment by its row."""

from collections.abc import Iterator

from rich.console import RenderableType

from infopt.reports import curves as drawing
from infopt.reports.terminal import heading
from infopt.studies.search import Search
from infopt.units import format_seconds, format_usd

ROWS = 14


def drawn(result: Search) -> Iterator[RenderableType]:
    """Price of a million output tokens over the time of a whole answer; the rows with a price."""
    priced = [
        (d.e2e_s, d.usd_per_million_output_tokens, str(number))
        for number, d in enumerate(result.front, 1)
        if d.usd_per_million_output_tokens is not None
    ]
    yield heading("FRONT", "price per million output tokens over the time of a whole answer, by row")
    if not priced:
        yield "  no deployment has a price: --price NAME=USD gives one"
        return
    yield from drawing.scatter(priced, format_usd, ROWS)
    times = [x for x, _, _ in priced]
    yield from drawing.axis(format_seconds(min(times)), format_seconds(max(times)), drawing.width())
