"""How soon blocks come back, and what an LRU cache finds if that is all that is known: no stack, only gaps.

    gap        requests from one use of a block to the next               c uses of a block have c - 1 gaps
    kept(T)    = 1 - (1 - T / N)^c                                        a block of c uses among the last T requests
    shuffled   sum of kept(T) = C,   hits = sum of (c - 1) kept(T)        the N requests in any order (Che)
    by gaps    F(T) = C,             hits = number of gaps <= T           in the order they have (working set)
    F(T)       = M - [sum max(f - T, 0) + sum max(l - T, 0) + sum max(g - T, 0)] / (N - T + 1)
    soonness   = sum of gaps / sum of (c - 1) (N + 1) / (c + 1)           1 in random order, less where uses cluster
N requests, M distinct blocks, C blocks of the cache, T the requests it remembers; f requests up to a block's first use,
l from its last use to the end, g gaps; F(T) mean distinct blocks of T requests in a row.
The first is Che's approximation (doi:10.1109/JSAC.2002.801752) of a trace whose requests are independent: uses of a
block lie anywhere, so of c uses c - 1 find one within T with kept(T). It holds where the order does not matter, which
`soonness` tells. The second keeps the gaps as they are and needs the trace only to be steady (Denning, Schwartz 1972,
doi:10.1145/361268.361281; Xiang, Ding, Luo, Bao 2013, doi:10.1145/2451116.2451153). Prompts that begin alike cost
neither anything: whoever asks for a block asks for all before it, so those were used no longer ago.
Ignored: T is one number, though requests differ in length; it is poor where a cache holds a few requests only.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from infopt.frozen import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Tally:
    """Values and how often each occurred, rising; `before` counts and sums of all that come before each, and of all."""

    values: "NDArray[np.float64]"
    counts: "NDArray[np.float64]"
    counts_before: "NDArray[np.float64]"
    sums_before: "NDArray[np.float64]"

    def beyond_requests(self, limit_requests: float) -> float:
        """Sum of what values exceed a limit by."""
        at = self._place(limit_requests)
        more = float(self.counts_before[-1] - self.counts_before[at])
        return float(self.sums_before[-1] - self.sums_before[at]) - limit_requests * more

    def within_uses(self, limit_requests: float) -> float:
        """How many are at most so much; between two whole numbers as many as lie on a straight line."""
        low = math.floor(limit_requests)
        below, above = (float(self.counts_before[self._place(end)]) for end in (low, low + 1))
        return below + (limit_requests - low) * (above - below)

    def _place(self, limit_requests: float) -> int:
        return int(self.values.searchsorted(limit_requests, side="right"))


@dataclass(frozen=True, slots=True)
class ReuseGaps:
    """Uses of blocks over a trace.

    requests, asked_blocks, distinct_blocks  of it
    uses    of a block, over blocks
    gaps    between uses
    edges   requests up to a block's first use, and from its last
    """

    requests: float
    asked_blocks: int
    distinct_blocks: int
    uses: Tally
    gaps: Tally
    edges: Tally

    @property
    def soonness_ratio(self) -> float | None:
        """Mean gap over that in random order; None where nothing is used twice."""
        again, n = self.uses.values - 1, self.requests
        random = float(self.uses.counts @ (again * (n + 1) / (self.uses.values + 1)))
        return float(self.gaps.values @ self.gaps.counts) / random if random else None

    def shuffled_hit_share(self, capacity_blocks: float) -> float:
        """Blocks found over blocks asked for, the requests in random order (Che)."""
        kept = self._kept(self.shuffled_requests(capacity_blocks))
        found = self.uses.counts @ ((self.uses.values - 1) * kept)
        return float(found) / self.asked_blocks if self.asked_blocks else 0.0

    def shuffled_requests(self, capacity_blocks: float) -> float:
        """T of requests in random order."""
        if capacity_blocks >= self.distinct_blocks:
            return self.requests
        return _root(lambda t: float(self.uses.counts @ self._kept(t)), max(0.0, capacity_blocks), self.requests)

    def _kept(self, remembered_requests: float) -> "NDArray[np.float64]":
        kept: NDArray[np.float64] = 1 - (1 - remembered_requests / self.requests) ** self.uses.values
        return kept

    def steady_hit_share(self, capacity_blocks: float) -> float:
        """Blocks found over blocks asked for, by the gaps as they are."""
        found = self.gaps.within_uses(self.remembered_requests(capacity_blocks))
        return found / self.asked_blocks if self.asked_blocks else 0.0

    def remembered_requests(self, capacity_blocks: float) -> float:
        """T of requests in the order they have."""
        if capacity_blocks >= self.distinct_blocks:
            return self.requests
        return _root(self.footprint_blocks, max(0.0, capacity_blocks), self.requests)

    def footprint_blocks(self, requests: float) -> float:
        """F(T): mean distinct blocks of so many requests in a row."""
        missed = self.gaps.beyond_requests(requests) + self.edges.beyond_requests(requests)
        return self.distinct_blocks - missed / (self.requests - requests + 1)


def _root(filled_blocks: Callable[[float], float], wanted_blocks: float, most_requests: float) -> float:
    """Requests, between none and all, whose blocks are as many as wanted."""
    low, high = 0.0, most_requests
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if filled_blocks(middle) < wanted_blocks:
            low = middle
        else:
            high = middle
    return (low + high) / 2


class GapCounter:
    """Counts uses request by request; memory grows with the distinct blocks."""

    def __init__(self) -> None:
        # Of each block: request of its first use, of its last, uses.
        self.blocks: dict[Hashable, tuple[int, int, int]] = {}
        self.gaps: Counter[int] = Counter()
        self.requests = self.asked = 0

    def request(self, blocks: Sequence[Hashable]) -> None:
        """The next request."""
        self.requests += 1
        self.asked += len(blocks)
        for block in blocks:
            first, last, uses = self.blocks.get(block, (self.requests, 0, 0))
            if last == self.requests:
                continue
            if uses:
                self.gaps[self.requests - last] += 1
            self.blocks[block] = first, self.requests, uses + 1


def reuse_gaps(counters: Sequence[GapCounter]) -> ReuseGaps:
    """What was counted, of replicas that share the requests taken together: their blocks and gaps add up."""
    uses: Counter[int] = Counter()
    gaps: Counter[int] = Counter()
    edges: Counter[int] = Counter()
    for counter in counters:
        gaps.update(counter.gaps)
        for first, last, times in counter.blocks.values():
            uses[times] += 1
            edges[first] += 1
            edges[counter.requests - last + 1] += 1
    return ReuseGaps(
        requests=sum(counter.requests for counter in counters) / max(1, len(counters)),
        asked_blocks=sum(counter.asked for counter in counters),
        distinct_blocks=sum(len(counter.blocks) for counter in counters),
        uses=_tally(uses),
        gaps=_tally(gaps),
        edges=_tally(edges),
    )


def gaps_of(requests: Iterable[Sequence[Hashable]]) -> ReuseGaps:
    """Of one trace."""
    counter = GapCounter()
    for blocks in requests:
        counter.request(blocks)
    return reuse_gaps([counter])


def _tally(counted: Counter[int]) -> Tally:
    import numpy as np

    values = np.array(sorted(counted), dtype=np.int64).astype(float)
    counts = np.array([counted[int(value)] for value in values], dtype=float)
    return Tally(values, counts, *(np.concatenate([[0.0], np.cumsum(each)]) for each in (counts, counts * values)))
