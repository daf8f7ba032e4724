"""Boundaries as a table and as JSON; a technique alone in reports/boundary_page.py."""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from infopt.boundaries.technique import Boundary, BreakEven, Judgement
from infopt.reports import boundary_words as words
from infopt.reports.json_report import placed_dict, workload_dict
from infopt.reports.markdown import escape, rows_markdown
from infopt.reports.screen import terminal_width
from infopt.studies.boundary import Boundaries
from infopt.units import format_whole

SCHEMA = "infopt/boundary/1"
COLUMNS = ("#", "technique", "verdict", "gain", "flips at")
STYLES = {"use": "bold green", "limited": "yellow", "measure": "bold yellow", "skip": "dim", "impossible": "bold red"}
NO_FLIP = "none in range"
FOOT = (
    "#: document 3's order of trying. use: switch it on, or keep it where the engine has it on. "
    "infopt boundary TECHNIQUE goes deep."
)


def page(found: Boundaries) -> str:
    """The table: a line of figures, and under it the number that decides."""
    from infopt.reports.terminal import facts, heading, listed, to_text

    parts: list[RenderableType] = [heading("Boundaries", "where each optimization starts and stops paying")]
    parts.append(facts([*words.situation_facts(found.situation), *_in_use(found)]))
    parts += ["", *_lines(found), "", facts([("note", FOOT), *listed("assumed", _assumed(found))])]
    return to_text(parts)


def _in_use(found: Boundaries) -> list[tuple[str, str]]:
    return [("in use", ", ".join(found.applied))] if found.applied else []


def _assumed(found: Boundaries) -> list[str]:
    return [caveat.text for caveat in found.assumptions]


def _lines(found: Boundaries) -> Iterator[RenderableType]:
    rows = [cells(boundary) for boundary in found.techniques]
    widths = [max(len(row[i]) for row in (COLUMNS, *rows)) for i in range(len(COLUMNS))]
    beside = sum(widths) + 2 * len(widths) - 2 <= terminal_width()
    kept = len(COLUMNS) if beside else len(COLUMNS) - 1
    yield Text(_joined(COLUMNS[:kept], widths), style="cyan")
    for boundary, row in zip(found.techniques, rows, strict=True):
        verdict = boundary.judgement.verdict
        line = Text(_joined(row[:kept], widths))
        start = widths[0] + widths[1] + 4
        line.stylize(STYLES[verdict], start, start + len(verdict))
        yield line
        reason = boundary.judgement.reason + ("" if beside or row[-1] == NO_FLIP else f"; flips at {row[-1]}")
        yield Padding(Text(reason, style="dim"), (0, 0, 0, widths[0] + 2))


def _joined(row: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def cells(boundary: Boundary) -> tuple[str, ...]:
    """One line of the table."""
    flip = words.nearest_flip(boundary.break_evens)
    return (
        format_whole(boundary.technique.order) if boundary.technique.order else "-",
        boundary.technique.id,
        boundary.judgement.verdict,
        words.gain_text(boundary.judgement.gain),
        _beyond(flip) if flip else NO_FLIP,
    )


def _beyond(flip: BreakEven) -> str:
    """The nearest value with another verdict, and that verdict: `batch >= 126: skip`."""
    value = words.bare_text(flip.value, flip.unit)
    here_above = flip.current is not None and flip.value is not None and flip.current >= flip.value
    return f"{flip.quantity} < {value}: {flip.below}" if here_above else f"{flip.quantity} >= {value}: {flip.above}"


def as_dict(found: Boundaries) -> dict[str, Any]:
    """The contract's object."""
    s, situation = found.situation.scenario, found.situation
    return {
        "schema": SCHEMA,
        "model": s.model.id,
        **placed_dict(s),
        "workload": {**workload_dict(s), "weight_format": s.weight_format, "kv_format": s.kv_format},
        "with": list(found.applied),
        "basis": situation.steps.basis,
        "tpot_s": situation.tpot_s(),
        "fits": situation.fits,
        "techniques": [technique_dict(boundary) for boundary in found.techniques],
        **_trace(found),
        "assumptions": [{"id": c.id, "text": c.text} for c in found.assumptions],
    }


def _trace(found: Boundaries) -> dict[str, Any]:
    """The trace where one was asked about."""
    if found.trace is None:
        return {}
    from infopt.reports import prefix_trace_report

    return {"prefix_trace": prefix_trace_report.as_dict(found.trace)}


def technique_dict(boundary: Boundary) -> dict[str, Any]:
    """One technique."""
    answer, technique = boundary.judgement, boundary.technique
    gain, rule = answer.gain, answer.rule
    return {
        "technique": technique.id,
        "name": technique.name,
        "ledger": technique.ledger,
        "order": technique.order,
        "verdict": answer.verdict,
        "gain_ratio": gain.value if gain else None,
        "gain_low_ratio": gain.low if gain else None,
        "gain_high_ratio": gain.high if gain else None,
        "gain_metric": gain.metric if gain else None,
        "reason": answer.reason,
        "settle": answer.settle or None,
        "break_even": [_flip(flip) for flip in boundary.break_evens],
        "figures": [{"name": f.name, "value": finite(f.value), "unit": f.unit, "text": f.text} for f in answer.figures],
        "costs": list(answer.costs),
        "rule": None
        if rule is None
        else {
            "document": rule.document,
            "text": rule.text,
            "says": rule.says,
            "agrees": agrees(answer),
            "why": rule.why,
        },
        "source": f"boundaries/{technique.id.replace('-', '_')}.py",
    }


def agrees(answer: Judgement) -> bool | None:
    """Whether the document's rule gives our verdict; None where it gives none."""
    return None if answer.rule is None or answer.rule.says is None else answer.rule.says == answer.verdict


def _flip(flip: BreakEven) -> dict[str, Any]:
    return {
        "quantity": flip.quantity,
        "value": flip.value,
        "unit": flip.unit,
        "current": flip.current,
        "below": flip.below,
        "above": flip.above,
        "searched_low": flip.low,
        "searched_high": flip.high,
    }


def finite(value: float | None) -> float | None:
    """JSON has no infinity: null."""
    return None if value is None or value != value or abs(value) == float("inf") else value


def rows(found: Boundaries) -> list[dict[str, Any]]:
    """Flat rows: one per technique, its nearest flip beside it."""
    flat = []
    for boundary in found.techniques:
        data, flip = technique_dict(boundary), words.nearest_flip(boundary.break_evens)
        kept = ("technique", "verdict", "gain_ratio", "gain_low_ratio", "gain_high_ratio", "gain_metric", "order")
        row = {name: data[name] for name in kept}
        row |= {
            "flip_quantity": flip.quantity if flip else None,
            "flip_value": flip.value if flip else None,
            "flip_unit": flip.unit if flip else None,
            "current": flip.current if flip else None,
            "beyond": _beyond(flip) if flip else None,
            "reason": data["reason"],
        }
        flat.append(row)
    return flat


def markdown(found: Boundaries) -> str:
    """The table as Markdown."""
    facts = [*words.situation_facts(found.situation), *_in_use(found)]
    lines = ["# Boundaries", "", *(f"- {label}: {escape(text)}" for label, text in facts)]
    table = [dict(zip(COLUMNS, cells(b), strict=True)) | {"reason": b.judgement.reason} for b in found.techniques]
    return "\n".join([*lines, "", rows_markdown(table)])
