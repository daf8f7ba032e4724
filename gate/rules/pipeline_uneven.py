"""Layers that do not divide by the pipeline stages, and a partition that does not add up."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.found import Argument
from infopt.gate.placing import whole_number
from infopt.ledgers.scenario import stages

PARTITION = "VLLM_PP_LAYER_PARTITION"


def check(case: Case) -> Iterator[Hit]:
    """Layers of each stage; a partition of one's own is added up."""
    model, pp = case.model, case.placed.pp
    if model is None or pp == 1 or case.deployment.engine in ("llama.cpp", "ollama") or pp > model.layers:
        return
    said = case.deployment.found.environment.get(PARTITION)
    if said is not None and case.deployment.engine == "vllm":
        parts = [n for part in said.split(",") if (n := whole_number(part)) is not None]
        if len(parts) != pp or sum(parts) != model.layers:
            at = Argument(str(said), said.line, said.column, f"env {PARTITION}")
            text = (
                f"{PARTITION} {said}: {len(parts)} stages, {sum(parts)} layers; pp {pp} and {model.layers} are needed"
            )
            yield Hit(text, at=at, severity="error")
        return
    sizes = [sum(run.layers for run in stage) for stage in stages(model, pp)]
    most, mean = max(sizes), model.layers / pp
    if most == min(sizes):
        return
    heavy = most / mean - 1 >= case.parameter("pipeline-uneven", "worst_excess_share")
    first = sizes.index(most) + 1
    yield Hit(
        f"{model.layers} layers over pp {pp}: {sizes.count(most)} stages hold {most}, the first of them stage {first}, "
        f"{sizes.count(min(sizes))} hold {min(sizes)}",
        at=case.deployment.said_at("pp"),
        detail=f"layers a stage: {', '.join(map(str, sizes))}; the last also holds the head, the first the embedding",
        severity="warning" if heavy else "note",
        remedy=f"a pp that divides {model.layers}, or fewer stages with more tensor parallelism",
    )


RULE = Rule(
    id="pipeline-uneven",
    summary="layers do not divide by the pipeline stages",
    severity="note",
    why="The fullest stage decides what fits and how fast a step is; the others wait with memory to spare.",
    remedy="A number of stages that divides the layers.",
    check=check,
    parameters={"worst_excess_share": 0.03},
    source="vllm distributed/utils.py get_pp_indices; vllm-project/vllm issues 14120, 36861",
)
