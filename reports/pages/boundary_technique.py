"""One technique of `boundary` as a page: its answer, maps, curves, figures, flips, a trace where one was given."""

from collections.abc import Iterator, Sequence

from infopt.boundaries.technique import Boundary
from infopt.reports import boundary_words as words
from infopt.reports.boundary_report import as_dict
from infopt.reports.pages.blocks import Html, figure, paragraph, section, verdict
from infopt.reports.pages.boundary_charts import curve_chart, flat_words, gain_map, no_map_words, verdict_map
from infopt.reports.pages.boundary_sections import STATUSES, Result, answer, assumed, flips, numbers, setting
from infopt.reports.pages.charts import Chart
from infopt.reports.pages.page import Page
from infopt.studies.boundary import Boundaries
from infopt.studies.boundary_curve import curves
from infopt.studies.break_even_map import BreakEvenMap, break_even_map

KEY = "techniques.0"
CELLS = "Each cell is one situation, judged anew; the frame is where you are. "


def technique_page(found: Boundaries, command: str) -> Page:
    """The page of the one technique asked about."""
    result, along, recorded = as_dict(found), _curves(found), _trace_charts(found)
    technique = found.techniques[0].technique
    across = break_even_map(technique, found.situation, with_gain=True)
    maps = () if across is None else _maps(across)
    return Page(
        title=f"{technique.name}: {found.situation.scenario.model.id}",
        command=command,
        result=result,
        body=_body(found, result, across, maps, along),
        charts=(*maps, *along, *recorded),
    )


def _maps(across: BreakEvenMap) -> tuple[Chart, ...]:
    """Verdicts where they differ, gains where any is known."""
    gains = gain_map(across)
    return (*([verdict_map(across)] if across.only is None else []), *([gains] if gains else []))


def _curves(found: Boundaries) -> tuple[Chart, ...]:
    return tuple(chart for curve in curves(found) if (chart := curve_chart(curve)) is not None)


def _trace_charts(found: Boundaries) -> tuple[Chart, ...]:
    if found.trace is None:
        return ()
    from infopt.reports.pages.prefix_section import prefix_charts

    return prefix_charts(found.trace)


def _body(
    found: Boundaries,
    result: Result,
    across: BreakEvenMap | None,
    maps: Sequence[Chart],
    along: Sequence[Chart],
) -> Iterator[Html]:
    boundary = found.techniques[0]
    judged, gain = boundary.judgement, words.gain_text(boundary.judgement.gain)
    headline = judged.verdict if judged.gain is None else f"{judged.verdict}, {gain}"
    yield verdict(STATUSES[judged.verdict], headline, judged.reason)
    yield setting(found, result)
    yield section(
        "The answer",
        answer(boundary, result, KEY),
        note=f"What it gains here and why; it saves {boundary.technique.ledger}. A gain is a ratio, more is better.",
    )
    yield section(
        "Where the verdict turns",
        *map(figure, maps),
        *_no_map(boundary, across),
        flips(boundary, result, KEY),
        note=f"{CELLS if maps else ''}The table has the exact values, one quantity at a time: near one, measure first.",
    )
    if along:
        yield section(
            "Along one quantity",
            *map(figure, along),
            note="All else as it is. Where the band crosses 1, the gain is not certain.",
        )
    rested = numbers(boundary, result, KEY)
    if rested:
        yield section("Figures", *rested, note="The numbers that the verdict rests on.")
    if found.trace is not None:
        from infopt.reports.pages.prefix_section import prefix_section

        yield prefix_section(found.trace)
    yield from assumed(found)


def _no_map(boundary: Boundary, across: BreakEvenMap | None) -> list[Html]:
    """Why there is no map of verdicts."""
    if across is None:
        return [paragraph(no_map_words(boundary.technique))]
    return [] if across.only is None else [paragraph(flat_words(across))]
