"""Paged KV: blocks as they are needed against one buffer of the longest context for every sequence.

    reserved = bytes(context a request may reach)                        contiguous, windows capped
    held     = blocks of ISL + OSL (1 + spread^2) / 2 tokens             half a block of rounding per group; spread of
                                                                         the answers 0 where it is not given
    gain     = sequences of the pool, paged over reserved                at most the engine's own limit in use
    shared   = whole blocks of a common prefix, held once for all
The interval of the gain runs from every sequence at its end (ISL + OSL) to answers half done. Where the batch fits in
buffers already, more room changes nothing: `limited`. Engines without pages split their context: impossible.
"""

from dataclasses import replace

from infopt.boundaries.deciding import named_engine, plain_verdict
from infopt.boundaries.quantities import BATCH, LONGEST_CONTEXT_TOKENS, Quantity
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.queueing import held_tokens
from infopt.ledgers.traffic import traffic

# Document 3 claims this many times the requests.
CLAIMED = (2.0, 4.0)
NOT_SOLVED = (
    "which replica gets a request, and reuse of prefixes across replicas (the router's part)",
    "offload to host memory or disk, transfers between prefill and decode workers",
    "isolation of tenants and their billing (blocks carry no owner)",
)


@dataclass(frozen=True, slots=True)
class Room:
    """Cache of one rank, in bytes and sequences.

    reserved_bytes  of one buffer;  held_bytes  of one sequence's blocks on average;  end_bytes  at its end
    logical_bytes   what the tokens of the mean sequence need, before any rounding
    buffers, paged, at_end, shared  sequences that fit: in buffers, in blocks, at their ends, with prefixes held once
    longest         sequences that fit in buffers of all positions of the model
    """

    pool_bytes: float
    held_tokens: float
    reserved_bytes: float
    held_bytes: float
    end_bytes: float
    logical_bytes: float
    shared_bytes: float
    buffers: float
    paged: float
    at_end: float
    shared: float
    longest: float


def judge(situation: Situation) -> Judgement:
    """Sequences that fit in blocks against those in buffers of the whole context."""
    s, rule = situation.scenario, "paging serves 2-4 times the requests of one GPU"
    shared = situation.load.prefix.shared_tokens
    if shared is not None and shared < 0:
        raise InfoptError(f"--shared-prefix {shared} tokens: at least 0")
    if s.engine.windows == "cells":
        reason = f"{named_engine(s)} splits its context evenly over its slots (-c over -np): it has no pages"
        unified = ("--kv-unified lets slots share one buffer of the same size; all stop when it is full",)
        return Judgement(
            "impossible", None, reason, costs=unified, rule=Rule(3, rule, None, "this engine has no pages")
        )
    if all(kind.state_slots for kind, _ in situation.memory.layout.kinds):
        return Judgement("skip", None, "the model keeps no keys and values, only a state of fixed size")
    here = room(situation)
    if here.paged < 1:
        return Judgement("skip", None, "the weights leave no room for even one sequence", _figures(situation, here))
    gain = _gain(here)
    verdict = _verdict(situation, here, gain)
    says: Verdict = "use" if gain.value >= CLAIMED[0] else "limited"
    why = f"that holds where buffers reserve {CLAIMED[0]:g} to {CLAIMED[1]:g} times what is used"
    costs = (*_costs(situation, here), *(f"not solved by it: {text}" for text in NOT_SOLVED))
    reason = _reason(situation, here, gain)
    return Judgement(verdict, gain, reason, _figures(situation, here), costs, Rule(3, rule, says, why))


