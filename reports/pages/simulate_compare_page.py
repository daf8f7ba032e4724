"""Two simulations as a page: both verdicts, their curves in the same charts, every figure with its ratio."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from infopt.reports import simulate_words as words
from infopt.reports.pages.blocks import Html, facts, figure, section, table
from infopt.reports.pages.charts import Chart
from infopt.reports.pages.figures import shown
from infopt.reports.pages.page import Page
from infopt.reports.pages.simulate_charts import inside_charts, times_charts
from infopt.reports.pages.simulate_page import labelled, verdict_line
from infopt.reports.simulate_compare_report import (
    COLUMNS,
    OTHER_REQUESTS,
    QUANTITIES,
    SAME_REQUESTS,
    TITLES,
    as_dict,
    cells,
)
from infopt.reports.simulate_report import assumption_texts
from infopt.studies.simulate import Simulation
from infopt.studies.simulate_compare import SimulationComparison

NOTES = {
    "load": "What arrives is the same where the traffic is; what is served is what differs.",
    "times": "Waits of the measured requests. A ratio below one is shorter in B.",
    "inside": "How full the deployment is.",
    "cost": "At this load.",
}


def simulate_compare_page(c: SimulationComparison, command: str) -> Page:
    """The page of a comparison. Rows of both were kept (Choices.keep_rows)."""
    sides = (("A", c.a), ("B", c.b))
    times, inside = times_charts(sides), inside_charts(sides)
    result = as_dict(c)
    return Page("Two simulations, term by term", command, result, _body(c, result, times, inside), (*times, *inside))


def _body(
    c: SimulationComparison, result: Mapping[str, Any], times: tuple[Chart, ...], inside: tuple[Chart, ...]
) -> Iterator[Html]:
    yield facts([("requests", SAME_REQUESTS if c.same_traffic else OTHER_REQUESTS)])
    for name, s, options in (("A", c.a, c.a_options), ("B", c.b, c.b_options)):
        yield section(name, verdict_line(s), facts(_who(s, options)), note=options or "The options as they are.")
    yield section(
        "How long users wait",
        *map(figure, times),
        note="A beside B: the lower curve waits less. Below a dotted target line the promise is kept.",
    )
    yield section("What happens inside", *map(figure, inside), note="A queue that only grows cannot be served.")
    numbered = list(enumerate(c.terms))
    for group, members in groupby(numbered, key=lambda one: one[1].group):
        rows = []
        for number, term in members:
            name, _, _, ratio, better = cells(term)
            write = QUANTITIES[term.unit]
            a, b = (shown(result, f"terms.{number}.{side}", write) for side in ("a", "b"))
            rows.append([name, a, b, ratio, better])
        title = TITLES[group].capitalize()
        yield section(title, table(COLUMNS, rows, title, (1, 2, 3)), note=NOTES[group])
    yield section(
        "What this rests on",
        facts([*labelled("A assumes", assumption_texts(c.a)), *labelled("B assumes", assumption_texts(c.b))]),
        note="Correct an assumption with the option of its name, and simulate again.",
    )


def _who(s: Simulation, options: str) -> list[tuple[str, str]]:
    return [
        *labelled("serves", [words.headline(s)]),
        *labelled("arrives", words.arrivals(s)),
        *labelled("served by", words.serving(s)),
    ]
