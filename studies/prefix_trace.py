"""A trace through a prefix cache: what is found at which capacity, and what that saves on one model and machine.

    block bytes = bytes of a prompt of L tokens on one device / L x tokens of a trace block      L: the mean prompt
    hit tokens  = floor(min(h b, n - 1) / e) e             h trace blocks of b tokens found, e tokens of an engine block
    saved       = mean over requests of what a prompt of n tokens takes less what it takes with its hits cached
Every request is taken with its own length and its own hits; means are taken last. The whole pool is the cache of the
latest requests; running ones keep a part of it for themselves, so the truth lies between the pool and the pool beside
them. The first token's time is that of `boundary prefix-caching`: at the plan's batch, no queue before it.
Replicas: with affinity their pools are one; else every request goes to a replica by chance, each with its own cache.
Ignored: blocks outside an attention window that lie in the pool until they are pushed out, eviction of leaves first,
answers as blocks before a later prompt names them, copies of the pool's blocks in host memory.
"""

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from infopt.arrivals.arrival import Source
from infopt.boundaries.kv_offload import HOST_MEMORY, tier_of
from infopt.boundaries.load import Routing
from infopt.boundaries.prefix_gains import fitting
from infopt.boundaries.prefix_reuse import keeping
from infopt.boundaries.situation import Situation
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.compute import prefill_flop
from infopt.ledgers.lru_curve import CurveCounter, LruCurve
from infopt.ledgers.offload import replica_bytes
from infopt.ledgers.prefix_cache import hit_block_tokens, hit_tokens, saved_flop
from infopt.ledgers.reuse_gaps import GapCounter, ReuseGaps, reuse_gaps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

# More memory stops paying where this part of all that could be found is found.
NEARLY_ALL = 0.95
# Che's approximation may be so far from what is counted where its assumptions hold (tests/test_prefix_trace.py).
CLOSE_SHARE = 0.03
# Gaps as long as in random order, give or take what chance does in some thousand requests.
RANDOM_RATIO = 0.1
# Whether requests were independent as far as the cache can tell: it keeps too few, or blocks come back sooner or later.
Order = Literal["none", "independent", "few", "sessions", "late"]
POOL_RATIOS = ((0.5, "half the pool"), (1.0, "the pool"), (2.0, "2 x the pool"), (4.0, "4 x the pool"))


@dataclass(frozen=True, slots=True)
class Hits:
    """A trace as prefix caches of all sizes see it.

    name, block_tokens  of the trace; no tokens where it has no ids of blocks
    caches         that share the requests by chance, all of one size
    duration_s     from the first request to the last; 0 in a closed loop
    left_out       requests longer than the limit: no engine takes them
    input_tokens, output_tokens  of every request
    curve, gaps    blocks found by capacity of one cache; how soon blocks come back
    rooms, ends    of every request in turn, the capacity at which each of its first blocks is found; where they end
    """

    name: str
    block_tokens: int
    caches: int
    duration_s: float
    left_out: int
    input_tokens: "Integers"
    output_tokens: "Integers"
    curve: LruCurve
    gaps: ReuseGaps
    rooms: "Integers"
    ends: "Integers"

    @property
    def mean_input_tokens(self) -> float:
        return float(self.input_tokens.mean())

    @property
    def mean_output_tokens(self) -> float:
        return float(self.output_tokens.mean())

    @property
    def is_random_order(self) -> bool:
        """Whether blocks come back about as soon as they would in random order."""
        soon = self.gaps.soonness_ratio
        return soon is not None and abs(soon - 1) <= RANDOM_RATIO

    @property
    def rate_per_s(self) -> float | None:
        """Requests a second; None where all come at once, or when others are answered."""
        return len(self.input_tokens) / self.duration_s if self.duration_s else None

    @property
    def conversations(self) -> int:
        """Requests that begin one: they find what most find, and nothing of an earlier turn."""
        import numpy as np

        found, times = np.unique(np.diff(self.ends, prepend=0), return_counts=True)
        return int(times[found <= found[np.argmax(times)]].sum())

    def found_blocks(self, capacity_blocks: float) -> "Integers":
        """Blocks that each request finds in a cache of so many."""
        import numpy as np

        found = np.concatenate([[0], np.cumsum(self.rooms <= capacity_blocks)])
        return np.diff(found[self.ends], prepend=0)


