"""`--explain` in the terminal: every term with its value, formula, kind and source."""

from collections.abc import Iterator
from itertools import groupby

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from infopt.reports import words
from infopt.reports.terminal import facts, heading
from infopt.studies.derivations import Line, explain
from infopt.studies.planning import Plan

TITLES = {
    "memory": "MEMORY",
    "kv": "KV CACHE of the whole model",
    "bandwidth": "BANDWIDTH",
    "compute": "COMPUTE",
    "hardware": "HARDWARE",
}


def explanation_parts(plan: Plan) -> Iterator[RenderableType]:
    """The derivations, ledger by ledger, and the sources."""
    sources: dict[str, int] = {}
    for ledger, lines in groupby(explain(plan), key=lambda line: line.ledger):
        yield heading(f"{TITLES[ledger]}, explained")
        yield _table(list(lines), sources)
        yield ""
    yield heading("SOURCES")
    yield facts(((f"[{n}]", source) for source, n in sources.items()), label_width=4)
    notes = plan.scenario.accelerator.notes
    if notes:
        yield ""
        yield heading("NOTES ON THE HARDWARE")
        yield facts((("-", note) for note in notes), label_width=1)


def _table(lines: list[Line], sources: dict[str, int]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="cyan")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(words.term_name(line.name), words.line_quantity(line), _how(line, sources))
    return Padding(table, (0, 0, 0, 2))


def _how(line: Line, sources: dict[str, int]) -> Text:
    """Formula, interval, kind, and the number of the source."""
    text = Text(line.formula)
    pieces = [line.kind]
    if interval := words.line_interval(line):
        pieces.insert(0, interval)
    if line.source:
        pieces.append(f"[{sources.setdefault(line.source, len(sources) + 1)}]")
    return text.append(("; " if line.formula else "") + ", ".join(pieces), style="dim")
