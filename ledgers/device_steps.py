"""Step-time constants of one device from steps measured on it: what replaces the constants of its class.

    t(1) = N c + W a + K b               one token of one sequence: N kernels, W weight bytes, K cached bytes
    r(n) = (t(n) - N c - K b) / (t(1) - N c - K b)       n tokens: time of the weights over that of one token
    t(prompt) = N c + F g                                F its FLOP
c, a, b  least relative squares, none negative; b = a where no two contexts of a model differ enough in K
r, g     of every measured model; of another, straight in log W between its neighbours, of the nearest outside them
r is taken as it was measured (more tokens may take less time); beyond the last n it goes on along its last two points.

Interval: h is the fit's largest residual with the spread of the samples on top, at least 15 %. Outside what was
measured h is added once more for each doubling: of W beyond the sizes, of n beyond the last, and of the context, there
for the share of the step that is KV; and half of it for each doubling between W and the nearest model whose r was
measured. Noise alone would widen it less (a line through W1 and W2 is off by at most W2 / (W2 - W1) times as much far
beyond W2); what grows is how far matrices of other shapes are from the line, and one line says nothing of that. Where b
was not solved, KV may take several times as long. bench/calibrated_ledger.py has what was seen.
Dense models on one device. Errors are texts: they say why there are no constants.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import inf, log, log2
from statistics import median
from typing import Any

from infopt.frozen import dataclass
from infopt.hardware.calibration import Step
from infopt.ledgers.arrays import along
from infopt.ledgers.compute import compute_format
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.traffic import traffic
from infopt.profiles.step_constants import Band, FirstToken, Measured, StepConstants, kernels_per_step

# No interval is narrower, up or down: what untouched steps of bench/calibrated_ledger.py were off (docs/accuracy.md).
LEAST_WIDTH_RATIO = 0.15
LEAST_SPREAD_RATIO = 0.02  # samples that agree better than this count no more
KV_SHARE = 0.05  # of the weights by which the caches of two contexts must differ for b to be solved
SIZE_RATIO = 1.2  # of the weights of two models for them to be two sizes
SAME_RATIO = 1.02  # of two models that are the same size
MOST_DOUBLINGS = 12  # of the batch, with a band each
CURVE_SHARE = 0.5  # of h for each doubling to the nearest model with a curve
# Times as long as a byte of weights that a cached one may take where that was not solved: 3 in the median on the CPU of
# bench/calibrated_ledger.py; short contexts of GPUs reach as little of their bandwidth (H200: 0.38 of it at 8k tokens).
KV_DOUBT = 4.0

Curve = tuple[tuple[float, float], ...]  # (tokens of a step, time of its weights over that of one token)


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """What the steps of one engine in one format say.

    kernel_s               c;  weight_s_per_byte, kv_s_per_byte  a and b
    kv_is_solved           b was told from contexts, else it is a
    curves, prompts        by the weight bytes of the model they were measured with, smallest first
    low_ratio, high_ratio  measured over predicted, least and most, with the spread of the samples
    sizes_bytes, contexts_tokens, prompts_tokens  least and most that was measured
    """

    kernel_s: float
    weight_s_per_byte: float
    kv_s_per_byte: float
    kv_is_solved: bool
    curves: tuple[tuple[float, Curve], ...]
    prompts: tuple[tuple[float, float], ...]
    low_ratio: float
    high_ratio: float
    sizes_bytes: tuple[float, float]
    contexts_tokens: tuple[int, int]
    prompts_tokens: tuple[int, int] | None
    source: str

    @property
    def is_one_size(self) -> bool:
        return self.sizes_bytes[1] < SIZE_RATIO * self.sizes_bytes[0]


@dataclass(frozen=True, slots=True)
class Asked:
    """A step to predict; kv_bytes of all its sequences, context_tokens of each."""

    kernels: int
    weight_bytes: float
    kv_bytes: float
    context_tokens: float
    sequences: int


def device_constants(s: Scenario, engine: str | None = None) -> StepConstants | str | None:
    """Constants from the device's own steps of the scenario's engine (or of `engine`, which then stands in for it).

    None where none were measured; a text where some were, but not what the scenario needs.
    """
    engine = engine or s.engine.engine
    measured = tuple(step for step in s.accelerator.measured_steps if step.engine == engine and step.tp == 1)
    if not measured:
        return None
    where = f"{engine} on {s.accelerator.name or s.accelerator.id}"
    if s.tp * s.pp * s.sharing_replicas > 1:
        return f"steps of {where} were measured on one device: what several say to each other was not"
    if s.model.experts:
        return f"steps of {where} were measured with dense models, {s.model.id} has experts"
    eager = s.eager or s.accelerator.processor  # nothing is captured on a processor
    wanted = (s.weight_format, s.kv_format, eager)
    steps = tuple(step for step in measured if (step.weights, step.kv, step.eager) == wanted)
    if not steps:
        return f"steps of {where} were measured with {_forms(measured)}, not {_form(*wanted)}"
    fit = fit_steps(steps)
    if isinstance(fit, str):
        return f"{where}: {fit}"
    weight_bytes = sum(float(stage.weight_bytes(1)) for stage in traffic(s))
    if fit.is_one_size and not 1 / SAME_RATIO < weight_bytes / fit.sizes_bytes[0] < SAME_RATIO:
        return f"{where}: one size of model was measured, from which no other follows; `infopt probe latency` takes two"
    return _constants(s, fit, engine, weight_bytes)


def _form(weights: str, kv: str, eager: bool) -> str:
    return f"{weights} weights and {kv} cache {'without' if eager else 'in'} graphs"


def _forms(steps: Sequence[Step]) -> str:
    return "; ".join(sorted({_form(step.weights, step.kv, step.eager) for step in steps}))


@lru_cache(maxsize=64)
def fit_steps(steps: tuple[Step, ...]) -> DeviceFit | str:
    """Fit steps of one engine in one format; a text where there is no decode step of one sequence among them."""
    ones = [step for step in steps if step.batch == 1 and step.tokens == 1]
    if not ones:
        return "no decode step of one sequence was measured"
    used = _trusted(ones)
    kernel_s, weight_s, kv_s = _solve(used)
    ratios = [step.median_s / _one_s(step, kernel_s, weight_s, kv_s) for step in used]
    prompts = [step for step in steps if step.context_tokens == 0 and step.tokens > 1]
    sizes = sorted(step.weight_bytes for step in used)
    contexts = sorted(step.context_tokens for step in steps if step.tokens == 1)
    lengths = sorted(step.tokens for step in prompts)
    versions = ", ".join(sorted({f"{step.engine} {step.engine_version}" for step in used}))
    return DeviceFit(
        kernel_s=kernel_s,
        weight_s_per_byte=weight_s,
        kv_s_per_byte=kv_s,
        kv_is_solved=_separates_kv(used),
        curves=_curves(steps, kernel_s, kv_s),
        prompts=_prompts(prompts, kernel_s),
        low_ratio=min(ratios) * median(step.p10_s / step.median_s for step in used),
        high_ratio=max(ratios) * median(step.p90_s / step.median_s for step in used),
        sizes_bytes=(sizes[0], sizes[-1]),
        contexts_tokens=(contexts[0], contexts[-1]),
        prompts_tokens=(lengths[0], lengths[-1]) if lengths else None,
        source=f"{len(steps)} steps of {', '.join(sorted({step.model for step in used}))} measured on this device with "
        f"{versions}: {kernel_s * 1e6:.3g} us a kernel, weights at {1e-9 / weight_s if weight_s else inf:.4g} GB/s",
    )


def _trusted(ones: Sequence[Step]) -> list[Step]:
    """Steps nobody disturbed, if they are of all sizes that were measured."""
    clean = [step for step in ones if not step.contended]
    enough = {step.weight_bytes for step in clean} == {step.weight_bytes for step in ones}
    return clean if enough else list(ones)


def _one_s(step: Step, kernel_s: float, weight_s_per_byte: float, kv_s_per_byte: float) -> float:
    return step.kernels * kernel_s + step.weight_bytes * weight_s_per_byte + step.kv_bytes * kv_s_per_byte


def _solve(ones: Sequence[Step]) -> tuple[float, float, float]:
    """c, a and b: the best of all solutions in which what would be negative is zero."""
    import numpy as np

    sizes = [step.weight_bytes for step in ones]
    times = np.array([step.median_s for step in ones])
    columns = [np.array([float(step.kernels) for step in ones]), np.array(sizes)]
    kv = np.array([step.kv_bytes for step in ones])
    solves_kv = _separates_kv(ones)
    columns = [*columns, kv] if solves_kv else [columns[0], columns[1] + kv]
    if max(sizes) < SIZE_RATIO * min(sizes):
        columns[0] = 0.0 * columns[0]  # one size: what a kernel costs cannot be told
    spread = np.array([max(LEAST_SPREAD_RATIO, (step.p90_s - step.p10_s) / 2 / step.median_s) for step in ones])
    weight = 1 / spread / times
    scale = [float(column.max()) or 1.0 for column in columns]
    matrix = np.stack([column / one * weight for column, one in zip(columns, scale, strict=True)], axis=1)
    best, best_error = np.zeros(len(columns)), inf
    free = [i for i, column in enumerate(columns) if column.any()]
    for count in range(1, len(free) + 1):
        for chosen in combinations(free, count):
            found, *_ = np.linalg.lstsq(matrix[:, chosen], times * weight, rcond=None)
            error = float(np.sum((matrix[:, chosen] @ found - times * weight) ** 2))
            if (found >= 0).all() and error < best_error:
                best, best_error = np.zeros(len(columns)), error
                best[list(chosen)] = found
    kernel_s, weight_s, *rest = (float(x) / one for x, one in zip(best, scale, strict=True))
    return kernel_s, weight_s, rest[0] if rest else weight_s


def _separates_kv(ones: Sequence[Step]) -> bool:
    """Whether a model was measured at contexts whose caches differ by enough of its weights."""
    for step in ones:
        same = [other.kv_bytes for other in ones if other.model == step.model]
        if max(same) - min(same) >= KV_SHARE * step.weight_bytes:
            return True
    return False


def _curves(steps: Sequence[Step], kernel_s: float, kv_s_per_byte: float) -> tuple[tuple[float, Curve], ...]:
    """r(n) of every model with more than one n; verified tokens fill in where no batch of so many was measured."""
    curves = []
    for model in sorted({step.model for step in steps}):
        own = [step for step in steps if step.model == model and step.context_tokens > 0]
        ones = [step for step in own if step.batch == step.tokens == 1]
        found: dict[int, list[float]] = {}
        for step in sorted(own, key=lambda step: step.tokens):
            n = step.batch * step.tokens
            decoded = {other.batch for other in own if other.tokens == 1}
            if n == 1 or not ones or (step.tokens > 1 and n in decoded):
                continue
            one = min(ones, key=lambda one: abs(one.context_tokens - step.context_tokens))
            parts = [x.median_s - x.kernels * kernel_s - x.kv_bytes * kv_s_per_byte for x in (step, one)]
            if min(parts) > 0:
                found.setdefault(n, []).append(parts[0] / parts[1])
        if found:
            curve = ((1.0, 1.0), *((float(n), median(ratios)) for n, ratios in sorted(found.items())))
            curves.append((ones[0].weight_bytes, curve))
    return tuple(sorted(curves))


def _prompts(prompts: Sequence[Step], kernel_s: float) -> tuple[tuple[float, float], ...]:
    """Seconds of one FLOP of a prompt by weight bytes, overhead taken off."""
    found: dict[float, list[float]] = {}
    for step in prompts:
        left_s = max(0.0, step.median_s - step.kernels * kernel_s)
        found.setdefault(step.weight_bytes, []).append(left_s / step.flop)
    return tuple((size, median(each)) for size, each in sorted(found.items()))


def curve_at(curves: Sequence[tuple[float, Curve]], weight_bytes: float) -> Curve | None:
    """The curve of a model of this size; None where none was measured."""
    if not curves:
        return None
    below = max((one for one in curves if one[0] <= weight_bytes), default=curves[0])
    above = min((one for one in curves if one[0] >= weight_bytes), default=curves[-1])
    if below[0] >= above[0]:
        return below[1]
    share = log(weight_bytes / below[0]) / log(above[0] / below[0])
    counts = sorted({n for _, curve in (below, above) for n, _ in curve})
    return tuple((n, (1 - share) * along(below[1], n) + share * along(above[1], n)) for n in counts)


def _flop_s(prompts: Sequence[tuple[float, float]], weight_bytes: float) -> float:
    """Seconds of one FLOP of a prompt of a model of this size."""
    return float(along([(log(size), flop_s) for size, flop_s in prompts], min(log(weight_bytes), log(prompts[-1][0]))))


def doublings(asked: Any, least: Any, most: Any) -> Any:
    """How many times what is asked is twice the end of a range it lies outside of.

    >>> doublings(4.0, 1.0, 2.0), doublings(1.5, 1.0, 2.0), doublings(0.25, 1.0, 2.0)
    (1.0, 0.0, 2.0)
    """
    return max(0.0, log2(asked / most), log2(least / asked))


def kv_share_of_step(fit: DeviceFit, asked: Asked) -> float:
    """How much of the time of a step its KV is expected to take."""
    curve = curve_at(fit.curves, asked.weight_bytes) or ((1.0, 1.0),)
    weights_s = asked.weight_bytes * fit.weight_s_per_byte * along(curve, asked.sequences)
    kv_s = asked.kv_bytes * fit.kv_s_per_byte
    step_s = asked.kernels * fit.kernel_s + weights_s + kv_s
    return float(kv_s / step_s) if step_s else 0.0


def step_band(fit: DeviceFit, asked: Asked) -> Band:
    """The interval of a step: that of the fit, wider by how far the step lies outside what was measured."""
    share = kv_share_of_step(fit, asked)
    outside = doublings(asked.weight_bytes, *fit.sizes_bytes)
    outside += share * doublings(max(1.0, asked.context_tokens), *fit.contexts_tokens)
    if asked.sequences > 1:
        curve = curve_at(fit.curves, asked.weight_bytes) or ((1.0, 1.0),)
        outside += doublings(asked.sequences, 1.0, curve[-1][0])
        outside += CURVE_SHARE * min((doublings(asked.weight_bytes, size, size) for size, _ in fit.curves), default=0.0)
    found = band(fit, asked.sequences, outside)
    if fit.kv_is_solved:
        return found
    return found.model_copy(update={"high": found.high + share * (KV_DOUBT - 1)})


def band(fit: DeviceFit, sequences: int, outside_steps: float) -> Band:
    """The fit's interval, wider by itself for each doubling outside what was measured."""
    below = max(LEAST_WIDTH_RATIO, 1 - fit.low_ratio) * (1 + outside_steps)
    above = max(LEAST_WIDTH_RATIO, fit.high_ratio - 1) * (1 + outside_steps)
    # 1 - h while that is far from zero, then ever smaller but never zero.
    return Band(sequences=sequences, low=max(1 - below, 1 / (1 + 2 * below)), high=1 + above)


