"""A start that was refused: would the ledger have said so, and with which number?"""

from infopt.frozen import dataclass
from infopt.ledgers.memory import MemoryLedger
from infopt.ledgers.scenario import Scenario
from infopt.observing.start_logs import Refusal, StartLog
from infopt.units import format_gib, format_whole


@dataclass(frozen=True, slots=True)
class Verdict:
    """On one refusal.

    predicted  the ledger says no as well; None where it cannot tell from what is known before a start
    text       by which number
    """

    refusal: Refusal
    predicted: bool | None
    text: str


def verdict(
    log: StartLog, s: Scenario, blind: MemoryLedger, at_pool: MemoryLedger | None, sized: bool
) -> Verdict | None:
    """The refusal of a log beside the ledger; None where there is none.

    blind    the ledger by its own constants (of the pool the user gave, where they gave one)
    at_pool  the ledger given the pool the engine had, None where it printed none
    sized    whether the memory of the device is known
    """
    refusal = log.refusal
    if refusal is None:
        return None
    by_kind = {
        "kv_too_small": _kv_too_small,
        "no_kv": _no_kv,
        "free_below_utilization": _free,
        "out_of_memory": _out_of_memory,
        "block_size": _block_size,
    }
    told = by_kind.get(refusal.kind)
    if told is None:
        why = "where its workers run is nothing a ledger knows" if refusal.kind == "numa" else "its cause is not memory"
        return Verdict(refusal, None, why)
    if not sized and at_pool is None and refusal.kind in ("kv_too_small", "no_kv", "out_of_memory"):
        return Verdict(refusal, None, "how much memory the device has is not in the log: name it with --hw")
    predicted, text = told(refusal, s, blind, at_pool)
    return Verdict(refusal, predicted, text)


Found = tuple[bool | None, str]


def _kv_too_small(refusal: Refusal, s: Scenario, blind: MemoryLedger, at_pool: MemoryLedger | None) -> Found:
    """One request of the longest context against the pool."""
    ledger = at_pool or blind
    needed = ledger.layout.request_bytes(s.context_tokens)
    usable = ledger.kv_pool_bytes_per_gpu - ledger.layout.null_blocks * ledger.layout.block_bytes
    whose = "the pool it had" if at_pool is not None else "the pool the ledger expects"
    longest = ledger.max_context_tokens
    text = (
        f"{format_whole(s.context_tokens)} tokens need {format_gib(needed)}, {whose} holds {format_gib(usable)}: "
        f"at most {format_whole(longest)} tokens"
    )
    if refusal.estimated_context_tokens is not None:
        text += f" (the engine: {format_whole(refusal.estimated_context_tokens)})"
    return needed > usable, text


def _no_kv(refusal: Refusal, s: Scenario, blind: MemoryLedger, at_pool: MemoryLedger | None) -> Found:
    """Nothing is left for the pool, or less is free than it is to take."""
    if refusal.wanted_bytes is not None and refusal.free_bytes is not None:
        text = f"the pool is to be {format_gib(refusal.wanted_bytes)}, {format_gib(refusal.free_bytes)} were free"
        return refusal.wanted_bytes > refusal.free_bytes or refusal.wanted_bytes <= 0, text
    low, high = blind.kv_pool_low_bytes, blind.kv_pool_high_bytes
    text = f"a pool of {format_gib(blind.kv_pool_bytes_per_gpu)} ({format_gib(low)} to "
    text += f"{format_gib(high)}) is expected at utilization {s.utilization:g}"
    if blind.kv_pool_bytes_per_gpu <= 0:
        return True, text
    return (None if low <= 0 else False), text


def _free(refusal: Refusal, s: Scenario, blind: MemoryLedger, at_pool: MemoryLedger | None) -> Found:
    """Utilization x total against what was free."""
    share = refusal.utilization_share if refusal.utilization_share is not None else s.utilization
    total = refusal.total_bytes if refusal.total_bytes is not None else float(s.accelerator.usable_memory_bytes)
    wanted = share * total
    if refusal.free_bytes is None:
        return None, f"utilization {share:g} takes {format_gib(wanted)}; what was free is not in the log"
    most = int(100 * refusal.free_bytes / total) / 100
    text = (
        f"utilization {share:g} x {format_gib(total)} = {format_gib(wanted)}, and {format_gib(refusal.free_bytes)} "
        f"were free: at most {most:g} (what others hold is known only there)"
    )
    return wanted > refusal.free_bytes, text


def _out_of_memory(refusal: Refusal, s: Scenario, blind: MemoryLedger, at_pool: MemoryLedger | None) -> Found:
    """What lies beside the pool against the memory left for it."""
    capacity = blind.capacity_bytes_per_gpu
    beside = sum(term.value for term in blind.terms if term.name not in ("kv", "margin"))
    tried = f"; {format_gib(refusal.tried_bytes)} more were asked for" if refusal.tried_bytes else ""
    if blind.fits is False:
        return True, f"{format_gib(beside)} beside the cache of {format_gib(capacity)}: it does not fit{tried}"
    warned = [caveat.text for caveat in blind.caveats if caveat.id in ("warm-up", "tight")]
    if warned:
        return True, f"{warned[0]}{tried}"
    left = max(0.0, blind.margin_bytes)
    text = f"{format_gib(beside)} beside the cache of {format_gib(capacity)}, {format_gib(left)} left outside{tried}"
    # What is asked for after the pool was cut must come from what was left outside it.
    after_pool = at_pool is not None and refusal.tried_bytes is not None
    return after_pool and left < (refusal.tried_bytes or 0.0), text


def _block_size(refusal: Refusal, s: Scenario, blind: MemoryLedger, at_pool: MemoryLedger | None) -> Found:
    """Blocks that no kernel takes."""
    multiple, block = s.engine.block_multiple_tokens, refusal.block_tokens or s.block_tokens
    if multiple == 1:
        return None, f"which blocks the kernels of {s.engine.engine} take here is not known"
    return block % multiple != 0, f"blocks must be a multiple of {multiple} tokens, {block} are asked for"
