"""Two saved runs beside each other as a page, and as Markdown: verdict, configuration, metrics, quality."""

from collections.abc import Iterator, Sequence
from typing import Any

from infopt.reports import experiment_words as words
from infopt.studies.experiment_compare import Compared, MetricRow, QualityRow
from infopt.studies.experiment_variables import Change
from infopt.studies.saved_run import Quality, SavedRun
from infopt.units import format_share

CONFIGURATION = ("variable", "A", "B")
METRICS = ("metric", "A", "B", "change", "chance", "effect")
QUALITY = ("quality", "A", "B", "chance", "effect")
EFFECTS = {"unknown noise": "chance not known", "within noise": "within chance", "shown": ""}
TITLES = {
    "attributed": "ATTRIBUTED",
    "none": "NO DIFFERENCE",
    "refused": "NOT ATTRIBUTED",
    "needs-measurement": "NEEDS MEASUREMENT",
    "quality-worse": "QUALITY FELL",
}
GOOD: dict[str, bool | None] = {
    "attributed": True,
    "none": True,
    "refused": False,
    "needs-measurement": None,
    "quality-worse": False,
}


def page(found: Sequence[Compared], names: Sequence[str]) -> str:
    """The terminal form."""
    from infopt.reports.terminal import to_text

    return to_text(_parts(found, names))


def _parts(found: Sequence[Compared], names: Sequence[str]) -> Iterator[Any]:
    from rich.text import Text

    for at, one in enumerate(found):
        if at:
            yield ""
        yield Text("Two saved runs, term by term", style="bold")
        yield from _pair(one, names[at], names[at + 1])


def _pair(c: Compared, a: str, b: str) -> Iterator[Any]:
    from rich.text import Text

    from infopt.reports.terminal import STYLES, columns_table, facts, heading, listed

    yield facts([("A", who(c.a, a)), ("B", who(c.b, b))])
    yield ""
    yield Text().append(TITLES[c.verdict], style=STYLES[GOOD[c.verdict]]).append(f": {sentence(c)}")
    yield ""
    yield heading("CONFIGURATION", "what differs")
    rows = configuration_rows(c)
    yield columns_table(CONFIGURATION, rows, "variable", (), indent=2) if rows else facts([("", "nothing")])
    yield ""
    yield heading("METRICS", "chance: half of the 95% interval of the difference")
    yield columns_table(METRICS, [metric_cells(row) for row in shown(c)], "metric", ("chance",), indent=2)
    if c.quality:
        yield ""
        yield heading("QUALITY")
        yield columns_table(QUALITY, [quality_cells(row) for row in c.quality], "quality", (), indent=2)
    more = (*c.refusals[1:], *(c.missing if c.verdict != "needs-measurement" else c.missing[1:]))
    if more:
        yield ""
        yield facts(listed("also", more))


def who(run: SavedRun, name: str) -> str:
    """A run in one line."""
    c = run.configuration
    placed = f"{words.value(c.get('gpus'))} x {run.hardware.name or run.hardware.device}"
    engine = " ".join(str(c[name]) for name in ("engine", "engine_version") if c.get(name))
    what = f"{run.kind}, {run.requests.count:,} requests, {repeated(run)}"
    return f"{name}: {c.get('model', 'model not stated')} on {placed}, {engine}; {what}"


def repeated(run: SavedRun) -> str:
    """How often it was done."""
    several = run.repetitions
    return "once" if several is None else f"{len(several.runs)} {several.kind}"


def sentence(c: Compared) -> str:
    """What can be said, in one sentence."""
    if c.verdict == "refused":
        return c.refusals[0]
    change = c.variable
    if change is None:
        return "the same configuration, and no metric differs by more than chance"
    moved = _moved(c)
    said = f"{told(change)}: {moved}" if moved else f"{told(change)}: nothing beyond chance"
    if c.verdict == "needs-measurement":
        return f"{c.missing[0]} ({said})"
    if c.verdict == "quality-worse":
        worse = ", ".join(row.name for row in c.quality if row.effect == "worse")
        return f"{worse} is worse by more than chance, whatever else is gained ({said})"
    return said


