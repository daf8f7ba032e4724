"""Two calibration records side by side, as the terminal, Markdown, CSV and JSON show them."""

from collections.abc import Iterator, Sequence
from typing import Any

from infopt.hardware.calibration import Calibration
from infopt.reports.probe_report import condition_words, value_words
from infopt.studies.calibration_compare import DRIFT_RATIO, Compared, Figure, Row

SCHEMA = "infopt/calibration_comparison/1"
COLUMNS = ("what", "format", "A", "B", "B/A", "")
DROPPED_FIRST = ("A", "B", "format")  # their ratio and the verdict are what was asked for


def render_comparison(found: Compared, form: str) -> str:
    """The comparison in one form."""
    if form == "json":
        from infopt.reports.json_report import dumps

        return dumps(as_dict(found))
    if form == "csv":
        from infopt.reports.csv_report import rows_csv

        return rows_csv([_flat(row) for row in found.rows])
    return _markdown(found) if form == "md" else _page(found)


def as_dict(found: Compared) -> dict[str, Any]:
    """Plain numbers; null where a record lacks a figure."""
    return {
        "schema": SCHEMA,
        "a": _record(found.a, found.a_path),
        "b": _record(found.b, found.b_path),
        "differences": list(found.differences),
        "drifted": found.count("drift"),
        "same": found.count("same"),
        "contended": found.count("contended"),
        "only_in_a": found.count("only in A"),
        "only_in_b": found.count("only in B"),
        "figures": [_figure(row) for row in found.rows],
    }


def _record(record: Calibration, path: str) -> dict[str, Any]:
    return {"file": path, "device": record.device.name, "unit": record.device.uuid_hash, "created": record.created}


def _figure(row: Row) -> dict[str, Any]:
    return {
        "probe": row.probe,
        "name": row.name,
        "format": row.format,
        "unit": row.unit,
        "conditions": dict(row.conditions),
        **_side("a", row.a),
        **_side("b", row.b),
        "ratio": row.ratio,
        "verdict": row.verdict.replace(" ", "_").lower(),
    }


def _side(name: str, figure: Figure | None) -> dict[str, float | None]:
    if figure is None:
        return {name: None, f"{name}_p10": None, f"{name}_p90": None}
    return {name: figure.value, f"{name}_p10": figure.p10, f"{name}_p90": figure.p90}


def _flat(row: Row) -> dict[str, Any]:
    """One figure as CSV has it: conditions in one cell, since every probe has its own."""
    return _figure(row) | {"conditions": "; ".join(f"{name}={value}" for name, value in row.conditions.items())}


def _cells(row: Row, name: str) -> list[str]:
    return [
        name,
        row.format or "",
        value_words(row.unit, row.a.value) if row.a else "-",
        value_words(row.unit, row.b.value) if row.b else "-",
        f"{row.ratio:.2f}" if row.ratio is not None else "",
        "" if row.verdict == "same" else row.verdict,
    ]


def names(rows: Sequence[Row]) -> list[str]:
    """What each row is of: its name, with as much of its conditions as tells it from rows of the same name."""
    words = [list(condition_words(row.conditions)) for row in rows]
    made = []
    for row, own in zip(rows, words, strict=True):
        alike = [
            each for other, each in zip(rows, words, strict=True) if (other.name, other.unit) == (row.name, row.unit)
        ]
        telling = [word for word in own if not all(word in each for each in alike)]
        made.append(", ".join([row.name.rpartition("/")[2].replace("_", " "), *telling]))
    return made


def _sections(found: Compared) -> Iterator[tuple[str, list[list[str]]]]:
    """Rows of each probe, in the order in which the records have them."""
    for probe in dict.fromkeys(row.probe for row in found.rows):
        rows = [row for row in found.rows if row.probe == probe]
        yield probe, [_cells(row, name) for row, name in zip(rows, names(rows), strict=True)]


def _title(record: Calibration, path: str) -> str:
    return f"{path}: {record.device.name}, {record.created}"


def verdict_words(found: Compared) -> str:
    """The comparison in one sentence."""
    drifted, same = found.count("drift"), found.count("same")
    others = [
        f"{count} {words}"
        for count, words in (
            (found.count("contended"), "contended"),
            (found.count("only in A"), "only in A"),
            (found.count("only in B"), "only in B"),
        )
        if count
    ]
    rest = f" ({', '.join(others)})" if others else ""
    if not drifted + same:
        return f"nothing can be compared{rest}"
    limit = f"{DRIFT_RATIO - 1:.0%} and the spread of both"
    what = f"{drifted} of {drifted + same} figures drifted by more than {limit}"
    return (what if drifted else f"none of {same} figures drifted by more than {limit}") + rest


def _page(found: Compared) -> str:
    from infopt.reports.terminal import columns_table, facts, heading, to_text

    parts: list[Any] = [facts([("A", _title(found.a, found.a_path)), ("B", _title(found.b, found.b_path))])]
    for name, rows in _sections(found):
        parts += ["", heading(name.upper()), columns_table(COLUMNS, rows, "what", DROPPED_FIRST, indent=2)]
    notes = [("also differ", text) if i == 0 else ("", text) for i, text in enumerate(found.differences)]
    return to_text([*parts, "", facts([("verdict", verdict_words(found)), *notes])])


def _markdown(found: Compared) -> str:
    from infopt.reports.markdown import escape, table

    lines = [f"- A: {escape(_title(found.a, found.a_path))}", f"- B: {escape(_title(found.b, found.b_path))}"]
    for name, rows in _sections(found):
        lines += ["", f"## {name.capitalize()}", "", *table([*COLUMNS[:-1], "verdict"], rows, "llrrrl")]
    lines += ["", f"{verdict_words(found)}.", *(f"- also differs: {escape(text)}" for text in found.differences)]
    return "\n".join(lines)
