"""Traffic from a description: when requests come, how long they are, which prefix they begin with.

    steady    t_i = i / r                        poisson   gaps exponential, mean 1 / r
    gamma     gaps gamma, mean 1 / r, cv c       periodic  r(t) = r (1 + (p - 1) sin(2 pi t / P)), by thinning
    closed    u users, each thinking a gap of mean z between an answer and the next request
r requests/s in the mean, c coefficient of variation of gaps (1 is poisson, more comes in bursts), p peak over mean rate
(1 to 2), P seconds of a period. Lengths are gamma with mean and cv, rounded, clipped. Prefix k of K is asked for in
proportion to k^-s (Zipf). Thinning: candidates at the peak rate r p are kept with r(t) / (r p) (Lewis, Shedler 1979,
doi:10.1002/nav.3800260304).

Every quantity has its own random stream under one seed, so changing one leaves the others as they were.
Ignored: that lengths, times and prefixes of real traffic depend on each other; traces have that.
"""

import math
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import TYPE_CHECKING, Literal

from infopt.arrivals.arrival import MOST_TOKENS, Arrival
from infopt.errors import InfoptError
from infopt.frozen import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Draw = Callable[[int], NDArray[np.float64]]

Process = Literal["steady", "poisson", "gamma", "periodic"]
CHUNK_REQUESTS = 10_000  # drawn at once
WARMUP_SHARE = 0.1  # of a run, unless said otherwise
BLOCK_TOKENS = 16  # of a shared prefix: whole multiples of it, as engines cache them
MOST_REQUESTS = 10**8  # of a run: a simulation keeps about 130 bytes of each
MOST_PREFIXES = 10**7  # whose popularity is held in memory
SPREADS = (1e-3, 1e3)  # coefficients of variation that a gamma distribution can be drawn with
# Streams under one seed; a new one goes to the end.
TIMES, INPUTS, OUTPUTS, PREFIXES, THINNING = range(5)


def generator(seed: int, *key: int) -> "np.random.Generator":
    """The random stream of a purpose; the same on every run and machine of one NumPy."""
    import numpy as np

    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def require(fine: bool, what: str) -> None:
    """Refuse a description that makes no sense."""
    if not fine:
        raise InfoptError(what)


