"""Why the neighbours of a deployment lost: each differs in one thing, and is judged by the same targets."""

from collections.abc import Iterator
from dataclasses import dataclass

from infopt.studies.search import (
    Deployment,
    Search,
    Targets,
    deployments,
    most_replicas,
    replica_price,
    with_replicas,
    within,
)
from infopt.studies.search_relaxation import degrees_of
from infopt.studies.search_space import Replica
from infopt.units import format_seconds, format_usd

OTHER_DEVICES = 3
# Latencies, prices and counts nearer than this are told as equal.
EQUAL_SHARE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Neighbour:
    """One thing changed, and what it would do; `deployment` is None where it misses a target."""

    change: str
    verdict: str
    deployment: Deployment | None


def neighbours(result: Search, chosen: Deployment) -> tuple[Neighbour, ...]:
    """Placements one step away, one replica less and more, other formats, the best of other devices."""
    return (
        *_placements(result, chosen),
        *_counts(result, chosen),
        *_formats(result, chosen),
        *_devices(result, chosen),
    )


def _placements(result: Search, chosen: Deployment) -> Iterator[Neighbour]:
    """Every other tp; pp, dp and the split of experts one step away."""
    for replica in result.space.by_kind[chosen.replica.kind]:
        if _one_step(replica, chosen.replica):
            label = ", ".join(f"{name} {n}" for name, n in degrees_of(replica))
            sliced = replica.scenario.model.experts and replica.scenario.ep == 1 and replica.gpus > 1
            yield _judged(label + (", ep 1" if sliced else ""), replica, chosen, result.targets)


def _one_step(replica: Replica, chosen: Replica) -> bool:
    """Whether one degree differs, pp and dp by a factor of two; experts stay whole or in slices unless that is it."""
    s, c = replica.scenario, chosen.scenario
    changed = [s.tp != c.tp, s.pp != c.pp, s.dp != c.dp]
    if not any(changed):
        return s.ep != c.ep
    halved_or_doubled = all(
        one in (other, 2 * other) or other == 2 * one for one, other in ((s.pp, c.pp), (s.dp, c.dp))
    )
    # A single device has nothing to split: its neighbours keep experts whole.
    whole = c.ep > 1 or c.tp * c.dp == 1
    kept = s.tp * s.dp == 1 or not s.model.experts or (s.ep > 1) == whole
    return sum(changed) == 1 and halved_or_doubled and kept


def _counts(result: Search, chosen: Deployment) -> Iterator[Neighbour]:
    rate = result.targets.rate_per_s
    if rate is None:
        return
    if chosen.replicas > 1:
        fewer = chosen.replicas - 1
        served = chosen.capacity_per_s * fewer / chosen.replicas
        if served < rate:
            verdict = f"only {served:.3g} of {rate:.4g} requests/s within the targets"
            yield Neighbour("one replica" if fewer == 1 else f"{fewer} replicas", verdict, None)
    more = chosen.replicas + 1
    if more <= most_replicas(chosen.replica, result.targets):
        found = with_replicas(chosen.replica, result.targets, more, within(chosen.replica, result.targets))
        headroom = f"head-room {found.headroom_share:.0%}"
        yield Neighbour(f"{more} replicas", f"{compared(chosen, found)}, {headroom}", found)


def _formats(result: Search, chosen: Deployment) -> Iterator[Neighbour]:
    """The same placement with another cache; the best of the same device in other weight formats."""
    device, weights, kv = chosen.replica.kind
    for kind, replicas in result.space.by_kind.items():
        if kind[:2] == (device, weights) and kind[2] != kv:
            same = (r for r in replicas if _degrees(r) == _degrees(chosen.replica))
            yield from (_judged(f"{kind[2]} cache", replica, chosen, result.targets) for replica in same)
    seen = {weights}
    for d in result.front:
        other_device, other, _ = d.replica.kind
        if other_device == device and other not in seen:
            seen.add(other)
            yield Neighbour(f"{other} weights ({_where(d)})", f"{compared(chosen, d)}; quality may differ", d)


def _degrees(replica: Replica) -> tuple[int, int, int, int]:
    s = replica.scenario
    return s.tp, s.pp, s.dp, s.ep


def _devices(result: Search, chosen: Deployment) -> Iterator[Neighbour]:
    """The best of other devices in the same weight format."""
    seen = {chosen.replica.scenario.accelerator.id}
    for d in result.front:
        s = d.replica.scenario
        if s.accelerator.id not in seen and s.weight_format == chosen.replica.scenario.weight_format:
            seen.add(s.accelerator.id)
            yield Neighbour(f"{s.accelerator.id} ({_where(d)})", compared(chosen, d), d)
        if len(seen) > OTHER_DEVICES:
            return


def _where(d: Deployment) -> str:
    return f"{d.replicas} x " + ", ".join(f"{name} {n}" for name, n in degrees_of(d.replica))


def _judged(change: str, replica: Replica, chosen: Deployment, targets: Targets) -> Neighbour:
    found = deployments(replica, targets)
    best = next(found, None)
    if best is None:
        return Neighbour(change, why_not(replica, targets), None)
    if targets.rate_per_s is None:  # at the same load, or the nearest below it
        best = max(
            (d for d in (best, *found) if d.sequences <= chosen.sequences), key=lambda d: d.sequences, default=best
        )
    return Neighbour(change, compared(chosen, best), best)


def compared(chosen: Deployment, other: Deployment) -> str:
    """`3% faster, 4x the cards`: latency, devices, and the price of a token where the devices differ in it."""
    parts = [_latency(other.e2e_s / chosen.e2e_s), _times(other.gpus / chosen.gpus, "cards")]
    ours, theirs = chosen.usd_per_million_output_tokens, other.usd_per_million_output_tokens
    if ours and theirs and abs(theirs / ours / (other.gpus / chosen.gpus) - 1) > EQUAL_SHARE:
        parts.append(_times(theirs / ours, "price"))
    elif ours and not theirs:
        parts.append("no price known")
    return ", ".join(parts)


def _latency(ratio: float) -> str:
    if abs(ratio - 1) < EQUAL_SHARE / 2:
        return "as fast"
    return f"{1 - ratio:.0%} faster" if ratio < 1 else f"{ratio - 1:.0%} slower"


def _times(ratio: float, what: str) -> str:
    return f"the same {what}" if abs(ratio - 1) < EQUAL_SHARE else f"{ratio:.3g}x the {what}"


def why_not(replica: Replica, targets: Targets) -> str:
    """The first target a placement misses, with its number."""
    times = replica.times
    if times is None:
        count = f"{replica.gpus} devices do" if replica.gpus > 1 else "one device does"
        return f"{count} not hold the weights and one sequence"
    if not within(replica, targets):
        ttft, tpot = float(times.ttft_s[0]), float(times.tpot_s[0])
        if targets.tpot_s is not None and tpot > targets.tpot_s:
            return f"TPOT {format_seconds(tpot)} with one sequence already"
        return f"TTFT {format_seconds(ttft)} with one sequence already"
    price, most = replica_price(replica), most_replicas(replica, targets)
    if targets.usd_per_hour is not None and most < replica.max_gpus // replica.gpus:
        if price is None:
            return "no price known, and a budget is set"
        if not most:
            return f"one replica costs {format_usd(price)} per hour"
    served = float(times.requests_per_s[: within(replica, targets)].max()) * most
    count = f"{most} replicas serve" if most != 1 else "one replica serves"
    return f"{count} {served:.3g} of {targets.rate_per_s or 0:.4g} requests/s within the targets"
