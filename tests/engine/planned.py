"""`infopt` asked about the servers of the run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from infopt.observing.start_logs import read_start_log
from tests.engine.figures import Figures
from tests.engine.fleet import Fleet
from tests.engine.setups import CONFIGS

MACHINE = "custom:24GB:20GB/s:cpu"  # memory and bandwidth have no part in what is exact
Infopt = Callable[..., dict[str, Any]]


def planned(
    infopt: Infopt,
    name: str,
    models: dict[str, Path],
    command: Sequence[object] = ("plan",),
    more: Sequence[object] = (),
    hardware: Sequence[object] = ("--hw", MACHINE),
    status: int | None = 0,
) -> dict[str, Any]:
    """A plan, or another command with its options, of one server."""
    config = CONFIGS[name]
    ranks = hardware if config.tp == 1 else ("--hw", f"{config.tp}x {MACHINE}")
    given = ("--model", models[config.shape], *ranks, *config.plan_options())
    return infopt(*command, *given, *more, status=status)


def check_pool(name: str, fleet: Fleet, infopt: Infopt, models: dict[str, Path], figures: Figures) -> None:
    """Tokens of the pool and sequences in it: as planned, and as the log is read."""
    memory = planned(infopt, name, models)["memory"]
    said = read_start_log(fleet[name].log, name)
    for quantity, of_log, of_plan in (
        ("kv_pool_tokens", said.kv_pool_tokens, memory["kv_pool_tokens"]),
        ("max_concurrency", said.max_concurrency, round(memory["kv_pool_concurrency"], 2)),
    ):
        figures.add("pool", name, quantity, of_log, of_plan)
        assert of_log == of_plan


def figure_of(boundary: dict[str, Any], name: str) -> float | None:
    """A figure of the one technique that was asked about, None where there is none."""
    (technique,) = boundary["techniques"]
    return next((float(figure["value"]) for figure in technique["figures"] if figure["name"] == name), None)
