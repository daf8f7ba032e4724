"""What simulations say of a search's front: a table, a sentence for a row, JSON."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from infopt.studies.search import Deployment, Search, Targets
from infopt.studies.search_simulated import GOOD_SHARE, Tail
from infopt.units import format_seconds, format_share

COLUMNS = ("#", "deployment", "in time", "TTFT p99", "TPOT p99", "means say", "holds to", "verdict")
ALIGNMENT = "rlrrrrrl"
DROPPED_FIRST = ("TPOT p99", "in time", "means say")
LEGEND = (
    ("in time", f"requests within all targets; a row holds with {format_share(GOOD_SHARE)} of them or more"),
    ("means say", "requests/s up to which mean times keep the targets; holds to: those of nearly all requests"),
)


def heading_words(result: Search) -> str:
    """Which traffic was simulated."""
    made = [tail for tail in result.tails if tail.holds is not None]
    if not made:
        return "nothing could be simulated"
    ratio = made[0].burstiness_ratio
    how = "by chance" if ratio == 1 else "evenly" if not ratio else f"in bursts, gaps vary by {ratio:g}"
    least, most = min(tail.requests for tail in made), max(tail.requests for tail in made)
    return f"{least:,}{f' to {most:,}' if most > least else ''} requests that come {how}"


def verdict(tail: Tail, targets: Targets) -> str:
    """One word or two."""
    if tail.holds is None:
        return "unknown"
    if tail.holds:
        return "holds"
    if tail.saturated:
        return "saturated"
    times = (("TTFT", tail.ttft_p99_s, targets.ttft_s), ("TPOT", tail.tpot_p99_s, targets.tpot_s))
    missed = [name for name, p99_s, target_s in times if target_s is not None and p99_s and p99_s > target_s]
    return f"misses {' and '.join(missed) or 'both together'}"


def verdict_words(result: Search) -> str:
    """How many hold, and which is the first."""
    held = [number for number, tail in enumerate(result.tails, start=1) if tail.holds]
    if not held:
        return "no row of the front keeps the targets for nearly all requests: more replicas, or a lower rate"
    told = f"{len(held)} of {len(result.tails)} rows hold"
    return told if held[0] == 1 else f"{told}; the first of them is row {held[0]}, shown below"


def cells(number: int, name: str, d: Deployment, tail: Tail, targets: Targets) -> list[str]:
    """One row of the table."""
    return [
        str(number),
        name,
        "-" if tail.good_share is None else format_share(round(tail.good_share, 4)),
        *("-" if time_s is None else format_seconds(time_s) for time_s in (tail.ttft_p99_s, tail.tpot_p99_s)),
        f"{d.capacity_per_s:.3g}/s",
        _held(tail) or "-",
        verdict(tail, targets),
    ]


def _held(tail: Tail) -> str:
    if tail.held_per_s is None:
        return ""
    return f"{tail.held_per_s:.3g}/s" if tail.held_per_s else "no rate"


def row_words(d: Deployment, tail: Tail, targets: Targets) -> str:
    """One row in a sentence."""
    if tail.holds is None:
        return f"not simulated: {tail.reason}"
    told = [f"{verdict(tail, targets)} at {d.rate_per_s:.3g}/s"]
    if tail.good_share is not None:
        told.append(f"{format_share(round(tail.good_share, 4))} of {tail.requests:,} requests in time")
    told += [
        f"p99 of {name} {format_seconds(time_s)}"
        for name, time_s in (("TTFT", tail.ttft_p99_s), ("TPOT", tail.tpot_p99_s))
        if time_s is not None
    ]
    if held := _held(tail):
        told.append(f"means say {d.capacity_per_s:.3g}/s, nearly all requests {held}")
    return "; ".join(told)


def row_dict(tail: Tail) -> dict[str, Any]:
    """One row's object."""
    return {**asdict(tail), "reason": tail.reason or None}


def summary_dict(result: Search) -> dict[str, Any] | None:
    """What stands beside the front; null where nothing was simulated."""
    if not result.tails:
        return None
    held = [number for number, tail in enumerate(result.tails, start=1) if tail.holds]
    return {"good_share_asked": GOOD_SHARE, "holding": held, "chosen": held[0] if held else None}


def flat(tails: Iterable[Tail]) -> list[dict[str, Any]]:
    """Columns that CSV adds."""
    return [{f"simulated_{name}": value for name, value in row_dict(tail).items()} for tail in tails]
