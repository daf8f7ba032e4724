"""It does not fit, but this engine starts all the same and serves less."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule

HOW = {
    "sglang": "requests past it are refused while it runs",
    "tensorrt-llm": "requests past it fail while it runs",
    "tgi": "it takes what fits as its limit",
    "llama.cpp": "it takes a shorter context, or leaves layers in host memory",
    "ollama": "it leaves layers in host memory and answers slowly",
    "vllm": "it takes the longest length that fits",
}


def check(case: Case) -> Iterator[Hit]:
    """The context an engine takes by itself where the one that was meant does not fit."""
    if case.plan is None or case.shortened_from is None:
        return
    fits = case.plan.scenario.context_tokens
    yield Hit(
        f"a request of {case.shortened_from:,} tokens, the model's own limit, does not fit; {case.deployment.engine} "
        f"starts with about {fits:,}: {HOW.get(case.deployment.engine, 'it serves less')}",
        at=case.deployment.said_at("context_tokens") or case.deployment.said_at("model"),
        remedy=f"write the limit down: {fits:,} tokens or fewer",
    )


RULE = Rule(
    id="engine-accepts",
    summary="one full-length request does not fit, but the engine starts with a shorter limit",
    severity="warning",
    why="Users are promised the model's context and get errors, or a slow answer, past what fits.",
    remedy="A length limit that fits, written down.",
    check=check,
    source="sglang srt/model_executor (max_total_num_tokens); text-generation-inference launcher; llama.cpp -fit",
)
