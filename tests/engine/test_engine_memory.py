"""Starts: pools exact, refusals foreseen, preemptions counted. What a plan says beside what a real vLLM says."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infopt.hardware.accelerator import MemoryNode
from infopt.hardware.host import memory_node
from infopt.hardware.names import resolve_hardware
from infopt.observing.start_logs import read_start_log
from infopt.profiles.resolve import resolve_model
from infopt.studies.planning import plan
from infopt.studies.scenarios import Request
from tests.engine.figures import Figures
from tests.engine.fleet import Fleet
from tests.engine.planned import MACHINE, Infopt, check_pool, planned
from tests.engine.setups import FIRST_WAVE, POOLS, SEQUENCES
from tests.engine.traffic import wave

GIB = 2**30
# How far memory of a node, read now, may be from what the engine read: its figures have two decimals of a GiB.
ROUNDED_BYTES = 0.005 * GIB


@pytest.mark.parametrize("name", [name for name in POOLS if name in FIRST_WAVE])
def test_pool_of_a_start(name: str, starts: Fleet, infopt: Infopt, models: dict[str, Path], figures: Figures) -> None:
    check_pool(name, starts, infopt, models, figures)


@pytest.mark.parametrize(("name", "kind"), [("too-long", "kv_too_small"), ("block-16", "block_size")])
def test_refusal(
    name: str, kind: str, starts: Fleet, infopt: Infopt, models: dict[str, Path], figures: Figures
) -> None:
    said = read_start_log(starts[name].log, name)
    assert said.started is not True
    assert said.refusal is not None
    assert said.refusal.kind == kind
    found = planned(infopt, name, models, status=1)
    assert found["memory"]["fits"] is False
    (text,) = [caveat["text"] for caveat in found["caveats"] if caveat["id"] == "refused"]
    figures.add("refusal", name, "start_s", starts[name].start_took_s, note=text)
    if name == "too-long":  # the engine's own numbers: needed and available GiB to its two decimals, longest context
        bytes_said = (said.refusal.needed_bytes, said.refusal.available_bytes)
        assert all(f"{value / GIB:.2f} GiB" in text for value in bytes_said if value is not None)
        assert None not in bytes_said
        assert found["memory"]["max_context_tokens"] == said.refusal.estimated_context_tokens


def test_refusal_of_memory_that_is_not_free(starts: Fleet, models: dict[str, Path], figures: Figures) -> None:
    """All of the node's memory is asked for: the engine's own total is what is read here, and its free memory, put
    into a plan, refuses with the same figures."""
    refusal = read_start_log(starts["too-full"].log, "too-full").refusal
    assert refusal is not None
    assert refusal.kind == "free_below_utilization"
    assert refusal.total_bytes is not None
    assert refusal.free_bytes is not None
    assert memory_node().total_bytes == pytest.approx(refusal.total_bytes, abs=ROUNDED_BYTES)
    node = MemoryNode(round(refusal.total_bytes), round(refusal.free_bytes), 1)
    hardware = replace_node(resolve_hardware(MACHINE), node)
    found = plan(resolve_model(str(models["real"])), hardware, Request(context_tokens=2048, utilization=1.0))
    (text,) = found.memory.refusals
    figures.add("refusal", "too-full", "start_s", starts["too-full"].start_took_s, note=text)
    assert all(f"{value / GIB:.2f} GiB" in text for value in (refusal.free_bytes, refusal.total_bytes))


def replace_node(hardware: Any, node: MemoryNode) -> Any:
    """The same machine, with the memory an engine saw."""
    return replace(hardware, gpus=1, accelerator=replace(hardware.accelerator, node=node))


@pytest.mark.parametrize("lengths", [(240, 40)], ids=lambda lengths: f"{lengths[0]}+{lengths[1]}")
def test_preemptions(
    lengths: tuple[int, int],
    starts: Fleet,
    infopt: Infopt,
    observed: Callable[..., dict[str, Any]],
    models: dict[str, Path],
    figures: Figures,
) -> None:
    """33 blocks, of which one is the null block: more requests are let in than can end in them.

    All need a third block while the pool is full and long before the first ends, so that it does not matter when they
    came exactly.
    """
    prompt, output = lengths
    load = ["--isl", prompt, "--osl", output, "--batch", SEQUENCES, "--max-num-seqs", SEQUENCES]
    found = planned(infopt, "small", models, more=load, status=1)
    (text,) = [caveat["text"] for caveat in found["caveats"] if caveat["id"] == "preemption"]
    predicted = re.search(r"take (\d+) preemption", text)
    assert predicted is not None
    with starts["small"].running() as server:
        seen = observed(wave(server, SEQUENCES, prompt, output))
    figures.add("preemption", f"{prompt}+{output}", "preemptions", seen["preemptions"], int(predicted[1]))
    assert seen["preemptions"] == int(predicted[1]) > 0
    assert seen["prompt_tokens"] == SEQUENCES * prompt  # computed again, counted once