def room(situation: Situation) -> Room:
    """What the deciding rank's pool holds either way."""
    s, memory = situation.scenario, situation.memory
    layout, pool = memory.layout, memory.kv_pool_bytes_per_gpu
    cache = traffic(s)[memory.stage].cache
    end = s.input_tokens + s.output_tokens
    spread = situation.load.traffic.output_spread or 0.0
    mean = min(held_tokens(s.input_tokens, s.output_tokens, spread), float(s.context_tokens))
    reserved = float(cache.kv_bytes_per_sequence(s.context_tokens)) + cache.state_bytes
    held = layout.mean_request_bytes(mean)
    block_shared = whole_blocks(min(situation.load.prefix.shared_tokens or 0, s.input_tokens), layout.block_tokens)
    common = min(held, layout.request_bytes(block_shared)) if block_shared else 0.0
    usable = max(0.0, pool - layout.null_blocks * layout.block_bytes)
    return Room(
        pool_bytes=pool,
        held_tokens=mean,
        reserved_bytes=reserved,
        held_bytes=held,
        end_bytes=layout.mean_request_bytes(end),
        logical_bytes=float(cache.kv_bytes_per_sequence(mean)) + cache.state_bytes,
        shared_bytes=common,
        buffers=pool // reserved,
        paged=usable // held,
        at_end=usable // layout.mean_request_bytes(end),
        longest=pool // float(cache.kv_bytes_per_sequence(RESERVED.high(situation)) + cache.state_bytes),
        shared=_with_shared(usable, held, common, situation.load.prefix.prefixes or 1),
    )


def whole_blocks(tokens: int, block_tokens: int) -> int:
    """Tokens of a prefix in whole blocks: only those are shared."""
    return tokens // block_tokens * block_tokens


def _with_shared(usable: float, held: float, common: float, prefixes: int) -> float:
    """n with n (held - common) + min(n, prefixes) common <= usable."""
    alone = usable // held
    if not common or alone <= prefixes:
        return alone
    rest = max(held - common, 1.0)
    return (usable - prefixes * common) // rest


def _gain(here: Room) -> Gain:
    """Of whole sequences; a buffer that does not fit once counts as its part of one, so that the ratio stays finite."""
    buffers = max(here.buffers, min(1.0, here.pool_bytes / here.reserved_bytes))
    best = max(here.paged, here.shared) / buffers
    ends = (here.at_end / buffers, here.paged / buffers, best)
    return Gain(best, min(ends), max(ends), "sequences")


def _verdict(situation: Situation, here: Room, gain: Gain) -> Verdict:
    """More room counts where the batch needs it."""
    verdict = plain_verdict(gain.value)
    needed = situation.scenario.batch_per_replica > here.buffers
    return "limited" if verdict == "use" and not needed else verdict


def _reason(situation: Situation, here: Room, gain: Gain) -> str:
    s = situation.scenario
    most, batch = max(here.paged, here.shared), s.batch_per_replica
    sides = f"{most:,.0f} sequences fit, {here.buffers:,.0f} in buffers of {s.context_tokens:,} tokens"
    if gain.value < 1:
        return f"{sides}: blocks of {situation.memory.layout.block_tokens:,} tokens round up more than they save"
    if batch <= here.buffers:
        return f"{sides}; a batch of {batch:,} fits either way"
    if s.context_tokens <= s.input_tokens + s.output_tokens:
        return f"{sides}, {here.longest:,.0f} in buffers of all {RESERVED.high(situation):,.0f} positions"
    return sides


def _costs(situation: Situation, here: Room) -> tuple[str, ...]:
    s, load, costs = situation.scenario, situation.load, []
    costs.append(f"nothing to switch on: {named_engine(s)} always pages")
    rounding = 1 - here.logical_bytes / here.held_bytes
    if rounding >= 0.01:
        block = situation.memory.layout.block_tokens
        costs.append(f"rounding to blocks of {block:,} tokens takes {rounding:.0%} of the KV cache held")
    if here.paged > s.max_num_seqs:
        costs.append(f"the engine's limit of {s.max_num_seqs:,} sequences is below what fits")
    if here.at_end < here.paged:
        costs.append(f"only {here.at_end:,.0f} fit if all answers end at once: the rest is preempted")
    if load.prefix.shared_tokens and load.prefix.prefixes is None:
        costs.append("one shared prefix assumed (--prefixes)")
    return tuple(costs)


