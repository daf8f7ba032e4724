"""Layers that do not fit, or are not let, onto the devices run on the CPU: it starts, and is slow."""

from collections.abc import Iterator
from math import ceil

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.placing import spills
from infopt.units import format_gib, whole_of


def check(case: Case) -> Iterator[Hit]:
    """What the file leaves on the CPU; what the engine would leave there of itself."""
    if case.deployment.engine not in ("ollama", "llama.cpp") or case.model is None:
        return
    said = whole_of(str(case.deployment.value("gpu_layers", "") or ""))
    kept = 0 if said is None else max(0, case.model.layers - said)
    if kept:
        yield Hit(
            f"slow: {kept} of {case.model.layers} layers run on the CPU, as the file asks",
            at=case.deployment.said_at("gpu_layers"),
            remedy=f"{case.model.layers + 1} layers on the device (the output layer is one), where they fit",
        )
    yield from _of_itself(case)


def _of_itself(case: Case) -> Iterator[Hit]:
    plan = case.plan
    if plan is None or plan.fits is not False or not spills(case.deployment):
        return
    memory, s = plan.memory, plan.scenario
    over = memory.used_bytes_per_gpu - memory.capacity_bytes_per_gpu
    weights = memory.weights_bytes_per_gpu / max(1, s.model.layers)
    cache = s.batch_per_replica * memory.layout.request_bytes(s.context_tokens) / max(1, s.model.layers)
    layers = min(s.model.layers, ceil(max(1.0, over) / (weights + cache)))
    yield Hit(
        f"slow: {format_gib(memory.used_bytes_per_gpu)} are needed on each of {s.gpus} x "
        f"{s.accelerator.name or s.accelerator.id}, which have {format_gib(memory.capacity_bytes_per_gpu)}: about "
        f"{layers} of {s.model.layers} layers run on the CPU",
        at=case.deployment.said_at("context_tokens") or case.deployment.said_at("max_num_seqs"),
        detail=f"cache of {s.batch_per_replica} x {s.context_tokens:,} tokens: {format_gib(cache * s.model.layers)}; "
        f"weights {format_gib(memory.weights_bytes_per_gpu)}",
        remedy="; ".join(remedy.text for remedy in plan.remedies),
        # Of how many devices the machine has, the file may say nothing.
        confidence="likely" if case.granted is not None else "possible",
    )


RULE = Rule(
    id="spills-to-cpu",
    summary="layers of the model run on the CPU",
    severity="warning",
    why="The engine starts, and every token waits for host memory: it answers many times slower than the device could.",
    remedy="A shorter context, fewer slots, fewer bits, or a device with more memory.",
    check=check,
    source="ollama/ollama llm/memory.go; github.com/ollama/ollama issue 5756",
)
