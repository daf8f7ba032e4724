"""Timed forward passes of a model's geometry: decode steps, verifications and prompts, as records of a calibration.

Weights and cached keys and values are random numbers. All passes of a model are timed in turn, so that a slow minute
hits them alike. A model too large for the device is run with k and 2k of its layers:

    layer = (t(2k) - t(k)) / k,    t(L) = t(k) + (L - k) layer          head, norm and embedding stay outside the slope

    weight bytes  P_active b;    KV bytes  B c cache elements b          b bytes per element, c tokens cached before
    FLOP          2 (P_active - P_head) B N + 2 P_head B N_head + 2 h (d_qk + d_v) layers B (N c + N (N - 1) / 2)
    B sequences of N tokens each; N_head is N, but 1 for a prompt, of which only the last token meets the head
On a GPU a pass is launched kernel by kernel (eager) or replayed as a captured graph; this part has not yet run on one.
"""

import time
from collections.abc import Callable, Sequence
from math import hypot
from typing import Literal

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.calibration import Step
from infopt.probes.decoder import Decoder, Shape, random_weights, shape_of
from infopt.probes.findings import Findings, Part, now
from infopt.probes.runtime import BYTES_PER_ELEMENT, Runtime, capture, inference
from infopt.probes.sampling import FEWEST_CLEAN, Operation, Sampling, Timing, measure
from infopt.probes.setting import Setting, scoped
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.step_constants import kernels_per_step

Mode = Literal["eager", "graph"]
ENGINE = "torch"
FORMATS = ("fp32", "bf16", "fp16")  # the decoder multiplies in these
SHORTEST_PROMPT_TOKENS = 32
# Seconds, (quick, else): one prompt; one run of every pass; all sampling.
PROMPT_S, ROUND_S, BUDGET_S = (0.5, 2.0), (2.5, 10.0), (5.0, 25.0)


