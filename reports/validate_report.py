"""`validate` in the terminal, as Markdown and as the JSON contract's object."""

from collections.abc import Iterator, Sequence
from typing import Any

from infopt.studies.validate import SPEED_GROUPS, GroupScore, Validation

Grid = list[tuple[str, ...]]
_LEGEND = (
    ("mean, median", "relative error; of start-verdict the share of wrong verdicts"),
    ("exact", "within one block and the rounding of the print"),
    ("interval", "share of figures inside the printed interval"),
)
SCHEMA = "infopt/validate/1"
_HEADERS = ("group", "n", "mean", "median", "< 1 %", "exact", "interval")
_SPEED_LEGEND = (
    ("mean, median", "relative error, the constants fitted on such rows"),
    ("interval", "share of figures inside the printed interval"),
)
_SPEED_HEADERS = ("group", "n", "mean", "median", "< 20 %", "< 30 %", "interval", "below floor")


def as_dict(result: Validation) -> dict[str, Any]:
    """Errors and shares as fractions of 1 (DESIGN section 4)."""
    return {
        "schema": SCHEMA,
        "truth": result.truth,
        "rows": len(result.checks),
        "scored": len(result.scored),
        "inferred_cases": result.inferred,
        "skipped": result.skipped,
        "suspects": list(result.suspects),
        "groups": [_group(score) for score in result.groups],
    }


def _group(score: GroupScore) -> dict[str, Any]:
    return {
        "group": score.group,
        "n": score.n,
        "mape": score.mape,
        "median_ape": score.median_ape,
        "within_1pct": score.within_1pct,
        "within_20pct": score.within_20pct,
        "within_30pct": score.within_30pct,
        "exact": score.exact,
        "interval_coverage": score.interval_coverage,
        "below_floor": score.below_floor,
    }


def page(result: Validation) -> str:
    """A table of groups, then what was skipped and why, then rows that break their floor."""
    from infopt.reports.terminal import columns_table, facts, to_text

    parts: list[Any] = [_headline(result), f"truth: {result.truth}"]
    for grid, legend, narrow in _grids(result):
        headers, *rows = grid
        parts += ["", columns_table(headers, rows, "group", narrow), "", facts(legend, label_width=12)]
    parts += ["", "not scored:", facts(_skipped(result), label_width=5)]
    if result.suspects:
        parts += ["", f"suspect rows: {', '.join(result.suspects)}"]
    return to_text(parts)


def markdown(result: Validation) -> str:
    """The same as Markdown."""
    lines = [_headline(result), f"truth: {result.truth}"]
    for grid, legend, _ in _grids(result):
        lines += ["", *_markdown(grid), "", *(f"- {label}: {text}" for label, text in legend)]
    lines += ["", "not scored:", "", *(f"- {count}: {reason}" for count, reason in _skipped(result))]
    if result.suspects:
        lines += ["", f"suspect rows: {', '.join(result.suspects)}"]
    return "\n".join(lines)


def _headline(result: Validation) -> str:
    scored, total = len(result.scored), len(result.checks)
    return f"{scored} of {total} published figures scored ({scored / total if total else 0:.0%})"


def _grids(result: Validation) -> Iterator[tuple[Grid, Sequence[tuple[str, str]], Sequence[str]]]:
    """The tables that have rows, each with its legend and the columns that go on a narrow screen."""
    for grid, legend, narrow in (
        (_memory_grid(result), _LEGEND, ("exact", "median", "< 1 %")),
        (_speed_grid(result), _SPEED_LEGEND, ("below floor", "< 20 %", "median")),
    ):
        if len(grid) > 1:
            yield grid, legend, narrow


def _skipped(result: Validation) -> list[tuple[str, str]]:
    """How many figures, and why."""
    rows = [(str(count), reason) for reason, count in result.skipped.items()]
    if result.inferred:
        rows.append((str(result.inferred), "cases whose shape their reporter inferred from the same figures"))
    return rows


def _memory_grid(result: Validation) -> Grid:
    return [_HEADERS, *(_cells(score) for score in result.groups if score.group not in SPEED_GROUPS)]


def _speed_grid(result: Validation) -> Grid:
    return [_SPEED_HEADERS, *(_speed_cells(score) for score in result.groups if score.group in SPEED_GROUPS)]


def _cells(score: GroupScore) -> tuple[str, ...]:
    exact = "-" if score.group in ("blind-pool", "start-verdict") else f"{score.exact:.1%}"
    return (
        score.group,
        str(score.n),
        f"{score.mape:.2%}",
        f"{score.median_ape:.2%}",
        f"{score.within_1pct:.1%}",
        exact,
        _share(score.interval_coverage),
    )


def _speed_cells(score: GroupScore) -> tuple[str, ...]:
    return (
        score.group,
        str(score.n),
        f"{score.mape:.1%}",
        f"{score.median_ape:.1%}",
        f"{score.within_20pct:.0%}",
        f"{score.within_30pct:.0%}",
        _share(score.interval_coverage),
        str(score.below_floor),
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def markdown_table(result: Validation, speed: bool = False) -> list[str]:
    """The groups of memory, or of speed, as a Markdown table."""
    return _markdown(_speed_grid(result) if speed else _memory_grid(result))


def _markdown(grid: Grid) -> list[str]:
    headers, *rows = grid
    rule = "|".join(["---"] + ["---:"] * (len(headers) - 1))
    return [f"| {' | '.join(headers)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]
