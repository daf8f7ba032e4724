"""Fused attention (FlashAttention) in prompts, and what a sliding window or linear attention would do past 100k tokens.

    share  = attention / (attention + matrices) of a prompt, at dense peak
    gain   = (matrices + unfused attention) / (matrices + fused attention)      time to the first token
It is on by default in serving engines: the verdict says what turning it off would cost at this prompt length. What-ifs
are the same model with its full attention cut to a window, or with no attention product at all (linear attention, its
state left out).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from infopt.boundaries.deciding import checked_yaml, named_engine, on_by_default, plain_verdict
from infopt.boundaries.quantities import CONTEXT
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.frozen import dataclass
from infopt.ledgers.attention import SCORE_BYTES, fused_flop, linear_flop, prefill_gain_ratio, square_flop, unfused_s
from infopt.ledgers.compute import compute_format
from infopt.ledgers.scenario import Scenario
from infopt.profiles.geometry import LayerRun, ModelProfile

FARTHEST_TOKENS = 2**30


@dataclass(frozen=True, slots=True)
class Prompt:
    """Seconds of one prompt on one device at its dense peaks: matrices, attention fused and not, the whole square."""

    linear_s: float
    fused_s: float
    unfused_s: float
    square_s: float

    @property
    def share(self) -> float:
        """Attention's share of a prompt."""
        return self.fused_s / (self.linear_s + self.fused_s)

    @property
    def gain(self) -> Gain:
        """Over unfused attention; at least where fused kernels skip nothing either."""
        best = prefill_gain_ratio(self.linear_s, self.unfused_s, self.fused_s)
        least = prefill_gain_ratio(self.linear_s, self.unfused_s, self.square_s)
        return Gain(best, min(best, least), best, "ttft")


def judge(situation: Situation) -> Judgement:
    """Fused attention at this prompt length."""
    s = situation.scenario
    prompt = prompt_of(s, s.input_tokens)
    if prompt is None:
        return Judgement("measure", None, _unknown(s), settle="custom:MEMORY:BANDWIDTH:PEAK as --hw")
    if not prompt.square_s:
        return Judgement("skip", None, "the model has no attention layers")
    verdict = quick(situation)
    reason = f"without fused kernels a prompt of {s.input_tokens:,} tokens takes {prompt.gain.value:.2f}x as long"
    reason += f"; attention is {prompt.share:.1%} of it"
    figures = (*_figures(situation, prompt), *_what_ifs(situation, prompt))
    return Judgement(verdict, prompt.gain, reason, figures, _costs(s), _rule(s, verdict))


def quick(situation: Situation) -> Verdict:
    """The verdict alone; it costs nothing, so it is never skipped."""
    prompt = prompt_of(situation.scenario, situation.scenario.input_tokens)
    if prompt is None:
        return "measure"
    if not prompt.square_s:
        return "skip"
    return "use" if plain_verdict(prompt.gain.value) == "use" else "limited"


def prompt_of(s: Scenario, tokens: float) -> Prompt | None:
    """A prompt of this length; None where the device's dense peaks are not known."""
    peaks = s.accelerator.peak_flop_per_s
    peak, peak16 = peaks.get(compute_format(s)), peaks.get("bf16") or peaks.get("fp16")
    if not peak or not peak16:
        return None
    passes, bandwidth = constant("score_passes"), s.accelerator.bandwidth_bytes_per_s
    return Prompt(
        linear_s=linear_flop(s.model, tokens) / peak,
        fused_s=fused_flop(s.model, tokens) / peak16,
        unfused_s=unfused_s(s.model, tokens, peak16, bandwidth, passes),
        square_s=square_flop(s.model, tokens) / peak16,
    )


