"""KV heads against the ranks they are split over."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.ledgers.scenario import allowed_tensor_parallel


def check(case: Case) -> Iterator[Hit]:
    """Degrees that neither divide the KV heads nor are a multiple of them."""
    tp = case.placed.attention_tp
    if case.model is None or tp == 1 or case.deployment.engine == "ollama":
        return
    for heads, kv in sorted({(g.mixer.q_heads, g.mixer.kv_heads) for g in case.model.groups if g.mixer.kv_heads}):
        if heads % tp or kv % tp == 0 or tp % kv == 0:
            continue
        allowed = ", ".join(str(n) for n in allowed_tensor_parallel(case.model) if n <= 64)
        yield Hit(
            f"{kv} KV heads of {case.model.id} are not shared evenly by tp {tp}: neither divides the other",
            at=case.deployment.said_at("tp"),
            remedy=f"tp one of {allowed}",
        )


RULE = Rule(
    id="kv-heads-divide",
    summary="KV heads and the tensor parallel degree do not divide each other",
    severity="error",
    why="A rank holds whole KV heads, or a whole copy of one: anything between stops the engine.",
    remedy="A degree that divides the KV heads, or a multiple of them.",
    check=check,
    source="vllm model_executor/layers/linear.py QKVParallelLinear",
)
