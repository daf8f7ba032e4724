"""One request inside a replica: what of it is computed, what it holds in the cache, and what it has cost."""

from typing import TYPE_CHECKING, Any

from infopt.arrivals.arrival import Arrival

if TYPE_CHECKING:
    from infopt.simulation.replica import Replica


class Sequence:
    """A request that waits, runs or has ended.

    computed_tokens  whose keys and values are in the cache; of a decoding sequence as it stood at `joined_step`
    answered_tokens  output tokens so far, likewise
    target_tokens    to compute before the next token comes: prompt, and what was answered before a preemption
    last_tokens      output tokens after which it ends: all it asked for, or those its client stays for
    entries          prefix blocks it refers to, in order;  prefix  those it could refer to
    delay_s          by which its client sees tokens later than its replica makes them
    machine_s        time of its replica that it took: its prompt, and its part of every step it decoded in
    """

    __slots__ = (
        "answered_tokens",
        "arrival",
        "computed_tokens",
        "decoding",
        "delay_s",
        "done",
        "end_step",
        "entries",
        "first_s",
        "found_tokens",
        "gone",
        "index",
        "input_tokens",
        "joined_step",
        "last_tokens",
        "machine_s",
        "output_tokens",
        "preemptions",
        "prefix",
        "replica",
        "sent_s",
        "share_mark",
        "started",
        "target_tokens",
        "wasted_tokens",
    )

    def __init__(self, index: int, arrival: Arrival, sent_s: float, prefix: tuple[int, ...], aborts: bool) -> None:
        self.index = index
        self.arrival = arrival
        self.sent_s = sent_s
        self.input_tokens = arrival.input_tokens
        self.output_tokens = arrival.output_tokens
        left = arrival.cancelled_after_tokens
        self.last_tokens = min(left, self.output_tokens) if aborts and left is not None else self.output_tokens
        self.prefix = prefix
        self.entries: list[int] = []
        self.computed_tokens = self.answered_tokens = 0
        self.target_tokens = self.input_tokens
        self.joined_step = self.end_step = 0
        self.decoding = self.gone = self.started = False
        self.first_s: float | None = None
        self.found_tokens = self.wasted_tokens = self.preemptions = 0
        self.machine_s = self.share_mark = self.delay_s = 0.0
        self.replica: Replica | None = None
        self.done: Any = None

    @property
    def order(self) -> tuple[int, int]:
        """Who comes first where priorities count."""
        return self.arrival.priority, self.index

    def restart(self) -> None:
        """Nothing of it is computed any more; what was answered has to be computed again with the prompt."""
        self.computed_tokens = 0
        self.target_tokens = self.input_tokens + self.answered_tokens
        self.decoding = False
        self.entries = []
