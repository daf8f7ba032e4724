"""A length limit past what the model was made for."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.models import is_path

VARIABLES = {"vllm": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "sglang": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"}
STRICT = frozenset({"vllm", "sglang"})


def check(case: Case) -> Iterator[Hit]:
    """The limit in the file against the length the model's config gives."""
    asked, model = case.value("context_tokens") or case.value("whole_context_tokens"), case.model
    if model is None or model.max_position_tokens is None or not isinstance(asked, int):
        return
    if case.deployment.engine == "llama.cpp" and case.plan is not None:
        asked = case.plan.scenario.context_tokens
    limit = model.max_position_tokens
    if asked <= limit or _stretched(case):
        return
    name = VARIABLES.get(case.deployment.engine, "")
    allowed = str(case.deployment.found.environment.get(name, "")).lower() in ("1", "true")
    refused = case.deployment.engine in STRICT and not allowed
    yield Hit(
        f"a limit of {asked:,} tokens is more than the {limit:,} positions of {model.id}",
        at=case.deployment.said_at("context_tokens") or case.deployment.said_at("whole_context_tokens"),
        detail=f"{name} is set: it starts, and answers past {limit:,} tokens are not reliable" if allowed else "",
        remedy=f"at most {limit:,}, or rope scaling the model was tested with",
        severity="error" if refused else "warning",
        # A folder's name says what it was made from; its config may say more positions.
        confidence="likely" if is_path(case.deployment.model or "") else "certain",
    )


def _stretched(case: Case) -> bool:
    """Whether the file changes the model's positions itself."""
    said = f"{case.value('overrides', '')}{case.value('rope_scaling', '')}"
    return any(word in said for word in ("rope", "max_position_embeddings", "max_model_len"))


RULE = Rule(
    id="context-above-model",
    summary="the length limit is past the model's positions",
    severity="error",
    why="The engine refuses it; where a variable allows it, answers past the positions are noise.",
    remedy="A limit within the model's own, or rope scaling.",
    check=check,
    source="vllm config/model.py _get_and_verify_max_len; vllm-project/vllm issue 3676; xorbitsai/inference issue 1715",
)
