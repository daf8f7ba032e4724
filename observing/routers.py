"""Servers that stand in front of engines and are none: their metrics are recognised to say so in words."""

from collections.abc import Collection
from functools import cache
from pathlib import Path

from infopt.probes.metrics_text import Metrics
from infopt.records import Record, read_yaml, validate_record

FILE = Path(__file__).resolve().parent / "data" / "routers.yaml"


class Router(Record):
    """One of them: any of `marks` (a name, or the beginning of names with * behind) is of it.

    over  the engine whose names it borrows: the mark decides even where such names are there
    """

    name: str
    marks: list[str]
    over: str | None = None
    remedy: str
    source: str


class Routers(Record):
    """All that are known."""

    routers: list[Router]


@cache
def routers() -> tuple[Router, ...]:
    """All that are known."""
    return tuple(validate_record(Routers, read_yaml(FILE), str(FILE)).routers)


def router_of(metrics: Metrics, engines: Collection[str]) -> Router | None:
    """Whose text this is, where it is no engine's. Engines of the text that the router does not copy go before it."""
    for router in routers():
        if engines and set(engines) != {router.over}:
            continue
        if any(_holds(metrics, mark) for mark in router.marks):
            return router
    return None


def _holds(metrics: Metrics, mark: str) -> bool:
    if mark.endswith("*"):
        return any(name.startswith(mark[:-1]) for name in metrics.series)
    return mark in metrics.series
