"""The token budget of a step against the length limit and the number of sequences."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.engine_defaults import default_of
from infopt.gate.finding import Hit, Rule
from infopt.profiles.engines import version_key

V0_CHUNKS_ABOVE_TOKENS = 32_768


def check(case: Case) -> Iterator[Hit]:
    """A budget below what a step must take whole."""
    if case.deployment.engine == "tgi":
        yield from _tgi(case)
        return
    if case.deployment.engine == "tensorrt-llm":
        yield from _trtllm(case)
        return
    budget = case.value("max_num_batched_tokens")
    if case.deployment.engine != "vllm" or not isinstance(budget, int) or budget < 1:
        return
    at = case.deployment.said_at("max_num_batched_tokens")
    context = case.value("context_tokens")
    if not isinstance(context, int) or context < 1:
        context = case.model.max_position_tokens if case.model is not None else None
    chunked, how = _chunked(case, context)
    if context is not None and budget < context and chunked is False:
        yield Hit(
            f"a budget of {budget:,} tokens a step is below the length limit of {context:,}, and {how}",
            at=at,
            remedy=f"--max-num-batched-tokens {context} or more, or chunked prefill",
        )
    sequences = case.value("max_num_seqs")
    if isinstance(sequences, int) and budget < sequences:
        text = f"a budget of {budget:,} tokens a step is below the {sequences:,} sequences of --max-num-seqs"
        yield Hit(text, at=at, remedy=f"--max-num-seqs {budget} or fewer")


def _chunked(case: Case, context: int | None) -> tuple[bool | None, str]:
    """Whether prompts are cut into chunks, and why."""
    said = case.value("chunked_prefill")
    if said is not None:
        return bool(said), "chunked prefill is off"
    version = case.deployment.version
    if version is None or version_key(version) >= version_key("0.8"):
        return None, ""
    on = context is not None and context > V0_CHUNKS_ABOVE_TOKENS
    return on, f"vllm {version} cuts prompts by itself only above {V0_CHUNKS_ABOVE_TOKENS:,} tokens"


def _trtllm(case: Case) -> Iterator[Hit]:
    """TensorRT-LLM starts, and refuses prompts that a pass cannot take whole."""
    context, budget = (
        case.value("context_tokens"),
        case.value("max_num_batched_tokens", default_of("tensorrt_llm_step_tokens")),
    )
    if not isinstance(context, int) or not isinstance(budget, int) or not 0 < budget < context:
        return
    if not case.value("chunked_prefill") and case.deployment.found.role != "decode":
        yield Hit(
            f"prompts above {budget:,} tokens are refused: a pass takes no more, and prompts are not cut into chunks",
            at=case.deployment.said_at("max_num_batched_tokens") or case.deployment.said_at("context_tokens"),
            detail=f"the length limit is {context:,} tokens",
            remedy=f"enable_chunked_prefill, or --max_num_tokens {context}",
            severity="warning" if 2 * budget <= context else "note",
            confidence="likely",
        )


def _tgi(case: Case) -> Iterator[Hit]:
    """What the launcher compares: input < total <= batch total, input <= prefill budget."""
    names = {
        "input": "input_tokens",
        "total": "context_tokens",
        "batch": "pool_tokens",
        "prefill": "max_num_batched_tokens",
    }
    tokens = {short: case.value(name) for short, name in names.items()}
    for low, high, strict in (("input", "total", True), ("total", "batch", False), ("input", "prefill", False)):
        below, above = tokens[low], tokens[high]
        if not isinstance(below, int) or not isinstance(above, int) or below < above or (below == above and not strict):
            continue
        flags = [case.deployment.settings[names[short]].flag for short in (low, high)]
        sign = "less than" if strict else "at most"
        yield Hit(
            f"{flags[0]} {below:,} must be {sign} {flags[1]} {above:,}",
            at=case.deployment.said_at(names[high]) or case.deployment.said_at(names[low]),
            remedy=f"{flags[1]} {below + strict} or more",
        )


RULE = Rule(
    id="batch-budget",
    summary="tokens of a step are fewer than one prompt or than the sequences",
    severity="error",
    why="Without chunked prefill a prompt goes through whole: the engine refuses the combination.",
    remedy="A budget of at least the length limit, or chunked prefill.",
    check=check,
    source="vllm config/scheduler.py; text-generation-inference launcher/src/main.rs; verl-project/verl pulls "
    "7626, 7632; vllm-project/vllm issue 28981; NVIDIA/TensorRT-LLM issue 9277",
)
