"""The requests that run in one replica: their blocks, what the next step computes, and what a step changes.

    let in      in order, while a seat, blocks and tokens of the step are left, and nobody had to be preempted
    preempted   whoever came last, when another's next block is missing: it gives up its blocks and computes anew
    done        a request of p + o tokens computes p + o - 1 of them: the last is not cached
Decoding sequences are not touched step by step: `step` counts, and each knows the step it joined at and ends at.
Held against vLLM's v1/core/sched/scheduler.py and kv_cache_manager.py (allocate_slots); where it differs:
- tokens of answers are counted before those of prompts; vLLM goes through running requests in order, so a prompt that
  is older than answers may leave them without a token (only where chunk_tokens lets several prompts run at once)
- by priority, a request that is preempted for its own block leaves those behind it their step; vLLM stops there
- prompts that are not cut may be longer than a step; vLLM does not start like that
- prompts first is an order of vLLM before V1 and of SGLang: nobody is let in beside answers, and prompts that lost
  their blocks to answers wait until a step of answers is made
- a prompt holds for windows what vLLM counts when it lets it in: a whole step in flight, where its chunks may be less
- with windows, and room for a first chunk enough: a prompt whose found blocks are given up while answers grow needs
  less, and is let in when the next answer ends, not at once
Blocks behind windows are given back when a prompt is done, and as its answer grows (Cache.decoding_units).
Ignored: swapping to host memory, encoders, drafts, steps planned ahead of the device (async scheduling).
ledgers/preemption.py replays the same for equal requests; tests/slow_replica.py for any, block by block.
"""

import heapq
import math

from infopt.ledgers.prefix_cache import hit_block_tokens
from infopt.simulation.growth import Units, growth_of
from infopt.simulation.pool import Pool
from infopt.simulation.queue import Queue
from infopt.simulation.sequence import Sequence
from infopt.simulation.setup import Setup

Chunk = tuple[Sequence, int]


