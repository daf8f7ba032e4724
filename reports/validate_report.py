"""`validate` in the terminal, as Markdown and as the JSON contract's object."""

import textwrap
from typing import Any

from infopt.studies.validate import GroupScore, Validation

WIDTH = 80
_LEGEND = (
    "mean, median  relative error; of start-verdict the share of wrong verdicts",
    "exact         within one block and the rounding of the print",
    "interval      share of figures inside the printed interval",
)
SCHEMA = "infopt/validate/1"
_HEADERS = ("group", "n", "mean", "median", "< 1 %", "exact", "interval")


def as_dict(result: Validation) -> dict[str, Any]:
    """Errors and shares as fractions of 1 (DESIGN section 4)."""
    return {
        "schema": SCHEMA,
        "truth": result.truth,
        "rows": len(result.checks),
        "scored": len(result.scored),
        "inferred_cases": result.inferred,
        "skipped": result.skipped,
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
    """A table of groups, then what was skipped and why, then the largest misses."""
    rows = [_cells(score) for score in result.groups]
    table = _markdown(rows) if markdown else _aligned(rows)
    scored, total = len(result.scored), len(result.checks)
    lines = [
        f"{scored} of {total} printed figures scored ({scored / total if total else 0:.0%})",
        f"truth: {result.truth}",
    ]
    lines += ["", *table, "", *_LEGEND, "", "not scored:"]
    lines += [line for reason, count in result.skipped.items() for line in _wrapped(f"{count:5d}  ", reason)]
    if result.inferred:
        lines += _wrapped(f"{result.inferred:5d}  ", "cases whose shape their reporter inferred from the same figures")
    return "\n".join(lines)


def _wrapped(lead: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead))


def _cells(score: GroupScore) -> tuple[str, ...]:
    exact = "-" if score.group in ("blind-pool", "start-verdict") else f"{score.exact:.1%}"
    coverage = "-" if score.interval_coverage is None else f"{score.interval_coverage:.0%}"
    return (
        score.group,
        str(score.n),
        f"{score.mape:.2%}",
        f"{score.median_ape:.2%}",
        f"{score.within_1pct:.1%}",
        exact,
        coverage,
    )


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    grid = [_HEADERS, *rows]
    widths = [max(len(row[i]) for row in grid) for i in range(len(_HEADERS))]
    return ["  ".join(_pad(cell, widths[i], i) for i, cell in enumerate(row)).rstrip() for row in grid]


def _pad(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def markdown_table(result: Validation) -> list[str]:
    """The groups as a Markdown table."""
    return _markdown([_cells(score) for score in result.groups])


def _markdown(rows: list[tuple[str, ...]]) -> list[str]:
    rule = "|".join(["---"] + ["---:"] * (len(_HEADERS) - 1))
    return [f"| {' | '.join(_HEADERS)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]
