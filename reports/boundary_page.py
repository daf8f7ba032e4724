"""One technique in full: verdict, interval, figures, costs, the document's rule, every flip, its curves."""

from collections.abc import Iterator

from rich.console import RenderableType

from infopt.boundaries.technique import Boundary
from infopt.reports import boundary_words as words
from infopt.reports.boundary_report import STYLES, _in_use
from infopt.reports.markdown import escape, rows_markdown
from infopt.studies.boundary import Boundaries


def page(found: Boundaries, curves: bool = False) -> str:
    """The page of the one technique asked about."""
    from infopt.reports.terminal import columns_table, facts, heading, to_text

    boundary = found.techniques[0]
    parts: list[RenderableType] = [heading(boundary.technique.name, f"saves {boundary.technique.ledger}")]
    parts.append(facts([*words.situation_facts(found.situation), *_in_use(found), *answer_rows(boundary)]))
    if boundary.judgement.figures:
        parts += ["", heading("Figures"), _figures(boundary)]
    table = flip_rows(boundary)
    parts += ["", heading("Flips", "the verdict changes here, all else as it is")]
    parts.append(columns_table(("quantity", "value", "now", "verdict"), table, "verdict", ("now",), indent=2))
    if curves:
        parts += list(_curves(found))
    if found.trace is not None:
        from infopt.reports.prefix_trace_report import section

        parts += section(found.trace, found.assumptions)
    return to_text(parts)


def answer_rows(boundary: Boundary) -> list[tuple[str, str]]:
    """Verdict, gain, reason, costs and the document's rule."""
    answer = boundary.judgement
    rows = [("verdict", answer.verdict), ("because", answer.reason)]
    if answer.gain is not None:
        rows.insert(1, ("gain", words.interval_text(answer.gain)))
    if answer.settle:
        rows.append(("settle it", answer.settle))
    rows += [("costs" if i == 0 else "", cost) for i, cost in enumerate(answer.costs)]
    if answer.rule is not None:
        rows.append(("rule", words.agreement_text(answer)))
    return rows


def _figures(boundary: Boundary) -> RenderableType:
    from infopt.reports.terminal import facts

    pairs = [words.figure_row(figure) for figure in boundary.judgement.figures]
    return facts([(value, text) for text, value in pairs], label_width=max(len(value) for _, value in pairs))


def flip_rows(boundary: Boundary) -> list[list[str]]:
    """Every flip, as cells."""
    return [
        [
            flip.quantity,
            words.bare_text(flip.value, flip.unit) if flip.value is not None else "none in range",
            words.bare_text(flip.current, flip.unit),
            words.turn_text(flip),
        ]
        for flip in boundary.break_evens
    ]


def _curves(found: Boundaries) -> Iterator[RenderableType]:
    from infopt.reports.boundary_curves import drawn
    from infopt.studies.boundary_curve import curves

    for curve in curves(found):
        yield ""
        yield from drawn(curve)


def markdown(found: Boundaries) -> str:
    """The same as Markdown."""
    boundary = found.techniques[0]
    lines = [f"# {boundary.technique.name}", ""]
    facts = [*words.situation_facts(found.situation), *_in_use(found), *answer_rows(boundary)]
    lines += [f"- {label}: {escape(text)}" if label else f"  {escape(text)}" for label, text in facts]
    figures = [{"figure": text, "value": value} for text, value in map(words.figure_row, boundary.judgement.figures)]
    flips = [dict(zip(("quantity", "value", "now", "verdict"), row, strict=True)) for row in flip_rows(boundary)]
    if figures:
        lines += ["", rows_markdown(figures)]
    lines += ["", rows_markdown(flips)]
    if found.trace is not None:
        from infopt.reports import prefix_trace_report

        lines += ["", prefix_trace_report.markdown(found.trace, found.assumptions)]
    return "\n".join(lines)


__all__ = ["STYLES", "answer_rows", "flip_rows", "markdown", "page"]
