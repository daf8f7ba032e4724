"""Query heads, and KV heads, against the ranks they are split over."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.ledgers.scenario import allowed_tensor_parallel

SHOWN = 64


def check(case: Case) -> Iterator[Hit]:
    """Query heads of a layer that a rank cannot have a whole number of."""
    tp = case.placed.attention_tp
    if case.model is None or tp == 1 or case.deployment.engine == "ollama":
        return
    for heads, kv_heads in sorted({(g.mixer.q_heads, g.mixer.kv_heads) for g in case.model.groups if g.mixer.q_heads}):
        if heads % tp == 0:
            continue
        divisors = ", ".join(str(n) for n in range(1, min(heads, SHOWN) + 1) if heads % n == 0)
        allowed = ", ".join(str(n) for n in allowed_tensor_parallel(case.model) if n <= SHOWN)
        yield Hit(
            f"{heads} query heads of {case.model.id} do not divide by tp {tp}",
            at=case.deployment.said_at("tp"),
            detail=f"{heads} divides by {divisors}; with {kv_heads} KV heads tp may be {allowed}",
            remedy=f"tp {allowed.replace(', ', ' or ') if allowed.count(',') == 1 else 'one of ' + allowed}",
        )


RULE = Rule(
    id="heads-divide",
    summary="query heads do not divide by the tensor parallel degree",
    severity="error",
    why="Every rank holds whole heads: the engine stops before it loads.",
    remedy="A degree that divides the heads, or pipeline parallelism for the rest.",
    check=check,
    source="vllm config/model.py verify_with_parallel_config; vllm-project/vllm issues 414, 1705",
)