@dataclass(frozen=True, slots=True)
class Pass:
    """`tokens` of each of `batch` sequences behind `context_tokens` cached ones."""

    batch: int
    tokens: int
    context_tokens: int

    @property
    def is_prompt(self) -> bool:
        return self.tokens > 1 and self.context_tokens == 0

    @property
    def end(self) -> int:
        """Tokens cached after the pass."""
        return self.context_tokens + self.tokens

    @property
    def name(self) -> str:
        return f"batch {self.batch}, {self.tokens} token{'s' * (self.tokens > 1)}, context {self.context_tokens}"


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and percentiles of one pass of the whole model, and how far to trust them."""

    median_s: float
    p10_s: float
    p90_s: float
    n: int
    n_clean: int
    contended: bool


def modes_of(runtime: Runtime, asked: Sequence[str] | None = None) -> tuple[Mode, ...]:
    """How passes are launched: what was asked for, else all the device can; InfoptError for a graph on a CPU."""
    possible: tuple[Mode, ...] = ("eager", "graph") if runtime.kind == "cuda" else ("eager",)
    for mode in asked or ():
        if mode not in possible:
            raise InfoptError(f"--mode {mode}: {' or '.join(possible)} is possible on {runtime.name}")
    return tuple(mode for mode in possible if not asked or mode in asked)


def measured_passes(
    setting: Setting, model: ModelProfile, weights: str, kv: str | None, passes: Sequence[Pass], modes: Sequence[Mode]
) -> Part:
    """Time the passes of one model, one part for each mode.

    Errors: InfoptError for a format the decoder does not multiply in, another KV format than that of the weights, a
    model whose layers are not built here, or one of which not even two layers have room.
    """
    if weights not in FORMATS:
        raise InfoptError(f"--weights {weights}: step times are measured in {', '.join(FORMATS)}")
    if kv not in (None, "auto", weights):
        raise InfoptError(f"--kv {kv}: torch's attention reads keys and values in the type of the weights, {weights}")
    shape = shape_of(model)
    for mode in modes:
        top = _layers_with_room(setting, shape, passes, BYTES_PER_ELEMENT[weights], model.id)
        group = _Group(setting, model, shape, weights, tuple(passes), mode)
        (steps, notes), smaller = setting.shrinking(top, 2, f"{model.id}: layers", group.run)
        yield Findings(steps=steps, notes=(*notes, *smaller))


def _layers_with_room(setting: Setting, shape: Shape, passes: Sequence[Pass], element_bytes: int, name: str) -> int:
    """All layers, or as many as fit, an even number; InfoptError where not two do."""
    cached_tokens = sum(p.batch * p.end for p in passes)
    layer_bytes = (shape.layer_params + cached_tokens * shape.kv_elements(1)) * element_bytes
    ends_bytes = shape.head_params * (1 if shape.tied else 2) * element_bytes
    if ends_bytes + shape.layers * layer_bytes <= setting.room_bytes():
        return shape.layers
    setting.need(ends_bytes + 2 * layer_bytes, f"two layers of {name}")
    return min(shape.layers - 1, int((setting.room_bytes() - ends_bytes) // layer_bytes)) // 2 * 2


@dataclass(frozen=True, slots=True)
class _Group:
    """Passes of one model in one mode, timed together."""

    setting: Setting
    model: ModelProfile
    shape: Shape
    weights: str
    passes: tuple[Pass, ...]
    mode: Mode

    def run(self, top: int) -> tuple[tuple[Step, ...], tuple[str, ...]]:
        """Steps of the whole model out of `top` layers, and what is to be said; of a part, an even number is run."""
        top -= top % 2 if top < self.shape.layers else 0
        counts = (top,) if top == self.shape.layers else (top // 2, top)
        runtime = self.setting.runtime
        with scoped(self.setting), inference(runtime):
            weights = random_weights(runtime, self.shape, runtime.dtype(self.weights), top)
            decoder = Decoder(runtime, self.shape, weights, max(p.end for p in self.passes))
            kept, round_s, notes = affordable(self.setting, decoder, self.passes)
            operations = [
                operation(runtime, f"{self.model.id}: {p.name}", forward(runtime, decoder, p, layers), p, self.mode)
                for p in kept
                for layers in counts
            ]
            timings = measure(runtime, operations, sampling_of(self.setting, round_s), self.setting.tell)
        steps: list[Step] = []
        for i, p in enumerate(kept):
            spread = whole(timings[i * len(counts) :][: len(counts)], counts, self.shape.layers)
            if spread is None:
                notes += (f"{self.model.id}: {p.name}: more layers took no more time, so the rest cannot be told",)
                continue
            steps.append(step_of(self.setting, self.model, self.weights, self.mode, p, spread, top))
        if len(counts) > 1:
            notes += (f"{self.model.id}: extrapolated from {counts[0]} and {top} of {self.shape.layers} layers",)
        return tuple(steps), notes


def forward(runtime: Runtime, decoder: Decoder, p: Pass, layers: int | None = None) -> Callable[[], object]:
    """The pass with tokens and cache of its own, which stay where they are."""
    tokens = runtime.torch.randint(0, decoder.shape.vocab, (p.batch, p.tokens), device=runtime.device)
    cache = decoder.cache(p.batch, p.end)
    cache.fill_random(runtime)
    return lambda: decoder.forward(tokens, cache, p.context_tokens, layers, last=p.is_prompt)


def operation(runtime: Runtime, name: str, run: Callable[[], object], p: Pass, mode: Mode) -> Operation:
    """The pass as something to time."""
    once = capture(runtime, run) if mode == "graph" else run
    return Operation(name, lambda _: once(), p.batch * p.tokens, "tokens")


def affordable(setting: Setting, decoder: Decoder, passes: Sequence[Pass]) -> tuple[list[Pass], float, tuple[str, ...]]:
    """Passes that one round has time for, the round's seconds, and a note of what was shortened or left out.

    Each is run once, the smallest first; prompts are doubled until the next would take too long.
    """
    kept: list[Pass] = []
    notes: list[str] = []
    spent_s, limit_s = 0.0, ROUND_S[not setting.quick]
    for p in sorted(passes, key=lambda p: (p.is_prompt, p.batch * p.tokens, p.context_tokens)):
        if p.is_prompt:
            short, pass_s = _prompt(setting, decoder, p)
            if short.tokens < p.tokens:
                notes.append(f"prompts of {short.tokens} instead of {p.tokens} tokens: longer ones take too long here")
            p = short
        elif spent_s > limit_s:
            notes.append(f"{p.name}: left out, it takes too long here")
            continue
        else:
            pass_s = once_s(setting.runtime, forward(setting.runtime, decoder, p))
        kept.append(p)
        spent_s += pass_s
    return kept, spent_s, tuple(notes)


def _prompt(setting: Setting, decoder: Decoder, p: Pass) -> tuple[Pass, float]:
    """The prompt, or the longest of its halves that does not take too long, and its seconds."""
    tokens, limit_s = min(p.tokens, SHORTEST_PROMPT_TOKENS), PROMPT_S[not setting.quick]
    while True:
        shorter = Pass(p.batch, tokens, 0)
        pass_s = once_s(setting.runtime, forward(setting.runtime, decoder, shorter))
        if tokens == p.tokens or 2 * pass_s > limit_s:
            return shorter, pass_s
        tokens = min(p.tokens, 2 * tokens)


def once_s(runtime: Runtime, run: Callable[[], object]) -> float:
    """Seconds of one run, launching included: to plan with, never a figure."""
    runtime.synchronize()
    started = time.perf_counter()
    run()
    runtime.synchronize()
    return time.perf_counter() - started


def sampling_of(setting: Setting, round_s: float) -> Sampling:
    """The setting's, with as many rounds as the time has room for, but enough for an interval of the median."""
    base, budget_s = setting.sampling, BUDGET_S[not setting.quick]
    fewest = max(FEWEST_CLEAN, min(base.fewest, int(budget_s / round_s) if round_s else base.fewest))
    return Sampling(base.width, fewest, base.most, budget_s, warm_ups=1)


