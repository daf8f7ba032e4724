"""What a run of probes measured, as the terminal, Markdown, CSV and JSON show it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from infopt.frozen import dataclass
from infopt.hardware.calibration import Acceptance, Calibration, Measurement, Step, Value
from infopt.units import (
    format_bytes,
    format_bytes_per_s,
    format_flop_per_s,
    format_seconds,
    format_share,
    format_tokens,
)

# Conditions that a reader of the table does not need; --json has them all.
SILENT = {
    "threads",
    "nodes",
    "traffic",
    "rows",
    "columns",
    "matrices",
    "vector",
    "group",
    "request_bytes",
    "tp",
    "engine",
    "temperature",
}


def render_probe(record: Calibration, form: str) -> str:
    """One record in one form."""
    if form == "json":
        from infopt.reports.json_report import dumps

        return dumps(record.plain())
    if form == "csv":
        from infopt.reports.csv_report import rows_csv

        return rows_csv(list(flat_rows(record)))
    if form == "md":
        return _markdown(record)
    return _page(record)


def value_words(unit: str, value: float) -> str:
    """A figure with its unit.

    >>> value_words("bytes/s", 3.35e12)
    '3.35 TB/s'
    """
    if unit == "bytes/s":
        return format_bytes_per_s(value)
    if unit == "flop/s":
        return format_flop_per_s(value)
    if unit == "s":
        return format_seconds(value)
    return f"{value:.3g} {unit}"


@dataclass(frozen=True, slots=True)
class Section:
    """One table: its heading, what holds for all its rows, columns and cells."""

    name: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


MEASURED = ("what", "format", "median", "p10 to p90", "n", "of peak")
STEPS = ("model", "format", "mode", "batch", "tokens", "behind", "median", "p10 to p90", "n")
DRAFTS = ("draft", "text", "target", "drafted", "accepted by place", "tokens/step", "measured", "predicted", "verdict")
# A column that says the same in every row is said once, beside the heading.
ONCE = ("format", "mode", "target", "drafted")


def sections(record: Calibration) -> Iterator[Section]:
    """Tables of a record: one for each probe."""
    # A collective is given as a time by size and as the line through them; the rates by size are left to --json.
    shown = [
        m for m in record.measurements if not (m.probe == "links" and "size_bytes" in m.conditions and m.unit != "s")
    ]
    for probe, figures in groupby(shown, lambda m: m.probe):
        yield _measured(probe, list(figures))
    steps = sorted(record.steps, key=lambda s: (s.weight_bytes, s.eager, s.batch, s.tokens, s.context_tokens))
    decode = [_step(s) for s in steps if s.tokens == 1]
    others = [_step(s) for s in steps if s.tokens > 1]
    if decode:
        yield _section("DECODE STEPS", STEPS, decode)
    if others:
        yield _section("VERIFICATION AND PROMPTS", STEPS, others)
    if record.acceptance:
        yield _section("DRAFTS", DRAFTS, [_acceptance(a) for a in record.acceptance])


def _section(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Section:
    """A table without empty columns, and without those that say the same everywhere."""
    same = {c: rows[0][i] for i, c in enumerate(columns) if c in ONCE and len({row[i] for row in rows}) == 1}
    kept = [i for i, c in enumerate(columns) if c not in same and any(row[i] for row in rows)]
    note = ", ".join(f"{v} drafted" if c == "drafted" else v for c, v in same.items() if v)
    return Section(name, note, tuple(columns[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows))


def _measured(probe: str, figures: Sequence[Measurement]) -> Section:
    """The figures of one probe; what all were measured under is said beside the heading."""
    told = [list(condition_words(m.conditions)) for m in figures]
    common = [text for text in told[0] if len(figures) > 1 and all(text in each for each in told)]
    names = [
        ", ".join((m.name.replace("_", " "), *(c for c in each if c not in common)))
        for m, each in zip(figures, told, strict=True)
    ]
    section = _section(probe.upper(), MEASURED, [_measurement(m, name) for m, name in zip(figures, names, strict=True)])
    return replace(section, note=", ".join(filter(None, (section.note, *common))))


def _measurement(m: Measurement, name: str) -> list[str]:
    return [
        name,
        m.format or "",
        value_words(m.unit, m.value) + _mark(m),
        spread(m.unit, m.p10, m.p90),
        f"{m.n_clean}/{m.n}" if m.n_clean != m.n else str(m.n),
        format_share(m.share_of_peak) if m.share_of_peak is not None else "",
    ]


def condition_words(conditions: Mapping[str, Value]) -> Iterator[str]:
    """What was measured under, in few words; what no reader of a table needs is left to --json."""
    told = {name: value for name, value in conditions.items() if name not in SILENT and value is not None}
    sides = [told.pop(side) for side in ("m", "n", "k") if side in told]
    if sides:
        yield "x".join(str(side) for side in sides)
    for name, value in told.items():
        if name.endswith("_bytes") and isinstance(value, int | float):
            yield format_bytes(value)
        elif isinstance(value, bool):
            yield name.replace("_", " ") if value else f"not {name.replace('_', ' ')}"
        elif isinstance(value, str):
            yield value
        else:
            yield f"{'behind' if name == 'context_tokens' else name.replace('_', ' ')} {value:g}"


def _step(s: Step) -> list[str]:
    part = "" if s.layers_run == s.layers else f" ({s.layers_run} of {s.layers} layers)"
    return [
        s.model.rpartition("/")[2] + part,
        s.weights,
        "eager" if s.eager else "graph",
        str(s.batch),
        str(s.tokens),
        format_tokens(s.context_tokens),
        format_seconds(s.median_s) + _mark(s),
        spread("s", s.p10_s, s.p90_s),
        f"{s.n_clean}/{s.n}" if s.n_clean != s.n else str(s.n),
    ]


def _acceptance(a: Acceptance) -> list[str]:
    speedup = a.speedup_measured
    return [
        a.draft,
        a.text + ("" if a.sampling == "greedy" else f", T={a.temperature:g}"),
        a.target.rpartition("/")[2],
        str(a.drafted) if a.drafted is not None else "",
        " ".join(f"{share:.2f}" for share in a.per_position),
        f"{a.tokens_per_step:.2f}",
        f"{speedup:.2f}x" + _mark(a) if speedup is not None else "",
        f"{a.speedup_predicted:.2f}x" if a.speedup_predicted is not None else "",
        pays(a),
    ]


PAYS_MARGIN = 0.05  # a speedup closer to 1 than this is no gain and no loss: paired runs differ by as much


def pays(a: Acceptance) -> str:
    """Whether the draft pays; unclear where clock and prediction do not agree, empty where only acceptance is known."""
    known = [speedup for speedup in (a.speedup_measured, a.speedup_predicted) if speedup is not None]
    if a.speedup_measured is None:
        return ""
    if abs(a.speedup_measured - 1) < PAYS_MARGIN or len({speedup > 1 for speedup in known}) > 1:
        return "unclear"
    return "pays" if a.speedup_measured > 1 else "does not"


def _mark(figure: Measurement | Step | Acceptance) -> str:
    return " !" if figure.contended else ""


def spread(unit: str, low: float, high: float) -> str:
    """Two figures with their unit once where it is the same.

    >>> spread("s", 0.0123, 0.0145)
    '12.3 to 14.5 ms'
    """
    first, second = value_words(unit, low), value_words(unit, high)
    number, _, its_unit = first.partition(" ")
    return f"{number if its_unit == second.partition(' ')[2] else first} to {second}"


def flat_rows(record: Calibration) -> Iterator[dict[str, Any]]:
    """Every figure as a row: its kind, then its fields."""
    for kind, figures in (
        ("measurement", record.measurements),
        ("step", record.steps),
        ("acceptance", record.acceptance),
    ):
        for figure in figures:
            data = figure.model_dump()
            conditions = data.pop("conditions", {})
            data = {name: " ".join(map(str, v)) if isinstance(v, list) else v for name, v in data.items()}
            yield {"kind": kind, **data, **{f"conditions.{name}": v for name, v in conditions.items()}}


def remarks(record: Calibration) -> list[str]:
    """What must be said below the figures."""
    said = list(record.state.notes)
    if record.state.throttle:
        said.append(f"throttled while measured: {', '.join(record.state.throttle)}")
    if any(figure.contended for figure in record.figures):
        said.append("! contended: others used the machine, or samples differ too much; such figures calibrate nothing")
    if not record.complete:
        said.append("interrupted: what is listed is whole, the rest was not measured")
    return said


def title(record: Calibration) -> str:
    """Device and time in one line."""
    d = record.device
    threads = f", {d.threads} thread{'s' if d.threads > 1 else ''}" if d.kind == "cpu" else ""
    return f"{d.name}{threads}, {record.created}"


def _page(record: Calibration) -> str:
    from rich.text import Text

    from infopt.reports.terminal import columns_table, facts, heading, to_text

    parts: list[Any] = [Text(title(record), style="bold")]
    for s in sections(record):
        droppable = [c for c in ("n", "accepted by place", "p10 to p90") if c in s.columns]
        table = columns_table(s.columns, s.rows, s.columns[0], droppable, indent=2)
        parts += ["", heading(s.name, s.note), table]
    notes = remarks(record)
    if notes:
        parts += ["", heading("NOTES"), facts((("-", note) for note in notes), label_width=1)]
    return to_text(parts)


def _markdown(record: Calibration) -> str:
    from infopt.reports.markdown import escape

    lines = [f"# {escape(title(record))}"]
    for s in sections(record):
        lines += ["", f"## {s.name.capitalize()}{f' ({s.note})' if s.note else ''}", "", *_md_table(s.columns, s.rows)]
    lines += ["", *(f"- {escape(note)}" for note in remarks(record))]
    return "\n".join(lines).rstrip()


def _md_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
