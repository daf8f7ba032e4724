"""The terminal form: widths, colours, bars. Rich is loaded here and only here."""

import os
import sys
from collections.abc import Iterable
from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

MIN_WIDTH, MAX_WIDTH, DEFAULT_WIDTH = 40, 120, 80
STYLES = {True: "bold green", False: "bold red", None: "bold yellow"}


def terminal_width() -> int:
    """Columns to print in: COLUMNS, the terminal's width, else 80; never more than reads well."""
    text = os.environ.get("COLUMNS", "")
    if text.isdigit() and int(text):
        width = int(text)
    else:
        try:
            width = os.get_terminal_size(sys.stdout.fileno()).columns or DEFAULT_WIDTH
        except (OSError, ValueError):
            width = DEFAULT_WIDTH
    return min(max(width, MIN_WIDTH), MAX_WIDTH)


def coloured() -> bool:
    """Colours only on a terminal that wants them."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def plain_characters() -> bool:
    """Whether stdout can only take ASCII."""
    return "utf" not in (sys.stdout.encoding or "").lower()


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
    line = Text(text, style="bold")
    return line.append(f"  {note}", style="not bold dim") if note else line


def facts(rows: Iterable[tuple[str, str]], label_width: int = 13) -> Padding:
    """Label and text; long texts wrap under themselves."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=label_width, no_wrap=True, style="cyan")
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, text)
    return Padding(table, (0, 0, 0, 2))


def bar(start: float, end: float, whole: float, width: int, style: str) -> Text:
    """A piece of a waterfall: from `start` to `end` of `whole`, in `width` cells; a sliver is never invisible."""
    first, last = round(start / whole * width), round(end / whole * width)
    if last == first and end > start:
        piece = "|" if plain_characters() else "▏"
        first = min(first, width - 1)
    else:
        piece = ("#" if plain_characters() else "█") * (last - first)
    return Text(" " * first).append(piece, style=style)