def whole(timings: Sequence[Timing], counts: Sequence[int], layers: int) -> Spread | None:
    """A pass of all layers from one timing of them, or from two of k and 2k; None where 2k took no longer than k.

    t = a t(k) + b t(2k),   b = L / k - 1,   a = 1 - b;    percentiles are as far off as both errors together
    """
    if len(timings) == 1:
        t = timings[0]
        return Spread(t.median_s, t.p10_s, t.p90_s, t.n, t.n_clean, t.contended)
    few, many = timings
    if many.median_s <= few.median_s:
        return None
    b = layers / counts[0] - 1
    a = 1 - b
    median_s = a * few.median_s + b * many.median_s
    # A fast sample of k layers makes the whole slow: a is negative.
    low_s = hypot(a * (few.p90_s - few.median_s), b * (many.median_s - many.p10_s))
    high_s = hypot(a * (few.median_s - few.p10_s), b * (many.p90_s - many.median_s))
    return Spread(
        median_s,
        max(many.p10_s, median_s - low_s),
        median_s + high_s,
        min(few.n, many.n),
        min(few.n_clean, many.n_clean),
        few.contended or many.contended,
    )


def step_of(
    setting: Setting, model: ModelProfile, weights: str, mode: Mode, p: Pass, spread: Spread, layers_run: int
) -> Step:
    """The record of one pass."""
    element_bytes = BYTES_PER_ELEMENT[weights]
    return Step(
        engine=ENGINE,
        engine_version=str(setting.runtime.torch.__version__),
        eager=mode == "eager",
        model=model.id,
        weights=weights,
        kv=weights,
        batch=p.batch,
        tokens=p.tokens,
        context_tokens=p.context_tokens,
        tp=1,
        weight_bytes=float(model.params_active * element_bytes),
        kv_bytes=float(p.batch * p.context_tokens * cache_elements(model) * element_bytes),
        flop=pass_flop(model, p),
        kernels=kernels_per_step(model),
        layers=model.layers,
        layers_run=layers_run,
        hidden=model.hidden,
        median_s=spread.median_s,
        p10_s=spread.p10_s,
        p90_s=spread.p90_s,
        n=spread.n,
        n_clean=spread.n_clean,
        contended=spread.contended,
        taken=now(),
    )


def cache_elements(model: ModelProfile) -> int:
    """Numbers cached of one token."""
    return sum(run.layers * run.mixer.cache_elements_per_token for run in model.groups)


def pass_flop(model: ModelProfile, p: Pass) -> float:
    """Matrices for every token (the head for the last one of a prompt), attention over what each token sees."""
    head = model.head_params or model.embed_params
    linear = 2.0 * (model.params_active - head) * p.tokens + 2.0 * head * (1 if p.is_prompt else p.tokens)
    pairs = p.tokens * p.context_tokens + p.tokens * (p.tokens - 1) / 2
    mixers = [(run.layers, run.mixer) for run in model.groups]
    attention = sum(layers * 2.0 * m.q_heads * (m.qk_dim + m.v_dim) * pairs for layers, m in mixers)
    return p.batch * (linear + attention)
