"""The frozen answers of `infopt boundary`: every verdict, gain, flip and figure of the scenarios in the YAML beside."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from infopt import boundary

HERE = Path(__file__).resolve().parent
SCENARIOS, FROZEN = HERE / "regression_boundary.yaml", HERE / "regression_boundary.csv"
COLUMNS = ("scenario", "technique", "figure", "value")
GAINS = ("verdict", "gain_ratio", "gain_low_ratio", "gain_high_ratio", "gain_metric")
FLIP = ("value", "below", "above")
Key = tuple[str, str, str]


def scenarios() -> dict[str, Mapping[str, Any]]:
    """Options by the name of the scenario."""
    found: dict[str, Mapping[str, Any]] = yaml.safe_load(SCENARIOS.read_text(encoding="utf-8"))
    return found


def frozen() -> dict[Key, str]:
    """Accepted values by scenario, technique and figure; none before the first acceptance."""
    if not FROZEN.exists():
        return {}
    with FROZEN.open(encoding="utf-8", newline="") as file:
        return {(row["scenario"], row["technique"], row["figure"]): row["value"] for row in csv.DictReader(file)}


def answered(name: str) -> dict[Key, str]:
    """What the table of one scenario says today."""
    answer = boundary(**scenarios()[name]).to_dict()
    found = {(name, "", "tpot_s"): written(answer["tpot_s"]), (name, "", "fits"): written(answer["fits"])}
    for one in answer["techniques"]:
        found |= {(name, one["technique"], figure): written(value) for figure, value in figures(one)}
    return found


def figures(technique: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((name, technique[name]) for name in GAINS)
    for flip in technique["break_even"]:
        yield from ((f"flip {flip['quantity']} {part}", flip[part]) for part in FLIP)
    yield from ((figure["name"], figure["value"]) for figure in technique["figures"])


def written(value: Any) -> str:
    """Six digits of a number; nothing for none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:.6g}"


def differences(before: Mapping[Key, str], after: Mapping[Key, str]) -> Iterator[tuple[Key, str, str, float]]:
    """Key, old, new and relative distance of what is not the same; infinite for words, and for what came or went."""
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key, "no such figure"), after.get(key, "no such figure")
        if old != new:
            yield key, old, new, distance(old, new)


def distance(old: str, new: str) -> float:
    try:
        return abs(float(new) / float(old) - 1)
    except (ValueError, ZeroDivisionError):
        return float("inf")


def save(rows: Mapping[Key, str]) -> None:
    beside = FROZEN.with_name(f".{FROZEN.name}.new")
    with beside.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows((*key, value) for key, value in rows.items())
    beside.replace(FROZEN)
