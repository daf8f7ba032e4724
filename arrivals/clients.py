"""Who sends requests, over any source: tenants with shares and priorities, clients that leave, patience.

Each request is given, independently of the others: a tenant with the probability of its share; a client that leaves
with the probability cancel_share, after a number of its output tokens that is uniform below all of them; and the
patience of all. A request of one token is never cancelled: it is done when its first token comes.
Every property has its own random stream, so changing one leaves the others as they were.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from infopt.arrivals.arrival import Arrival, OfSource, Source
from infopt.arrivals.synthetic import CHUNK_REQUESTS, Lengths, generator, require
from infopt.frozen import dataclass

# Streams under one seed, apart from those of synthetic.py.
TENANTS, CANCELLED, LEFT_AFTER, TENANT_INPUTS, TENANT_OUTPUTS = range(100, 105)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A sender.

    share            of the requests; shares of all tenants are taken relative to their sum
    priority         0 is served first
    inputs, outputs  lengths of its own; None: those of the source
    """

    name: str
    share: float
    priority: int = 0
    inputs: Lengths | None = None
    outputs: Lengths | None = None


@dataclass(frozen=True, slots=True)
class Clients(OfSource):
    """A source whose requests have senders; it is a source itself.

    cancel_share  of the requests whose client leaves before the end
    patience_s    after which a client leaves; None: never
    senders       none: the tenants and priorities of the source
    """

    source: Source
    cancel_share: float = 0.0
    patience_s: float | None = None
    senders: tuple[Tenant, ...] = ()
    seed: int = 0

    @property
    def tenants(self) -> tuple[str, ...]:
        return tuple(sender.name for sender in self.senders) or self.source.tenants

    def check(self) -> None:
        """Refuse what makes no sense; errors: InfoptError."""
        require(0 <= self.cancel_share <= 1, f"a share of {self.cancel_share:g} that is cancelled is not 0 to 1")
        waits = self.patience_s is None or 0 < self.patience_s < float("inf")
        require(waits, f"a patience of {self.patience_s} s is not more than 0")
        names = [sender.name for sender in self.senders]
        require(len(set(names)) == len(names), f"a tenant is there twice: {', '.join(names)}")
        for sender in self.senders:
            require(
                0 < sender.share < float("inf"), f"tenant {sender.name}: a share of {sender.share:g} is not above 0"
            )
            require(sender.priority >= 0, f"tenant {sender.name}: priority {sender.priority} is negative")
            for lengths in (sender.inputs, sender.outputs):
                if lengths:
                    lengths.check(f"tenant {sender.name}")

    def stream(self) -> Iterator[Arrival]:
        """The requests of the source, with senders. Errors: InfoptError, here or from the source."""
        self.check()
        return _sent(self)


def _sent(clients: Clients) -> Iterator[Arrival]:
    draw = _Draws(clients)
    arrivals = clients.source.stream()
    while chunk := list(islice(arrivals, CHUNK_REQUESTS)):
        inputs, outputs, tenants, priorities = draw.senders(chunk)
        lasting = draw.lasting(outputs)
        for arrival, input_tokens, output_tokens, tenant, priority, after_tokens in zip(
            chunk, inputs, outputs, tenants, priorities, lasting, strict=True
        ):
            prefix = arrival.prefix
            if input_tokens < arrival.input_tokens and prefix:
                prefix = prefix[: input_tokens // clients.source.prefix_block_tokens]
            yield Arrival(
                arrival.time_s, input_tokens, output_tokens, prefix, tenant, priority, after_tokens, clients.patience_s
            )


class _Draws:
    """The random streams of one run over a source."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        seed, numbers = clients.seed, range(len(clients.senders))
        self.tenant, self.cancelled = generator(seed, TENANTS), generator(seed, CANCELLED)
        self.left = generator(seed, LEFT_AFTER)
        self.inputs = [generator(seed, TENANT_INPUTS, number) for number in numbers]
        self.outputs = [generator(seed, TENANT_OUTPUTS, number) for number in numbers]

    def senders(self, chunk: Sequence[Arrival]) -> tuple[list[int], list[int], list[int], list[int]]:
        """Input and output tokens, tenant and priority of each request."""
        import numpy as np

        inputs = np.array([arrival.input_tokens for arrival in chunk])
        outputs = np.array([arrival.output_tokens for arrival in chunk])
        senders = self.clients.senders
        if not senders:
            tenants, priorities = [a.tenant for a in chunk], [a.priority for a in chunk]
            return inputs.tolist(), outputs.tolist(), tenants, priorities
        ends = np.cumsum([sender.share for sender in senders])
        drawn = np.searchsorted(ends, self.tenant.random(len(chunk)) * ends[-1], side="right")
        drawn = np.minimum(drawn, len(senders) - 1)
        for number, sender in enumerate(senders):
            own = drawn == number
            if sender.inputs:
                inputs[own] = sender.inputs.draw(self.inputs[number], int(own.sum()))
            if sender.outputs:
                outputs[own] = sender.outputs.draw(self.outputs[number], int(own.sum()))
        priorities = np.array([sender.priority for sender in senders])[drawn]
        return inputs.tolist(), outputs.tolist(), drawn.tolist(), priorities.tolist()

    def lasting(self, outputs: Sequence[int]) -> Sequence[int | None]:
        """Output tokens after which each client leaves; None: it stays."""
        import numpy as np

        if not self.clients.cancel_share:
            return [None] * len(outputs)
        tokens = np.array(outputs)
        leaves = self.cancelled.random(len(tokens)) < self.clients.cancel_share
        after = 1 + np.floor(self.left.random(len(tokens)) * (tokens - 1)).astype(np.int64)
        cancelled = (leaves & (tokens > 1)).tolist()
        return [left if gone else None for left, gone in zip(after.tolist(), cancelled, strict=True)]
