"""A deployment under traffic: requests arrive, find a replica, are answered, given up or refused.

Clients may leave when they have waited too long; a request that is not let in in time, or finds a full queue, is
refused. A replica that fails gives its requests to the others, which start them anew; while none is left they wait for
one that recovers. What is measured and how: outcome.py.
"""

from collections import deque
from collections.abc import Generator, Iterator
from itertools import count
from typing import Any

from infopt.arrivals.arrival import Arrival, Source
from infopt.errors import InfoptError
from infopt.ledgers.prefix_cache import hit_block_tokens
from infopt.simulation.meter import Meter
from infopt.simulation.outcome import DONE, LOST, REFUSED, TIMED_OUT, Outcome, Sums
from infopt.simulation.replica import Replica
from infopt.simulation.routing import router
from infopt.simulation.sequence import Sequence
from infopt.simulation.setup import Loss, Setup, outages
from infopt.simulation.static_replica import StaticReplica


def simulate(source: Source, setup: Setup) -> Outcome:
    """All requests of a source through a deployment.

    Raises InfoptError for a request that no replica can ever serve, for an empty source, and for losses of replicas
    that do not exist.
    """
    return Deployment(source, setup).run()


class Deployment:
    """One run."""

    def __init__(self, source: Source, setup: Setup) -> None:
        import simpy

        self.env = simpy.Environment()
        self.source = source
        self.setup = setup
        self.meter = Meter(self.env, setup.streaming)
        self.every = self._every()
        entry_tokens = source.prefix_block_tokens * self.every
        kind = StaticReplica if setup.scheduler.batching == "static" else Replica
        self.replicas = [
            kind(self.env, setup, number, self.meter, entry_tokens, self._ended) for number in range(setup.replicas)
        ]
        self.route = router(setup.routing, self.replicas, setup.seed)
        self.numbers = count()
        self.homeless: deque[Sequence] = deque()
        self.arrivals_left = True
        self.warm: Sums | None = None
        self.last_arrival: Sums | None = None
        self.finished = self.env.event()
        self.down = 0

    def run(self) -> Outcome:
        env, source = self.env, self.source
        for loss in self.setup.losses:
            if not 0 <= loss.replica < len(self.replicas):
                raise InfoptError(
                    f"replica {loss.replica} cannot fail: there are {len(self.replicas)}, numbered from 0"
                )
        for loss in outages(self.setup.losses):
            env.process(self._lose(loss))
        rules = self.setup.scheduler
        if source.users is not None and rules.batching == "static" and rules.static_wait_s is None:
            raise InfoptError("static batches and users who wait for their answers: give the longest wait for a batch")
        stream = source.stream()
        if source.users is None:
            env.process(self._open(stream))
        else:
            env.process(self._closed(stream, source.users))
        env.process(self._sample())
        env.run(until=self.finished)
        return self._outcome()

    # Arrivals

    def _open(self, stream: Iterator[Arrival]) -> Generator[Any, Any, None]:
        env = self.env
        for index, arrival in enumerate(stream):
            if arrival.time_s > env.now:
                yield env.timeout(arrival.time_s - env.now)
            self._submit(index, arrival)
        self._arrived_all()

    def _closed(self, stream: Iterator[Arrival], users: int) -> Generator[Any, Any, None]:
        numbered = enumerate(stream)
        yield self.env.all_of([self.env.process(self._user(numbered)) for _ in range(users)])
        self._arrived_all()

    def _user(self, numbered: Iterator[tuple[int, Arrival]]) -> Generator[Any, Any, None]:
        for index, arrival in numbered:
            if arrival.time_s > 0:
                yield self.env.timeout(arrival.time_s)
            one = self._submit(index, arrival)
            if not one.gone:
                one.done = self.env.event()
                yield one.done
            if one.delay_s:
                yield self.env.timeout(one.delay_s)

    def _arrived_all(self) -> None:
        if not self.meter.sums.arrived:
            raise InfoptError("no request arrives: the traffic is empty")
        self.arrivals_left = False
        for replica in self.replicas:
            replica.close()
        self.last_arrival = self.last_arrival or self.meter.snapshot()
        self._finish_if_done()

    def _submit(self, index: int, arrival: Arrival) -> Sequence:
        env, rules, sums = self.env, self.setup.scheduler, self.meter.sums
        self._check(index, arrival)
        warm = env.now >= self.source.warmup_s and sums.arrived >= self.source.warmup_requests
        if self.warm is None and warm:
            self.warm = self.meter.snapshot()
        sums.arrived += 1
        one = Sequence(index, arrival, env.now, arrival.prefix[self.every - 1 :: self.every], self.setup.aborts)
        if arrival.patience_s is not None:
            self._after(arrival.patience_s, one, TIMED_OUT)
        if rules.admission_wait_s is not None:
            self._after(rules.admission_wait_s, one, REFUSED)
        self._place(one)
        return one

    def _check(self, index: int, arrival: Arrival) -> None:
        """Refuse what no replica could ever serve."""
        whole, most = arrival.input_tokens + arrival.output_tokens, self.setup.max_tokens
        if whole > most:
            raise InfoptError(
                f"request {index + 1} at {arrival.time_s:g} s: {arrival.input_tokens} + {arrival.output_tokens} tokens "
                f"are more than the {most} that the engine accepts; raise --ctx or leave it out of the traffic"
            )
        units, capacity = self.setup.cache.units(whole - 1), self.setup.cache.capacity
        if units > capacity:
            raise InfoptError(
                f"request {index + 1} at {arrival.time_s:g} s: its {whole} tokens need more cache than a replica has "
                f"({units:,} of {capacity:,} units); it would wait for ever"
            )

    def _place(self, one: Sequence) -> None:
        one.index = next(self.numbers)  # whoever starts anew is behind those that came meanwhile
        replica = self.route(one)
        if replica is None:
            self._without_home(one)
            return
        most = self.setup.scheduler.most_waiting
        if most is not None and replica.queue.count >= most and not one.started:
            one.gone = True
            self._ended(one, REFUSED)
            return
        replica.submit(one)

    def _without_home(self, one: Sequence) -> None:
        """No replica is alive: wait for one that comes back, if any does."""
        if not self.down:
            one.gone = True
            self._ended(one, LOST)
            return
        self.homeless.append(one)
        self.meter.change((0, 1, 0, 0, 0))

    def _leave_homeless(self, one: Sequence) -> None:
        self.homeless.remove(one)
        self.meter.change((0, -1, 0, 0, 0))

    # Departures

    def _after(self, wait_s: float, one: Sequence, how: int) -> None:
        """Give a request up after so long, unless it has ended, or was let in where that is enough."""

        def give_up(_: Any) -> None:
            if one.gone or (how == REFUSED and one.started):
                return
            if one in self.homeless:
                self._leave_homeless(one)
                one.gone = True
                self._ended(one, how)
            elif one.replica is not None and (self.setup.aborts or not one.started):
                one.replica.leave(one, how)

        self.env.timeout(wait_s).callbacks.append(give_up)

    def _ended(self, one: Sequence, how: int) -> None:
        patience_s = one.arrival.patience_s
        stay_s = self.env.now + one.delay_s - one.sent_s
        if how == DONE and patience_s is not None and stay_s > patience_s:
            how = TIMED_OUT  # computed to its end for a client that had left
        if how == TIMED_OUT:
            one.wasted_tokens += one.answered_tokens
        self.meter.sums.wasted_tokens += one.wasted_tokens
        self.meter.end(one, how, self.env.now + one.delay_s)
        if one.done is not None:
            one.done.succeed()
        if not self.arrivals_left:
            self._finish_if_done()

    def _finish_if_done(self) -> None:
        sums = self.meter.sums
        if sums.ended >= sums.arrived and not self.finished.triggered:
            self.finished.succeed()

    # Losses

    def _lose(self, loss: Loss) -> Generator[Any, Any, None]:
        env, replica = self.env, self.replicas[loss.replica]
        yield env.timeout(loss.time_s)
        self.down += loss.down_s is not None
        for one in replica.fail():
            self._place(one)
        if loss.down_s is None:
            return
        yield env.timeout(loss.down_s)
        self.down -= 1
        replica.recover()
        for one in list(self.homeless):
            self._leave_homeless(one)
            self._place(one)

    # Measuring

    def _sample(self) -> Generator[Any, Any, None]:
        meter = self.meter
        capacity = self.setup.cache.capacity * len(self.replicas)
        while True:
            sums = meter.sums
            share = meter.used_units / capacity if capacity else 0.0
            meter.samples.add((self.env.now, meter.running, meter.waiting, share, sums.output_tokens, sums.ended))
            if self.env.peek() == float("inf"):
                raise RuntimeError(f"simulation stands still at {self.env.now:g} s with {meter.waiting} waiting")
            yield self.env.timeout(meter.samples.every_s)

    def _every(self) -> int:
        """Named blocks of the traffic that make one of the engine's, where they are smaller."""
        block = self.source.prefix_block_tokens
        return -(-hit_block_tokens(self.setup.cache.layout) // block) if block else 1

    def _outcome(self) -> Outcome:
        total = self.meter.snapshot()
        warm, last = self.warm or Sums(), self.last_arrival or total
        closed = self.source.users is not None
        settled = last.time_s - warm.time_s
        end = total if closed or total.time_s - last.time_s > settled else last
        return Outcome(
            rows=self.meter.rows,
            samples=self.meter.samples,
            total=total,
            window=end.since(warm),
            from_s=warm.time_s,
            arrivals_end_s=last.time_s,
            replicas=len(self.replicas),
            seats=self.setup.scheduler.max_num_seqs,
            capacity=self.setup.cache.capacity,
            tenants=self.source.tenants,
            streaming=self.setup.streaming,
            closed=closed,
        )
