"""What requests are like, in one flat record: a profile's or a cell's of the workload matrix, made into a source."""

from typing import Literal

from pydantic import Field

from infopt.arrivals.arrival import Source
from infopt.arrivals.clients import Clients, Tenant
from infopt.arrivals.synthetic import BLOCK_TOKENS, Lengths, Process, SharedPrefix, Synthetic
from infopt.records import Record


class Sender(Record):
    """A tenant: its share of the requests and its priority (0 is served first)."""

    name: str
    share: float
    priority: int = 0


class Traffic(Record):
    """All that says what requests are like, except how many come; the units are in the names.

    streaming  answers are shown as they come; else the client sees its first token with the last
    Other fields are those of Lengths, SharedPrefix, Synthetic and Clients.
    """

    input_mean_tokens: float
    input_spread_ratio: float = 0.0
    output_mean_tokens: float
    output_spread_ratio: float = 0.0
    most_input_tokens: int | None = None
    most_output_tokens: int | None = None
    shared_tokens: int = 0
    prefixes: int = 1
    skew: float = 0.0
    block_tokens: int = BLOCK_TOKENS
    process: Literal["steady", "poisson", "gamma", "periodic"] = "poisson"
    burstiness_ratio: float = 1.0
    period_s: float | None = None
    peak_ratio: float = 1.0
    streaming: bool = True
    cancel_share: float = 0.0
    patience_s: float | None = None
    tenants: list[Sender] = Field([])

    @property
    def inputs(self) -> Lengths:
        return Lengths(self.input_mean_tokens, self.input_spread_ratio, most_tokens=self.most_input_tokens)

    @property
    def outputs(self) -> Lengths:
        return Lengths(self.output_mean_tokens, self.output_spread_ratio, most_tokens=self.most_output_tokens)

    def source(
        self,
        rate_per_s: float,
        *,
        requests: int | None = None,
        duration_s: float | None = None,
        users: int | None = None,
        think_s: float = 0.0,
        seed: int = 0,
    ) -> Source:
        """So many such requests a second, or (users) of so many at once."""
        process: Process = self.process
        drawn = Synthetic(
            inputs=self.inputs,
            outputs=self.outputs,
            process=process,
            rate_per_s=rate_per_s,
            requests=requests,
            duration_s=duration_s,
            burstiness_ratio=self.burstiness_ratio,
            period_s=self.period_s,
            peak_ratio=self.peak_ratio,
            users=users,
            think_s=think_s,
            shared=SharedPrefix(self.shared_tokens, self.prefixes, self.skew, self.block_tokens)
            if self.shared_tokens
            else None,
            seed=seed,
        )
        if not (self.cancel_share or self.patience_s or self.tenants):
            return drawn
        senders = tuple(Tenant(sender.name, sender.share, sender.priority) for sender in self.tenants)
        return Clients(drawn, self.cancel_share, self.patience_s, senders, seed)
