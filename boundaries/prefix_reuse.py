"""What prompts find in the cache of an engine, from what is known of their prefixes: tokens, memory, replicas.

With random or least-loaded routing every replica sees all prefixes and keeps its own copies; with affinity the pools
add up, and the replica that is home to popular prefixes gets more than its share of requests (`hot_spot`).
"""

import math
from functools import cache
from typing import Literal

from infopt.boundaries.deciding import DATA
from infopt.boundaries.situation import Situation
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.memory import MemoryLedger
from infopt.ledgers.paging import UNBOUNDED
from infopt.ledgers.prefix_cache import (
    Popularity,
    hit_block_tokens,
    hit_share,
    hit_tokens,
    hot_spot_ratio,
    remembered_requests,
    zipf,
)
from infopt.ledgers.scenario import Scenario
from infopt.profiles.engines import version_key
from infopt.records import Record, read_yaml

# A measured share may be rounded up by this much before it contradicts the shared tokens.
ROUNDING = 0.01


class Keeping(Record):
    """How an engine keeps prefixes (data/prefix_caching.yaml)."""

    engine: str
    until: str | None = None
    default: Literal["on", "off"] = "on"
    keeps: Literal["blocks", "slots"] = "blocks"
    reuse_tokens: int | None = None
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Reuse:
    """What prompts find.

    block_tokens     hits are whole multiples of it
    whole_tokens     tokens a prompt finds whose prefix is there
    cached_tokens    mean over prompts
    found_share      requests whose prefix is there; None where a measured share replaces what is computed
    remembered       latest requests whose tokens a replica holds; None likewise
    prefixes         in circulation
    prefix_bytes, own_bytes  of one prefix, and of the rest of one request, on one device
    sequences        that run at once in a replica, sharing the blocks of their prefixes
    hot_spot         load of the fullest replica over the mean
    """

    block_tokens: int
    whole_tokens: int
    cached_tokens: float
    found_share: float | None
    remembered: float | None
    prefixes: int
    prefix_bytes: float
    own_bytes: float
    sequences: int
    hot_spot: float


def reuse_of(situation: Situation) -> Reuse | None:
    """What prompts find here; None where neither shared tokens nor a measured hit share are known.

    Not given: one prefix; popularity all alike (the least an LRU cache finds). Raises InfoptError for contradictions.
    """
    checked(situation)
    prefix, s = situation.load.prefix, situation.scenario
    if prefix.shared_tokens is None and prefix.hit_share is None:
        return None
    shared = s.input_tokens if prefix.shared_tokens is None else prefix.shared_tokens
    found = _reuse(situation, shared, prefix.prefixes or 1, prefix.skew or 0.0)
    if prefix.hit_share is None:
        return found
    most = found.whole_tokens / s.input_tokens
    if prefix.hit_share > most + ROUNDING:
        blocks = f"whole blocks of {found.block_tokens} tokens"
        raise InfoptError(f"--hit-share {prefix.hit_share:g} is more than the {most:.3g} that {blocks} can give here")
    cached = min(prefix.hit_share, most) * s.input_tokens
    return _measured(found, cached, situation.memory)


def most_reuse(situation: Situation) -> Reuse:
    """What prompts would find if they were all the same."""
    return _reuse(situation, situation.scenario.input_tokens, 1, 0.0)


def _measured(found: Reuse, cached_tokens: float, memory: MemoryLedger) -> Reuse:
    return Reuse(
        block_tokens=found.block_tokens,
        whole_tokens=found.whole_tokens,
        cached_tokens=cached_tokens,
        found_share=None,
        remembered=None,
        prefixes=found.prefixes,
        prefix_bytes=found.prefix_bytes,
        own_bytes=found.own_bytes,
        sequences=memory.max_sequences,
        hot_spot=found.hot_spot,
    )


def _reuse(situation: Situation, shared_tokens: int, prefixes: int, skew: float) -> Reuse:
    s, memory = situation.scenario, situation.memory
    row, layout = keeping(s.engine.engine, s.engine_version), memory.layout
    block = row.reuse_tokens or hit_block_tokens(layout)
    whole = hit_tokens(shared_tokens, s.input_tokens, block)
    popularity = zipf(prefixes, skew)
    prefix_bytes = float(layout.request_bytes(whole)) if whole else 0.0
    own_bytes = float(layout.request_bytes(max(1, s.context_tokens - whole)))
    homes = s.dp if situation.load.prefix.routing == "affinity" else 1
    remembered = _remembered(popularity, homes * memory.kv_pool_bytes_per_gpu, prefix_bytes, own_bytes) / homes
    if row.keeps == "slots":
        remembered = min(remembered, s.batch_per_replica)
    sharing = 0 if row.keeps == "slots" or not whole else int(min(remembered, UNBOUNDED))
    found = hit_share(popularity, homes * remembered) if whole else 0.0
    return Reuse(
        block_tokens=block,
        whole_tokens=whole,
        cached_tokens=found * whole,
        found_share=found,
        remembered=remembered,
        prefixes=prefixes,
        prefix_bytes=prefix_bytes,
        own_bytes=own_bytes,
        sequences=max(memory.max_sequences, sharing),
        hot_spot=hot_spot_ratio(popularity, homes) if homes > 1 else 1.0,
    )


def _remembered(popularity: Popularity, pool_bytes: float, prefix_bytes: float, own_bytes: float) -> float:
    if own_bytes <= 0:
        return math.inf
    if prefix_bytes <= 0:
        return pool_bytes / own_bytes
    return remembered_requests(popularity, pool_bytes / prefix_bytes, own_bytes / prefix_bytes)


def checked(situation: Situation) -> None:
    """Refuse what no load can be; the message names the option."""
    prefix = situation.load.prefix
    if prefix.shared_tokens is not None and prefix.shared_tokens < 0:
        raise InfoptError(f"--shared-prefix {prefix.shared_tokens}: not a number of tokens")
    if prefix.prefixes is not None and prefix.prefixes < 1:
        raise InfoptError(
            f"--prefixes {prefix.prefixes}: there must be at least one; --shared-prefix 0 says there is none"
        )
    if prefix.skew is not None and not prefix.skew >= 0:
        raise InfoptError(f"--prefix-skew {prefix.skew:g}: must be at least 0 (0: all prefixes alike)")
    if prefix.hit_share is not None and not 0 <= prefix.hit_share <= 1:
        raise InfoptError(f"--hit-share {prefix.hit_share:g}: not a share between 0 and 1")
    if prefix.hit_share and prefix.shared_tokens == 0:
        raise InfoptError(
            f"--hit-share {prefix.hit_share:g} with --shared-prefix 0: without a prefix nothing can be hit"
        )


@cache
def keeping(engine: str, version: str) -> Keeping:
    """How an engine of this version keeps prefixes."""
    for row in _rows():
        if row.engine == engine and (row.until is None or version_key(version) < version_key(row.until)):
            return row
    return Keeping(engine=engine, text=f"whether {engine} keeps prefixes is not known here", source="assumed")


@cache
def _rows() -> tuple[Keeping, ...]:
    return tuple(Keeping.model_validate(row) for row in read_yaml(DATA / "prefix_caching.yaml"))


def running(s: Scenario, sequences: int) -> float:
    """Sequences that share a step when `sequences` fit in each replica; at least one."""
    return float(max(1, min(s.batch_per_replica, sequences)) * s.sharing_replicas)