def check_spread(what: str, ratio: float) -> None:
    """Refuse a coefficient of variation that cannot be drawn with."""
    low, high = SPREADS
    require(low <= ratio <= high, f"{what} of {ratio:g} is not {low:g} to {high:g}")


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many tokens: gamma distributed and rounded, or drawn from what was counted.

    spread_ratio  standard deviation over mean; 0: all alike
    least_tokens, most_tokens  clip, which moves the mean
    counted       lengths as they were seen, each as likely; mean and spread then say nothing
    """

    mean_tokens: float = 0.0
    spread_ratio: float = 0.0
    least_tokens: int = 1
    most_tokens: int | None = None
    counted: tuple[int, ...] = ()

    def check(self, what: str) -> None:
        most = self.least_tokens if self.most_tokens is None else self.most_tokens
        require(1 <= self.least_tokens <= most, f"{what}: from {self.least_tokens} to {most} tokens is no range from 1")
        require(all(tokens >= 1 for tokens in self.counted), f"{what}: a counted length is below one token")
        if not self.counted:
            require(self.mean_tokens >= 1, f"{what}: a mean of {self.mean_tokens:g} tokens is less than one")
            require(self.mean_tokens <= MOST_TOKENS, f"{what}: {self.mean_tokens:g} tokens are more than {MOST_TOKENS}")
            if self.spread_ratio:
                check_spread(f"{what}: a spread", self.spread_ratio)

    def draw(self, random: "np.random.Generator", requests: int) -> "NDArray[np.int64]":
        import numpy as np

        if self.counted:
            tokens = np.asarray(self.counted)[random.integers(len(self.counted), size=requests)]
        elif self.spread_ratio:
            shape = self.spread_ratio**-2
            tokens = np.rint(random.gamma(shape, self.mean_tokens / shape, requests))
        else:
            tokens = np.full(requests, round(self.mean_tokens))
        clipped: NDArray[np.int64] = np.clip(tokens, self.least_tokens, self.most_tokens or MOST_TOKENS).astype(
            np.int64
        )
        return clipped


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """What prompts begin with: the first shared_tokens of each are one of so many prefixes.

    skew          exponent of Zipf's law; 0: all equally popular
    block_tokens  of one id, a multiple of 16; a prefix is cut to whole blocks
    """

    shared_tokens: int
    prefixes: int = 1
    skew: float = 0.0
    block_tokens: int = BLOCK_TOKENS

    def check(self) -> None:
        fits = self.block_tokens > 0 and self.block_tokens % BLOCK_TOKENS == 0
        require(fits, f"a block of {self.block_tokens} tokens is no multiple of {BLOCK_TOKENS}")
        require(self.shared_tokens >= 0, f"a shared prefix of {self.shared_tokens} tokens is negative")
        fine = 1 <= self.prefixes <= MOST_PREFIXES
        require(fine, f"{self.prefixes} shared prefixes: at least one, and at most {MOST_PREFIXES:,}")
        require(0 <= self.skew < math.inf, f"a skew of {self.skew:g} is negative")

    def popularity(self) -> "NDArray[np.float64]":
        """Shares of the requests, summed up from the most popular prefix on."""
        import numpy as np

        ends = np.cumsum(np.arange(1, self.prefixes + 1, dtype=float) ** -self.skew)
        return np.asarray(ends / ends[-1])

    def draw(
        self, random: "np.random.Generator", popularity: "NDArray[np.float64]", inputs: "NDArray[np.int64]"
    ) -> list[tuple[int, ...]]:
        """Ids of the blocks of each prompt: block j of prefix k is k blocks + j, as far as the prompt reaches."""
        import numpy as np

        blocks = self.shared_tokens // self.block_tokens
        if not blocks:
            return [()] * len(inputs)
        ranks = np.searchsorted(popularity, random.random(len(inputs)), side="right")
        lengths = np.minimum(inputs // self.block_tokens, blocks)
        made: dict[tuple[int, int], tuple[int, ...]] = {}
        found = []
        for key in zip(ranks.tolist(), lengths.tolist(), strict=True):
            if key not in made:
                made[key] = tuple(range(key[0] * blocks, key[0] * blocks + key[1]))
            found.append(made[key])
        return found


@dataclass(frozen=True, slots=True)
class Synthetic:
    """Traffic made from a description; of `requests` requests, or of `duration_s` seconds (both: what ends first).

    inputs, outputs      lengths; an input includes its shared prefix
    rate_per_s           of an open process
    burstiness_ratio     coefficient of variation of gamma gaps
    period_s, peak_ratio of a periodic one: peak over mean rate, 1 to 2
    users, think_s       closed: so many at once; the process (not periodic) says how gaps of mean think_s spread, and
                         rate_per_s is not used
    given_warmup_s       not measured; None: the first tenth, in seconds (`warmup_s`) where the process is open, in
                         requests (`warmup_requests`) where it is closed
    """

    inputs: Lengths
    outputs: Lengths
    process: Process = "poisson"
    rate_per_s: float = 0.0
    requests: int | None = None
    duration_s: float | None = None
    burstiness_ratio: float = 1.0
    period_s: float | None = None
    peak_ratio: float = 1.0
    users: int | None = None
    think_s: float = 0.0
    shared: SharedPrefix | None = None
    seed: int = 0
    tenants: tuple[str, ...] = ("all",)
    given_warmup_s: float | None = None

    @property
    def prefix_block_tokens(self) -> int:
        return self.shared.block_tokens if self.shared else 0

    @property
    def warmup_s(self) -> float:
        """Seconds at the beginning that are not measured; 0 where requests are counted instead."""
        if self.given_warmup_s is not None:
            return self.given_warmup_s
        if self.users is not None:
            return 0.0
        expected_s = math.inf if self.requests is None else self.requests / self.rate_per_s
        return WARMUP_SHARE * min(expected_s, math.inf if self.duration_s is None else self.duration_s)

    @property
    def warmup_requests(self) -> int:
        """Requests at the beginning of a closed loop that are not measured: when it starts nobody waits."""
        if self.users is None or self.given_warmup_s is not None or self.requests is None:
            return 0
        return int(WARMUP_SHARE * self.requests)

    def check(self) -> None:
        """Refuse what makes no sense; errors: InfoptError."""
        self.inputs.check("input")
        self.outputs.check("output")
        if self.shared:
            self.shared.check()
        require(self.seed >= 0, f"seed {self.seed} is negative")
        require(
            self.requests is not None or self.duration_s is not None, "traffic needs a number of requests or a time"
        )
        require(self.requests is None or self.requests >= 1, f"{self.requests} requests: at least one")
        expected = self.rate_per_s * (self.duration_s or 0.0) if self.requests is None else self.requests
        require(expected <= MOST_REQUESTS, f"{expected:,.12g} requests are more than the {MOST_REQUESTS:,} of a run")
        require(self.duration_s is None or 0 < self.duration_s < math.inf, "the traffic's duration must be more than 0")
        if self.process == "gamma":
            check_spread("a burstiness", self.burstiness_ratio)
        if self.users is not None:
            self._check_closed()
        else:
            require(0 < self.rate_per_s < math.inf, f"a rate of {self.rate_per_s:g}/s is not more than 0")
        if self.process == "periodic":
            require(self.period_s is not None and 0 < self.period_s < math.inf, "periodic traffic needs a period")
            peaks = 1 <= self.peak_ratio <= 2
            require(peaks, f"a peak of {self.peak_ratio:g} times the mean rate is not 1 to 2, as a sine has it")

    def _check_closed(self) -> None:
        assert self.users is not None
        require(self.users >= 1, f"{self.users} users: at least one")
        require(0 <= self.think_s < math.inf, f"a think time of {self.think_s:g} s is negative")
        require(self.process != "periodic", "users who wait for answers cannot come periodically: give a rate")
        require(self.requests is not None, "users at once need a number of requests: how long they take is the result")

    def stream(self) -> Iterator[Arrival]:
        """The requests, drawn ten thousand at a time. Errors: InfoptError where the description makes no sense."""
        self.check()
        return islice(_arrivals(self), self.requests)


def _arrivals(source: Synthetic) -> Iterator[Arrival]:
    import numpy as np

    inputs_random, outputs_random = generator(source.seed, INPUTS), generator(source.seed, OUTPUTS)
    prefix_random = generator(source.seed, PREFIXES)
    popularity = source.shared.popularity() if source.shared else np.empty(0)
    for times in _times(source):
        within = times[times < source.duration_s] if source.duration_s is not None and source.users is None else times
        inputs = source.inputs.draw(inputs_random, len(within))
        outputs = source.outputs.draw(outputs_random, len(within))
        shared = source.shared.draw(prefix_random, popularity, inputs) if source.shared else [()] * len(within)
        yield from map(Arrival, within.tolist(), inputs.tolist(), outputs.tolist(), shared)
        if len(within) < len(times):
            return


def _times(source: Synthetic) -> "Iterator[NDArray[np.float64]]":
    """Times of the requests, the first at 0, in chunks without end; of a closed loop, the gaps themselves."""
    import numpy as np

    mean_s = source.think_s if source.users is not None else 1.0 / source.rate_per_s
    if source.users is not None:
        gaps = _gaps(source, mean_s)
        while True:
            yield gaps(CHUNK_REQUESTS)
    if source.process == "steady":
        for first in count(0, CHUNK_REQUESTS):
            yield np.arange(first, first + CHUNK_REQUESTS) / source.rate_per_s
    thin = source.process == "periodic"
    gaps = _gaps(source, mean_s / source.peak_ratio if thin else mean_s)
    kept, now_s = generator(source.seed, THINNING), 0.0
    yield np.zeros(1)
    while True:
        times = now_s + np.cumsum(gaps(CHUNK_REQUESTS))
        now_s = float(times[-1])
        yield times[kept.random(CHUNK_REQUESTS) * source.peak_ratio < _relative_rate(source, times)] if thin else times


def _relative_rate(source: Synthetic, times: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """r(t) / r."""
    import numpy as np

    assert source.period_s is not None
    rate: NDArray[np.float64] = 1 + (source.peak_ratio - 1) * np.sin(2 * np.pi * times / source.period_s)
    return rate


def _gaps(source: Synthetic, mean_s: float) -> "Draw":
    """What draws gaps of this mean: exponential, gamma, or all alike."""
    import numpy as np

    random = generator(source.seed, TIMES)
    if source.process == "gamma":
        shape = source.burstiness_ratio**-2
        return lambda requests: random.gamma(shape, mean_s / shape, requests)
    if source.process == "steady":
        return lambda requests: np.full(requests, mean_s)
    return lambda requests: random.exponential(mean_s, requests)
