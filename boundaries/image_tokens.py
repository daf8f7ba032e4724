"""Images in a prompt: their tokens enter prefill and cache like any others, and the encoder takes memory of its own.

    prefill(n) - prefill(n - i)      FLOP of i image tokens among n;    KV of i tokens;    P_vision b / 8 / tp bytes
Ignored: FLOP of the encoder (each image token stands for one or more patches), its workspace, caches of its output.
"""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Figure
from infopt.errors import InfoptError
from infopt.ledgers.compute import prefill_flop
from infopt.ledgers.scenario import Scenario


def with_image_tokens(s: Scenario, tokens: int) -> Scenario:
    """The scenario with image tokens beside its prompt; InfoptError where the model takes no images."""
    if tokens < 0:
        raise InfoptError(f"--image-tokens {tokens}: must be at least 0")
    if tokens == 0:
        return s
    if not s.model.extra_params.get("vision") and not any("coder" in what for what in s.model.unknown):
        raise InfoptError(f"--image-tokens {tokens}: {s.model.id} has no encoder of images; leave it out")
    if s.text_only:
        raise InfoptError(f"--image-tokens {tokens} with --text-only: the encoder is not loaded; leave one of them out")
    return replace(
        s,
        input_tokens=s.input_tokens + tokens,
        context_tokens=s.context_tokens + tokens,
        decode_context_tokens=s.decode_context_tokens + tokens,
    )


def image_figures(situation: Situation) -> Iterator[Figure]:
    """What the image tokens of a prompt add, where it has some."""
    s, memory = situation.scenario, situation.memory
    tokens = min(situation.load.image_tokens, s.input_tokens - 1)
    if tokens <= 0:
        return
    text = s.input_tokens - tokens
    added_flop = float(prefill_flop(s.model, s.input_tokens) - prefill_flop(s.model, text))
    whole, without = (memory.layout.request_bytes(n) for n in (s.context_tokens, s.context_tokens - tokens))
    fewer = situation.changed(scenario=replace(s, context_tokens=s.context_tokens - tokens)).memory.max_sequences
    yield Figure("image_prefill_flop", added_flop, "FLOP", f"prefill of one prompt's {tokens:,} image tokens")
    yield Figure(
        "image_prefill_share",
        added_flop / situation.compute.prefill_flop,
        "share",
        "image tokens' part of the FLOP of a prompt",
    )
    if situation.steps.shape is not None:
        steps = situation.steps
        added_s = steps.prompt_s(s.input_tokens) - steps.prompt_s(text)
        yield Figure("image_prompt_s", added_s, "s", "prefill time of one prompt's image tokens, encoder left out")
    yield Figure(
        "image_kv_bytes", float(whole - without), "bytes", "KV cache of one prompt's image tokens on one device"
    )
    yield Figure(
        "sequences_lost_to_images",
        fewer - memory.max_sequences,
        "sequences",
        "more that would fit without image tokens",
    )
    vision = 0 if s.text_only else s.model.extra_params.get("vision", 0)
    encoder_bytes = vision * s.weight_bits["vision"] / 8 / s.tp if vision else None
    yield Figure("encoder_weights_bytes", encoder_bytes, "bytes", "image encoder on one device, images or not")
