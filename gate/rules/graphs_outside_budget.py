"""CUDA graphs outside the budget, in versions that capture them after the cache is taken."""

from collections.abc import Iterator

from infopt.gate.budget import GIB, outside, reported_graphs
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule


def check(case: Case) -> Iterator[Hit]:
    """Graphs and context against what is left."""
    out = outside(case)
    if out is None or case.plan is None or not out.graphs or out.spare >= 0:
        return
    s = case.plan.scenario
    reported = reported_graphs(s.engine_version, s.tp * s.pp) > 0
    if not reported and s.utilization <= s.engine.utilization:
        return  # defaults start
    yield Hit(
        f"graphs of about {out.graphs / GIB:.1f} GiB are captured outside the budget, where "
        f"{out.left / GIB:.1f} GiB are "
        f"left beside {out.context / GIB:.1f} GiB of context",
        at=case.deployment.said_at("utilization") or case.deployment.said_at("tp"),
        detail=f"(1 - {s.utilization:g}) x {s.accelerator.usable_memory_bytes / GIB:.2f} GiB; graphs are "
        "inside since 0.20",
        remedy=f"--gpu-memory-utilization {_share(case, out.context + out.graphs):.2f}, --enforce-eager, or "
        "fewer ranks",
        severity="error" if reported else "warning",
        confidence="likely",
    )


def _share(case: Case, needed_bytes: float) -> float:
    """The share that leaves this much, rounded down to a hundredth."""
    assert case.plan is not None
    capacity = case.plan.scenario.accelerator.usable_memory_bytes
    return max(0.05, int(100 * (1 - needed_bytes / capacity)) / 100)


RULE = Rule(
    id="graphs-outside-budget",
    summary="CUDA graphs need more than the budget leaves outside",
    severity="warning",
    why="The cache is taken first: the capture then runs out of memory. More devices leave no more outside.",
    remedy="A smaller share of memory, or no graphs.",
    check=check,
    source="vllm-project/vllm issues 2856, 7593; vllm v1/worker/gpu_worker.py (inside the budget since 0.20)",
)
