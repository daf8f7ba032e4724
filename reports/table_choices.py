"""The choice of hardware as a page for the terminal."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from infopt.reports import words
from infopt.reports.terminal import columns_table, facts, heading, to_text
from infopt.studies.choices import Choices
from infopt.studies.planning import Plan
from infopt.units import format_bytes, format_tokens

SHOWN_OF_SMALLER_FORMATS = 4
COLUMNS = ("#", "--hw", "tp", "pp", "math", "TPOT from", "seqs", "longest", "$/h")
DROPPED_FIRST = ("math", "pp", "tp", "#", "longest", "$/h", "seqs")  # on a narrow screen


def choices_page(choices: Choices, command: str) -> str:
    """One table for each weight format; formats with fewer bits show their best, and how to see the rest.

    command  what was asked, to which `--hw` is added to look closer
    """
    return to_text(_parts(choices, command))


def _parts(choices: Choices, command: str) -> Iterator[RenderableType]:
    model = choices.model
    yield Text(f"Hardware for {model.id}", style="bold")
    if not choices.plans:
        yield f"None of {', '.join(choices.refused)} holds it on up to {words.counted(choices.limit, 'device')}."
        return
    first = choices.plans[0]
    yield facts(
        [
            ("model", words.model_words(first)),
            ("engine", words.engine_words(first) + words.default_mark(first, "engine", "utilization")),
            ("load", words.load_words(first) + words.default_mark(first, "context", "lengths")),
        ]
    )
    for position, (weights, plans) in enumerate(choices.by_format()):
        yield ""
        yield from _format_table(weights, plans, choices, None if position == 0 else SHOWN_OF_SMALLER_FORMATS)
    yield ""
    yield from _legend(choices, command)


def _format_table(weights: str, plans: Sequence[Plan], choices: Choices, shown: int | None) -> Iterator[RenderableType]:
    stored = format_bytes(plans[0].memory.stored_weights_bytes)
    note = f"{stored}, {'as stored' if weights == choices.stored_format else 'may cost quality'}"
    yield heading(f"{weights} weights", note)
    rows = [words.choice_cells(rank, plan) for rank, plan in enumerate(plans[:shown], start=1)]
    yield columns_table(COLUMNS, rows, "--hw", DROPPED_FIRST, indent=2, beside=_all_rows(choices))
    if shown is not None and len(plans) > shown:
        yield Padding(f"and {len(plans) - shown} more: --weights {weights}", (0, 0, 0, 2))


def _all_rows(choices: Choices) -> list[list[str]]:
    return [words.choice_cells(rank, plan) for rank, plan in enumerate(choices.plans, start=1)]


def legend_rows(choices: Choices) -> list[tuple[str, str]]:
    """What the columns mean, and what is not among the rows."""
    context = format_tokens(choices.plans[0].scenario.context_tokens)
    rows = [
        ("order", choices.ranking),
        ("TPOT from", "least time per output token of one user, by memory traffic; a bound, not an estimate"),
        ("seqs, longest", f"sequences of {context} that fit at once; the longest single one in tokens"),
        ("math", "the format of matrix products: what the device has dense units for"),
    ]
    rows.append(
        ("$/h", "list price of all devices where one with source and date is known; --price h100=2.49 sets yours")
    )
    if choices.refused:
        rows.append(
            ("not shown", f"too small on up to {words.counted(choices.limit, 'device')}: {', '.join(choices.refused)}")
        )
    return rows


def _legend(choices: Choices, command: str) -> Iterator[RenderableType]:
    best = choices.plans[0].scenario
    yield facts([*legend_rows(choices), ("next", f"{command} --hw {best.accelerator.id}:{best.gpus}")])
