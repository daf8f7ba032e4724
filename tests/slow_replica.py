"""A replica written as plainly as possible, every step and every block by itself: what the simulation must equal.

As vLLM's scheduler (v1/core/sched/scheduler.py, v1/core/kv_cache_manager.py): running requests in order, then waiting
ones; the last is preempted when a block is missing; blocks of ended requests stay in the order they were freed in.
Where the simulation differs from vLLM it says so, and this does as the simulation does: the tokens of answers are
counted before those of prompts, and a second copy of a block has no name.
Groups of layers with a window have blocks of their own, never named: a prompt holds for each of them what an engine
counts when it lets a request in; once it decodes, those that the last tokens lie in, at the worst of each block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from infopt.arrivals.arrival import Arrival
from infopt.simulation.outcome import CANCELLED, DONE, REFUSED, TIMED_OUT
from infopt.simulation.setup import Clock, Scheduler


@dataclass(frozen=True)
class Windows:
    """Groups of layers that keep their last tokens; tokens in flight that a prompt keeps beside them."""

    groups: int = 0
    window_tokens: int = 1
    in_flight_tokens: int = 0


@dataclass(eq=False)
class Request:
    number: int
    arrival: Arrival
    last_tokens: int
    target_tokens: int
    computed_tokens: int = 0
    answered_tokens: int = 0
    decodes: bool = False
    blocks: list[int] = field(default_factory=list)
    window_blocks: list[int] = field(default_factory=list)
    found_tokens: int | None = None
    first_s: float | None = None
    end_s: float | None = None
    how: int = DONE
    preemptions: int = 0
    leaves: bool = False


class Blocks:
    """Blocks by number: who uses each, its name, and those that are free in the order in which they are given away."""

    def __init__(self, count: int, keeps: bool) -> None:
        self.free = list(range(count))
        self.users = [0] * count
        self.name: dict[int, int] = {}
        self.keeps = keeps

    def holder(self, name: int) -> int | None:
        return next((block for block, other in self.name.items() if other == name), None)

    def take(self, count: int) -> list[int]:
        taken, self.free = self.free[:count], self.free[count:]
        for block in taken:
            self.users[block] = 1
            self.name.pop(block, None)
        return taken

    def share(self, block: int) -> None:
        if not self.users[block]:
            self.free.remove(block)
        self.users[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Those without a name first, and the end of a prompt before its beginning."""
        for block in [b for b in blocks if b not in self.name] + [b for b in reversed(blocks) if b in self.name]:
            self.users[block] -= 1
            if not self.users[block]:
                if self.keeps:
                    self.free.append(block)
                else:
                    self.free.insert(0, block)


