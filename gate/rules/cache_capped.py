"""A cap on the cache below one full-length request."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.engine_defaults import default_of
from infopt.gate.finding import Hit, Rule


def check(case: Case) -> Iterator[Hit]:
    """Tokens the file allows the cache against the length limit."""
    tokens, name = _cap(case)
    context = case.plan.scenario.context_tokens if case.plan is not None else case.value("context_tokens")
    if tokens is None or not isinstance(context, int) or tokens >= context:
        return
    setting = case.deployment.settings[name]
    yield Hit(
        f"{setting.flag} caps the cache at {tokens:,} tokens, below one request of {context:,}",
        at=setting.argument,
        remedy=f"a cap of {context:,} tokens or more, or a length limit of {tokens:,}",
        severity="error" if case.deployment.engine == "vllm" else "warning",
    )


def _cap(case: Case) -> tuple[int | None, str]:
    """The cap in tokens and the setting it is made by."""
    if case.deployment.engine == "sglang" and isinstance(case.value("pool_tokens"), int):
        return case.value("pool_tokens"), "pool_tokens"
    if case.deployment.engine == "vllm" and isinstance(case.value("blocks"), int) and case.value("blocks") > 0:
        return case.value("blocks") * (case.value("block_tokens") or default_of("vllm_block_tokens")), "blocks"
    return None, ""


RULE = Rule(
    id="cache-capped",
    summary="the file caps the cache below one full-length request",
    severity="error",
    why="vLLM refuses to start; SGLang starts and refuses every request past the cap.",
    remedy="No cap, or a shorter length limit.",
    check=check,
    source="vllm v1/core/kv_cache_utils.py (num_gpu_blocks_override); sglang srt/server_args.py (max_total_tokens)",
)
