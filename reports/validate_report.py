"""`validate` in the terminal, as Markdown and as the JSON contract's object."""

import textwrap
from typing import Any

from infopt.studies.validate import SPEED_GROUPS, GroupScore, Validation

WIDTH = 80
_LEGEND = (
    "mean, median  relative error; of start-verdict the share of wrong verdicts",
    "exact         within one block and the rounding of the print",
    "interval      share of figures inside the printed interval",
)
SCHEMA = "infopt/validate/1"
_HEADERS = ("group", "n", "mean", "median", "< 1 %", "exact", "interval")
_SPEED_LEGEND = (
    "mean, median  relative error, the constants fitted on such rows",
    "interval      share of figures inside the printed interval",
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


def render(result: Validation, markdown: bool = False) -> str:
    """A table of groups, then what was skipped and why, then rows that break their floor."""
    scored, total = len(result.scored), len(result.checks)
    lines = [
        f"{scored} of {total} published figures scored ({scored / total if total else 0:.0%})",
        f"truth: {result.truth}",
    ]
    for table, legend in ((_memory_grid, _LEGEND), (_speed_grid, _SPEED_LEGEND)):
        grid = table(result)
        if len(grid) > 1:
            lines += ["", *(_markdown(grid) if markdown else _aligned(grid)), "", *legend]
    lines += ["", "not scored:"]
    lines += [line for reason, count in result.skipped.items() for line in _wrapped(f"{count:5d}  ", reason)]
    if result.inferred:
        lines += _wrapped(f"{result.inferred:5d}  ", "cases whose shape their reporter inferred from the same figures")
    if result.suspects:
        lines += ["", *_wrapped("suspect rows: ", ", ".join(result.suspects))]
    return "\n".join(lines)


def _wrapped(lead: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead))


def _memory_grid(result: Validation) -> list[tuple[str, ...]]:
    return [_HEADERS, *(_cells(score) for score in result.groups if score.group not in SPEED_GROUPS)]


def _speed_grid(result: Validation) -> list[tuple[str, ...]]:
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


def _aligned(grid: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in grid) for i in range(len(grid[0]))]
    return ["  ".join(_pad(cell, widths[i], i) for i, cell in enumerate(row)).rstrip() for row in grid]


def _pad(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def markdown_table(result: Validation, speed: bool = False) -> list[str]:
    """The groups of memory, or of speed, as a Markdown table."""
    return _markdown(_speed_grid(result) if speed else _memory_grid(result))


def _markdown(grid: list[tuple[str, ...]]) -> list[str]:
    headers, *rows = grid
    rule = "|".join(["---"] + ["---:"] * (len(headers) - 1))
    return [f"| {' | '.join(headers)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]