class Batch:
    """decoding  sequences that decode;  context_tokens  that they have cached, all together
    step      decode steps so far;  share_s  time of each of them over its sequences, summed
    """

    def __init__(self, setup: Setup, entry_tokens: int, queue: Queue) -> None:
        self.rules = setup.scheduler
        self.queue = queue
        self.entry_tokens = entry_tokens
        self.hit_block_tokens = hit_block_tokens(setup.cache.layout)
        self.gives_back = setup.cache.gives_back
        block_tokens = setup.cache.block_tokens
        self.units = Units(setup.cache.units, block_tokens)
        self.decoding_units = Units(setup.cache.decoding_units, block_tokens) if self.gives_back else self.units
        self.watermark_units = setup.scheduler.watermark_share * setup.cache.capacity
        unit_of_entry = math.floor(setup.cache.kept_units(entry_tokens))  # whole units: sums of them stay exact
        self.pool = Pool(setup.cache.capacity, unit_of_entry, self.rules.prefix_caching)
        self.growth = growth_of(setup.cache, self.decoding_units)
        self.running: dict[Sequence, None] = {}
        self.prefilling: dict[Sequence, None] = {}
        self.decoding = self.context_tokens = self.step = 0
        self.share_s = 0.0
        self.preemptions = 0
        self.blocked = False
        self.checks_whole_prompts = self.rules.whole_prompt_check or not self.rules.chunked
        self.reserved: dict[Sequence, int] = {}
        self._ends: list[tuple[int, int, Sequence]] = []

    # What could happen next

    def may_let_in(self, left_tokens: int | None = None) -> bool:
        """Whether the next request can be let in; asked again only after something has changed."""
        if self.blocked or len(self.running) >= self.rules.max_num_seqs:
            return False
        if left_tokens is None:
            left_tokens = self.rules.max_num_batched_tokens - (0 if self.rules.prefill_first else self.decoding)
        head = self.queue.head()
        if head is None or left_tokens <= 0:
            return False
        room = self._has_room(head, left_tokens)
        self.blocked = not room and self.checks_whole_prompts
        return room

    def plain_steps(self) -> int:
        """Steps in which only answers grow, up to the first that ends or finds no block; 0 where the next does not."""
        return self.growth.most_steps(self.step, self.steps_to_end(), self.pool.available) if self.decoding else 0

    def choose(self) -> tuple[bool, list[Chunk]]:
        """Whether the next step decodes, and the prompt tokens it computes; their blocks are taken."""
        before = self.preemptions
        alone = self.rules.prefill_first and (bool(self.prefilling) or self.may_let_in())
        chunks, left_tokens = self._continue(decodes=not alone)
        if self.preemptions == before and alone == self.rules.prefill_first:
            self._let_in(chunks, left_tokens)
        if alone and not chunks:  # the prompt had to make room for answers
            alone = False
            chunks, _ = self._continue(decodes=True)
        return self.decoding > 0 and not alone, chunks

    # What a step changes

    def decoded(self, steps: int, took_s: float) -> None:
        """Every decoding sequence has got `steps` tokens more."""
        self.step += steps
        self.context_tokens += steps * self.decoding
        self.share_s += took_s / self.decoding

    def computed(self, one: Sequence, tokens: int) -> bool:
        """Prompt tokens of a request are done; whether its next token came with them."""
        one.computed_tokens += tokens
        if one.computed_tokens < one.target_tokens:
            return False
        one.answered_tokens += 1
        del self.prefilling[one]
        return True

    def join(self, one: Sequence) -> None:
        """A request goes on to decode."""
        one.decoding = True
        one.joined_step, one.share_mark = self.step, self.share_s
        one.end_step = self.step + one.last_tokens - one.answered_tokens
        heapq.heappush(self._ends, (one.end_step, one.index, one))
        if self.gives_back and one not in self.reserved:
            self._give_back(one)
        self.growth.add(one, self.step)
        self.context_tokens += one.computed_tokens
        self.decoding += 1

    def ended(self) -> list[Sequence]:
        """Requests whose last token has come, no longer running."""
        done: list[Sequence] = []
        ends = self._ends
        while ends and ends[0][0] <= self.step:
            entry = heapq.heappop(ends)
            # Removed at once: who was preempted and came back may have two entries with one end.
            if self._holds(entry):
                self.remove(entry[2])
                done.append(entry[2])
        return done

    def remove(self, one: Sequence, taken_units: int = 0) -> None:
        """A request leaves the batch and gives up its blocks, `taken_units` of a step not made among them."""
        units = self.decoding_units if one.decoding else self.units
        if one.decoding:
            self._settle(one)
            self.growth.remove(one)
            self.decoding -= 1
            self.context_tokens -= one.computed_tokens
            one.decoding = False
        else:
            self.prefilling.pop(one, None)
        del self.running[one]
        self.blocked = False
        if one in self.reserved:
            return
        nameless = units(one.computed_tokens) + taken_units - len(one.entries) * self.pool.unit_of_entry
        self.pool.release(one.entries, nameless)

    def clear(self) -> None:
        """Nobody runs, and the cache is empty."""
        for one in list(self.running):
            self.remove(one)
        self.pool.clear()
        self.reserved.clear()
        self._ends.clear()

    # Static batches

    def reserve(self, one: Sequence, units: int) -> None:
        """Let a request in with all the cache it will ever need, which it keeps until `unreserve`."""
        self.pool.take(units)
        self.reserved[one] = units
        one.started = True
        self.running[one] = None
        self.prefilling[one] = None

    def unreserve(self, one: Sequence) -> None:
        """Its group has ended."""
        self.pool.release((), self.reserved.pop(one))

    def steps_to_end(self) -> int:
        """Decode steps until the next answer ends."""
        ends = self._ends
        while not self._holds(ends[0]):
            heapq.heappop(ends)
        return ends[0][0] - self.step

    # Blocks

    def _holds(self, entry: tuple[int, int, Sequence]) -> bool:
        """Whether an end that was expected is still to come: its request may have been preempted or have left."""
        end_step, _, one = entry
        return one.decoding and one.end_step == end_step and one in self.running

    def _settle(self, one: Sequence) -> None:
        """Bring a decoding sequence up to this step."""
        steps = self.step - one.joined_step
        one.computed_tokens += steps
        one.answered_tokens += steps
        one.joined_step = self.step
        one.machine_s += self.share_s - one.share_mark
        one.share_mark = self.share_s

    def _found(self, one: Sequence) -> int:
        """Tokens of a prompt that the cache holds: whole blocks, and never the last token."""
        entries = self.pool.found(one.prefix)
        return min(entries * self.entry_tokens, one.target_tokens - 1) // self.hit_block_tokens * self.hit_block_tokens

    def _names(self, tokens: int) -> int:
        """Whole named blocks among so many tokens."""
        return tokens // self.entry_tokens if self.entry_tokens else 0

    def _has_room(self, one: Sequence, left_tokens: int) -> bool:
        found = self._found(one)
        names = one.prefix[: self._names(found)]
        tokens = one.target_tokens
        if not self.checks_whole_prompts:
            tokens = min(tokens, found + min(left_tokens, self.rules.chunk_tokens or left_tokens))
        need = self.units(tokens) - len(names) * self.pool.unit_of_entry + self.pool.idle_of(names)
        return need + (self.watermark_units if self.running else 0.0) <= self.pool.available

    def _chunk(self, one: Sequence, left_tokens: int) -> int:
        """Tokens of a prompt that the next step computes."""
        rest = one.target_tokens - one.computed_tokens
        if not self.rules.chunked:
            return rest
        return min(rest, max(0, left_tokens), self.rules.chunk_tokens or rest)

    def _more(self, one: Sequence, tokens: int) -> int:
        """Units that the next tokens of a request take."""
        cached, units = one.computed_tokens, self.units
        if one.decoding:
            cached, units = cached + self.step - one.joined_step, self.decoding_units
        return units(cached + tokens) - units(cached)

    def _give_back(self, one: Sequence) -> None:
        """Blocks that a prompt needed and its answer does not: their tokens are behind the windows."""
        units = self.units(one.computed_tokens) - self.decoding_units(one.computed_tokens)
        if units:
            self.pool.release((), units)
            self.blocked = False

    def _continue(self, decodes: bool) -> tuple[list[Chunk], int]:
        """Blocks and tokens for those that run."""
        left_tokens = self.rules.max_num_batched_tokens - (self.decoding if decodes else 0)
        wanted, tokens_left = [], left_tokens
        for one in self.prefilling:
            tokens = self._chunk(one, tokens_left)
            wanted.append((one, tokens))
            tokens_left -= tokens
        units = self.growth.needed(self.step, 1) if decodes else 0
        units += sum(self._more(one, tokens) for one, tokens in wanted)
        if units > self.pool.available:
            return self._in_order(decodes)
        self.pool.take(units)
        for one, tokens in wanted:
            self._name(one, tokens)
        return [(one, tokens) for one, tokens in wanted if tokens], tokens_left

    def _in_order(self, decodes: bool) -> tuple[list[Chunk], int]:
        """The same where blocks are short: who came first gets them first, and who came last makes room."""
        left_tokens = self.rules.max_num_batched_tokens - (self.decoding if decodes else 0)
        taken: dict[Sequence, int] = {}
        chunks: dict[Sequence, int] = {}
        for one in list(self.running):
            if one not in self.running or (one.decoding and not decodes):
                continue
            tokens = 1 if one.decoding else self._chunk(one, left_tokens)
            units = self._more(one, tokens)
            while units > self.pool.available and one in self.running:
                last = self._last()
                left_tokens += chunks.pop(last, int(last.decoding and decodes))
                self._preempt(last, taken.pop(last, 0))
            if one not in self.running:
                continue
            self.pool.take(units)
            taken[one] = units
            if not one.decoding and tokens:
                chunks[one] = tokens
                left_tokens -= tokens
        for one, tokens in chunks.items():
            self._name(one, tokens)
        return list(chunks.items()), left_tokens

    def _last(self) -> Sequence:
        """Who is preempted first."""
        if self.rules.by_priority:
            return max(self.running, key=lambda one: (one.arrival.priority, one.index))
        return next(reversed(self.running))

    def _preempt(self, one: Sequence, taken_units: int) -> None:
        self.remove(one, taken_units)
        one.restart()
        one.preemptions += 1
        self.preemptions += 1
        self.queue.push(one)

    def _let_in(self, chunks: list[Chunk], left_tokens: int) -> None:
        while self.may_let_in(left_tokens):
            one = self.queue.head()
            if one is None or not self._is_next(one, chunks, left_tokens):
                return
            self._admit(self.queue.pop())
            tokens = self._chunk(one, left_tokens)
            self.pool.take(self._more(one, tokens))
            self._name(one, tokens)
            chunks.append((one, tokens))
            left_tokens -= tokens

    def _is_next(self, one: Sequence, chunks: list[Chunk], left_tokens: int) -> bool:
        """A prompt that is not cut has to fit into what is left of the step, or has one for itself."""
        rest = one.target_tokens - self._found(one)
        return self.rules.chunked or rest <= left_tokens or not chunks

    def _admit(self, one: Sequence) -> None:
        found = self._found(one)
        names = one.prefix[: self._names(found)]
        self.pool.refer(names)
        one.entries = list(names)
        one.computed_tokens = found
        self.pool.take(self.units(found) - len(names) * self.pool.unit_of_entry)
        if not one.started:
            one.started, one.found_tokens = True, found
        self.running[one] = None
        self.prefilling[one] = None

    def _name(self, one: Sequence, tokens: int) -> None:
        """Whole blocks of a prompt that the next step completes may be found by others from now on."""
        before, after = (self._names(min(one.computed_tokens + more, one.input_tokens)) for more in (0, tokens))
        for name in one.prefix[before:after]:
            if self.pool.name(name):
                one.entries.append(name)
                self.blocked = False