@cache
def last_blocks(tokens: int, window_tokens: int, block_tokens: int) -> int:
    """Blocks that the last tokens of a sequence lie in, token by token; the most while its last block fills."""
    begin = (tokens - 1) // block_tokens * block_tokens
    return max(
        len({token // block_tokens for token in range(max(0, count - window_tokens), count)})
        for count in range(begin + 1, begin + block_tokens + 1)
    )


class SlowReplica:
    def __init__(
        self, clock: Clock, rules: Scheduler, blocks: int, block_tokens: int, aborts: bool, windows: Windows
    ) -> None:
        self.clock, self.rules, self.block_tokens, self.aborts = clock, rules, block_tokens, aborts
        self.windows = windows
        self.blocks = Blocks(blocks, rules.prefix_caching)
        self.watermark = rules.watermark_share * blocks
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.ended: list[Request] = []
        self.steps = self.preemptions = 0
        self.now_s = 0.0

    def run(self, arrivals: Sequence[Arrival]) -> list[Request]:
        coming = [self._request(number, arrival) for number, arrival in enumerate(arrivals)]
        while coming or self.running or self.waiting:
            if not self.running and not self.waiting:
                self.now_s = coming[0].arrival.time_s
            until_s = self.now_s
            self._pass(coming, until_s)
            if self.running or self.waiting:
                self._step(coming)
        return sorted(self.ended, key=lambda one: one.number)

    def _request(self, number: int, arrival: Arrival) -> Request:
        left = arrival.cancelled_after_tokens
        last = min(left, arrival.output_tokens) if left is not None and self.aborts else arrival.output_tokens
        return Request(number, arrival, last, arrival.input_tokens)

    # What happens while a step runs

    def _pass(self, coming: list[Request], until_s: float) -> None:
        """Arrivals, refusals and clients that leave, in order of time."""
        while True:
            events: list[tuple[float, int, Request]] = []
            if coming and coming[0].arrival.time_s <= until_s:
                events.append((coming[0].arrival.time_s, 0, coming[0]))
            for one in [*self.waiting, *self.running]:
                events += self._leaving(one, until_s)
            if not events:
                return
            at_s, kind, one = min(events, key=lambda event: (event[0], event[1], event[2].number))
            if kind == 0:
                coming.pop(0)
                self._arrive(one)
            elif one in self.waiting:
                self.waiting.remove(one)
                self._end(one, at_s, TIMED_OUT if kind == 1 else REFUSED)
            else:
                one.leaves = True

    def _leaving(self, one: Request, until_s: float) -> list[tuple[float, int, Request]]:
        found: list[tuple[float, int, Request]] = []
        patience_s, wait_s = one.arrival.patience_s, self.rules.admission_wait_s
        started = one.found_tokens is not None
        if patience_s is not None and not one.leaves and (self.aborts or not started):
            found.append((one.arrival.time_s + patience_s, 1, one))
        if wait_s is not None and not started:
            found.append((one.arrival.time_s + wait_s, 2, one))
        return [event for event in found if event[0] <= until_s]

    def _arrive(self, one: Request) -> None:
        most = self.rules.most_waiting
        if most is not None and len(self.waiting) >= most:
            self._end(one, one.arrival.time_s, REFUSED)
        else:
            self._queue(one)

    def _queue(self, one: Request) -> None:
        self.waiting.append(one)
        self.waiting.sort(key=lambda one: (one.arrival.priority if self.rules.by_priority else 0, one.number))

    def _end(self, one: Request, at_s: float, how: int) -> None:
        one.end_s = at_s
        left, patience_s = one.arrival.cancelled_after_tokens, one.arrival.patience_s
        if how == DONE and left is not None and left < one.arrival.output_tokens:
            how = CANCELLED
        if how == DONE and patience_s is not None and at_s - one.arrival.time_s > patience_s:
            how = TIMED_OUT
        one.how = how
        self.ended.append(one)

    # A step

    def _step(self, coming: list[Request]) -> None:
        alone = self.rules.prefill_first and (
            any(not one.decodes for one in self.running) or self._next(self.rules.max_num_batched_tokens) is not None
        )
        chunks = self._schedule(decodes=not alone, let_in=alone == self.rules.prefill_first)
        if alone and not chunks:
            alone = False
            chunks = self._schedule(decodes=True, let_in=False)
        decoding = [one for one in self.running if one.decodes and not alone]
        times_s = [self.clock.chunk_s(tokens, one.computed_tokens) for one, tokens in chunks]
        if decoding:
            context = sum(one.computed_tokens for one in decoding) / len(decoding) + 1
            base_s = self.clock.decode_s(len(decoding), context)
        else:
            base_s = self.clock.prompt_step_s(len(chunks))
        self._pass(coming, self.now_s + base_s + sum(times_s))
        self.now_s += base_s + sum(times_s)
        self.steps += 1
        self._finish(decoding, chunks)

    def _finish(self, decoding: list[Request], chunks: list[tuple[Request, int]]) -> None:
        for one in decoding:
            one.computed_tokens += 1
            one.answered_tokens += 1
        for one, tokens in chunks:
            one.computed_tokens += tokens
            if one.computed_tokens == one.target_tokens:
                self._first_token(one)
        for one in sorted(decoding, key=lambda one: one.number):
            if one.answered_tokens >= one.last_tokens:
                self._leave(one, DONE)
        for one in [one for one in self.running if one.leaves]:
            self._leave(one, TIMED_OUT)
        for one in [one for one in self.waiting if one.leaves]:
            self.waiting.remove(one)
            self._end(one, self.now_s, TIMED_OUT)

    def _first_token(self, one: Request) -> None:
        one.answered_tokens += 1
        one.first_s = self.now_s if one.first_s is None else one.first_s
        if one.answered_tokens >= one.last_tokens:
            self._leave(one, DONE)
            return
        one.decodes = True
        kept = self._window_blocks(one, one.computed_tokens)
        self.blocks.release(one.window_blocks[kept:])
        del one.window_blocks[kept:]

    def _window_blocks(self, one: Request, tokens: int) -> int:
        """Blocks of all its groups with a window."""
        groups, window, in_flight = self.windows.groups, self.windows.window_tokens, self.windows.in_flight_tokens
        if one.decodes:
            return groups * last_blocks(tokens, window, self.block_tokens)
        return groups * (-(-min(tokens, window - 1 + in_flight) // self.block_tokens) + 1)

    def _leave(self, one: Request, how: int) -> None:
        self.running.remove(one)
        self.blocks.release(one.window_blocks + one.blocks)
        self._end(one, self.now_s, how)

    def _schedule(self, decodes: bool, let_in: bool = True) -> list[tuple[Request, int]]:
        left_tokens = self.rules.max_num_batched_tokens
        left_tokens -= sum(one.decodes for one in self.running) if decodes else 0
        scheduled: dict[Request, int] = {}
        preempted = False
        for one in list(self.running):
            if one not in self.running or (one.decodes and not decodes):
                continue
            tokens = 1 if one.decodes else self._chunk(one, one.computed_tokens, left_tokens)
            while one in self.running and not self._grow(one, one.computed_tokens + tokens):
                last = self._last()
                left_tokens += (1 if decodes else 0) if last.decodes else scheduled.get(last, 0)
                scheduled.pop(last, None)
                self._preempt(last)
                preempted = True
            if one not in self.running:
                continue
            if not one.decodes and tokens:
                scheduled[one] = tokens
                left_tokens -= tokens
        self._name(scheduled)
        while let_in and not preempted and (one := self._next(left_tokens, bool(scheduled))) is not None:
            scheduled[one] = self._admit(one, left_tokens)
            left_tokens -= scheduled[one]
        return list(scheduled.items())

    def _chunk(self, one: Request, computed_tokens: int, left_tokens: int) -> int:
        rest = one.target_tokens - computed_tokens
        if not self.rules.chunked:
            return rest
        return min(rest, max(0, left_tokens), self.rules.chunk_tokens or rest)

    def _last(self) -> Request:
        if self.rules.by_priority:
            return max(self.running, key=lambda one: (one.arrival.priority, one.number))
        return self.running[-1]

    def _preempt(self, one: Request) -> None:
        self.running.remove(one)
        self.blocks.release(one.window_blocks + one.blocks)
        one.blocks, one.window_blocks = [], []
        one.computed_tokens, one.decodes = 0, False
        one.target_tokens = one.arrival.input_tokens + one.answered_tokens
        one.preemptions += 1
        self.preemptions += 1
        self._queue(one)

    def _found(self, one: Request) -> list[int]:
        """Blocks that hold the beginning of a prompt; never its last token."""
        found: list[int] = []
        if not self.rules.prefix_caching:
            return found
        for name in one.arrival.prefix[: (one.target_tokens - 1) // self.block_tokens]:
            block = self.blocks.holder(name)
            if block is None:
                break
            found.append(block)
        return found

    def _next(self, left_tokens: int, scheduled: bool = False) -> Request | None:
        """Who is let in next, if there is room."""
        if not self.waiting or len(self.running) >= self.rules.max_num_seqs or left_tokens <= 0:
            return None
        one = self.waiting[0]
        found = self._found(one)
        computed = len(found) * self.block_tokens
        rest = one.target_tokens - computed
        if not self.rules.chunked and rest > left_tokens and scheduled:
            return None
        whole = self.rules.whole_prompt_check or not self.rules.chunked
        tokens = one.target_tokens if whole else computed + self._chunk(one, computed, left_tokens)
        need = -(-tokens // self.block_tokens) - len(found) + self._window_blocks(one, tokens)
        need += sum(not self.blocks.users[block] for block in found)
        return one if need + (self.watermark if self.running else 0) <= len(self.blocks.free) else None

    def _admit(self, one: Request, left_tokens: int) -> int:
        self.waiting.remove(one)
        found = self._found(one)
        for block in found:
            self.blocks.share(block)
        one.blocks = list(found)
        one.computed_tokens = len(found) * self.block_tokens
        if one.found_tokens is None:
            one.found_tokens = one.computed_tokens
        self.running.append(one)
        tokens = self._chunk(one, one.computed_tokens, left_tokens)
        assert self._grow(one, one.computed_tokens + tokens)
        self._name({one: tokens})
        return tokens

    def _grow(self, one: Request, tokens: int) -> bool:
        more = max(0, -(-tokens // self.block_tokens) - len(one.blocks))
        windows = max(0, self._window_blocks(one, tokens) - len(one.window_blocks))
        if more + windows > len(self.blocks.free):
            return False
        one.blocks += self.blocks.take(more)
        one.window_blocks += self.blocks.take(windows)
        return True

    def _name(self, scheduled: dict[Request, int]) -> None:
        if not self.rules.prefix_caching:
            return
        for one, tokens in scheduled.items():
            before, after = (
                min(one.computed_tokens + more, one.arrival.input_tokens) // self.block_tokens for more in (0, tokens)
            )
            for block, name in zip(one.blocks[before:after], one.arrival.prefix[before:after], strict=False):
                if self.blocks.holder(name) is None:
                    self.blocks.name[block] = name