def _figures(situation: Situation, here: Room) -> tuple[Figure, ...]:
    s, layout = situation.scenario, situation.memory.layout
    rounding = 1 - here.logical_bytes / here.held_bytes if here.held_bytes else 0.0
    waste = 1 - here.logical_bytes / here.reserved_bytes if here.reserved_bytes else 0.0
    claimed = (
        Figure(
            f"reserved_for_{ratio:g}x_tokens",
            reserved_for(situation, here, ratio),
            "tokens",
            f"reserved per buffer, from which paging holds {ratio:g}x the sequences",
        )
        for ratio in CLAIMED
    )
    return (
        Figure(
            "sequences_reserved",
            here.buffers,
            "sequences",
            f"fit in buffers of {s.context_tokens:,} tokens (no paging)",
        ),
        Figure(
            "sequences_longest", here.longest, "sequences", "fit in buffers of the model's longest context (no paging)"
        ),
        Figure("sequences_paged", here.paged, "sequences", "fit in blocks, answers half done on average"),
        Figure("sequences_at_end", here.at_end, "sequences", "fit in blocks, all answers at their ends"),
        Figure("sequences_shared", here.shared, "sequences", "fit in blocks, shared prefixes held once"),
        Figure("held_tokens", here.held_tokens, "tokens", "mean length of a running sequence"),
        Figure("reserved_waste_share", waste, "share", "of such a buffer is empty on average"),
        Figure("rounding_share", rounding, "share", "of the blocks in use is rounding and padding"),
        Figure("block_tokens", layout.block_tokens, "tokens", "in the smallest block"),
        Figure("shared_bytes", here.shared_bytes, "bytes", "of a shared prefix in whole blocks, on one device"),
        *claimed,
    )


def reserved_for(situation: Situation, here: Room, ratio: float) -> float | None:
    """Tokens of a buffer of `ratio` times what is held; None where windows keep it below that at any length."""
    cache = traffic(situation.scenario)[situation.memory.stage].cache
    wanted = ratio * here.held_bytes
    low, high = 0.0, 64.0 * LONGEST_CONTEXT_TOKENS
    if float(cache.kv_bytes_per_sequence(high)) + cache.state_bytes < wanted:
        return None
    while high - low > 0.5:
        middle = (low + high) / 2
        if float(cache.kv_bytes_per_sequence(middle)) + cache.state_bytes >= wanted:
            high = middle
        else:
            low = middle
    return high


def _with_reserved(situation: Situation, value: float) -> Situation:
    """Another longest context; the requests stay as they are, and must fit in it."""
    s = situation.scenario
    return situation.changed(context_tokens=max(int(value), s.input_tokens + s.output_tokens))


def _with_shared_prefix(situation: Situation, value: float) -> Situation:
    prefix = replace(situation.load.prefix, shared_tokens=int(value))
    return situation.changed(load=replace(situation.load, prefix=prefix))


RESERVED = Quantity(
    name="reserved",
    unit="tokens",
    whole=True,
    low=2,
    high=lambda situation: float(
        max(situation.scenario.model.max_position_tokens or LONGEST_CONTEXT_TOKENS, situation.scenario.context_tokens)
    ),
    get=lambda situation: float(situation.scenario.context_tokens),
    set=_with_reserved,
)
SHARED = Quantity(
    name="shared-prefix",
    unit="tokens",
    whole=True,
    low=0,
    high=lambda situation: float(situation.scenario.input_tokens),
    get=lambda situation: situation.load.prefix.shared_tokens,
    set=_with_shared_prefix,
)
TECHNIQUE = Technique(
    id="paged-kv",
    name="Paged KV",
    ledger="memory",
    order=1,
    judge=judge,
    quantities=(RESERVED, BATCH, SHARED),
    plane=(RESERVED, BATCH),
    aliases=("paging", "pagedattention"),
)
