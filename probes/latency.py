"""`probe latency`: how long one decode step and one prompt of a model's geometry take, by batch and context.

Two sizes are measured unless one is enough to ask for: with one alone, what a byte costs cannot be told from what a
kernel costs (layers left out are no second size: bytes and kernels shrink alike).
"""

from collections.abc import Sequence
from math import log

from infopt.errors import InfoptError
from infopt.probes.findings import Part
from infopt.probes.passes import Pass, measured_passes, modes_of
from infopt.probes.setting import Setting
from infopt.profiles.catalogue import load_catalogue_model
from infopt.profiles.geometry import ModelProfile

# Small and large, of about the sizes that such devices serve.
SIZES = {
    "cpu": ("HuggingFaceTB/SmolLM2-135M", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"),
    "cuda": ("meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.1-8B"),
}
BATCHES, QUICK_BATCHES = (1, 2, 4, 8, 16), (1, 4)
CONTEXTS_TOKENS, QUICK_CONTEXTS_TOKENS = (256, 1024, 4096), (128, 1024)
PROMPT_TOKENS, QUICK_PROMPT_TOKENS = 512, 128


def latency(
    setting: Setting,
    model: ModelProfile,
    weights: str,
    kv: str | None = None,
    batches: Sequence[int] = (),
    contexts_tokens: Sequence[int] = (),
    modes: Sequence[str] | None = None,
) -> Part:
    """Decode steps of all `batches` at the first context and of the first batch at all contexts, and one prompt.

    weights  fp32, bf16 or fp16;  kv  the same or None;  modes  eager, graph (a GPU), None for all the device can
    Without batches or contexts: 1 to 16 at 256 tokens, and 256 to 4096 tokens; a quick setting takes fewer.
    Errors: InfoptError for a context the model has no positions for, and those of `measured_passes`.
    """
    passes = decode_passes(setting, model, batches, contexts_tokens)
    prompt_tokens = QUICK_PROMPT_TOKENS if setting.quick else PROMPT_TOKENS
    prompt = Pass(1, min(prompt_tokens, model.max_position_tokens or prompt_tokens), 0)
    return measured_passes(setting, model, weights, kv, (*passes, prompt), modes_of(setting.runtime, modes))


def decode_passes(
    setting: Setting, model: ModelProfile, batches: Sequence[int] = (), contexts_tokens: Sequence[int] = ()
) -> tuple[Pass, ...]:
    """Batches at one context, contexts at one batch; contexts that were not asked for stop at the model's positions."""
    batches = tuple(batches) or (QUICK_BATCHES if setting.quick else BATCHES)
    most = model.max_position_tokens
    if contexts_tokens:
        contexts_tokens = tuple(contexts_tokens)
    else:
        contexts_tokens = QUICK_CONTEXTS_TOKENS if setting.quick else CONTEXTS_TOKENS
        contexts_tokens = tuple(c for c in contexts_tokens if most is None or c < most) or ((most or 2) - 1,)
    if min(batches) < 1 or min(contexts_tokens) < 1:
        raise InfoptError("probe latency: batches and contexts must be at least 1")
    if most is not None and max(contexts_tokens) >= most:
        raise InfoptError(
            f"probe latency: context {max(contexts_tokens)} leaves {model.id} no position for a token, it has {most}"
        )
    pairs = {(batch, contexts_tokens[0]) for batch in batches} | {(batches[0], c) for c in contexts_tokens}
    return tuple(Pass(batch, 1, context) for batch, context in sorted(pairs))


def models_to_measure(setting: Setting, model: ModelProfile | None = None, single: bool = False) -> list[ModelProfile]:
    """Small before large: the default sizes of the device, or `model` and that of them whose size is farthest from it.

    single  `model` alone
    """
    defaults = [load_catalogue_model(name) for name in SIZES[setting.runtime.kind]]
    if model is None:
        return defaults
    if single:
        return [model]
    others = [other for other in defaults if other.hidden != model.hidden]
    second = max(others, key=lambda other: abs(log(other.params_active / model.params_active)))
    return sorted((model, second), key=lambda one: one.params_active)
