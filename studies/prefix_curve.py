"""A trace through caches of every size, for pictures: what is found at which memory, and of how many requests.

hits(C)    as in prefix_trace, at capacities C in equal ratios up to every distinct block
found(s)   the share of requests that find at most the share s of their prompt, in whole engine blocks
"""

from collections.abc import Sequence

from infopt.frozen import dataclass
from infopt.ledgers.prefix_cache import hit_tokens
from infopt.studies.prefix_trace import PrefixTrace, Room

POINTS = 60
SHARES = 100


@dataclass(frozen=True, slots=True)
class HitCurve:
    """Hits by the memory of a cache on one device, in the order recorded and in random order."""

    device_bytes: Sequence[float]
    hit_share: Sequence[float]
    shuffled_hit_share: Sequence[float]


def hit_curve(trace: PrefixTrace) -> HitCurve | None:
    """The curve; None of a trace without blocks."""
    hits, homes = trace.hits, trace.situation.scenario.dp // trace.hits.caches
    most = hits.curve.distinct_blocks / homes / hits.caches
    if most <= 1:
        return None
    blocks = [most ** (i / POINTS) for i in range(POINTS + 1)]
    return HitCurve(
        [one * trace.block_bytes for one in blocks],
        [hits.curve.hit_share(one * homes) for one in blocks],
        [hits.gaps.shuffled_hit_share(one * homes * hits.caches) for one in blocks],
    )


def found_shares(trace: PrefixTrace, room: Room) -> list[tuple[float, float]]:
    """(share of the prompt, share of requests that find at most so much) in a cache of this size."""
    import numpy as np

    hits, homes = trace.hits, trace.situation.scenario.dp // trace.hits.caches
    found = hits.found_blocks(room.device_bytes / trace.block_bytes * homes) * hits.block_tokens
    shares = np.sort(hit_tokens(found, hits.input_tokens, trace.engine_block_tokens) / hits.input_tokens)
    places = np.linspace(0.0, 1.0, SHARES + 1)
    counted = np.searchsorted(shares, places, side="right") / len(shares)
    return [(float(share), float(part)) for share, part in zip(places, counted, strict=True)]
