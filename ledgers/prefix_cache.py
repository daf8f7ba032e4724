"""Prefix cache: tokens a prompt finds, hits of a pool that holds only the latest requests, load of its replicas.

    hit tokens = floor(min(shared, n - 1) / b) b
    S sum_i (1 - (1 - p_i)^T) + U T = C          T requests are remembered
    hits       = sum_i p_i (1 - (1 - p_i)^T)
n prompt tokens, b tokens of the engine's effective block (hybrids raise it to hundreds, ledgers/paging.py); one token
is always computed anew. p_i popularity of prefix i, S bytes of one prefix, U bytes that belong to one request alone
(its own tokens pass through the same pool and push prefixes out), C bytes of the pool. With U = 0 this is Che's
approximation of LRU (Che, Tung, Wang 2002, doi:10.1109/JSAC.2002.801752) with requests for a clock. T is also the
number of sequences that run at once when they share their prefixes' blocks.
Ignored: the first request of every prefix; engines that evict leaves first; partial reuse of a prefix; and that a
prefix is often asked for again soon (requests are taken as independent). Sessions do that: on Mooncake's conversation
trace, given the popularity of its blocks, the formula finds 0.19 where 0.33 are counted with room for 30,000 blocks.
Where a trace is known, ledgers/lru_curve.py counts and ledgers/reuse_gaps.py tells whether requests are independent.
Source of the whole-block and n - 1 rules: vllm-project/vllm v1/core/kv_cache_manager.py and issue 40696.
"""

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from infopt.frozen import dataclass
from infopt.ledgers.arrays import larger, smaller
from infopt.ledgers.compute import prefill_flop
from infopt.ledgers.paging import Layout
from infopt.profiles.geometry import ModelProfile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Ranks taken one by one; later ones, which hardly differ, in runs whose ends are a per cent apart.
EXACT_RANKS = 512
RUN_RATIO = 1.01
NEWTON_STEPS = 200
RELATIVE = 1e-9
# A prefix in every request is in the last one; the logarithm of what is left stays finite.
CERTAIN = 1 - 1e-15


@dataclass(frozen=True, slots=True)
class Popularity:
    """Prefixes by how often they are asked for.

    shares  of the requests that one prefix of a class gets, falling
    counts  prefixes in each class; sum(counts x shares) = 1
    """

    shares: "NDArray[np.float64]"
    counts: "NDArray[np.float64]"


def hit_block_tokens(layout: Layout) -> int:
    """Tokens of which hits are whole multiples: the least common multiple of the blocks of all kinds of layers."""
    blocks = [kind.block_tokens for kind, _ in layout.kinds if not kind.state_slots]
    return math.lcm(*blocks) if blocks else layout.block_tokens


def hit_tokens(shared_tokens: Any, prompt_tokens: Any, block_tokens: int) -> Any:
    """floor(min(shared, n - 1) / b) b: whole blocks, and never the last token of the prompt; numbers or arrays.

    >>> hit_tokens(979, 979, 528), hit_tokens(552, 552, 528), hit_tokens(527, 527, 528), hit_tokens(1024, 1088, 128)
    (528, 528, 0, 1024)
    """
    return larger(0, smaller(shared_tokens, prompt_tokens - 1)) // block_tokens * block_tokens


def saved_flop(model: ModelProfile, cached_tokens: Any) -> Any:
    """Prefill of the cached tokens, less the head's product, which only the last token of a prompt needs; 0 of none."""
    return prefill_flop(model, cached_tokens) - 2.0 * (model.head_params or model.embed_params)


@lru_cache(maxsize=256)
def zipf(prefixes: int, skew: float) -> Popularity:
    """p_i proportional to i^-skew over `prefixes` prefixes; 0 makes all alike."""
    import numpy as np

    if skew == 0:
        return Popularity(np.array([1.0 / prefixes]), np.array([float(prefixes)]))
    ends = [*range(min(prefixes, EXACT_RANKS) + 1)]
    while ends[-1] < prefixes:
        ends.append(min(prefixes, math.ceil(ends[-1] * RUN_RATIO)))
    edges = np.array(ends, dtype=float)
    counts = np.diff(edges)
    # The middle of a run stands for it.
    weights = ((edges[:-1] + edges[1:] + 1) / 2) ** -skew
    return Popularity(weights / (counts @ weights), counts)


