"""A share of memory that leaves too little outside the budget."""

from collections.abc import Iterator

from infopt.gate.budget import GIB, Outside, outside
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.found import Argument
from infopt.profiles.engines import version_key

ASKED_FROM = "0.8"


def check(case: Case) -> Iterator[Hit]:
    """Bytes left outside against what must lie there; TensorRT-LLM's share is of what is free after loading."""
    said = case.value("utilization")
    if said is None or case.plan is None or said <= case.parameter("utilization-high", _limit(case)):
        return
    at = case.deployment.said_at("utilization")
    if case.deployment.engine == "tensorrt-llm":
        yield from _after_load(case, said, at)
        return
    out = outside(case)
    if out is None:
        return
    s = case.plan.scenario
    graphs = f", graphs {out.graphs / GIB:.2f}" if out.graphs else ", graphs inside the budget"
    yield Hit(
        f"utilization {said:g} leaves {out.left / GIB:.2f} GiB of "
        f"{s.accelerator.usable_memory_bytes / GIB:.2f} outside the budget",
        at=at,
        detail=f"CUDA context and libraries {out.context / GIB:.2f} GiB{graphs}, warm-up "
        f"{out.logits / GIB:.2f} GiB at once",
        remedy=f"--gpu-memory-utilization {min(s.engine.utilization, 0.95):g}; a display or another process needs more",
        severity="error" if _refused(case, out) else "warning",
        confidence="likely",
    )


def _refused(case: Case, out: Outside) -> bool:
    """Newer versions ask for their share to be free at start, when their own context is there already."""
    version = case.deployment.version
    return version is not None and version_key(version) >= version_key(ASKED_FROM) and out.left < out.context


def _limit(case: Case) -> str:
    return "highest_free_share" if case.deployment.engine == "tensorrt-llm" else "highest_share"


def _after_load(case: Case, said: float, at: Argument | None) -> Iterator[Hit]:
    plan = case.plan
    if plan is None:
        return
    pool = plan.memory.kv_pool_bytes_per_gpu
    left = pool / said * (1 - said)
    usual = plan.scenario.engine.utilization
    yield Hit(
        f"a share of {said:g} of what is free takes {pool / GIB:.1f} GiB for the cache and leaves {left / GIB:.1f} GiB "
        "for everything while it runs",
        at=at,
        detail=f"{usual:g} leaves {pool / said * (1 - usual) / GIB:.1f} GiB, 0.85 leaves "
        f"{pool / said * 0.15 / GIB:.1f} GiB",
        remedy="a share of 0.85",
        confidence="likely",
    )


RULE = Rule(
    id="utilization-high",
    summary="the share of memory leaves too little for what lies outside of it",
    severity="warning",
    why="Context, graphs and warm-up lie outside the budget: the engine dies at start, or later under load.",
    remedy="A smaller share.",
    check=check,
    parameters={"highest_share": 0.95, "highest_free_share": 0.9},
    source="vllm-project/vllm issue 57475; ai-dynamo/dynamo pull 9746 (0.95 to 0.85 on H200 and B200)",
)
