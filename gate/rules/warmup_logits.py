"""The sampler's warm-up, which runs after the cache has taken its share."""

from collections.abc import Iterator

from infopt.gate.budget import GIB, outside
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.profiles.engines import version_key

# The warm-up came with the second engine core.
FROM = "0.8"


def check(case: Case) -> Iterator[Hit]:
    """One float32 copy of the logits of every sequence against what is left outside the budget."""
    out = outside(case)
    if out is None or case.plan is None or version_key(case.plan.scenario.engine_version) < version_key(FROM):
        return
    s, said = case.plan.scenario, case.deployment.said_at
    # Defaults start: what the file asks for is in question.
    if out.spare >= out.logits or not (said("utilization") or said("max_num_seqs")):
        return
    sequences = min(s.max_num_seqs, s.max_num_batched_tokens)
    fits = max(1, int(max(0.0, out.spare) // (s.model.vocab * 4)))
    yield Hit(
        f"warm-up of {sequences:,} sequences takes {out.logits / GIB:.2f} GiB for each copy of the logits, "
        f"{max(0.0, out.spare) / GIB:.2f} GiB are left outside the budget",
        at=case.deployment.said_at("max_num_seqs") or case.deployment.said_at("utilization"),
        detail=f"{sequences:,} x {s.model.vocab:,} x 4 bytes; {out.left / GIB:.2f} GiB outside, context "
        f"{out.context / GIB:.2f}, graphs {out.graphs / GIB:.2f}",
        remedy=f"--max-num-seqs {fits} or fewer, or a smaller --gpu-memory-utilization",
        confidence="likely",
    )


RULE = Rule(
    id="warmup-logits",
    summary="warm-up of the sampler needs more than is left outside the budget",
    severity="warning",
    why="The engine runs out of memory after the cache is taken, with sequences nobody asked for.",
    remedy="Fewer sequences at once, or a smaller share of memory.",
    check=check,
    source="vllm v1/worker/gpu_worker.py compile_or_warm_up_model; vllm-project/vllm issues 14452, 27508",
)
