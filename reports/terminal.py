"""The terminal form: widths, colours, bars. Rich is loaded here and only here."""

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from infopt.reports.screen import coloured, plain_characters, terminal_width

GAP = 2
BARS = {"full": ("█", "▏"), "light": ("░", "░")}
ASCII_BARS = {"full": ("#", "|"), "light": (".", ".")}
STYLES = {True: "bold green", False: "bold red", None: "bold yellow"}


def to_text(parts: Iterable[RenderableType]) -> str:
    """The parts as they are printed, one under the other."""
    colour = coloured()
    console = Console(
        file=StringIO(),
        width=terminal_width(),
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    text = capture.get()
    if plain_characters():
        text = text.encode("ascii", "replace").decode("ascii")
    return "\n".join(line.rstrip() for line in text.splitlines())


def heading(text: str, note: str = "") -> Text:
    """A section's name, with a remark in plain."""
    line = Text().append(text, style="bold")
    return line.append(f"  {note}", style="dim") if note else line


def facts(rows: Iterable[tuple[str, str]], label_width: int = 13) -> Padding:
    """Label and text; long texts wrap under themselves."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=label_width, no_wrap=True, style="cyan")
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, text)
    return Padding(table, (0, 0, 0, 2))


def columns_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: str,
    droppable: Sequence[str],
    indent: int = 0,
    beside: Sequence[Sequence[str]] = (),
) -> RenderableType:
    """Rows under their headings, all to the right but the column `left`; on a narrow screen columns go, not digits, and
    where no more can go, the column `left` is folded.

    droppable  the columns that can go, the first to go first
    beside     rows of sister tables, whose columns shall stand under one another
    """
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, *beside, strict=True)]
    room = terminal_width() - indent
    kept = _fitting(columns, widths, droppable, room)
    is_wide = sum(widths[i] + GAP for i in kept) - GAP > room
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="cyan", pad_edge=False)
    for position in kept:
        name, width = columns[position], widths[position]
        if name == left and is_wide:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="left" if name == left else "right", no_wrap=True, min_width=width)
    for cells in rows:
        table.add_row(*(cells[position] for position in kept))
    return Padding(table, (0, 0, 0, indent))


def _fitting(columns: Sequence[str], widths: Sequence[int], droppable: Sequence[str], width: int) -> list[int]:
    kept = list(range(len(columns)))
    for name in droppable:
        if sum(widths[i] + GAP for i in kept) - GAP <= width:
            break
        kept.remove(columns.index(name))
    return kept


def listed(label: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """Several texts under one label."""
    return [(label if position == 0 else "", text) for position, text in enumerate(texts)]


def bar(start: float, end: float, whole: float, width: int, style: str, shade: str = "full") -> Text:
    """A piece of a waterfall: from `start` to `end` of `whole`, in `width` cells; a sliver is never invisible."""
    full, sliver = ASCII_BARS[shade] if plain_characters() else BARS[shade]
    first, last = round(start / whole * width), round(end / whole * width)
    piece = full * (last - first)
    if last == first and end > start:
        first, piece = min(first, width - 1), sliver
    return Text(" " * first).append(piece, style=style)
