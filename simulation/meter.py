"""Keeps the sums of a running simulation: every number that changes is integrated over time."""

from collections.abc import Sequence as Ordered
from dataclasses import replace
from typing import TYPE_CHECKING

from infopt.simulation.outcome import DONE, Rows, Samples, Sums
from infopt.simulation.sequence import Sequence

if TYPE_CHECKING:
    import simpy

NAN = float("nan")


class Meter:
    """Numbers of all replicas together; a replica says what changes, before it changes."""

    def __init__(self, env: "simpy.Environment", streaming: bool) -> None:
        self.env = env
        self.streaming = streaming
        self.rows = Rows()
        self.samples = Samples()
        self.sums = Sums()
        self.running = self.waiting = self.busy = self.alive = 0
        self.used_units = 0.0

    def tick(self) -> Sums:
        """The sums up to now."""
        sums, now = self.sums, self.env.now
        passed = now - sums.time_s
        if passed > 0:
            sums.running_s += passed * self.running
            sums.waiting_s += passed * self.waiting
            sums.used_units_s += passed * self.used_units
            sums.busy_s += passed * self.busy
            sums.alive_s += passed * self.alive
            sums.time_s = now
        return sums

    def change(self, by: Ordered[float]) -> None:
        """Numbers of one replica change: running, waiting, units in use, busy, alive."""
        self.tick()
        running, waiting, used, busy, alive = by
        self.running += int(running)
        self.waiting += int(waiting)
        self.used_units += used
        self.busy += int(busy)
        self.alive += int(alive)

    def snapshot(self) -> Sums:
        """A copy of the sums up to now."""
        return replace(self.tick())

    def end(self, one: Sequence, how: int, ended_s: float) -> None:
        """A request leaves the deployment; `ended_s` is when its client has all it gets."""
        self.sums.ended += 1
        self.sums.delay_s += one.delay_s
        rows, answered = self.rows, one.answered_tokens
        first = one.first_s
        rows.sent_s.append(one.sent_s)
        stay = ended_s - one.sent_s
        rows.e2e_s.append(stay)
        # Without streaming nobody sees a first token, or the time between two: only the whole answer.
        if self.streaming:
            rows.ttft_s.append(NAN if first is None else first - one.sent_s)
            rows.tpot_s.append(NAN if first is None or answered < 2 else (ended_s - first) / (answered - 1))
        else:
            rows.ttft_s.append(stay if how == DONE else NAN)
            rows.tpot_s.append(NAN)
        rows.machine_s.append(one.machine_s)
        rows.input_tokens.append(one.input_tokens)
        rows.output_tokens.append(answered)
        rows.found_tokens.append(one.found_tokens)
        rows.preemptions.append(one.preemptions)
        rows.tenant.append(one.arrival.tenant)
        rows.priority.append(one.arrival.priority)
        rows.end.append(how)
