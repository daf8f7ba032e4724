"""Many configurations under the same traffic as a page: the best, a chart of each figure, the table, what failed."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infopt.frozen import dataclass
from infopt.reports import simulate_grid_report as report
from infopt.reports import simulate_words as words
from infopt.reports.pages.blocks import Html, facts, figure, section, table, verdict
from infopt.reports.pages.charts import Axis, Chart, Role, Series, Unit, Value
from infopt.reports.pages.figures import found, shown
from infopt.reports.pages.page import Page
from infopt.studies.simulate import Simulation
from infopt.studies.simulate_grid import Grid
from infopt.units import format_seconds, format_usd


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of every configuration: its path in a row of `--json`, how it is written, what a chart says of it."""

    name: str
    key: str
    unit: Unit
    write: Callable[[Any], str]
    says: str


SERVED = Measure("served", "simulation.served_per_s", "1/s", words.rate, "Requests answered whole: more is better.")
GOODPUT = Measure(
    "goodput", "simulation.goodput_per_s", "1/s", words.rate, "Requests answered within the targets: more is better."
)
MEASURES = (
    Measure(
        "TTFT p99",
        "simulation.ttft_s.p99",
        "s",
        format_seconds,
        "The wait of the unluckiest: less is better. Saturated: none.",
    ),
    Measure("TPOT p99", "simulation.tpot_s.p99", "s", format_seconds, "The slowest answers: less is better."),
    Measure(
        "output tokens",
        "simulation.output_tokens_per_s",
        "tokens/s",
        words.tokens_per_s,
        "Of all replicas: more serve.",
    ),
    Measure(
        "running batch", "simulation.effective_batch", "count", words.number, "Sequences in a replica, on average."
    ),
    Measure(
        "$/Mtok", "usd_per_million_output_tokens", "usd", format_usd, "US dollars per million output tokens: less."
    ),
)
# Charts of a grid; every measure stands in the table.
CHARTED = ("served", "goodput", "TTFT p99", "TPOT p99", "$/Mtok")


def simulate_grid_page(grid: Grid, command: str) -> Page:
    """The page of a grid."""
    result = report.as_dict(grid)
    measures = (_rate(grid), *MEASURES)
    charts = tuple(
        chart for one in measures if one.name in CHARTED and (chart := _chart(grid, result, one)) is not None
    )
    return Page(report.title(grid), command, result, _body(grid, result, measures, charts), charts)


def _rate(grid: Grid) -> Measure:
    """What was served in time, where targets say what that is."""
    given = any(isinstance(one, Simulation) and one.job.targets.given for one in grid.found)
    return GOODPUT if given else SERVED


def _body(
    grid: Grid, result: Mapping[str, Any], measures: tuple[Measure, ...], charts: tuple[Chart, ...]
) -> Iterator[Html]:
    best = grid.best is not None
    yield verdict("pass" if best else "fail", "BEST" if best else "NONE", "; ".join(report.verdict(grid)))
    yield facts(report.common(grid))
    yield section(
        "What each setting does",
        *map(figure, charts),
        note="Everything else is as it was asked. Configurations that failed have no value.",
    )
    rows = [_row(grid, result, measures, position) for position in range(len(grid.found))]
    columns = (*grid.names, *(one.name for one in measures), "verdict")
    first = len(grid.names)
    body = table(columns, rows, "The best is marked", range(first, first + len(measures)))
    yield section("Every configuration", body, facts([(one.name, one.says) for one in measures]))
    if failed := report.errors(grid):
        yield section("Could not be simulated", facts([("", text) for text in failed]), note="Each reason once.")


def _row(grid: Grid, result: Mapping[str, Any], measures: tuple[Measure, ...], position: int) -> list[str]:
    figures = [shown(result, f"rows.{position}.{one.key}", one.write) for one in measures]
    return [*grid.values[position], *figures, _verdict(grid, position)]


def _verdict(grid: Grid, position: int) -> str:
    one = grid.found[position]
    if not isinstance(one, Simulation):
        return "error"
    return "BEST" if position == grid.best else words.verdict(one)[0].lower()


def _chart(grid: Grid, result: Mapping[str, Any], measure: Measure) -> Chart | None:
    """Two settings as a map; one, or more than two, as bars. None where no configuration has a value."""
    values = [found(result, f"rows.{position}.{measure.key}") for position in range(len(grid.found))]
    if all(value is None for value in values):
        return None
    id, title = f"grid-{measure.key.replace('.', '-')}", f"{measure.name} by {' and '.join(grid.names)}"
    if len(grid.names) == 2:
        cells = [(*given, value) for given, value in zip(grid.values, values, strict=True)]
        x, y = (Axis(name, "count", "category", _ordered(grid, i)) for i, name in enumerate(grid.names))
        cell = Series(measure.name, "estimate", "cell", cells)
        return Chart(id, "heat", title, measure.says, x, y, (cell,), values=Axis(measure.name, measure.unit))
    named = [" ".join(given) for given in grid.values]
    series = tuple(_bars(grid, named, values))
    category = Axis(" ".join(grid.names), "count", "category", tuple(named))
    return Chart(id, "bars", title, measure.says, category, Axis(measure.name, measure.unit), series)


def _ordered(grid: Grid, place: int) -> tuple[str, ...]:
    """Values of a setting in the order in which they were given."""
    return tuple(dict.fromkeys(given[place] for given in grid.values))


def _bars(grid: Grid, named: list[str], values: list[Value]) -> Iterator[Series]:
    """Configurations that keep up, and those that do not."""
    roles: tuple[tuple[str, Role, bool], ...] = (("keeps up", "good", True), ("does not", "bad", False))
    for name, role, wanted in roles:
        points = [
            (label, value)
            for label, value, one in zip(named, values, grid.found, strict=True)
            if value is not None and isinstance(one, Simulation) and one.keeps_up == wanted
        ]
        if points:
            yield Series(name, role, "bar", points)
