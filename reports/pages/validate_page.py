"""Predictions beside measurements as a page: errors and intervals by group, scatters, what was not scored and why."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infopt.reports.pages.blocks import Html, facts, figure, paragraph, section, table
from infopt.reports.pages.charts import Axis, Chart, Line, Series
from infopt.reports.pages.figures import UNKNOWN, joined, shown
from infopt.reports.pages.page import Page
from infopt.reports.validate_report import as_dict
from infopt.studies.memory_checks import Check
from infopt.studies.scatter import NEAR, Scatter, farthest, scatters
from infopt.studies.validate import SPEED_GROUPS, GroupScore, Validation
from infopt.units import format_share, format_whole

# Shares that an interval is made to hold.
HELD = 0.9
WORST = 3
COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("n", "n", format_whole),
    ("mean error", "mape", format_share),
    ("median error", "median_ape", format_share),
    ("within 1%", "within_1pct", format_share),
    ("within 20%", "within_20pct", format_share),
    ("within 30%", "within_30pct", format_share),
    ("exact", "exact", format_share),
    ("in the interval", "interval_coverage", format_share),
    ("below the floor", "below_floor", format_whole),
)
WORST_COLUMNS = ("group", "measurement", "figure", "measured", "predicted", "error", "interval", "")


def validate_page(found: Validation, command: str) -> Page:
    """The page."""
    result = as_dict(found)
    errors, covered, points = _error_charts(found), _coverage_charts(found), tuple(map(_scatter, scatters(found)))
    return Page(
        title="Predictions beside measurements",
        command=command,
        result=result,
        body=_body(found, result, errors, covered, points),
        charts=(*errors, *covered, *points),
    )


def _body(
    found: Validation,
    result: Mapping[str, Any],
    errors: tuple[Chart, ...],
    covered: tuple[Chart, ...],
    points: tuple[Chart, ...],
) -> Iterator[Html]:
    scored, rows = (shown(result, key, format_whole) for key in ("scored", "rows"))
    yield facts([("scored", joined(scored, "of", rows, "figures")), ("measured", found.truth)])
    yield section(
        "Errors",
        *map(figure, errors),
        _group_table(found, result),
        note="How far predictions lie from what was measured, relative to that. Expect the same of your own plans. Of "
        "start-verdict the error is the share of wrong verdicts. Exact: within one block and the rounding of a print.",
    )
    if covered:
        note = "An interval is printed with every estimate. Nine in ten measurements should lie inside it."
        yield section("Does the interval hold?", *map(figure, covered), note=note)
    if points:
        note = "Each point is one measurement. On the diagonal it was predicted exactly; above it, too high."
        yield section("Measured against predicted", *map(figure, points), note=note)
    if worst := farthest(found, WORST):
        note = "The farthest off of each group, in the units of their file: --predictions FILE.csv writes every row."
        yield section("The worst", table(WORST_COLUMNS, map(_worst, worst), "The worst", (3, 4, 5, 6)), note=note)
    yield _skipped(found, result)


def _group_table(found: Validation, result: Mapping[str, Any]) -> Html:
    rows = [
        [score.group, *(shown(result, f"groups.{number}.{key}", write) for _, key, write in COLUMNS)]
        for number, score in enumerate(found.groups)
    ]
    columns = ("group", *(name for name, _, _ in COLUMNS))
    return table(columns, rows, "Errors by group", range(1, len(columns)))


def _split(found: Validation) -> Iterator[tuple[str, list[GroupScore]]]:
    """Groups of speed and of memory, whose errors are of another size."""
    for name, is_speed in (("speed", True), ("memory", False)):
        if groups := [score for score in found.groups if (score.group in SPEED_GROUPS) == is_speed]:
            yield name, groups


def _error_charts(found: Validation) -> tuple[Chart, ...]:
    return tuple(
        Chart(
            f"errors-{name}",
            "bars",
            f"Error by group: {name}",
            "The mean is drawn up by a few that are far off; half of all figures are nearer than the median.",
            Axis("group", "count", "category", tuple(score.group for score in groups)),
            Axis("error", "share"),
            (
                Series("mean", "estimate", "bar", [(score.group, score.mape) for score in groups]),
                Series("median", "estimate", "bar", [(score.group, score.median_ape) for score in groups]),
            ),
        )
        for name, groups in _split(found)
    )


def _coverage_charts(found: Validation) -> tuple[Chart, ...]:
    told = [(name, [s for s in groups if s.interval_coverage is not None]) for name, groups in _split(found)]
    return tuple(
        Chart(
            f"coverage-{name}",
            "bars",
            f"Inside the interval: {name}",
            "The share of measurements that lie inside the predicted interval.",
            Axis("group", "count", "category", tuple(score.group for score in groups)),
            Axis("share inside", "share"),
            (Series("inside", "estimate", "bar", [(score.group, score.interval_coverage) for score in groups]),),
            (Line("y", HELD, "nine in ten", "target"),),
        )
        for name, groups in told
        if groups
    )


def _scatter(s: Scatter) -> Chart:
    near = format_share(NEAR)
    return Chart(
        f"scatter-{s.group}",
        "lines",
        s.group,
        f"{s.within:,} of {len(s.points):,} within {near} of what was measured.",
        Axis("measured", s.unit, "log"),
        Axis("predicted", s.unit, "log"),
        (
            Series(f"within {near}", "interval", "band", s.near),
            Series("exact", "floor", "line", s.diagonal),
            Series("predicted", "estimate", "points", s.points),
        ),
    )


def _worst(check: Check) -> tuple[str, ...]:
    """A row: the figures in the units of their file."""
    told = (_plain(value) for value in (check.measured, check.predicted))
    interval, missed = UNKNOWN, ""
    if check.low is not None and check.high is not None:
        interval = f"{_plain(check.low)} to {_plain(check.high)}"
        missed = "" if check.low <= check.measured <= check.high else "outside"
    return check.group, check.case_id, check.metric, *told, format_share(check.error), interval, missed


def _plain(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _skipped(found: Validation, result: Mapping[str, Any]) -> Html:
    """Why figures were not scored, and rows that nobody should believe."""
    rows = [(format_whole(count), reason) for reason, count in found.skipped.items()]
    parts = [table(("figures", "reason"), rows, "By reason", (0,))] if rows else [paragraph("Every figure was scored.")]
    if found.inferred:
        inferred = shown(result, "inferred_cases", format_whole)
        parts.append(facts([("inferred", joined(inferred, "cases whose shape was inferred from the same figures"))]))
    if found.suspects:
        parts.append(facts([("suspect", f"faster than their bytes allow: {', '.join(found.suspects)}")]))
    return section("Not scored", *parts, note="What a row does not say cannot be predicted, and is not guessed.")
