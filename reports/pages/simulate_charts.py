"""Charts of simulations: percentiles over time, distributions, what happens inside, both ends of the interval.

Each takes sides: a name and a simulation. One alone has an empty name; two that are compared stand in one chart.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from infopt.errors import InfoptError
from infopt.reports.pages.charts import Axis, Chart, Line, Role, Scale, Series, Unit, Value
from infopt.reports.simulate_curves import token_rates
from infopt.simulation.outcome import Rows
from infopt.simulation.over_time import SHARES, OverTime, distribution, over_time
from infopt.simulation.summary import Times
from infopt.studies.simulate import Simulation
from infopt.units import format_seconds

Sides = Sequence[tuple[str, Simulation]]
TIME = Axis("time since the start", "s")
# Colours of one simulation's percentiles; of two that are compared.
PERCENTILES: tuple[tuple[str, Role], ...] = (("p50", "estimate"), ("p90", "open"), ("p99", "bad"))
COMPARED: tuple[str, ...] = ("p50", "p99")
SIDES: tuple[Role, Role] = ("estimate", "measured")
# Values so far apart are read on a logarithmic axis.
DECADE = 10.0


def times_charts(sides: Sides) -> tuple[Chart, ...]:
    """TTFT and TPOT: percentiles over time, and as distributions."""
    return (*_percentiles(sides), *_distributions(sides))


def _percentiles(sides: Sides) -> Iterator[Chart]:
    found = [(name, over_time(rows_of(s))) for name, s in sides]
    for label, pick in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
        series = [
            Series(f"{side} {part}".strip(), role, "line", _points(one.time_s, getattr(getattr(one, pick), part)))
            for (side, one), chosen in zip(found, _chosen(sides), strict=True)
            for part, role in chosen
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


def _chosen(sides: Sides) -> list[Sequence[tuple[str, Role]]]:
    """Percentiles of each side with their colours."""
    if len(sides) == 1:
        return [PERCENTILES]
    return [[(part, role) for part in COMPARED] for role in SIDES]


def _windows(found: Sequence[tuple[str, OverTime]]) -> str:
    told = dict.fromkeys(f"{len(one.time_s)} windows of {format_seconds(one.every_s)}" for _, one in found)
    return " and ".join(told)


def _distributions(sides: Sides) -> Iterator[Chart]:
    found = [(name, distribution(rows_of(s), s.measured_from_s)) for name, s in sides]
    for label, pick in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
        series = [
            Series(side or "share of requests", role, "line", _points(getattr(one, pick), SHARES))
            for (side, one), role in zip(found, SIDES, strict=False)
            if getattr(one, pick)
        ]
        if not series:
            continue
        yield Chart(
            f"{label.lower()}-distribution",
            "lines",
            f"{label}: how many wait how long",
            "The share of measured requests that take no longer than this. A steep curve is an even service; a long "
            "flat end is a tail.",
            Axis(label, "s", scale_of(x for one in series for x, *_ in one.points)),
            Axis("share of requests", "share"),
            tuple(series),
            _targets(sides, pick, "x"),
        )


def inside_charts(sides: Sides) -> tuple[Chart, ...]:
    """Requests that run and wait, the cache, and tokens, at the moments at which the deployment was looked at."""
    told = f"{len(sides[0][1].samples.time_s)} looks, one every {format_seconds(sides[0][1].samples.every_s)}."
    alone = len(sides) == 1
    running = [_sampled(s, f"{side} running".strip(), s.samples.running, i) for i, (side, s) in enumerate(sides)]
    waiting = [
        _sampled(s, f"{side} waiting".strip(), s.samples.waiting, 1 if alone else i)
        for i, (side, s) in enumerate(sides)
    ]
    kv = [_sampled(s, side or "KV cache in use", s.samples.used_share, i) for i, (side, s) in enumerate(sides)]
    tokens = [_sampled(s, side or "output tokens/s", token_rates(s), i) for i, (side, s) in enumerate(sides)]
    requests = Axis("requests", "count")
    if alone:
        batch = [
            _inside("batch-over-time", "Running and waiting", f"Of all replicas; {told}", requests, running + waiting)
        ]
    else:
        batch = [
            _inside("running-over-time", "Running batch", f"Of all replicas; {told}", requests, running),
            _inside("queue-over-time", "Waiting requests", f"Of all replicas; {told}", requests, waiting),
        ]
    full = Line("y", 1.0, "all of it", "limit")
    charts = (
        *batch,
        _inside("kv-over-time", "KV cache in use", f"Of all that the pools hold; {told}", _of("share"), kv, (full,)),
        _inside("tokens-over-time", "Output tokens", f"Of all replicas; {told}", _of("tokens/s"), tokens),
    )
    return tuple(
        Chart(c.id, c.kind, c.title, c.description, c.x, c.y, c.series, (*c.lines, *loss_lines(sides))) for c in charts
    )


def _of(unit: Unit) -> Axis:
    return Axis("in use" if unit == "share" else "output", unit)


def _sampled(s: Simulation, name: str, values: Sequence[float], side: int) -> Series:
    return Series(name, SIDES[side], "line", _points(s.samples.time_s, values))


def _inside(
    id: str, title: str, description: str, y: Axis, series: Sequence[Series], lines: tuple[Line, ...] = ()
) -> Chart:
    return Chart(id, "lines", title, description, TIME, y, tuple(series), lines)


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
