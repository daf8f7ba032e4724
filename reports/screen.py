"""What the screen can show: its width, colours, characters. Needs no library."""

import os
import sys

MIN_WIDTH, MAX_WIDTH, DEFAULT_WIDTH = 40, 120, 80


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
