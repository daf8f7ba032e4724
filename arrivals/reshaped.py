"""The requests of a source in another shape: all present at once, or only those that are short enough.

    at once   t_i = 0, the source over and over until there are enough requests; blocks of one round are not found by
              another, for their ids are apart
    shorter   requests of at most so many tokens, prompt and answer together
Clients that wait for a while only would all leave, so those present at once wait for ever.
"""

from collections.abc import Iterator
from dataclasses import replace

from infopt.arrivals.arrival import Arrival, OfSource, Source
from infopt.errors import InfoptError
from infopt.frozen import dataclass

ROUND_IDS = 2**48  # between the ids of two rounds


@dataclass(frozen=True, slots=True)
class AtOnce(OfSource):
    """At least `least_requests` requests of a source and at most so many, all of them there from the start."""

    source: Source
    least_requests: int
    most_requests: int

    @property
    def users(self) -> int | None:
        return None

    @property
    def requests(self) -> int | None:
        return None

    @property
    def warmup_s(self) -> float:
        return 0.0

    @property
    def warmup_requests(self) -> int:
        return 0

    def stream(self) -> Iterator[Arrival]:
        """Whole rounds of the source, or as much of one as is allowed. Errors: those of the source."""
        taken = turn = 0
        while taken < self.least_requests:
            for one in self.source.stream():
                prefix = tuple(name + turn * ROUND_IDS for name in one.prefix) if turn else one.prefix
                yield replace(one, time_s=0.0, prefix=prefix, patience_s=None)
                taken += 1
                if taken >= self.most_requests:
                    return
            if not taken:
                return
            turn += 1


@dataclass(frozen=True, slots=True)
class Shorter(OfSource):
    """Requests of a source that an engine accepts.

    leaves_out  the others are left out; else the first of them is an error
    limit       what decides how long they may be, in words
    """

    source: Source
    most_tokens: int
    leaves_out: bool
    limit: str

    def left_out(self) -> int:
        """Requests that are too long."""
        return sum(not self._takes(one) for one in self.source.stream())

    def _takes(self, one: Arrival) -> bool:
        return one.input_tokens + one.output_tokens <= self.most_tokens

    def stream(self) -> Iterator[Arrival]:
        """The others. Errors: InfoptError for one that is too long, or where none is left; and those of the source."""
        taken = False
        for number, one in enumerate(self.source.stream(), start=1):
            if self._takes(one):
                taken = True
                yield one
            elif not self.leaves_out:
                raise InfoptError(
                    f"request {number:,} at {one.time_s:.6g} s: {one.input_tokens:,} + {one.output_tokens:,} tokens "
                    f"are more than {self.limit}; --leave-out-long leaves such requests out"
                )
        if not taken:
            raise InfoptError(f"every request is longer than {self.limit}")
