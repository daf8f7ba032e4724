"""Sections that pages of all techniques and of one share: answers, figures, flips, and what was assumed."""

from collections.abc import Mapping, Sequence
from typing import Any

from infopt.boundaries.technique import Boundary, Verdict
from infopt.reports import boundary_words as words
from infopt.reports.boundary_page import answer_rows
from infopt.reports.pages.blocks import Html, datum, facts, listing, section, table
from infopt.reports.pages.figures import UNKNOWN, found, joined, shown
from infopt.studies.boundary import Boundaries
from infopt.units import format_seconds

Result = Mapping[str, Any]
# How a verdict looks in the line at the top.
STATUSES: Mapping[Verdict, str] = {
    "use": "pass",
    "limited": "open",
    "measure": "open",
    "skip": "open",
    "impossible": "fail",
}


def setting(asked: Boundaries, result: Result) -> Html:
    """What is served, on what, under which load; the time per token is a figure of the result."""
    *rows, (label, tpot) = words.situation_facts(asked.situation)
    written = format_seconds(result["tpot_s"])
    rows.append((label, joined(shown(result, "tpot_s", format_seconds), tpot.removeprefix(f"{written}, "))))
    if asked.applied:
        rows.append(("in use", ", ".join(asked.applied)))
    if not asked.situation.fits:
        rows.append(("memory", "this batch does not fit: gains are of a batch that has to be made to fit first"))
    return facts(rows)


def answer(boundary: Boundary, result: Result, key: str) -> Html:
    """Verdict, gain, reason, costs and the document's rule."""
    rows = [(label, gain(result, key, boundary) if label == "gain" else text) for label, text in answer_rows(boundary)]
    return facts(rows)


def gain(result: Result, key: str, boundary: Boundary) -> str:
    """The gain with its interval; "-" where there is none."""
    known = boundary.judgement.gain
    if known is None:
        return UNKNOWN
    best, metric = shown(result, f"{key}.gain_ratio", ratio), words.METRICS[known.metric]
    if known.low == known.high:
        return joined(best, metric)
    low, high = (shown(result, f"{key}.gain_{end}_ratio", ratio) for end in ("low", "high"))
    return joined(best, f"{metric},", low, "to", high)


def ratio(value: float) -> str:
    """A gain as it is read."""
    return f"{value:.2f}x"


def numbers(boundary: Boundary, result: Result, key: str) -> list[Html]:
    """The numbers that the verdict rests on; none where it needs none."""
    rows = []
    for position, figure in enumerate(boundary.judgement.figures):
        text, value = words.figure_row(figure)
        path = f"{key}.figures.{position}.value"
        rows.append((datum(path, found(result, path), value), text))
    return [table(("value", "what it is"), rows, f"Figures: {boundary.technique.name}", (0,))] if rows else []


def flips(boundary: Boundary, result: Result, key: str) -> Html:
    """Where the verdict changes."""
    rows: list[Sequence[str]] = []
    for position, flip in enumerate(boundary.break_evens):
        at = f"{key}.break_even.{position}"

        def write(value: float, unit: str = flip.unit) -> str:
            return words.bare_text(value, unit)

        value = "none in range" if flip.value is None else shown(result, f"{at}.value", write)
        rows.append((flip.quantity, value, shown(result, f"{at}.current", write), words.turn_text(flip)))
    return table(("quantity", "value", "now", "verdict"), rows, f"Flips of {boundary.technique.name}", (1, 2))


def assumed(asked: Boundaries) -> list[Html]:
    """What was filled in."""
    texts = [caveat.text for caveat in asked.assumptions]
    note = "Correct an assumption with the option of its name."
    return [section("What this rests on", listing(texts), note=note)] if texts else []
