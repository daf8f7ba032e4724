"""Replicas of a mixture that each keep every expert."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.units import format_gib


def check(case: Case) -> Iterator[Hit]:
    """Data parallel copies of experts, in bytes; engines that spread them by themselves have none."""
    plan, dp = case.plan, case.placed.dp
    if plan is None or dp == 1 or not plan.scenario.model.experts or plan.scenario.expert_shards > plan.scenario.tp:
        return
    s, memory = plan.scenario, plan.memory
    whole = memory.stored_weights_bytes
    yield Hit(
        f"dp {dp} keeps {dp} copies of {s.model.id}: {format_gib(dp * whole)} of weights on {s.gpus} devices, "
        f"{format_gib(memory.weights_bytes_per_gpu)} on each",
        at=case.deployment.said_at("dp"),
        detail=f"spread over {s.tp * dp} devices the experts would leave {format_gib(_spread(case))} on each",
        severity="error" if plan.fits is False else "warning",
        remedy="expert parallelism over tp x dp",
    )


def _spread(case: Case) -> float:
    """Weights of a rank with experts split over all devices of a stage."""
    from dataclasses import replace

    from infopt.ledgers.memory import memory_ledger

    assert case.plan is not None
    s = case.plan.scenario
    return memory_ledger(replace(s, ep=s.tp * s.dp)).weights_bytes_per_gpu


RULE = Rule(
    id="expert-copies",
    summary="data parallel replicas of a mixture each keep every expert",
    severity="warning",
    why="Experts are most of the weights: copies take the memory that the cache could have, or do not fit at all.",
    remedy="Expert parallelism: each replica keeps its part of the experts.",
    check=check,
    source="NVIDIA-NeMo/Nemotron pull 338; docs.vllm.ai serving/expert_parallel_deployment",
)
