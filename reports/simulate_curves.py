"""A simulation over time in characters: first tokens, running and waiting requests, the cache, output tokens."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from infopt.reports import curves as drawing
from infopt.simulation.over_time import over_time
from infopt.studies.simulate import Simulation
from infopt.units import format_seconds, format_share

ROWS = 5


def drawn(s: Simulation) -> Iterator[RenderableType]:
    """One panel under the other, on one axis of time."""
    columns = drawing.width()
    yield from _first_tokens(s, columns)
    for name, values, top in series(s):
        yield Text(name, style="bold")
        yield from drawing.area(spread(s.samples.time_s, values, columns), top, ROWS)
    yield from drawing.axis("0", format_seconds(s.samples.time_s[-1]) if s.samples.time_s else "", columns)


def _first_tokens(s: Simulation, columns: int) -> Iterator[RenderableType]:
    """Percentiles of TTFT by when requests were sent, where the requests were kept and some were answered."""
    found = over_time(s.rows) if s.rows is not None else None
    known = [value for value in found.ttft_s.p99 if value is not None] if found else []
    if found is None or not known:
        return
    target_s, end_s = s.job.targets.ttft_s, s.samples.time_s[-1]
    at = [end_s * column / max(1, columns - 1) for column in range(columns)]
    half, most = (drawing.read_off(found.time_s, values, at) for values in (found.ttft_s.p50, found.ttft_s.p99))
    layers = [drawing.line("p99", most, "other"), drawing.line("p50", half)]
    if target_s is not None:
        layers.insert(0, drawing.rule(f"target {format_seconds(target_s)}", target_s, columns))
    top = drawing.round_top(max([*known, target_s or 0.0]))
    yield Text("TTFT", style="bold").append("  by when requests were sent", style="dim")
    yield from drawing.chart(layers, 0.0, top, {0.0: "0", top: format_seconds(top)}, ROWS)
    yield drawing.legend(layers)


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
