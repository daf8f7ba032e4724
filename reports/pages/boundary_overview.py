"""All techniques of `boundary` as a page: what each gains, where verdicts turn, every technique in full."""

from collections.abc import Iterator, Sequence

from infopt.boundaries.technique import VERDICTS, Boundary
from infopt.reports import boundary_words as words
from infopt.reports.boundary_report import as_dict, cells
from infopt.reports.pages.blocks import Html, details, figure, listing, paragraph, section, table, verdict
from infopt.reports.pages.blocks import words as glossary
from infopt.reports.pages.boundary_charts import flat_words, gains_chart, no_map_words, verdict_map
from infopt.reports.pages.boundary_sections import Result, answer, assumed, flips, gain, numbers, setting
from infopt.reports.pages.charts import Chart
from infopt.reports.pages.page import Page
from infopt.studies.boundary import Boundaries
from infopt.studies.break_even_map import BreakEvenMap, break_even_map

COLUMNS = ("order", "technique", "verdict", "gain", "flips at", "because")
MEANINGS = {
    "use": "switch it on, or keep it on where the engine has it on",
    "limited": "it gains little here",
    "measure": "what is known does not decide: open it below, it names the option that would",
    "skip": "it gains next to nothing, or loses",
    "impossible": "no engine runs it so, or it does not fit",
}


def overview_page(found: Boundaries, command: str) -> Page:
    """The page of all techniques."""
    result = as_dict(found)
    across = [one for b in found.techniques if (one := break_even_map(b.technique, found.situation)) is not None]
    maps = tuple(verdict_map(one) for one in across if one.only is None)
    gains = gains_chart(found.techniques)
    return Page(
        title=f"What optimizations gain: {found.situation.scenario.model.id}",
        command=command,
        result=result,
        body=_body(found, result, gains, maps, _unmapped(found.techniques, across)),
        charts=(*([gains] if gains else []), *maps),
    )


def _unmapped(techniques: Sequence[Boundary], across: Sequence[BreakEvenMap]) -> list[str]:
    """Why techniques have no map."""
    known = {one.technique.id for one in across}
    flat = [flat_words(one) for one in across if one.only is not None]
    return [*flat, *(no_map_words(b.technique) for b in techniques if b.technique.id not in known)]


def _body(
    found: Boundaries, result: Result, gains: Chart | None, maps: Sequence[Chart], unmapped: Sequence[str]
) -> Iterator[Html]:
    yield _verdict(found)
    yield setting(found, result)
    yield section(
        "What each one gains",
        *([figure(gains)] if gains else []),
        *_table(found, result),
        note="Try them from the top. A gain is a ratio and more is better: 2x TPOT is half the time per token. "
        "Gains do not multiply: add what you use with --with and look again.",
    )
    yield section(
        "Where verdicts turn",
        *map(figure, maps),
        *([listing(unmapped)] if unmapped else []),
        note="Each cell is one situation, judged anew. Look at the frame, where you are, and how far it is to another "
        "colour: near a border, measure before you decide.",
    )
    yield section(
        "Each technique in full",
        *(_full(b, result, f"techniques.{i}") for i, b in enumerate(found.techniques)),
        note="Open one for its numbers, the values at which its verdict changes, and what it costs.",
    )
    yield from assumed(found)


def _verdict(found: Boundaries) -> Html:
    """How many pay, and what they gain; first of all whether the batch fits."""
    good = [b for b in found.techniques if b.judgement.verdict == "use"]
    told = ", ".join(_pays(b) for b in good) or "none is worth switching on as things are"
    if not found.situation.fits:
        return verdict("fail", "This batch does not fit", f"make it fit first; worth switching on: {told}")
    return verdict("pass" if good else "open", f"{len(good)} of {len(found.techniques)} pay here", told)


def _pays(boundary: Boundary) -> str:
    gain = boundary.judgement.gain
    return boundary.technique.name if gain is None else f"{boundary.technique.name} ({words.gain_text(gain)})"


def _table(found: Boundaries, result: Result) -> list[Html]:
    rows = []
    for position, boundary in enumerate(found.techniques):
        order, _, judged, _, flip = cells(boundary)
        best = gain(result, f"techniques.{position}", boundary)
        rows.append((order, boundary.technique.name, judged, best, flip, boundary.judgement.reason))
    given = [v for v in VERDICTS if any(b.judgement.verdict == v for b in found.techniques)]
    meanings = [("order", "document 3's order of trying"), *((v, MEANINGS[v]) for v in given)]
    return [table(COLUMNS, rows, "Techniques"), glossary(meanings)]


def _full(boundary: Boundary, result: Result, key: str) -> Html:
    technique, judged = boundary.technique, boundary.judgement
    summary = f"{technique.name}: {judged.verdict}"
    return details(
        summary if judged.gain is None else f"{summary}, {words.gain_text(judged.gain)}",
        answer(boundary, result, key),
        *numbers(boundary, result, key),
        flips(boundary, result, key),
        paragraph(f"Its curves: infopt boundary {technique.id} with the same options and --html", soft=True),
    )