def _constants(s: Scenario, fit: DeviceFit, engine: str, weight_bytes: float) -> StepConstants:
    bandwidth = s.accelerator.fitted_bandwidth_bytes_per_s
    curve = curve_at(fit.curves, weight_bytes)
    last = int(curve[-1][0]) if curve else 1
    first = _first_token(s, fit, weight_bytes) if fit.prompts else None
    return StepConstants(
        engines=[engine],
        memory_classes=[s.accelerator.memory_class],
        vendors=[s.accelerator.vendor],
        mixture=False,
        min_compute_capability=0.0,
        kind="measured",
        traffic_ratio=fit.weight_s_per_byte * bandwidth,
        kv_extra_ratio=(fit.kv_s_per_byte - fit.weight_s_per_byte) * bandwidth,
        kernel_s=fit.kernel_s,
        kernel_before_cc10_s=0.0,
        kernel_fp8_cc10_s=0.0,
        prefill_ratio=first.prefill_ratio if first is not None else 0.0,
        decode_ratio=0.0,
        expert_s=0.0,
        prefill_token_s=0.0,
        request_s=0.0,
        weight_curve=[list(point) for point in curve] if curve else None,
        of_device=True,
        bands=_bands(s, fit, weight_bytes, last),
        first_token=first,
        measured=Measured(
            sequences=[1, last],
            devices=[1, 1],
            stages=[1, 1],
            prompt_tokens=list(fit.prompts_tokens) if fit.prompts_tokens else None,
            context_tokens=list(fit.contexts_tokens),
            pcie=False,
            weight_bytes=list(fit.sizes_bytes),
        ),
        source=fit.source,
    )