def hits_by_capacity(source: Source, name: str, caches: int = 1, most_tokens: int | None = None, seed: int = 0) -> Hits:
    """The trace, read once; prompt and answer together of at most `most_tokens`.

    Errors: InfoptError where the trace has no ids of prefix blocks, or no request is short enough.
    """
    if not source.prefix_block_tokens:
        raise InfoptError(
            f"trace {name}: no prefix ids: hits cannot be counted; give --hit-share or --shared-prefix, "
            "or a trace whose requests have them (mooncake)"
        )
    return read_hits(source, name, caches, most_tokens, seed)


def read_hits(source: Source, name: str, caches: int = 1, most_tokens: int | None = None, seed: int = 0) -> Hits:
    """The same of any trace: one without ids has lengths and no hits."""
    import numpy as np

    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    counter, gaps = CurveCounter(caches), [GapCounter() for _ in range(caches)]
    inputs, outputs, rooms, ends = array("q"), array("q"), array("q"), array("q")
    first_s, last_s, left_out = math.inf, -math.inf, 0
    for arrival in source.stream():
        if most_tokens is not None and arrival.input_tokens + arrival.output_tokens > most_tokens:
            left_out += 1
            continue
        cache = int(rng.integers(caches)) if caches > 1 else 0
        rooms.extend(counter.request(arrival.prefix, cache))
        gaps[cache].request(arrival.prefix)
        ends.append(len(rooms))
        inputs.append(arrival.input_tokens)
        outputs.append(arrival.output_tokens)
        first_s, last_s = min(first_s, arrival.time_s), arrival.time_s
    if not inputs:
        raise InfoptError(f"trace {name}: all {left_out:,} requests are longer than the model's {most_tokens:,} tokens")
    return Hits(
        name=name,
        block_tokens=source.prefix_block_tokens,
        caches=caches,
        # In a closed loop times are those between an answer and the next request.
        duration_s=last_s - first_s if source.users is None else 0.0,
        left_out=left_out,
        input_tokens=np.array(inputs, dtype=np.int64),
        output_tokens=np.array(outputs, dtype=np.int64),
        curve=counter.curve(),
        gaps=reuse_gaps(gaps),
        rooms=np.array(rooms, dtype=np.int64),
        ends=np.array(ends, dtype=np.int64),
    )


@dataclass(frozen=True, slots=True)
class Capacity:
    """A size that was asked for: trace blocks, or bytes of one device."""

    text: str
    blocks: int | None = None
    device_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """What a cache of one size finds, and what that saves; times are None where how long a prompt takes is not known.

    blocks, device_bytes, sequences  it holds: trace blocks, bytes on one device, requests of mean length
    kept_requests, kept_s  how long a block stays that nobody asks for; None: for ever
    hit_share            of blocks asked for, counted
    shuffled_hit_share   the same requests in random order, by Che's approximation; steady_hit_share by their gaps
    hit_tokens_share     of prompt tokens, in whole engine blocks
    cached_tokens        found of a prompt on average
    saved_flop, saved_flop_share  of prefill: of a request on average, of all
    saved_machine_s, saved_machine_share  time of prompts on the machine, likewise
    ttft_s, saved_ttft_s  first token without the cache, and how much sooner it comes, on average
    """

    name: str
    blocks: int
    device_bytes: float
    sequences: float
    kept_requests: float | None
    kept_s: float | None
    hit_share: float
    shuffled_hit_share: float
    steady_hit_share: float
    hit_tokens_share: float
    cached_tokens: float
    saved_flop: float
    saved_flop_share: float
    saved_machine_s: float | None
    saved_machine_share: float | None
    ttft_s: float | None
    saved_ttft_s: float | None


@dataclass(frozen=True, slots=True)
class Enough:
    """The capacity from which more memory hardly finds more.

    room            what it finds
    stored_bytes    of all devices of the deployment
    host_bytes      that host memory beside the devices is taken to have; None where the devices' is the host's own
    reuse_share     prompt tokens found there and not in the pool beside running requests
    in_pool         whether the pool holds as much
    """

    room: Room
    stored_bytes: float
    host_bytes: float | None
    reuse_share: float
    in_pool: bool


