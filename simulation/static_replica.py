"""One replica with static batches: a group is gathered, runs until its longest answer ends, and then the next one.

Prompts of a group are computed in steps of at most max_num_batched_tokens, then all of it decodes. A seat whose answer
has ended stays empty, and its cache stays reserved for prompt and answer until the group ends; steps get shorter as
answers end, which is more than engines do that compute padding (so a gain over static batches is no less than found).
Clients that do not stream get their answers when the group ends. A group starts when `static_batch` requests wait (or
as many as the cache holds whole), when the first has waited for `static_wait_s`, or when nobody else is to come.
"""

from typing import Any

from infopt.simulation.replica import Life, Replica
from infopt.simulation.sequence import Sequence


class StaticReplica(Replica):
    """The same replica, its requests in groups."""

    _alarm_s: float | None = None
    closing = False

    def __init__(self, *given: Any) -> None:
        self._held: list[Sequence] = []
        super().__init__(*given)

    @property
    def present(self) -> int:
        """Those whose answer is held back as well."""
        return len(self.batch.running) + len(self._held)

    def submit(self, one: Sequence) -> None:
        """A request arrives; it never joins a group that runs."""
        one.replica = self
        self.queue.push(one)
        self.tell()
        if not self.batch.running:
            self.wake()

    def leave(self, one: Sequence, how: int) -> None:
        """A client is gone; its answer may be held back for the group."""
        if one not in self._held:
            super().leave(one, how)
            return
        self._held.remove(one)
        one.gone = True
        self.ended(one, how)
        self.tell()

    def _all(self) -> list[Sequence]:
        held, self._held = self._held, []
        return [*held, *super()._all()]

    def close(self) -> None:
        """Nobody else is to come: a group that is not full starts as well."""
        self.closing = True
        if not self.batch.running:
            self.wake()

    def run(self) -> Life:
        """Groups, one after the other."""
        while True:
            group = self._gather()
            if not group:
                self.busy = False
                self.tell()
                self._asleep = self.env.event()
                yield self._asleep
                continue
            yield from self._serve(group)

    def _gather(self) -> list[Sequence]:
        """The next group, let in; empty while it is not full and may still wait."""
        head = self.queue.head()
        if head is None:
            return []
        wait_s = self.rules.static_wait_s
        due = self.closing or (wait_s is not None and self.env.now >= head.sent_s + wait_s)
        if self.queue.count < self.rules.static_batch and not due:
            self._set_alarm(head, wait_s)
            return []
        group: list[Sequence] = []
        while len(group) < self.rules.static_batch and (one := self.queue.head()) is not None:
            reserved = self.batch.units(one.input_tokens + one.output_tokens - 1)
            if reserved > self.batch.pool.available:
                break
            self.batch.reserve(self.queue.pop(), reserved)
            group.append(one)
        return group

    def _set_alarm(self, head: Sequence, wait_s: float | None) -> None:
        if wait_s is None:
            return
        at_s = head.sent_s + wait_s
        if self._alarm_s is not None and self._alarm_s >= self.env.now:
            return
        self._alarm_s = at_s

        def ring(_: Any) -> None:
            self._alarm_s = None
            if not self.batch.running:
                self.wake()

        self.env.timeout(max(0.0, at_s - self.env.now)).callbacks.append(ring)

    def _serve(self, group: list[Sequence]) -> Life:
        life = self.life
        self.busy = True
        self.tell()
        yield from self._prompts(group, life)
        while life == self.life and self.batch.decoding:
            yield from self._decode_group(life)
            self._drop_leaving()
            self.tell()
        if life == self.life:
            for one in group:
                self.batch.unreserve(one)
            held, self._held = self._held, []
            for one in held:
                super()._end(one)
            self.tell()

    def _end(self, one: Sequence) -> None:
        """Hold an answer back where nobody reads it as it comes."""
        if self.meter.streaming:
            super()._end(one)
        else:
            self._held.append(one)

    def _drop_leaving(self) -> None:
        """Those whose answer has ended meanwhile as well, and is held back."""
        for one, how in self._leaving:
            if one in self._held:
                self.leave(one, how)
        super()._drop_leaving()

    def _prompts(self, group: list[Sequence], life: int) -> Life:
        """Whole prompts in steps of as many tokens as one holds, one prompt at least."""
        waiting = list(group)
        while waiting and life == self.life:
            chunks = [waiting.pop(0)]
            left_tokens = self.rules.max_num_batched_tokens - chunks[0].target_tokens
            while waiting and waiting[0].target_tokens <= left_tokens:
                left_tokens -= waiting[0].target_tokens
                chunks.append(waiting.pop(0))
            times_s = [self.clock.chunk_s(one.target_tokens, 0) for one in chunks]
            base_s = self.clock.prompt_step_s(len(chunks))
            yield self.env.timeout(base_s + sum(times_s))
            if life != self.life:
                return
            sums = self.meter.tick()
            sums.steps += 1
            for one, time_s in zip(chunks, times_s, strict=True):
                one.machine_s += time_s + base_s / len(chunks)
                sums.prompt_tokens += one.target_tokens
                if not one.gone and self.batch.computed(one, one.target_tokens):
                    self._first_token(one)
            self.tell()

    def _decode_group(self, life: int) -> Life:
        steps, took_s = yield from self._decode(self.batch.steps_to_end())
        if life != self.life:
            return
        self.meter.tick().steps += steps
        self._decoded(steps, took_s)
        self._end_answers()
