"""Weights and what the engine needs beside them are more than a device holds."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.units import format_gib


def check(case: Case) -> Iterator[Hit]:
    """Nothing is left for a cache on the device that decides."""
    plan = case.plan
    if plan is None or plan.fits is not False or plan.memory.kv_pool_bytes_per_gpu > 0:
        return
    memory, s = plan.memory, plan.scenario
    terms = " + ".join(f"{t.name} {format_gib(t.value)}" for t in memory.terms if t.value > 0 and t.name != "kv")
    yield Hit(
        f"{s.model.id} does not fit: {format_gib(memory.weights_bytes_per_gpu)} of weights on each of {s.gpus} x "
        f"{s.accelerator.name or s.accelerator.id}, which have {format_gib(memory.capacity_bytes_per_gpu)}",
        at=case.deployment.said_at("tp") or case.deployment.said_at("model"),
        detail=terms,
        remedy="; ".join(remedy.text for remedy in plan.remedies),
    )


RULE = Rule(
    id="does-not-fit",
    summary="weights and buffers are more than the device's memory",
    severity="error",
    why="The engine runs out of memory while it loads.",
    remedy="More devices, fewer bits, or a device with more memory.",
    check=check,
)
