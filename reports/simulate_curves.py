"""A simulation over time in characters: running and waiting requests, the cache, output tokens a second."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from infopt.reports.screen import plain_characters, terminal_width
from infopt.studies.simulate import Simulation
from infopt.units import format_seconds, format_share

ROWS = 5
LABEL = 10
BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = " .:#"


def drawn(s: Simulation) -> Iterator[RenderableType]:
    """One panel under the other, on one axis of time."""
    width = terminal_width() - LABEL - 3
    for name, values, top in series(s):
        columns = spread(s.samples.time_s, values, width)
        yield Text(name, style="bold")
        yield from _panel(columns, top)
    end = format_seconds(s.samples.time_s[-1]) if s.samples.time_s else ""
    yield Text(f"{'':>{LABEL}} 0{end.rjust(width - 1)}", style="dim")


def series(s: Simulation) -> Iterator[tuple[str, Sequence[float], str]]:
    """Name, values at the samples, and the largest as a text."""
    samples = s.samples
    rates = token_rates(s)
    yield "running", samples.running, f"{max(samples.running, default=0):,}"
    yield "waiting", samples.waiting, f"{max(samples.waiting, default=0):,}"
    yield "KV cache in use", samples.used_share, format_share(max(samples.used_share, default=0.0))
    yield "output tokens/s", rates, f"{max(rates, default=0.0):,.0f}"


def token_rates(s: Simulation) -> list[float]:
    """Output tokens a second, by sample. Steps made in one go are counted when they end: their tokens go back over the
    samples before in which anybody ran."""
    times, tokens, running = s.samples.time_s, s.samples.output_tokens, s.samples.running
    rates, last = [0.0] * len(times), 0
    for at in range(1, len(times)):
        if tokens[at] == tokens[last]:
            continue
        busy = [between for between in range(last + 1, at + 1) if running[between] or running[between - 1]] or [at]
        rate = (tokens[at] - tokens[last]) / len(busy) / s.samples.every_s
        for between in busy:
            rates[between] = rate
        last = at
    return rates


def spread(times_s: Sequence[float], values: Sequence[float], width: int) -> list[float]:
    """Values at even distances of time: the mean of those in a column, the one before where there is none."""
    end_s = times_s[-1] if times_s else 0.0
    sums, counts = [0.0] * width, [0] * width
    for time_s, value in zip(times_s, values, strict=True):
        at = min(width - 1, int(time_s / end_s * width)) if end_s else 0
        sums[at] += value
        counts[at] += 1
    columns: list[float] = []
    for total, count in zip(sums, counts, strict=True):
        columns.append(total / count if count else columns[-1] if columns else 0.0)
    return columns


def _panel(columns: Sequence[float], top: str) -> Iterator[RenderableType]:
    blocks = ASCII_BLOCKS if plain_characters() else BLOCKS
    levels = len(blocks) - 1
    most = max(columns, default=0.0)
    heights = [round(value / most * ROWS * levels) if most else 0 for value in columns]
    for row in range(ROWS - 1, -1, -1):
        label = top if row == ROWS - 1 else "0" if row == 0 else ""
        cells = "".join(blocks[min(levels, max(0, height - row * levels))] for height in heights)
        yield Text(f"{label:>{LABEL}} {cells}".rstrip())
