"""What is simulated: replicas of one engine, their scheduler, and how long their steps take."""

import math
from collections.abc import Sequence
from typing import Literal, Protocol

from infopt.frozen import dataclass
from infopt.ledgers.paging import LayerKind, Layout

Batching = Literal["continuous", "static"]
Routing = Literal["round-robin", "random", "least-loaded", "affinity", "scored"]


class Clock(Protocol):
    """How long a step of one replica takes; picklable.

    linear  seconds of a step are linear in the mean context at a number of sequences
    """

    @property
    def linear(self) -> bool: ...

    def decode_s(self, sequences: int, context_tokens: float) -> float:
        """A step in which so many sequences, of this mean context, each get a token."""
        ...

    def chunk_s(self, new_tokens: int, cached_tokens: int) -> float:
        """What so many prompt tokens, behind tokens computed before, add to a step."""
        ...

    def prompt_step_s(self, prompts: int) -> float:
        """What a step without decoding sequences takes beside its chunks."""
        ...

    def first_token_delay_s(self, input_tokens: int, cached_tokens: int) -> float:
        """Time between the end of a prompt's last step and its first token at the client: nobody else waits for it."""
        ...


@dataclass(frozen=True, slots=True)
class Scheduler:
    """How a replica chooses what a step computes.

    max_num_seqs           sequences that run at once
    max_num_batched_tokens  tokens of one step
    chunk_tokens           most tokens of one prompt in one step; None: as many as the step has
    chunked                prompts are cut to fit into steps beside decoding; else a prompt is computed whole
    prefill_first          waiting prompts stop the decoding of others (no mixed steps) as long as they have room
    batching               static: a batch is gathered, runs until its longest answer ends, and only then the next one
    static_batch           requests of a static batch
    static_wait_s          a static batch that is not full starts after so long since its first; None: it waits
    watermark_share        blocks kept free when a request is let in
    prefix_caching         blocks of ended requests are kept until others need them
    whole_prompt_check     a request is let in only if its whole prompt has room
    by_priority            waiting requests are taken, and running ones preempted, by priority before arrival
    admission_wait_s       a request that has not been let in after so long is refused; None: it waits
    most_waiting           requests that may wait at a replica; more are refused; None: no limit
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    chunk_tokens: int | None = None
    chunked: bool = True
    prefill_first: bool = False
    batching: Batching = "continuous"
    static_batch: int = 1
    static_wait_s: float | None = None
    watermark_share: float = 0.0
    prefix_caching: bool = False
    whole_prompt_check: bool = True
    by_priority: bool = False
    admission_wait_s: float | None = None
    most_waiting: int | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """A replica that fails: at a time, and for how long (None: it does not come back). Its requests start anew.

    One that fails while it is down has lost nothing more; it stays down until the last of its losses ends.
    """

    replica: int
    time_s: float
    down_s: float | None = None


def outages(losses: Sequence[Loss]) -> list[Loss]:
    """Losses in order of time, those of one replica that meet made one: it is back when the longest of them ends."""
    found: list[Loss] = []
    latest: dict[int, int] = {}
    for loss in sorted(losses, key=lambda loss: loss.time_s):
        number = latest.get(loss.replica)
        if number is None or _end_s(found[number]) < loss.time_s:
            latest[loss.replica] = len(found)
            found.append(loss)
        elif _end_s(loss) > _end_s(found[number]):
            first_s = found[number].time_s
            down_s = None if loss.down_s is None else _end_s(loss) - first_s
            found[number] = Loss(loss.replica, first_s, down_s)
    return found


def _end_s(loss: Loss) -> float:
    return math.inf if loss.down_s is None else loss.time_s + loss.down_s


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache pool of one replica.

    layout    how its allocator cuts it, on the rank that holds least
    capacity  units that sequences may use: blocks without null blocks, bytes where each kind of layer has its own pool
    """

    layout: Layout
    capacity: int

    @property
    def block_tokens(self) -> int:
        """Units of a sequence change at multiples of it only."""
        return math.gcd(*(kind.block_tokens for kind, _ in self.layout.kinds)) if self.layout.kinds else 1

    def units(self, tokens: int) -> int:
        """Units of one sequence of so many tokens; 0 where a model caches nothing."""
        if self.layout.separate:
            return math.ceil(self.layout.request_bytes(tokens)) if tokens else 0
        return int(self.layout.request_blocks(tokens)) if tokens else 0

    @property
    def gives_back(self) -> bool:
        """Whether a sequence that decodes holds less than it was let in with: blocks behind windows are given back."""
        return any(kind.window_tokens is not None and not kind.cells for kind, _ in self.layout.kinds)

    def decoding_units(self, tokens: int) -> int:
        """Units of a sequence of so many tokens, the one in flight among them, that decodes."""
        if not tokens:
            return 0
        kinds, in_flight_tokens = self.layout.kinds, self.layout.in_flight_tokens
        counted = [(kind, groups, _decoding_pages(kind, tokens, in_flight_tokens)) for kind, groups in kinds]
        if self.layout.separate:
            return math.ceil(sum(kind.layers * pages * kind.page_bytes for kind, _, pages in counted))
        return int(sum(groups * pages for _, groups, pages in counted))

    def kept_units(self, tokens: int) -> float:
        """Units that keep so many tokens for others once their request has ended: windows and states are not found."""
        whole = (
            (kind, groups) for kind, groups in self.layout.kinds if kind.window_tokens is None and not kind.state_slots
        )
        if self.layout.separate:
            return sum(kind.layers * kind.page_bytes * tokens / kind.block_tokens for kind, _ in whole)
        return sum(groups * tokens / kind.block_tokens for kind, groups in whole)

    @property
    def even(self) -> tuple[int, int] | None:
        """(units at any length, units of each block of tokens) where every block of every sequence takes as many."""
        kinds, separate = self.layout.kinds, self.layout.separate
        growing = [(kind, groups) for kind, groups in kinds if not kind.state_slots]
        if any(kind.window_tokens is not None for kind, _ in growing) or len({k.block_tokens for k, _ in growing}) > 1:
            return None
        fixed, each = (
            sum((kind.layers * kind.page_bytes if separate else groups) * slots for kind, groups, slots in parts)
            for parts in (
                [(kind, groups, kind.state_slots) for kind, groups in kinds if kind.state_slots],
                [(kind, groups, 1) for kind, groups in growing],
            )
        )
        return (int(fixed), int(each)) if fixed == int(fixed) and each == int(each) else None


def _decoding_pages(kind: LayerKind, tokens: int, in_flight_tokens: int) -> int:
    """Pages of one kind: the last w tokens lie in at most ceil((w - 1) / block) + 1 blocks; a ring of cells stays.

    Chunked attention, which keeps no more than that, is counted as a window.
    Source: vLLM v1/core/single_type_kv_cache_manager.py (remove_skipped_blocks, get_num_skipped_tokens).
    """
    if kind.window_tokens is None or kind.cells:
        return int(kind.pages(tokens, in_flight_tokens))
    block = kind.block_tokens
    return min(-(-tokens // block), -(-(kind.window_tokens - 1) // block) + 1)


@dataclass(frozen=True, slots=True)
class Setup:
    """A deployment.

    streaming   a client sees tokens as they come; else all of them at the end
    aborts      an engine stops computing for a client that has left
    losses      replicas that fail
    max_tokens  longest prompt and answer together that the engine accepts
    """

    clock: Clock
    scheduler: Scheduler
    cache: Cache
    max_tokens: int
    replicas: int = 1
    routing: Routing = "least-loaded"
    streaming: bool = True
    aborts: bool = True
    losses: tuple[Loss, ...] = ()
    seed: int = 0
