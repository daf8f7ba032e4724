"""The tuning ladder of document 2 as a page, and as Markdown."""

from collections.abc import Iterator
from typing import Any

from infopt.reports import experiment_words as words
from infopt.reports.simulate_words import arrivals, headline
from infopt.studies.experiment_commands import save_line, start_of
from infopt.studies.experiment_ladder import Climbed, Ladder, Trial, chosen, ladder_data
from infopt.studies.experiment_trial import Tried
from infopt.studies.saved_run import SavedRun, metric
from infopt.units import format_seconds, format_share

COLUMNS = ("step", "good", "TTFT p99", "TPOT p99", "output", "gain", "chance", "")
SHOWN = ("good_share", "ttft_p99_s", "tpot_p99_s", "output_tokens_per_s")
TITLE = "Tuning ladder of document 2"
MARKS = {
    "kept": "stays",
    "no gain": "no gain",
    "worse": "worse",
    "needs quality": "quality?",
    "no estimate": "not known",
    "does not fit": "does not fit",
    "impossible": "impossible",
}


def page(found: Ladder) -> str:
    """The terminal form."""
    from infopt.reports.terminal import to_text

    return to_text(_parts(found))


def _parts(found: Ladder) -> Iterator[Any]:
    from rich.text import Text

    from infopt.reports.terminal import STYLES, columns_table, facts, heading, listed

    _, simulation = found.baseline.found
    yield Text(f"{TITLE} for {headline(simulation)}", style="bold")
    yield facts([*listed("arrives", arrivals(simulation)), *context_rows(found)])
    yield ""
    yield Text().append(words_of(found), style=STYLES[found.holds]).append(f": {sentence(found)}")
    yield ""
    yield columns_table(COLUMNS, table(found), "step", ("chance", "TPOT p99", "output"))
    rows = reason_rows(found)
    if rows:
        yield ""
        yield heading("WHY", "and what is not simulated here")
        yield facts(rows, label_width=14)
    yield ""
    yield heading("MEASURE IT", "each step that stays, and the baseline")
    yield facts(command_rows(found), label_width=14)
    yield ""
    yield heading("GATES", "before a step stays for good")
    yield facts(gate_rows())


def context_rows(found: Ladder) -> list[tuple[str, str]]:
    """Targets, seeds, and where the baseline is not the document's."""
    job = found.baseline.job
    asked = [
        f"{name} {format_seconds(value)}"
        for name, value in (("TTFT", job.targets.ttft_s), ("TPOT", job.targets.tpot_s), ("E2E", job.targets.e2e_s))
        if value is not None
    ]
    goal = f"{format_share(job.good_share)} within {' and '.join(asked)}" if asked else "none: throughput, then times"
    run, _ = found.baseline.found
    several = f"{found.seeds} draws of the requests" if run.repetitions and run.repetitions.kind == "seeds" else None
    rows = [
        ("targets", goal),
        ("chance", f"95% intervals over {several or 'ten parts of the trace'}, the same for all"),
    ]
    departs = f"departs from the document's ({ladder_data().baseline}): {', '.join(found.departs)}"
    return [*rows, *([("baseline", departs)] if found.departs else [])]


def words_of(found: Ladder) -> str:
    """The verdict in a word or two."""
    return (
        "TARGETS MET" if found.holds and found.baseline.job.targets.given else "KEEPS UP" if found.holds else "NOT YET"
    )


def sentence(found: Ladder) -> str:
    """What stays, and what waits for quality."""
    stays = [f"{trial.variable} {words.value(trial.value)}" for trial in chosen(found)]
    waits = [trial for climbed in found.rungs for trial in climbed.trials if trial.judged.outcome == "needs quality"]
    said = f"with {', '.join(stays)}" if stays else "no simulated step gains beyond chance"
    if not waits:
        return said
    held = ", ".join(f"{trial.variable} {words.value(trial.value)}" for trial in waits)
    return f"{said}; {held} would gain, once quality is measured (--quality-holds)"


