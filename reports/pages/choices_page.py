"""The choice of hardware as a page: what holds the model, how fast each can be at most, what it costs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infopt.reports import words
from infopt.reports.json_report import choices_dict
from infopt.reports.pages.blocks import Html, code_block, facts, figure, section, table, verdict
from infopt.reports.pages.blocks import words as glossary
from infopt.reports.pages.charts import Axis, Chart, Series
from infopt.reports.pages.figures import shown
from infopt.reports.pages.page import Page
from infopt.reports.table_choices import legend_rows
from infopt.studies.choices import Choices
from infopt.studies.planning import Plan
from infopt.units import format_bytes, format_seconds, format_usd, format_whole

STATUSES = {True: "pass", False: "fail", None: "open"}
COLUMNS = ("#", "--hw", "tp", "pp", "math", "TPOT from", "sequences", "longest", "$/h")


def choices_page(choices: Choices, command: str, next_line: str) -> Page:
    """The page; `next_line` is the command line to which the hardware chosen is added."""
    result = choices_dict(choices)
    charts = (_chart(choices),) if choices.plans else ()
    title = f"Hardware for {choices.model.id}"
    return Page(title, command, result, _body(choices, result, charts, next_line), charts)


def _body(choices: Choices, result: Mapping[str, Any], charts: Sequence[Chart], next_line: str) -> Iterator[Html]:
    if not choices.plans:
        text = f"none of {', '.join(choices.refused)} holds it on up to {words.counted(choices.limit, 'device')}"
        yield verdict("fail", "NOTHING FITS", text)
        return
    first, best = choices.plans[0], choices.plans[0].scenario
    text = f"{words.counted(len(choices.plans), 'choice')}, first {best.accelerator.id}:{best.gpus}"
    yield verdict(STATUSES[choices.fits], words.verdict_word(first), text)
    yield facts(
        [
            ("model", words.model_words(first)),
            ("engine", words.engine_words(first) + words.default_mark(first, "engine", "utilization")),
            ("load", words.load_words(first) + words.default_mark(first, "context", "lengths")),
        ]
    )
    yield section(
        "Devices against time per token", *map(figure, charts), note="Fewer devices and less time are better."
    )
    at = 0
    for weights, plans in choices.by_format():
        stored = format_bytes(plans[0].memory.stored_weights_bytes)
        quality = "as stored" if weights == choices.stored_format else "may cost quality"
        rows = [_row(result, at + i, i + 1, plan) for i, plan in enumerate(plans)]
        at += len(plans)
        yield section(
            f"{weights} weights",
            table(COLUMNS, rows, "Choices, best first", (0, 2, 3, 5, 6, 7, 8)),
            note=f"{stored}, {quality}",
        )
    yield section("How to read this", glossary(legend_rows(choices)))
    yield section("Look closer", code_block(f"{next_line} --hw {best.accelerator.id}:{best.gpus}", "Command line"))


def _row(result: Mapping[str, Any], at: int, rank: int, plan: Plan) -> list[str]:
    path = f"choices.{at}"
    cells = words.choice_cells(rank, plan)
    return [
        *cells[:5],
        shown(result, f"{path}.bandwidth.tpot_floor_s", format_seconds),
        cells[6],
        shown(result, f"{path}.memory.max_context_tokens", format_whole),
        shown(result, f"{path}.cost.usd_per_hour", format_usd),
    ]


def _chart(choices: Choices) -> Chart:
    """Every choice by its devices and its floor."""
    series = [
        Series(
            f"{weights} weights",
            "estimate",
            "points",
            [(one.scenario.gpus, one.bandwidth.tpot_floor_s, one.scenario.accelerator.id) for one in plans],
        )
        for weights, plans in choices.by_format()
    ]
    return Chart(
        "choices",
        "lines",
        "What holds it",
        "Each point is the fewest devices of a kind that hold the load, and the least time per output token there.",
        Axis("devices", "tokens", "log"),
        Axis("TPOT, at least", "s", "log"),
        tuple(series),
    )
