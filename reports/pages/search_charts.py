"""Charts of a search: what a deployment costs and leaves against its latency, which latencies, which tails."""

from collections.abc import Callable, Iterable, Iterator

from infopt.frozen import dataclass
from infopt.reports import search_words as words
from infopt.reports.pages.charts import Axis, Chart, Line, Role, Series, Value
from infopt.studies.search import Deployment, Search, Targets, row_of
from infopt.studies.search_points import beaten, fastest
from infopt.units import format_seconds

TPOT = Axis("TPOT", "s", "log")
TTFT = Axis("TTFT", "s", "log")
PRICE = Axis("per million output tokens", "usd", "log")
DEVICES = Axis("devices", "count", "log")
SPEED = Axis("output tokens/s and device", "tokens/s", "log")
Figure = Callable[[Deployment], float | None]


def front_charts(result: Search, chosen: int) -> tuple[Chart, ...]:
    """Cost, throughput and TTFT against TPOT, the chosen row marked."""
    marks = _Marks(result, chosen, tuple(beaten(result)))
    return _cost(marks), _speed(marks), _latency(marks)


@dataclass(frozen=True, slots=True)
class _Marks:
    """Deployments that are drawn: those of the front, the chosen one among them, and what they beat."""

    result: Search
    chosen: int
    others: tuple[Deployment, ...]

    def series(self, x: Figure, y: Figure) -> tuple[Series, ...]:
        """What others beat, the front by weight format, the chosen row; groups without a figure are left out."""

        def drawn(name: str, role: Role, rows: Iterable[tuple[int | None, Deployment]]) -> Series:
            return Series(name, role, "points", tuple(_points(rows, x, y)))

        groups = [
            drawn(f"front, {weights} weights", "estimate", [(n, d) for n, d in group if n != self.chosen])
            for weights, group in words.by_format(self.result)
        ]
        best = drawn(f"row {self.chosen}", "chosen", [(self.chosen, row_of(self.result, self.chosen))])
        beside = drawn("within the targets, beaten", "other", ((None, d) for d in self.others))
        return tuple(one for one in (beside, *groups, best) if one.points)


def _cost(marks: _Marks) -> Chart:
    """Price of tokens; devices where no row has a price."""
    line = _lines(marks.result.targets, "tpot")
    if all(d.usd_per_million_output_tokens is None for d in marks.result.front):
        told = "Down and left is better. No row has a price: --price NAME=USD gives one."
        series = marks.series(lambda d: d.tpot_s, lambda d: d.gpus)
        return Chart("front-cost", "lines", "Devices against TPOT", told, TPOT, DEVICES, series, line)
    told = "Down and left is better: cheaper and faster. Rows without a price are left out."
    series = marks.series(lambda d: d.tpot_s, lambda d: d.usd_per_million_output_tokens)
    return Chart("front-cost", "lines", "Cost against TPOT", told, TPOT, PRICE, series, line)


def _speed(marks: _Marks) -> Chart:
    told = "Up and left is better: each device does more, and answers come faster."
    series = marks.series(lambda d: d.tpot_s, lambda d: d.output_tokens_per_s_per_gpu)
    line = _lines(marks.result.targets, "tpot")
    return Chart("front-speed", "lines", "Throughput of a device against TPOT", told, TPOT, SPEED, series, line)


def _latency(marks: _Marks) -> Chart:
    told = "Down and left is better; dotted lines are the targets."
    series = marks.series(lambda d: d.tpot_s, lambda d: d.ttft_s)
    lines = (*_lines(marks.result.targets, "tpot"), *_lines(marks.result.targets, "ttft"))
    return Chart("front-latency", "lines", "TTFT against TPOT", told, TPOT, TTFT, series, lines)


def _points(rows: Iterable[tuple[int | None, Deployment]], x: Figure, y: Figure) -> Iterator[tuple[Value, ...]]:
    """Rows of the front with their numbers as labels; what has no figure is left out."""
    for number, d in rows:
        across, up = x(d), y(d)
        if across is not None and up is not None:
            yield (across, up) if number is None else (across, up, f"{number}")


def _lines(targets: Targets, name: str) -> tuple[Line, ...]:
    target_s = targets.tpot_s if name == "tpot" else targets.ttft_s
    if target_s is None:
        return ()
    return (Line("x" if name == "tpot" else "y", target_s, f"{name.upper()} target {format_seconds(target_s)}"),)


def tail_charts(result: Search) -> tuple[Chart, ...]:
    """p99 of the simulated rows, with the target as a line; none where nothing was simulated."""
    return tuple(_tails(result)) if result.tails else ()


def _tails(result: Search) -> Iterator[Chart]:
    for name, target_s in (("ttft", result.targets.ttft_s), ("tpot", result.targets.tpot_s)):
        points: dict[Role, list[tuple[Value, ...]]] = {}
        for number in words.shown_numbers(result):
            tail = result.tails[number - 1]
            p99_s = tail.ttft_p99_s if name == "ttft" else tail.tpot_p99_s
            if p99_s is not None:
                points.setdefault("good" if tail.holds else "bad", []).append((f"row {number}", p99_s))
        if points:
            yield _tail_chart(name, points, target_s)


def _tail_chart(name: str, points: dict[Role, list[tuple[Value, ...]]], target_s: float | None) -> Chart:
    label, told = name.upper(), {"good": "holds", "bad": "does not hold"}
    rows = sorted((row for group in points.values() for row, _ in group), key=lambda row: int(str(row).split()[1]))
    line = () if target_s is None else (Line("y", target_s, f"{label} target {format_seconds(target_s)}"),)
    return Chart(
        f"tails-{name}",
        "bars",
        f"{label} that 99% of requests stay below",
        "Of the simulated traffic, by row of the front. Right of the dotted line the target is missed.",
        Axis("row", scale="category", categories=tuple(str(row) for row in rows)),
        Axis(f"{label} p99", "s"),
        tuple(Series(told[role], role, "bar", group) for role, group in points.items()),
        line,
    )


def nearest_chart(result: Search) -> Chart:
    """Where nothing meets the targets: how fast each placement is with a single sequence."""
    groups: dict[str, list[tuple[Value, ...]]] = {}
    for one in fastest(result):
        groups.setdefault(one.replica.scenario.weight_format, []).append((one.tpot_s, one.ttft_s))
    return Chart(
        "nearest",
        "lines",
        "The fastest that each placement can be",
        "One sequence alone, no other load. Only what lies below and left of the dotted lines can meet the targets.",
        TPOT,
        TTFT,
        tuple(Series(f"{weights} weights", "estimate", "points", points) for weights, points in groups.items()),
        (*_lines(result.targets, "tpot"), *_lines(result.targets, "ttft")),
    )
