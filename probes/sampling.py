"""Timing of operations that disturb each other as little as a shared machine allows.

Operations are timed in turn, one sample of each a round, so that a slow minute hits all of them alike. Rounds go on
until the confidence interval of every median is narrow enough, or until the time is up; then what is not narrow enough
is said to be contended.

    interval of a median of n sorted samples: ranks n/2 -+ 0.98 sqrt(n)   (95 %, binomial)
    width = (x_high - x_low) / median

On a CPU a sample during which the kernel took the processor away (ru_nivcsw grew) is set aside, as long as enough
others remain; processor time over wall time says how much of the machine was ours. On a GPU events on the stream take
the time, so that launching costs nothing as long as the stream is full.
"""

import math
import resource
import time
from collections.abc import Callable, Sequence
from typing import Literal

from infopt.frozen import dataclass
from infopt.probes.runtime import Runtime

Unit = Literal["bytes", "flop", "tokens"]
FEWEST_CLEAN = 6  # fewer give no interval of a median
OURS_SHARE = 0.9  # of the wall time that a CPU probe must have had its threads running
# Quartile distance over median above which samples of a device do not describe it (facts measured on both kinds).
WIDEST_QUARTILES = {"cpu": 0.25, "cuda": 0.05}


@dataclass(frozen=True, slots=True)
class Operation:
    """Something to time.

    run     runs it once; is given the number of the sample, so that it can go on to the next piece of a large buffer
    amount  of `unit` that one run moves or computes, as declared, not as measured
    repeats runs timed together as one sample (short operations)
    waits   it waits for another device (a disk), so that an idle processor is no sign of others
    """

    name: str
    run: Callable[[int], object]
    amount: float
    unit: Unit
    repeats: int = 1
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Sampling:
    """How long to go on.

    width    of the interval of the median that is narrow enough
    fewest, most  rounds
    budget_s  after which no round is begun (but `fewest`)
    pause_s   after each sample: lets a GPU's clock recover from one that draws much power
    """

    width: float = 0.05
    fewest: int = 9
    most: int = 200
    budget_s: float = 10.0
    warm_ups: int = 2
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed run: seconds, whether nobody interrupted it, and how much of it the processor was ours."""

    seconds: float
    clean: bool
    ours: float


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one run of an operation.

    n          samples taken; n_clean  of them counted
    width      of the interval of the median
    contended  whether others had too much of the machine for the figure to be trusted
    samples    every one, by round: those of operations timed together belong to one another
    """

    operation: Operation
    median_s: float
    p10_s: float
    p90_s: float
    n: int
    n_clean: int
    width: float
    contended: bool
    samples: tuple[Sample, ...] = ()

    @property
    def per_s(self) -> float:
        """Amount a second, by the median."""
        return self.operation.amount / self.median_s


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast one operation was as another, over the rounds of both."""

    median: float
    p10: float
    p90: float
    n: int


Told = Callable[[str, float, float], None]  # what, done and expected seconds: for a progress bar


def quiet(what: str, done_s: float, expected_s: float) -> None:
    """Nobody is told."""


def measure(
    runtime: Runtime, operations: Sequence[Operation], sampling: Sampling | None = None, tell: Told = quiet
) -> list[Timing]:
    """Time operations in turn until each median is known narrowly enough, or the time is up."""
    sampling = sampling or Sampling()
    for operation in operations:
        for i in range(sampling.warm_ups):
            operation.run(i)
    runtime.synchronize()
    samples: list[list[Sample]] = [[] for _ in operations]
    started = time.perf_counter()
    for round_ in range(sampling.most):
        spent = time.perf_counter() - started
        tell(operations[0].name, min(spent, sampling.budget_s), sampling.budget_s)
        if round_ >= sampling.fewest and (spent > sampling.budget_s or _narrow(samples, sampling.width)):
            break
        for taken, operation in zip(samples, operations, strict=True):
            taken.append(sample(runtime, operation, round_ + sampling.warm_ups))
            if sampling.pause_s:
                time.sleep(sampling.pause_s)
    return [
        summarize(runtime, operation, taken, sampling.width)
        for operation, taken in zip(operations, samples, strict=True)
    ]


def sample(runtime: Runtime, operation: Operation, number: int) -> Sample:
    """Time one sample."""
    if runtime.kind == "cuda":
        return _gpu_sample(runtime, operation, number)
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    busy, wall = time.process_time(), time.perf_counter()
    for i in range(operation.repeats):
        operation.run(number * operation.repeats + i)
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    clean = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw == switches
    # An operation may use fewer threads than it is allowed: one busy processor is the least that is expected.
    ours = 1.0 if operation.waits or not wall else min(1.0, busy / wall)
    return Sample(wall / operation.repeats, clean, ours)


def _gpu_sample(runtime: Runtime, operation: Operation, number: int) -> Sample:
    torch = runtime.torch
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    # The stream sleeps until the launches are behind it: their cost stays outside the measurement.
    torch.cuda._sleep(200_000)
    start.record()
    for i in range(operation.repeats):
        operation.run(number * operation.repeats + i)
    end.record()
    end.synchronize()
    return Sample(start.elapsed_time(end) / 1e3 / operation.repeats, True, 1.0)


def summarize(runtime: Runtime, operation: Operation, samples: Sequence[Sample], width: float) -> Timing:
    """Median, percentiles and trust of samples."""
    kept = counted(samples)
    ordered = sorted(kept)
    median = percentile(ordered, 0.5)
    quartiles = percentile(ordered, 0.75) - percentile(ordered, 0.25)
    reached = median_width(ordered)
    ours = percentile(sorted(s.ours for s in samples), 0.5)
    contended = ours < OURS_SHARE or quartiles > WIDEST_QUARTILES[runtime.kind] * median or reached > 3 * width
    p10, p90 = percentile(ordered, 0.1), percentile(ordered, 0.9)
    return Timing(operation, median, p10, p90, len(samples), len(kept), reached, contended, tuple(samples))


def paired(above: Timing, below: Timing) -> Ratio:
    """Rate of one operation over that of another timed in the same rounds.

    Only rounds in which nobody interrupted either are counted, unless they are too few. What slows a whole minute down
    cancels, as it does not in the ratio of two medians.
    """
    rounds = list(zip(above.samples, below.samples, strict=True))
    clean = [(a, b) for a, b in rounds if a.clean and b.clean]
    counted_rounds = clean if len(clean) >= FEWEST_CLEAN else rounds
    amounts = above.operation.amount / below.operation.amount
    ordered = sorted(amounts * b.seconds / a.seconds for a, b in counted_rounds)
    return Ratio(percentile(ordered, 0.5), percentile(ordered, 0.1), percentile(ordered, 0.9), len(ordered))


def counted(samples: Sequence[Sample]) -> list[float]:
    """Seconds of the samples nobody interrupted; of all where too few are left."""
    clean = [s.seconds for s in samples if s.clean]
    return clean if len(clean) >= FEWEST_CLEAN else [s.seconds for s in samples]


def _narrow(samples: Sequence[Sequence[Sample]], width: float) -> bool:
    return all(median_width(sorted(counted(taken))) <= width for taken in samples)


def median_width(ordered: Sequence[float]) -> float:
    """Width of the 95 % interval of the median over the median; infinite below six samples, which cannot give one.

    >>> median_width([1.0] * 9)
    0.0
    """
    n = len(ordered)
    if n < 6:
        return math.inf
    half = 0.98 * math.sqrt(n)
    low, high = max(0, math.floor(n / 2 - half)), min(n - 1, math.ceil(n / 2 + half))
    return (ordered[high] - ordered[low]) / percentile(ordered, 0.5)


def percentile(ordered: Sequence[float], share: float) -> float:
    """A percentile of sorted values, linear between them.

    >>> percentile([1.0, 2.0, 3.0], 0.5)
    2.0
    """
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def nothing_else_seen(mean: float, most: float, count: float) -> tuple[float, float]:
    """The 95 % interval of a mean where all of `count` values between 0 and `most` were the same.

    What never happened in n trials has a chance below 3 / n (rule of three: 0.05 = (1 - p)^n; Hanley and
    Lippman-Hand, JAMA 249, 1983): at worst that share of values is 0, or `most`.

    >>> nothing_else_seen(0.0, 4.0, 30)
    (0.0, 0.4)
    """
    other = min(1.0, 3.0 / count)
    return mean * (1 - other), mean + (most - mean) * other
