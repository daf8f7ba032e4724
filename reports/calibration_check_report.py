"""A calibration record checked against itself, in the terminal, Markdown, CSV and JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from infopt.studies.calibration_check import CalibrationCheck, Checked
from infopt.units import format_seconds, format_share, format_tokens

COLUMNS = ("model", "format", "mode", "batch", "behind", "floor", "measured", "predicted", "interval", "error")
WORDS = {True: "HOLDS", False: "FAILS", None: "UNDETERMINED"}


def render_calibration_check(found: CalibrationCheck, form: str) -> str:
    """The check in one form."""
    if form == "json":
        from infopt.reports.json_report import dumps

        return dumps(as_dict(found))
    if form == "csv":
        from infopt.reports.csv_report import rows_csv

        return rows_csv([_data(row) for row in found.rows])
    if form == "md":
        return "\n".join(_markdown(found))
    return _page(found)


def as_dict(found: CalibrationCheck) -> dict[str, Any]:
    """The check as JSON: seconds, shares of one."""
    return {
        "schema": "infopt/calibration_check/1",
        "device": found.device,
        "holds": found.passes,
        "groups": [
            {
                "group": g.name,
                "n": g.n,
                "median_ape": g.median_error_ratio,
                "worst_ape": g.worst_error_ratio,
                "limit": g.limit_ratio,
            }
            for g in found.groups
        ],
        "steps": [_data(row) for row in found.rows],
        "left_out": found.left_out,
        "unknown": list(found.unknown),
    }


def _data(row: Checked) -> dict[str, Any]:
    s = row.step
    return {
        "model": s.model,
        "weights": s.weights,
        "eager": s.eager,
        "batch": s.batch,
        "context_tokens": s.context_tokens,
        "floor_s": row.floor_s,
        "measured_s": row.measured_s,
        "predicted_s": row.predicted_s,
        "low_s": row.low_s,
        "high_s": row.high_s,
        "error": row.error_ratio,
        "above_floor": row.above_floor,
        "below_top": row.below_top,
    }


def _cells(row: Checked) -> list[str]:
    s = row.step
    predicted = row.predicted_s is not None and row.low_s is not None and row.high_s is not None
    return [
        s.model.rpartition("/")[2],
        s.weights,
        "eager" if s.eager else "graph",
        str(s.batch),
        format_tokens(s.context_tokens),
        (format_seconds(row.floor_s) if row.floor_s is not None else "-") + (" !" if row.above_floor is False else ""),
        format_seconds(row.measured_s),
        format_seconds(row.predicted_s) if row.predicted_s is not None else "known",
        f"{format_seconds(row.low_s)} to {format_seconds(row.high_s)}" + (" !" if row.below_top is False else "")
        if predicted and row.low_s is not None and row.high_s is not None
        else "",
        f"{row.error_ratio:+.1%}" if row.error_ratio is not None else "",
    ]


def _remarks(found: CalibrationCheck) -> Iterator[str]:
    for group in found.groups:
        yield (
            f"{group.name}: median error {format_share(group.median_error_ratio)} of {group.n} untouched steps, worst "
            f"{format_share(group.worst_error_ratio)}; promised {format_share(group.limit_ratio)}"
        )
    below = [row for row in found.rows if row.above_floor is False]
    above = [row for row in found.rows if row.below_top is False]
    yield f"{len(below)} of {len(found.rows)} steps below the floor{_named(below)}"
    yield f"{len(above)} above the interval{_named(above)}"
    if found.left_out:
        yield f"{found.left_out} contended steps left out"
    yield from found.unknown


def _named(rows: Sequence[Checked]) -> str:
    """Which steps, in few words."""
    steps = (row.step for row in rows)
    words = [f"{s.model.rpartition('/')[2]} {s.weights} batch {s.batch} behind {s.context_tokens}" for s in steps]
    return f": {'; '.join(words)}" if words else ""


def _page(found: CalibrationCheck) -> str:
    from rich.text import Text

    from infopt.reports.terminal import STYLES, columns_table, facts, heading, to_text

    rows = [_cells(row) for row in found.rows]
    title = Text(f"{found.device}: the record ").append(WORDS[found.passes], style=STYLES[found.passes])
    drop = ("interval", "mode", "floor", "format", "predicted")
    table = columns_table(COLUMNS, rows, "model", drop, indent=2) if rows else Text("  no decode step")
    notes = facts((("-", remark) for remark in _remarks(found)), label_width=1)
    return to_text([title, "", heading("DECODE STEPS"), table, "", heading("FOUND"), notes])


def _markdown(found: CalibrationCheck) -> Iterator[str]:
    from infopt.reports.markdown import escape

    yield f"# {escape(found.device)}: the record {WORDS[found.passes].lower()}"
    yield ""
    yield _line(COLUMNS)
    yield "|" + "---|" * len(COLUMNS)
    for row in found.rows:
        yield _line(_cells(row))
    yield ""
    for remark in _remarks(found):
        yield f"- {escape(remark)}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