# Of figures that move together only these are named in the sentence, as many as there are.
NAMED = ("good_share", "goodput_per_s", "output_tokens_per_s", "ttft_p99_s", "ttft_mean_s", "tpot_mean_s", "e2e_mean_s")


def _moved(c: Compared) -> str:
    rows = {row.metric.id: row for row in (*c.better, *c.worse)}
    named = [rows[name] for name in NAMED if name in rows] or list(rows.values())[:3]
    texts = [f"{row.metric.name} {_change(row)}" for row in named]
    if c.keeps_up in ("better", "worse"):
        texts.insert(0, "keeps up" if c.keeps_up == "better" else "no longer keeps up")
    return ", ".join(texts)


def told(change: Change) -> str:
    """A variable with its values."""
    name, old, new = change.knobs[0]
    head = f"{name} {words.value(old)} -> {words.value(new)}"
    return head if change.variable == name else f"{change.variable} ({head}, ...)"


def configuration_rows(c: Compared) -> list[list[str]]:
    """What differs, what came along set in, and what only one states."""
    rows = []
    for change in c.differences.changes:
        for at, (name, old, new) in enumerate(change.knobs):
            rows.append([name if not at else f"  with {name}", words.value(old), words.value(new)])
    for name, side in c.differences.unknown:
        run = c.a if side == "A" else c.b
        stated = words.value(run.configuration[name])
        rows.append([name, *((stated, "not stated") if side == "A" else ("not stated", stated))])
    return rows


def shown(c: Compared) -> list[MetricRow]:
    """Metrics that at least one run has; of those that are neither good nor bad, the ones that differ."""
    known = [row for row in c.metrics if row.a is not None or row.b is not None]
    return [row for row in known if row.metric.better is not None or row.a != row.b]


def metric_cells(row: MetricRow) -> list[str]:
    """One line of the table."""
    chance = "" if row.half is None or row.effect == "same" else _chance(row, row.half)
    return [
        row.metric.name,
        words.figure(row.a, row.metric),
        words.figure(row.b, row.metric),
        _change(row),
        chance,
        EFFECTS.get(row.effect, row.effect),
    ]


def _chance(row: MetricRow, half: float) -> str:
    if row.metric.unit == "share":
        return f"+-{_points(half)}"
    return f"+-{format_share(abs(half / row.a))}" if row.a else ""


def _points(share: float) -> str:
    return f"{format_share(abs(share)).removesuffix('%')} points"


def _change(row: MetricRow) -> str:
    if row.difference is None or row.effect == "same" or row.a == row.b:
        return "=" if row.a == row.b else ""
    if row.metric.unit == "share":
        sign = "+" if row.difference > 0 else "-"
        return f"{sign}{_points(row.difference)}"
    return "" if row.ratio is None else words.percent(row.ratio)


def quality_cells(row: QualityRow) -> list[str]:
    """One line of the table."""
    chance = "" if row.half is None else f"+-{_score(row.half, row.unit)}"
    effect = EFFECTS.get(row.effect, row.effect) if row.a and row.b else "needs measurement"
    return [row.name, _quality(row.a), _quality(row.b), chance, effect]


def _quality(one: Quality | None) -> str:
    return "-" if one is None else _score(one.value, one.unit) + (f" of {one.n:,}" if one.n else "")


def _score(value: float, unit: str) -> str:
    return format_share(value) if unit == "share" else f"{value:.4g}{f' {unit}' if unit else ''}"


def markdown(found: Sequence[Compared], names: Sequence[str]) -> str:
    """Tables for a pull request."""
    from infopt.reports.markdown import escape, table

    lines: list[str] = []
    for at, c in enumerate(found):
        lines += ["### Two saved runs, term by term", ""]
        lines += [f"- A: {escape(who(c.a, names[at]))}", f"- B: {escape(who(c.b, names[at + 1]))}", ""]
        lines += [f"**{TITLES[c.verdict]}**: {escape(sentence(c))}", ""]
        lines += [*table(CONFIGURATION, configuration_rows(c), "lrr"), ""]
        lines += [*table(METRICS, [metric_cells(row) for row in shown(c)], "lrrrrl"), ""]
        if c.quality:
            lines += [*table(QUALITY, [quality_cells(row) for row in c.quality], "lrrrl"), ""]
    return "\n".join(lines).rstrip("\n")