@dataclass(frozen=True, slots=True)
class PrefixTrace:
    """A trace in one situation.

    block_bytes    of a trace block on one device
    engine_block_tokens  hits are whole multiples of it
    running        sequences whose own tokens lie in the pool of one replica, of mean length
    rooms          by size; `beside` is the pool less what running sequences hold
    enough         None where nothing comes back
    """

    hits: Hits
    situation: Situation
    block_bytes: float
    engine_block_tokens: int
    running: int
    beside: Room
    rooms: tuple[Room, ...]
    enough: Enough | None

    @property
    def farthest(self) -> Room:
        """The capacity at which random order is farthest from what is counted."""
        return max(self.rooms, key=lambda room: abs(room.hit_share - room.shuffled_hit_share))

    @property
    def order(self) -> Order:
        """Whether Che's approximation, which takes requests as independent, holds here, and why not."""
        soon, room = self.hits.gaps.soonness_ratio, self.farthest
        if soon is None:
            return "none"
        if abs(room.hit_share - room.shuffled_hit_share) <= CLOSE_SHARE:
            return "independent"
        if self.hits.is_random_order:
            return "few"
        return "sessions" if soon < 1 else "late"


def caches_of(replicas: int, routing: Routing) -> int:
    """Caches that share the requests: one of all pools where prompts go to the replica that has their prefix."""
    return 1 if routing == "affinity" else replicas


def prefix_trace(situation: Situation, hits: Hits, capacities: Sequence[Capacity] = ()) -> PrefixTrace | None:
    """What this situation's pool finds of a trace, larger and smaller ones, and those that were asked for.

    None where there is no pool, or nothing is cached by blocks: the technique says why.
    """
    if not has_blocks(situation):
        return None
    study = _Study(situation, hits)
    beside = study.room(f"beside {study.running:,} running", study.beside_bytes / study.block_bytes)
    pool = study.pool_bytes / study.block_bytes
    rooms = [beside, *(study.room(name, ratio * pool) for ratio, name in POOL_RATIOS)]
    rooms += [study.room(one.text, _blocks(one, study.block_bytes)) for one in capacities]
    enough = None
    if len(hits.rooms):
        enough = study.enough(beside)
        rooms.append(enough.room)
    rooms.append(study.room("unbounded", hits.curve.distinct_blocks / study.homes / hits.caches))
    rooms.sort(key=lambda room: room.blocks)
    return PrefixTrace(
        hits=hits,
        situation=situation,
        block_bytes=study.block_bytes,
        engine_block_tokens=study.engine_block_tokens,
        running=study.running,
        beside=beside,
        rooms=tuple(rooms),
        enough=enough,
    )


def has_blocks(situation: Situation) -> bool:
    """Whether there is a pool, and keys and values to put in it."""
    memory = situation.memory
    return memory.kv_pool_bytes_per_gpu > 0 and any(not kind.state_slots for kind, _ in memory.layout.kinds)


def cached_share(situation: Situation, hits: Hits) -> float:
    """Prompt tokens found in this situation's pool beside running requests."""
    study = _Study(situation, hits)
    return study.hit_tokens_share(study.cached_tokens(study.beside_bytes / study.block_bytes))


def _blocks(capacity: Capacity, block_bytes: float) -> float:
    if capacity.blocks is not None:
        return capacity.blocks
    return (capacity.device_bytes or 0.0) / block_bytes


