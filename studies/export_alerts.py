"""Alerts: their words and arithmetic from data/export_alerts.yaml, their numbers from the plan."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from infopt.frozen import dataclass
from infopt.records import Record, read_yaml, validate_record
from infopt.studies.export_thresholds import Threshold
from infopt.units import format_seconds, format_share

DATA = Path(__file__).resolve().parent / "data" / "export_alerts.yaml"
Severity = Literal["info", "warning", "critical"]
Unit = Literal["s", "share", "sequences", "tokens", "per_s", "none"]


class AlertWords(Record):
    """One alert as the data file has it: see its head."""

    alert: str
    severity: Severity
    hold: str
    unit: Unit
    expr: str
    summary: str
    runbook: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert with its number.

    limit   the number as people read it, "" where there is none
    reason  what the number follows from
    """

    id: str
    words: AlertWords
    expr: str
    value: float
    limit: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An alert that this plan or this engine has no ground for."""

    id: str
    why: str


@cache
def alert_words() -> dict[str, AlertWords]:
    """All alerts by id, in the order of the file."""
    found = {}
    for id, row in read_yaml(DATA).items():
        hold = row.pop("for")
        found[id] = validate_record(AlertWords, {**row, "hold": hold}, f"{DATA}: {id}")
    return found


@dataclass(frozen=True, slots=True)
class Called:
    """What an expression calls a figure, None where the engine does not count it; and the figure in words."""

    text: str | None
    what: str


def alerts(
    numbers: Mapping[str, Threshold], called: Mapping[str, Called], engine: str
) -> tuple[tuple[Alert, ...], tuple[LeftOut, ...]]:
    """Those that can be judged, and why the others cannot."""
    found = list(_alerts(numbers, called, engine))
    return tuple(a for a in found if isinstance(a, Alert)), tuple(a for a in found if isinstance(a, LeftOut))


def _alerts(numbers: Mapping[str, Threshold], called: Mapping[str, Called], engine: str) -> Iterator[Alert | LeftOut]:
    for id, words in alert_words().items():
        threshold = numbers[id]
        used = {name: called[name] for name in re.findall(r"{(\w+)}", words.expr) if name != "value"}
        missing = sorted({figure.what for figure in used.values() if figure.text is None})
        if threshold.value is None:
            yield LeftOut(id, threshold.reason)
        elif missing:
            yield LeftOut(id, f"the metrics of {engine} have no {', no '.join(missing)}")
        else:
            texts = {name: figure.text for name, figure in used.items()}
            expr = words.expr.format(**texts, value=f"{threshold.value:.6g}")
            yield Alert(id, words, expr, threshold.value, limit_words(threshold.value, words.unit), threshold.reason)


def limit_words(value: float, unit: Unit) -> str:
    """A threshold as people read it."""
    if unit == "none":
        return ""
    if unit == "s":
        return format_seconds(value)
    if unit == "share":
        return format_share(value)
    return f"{value:.4g}/s" if unit == "per_s" else f"{value:.4g} {unit}"