def table(found: Ladder) -> list[list[str]]:
    """The baseline, then every value that has figures or failed."""
    run, _ = found.baseline.found
    rows = [["baseline", *figures(run), "", "", "saturated" if run.saturated else ""]]
    for climbed in found.rungs[1:]:
        if climbed.trials:
            rows.append([climbed.rung.name, *[""] * 7])
        rows += [trial_cells(trial) for trial in climbed.trials]
    return rows


def figures(run: SavedRun) -> list[str]:
    """The metrics of the table."""
    return [words.figure(run.metrics.get(name), metric(name)) for name in SHOWN]


def trial_cells(trial: Trial) -> list[str]:
    """One line of the table."""
    run, judged = trial.tried.run, trial.judged
    gain = "" if judged.gain_ratio is None else words.times(judged.gain_ratio)
    chance = "" if judged.half_ratio is None else f"+-{format_share(judged.half_ratio)}"
    shown = figures(run) if run is not None else ["-"] * len(SHOWN)
    mark = MARKS[judged.outcome] + (", saturated" if run is not None and run.saturated else "")
    return [f"  {trial.variable} {words.value(trial.value)}", *shown, gain, chance, mark]


def reason_rows(found: Ladder) -> list[tuple[str, str]]:
    """What each rung's outcome rests on."""
    rows: list[tuple[str, str]] = []
    for climbed in found.rungs[1:]:
        texts = list(_reasons(climbed))
        rows += [(climbed.rung.id if not at else "", text) for at, text in enumerate(texts)]
    return rows


def _reasons(climbed: Climbed) -> Iterator[str]:
    yield from climbed.notes
    for trial in climbed.trials:
        judged, name = trial.judged, f"{trial.variable} {words.value(trial.value)}"
        if judged.outcome in ("no estimate", "does not fit", "impossible"):
            yield f"{name}: {judged.reason}"
        elif judged.outcome in ("kept", "worse", "needs quality"):
            told = judged.gain_ratio is None or judged.metric == "good_share"
            text = judged.reason if told else f"{judged.reason} {words.times(judged.gain_ratio or 0.0)}"
            yield f"{name}: {text}{f'; {judged.note}' if judged.note else ''}"
    if climbed.unknown:
        yield f"not simulated: {climbed.unknown}"
    if climbed.boundary is not None:
        b = climbed.boundary
        settle = f" ({b.settle})" if b.settle else ""
        yield f"infopt boundary {b.technique}: {b.verdict}, {b.reason}{settle}"


def command_rows(found: Ladder) -> list[tuple[str, str]]:
    """Start lines, and how a measurement is saved."""
    named: list[tuple[str, Tried]] = [("baseline", found.baseline)]
    named += [(f"{trial.variable} {words.value(trial.value)}", trial.tried) for trial in chosen(found)]
    rows = []
    for at, (name, tried) in enumerate(named):
        start = start_of(tried)
        rows.append((name[:14], start.text))
        rows += [("", f"note: {note}") for note in start.notes]
        rows.append(("  save", save_line(tried, f"{at}.json", f"{at}.yaml")))
    if len(named) > 1:
        files = " ".join(f"{at}.yaml" for at in range(len(named)))
        rows.append(("  compare", f"infopt experiment compare {files}"))
    return rows


def gate_rows() -> list[tuple[str, str]]:
    """The gates, by kind."""
    gates = ladder_data().gates
    groups = (("performance", gates.performance), ("quality", gates.quality), ("stop when", gates.stop))
    return [(name if not at else "", text) for name, texts in groups for at, text in enumerate(texts)]


def markdown(found: Ladder) -> str:
    """Three tables: steps, reasons, commands."""
    from infopt.reports.markdown import escape
    from infopt.reports.markdown import table as drawn

    _, simulation = found.baseline.found
    lines = [
        f"### {TITLE} for {escape(headline(simulation))}",
        "",
        f"**{words_of(found)}**: {escape(sentence(found))}",
        "",
    ]
    lines += [*drawn(COLUMNS, table(found), "lrrrrrrl"), ""]
    lines += [*drawn(("rung", "why"), reason_rows(found), "ll"), ""]
    return "\n".join([*lines, *drawn(("step", "command"), command_rows(found), "ll")])
