"""The least memory each device must have for one full-length request: what is left to say where its kind is unknown."""

from dataclasses import replace
from functools import cache
from math import ceil

from infopt.errors import InfoptError
from infopt.gate.deployment import Deployment
from infopt.gate.placing import context_of, spills
from infopt.gate.requests import asked
from infopt.hardware.accelerator import Accelerator, HardwareChoice
from infopt.hardware.catalogue import hardware_names, load_accelerator
from infopt.ledgers.memory import MemoryLedger, memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.profiles.geometry import ModelProfile
from infopt.studies.scenarios import build

GIB = 2**30
# Answers are whole steps; the largest is more than any device has.
STEP_BYTES = GIB // 10
MOST_STEPS = 40_960
# Up to this size engines have other defaults, so the sum is made anew there (profiles/data/engines, min_device_gib).
SMALL_STEPS = 699
# Steps the answer may be away from what the straight line says.
NEARBY_STEPS = 40


def least_bytes(deployment: Deployment, model: ModelProfile) -> int | None:
    """Usable memory of each device at which the engine's own budget holds one request of the full length.

    None where no device would do, no engine runs the placement, or the engine leaves in host memory what does not fit.
    """
    if spills(deployment):
        return None
    try:
        return _least(deployment, model)
    except InfoptError:
        return None


@cache
def largest_bytes() -> int:
    """Usable memory of the largest device in the catalogue."""
    return max(int(load_accelerator(id).usable_memory_bytes or 0) for id in hardware_names())


def _least(deployment: Deployment, model: ModelProfile) -> int | None:
    """Memory left over grows by the engine's share of a device's memory: two sizes tell where it begins."""
    context = context_of(deployment, model).tokens

    def left(steps: int) -> float:
        memory, scenario = _memory(deployment, model, context, steps)
        need = scenario.batch_per_replica * memory.layout.request_bytes(scenario.context_tokens)
        return float(memory.kv_pool_bytes_per_gpu - need)

    def holds(steps: int) -> bool:
        if steps < 1:
            return False
        memory, scenario = _memory(deployment, model, context, steps)
        return memory.max_sequences >= scenario.batch_per_replica

    most = left(MOST_STEPS)
    share = (most - left(MOST_STEPS // 2)) / (MOST_STEPS - MOST_STEPS // 2)
    if most <= 0 or share <= 0:
        return None
    steps = ceil(MOST_STEPS - most / share)
    if (small := left(SMALL_STEPS)) > 0:
        steps = ceil(SMALL_STEPS - small / share)
    near = range(max(1, steps - NEARBY_STEPS), steps + NEARBY_STEPS)
    while steps in near and not holds(steps):
        steps += 1
    while steps in near and holds(steps - 1):
        steps -= 1
    return steps * STEP_BYTES if steps in near else None


def _memory(
    deployment: Deployment, model: ModelProfile, context: int | None, steps: int
) -> tuple[MemoryLedger, Scenario]:
    """The ledger on devices of so many steps of memory."""
    device = HardwareChoice(replace(_any_device(), usable_memory_bytes=steps * STEP_BYTES), None, "")
    placed, request = asked(deployment, model, device, context, [])
    scenario = build(placed, device, request).scenario
    return memory_ledger(scenario), scenario


@cache
def _any_device() -> Accelerator:
    """Memory does not depend on what else a device is: a common one stands for all."""
    return load_accelerator("h100-sxm-80gb")
