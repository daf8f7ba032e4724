"""What a simulation leaves: a row for each request, sums over time, and samples of how full the deployment was.

Sums over time are exact: every change of a number adds number x time since the last one. They are kept for the window
that is measured: from the end of the warm-up until nothing more arrives, or until all is done where that takes longer
than the arrivals themselves.
"""

import math
from array import array
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, field
from typing import Any

# How a request ended.
DONE, CANCELLED, TIMED_OUT, REFUSED, LOST = range(5)
ENDS = ("done", "cancelled", "timed out", "refused", "lost")
MOST_SAMPLES = 400


@dataclass(slots=True)
class Rows:
    """Requests in the order in which they ended; seconds that do not exist are NaN.

    ttft_s, e2e_s  as the client sees them;  tpot_s  between the first and the last token, of more than one
    found_tokens   of the prompt, in the prefix cache;  machine_s  of a replica, what the request took
    """

    sent_s: "array[float]" = field(default_factory=lambda: array("d"))
    ttft_s: "array[float]" = field(default_factory=lambda: array("d"))
    tpot_s: "array[float]" = field(default_factory=lambda: array("d"))
    e2e_s: "array[float]" = field(default_factory=lambda: array("d"))
    machine_s: "array[float]" = field(default_factory=lambda: array("d"))
    input_tokens: "array[int]" = field(default_factory=lambda: array("i"))
    output_tokens: "array[int]" = field(default_factory=lambda: array("i"))
    found_tokens: "array[int]" = field(default_factory=lambda: array("i"))
    preemptions: "array[int]" = field(default_factory=lambda: array("i"))
    tenant: "array[int]" = field(default_factory=lambda: array("h"))
    priority: "array[int]" = field(default_factory=lambda: array("h"))
    end: "array[int]" = field(default_factory=lambda: array("b"))

    def __len__(self) -> int:
        return len(self.end)


@dataclass(slots=True)
class Sums:
    """Sums over time since the start, of all replicas: what a window is the difference of.

    Seconds times sequences (running: let in, prompts included; waiting), units of cache in use, busy seconds, and
    tokens and steps.
    """

    time_s: float = 0.0
    running_s: float = 0.0
    waiting_s: float = 0.0
    used_units_s: float = 0.0
    busy_s: float = 0.0
    alive_s: float = 0.0
    delay_s: float = 0.0
    output_tokens: int = 0
    prompt_tokens: int = 0
    wasted_tokens: int = 0
    decoded_tokens: int = 0
    decode_steps: int = 0
    steps: int = 0
    preemptions: int = 0
    arrived: int = 0
    ended: int = 0

    def since(self, start: "Sums") -> "Sums":
        """What was added after `start`."""
        return Sums(*(getattr(self, name) - getattr(start, name) for name in Sums.__slots__))


@dataclass(slots=True)
class Samples:
    """The deployment at even distances of time, which double as a run gets longer.

    output_tokens, ended  since the start
    """

    every_s: float = 0.001
    time_s: list[float] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    used_share: list[float] = field(default_factory=list)
    output_tokens: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    def add(self, values: Ordered[float]) -> None:
        """One sample: time, running, waiting, used share, output tokens, requests ended."""
        columns: list[list[Any]] = [self.time_s, self.running, self.waiting, self.used_share]
        columns += [self.output_tokens, self.ended]
        for column, value in zip(columns, values, strict=True):
            column.append(value)
        if len(self.time_s) >= MOST_SAMPLES:
            for column in columns:
                del column[::2]
            self.every_s *= 2


@dataclass(slots=True)
class Outcome:
    """A simulation.

    total    sums over the whole run
    window   sums over the measured time, which starts at `from_s`
    seats    sequences that may run at once in a replica;  capacity  units of its cache
    """

    rows: Rows
    samples: Samples
    total: Sums
    window: Sums
    from_s: float
    arrivals_end_s: float
    replicas: int
    seats: int
    capacity: int
    tenants: tuple[str, ...]
    streaming: bool
    closed: bool

    @property
    def little_ratio(self) -> float:
        """Little's law over the whole run: sum of all stays, from the rows, over requests in the system times time."""
        inside_s = self.total.running_s + self.total.waiting_s
        stays_s = math.fsum(self.rows.e2e_s) - self.total.delay_s
        return stays_s / inside_s if inside_s else 1.0
