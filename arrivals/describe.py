"""What a source of traffic is like, in one pass over it.

    rate = (n - 1) / (t_n - t_1)        burstiness = standard deviation / mean of the gaps between requests
    hit share = blocks that hit / blocks; a block hits where it and all before it were in an earlier prompt
The peak of a window is the most requests in any such window, wherever it begins. Percentiles are of all lengths (each
distinct length is counted). Memory: the distinct lengths and blocks, and the requests of one window. Ignored: a hit
share at a limited capacity (ledgers/prefix_cache.py counts that).
"""

import math
from collections import Counter, deque

from infopt.arrivals.arrival import Arrival, Source
from infopt.arrivals.traces import Skipped, Trace
from infopt.frozen import dataclass

WINDOWS_S = (1.0, 60.0)


@dataclass(frozen=True, slots=True)
class LengthStatistics:
    """Of the input or the output tokens; spread_ratio is the coefficient of variation."""

    mean_tokens: float
    p50_tokens: int
    p99_tokens: int
    most_tokens: int
    spread_ratio: float


@dataclass(frozen=True, slots=True)
class Description:
    """Of one run over a source.

    failed_requests  left out of a trace, for they failed where it was recorded
    rate_per_s       mean; None of one request, of requests at one moment, or of users who wait for answers
    peaks_per_s      (seconds of a window, most requests in one, per second) for each of WINDOWS_S; windows longer than
                     the traffic are left out
    burstiness_ratio coefficient of variation of gaps; 1 is poisson
    prefix_blocks    ids of all prompts; distinct_blocks without repetitions; hit_share with room for all of them
    shares           (tenant, share of the requests)
    """

    requests: int
    failed_requests: int
    duration_s: float
    rate_per_s: float | None
    peaks_per_s: tuple[tuple[float, float], ...]
    burstiness_ratio: float | None
    inputs: LengthStatistics
    outputs: LengthStatistics
    prefix_blocks: int
    distinct_blocks: int
    hit_share: float | None
    shares: tuple[tuple[str, float], ...]


def describe(source: Source) -> Description:
    """The statistics of a source; errors are those of its stream."""
    inputs, outputs, tenants = Counter[int](), Counter[int](), Counter[int]()
    gaps, blocks = _Gaps(), _Blocks()
    skipped = Skipped()
    for arrival in source.stream(skipped) if isinstance(source, Trace) else source.stream():
        inputs[arrival.input_tokens] += 1
        outputs[arrival.output_tokens] += 1
        tenants[arrival.tenant] += 1
        gaps.add(arrival)
        if arrival.prefix:
            blocks.add(arrival.prefix)
    requests, is_open = tenants.total(), source.users is None
    duration_s = gaps.last_s - gaps.first_s if is_open else 0.0
    return Description(
        requests=requests,
        failed_requests=skipped.failed,
        duration_s=duration_s,
        rate_per_s=(requests - 1) / duration_s if duration_s > 0 else None,
        peaks_per_s=tuple((width_s, most / width_s) for width_s, most in gaps.peaks(duration_s)) if is_open else (),
        burstiness_ratio=gaps.burstiness_ratio if is_open else None,
        inputs=_statistics(inputs),
        outputs=_statistics(outputs),
        prefix_blocks=blocks.all,
        distinct_blocks=len(blocks.seen),
        hit_share=blocks.hits / blocks.all if blocks.all else None,
        shares=tuple((name, tenants[index] / requests) for index, name in enumerate(source.tenants)),
    )


class _Gaps:
    """Mean and spread of the gaps, summed up without losing digits (Welford), and the fullest windows."""

    def __init__(self) -> None:
        self.first_s = self.last_s = 0.0
        self.count, self.mean_s, self.squares = 0, 0.0, 0.0
        self.started = False
        self.windows = [(width_s, deque[float]()) for width_s in WINDOWS_S]
        self.fullest = [0] * len(WINDOWS_S)

    def add(self, arrival: Arrival) -> None:
        time_s = arrival.time_s
        if not self.started:
            self.started, self.first_s = True, time_s
        else:
            gap_s = time_s - self.last_s
            self.count += 1
            change_s = gap_s - self.mean_s
            self.mean_s += change_s / self.count
            self.squares += change_s * (gap_s - self.mean_s)
        self.last_s = time_s
        for index, (width_s, times) in enumerate(self.windows):
            times.append(time_s)
            while times[0] <= time_s - width_s:
                times.popleft()
            self.fullest[index] = max(self.fullest[index], len(times))

    @property
    def burstiness_ratio(self) -> float | None:
        return math.sqrt(self.squares / self.count) / self.mean_s if self.count and self.mean_s > 0 else None

    def peaks(self, duration_s: float) -> list[tuple[float, int]]:
        return [(width_s, most) for width_s, most in zip(WINDOWS_S, self.fullest, strict=True) if width_s <= duration_s]


class _Blocks:
    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.all = self.hits = 0

    def add(self, prefix: tuple[int, ...]) -> None:
        self.all += len(prefix)
        for block in prefix:
            if block not in self.seen:
                break
            self.hits += 1
        self.seen.update(prefix)


def _statistics(counted: Counter[int]) -> LengthStatistics:
    number = counted.total()
    mean_tokens = sum(tokens * times for tokens, times in counted.items()) / number
    squares = sum((tokens - mean_tokens) ** 2 * times for tokens, times in counted.items()) / number
    ordered = sorted(counted.items())
    return LengthStatistics(
        mean_tokens=mean_tokens,
        p50_tokens=_percentile(ordered, number, 0.50),
        p99_tokens=_percentile(ordered, number, 0.99),
        most_tokens=ordered[-1][0],
        spread_ratio=math.sqrt(squares) / mean_tokens,
    )


def _percentile(ordered: list[tuple[int, int]], number: int, share: float) -> int:
    """The least length that at least this share of all does not exceed."""
    below = 0
    for tokens, times in ordered:
        below += times
        if below >= share * number:
            return tokens
    return ordered[-1][0]
