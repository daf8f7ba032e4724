"""Cached tokens in a second home: what bringing them back costs beside computing them again.

    restore(n)   = latency + bytes(n) / BW                bytes of one rank: every rank reads its own share at once
    with queue   = latency + bytes / BW (1 + u / (2 (1 - u)))          M/D/1: transfers of one size, one link
    u            = restores per second x bytes / BW
    written      = requests per second x new tokens x bytes per token  of all ranks, a copied latent counted each time
    life         = endurance / written
    lifetime     = tokens a tier holds / new tokens per second         how long until a token is overwritten (LRU)
Ignored: write amplification of a drive, evictions that are not LRU, transfers that overlap with the first layers.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from infopt.ledgers.arrays import larger
from infopt.ledgers.cache import CacheSizes, cache_sizes
from infopt.ledgers.scenario import Scenario, stages
from infopt.profiles.geometry import LayerRun

SECONDS_PER_YEAR = 365.25 * 86400


def rank_bytes(s: Scenario, tokens: Any) -> Any:
    """Cache of one prefix on the rank that holds most of it: windows hold their last tokens, states all of theirs."""
    most: Any = 0.0
    for stage in stages(s.model, s.pp):
        sizes = _stage(s, stage)
        most = larger(most, sizes.kv_bytes_per_sequence(tokens) + sizes.state_bytes)
    return most


def replica_bytes(s: Scenario, tokens: float) -> float:
    """The same of all ranks of one replica: what a tier has to hold, heads and latents that ranks copy included."""
    total = 0.0
    for stage in stages(s.model, s.pp):
        sizes = _stage(s, stage)
        total += s.tp * (float(sizes.kv_bytes_per_sequence(tokens)) + sizes.state_bytes)
    return total


def _stage(s: Scenario, stage: Sequence[LayerRun]) -> CacheSizes:
    return cache_sizes(stage, s.kv, s.model.compute_dtype, s.tp)


def restore_s(stored_bytes: float, bytes_per_s: float, latency_s: float, utilization: float = 0.0) -> float:
    """Seconds to bring `stored_bytes` of one rank back; infinite from a link that is asked for more than it moves.

    >>> round(restore_s(50e9, 25e9, 0.01), 3), round(restore_s(50e9, 25e9, 0.01, 0.5), 3)
    (2.01, 3.01)
    """
    if utilization >= 1:
        return math.inf
    return latency_s + stored_bytes / bytes_per_s * (1 + utilization / (2 * (1 - utilization)))


def break_even_tokens(
    restore: Callable[[int], float], recompute: Callable[[int], float], most_tokens: int
) -> int | None:
    """The shortest prefix whose restoring is faster, None where none up to `most_tokens` is.

    The difference turns once: a restore costs a latency and then grows evenly, computing grows evenly or faster.
    """
    if most_tokens < 1 or restore(most_tokens) >= recompute(most_tokens):
        return None
    low, high = 0, most_tokens
    while high - low > 1:
        middle = (low + high) // 2
        if restore(middle) < recompute(middle):
            high = middle
        else:
            low = middle
    return high


def least_bytes_per_s(stored_bytes: float, recompute_s: float, latency_s: float) -> float | None:
    """Bandwidth at which restoring takes as long as computing; None where the latency alone takes longer.

    >>> least_bytes_per_s(1e9, 0.11, 0.01)
    10000000000.0
    """
    return stored_bytes / (recompute_s - latency_s) if recompute_s > latency_s else None


def drive_years(endurance_bytes: float, written_bytes_per_s: float) -> float | None:
    """Years until the drives are worn; None where nothing is written.

    >>> round(drive_years(1e9 * SECONDS_PER_YEAR, 5e8), 6)
    2.0
    """
    return endurance_bytes / written_bytes_per_s / SECONDS_PER_YEAR if written_bytes_per_s > 0 else None


def weights_step_s(offloaded_bytes: float, bytes_per_s: float) -> float:
    """Least time a step takes that reads weights from the host: every one of them, over the device's link.

    >>> round(weights_step_s(16 * 2**30, 25e9), 2)
    0.69
    """
    return offloaded_bytes / bytes_per_s
