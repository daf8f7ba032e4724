"""What the steps measured on one device say: seconds of a kernel, of a byte, of more tokens, of a prompt's FLOP.

    t(1) = N c + W a + K b               one token of one sequence: N kernels, W weight bytes, K cached bytes
    r(n) = (t(n) - N c - K b) / (t(1) - N c - K b)       n tokens: time of the weights over that of one token
    t(prompt) = N c + W a + F g                          F its FLOP, beside what a step takes once
c, a, b  least relative squares, none negative; b = a where no two contexts of a model differ enough in K
r, g     of every measured model; of another, straight in log W between its neighbours, of the nearest outside them
r is taken as it was measured (more tokens may take less time); beyond the last n it goes on along its last two points.
Errors are texts: they say why there is no fit.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import inf, log
from statistics import median

from infopt.frozen import dataclass
from infopt.hardware.calibration import Step
from infopt.ledgers.arrays import along

LEAST_SPREAD_RATIO = 0.02  # samples that agree better than this count no more
KV_SHARE = 0.05  # of the weights by which the caches of two contexts must differ for b to be solved
SIZE_RATIO = 1.2  # of the weights of two models for them to be two sizes
SAME_RATIO = 1.02  # of two models that are the same size

Curve = tuple[tuple[float, float], ...]  # (tokens of a step, time of its weights over that of one token)


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """What the steps of one engine in one format say.

    kernel_s               c;  weight_s_per_byte, kv_s_per_byte  a and b
    kv_is_solved           b was told from contexts, else it is a
    kv_shares              by weight bytes: cached over weight bytes, the most measured with at most so many sequences
    curves, prompts        by the weight bytes of the model they were measured with, smallest first
    low_ratio, high_ratio  measured over predicted, least and most, with the spread of the samples
    prompt_ratios          the same of prompts, spread left out
    sizes_bytes, contexts_tokens, prompts_tokens  least and most that was measured
    """

    kernel_s: float
    weight_s_per_byte: float
    kv_s_per_byte: float
    kv_is_solved: bool
    kv_shares: tuple[tuple[float, Curve], ...]
    curves: tuple[tuple[float, Curve], ...]
    prompts: tuple[tuple[float, float], ...]
    low_ratio: float
    high_ratio: float
    prompt_ratios: tuple[float, float]
    sizes_bytes: tuple[float, float]
    contexts_tokens: tuple[int, int]
    prompts_tokens: tuple[int, int] | None
    source: str

    @property
    def is_one_size(self) -> bool:
        return self.sizes_bytes[1] < SIZE_RATIO * self.sizes_bytes[0]


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
        kv_shares=_kv_shares(steps),
        curves=_curves(steps, kernel_s, kv_s),
        prompts=(per_flop := _prompts(prompts, kernel_s, weight_s)),
        low_ratio=min(ratios) * median(step.p10_s / step.median_s for step in used),
        high_ratio=max(ratios) * median(step.p90_s / step.median_s for step in used),
        prompt_ratios=_prompt_ratios(prompts, kernel_s, weight_s, dict(per_flop)),
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


def _prompts(prompts: Sequence[Step], kernel_s: float, weight_s_per_byte: float) -> tuple[tuple[float, float], ...]:
    """Seconds of one FLOP of a prompt by weight bytes, what a step takes once taken off."""
    found: dict[float, list[float]] = {}
    for step in prompts:
        left_s = max(0.0, step.median_s - _once_s(step, kernel_s, weight_s_per_byte))
        found.setdefault(step.weight_bytes, []).append(left_s / step.flop)
    return tuple((size, median(each)) for size, each in sorted(found.items()))


def _once_s(step: Step, kernel_s: float, weight_s_per_byte: float) -> float:
    return step.kernels * kernel_s + step.weight_bytes * weight_s_per_byte


def _prompt_ratios(
    prompts: Sequence[Step], kernel_s: float, weight_s_per_byte: float, flop_s: dict[float, float]
) -> tuple[float, float]:
    """Measured over fitted, least and most: a long prompt takes longer for a FLOP than a short one."""
    once = [_once_s(step, kernel_s, weight_s_per_byte) for step in prompts]
    fitted = [one_s + step.flop * flop_s[step.weight_bytes] for one_s, step in zip(once, prompts, strict=True)]
    ratios = [step.median_s / one for step, one in zip(prompts, fitted, strict=True) if one > 0]
    return min(ratios, default=1.0), max(ratios, default=1.0)


def _kv_shares(steps: Sequence[Step]) -> tuple[tuple[float, Curve], ...]:
    """Of every size: by rising number of sequences, the largest cache over the weights among steps of no more."""
    sizes: dict[float, dict[float, float]] = {}
    for step in sorted((step for step in steps if step.tokens == 1), key=lambda step: step.batch):
        found = sizes.setdefault(step.weight_bytes, {})
        found[float(step.batch)] = max(step.kv_bytes / step.weight_bytes, *found.values(), 0.0)
    return tuple((size, tuple(found.items())) for size, found in sizes.items())


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


def prompt_s_per_flop(prompts: Sequence[tuple[float, float]], weight_bytes: float) -> float:
    """Seconds of one FLOP of a prompt of a model of this size."""
    return float(along([(log(size), flop_s) for size, flop_s in prompts], min(log(weight_bytes), log(prompts[-1][0]))))
