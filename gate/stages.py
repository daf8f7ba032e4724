"""What each pipeline stage holds, and which of them decides."""

from infopt.ledgers.pool import room, stage_memory
from infopt.ledgers.scenario import Scenario, stages
from infopt.studies.planning import Plan

GIB = 2**30
MOST_SHOWN = 8


def stage_said(plan: Plan) -> str:
    """The deciding stage beside the others, "" without pipeline parallelism."""
    s = plan.scenario
    if s.pp == 1:
        return ""
    cut = stages(s.model, s.pp)
    layers = [sum(run.layers for run in stage) for stage in cut]
    weights = [stage_memory(s, stage, index).term("weights").value / GIB for index, stage in enumerate(cut)]
    here = plan.memory.stage
    shown = [f"{n} layers {w:.1f} GiB" for n, w in zip(layers, weights, strict=True)]
    listed = ", ".join(shown) if s.pp <= MOST_SHOWN else f"{min(weights):.1f} to {max(weights):.1f} GiB of weights"
    return f"stage {here + 1} of {s.pp} decides with {_why(s, here, layers)}; stages: {listed}"


def _why(s: Scenario, here: int, layers: list[int]) -> str:
    """What the deciding stage has that others have not."""
    parts = [f"{layers[here]} layers"]
    if here == 0:
        parts.append("the embedding")
    if here == s.pp - 1:
        parts.append("the head")
    held = room(s, stage_memory(s, stages(s.model, s.pp)[here], here))
    return f"{' and '.join(parts)} ({max(0.0, held.pool_bytes) / GIB:.2f} GiB of cache)"
