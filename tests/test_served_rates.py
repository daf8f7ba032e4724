"""Simulations beside published load tests: errors do not grow, and docs/served_rates.md shows them."""

from functools import cache
from types import ModuleType
from typing import Any

import pytest
from scripts import script

# Group and figure: the median error and the least share inside the interval, as found on 2026-11-30 and a little more.
KEPT = [
    ("dense", "TTFT", 0.26, 0.90),
    ("dense", "TTFT p99", 0.32, 0.80),
    ("dense", "TPOT", 0.18, 0.50),
    ("dense", "output tokens/s", 0.14, 0.0),
    ("mixture", "TTFT", 0.60, 0.50),
    ("prompts seen before", "TTFT", 0.25, 0.50),
    ("prompts seen before", "TPOT", 0.08, 0.60),
    ("requests queue", "output tokens/s", 0.60, 0.0),
    ("closed loop", "TTFT", 0.15, 0.60),
    ("closed loop", "TPOT", 0.10, 0.60),
    ("closed loop", "output tokens/s", 0.10, 0.80),
]


@cache
def tool() -> ModuleType:
    return script("tools/docs_served_rates.py")


@cache
def found() -> list[Any]:
    return [tool().compared(row) for row in tool().read_rows()]


def simulated() -> list[Any]:
    return [one for one in found() if not one.reason]


def test_the_table_is_current() -> None:
    page = tool().PAGE.read_text(encoding="utf-8")
    assert tool().page_of(found(), page) == page, "run python tools/docs_served_rates.py"


def test_there_are_many_sources_and_most_runs_are_below_saturation() -> None:
    rows = tool().read_rows()
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row["source"] and row["version"] for row in rows)
    assert len(simulated()) >= 50
    assert len({row["source"].split("/blob/")[0] for row in rows}) >= 20
    assert len({one.row["source"].split("/blob/")[0] for one in simulated()}) >= 9
    assert sum(not one.queues[0] for one in simulated()) > len(simulated()) / 2


def test_rows_without_a_simulation_say_that_nothing_was_measured() -> None:
    for one in found():
        assert not one.reason or "no step time" in one.reason, one.row["id"]


@pytest.mark.parametrize(("group", "figure", "most_error_ratio", "least_held_share"), KEPT)
def test_errors_do_not_grow(group: str, figure: str, most_error_ratio: float, least_held_share: float) -> None:
    names = dict(tool().SHOWN)[figure]
    got = tool().errors([one for one in simulated() if tool().group(one) == group], names)
    assert got.error_ratio <= most_error_ratio
    assert got.held_share >= least_held_share


def test_a_first_token_in_light_traffic_is_not_late() -> None:
    """What was found first: waits of several clients in a fitted TTFT, which a simulation has as steps."""
    light = [one for one in simulated() if tool().group(one) == "dense"]
    got = tool().errors(light, ("ttft_mean_ms",))
    assert got.rows >= 20
    assert abs(got.bias_ratio) < 0.2
