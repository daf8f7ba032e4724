"""Pools exact, refusals foreseen, preemptions counted: what a plan says beside what a real vLLM says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infopt.observing.start_logs import read_start_log
from tests.engine.figures import Figures
from tests.engine.server import EngineServer
from tests.engine.setups import CONFIGS, FIRST_WAVE, POOLS

MACHINE = "custom:24GB:20GB/s:cpu"  # its memory and bandwidth have no part in what is exact
Infopt = Callable[..., dict[str, Any]]
Fleet = dict[str, EngineServer]


def planned(infopt: Infopt, name: str, models: dict[str, Path], status: int = 0) -> dict[str, Any]:
    config = CONFIGS[name]
    hardware = MACHINE if config.tp == 1 else f"{config.tp}x {MACHINE}"
    return infopt("plan", "--model", models[config.shape], "--hw", hardware, *config.plan_options(), status=status)


@pytest.mark.parametrize("name", [name for name in POOLS if name in FIRST_WAVE])
def test_pool_of_a_start(name: str, starts: Fleet, infopt: Infopt, models: dict[str, Path], figures: Figures) -> None:
    check_pool(name, starts, infopt, models, figures)


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


REFUSALS = {"too-long": "kv_too_small", "block-16": "block_size"}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(name: str, starts: Fleet, infopt: Infopt, models: dict[str, Path], figures: Figures) -> None:
    said = read_start_log(starts[name].log, name)
    assert said.started is not True
    assert said.refusal is not None
    assert said.refusal.kind == REFUSALS[name]
    plan = planned(infopt, name, models, status=1)
    assert plan["memory"]["fits"] is False
    (text,) = [caveat["text"] for caveat in plan["caveats"] if caveat["id"] == "refused"]
    figures.add("refusal", name, "start_s", starts[name].start_took_s, note=text)
    if name == "too-long":  # the engine's own numbers: needed and available GiB to its two decimals, longest context
        said_gib = [f"{value / 2**30:.2f} GiB" for value in (said.refusal.needed_bytes, said.refusal.available_bytes)]
        assert all(figure in text for figure in said_gib)
        assert plan["memory"]["max_context_tokens"] == said.refusal.estimated_context_tokens