def counted(uses: Iterable[int]) -> Popularity:
    """Popularity as counted: how often each prefix was asked for."""
    import numpy as np

    times, counts = np.unique(np.fromiter(uses, dtype=float), return_counts=True)
    return Popularity(times[::-1] / (times @ counts), counts[::-1].astype(float))


def remembered_requests(popularity: Popularity, capacity_prefixes: float, own_ratio: float = 0.0) -> float:
    """T: the latest requests whose tokens a pool holds; infinite where it holds every prefix for ever.

    capacity_prefixes  prefixes the pool has room for, C / S
    own_ratio          bytes of one request alone over those of a prefix, U / S

    The left side is concave in T, so Newton's tangents approach the root from below, each time nearer.
    """
    import numpy as np

    shares, counts = popularity.shares, popularity.counts
    leaving = -np.log1p(-np.minimum(shares, CERTAIN))
    if capacity_prefixes <= 0:
        return 0.0
    if own_ratio == 0 and capacity_prefixes >= counts.sum():
        return math.inf
    requests = 0.0
    for _ in range(NEWTON_STEPS):
        left = np.exp(-leaving * requests)
        missing = capacity_prefixes - float(counts @ (1 - left)) - own_ratio * requests
        step = missing / (float(counts @ (leaving * left)) + own_ratio)
        requests += step
        if step <= RELATIVE * requests:
            break
    return requests


def hit_share(popularity: Popularity, requests: float) -> float:
    """Requests that find their prefix among the last `requests`: sum of p (1 - (1 - p)^T)."""
    import numpy as np

    shares = popularity.shares
    left = np.exp(np.log1p(-np.minimum(shares, CERTAIN)) * requests)
    return float((popularity.counts * shares) @ (1 - left))


def hot_spot_ratio(popularity: Popularity, replicas: int) -> float:
    """Load of the fullest replica over the mean, where each prefix has a home and homes are given out evenly.

    Most popular first, each to the emptiest replica; prefixes past the first few hundred fill what is left level. No
    router that keeps a prefix on one replica does better than p_1 R; one that hashes does worse
    (`hashing_spread_ratio`).
    """
    loads, placed = [0.0] * replicas, 0
    for share, count in zip(popularity.shares.tolist(), popularity.counts.tolist(), strict=True):
        for _ in range(int(min(count, EXACT_RANKS - placed))):
            loads[loads.index(min(loads))] += share
            placed += 1
        if placed >= EXACT_RANKS:
            break
    return max(1.0, replicas * max(loads))


def hashing_spread_ratio(popularity: Popularity, replicas: int) -> float:
    """Standard deviation over mean of a replica's load where prefixes are hashed to replicas: sqrt((R - 1) sum p^2)."""
    return math.sqrt((replicas - 1) * float(popularity.counts @ popularity.shares**2))


def lru_hit_share(requests: Iterable[Sequence[Hashable]], capacity_blocks: float = math.inf) -> float:
    """Blocks found over blocks asked for, counted through a trace of requests, each the blocks of its prompt in order.

    A block is found while all before it are. Every block of a request is kept or refreshed, then the longest unused
    are dropped until `capacity_blocks` are left.
    """
    held: OrderedDict[Hashable, None] = OrderedDict()
    hits = asked = 0
    for blocks in requests:
        asked += len(blocks)
        hits += next((i for i, block in enumerate(blocks) if block not in held), len(blocks))
        for block in blocks:
            held[block] = None
            held.move_to_end(block)
        while len(held) > capacity_blocks:
            held.popitem(last=False)
    return hits / asked if asked else 0.0