def overtaking_tokens(s: Scenario) -> int | None:
    """The shortest prompt in which attention takes as long as the matrices; None where none does (windows)."""

    def overtakes(tokens: int) -> bool:
        prompt = prompt_of(s, tokens)
        return prompt is not None and prompt.fused_s >= prompt.linear_s

    low, high = 1, FARTHEST_TOKENS
    if not overtakes(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if overtakes(middle) else (middle, high)
    return high


def windowed(model: ModelProfile, window_tokens: int) -> ModelProfile:
    """The same model with every full-attention layer cut to a window."""

    def cut(run: LayerRun) -> LayerRun:
        if run.mixer.kind != "full":
            return run
        return replace(run, mixer=replace(run.mixer, kind="window", window_tokens=window_tokens))

    return replace(model, runs=tuple(cut(run) for run in model.runs))


def _figures(situation: Situation, prompt: Prompt) -> Iterator[Figure]:
    s = situation.scenario
    terms = situation.steps.terms_s(situation.batch, s.decode_context_tokens)
    kv_s = terms.get("kv", 0.0) + terms.get("attention", 0.0)
    share = kv_s / sum(terms.values()) if terms else None
    devices = s.tp * s.pp
    yield Figure(
        "attention_share_of_prefill", prompt.share, "share", "attention's part of a prompt's time at dense peak"
    )
    yield Figure("attention_share_of_step", share, "share", "KV cache's part of a decode step's time")
    yield Figure(
        "kv_share_of_step",
        situation.bandwidth.kv_share_of_step,
        "share",
        "KV cache's part of the bytes a decode step reads",
    )
    yield Figure(
        "prefill_fused_s",
        (prompt.linear_s + prompt.fused_s) / devices,
        "s",
        "one prompt at dense peak, attention fused",
    )
    yield Figure(
        "prefill_unfused_s",
        (prompt.linear_s + prompt.unfused_s) / devices,
        "s",
        "one prompt at dense peak, score matrices written to memory",
    )
    yield Figure(
        "attention_gain_ratio",
        prompt.unfused_s / prompt.fused_s,
        "ratio",
        "attention of a prompt alone: time unfused over fused",
    )
    yield Figure(
        "scores_bytes_per_gpu",
        scores_bytes(s),
        "bytes",
        "score matrices of one layer that fusing spares, on one device",
    )
    overtaking = overtaking_tokens(s)
    yield Figure(
        "attention_overtakes_tokens",
        overtaking,
        "tokens",
        "prompt length at which attention takes as long as the matrices",
    )


def scores_bytes(s: Scenario) -> float:
    """Score matrices of one layer on one device without fused kernels.

    h / tp x n x n x 2 bytes; h / tp x chunk x context x bytes where an engine takes prompts in chunks and is known to.
    """
    known = _data()["engines"].get(s.engine.engine, {})
    heads = max(run.mixer.q_heads for run in s.model.groups) / s.tp
    if "chunk_tokens" in known:
        chunk, each_bytes = float(known["chunk_tokens"]), float(known["score_bytes"])
        return heads * min(chunk, s.input_tokens) * s.context_tokens * each_bytes
    return heads * SCORE_BYTES * float(s.input_tokens) ** 2


def _what_ifs(situation: Situation, prompt: Prompt) -> Iterator[Figure]:
    """A window, and linear attention, in place of full attention."""
    s = situation.scenario
    if not any(run.mixer.kind == "full" for run in s.model.runs):
        return
    window = int(constant("window_tokens"))
    other = situation.changed(curve=(), model=windowed(s.model, window))
    plain = situation.changed(curve=()) if situation.curve else situation
    cut = prompt_of(other.scenario, s.input_tokens)
    assert cut is not None
    far = "" if s.context_tokens >= constant("far_tokens") else f" (for > {constant('far_tokens'):,.0f} tokens)"
    yield Figure("window_tokens", window, "tokens", f"what if: window instead of full attention{far}")
    prefill = (prompt.linear_s + prompt.fused_s) / (cut.linear_s + cut.fused_s)
    yield Figure("window_prefill_ratio", prefill, "ratio", "what if: prompt's time now over that with the window")
    now, then = situation.memory.kv_bytes_per_sequence, other.memory.kv_bytes_per_sequence
    yield Figure("kv_bytes_per_sequence", now, "bytes", "KV cache of one sequence now, all devices together")
    yield Figure("window_kv_bytes_per_sequence", then, "bytes", "KV cache of one sequence with the window")
    yield Figure(
        "window_tpot_ratio", plain.tpot_s() / other.tpot_s(), "ratio", "what if: TPOT now over TPOT with the window"
    )
    linear = (prompt.linear_s + prompt.fused_s) / prompt.linear_s
    yield Figure(
        "linear_prefill_ratio", linear, "ratio", "what if: prompt's time now over that with linear attention, at most"
    )


def _costs(s: Scenario) -> tuple[str, ...]:
    known = _data()["engines"].get(s.engine.engine)
    if known is None:
        return (f"whether {named_engine(s)} fuses attention was not read",)
    if known["fused"] == "always":
        return (f"nothing: {named_engine(s)} always runs it", "windows and linear attention are another model")
    return (f"{on_by_default(s)} ({known['fused']}); older builds must be told -fa",)


def _rule(s: Scenario, verdict: Verdict) -> Rule:
    why = (
        ""
        if verdict == "use"
        else "attention is a small part of a prompt this short; leaving it out saves nothing either"
    )
    return Rule(
        3, "FlashAttention gives the same results, is 2-5 times faster on long contexts and on by default", "use", why
    )


def _unknown(s: Scenario) -> str:
    return f"the peak FLOP/s of {s.accelerator.id} is not known"


def constant(name: str) -> float:
    """A constant of data/attention.yaml."""
    return float(_data()[name]["value"])


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = checked_yaml("attention")
    return data


TECHNIQUE = Technique(
    id="attention-kernels",
    name="Fused attention",
    ledger="prefill time, score matrices in memory",
    order=1,
    judge=judge,
    quantities=(CONTEXT,),
    aliases=("flash-attention", "attention"),
    quick=quick,
)
