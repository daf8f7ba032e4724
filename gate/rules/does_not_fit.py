"""Weights and what the engine needs beside them are more than a device holds."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.environment import unresolved
from infopt.gate.finding import Hit, Rule
from infopt.gate.least_memory import largest_bytes
from infopt.gate.placing import spills
from infopt.gate.stages import stage_said
from infopt.studies.planning import Plan
from infopt.units import format_gib

# Engines that use one device where nothing says more; forms whose command has all that it says.
COUNTED = frozenset({"vllm", "sglang"})
WHOLE_COMMANDS = frozenset({"shell", "systemd", "docker-compose"})
# Below this there are devices; past the largest by this much the error of the ledger decides nothing.
LARGE_BYTES, BEYOND = 200 * 2**30, 1.25


def check(case: Case) -> Iterator[Hit]:
    """Nothing is left for a cache on the device that decides."""
    plan = case.plan
    if case.device is None:
        yield from _nowhere(case)
    if plan is None or plan.fits is not False or spills(case.deployment):
        return
    if plan.memory.is_pool_too_large:
        yield _pool_too_large(case, plan)
        return
    if plan.memory.kv_pool_bytes_per_gpu > 0:
        return
    memory, s = plan.memory, plan.scenario
    parts = [t for t in memory.terms if t.value > 0 and t.name not in ("kv", "margin")]
    terms = " + ".join(f"{t.name} {format_gib(t.value)}" for t in parts)
    where = f"of stage {memory.stage + 1} of {s.pp}" if s.pp > 1 else f"of {s.gpus} x {s.accelerator.name}"
    yield Hit(
        f"{s.model.id} does not fit: {format_gib(memory.weights_bytes_per_gpu)} of {s.weight_format} weights "
        "on each device "
        f"{where}, which has {format_gib(memory.capacity_bytes_per_gpu)}",
        at=case.deployment.said_at("tp") or case.deployment.said_at("model"),
        detail="; ".join(filter(None, (terms, stage_said(plan), _spread(case)))),
        remedy=" or ".join(remedy.text for remedy in plan.remedies),
        confidence=case.sureness,
    )


def _pool_too_large(case: Case, plan: Plan) -> Hit:
    """A cache of a size the file gives, where less is left."""
    memory = plan.memory
    room = format_gib(max(0.0, memory.kv_room_bytes))
    return Hit(
        f"a cache of {format_gib(memory.kv_pool_bytes_per_gpu)} is given on each device, which has {room} beside "
        "weights and what the engine needs",
        at=case.deployment.said_at("kv_bytes"),
        remedy=f"a cache of at most {room}" if memory.kv_room_bytes > 0 else "",
        confidence=case.sureness,
    )


def _nowhere(case: Case) -> Iterator[Hit]:
    """More than any device has, whichever it is; where degrees may be given elsewhere, nothing is said."""
    needs, deployment = case.needs_bytes_per_gpu, case.deployment
    if needs is None or case.model is None or needs < LARGE_BYTES or deployment.engine not in COUNTED:
        return
    ends = not any(unresolved(argument.text) for argument in deployment.found.arguments)
    whole = (ends and deployment.found.form in WHOLE_COMMANDS) or case.value("tp") is not None
    if whole and needs > BEYOND * largest_bytes():
        yield Hit(
            f"{case.model.id} does not fit: each device needs at least {format_gib(needs)}, "
            f"the largest known has {format_gib(largest_bytes())}",
            at=deployment.said_at("tp") or deployment.said_at("model"),
            remedy="more devices (tensor or pipeline parallel), or fewer bits",
        )


def _spread(case: Case) -> str:
    """Devices that were granted and hold nothing."""
    idle = (case.granted or 0) - case.needed
    tp = case.value("tp")
    return f"{case.granted} devices are granted, the weights lie on {case.needed}" if idle > 0 and tp is None else ""


RULE = Rule(
    id="does-not-fit",
    summary="weights and buffers are more than the device's memory",
    severity="error",
    why="The engine runs out of memory while it loads.",
    remedy="More devices, fewer bits, or a device with more memory.",
    check=check,
    source="ledgers/memory.py; docs/accuracy.md has the error against published start-up logs",
)
