"""How many of B equal requests that start together an engine preempts, where its pool does not hold all of them whole.

    step      every running request computes its next tokens, in the order of arrival; then waiting ones are let in
    admitted  while blocks(all tokens it has) <= free blocks and the step has tokens left (max_num_batched_tokens)
    preempted whoever came last, when the next block of another is missing: it gives up all its blocks, waits in front
              of the queue and computes prompt and answer so far anew; nobody is let in during that step
    done      a request of p + o tokens computes p + o - 1 of them: the last is not cached
The scheduler is replayed: steps in which no block is taken and nobody ends are skipped at once.
Without prefix caching, which gives part of the blocks back; no speculation. Requests that arrive apart preempt less.
Source: vLLM 0.32 v1/core/sched/scheduler.py (schedule, _preempt_request), v1/core/kv_cache_manager.py (allocate_slots),
which let in a request only if its whole prompt has room (scheduler_reserve_full_isl; earlier versions did not check).
"""

from collections import deque
from collections.abc import Callable

from infopt.frozen import dataclass
from infopt.ledgers.memory import MemoryLedger
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.terms import Caveat

MOST_WORK = 300_000  # turns of the replay: a tenth of a second


@dataclass(frozen=True, slots=True)
class Replay:
    """preemptions of all requests (one may be preempted more than once) and engine steps until the last ends."""

    preemptions: int
    steps: int


class _Request:
    __slots__ = ("answered", "blocks", "computed")

    def __init__(self) -> None:
        self.answered = self.blocks = self.computed = 0


def preemption(s: Scenario, memory: MemoryLedger) -> Caveat | None:
    """What an engine does with a batch that it takes in and cannot hold; None where it holds it, or takes none in."""
    if not s.engine.preempts or memory.refusals or not 0 < memory.max_sequences < s.batch_per_replica:
        return None
    found = preempted(s, memory)
    load = f"{s.batch_per_replica} requests of {s.input_tokens} + {s.output_tokens} tokens that start together"
    starts = f"{s.engine.engine} starts all the same and preempts"
    if found is None:
        return Caveat("preemption", f"{starts}: of {load} about {memory.max_sequences} stay, the others compute anew")
    if not found.preemptions:
        return None
    about = "" if memory.kv_pool_low_bytes == memory.kv_pool_high_bytes else "about "
    count = f"{about}{found.preemptions} preemption{'s' if found.preemptions > 1 else ''}"
    return Caveat("preemption", f"{starts}: {load} take {count}, each to compute its tokens anew")


def preempted(s: Scenario, memory: MemoryLedger) -> Replay | None:
    """The replay of a scenario's batch on one replica; None where it does not run, or is too long to follow."""
    page = memory.layout
    if not page.kinds or page.separate:
        return None
    return replay(
        blocks=int(page.blocks(memory.kv_pool_bytes_per_gpu)) - page.null_blocks,
        blocks_of=lambda tokens: int(page.request_blocks(tokens)),
        block_tokens=page.block_tokens,
        requests=s.batch_per_replica,
        prompt_tokens=s.input_tokens,
        output_tokens=s.output_tokens,
        most_running_requests=s.max_num_seqs,
        most_tokens=s.max_num_batched_tokens,
    )


def replay(
    blocks: int,
    blocks_of: Callable[[int], int],
    block_tokens: int,
    requests: int,
    prompt_tokens: int,
    output_tokens: int,
    most_running_requests: int,
    most_tokens: int,
) -> Replay | None:
    """The replay; None where one request alone needs more blocks than there are, or it takes more than MOST_WORK.

    blocks_of     blocks of a request of so many tokens; changes at multiples of block_tokens only
    most_running_requests  max_num_seqs;  most_tokens  max_num_batched_tokens
    """
    if requests > MOST_WORK or blocks_of(prompt_tokens + output_tokens - 1) > blocks:  # a request takes a turn at least
        return None
    scheduler = _Scheduler(blocks, blocks_of, prompt_tokens, output_tokens, most_running_requests, most_tokens)
    scheduler.waiting.extend(_Request() for _ in range(requests))
    work = 0
    while scheduler.waiting or scheduler.running:
        work += 1 + len(scheduler.running)
        if work > MOST_WORK:
            return None
        if scheduler.step():
            scheduler.skip(block_tokens)
    return Replay(scheduler.preemptions, scheduler.steps)


class _Scheduler:
    """Requests that wait and run, and the blocks that are free."""

    def __init__(
        self,
        blocks: int,
        blocks_of: Callable[[int], int],
        prompt_tokens: int,
        output_tokens: int,
        most_running_requests: int,
        most_tokens: int,
    ) -> None:
        self.free = blocks
        self.blocks_of = blocks_of
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.most_running_requests = most_running_requests
        self.most_tokens = most_tokens
        self.running: list[_Request] = []
        self.waiting: deque[_Request] = deque()
        self.preemptions = self.steps = 0

    def step(self) -> bool:
        """One step; whether it was a plain one: every running request decoded, nobody came or went."""
        self.steps += 1
        before = (self.preemptions, len(self.running))
        scheduled, left_tokens = self._continue()
        if self.preemptions == before[0]:
            self._admit(scheduled, left_tokens)
        plain = len(self.running) == before[1] and all(tokens == 1 for _, tokens in scheduled)
        for one, tokens in scheduled:
            one.computed += tokens
            if one.computed == self.prompt_tokens + one.answered:
                one.answered += 1
            if one.answered == self.output_tokens:
                self._release(one)
        done = [one for one in self.running if one.answered < self.output_tokens]
        plain = plain and len(done) == before[1]
        self.running = done
        return plain

    def skip(self, block_tokens: int) -> None:
        """Plain steps before anybody needs a block or ends."""
        if not self.running:
            return
        steps = min(min(-one.computed % block_tokens, self.output_tokens - one.answered - 1) for one in self.running)
        for one in self.running:
            one.computed += steps
            one.answered += steps
        self.steps += steps

    def _continue(self) -> tuple[list[tuple[_Request, int]], int]:
        """Tokens of those that run, and what is left for others; whoever came last makes room."""
        scheduled: list[tuple[_Request, int]] = []
        left_tokens = self.most_tokens
        while len(scheduled) < len(self.running) and left_tokens > 0:
            one = self.running[len(scheduled)]
            tokens = min(self.prompt_tokens + one.answered - one.computed, left_tokens)
            while not self._take(one, one.computed + tokens):
                last = self.running.pop()
                self._release(last)
                last.computed = 0
                self.waiting.appendleft(last)
                self.preemptions += 1
                if last is one:
                    return scheduled, left_tokens
            scheduled.append((one, tokens))
            left_tokens -= tokens
        return scheduled, left_tokens

    def _admit(self, scheduled: list[tuple[_Request, int]], left_tokens: int) -> None:
        while left_tokens > 0 and self.waiting and len(self.running) < self.most_running_requests:
            one = self.waiting[0]
            whole = self.prompt_tokens + one.answered
            tokens = min(whole, left_tokens)
            if self.blocks_of(whole) > self.free or not self._take(one, tokens):
                return
            self.running.append(self.waiting.popleft())
            scheduled.append((one, tokens))
            left_tokens -= tokens

    def _take(self, one: _Request, tokens: int) -> bool:
        """The blocks that so many tokens of a request need more; nothing where they are not free."""
        more = max(0, self.blocks_of(tokens) - one.blocks)
        if more > self.free:
            return False
        self.free -= more
        one.blocks += more
        return True

    def _release(self, one: _Request) -> None:
        self.free += one.blocks
        one.blocks = 0
