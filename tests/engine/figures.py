"""Figures of a run, measured beside predicted, kept as JSON and shown as a table."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One figure.

    check      what is checked;  case  where;  name  of the quantity, its unit last
    measured, predicted, low, high  None where there is none
    """

    check: str
    case: str
    name: str
    measured: float | None
    predicted: float | None
    low: float | None
    high: float | None
    note: str

    @property
    def error(self) -> float | None:
        """predicted / measured - 1."""
        return None if self.predicted is None or not self.measured else self.predicted / self.measured - 1


class Figures:
    """All of a run, in the order they were taken."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(
        self,
        check: str,
        case: str,
        name: str,
        measured: float | None,
        predicted: float | None = None,
        low: float | None = None,
        high: float | None = None,
        note: str = "",
    ) -> None:
        self.rows.append(Row(check, case, name, measured, predicted, low, high, note))

    def write(self, file: Path) -> None:
        file.write_text(json.dumps([{**asdict(row), "error": row.error} for row in self.rows], indent=1) + "\n")

    def table(self) -> str:
        head = f"{'check':12} {'case':22} {'figure':24} {'measured':>12} {'predicted':>12} {'error':>7}  interval"
        return "\n".join([head, *(_line(row) for row in self.rows)])


def _line(row: Row) -> str:
    error = "" if row.error is None else f"{row.error:+.1%}"
    interval = "" if row.low is None or row.high is None else f"{_short(row.low)} to {_short(row.high)}"
    shown = f"{_short(row.measured):>12} {_short(row.predicted):>12} {error:>7}"
    return f"{row.check:12} {row.case:22} {row.name:24} {shown}  {' '.join(filter(None, (interval, row.note)))}"


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) >= 1 else f"{value:.4g}"
