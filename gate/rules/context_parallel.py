"""Decode context parallelism against copies of KV heads."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule


def check(case: Case) -> Iterator[Hit]:
    """vLLM splits a cache by tokens only over ranks that hold copies of the same heads."""
    dcp, tp = int(case.value("dcp", 1) or 1), case.placed.tp
    if case.deployment.engine != "vllm" or case.model is None or dcp <= 1:
        return
    at = case.deployment.said_at("dcp")
    if tp % dcp:
        yield Hit(f"tp {tp} is no multiple of decode context parallel {dcp}", at=at, remedy=f"a divisor of {tp}")
        return
    heads = max((g.mixer.kv_heads for g in case.model.groups if g.mixer.kind == "full"), default=0)
    copies = tp // heads if heads else 0
    if not heads or dcp <= copies:
        return
    fits = f"--decode-context-parallel-size of at most {copies}" if copies > 1 else f"tp {dcp * heads} or more"
    yield Hit(
        f"decode context parallel {dcp} needs {dcp} copies of each KV head: {heads} KV heads over tp {tp} have "
        f"{max(copies, 1)}",
        at=at,
        detail=f"tp {tp} / {heads} KV heads = {tp / heads:g}",
        remedy=f"{fits}, or none",
    )


RULE = Rule(
    id="context-parallel",
    summary="a cache is split by tokens over ranks that hold different heads",
    severity="error",
    why="The engine compares the ranks with the KV heads before it loads, and stops.",
    remedy="A size of at most tp over the KV heads; models with one latent head may have tp itself.",
    check=check,
    source="vllm config/model.py verify_with_parallel_config, docs/serving/context_parallel_deployment.md; "
    "vllm-project/vllm issue 41623",
)
