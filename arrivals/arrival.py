"""One request as it reaches the deployment, and the description of many."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from infopt.frozen import dataclass

MOST_TOKENS = 10**9  # of a prompt or an answer: more is a mistake, whatever the model


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request.

    time_s            since the first; rising in a stream. Of a closed loop: time to think before it is sent
    input_tokens      of its prompt
    output_tokens     that it asks for, at least one
    prefix            ids of the blocks its prompt begins with, in order; two prompts share the blocks that both begin
                      with. A block is `Source.prefix_block_tokens` tokens; the last one may be shorter
    tenant            number of who sent it, an index into `Source.tenants`
    priority          0 is served first
    cancelled_after_tokens  the client leaves after so many output tokens; None: it stays
    patience_s        the client leaves when it is not done after so long; None: it waits for ever
    """

    time_s: float
    input_tokens: int
    output_tokens: int
    prefix: tuple[int, ...] = ()
    tenant: int = 0
    priority: int = 0
    cancelled_after_tokens: int | None = None
    patience_s: float | None = None


class Source(Protocol):
    """A description of traffic, small and picklable, from which the same requests come every time.

    users      of a closed loop: so many at once, each sending its next request as the one before ends; None: open
    tenants    names of who sends
    prefix_block_tokens  tokens of one id of `Arrival.prefix`; 0 where no prompt has a prefix
    requests   how many there will be, None where a file is not counted yet
    warmup_s, warmup_requests  time and arrivals that fill the system and are not measured
    """

    @property
    def users(self) -> int | None: ...
    @property
    def tenants(self) -> tuple[str, ...]: ...
    @property
    def prefix_block_tokens(self) -> int: ...
    @property
    def requests(self) -> int | None: ...
    @property
    def warmup_s(self) -> float: ...
    @property
    def warmup_requests(self) -> int: ...

    def stream(self) -> Iterator[Arrival]:
        """The requests, in order of time; made or read one by one."""
        ...


class OfSource:
    """What a source that changes the requests of another one takes over from it."""

    __slots__ = ()

    if TYPE_CHECKING:
        source: Source

    @property
    def users(self) -> int | None:
        return self.source.users

    @property
    def tenants(self) -> tuple[str, ...]:
        return self.source.tenants

    @property
    def prefix_block_tokens(self) -> int:
        return self.source.prefix_block_tokens

    @property
    def requests(self) -> int | None:
        return self.source.requests

    @property
    def warmup_s(self) -> float:
        return self.source.warmup_s

    @property
    def warmup_requests(self) -> int:
        return self.source.warmup_requests