def _bands(s: Scenario, fit: DeviceFit, weight_bytes: float, last_sequences: int) -> list[Band]:
    """One for a single sequence, one up to the last that was measured, then one for each doubling."""
    context = float(s.decode_context_tokens)
    kv_bytes = sum(float(stage.kv_bytes(1, context)) for stage in traffic(s))
    kernels = kernels_per_step(s.model)
    counts = [1] * (last_sequences > 1) + [last_sequences * 2**i for i in range(MOST_DOUBLINGS)]
    return [step_band(fit, Asked(kernels, weight_bytes, n * kv_bytes, context, n)) for n in counts]


def _first_token(s: Scenario, fit: DeviceFit, weight_bytes: float) -> FirstToken | None:
    """The first token of a prompt alone: its kernels once, and its FLOP as long as those of the measured prompts."""
    peaks = s.accelerator.peak_flop_per_s
    peak = peaks.get(compute_format(s))
    peak16 = peaks.get("bf16") or peaks.get("fp16") or peak
    if not peak or not peak16 or fit.prompts_tokens is None:
        return None
    sizes = (fit.prompts[0][0], fit.prompts[-1][0])
    interval = band(fit, 1, doublings(s.input_tokens, *fit.prompts_tokens) + doublings(weight_bytes, *sizes))
    flop_s = _flop_s(fit.prompts, weight_bytes)
    return FirstToken(
        steps=0.0,
        kernel_s=fit.kernel_s,
        prefill_ratio=flop_s * peak,
        attention_ratio=flop_s * peak16,
        token_s=0.0,
        queue_ratio=0.0,
        queue_token_s=0.0,
        low=interval.low,
        high=interval.high,
    )
