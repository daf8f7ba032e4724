"""Charts of simulations: percentiles over time, distributions, what happens inside, both ends of the interval.

Each takes sides: a name and a simulation. One alone has an empty name; two that are compared stand in one chart.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from infopt.errors import InfoptError
from infopt.reports.pages.charts import Axis, Chart, Line, Scale, Series, Unit, Value
from infopt.reports.simulate_curves import token_rates
from infopt.simulation.outcome import Rows
from infopt.simulation.over_time import SHARES, OverTime, distribution, over_time
from infopt.simulation.summary import Times
from infopt.studies.simulate import Simulation
from infopt.units import format_seconds

Sides = Sequence[tuple[str, Simulation]]
TIME = Axis("time since the start", "s")
PERCENTILES = ("p50", "p90", "p99")
COMPARED = ("p50", "p99")  # of two that stand in one chart
# Values so far apart are read on a logarithmic axis.
DECADE = 10.0


def times_charts(sides: Sides) -> tuple[Chart, ...]:
    """TTFT and TPOT: percentiles over time, and as distributions."""
    return (*_percentiles(sides), *_distributions(sides))


def _percentiles(sides: Sides) -> Iterator[Chart]:
    found = [(name, over_time(rows_of(s))) for name, s in sides]
    for label, pick in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
        series = [
            Series(f"{side} {part}".strip(), "estimate", "line", _points(one.time_s, getattr(getattr(one, pick), part)))
            for side, one in found
            for part in (PERCENTILES if len(sides) == 1 else COMPARED)
        ]
        if all(y is None for one in series for _, y, *_ in one.points):
            continue
        yield Chart(
            f"{label.lower()}-over-time",
            "lines",
            f"{label} over time",
            f"Percentiles of requests by when they were sent, {_windows(found)}.",
            TIME,
            Axis(label, "s", scale_of(y for one in series for _, y, *_ in one.points)),
            tuple(series),
            (*_targets(sides, pick, "y"), *loss_lines(sides)),
        )


def _windows(found: Sequence[tuple[str, OverTime]]) -> str:
    told = dict.fromkeys(f"{len(one.time_s)} windows of {format_seconds(one.every_s)}" for _, one in found)
    return " and ".join(told)


def _distributions(sides: Sides) -> Iterator[Chart]:
    found = [(name, distribution(rows_of(s), s.measured_from_s), s.summary) for name, s in sides]
    for label, pick in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
        # A saturated system has no distribution of waits, as it has no mean one: it depends on how long one looks.
        series = [
            Series(side or "share of requests", "estimate", "line", _points(getattr(one, pick), SHARES))
            for side, one, figures in found
            if getattr(figures, pick) is not None
        ]
        if not series:
            continue
        only = f" Of {series[0].name} alone: the other one has no such times." if len(series) < len(sides) else ""
        yield Chart(
            f"{label.lower()}-distribution",
            "lines",
            f"{label}: how many wait how long",
            "The share of measured requests that take no longer than this. A steep curve is an even service; a long "
            f"flat end is a tail.{only}",
            Axis(label, "s", scale_of(x for one in series for x, *_ in one.points)),
            Axis("share of requests", "share"),
            tuple(series),
            _targets(sides, pick, "x"),
        )


def inside_charts(sides: Sides) -> tuple[Chart, ...]:
    """Requests that run and wait, the cache, and tokens, at the moments at which the deployment was looked at."""
    running = [_sampled(s, f"{side} running", s.samples.running) for side, s in sides]
    waiting = [_sampled(s, f"{side} waiting", s.samples.waiting) for side, s in sides]
    kv = [_sampled(s, side or "in use", s.samples.used_share) for side, s in sides]
    tokens = [_sampled(s, side or "output", token_rates(s)) for side, s in sides]
    if len(sides) == 1:
        batch = [("batch-over-time", "Running and waiting", [*running, *waiting])]
    else:
        batch = [("running-over-time", "Running batch", running), ("queue-over-time", "Waiting", waiting)]
    full = Line("y", 1.0, "all of it", "limit")
    return (
        *(_inside(id, title, "requests", "count", series, sides) for id, title, series in batch),
        _inside("kv-over-time", "KV cache in use", "share of the pools", "share", kv, sides, full),
        _inside("tokens-over-time", "Output tokens", "output", "tokens/s", tokens, sides),
    )


def _sampled(s: Simulation, name: str, values: Sequence[float]) -> Series:
    return Series(name.strip(), "estimate", "line", _points(s.samples.time_s, values))


def _inside(id: str, title: str, label: str, unit: Unit, series: Sequence[Series], sides: Sides, *lines: Line) -> Chart:
    looks = dict.fromkeys(f"every {format_seconds(s.samples.every_s)}" for _, s in sides)
    told = f"Of all replicas, looked at {' and '.join(looks)}."
    return Chart(id, "lines", title, told, TIME, Axis(label, unit), tuple(series), (*lines, *loss_lines(sides)))


def interval_chart(s: Simulation) -> Chart:
    """Percentiles with every step as short, and as long, as its interval allows."""
    points = tuple(_ends(s))
    return Chart(
        "interval",
        "ranges",
        "With the shortest, expected and longest steps",
        "The same requests three times: nine in ten measured steps lie between these ends.",
        Axis("percentile", scale="category", categories=tuple(str(name) for name, *_ in points)),
        Axis("time", "s", "log"),
        (Series("interval", "estimate", "range", points),),
    )


def _ends(s: Simulation) -> Iterator[tuple[Value, ...]]:
    assert s.low is not None
    assert s.high is not None
    for label, pick in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
        for part in COMPARED:
            low, middle, high = (_part(getattr(run, pick), part) for run in (s.low, s.summary, s.high))
            if low is not None and middle is not None and high is not None:
                yield f"{label} {part}", low, middle, high


def _part(times: Times | None, part: str) -> float | None:
    return None if times is None else float(getattr(times, part))


def _targets(sides: Sides, pick: str, axis: Literal["x", "y"]) -> tuple[Line, ...]:
    """What was promised, each once."""
    promised = dict.fromkeys(getattr(s.job.targets, pick) for _, s in sides)
    return tuple(
        Line(axis, value, f"target {format_seconds(value)}", "target") for value in promised if value is not None
    )


def loss_lines(sides: Sides) -> tuple[Line, ...]:
    """When replicas fail."""
    losses = dict.fromkeys(loss for _, s in sides for loss in s.ready.setup.losses)
    return tuple(Line("x", loss.time_s, f"replica {loss.replica} fails", "bad") for loss in losses)


def rows_of(s: Simulation) -> Rows:
    """The rows of the requests. Errors: InfoptError where they were not kept."""
    if s.rows is None:
        raise InfoptError("a page of a simulation needs its requests: Choices(keep_rows=True)")
    return s.rows


def _points(x: Iterable[Value], y: Iterable[Value]) -> tuple[tuple[Value, ...], ...]:
    return tuple(zip(x, y, strict=True))


def scale_of(values: Iterable[Value]) -> Scale:
    """Logarithmic where positive values lie a decade or more apart."""
    told = [value for value in values if isinstance(value, int | float)]
    return "log" if told and min(told) > 0 and max(told) >= DECADE * min(told) else "linear"