class _Study:
    """One trace in one situation, with what every room needs."""

    def __init__(self, situation: Situation, hits: Hits) -> None:
        s, memory = situation.scenario, situation.memory
        self.hits, self.situation = hits, situation.changed(cached_tokens=0.0)
        # A cached prompt keeps what its windows hold at rest: no tokens in flight.
        self.layout = replace(memory.layout, in_flight_tokens=0)
        row = keeping(s.engine.engine, s.engine_version)
        self.engine_block_tokens = row.reuse_tokens or hit_block_tokens(memory.layout)
        blocks = max(1, math.ceil(hits.mean_input_tokens / self.engine_block_tokens))
        self.prompt_tokens = blocks * self.engine_block_tokens
        per_token = float(self.layout.request_bytes(self.prompt_tokens)) / self.prompt_tokens
        self.block_bytes = per_token * hits.block_tokens
        # Pools of replicas that a request may find its prefix in.
        self.homes = s.dp // hits.caches
        self.batch = fitting(situation)
        self.running = round(self.batch / s.sharing_replicas)
        self.pool_bytes = memory.kv_pool_bytes_per_gpu
        held_tokens = hits.mean_input_tokens + hits.mean_output_tokens / 2
        own_bytes = self.running * float(memory.layout.mean_request_bytes(held_tokens))
        self.beside_bytes = max(0.0, self.pool_bytes - own_bytes)
        self.prefill_flop = prefill_flop(s.model, hits.input_tokens.astype(float))
        self.request_bytes = float(self.layout.request_bytes(round(hits.mean_input_tokens + hits.mean_output_tokens)))
        is_known = situation.steps.shape is not None
        self.prompts = _Prompts(self.situation, self.batch, hits.input_tokens) if is_known else None

    def cached_tokens(self, blocks: float) -> "Integers":
        """What each request finds in a cache of so many trace blocks in every replica, in whole engine blocks."""
        found = self.hits.found_blocks(blocks * self.homes) * self.hits.block_tokens
        cached: Integers = hit_tokens(found, self.hits.input_tokens, self.engine_block_tokens)
        return cached

    def hit_tokens_share(self, cached_tokens: "Integers") -> float:
        """Of all prompt tokens."""
        return float(cached_tokens.sum() / self.hits.input_tokens.sum())

    def room(self, name: str, blocks: float) -> Room:
        """A cache of so many trace blocks in every replica."""
        hits, gaps = self.hits, self.hits.gaps
        cached = self.cached_tokens(blocks)
        saved = saved_flop(self.situation.scenario.model, cached.astype(float))
        everywhere = blocks * self.homes * hits.caches
        is_full = everywhere < hits.curve.distinct_blocks
        kept = gaps.remembered_requests(everywhere) * hits.caches if is_full else None
        times = self.prompts.saved(cached) if self.prompts else _Times()
        return Room(
            name=name,
            blocks=math.floor(blocks),
            device_bytes=blocks * self.block_bytes,
            sequences=blocks * self.block_bytes / self.request_bytes,
            kept_requests=kept,
            kept_s=kept / hits.rate_per_s if kept is not None and hits.rate_per_s else None,
            hit_share=hits.curve.hit_share(blocks * self.homes),
            shuffled_hit_share=gaps.shuffled_hit_share(everywhere),
            steady_hit_share=gaps.steady_hit_share(everywhere),
            hit_tokens_share=self.hit_tokens_share(cached),
            cached_tokens=float(cached.mean()),
            saved_flop=float(saved.mean()),
            saved_flop_share=float(saved.sum() / self.prefill_flop.sum()),
            saved_machine_s=times.machine_s,
            saved_machine_share=times.machine_share,
            ttft_s=times.ttft_s,
            saved_ttft_s=times.saved_ttft_s,
        )

    def enough(self, beside: Room) -> Enough:
        """Where nearly all is found."""
        s, needed = self.situation.scenario, self.hits.curve.needed_blocks(NEARLY_ALL) / self.homes
        room = self.room(f"{NEARLY_ALL:.0%} of unbounded", needed)
        per_block = replica_bytes(s, self.prompt_tokens) / self.prompt_tokens * self.hits.block_tokens
        in_host = s.accelerator.processor or s.accelerator.memory_class in HOST_MEMORY
        tier = tier_of(s, self.situation.load.offload, self.pool_bytes)
        return Enough(
            room=room,
            stored_bytes=needed * per_block * s.dp,
            host_bytes=None if in_host or tier.name != "dram" else tier.capacity_bytes,
            reuse_share=max(0.0, room.hit_tokens_share - beside.hit_tokens_share),
            in_pool=room.device_bytes <= self.pool_bytes,
        )


@dataclass(frozen=True, slots=True)
class _Times:
    machine_s: float | None = None
    machine_share: float | None = None
    ttft_s: float | None = None
    saved_ttft_s: float | None = None


class _Prompts:
    """Times of prompts without a cache, and what they are less with what is cached of them."""

    def __init__(self, situation: Situation, batch: float, input_tokens: "Integers") -> None:
        # Squares of lengths do not fit into integers.
        self.situation, self.batch, self.input_tokens = situation, batch, input_tokens.astype(float)
        steps, tpot_s = situation.steps, situation.tpot_s(batch=batch)
        self.machine_s = float(steps.prompts_s(self.input_tokens).mean())
        self.ttft_s = float(steps.first_tokens_s(tpot_s, batch, self.input_tokens).mean())

    def saved(self, cached_tokens: "Integers") -> _Times:
        """Means over the requests."""
        steps, batch, cached = self.situation.steps, self.batch, cached_tokens.astype(float)
        tpot_s = self.situation.changed(cached_tokens=float(cached.mean())).tpot_s(steps, batch)
        saved_s = self.machine_s - float(steps.prompts_s(self.input_tokens, cached).mean())
        ttft_s = float(steps.first_tokens_s(tpot_s, batch, self.input_tokens, cached).mean())
        return _Times(saved_s, saved_s / self.machine_s, self.ttft_s, self.ttft_s - ttft_s)
