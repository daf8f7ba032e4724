"""One replica over time: it makes steps while requests run, and sleeps while there are none.

Steps in which a prompt is computed are made one by one. While only answers grow, nothing changes until the first of
them ends, a block is missing or somebody new can be let in: all steps up to there are one jump, whose length is the
sum of its steps' (linear in context: the middle step's, times their number). A request that arrives cuts a jump at the
end of the step that runs. So a request costs a few turns of this loop, however long its answer.
A replica that comes back while a step of its earlier life would still run starts when that step would have ended.
Ignored: the time to choose what a step computes.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from infopt.simulation.batch import Batch
from infopt.simulation.meter import Meter
from infopt.simulation.outcome import CANCELLED, DONE
from infopt.simulation.queue import Queue
from infopt.simulation.sequence import Sequence
from infopt.simulation.setup import Setup

if TYPE_CHECKING:
    import simpy

# Steps of one jump where a step is not linear in context: its mean is taken at the middle of so many.
CURVED_STEPS = 32
Ended = Callable[[Sequence, int], None]
Life = Generator[Any, Any, None]


class Replica:
    """A replica of `setup`; `ended` is told of every request that leaves it, and how."""

    def __init__(
        self, env: "simpy.Environment", setup: Setup, number: int, meter: Meter, entry_tokens: int, ended: Ended
    ) -> None:
        import simpy

        self.interrupt = simpy.Interrupt
        self.env = env
        self.number = number
        self.clock = setup.clock
        self.rules = setup.scheduler
        self.aborts = setup.aborts
        self.meter = meter
        self.ended = ended
        self.queue = Queue(self.rules.by_priority)
        self.batch = Batch(setup, entry_tokens, self.queue)
        self.alive = True
        self.busy = False
        self.life = 0  # counts failures: a step that runs during one ends unseen
        self._leaving: list[tuple[Sequence, int]] = []
        self._can_cut = False
        self._asleep: Any = None
        self._told: tuple[int, int, float, int, int] = (0, 0, 0.0, 0, 0)
        self.process = env.process(self.run())
        self.tell()

    @property
    def load(self) -> int:
        """Requests here."""
        return len(self.batch.running) + self.queue.count

    @property
    def present(self) -> int:
        """Requests that are let in and not given back."""
        return len(self.batch.running)

    def submit(self, one: Sequence) -> None:
        """A request arrives."""
        one.replica = self
        behind = self.queue.count > 0 and not self.rules.by_priority
        self.queue.push(one)
        self.tell()
        # Whoever waits behind others, or for a seat, changes nothing.
        if not behind and len(self.batch.running) < self.rules.max_num_seqs:
            self.batch.blocked = False
            self.wake()

    def leave(self, one: Sequence, how: int) -> None:
        """A client is gone: its request is dropped at the end of the step that runs, at once where it only waits."""
        if one in self.batch.running:
            self._leaving.append((one, how))
        else:
            self.queue.drop(one)
            self.batch.blocked = False
            self.ended(one, how)
            self.tell()
        self.wake()

    def close(self) -> None:
        """Nobody else is to come; that changes nothing here."""

    def wake(self) -> None:
        """Something has changed: look again, at the end of the step that runs."""
        if self._can_cut:
            self._can_cut = False
            self.process.interrupt()
        elif self._asleep is not None:
            self._asleep.succeed()
            self._asleep = None

    def fail(self) -> list[Sequence]:
        """The replica is lost, its cache with it: all its requests, to be started anew elsewhere."""
        self.life += 1
        self.alive = self.busy = False
        self._drop_leaving()
        lost = self._all()
        self.batch.clear()
        self.queue.clear()
        for one in lost:
            one.wasted_tokens += one.answered_tokens
            one.answered_tokens = 0
            one.restart()
            one.first_s, one.delay_s = None, 0.0
        self.tell()
        self.wake()
        return lost

    def _all(self) -> list[Sequence]:
        """All requests here, those let in first."""
        return [*self.batch.running, *self.queue.waiting()]

    def recover(self) -> None:
        """It is back, with an empty cache."""
        self.alive = True
        self.tell()

    def tell(self, growing_units: int = 0) -> None:
        """Tell the meter what has changed since the last time; `growing_units` are taken while a jump lasts."""
        before = self._told
        used = self.batch.pool.used + growing_units / 2
        now = (self.present, self.queue.count, used, int(self.busy), int(self.alive))
        if now != before:
            self.meter.change([new - old for new, old in zip(now, before, strict=True)])
            self._told = now

    # The loop

    def run(self) -> Life:
        """The replica's life."""
        while True:
            self._drop_leaving()
            batch = self.batch
            if not batch.running and not self.queue.count:
                self.busy = False
                self.tell()
                self._asleep = self.env.event()
                yield self._asleep
            elif batch.prefilling or batch.may_let_in() or not (steps := self._plain_steps()):
                yield from self._step()
            else:
                yield from self._jump(steps)

    def _plain_steps(self) -> int:
        steps = self.batch.plain_steps()
        return steps if self.clock.linear else min(steps, CURVED_STEPS)

    def _step(self) -> Life:
        """One step: prompts, and a token of every answer unless prompts go first."""
        batch, clock, life = self.batch, self.clock, self.life
        before = batch.preemptions
        decodes, chunks = batch.choose()
        self.meter.sums.preemptions += batch.preemptions - before
        if not decodes and not chunks:
            raise RuntimeError(f"replica {self.number}: {self.queue.count} wait, and none can be let in")
        times_s = [clock.chunk_s(tokens, one.computed_tokens) for one, tokens in chunks]
        base_s = self._decode_s(1) if decodes else clock.prompt_step_s(len(chunks))
        self.busy = True
        self.tell()
        yield self.env.timeout(base_s + sum(times_s))
        if life != self.life:
            return
        sums = self.meter.tick()
        sums.steps += 1
        if decodes:
            self._decoded(1, base_s)
        for (one, tokens), time_s in zip(chunks, times_s, strict=True):
            one.machine_s += time_s if decodes else time_s + base_s / len(chunks)
            sums.prompt_tokens += tokens
            if batch.computed(one, tokens):
                self._first_token(one)
        self._end_answers()

    def _jump(self, steps: int) -> Life:
        """Steps in which only answers grow; somebody's arrival ends them early."""
        batch, life = self.batch, self.life
        expected_units = batch.growth.needed(batch.step, steps)
        self.busy = True
        self.tell(expected_units)
        steps, took_s = yield from self._decode(steps)
        if life != self.life:
            return
        units = batch.growth.needed(batch.step, steps)
        batch.pool.take(units)
        sums = self.meter.tick()
        sums.steps += steps
        sums.used_units_s += took_s * (units - expected_units) / 2
        self._decoded(steps, took_s)
        self._end_answers()

    def _decode(self, steps: int) -> Generator[Any, Any, tuple[int, float]]:
        """Let decode steps pass; how many were made until they were cut, and how long they took."""
        life, began_s, took_s = self.life, self.env.now, steps * self._decode_s(steps)
        self._can_cut = True
        try:
            yield self.env.timeout(took_s)
        except self.interrupt:
            if life == self.life:
                steps = self._steps_by(self.env.now - began_s, steps)
                took_s = steps * self._decode_s(steps)
                yield self.env.timeout(max(0.0, began_s + took_s - self.env.now))
        self._can_cut = False
        return steps, took_s

    def _decode_s(self, steps: int) -> float:
        """The middle one of so many decode steps."""
        batch = self.batch
        return self.clock.decode_s(batch.decoding, batch.context_tokens / batch.decoding + (steps + 1) / 2)

    def _steps_by(self, elapsed_s: float, most: int) -> int:
        """The fewest steps that take at least so long."""
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            if middle * self._decode_s(middle) >= elapsed_s:
                high = middle
            else:
                low = middle + 1
        return low

    # What steps bring

    def _decoded(self, steps: int, took_s: float) -> None:
        sums, tokens = self.meter.sums, steps * self.batch.decoding
        sums.decode_steps += steps
        sums.decoded_tokens += tokens
        sums.output_tokens += tokens
        self.batch.decoded(steps, took_s)

    def _first_token(self, one: Sequence) -> None:
        """The first token, or the next one after a preemption."""
        self.meter.sums.output_tokens += 1
        if one.first_s is None:
            one.delay_s = self.clock.first_token_delay_s(one.input_tokens, one.found_tokens)
            one.first_s = self.env.now + one.delay_s
        if one.answered_tokens >= one.last_tokens:
            self.batch.remove(one)
            self._end(one)
        else:
            self.batch.join(one)

    def _end_answers(self) -> None:
        for one in self.batch.ended():
            self._end(one)

    def _end(self, one: Sequence) -> None:
        one.gone = True
        left = one.arrival.cancelled_after_tokens
        if left is None or left >= one.output_tokens:
            self.ended(one, DONE)
            return
        one.wasted_tokens += max(0, one.answered_tokens - left)
        self.ended(one, CANCELLED)

    def _drop_leaving(self) -> None:
        """Requests of clients that have left; some have ended meanwhile, or were preempted."""
        for one, how in self._leaving:
            if one.gone:
                continue
            if one in self.batch.running:
                self.batch.remove(one)
                one.gone = True
            else:
                self.queue.drop(one)
            self.ended(one, how)
        self._leaving.clear()
