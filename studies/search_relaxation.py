"""Nothing is feasible: which constraint binds, and how far the nearest deployment is from it.

Each constraint is dropped alone, the others kept, and the least value that would do is computed. The one nearest to
what was asked, as a ratio, is the one that binds.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from infopt.ledgers.memory import memory_ledger
from infopt.profiles.geometry import ModelProfile
from infopt.studies.planning import fewest_gpus
from infopt.studies.scenarios import Request
from infopt.studies.search import Binding, Targets, most_replicas, replica_price, replicas_needed, within
from infopt.studies.search_space import Replica, Space
from infopt.units import format_seconds, format_usd

# How many devices are tried for a model that the devices allowed do not hold.
MOST_DEVICES = 512


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """A deployment that misses one constraint: by which ratio, and what would be enough."""

    ratio: float
    needed: float
    replica: Replica
    replicas: int
    beside: float = 0.0


def binding_constraint(found: Space, targets: Targets, model: ModelProfile, request: Request) -> Binding:
    """The constraint that leaves nothing, with the nearest relaxation."""
    fitting = [replica for replica in found.replicas if replica.times]
    if not fitting:
        return _memory(found.replicas, targets)
    nearest = [
        (name, near)
        for name, measure in MEASURES.items()
        if (near := min(_all(fitting, targets, measure), key=lambda n: n.ratio, default=None)) is not None
    ]
    alone = [(name, near) for name, near in nearest if name != "latency"]
    if not nearest:
        return _together(fitting, targets)
    (name, near), *others = sorted(alone or nearest, key=lambda pair: pair[1].ratio)
    texts = tuple(_words(other, further, targets) for other, further in others)
    return Binding(name, near.needed, _words(name, near, targets), texts)


def _all(
    fitting: Sequence[Replica], targets: Targets, measure: Callable[[Replica, Targets], Near | None]
) -> Iterable[Near]:
    return (near for replica in fitting if (near := measure(replica, targets)) is not None)


def _first_position(replica: Replica, targets: Targets, replicas: int) -> int | None:
    """The lowest concurrency within the targets at which so many replicas serve the rate."""
    count, times = within(replica, targets), replica.times
    if not count or not replicas or times is None:
        return None
    if targets.rate_per_s is None:
        return 0
    enough = times.requests_per_s[:count] >= targets.rate_per_s / replicas
    return int(enough.argmax()) if enough.any() else None


def _ttft(replica: Replica, targets: Targets) -> Near | None:
    replicas = most_replicas(replica, targets)
    position = _first_position(replica, replace(targets, ttft_s=None), replicas)
    if targets.ttft_s is None or position is None or replica.times is None:
        return None
    needed = float(replica.times.ttft_s[position])
    return Near(needed / targets.ttft_s, needed, replica, replicas)


def _tpot(replica: Replica, targets: Targets) -> Near | None:
    replicas = most_replicas(replica, targets)
    position = _first_position(replica, replace(targets, tpot_s=None), replicas)
    if targets.tpot_s is None or position is None or replica.times is None:
        return None
    needed = float(replica.times.tpot_s[position])
    return Near(needed / targets.tpot_s, needed, replica, replicas)


def _latency(replica: Replica, targets: Targets) -> Near | None:
    """Both latency targets relaxed by one factor."""
    replicas = most_replicas(replica, targets)
    position = _first_position(replica, replace(targets, ttft_s=None, tpot_s=None), replicas)
    if targets.ttft_s is None or targets.tpot_s is None or position is None or replica.times is None:
        return None
    ttft, tpot = float(replica.times.ttft_s[position]), float(replica.times.tpot_s[position])
    return Near(max(ttft / targets.ttft_s, tpot / targets.tpot_s), tpot, replica, replicas, beside=ttft)


def _served_per_s(replica: Replica, targets: Targets) -> float:
    """What one replica serves within the latency targets."""
    count, times = within(replica, targets), replica.times
    return float(times.requests_per_s[:count].max()) if count and times is not None else 0.0


def _rate(replica: Replica, targets: Targets) -> Near | None:
    replicas = most_replicas(replica, targets)
    served = _served_per_s(replica, targets) * replicas
    if targets.rate_per_s is None or not served:
        return None
    return Near(targets.rate_per_s / served, served, replica, replicas)


def _fewest(replica: Replica, targets: Targets) -> int | None:
    """Replicas that serve the rate within the latency targets, however many that is."""
    served = _served_per_s(replica, targets)
    if not served:
        return None
    return replicas_needed(targets.rate_per_s, served) if targets.rate_per_s is not None else 1


def _gpus(replica: Replica, targets: Targets) -> Near | None:
    replicas, price = _fewest(replica, targets), replica_price(replica)
    if replicas is None:
        return None
    if targets.usd_per_hour is not None and (price is None or replicas * price > targets.usd_per_hour):
        return None
    return Near(replicas * replica.gpus / replica.max_gpus, replicas * replica.gpus, replica, replicas)


def _budget(replica: Replica, targets: Targets) -> Near | None:
    replicas, price = _fewest(replica, targets), replica_price(replica)
    if targets.usd_per_hour is None or replicas is None or price is None:
        return None
    if replicas > replica.max_gpus // replica.gpus:
        return None
    return Near(replicas * price / targets.usd_per_hour, replicas * price, replica, replicas)


MEASURES: dict[str, Callable[[Replica, Targets], Near | None]] = {
    "ttft": _ttft,
    "tpot": _tpot,
    "rate": _rate,
    "budget": _budget,
    "gpus": _gpus,
    "latency": _latency,
}


def _words(name: str, near: Near, targets: Targets) -> str:
    """The constraint, what was asked and what is the nearest that can be had."""
    on = f"with {placed(near.replica, near.replicas)}"
    if name == "rate":
        return f"rate: {targets.rate_per_s:.4g} requests/s cannot be served; nearest {near.needed:.3g}/s {on}"
    if name == "gpus":
        return f"gpus: {near.replica.max_gpus} devices are too few; nearest {near.needed:.0f} {on}"
    if name == "budget":
        asked = format_usd(targets.usd_per_hour or 0.0)
        return f"budget: {asked} per hour is too little; nearest {format_usd(near.needed)} {on}"
    if name == "latency":
        both = f"TTFT {format_seconds(near.beside)} and TPOT {format_seconds(near.needed)}"
        return f"latency: TTFT and TPOT cannot both be met; nearest {both} {on}"
    asked_s = targets.ttft_s if name == "ttft" else targets.tpot_s
    return (
        f"{name}: {name.upper()} {format_seconds(asked_s or 0.0)} cannot be met; "
        f"nearest {format_seconds(near.needed)} {on}"
    )


def placed(replica: Replica, replicas: int) -> str:
    """`2 x h200-sxm-141gb:4 (tp 4, fp8 weights, bf16 cache)`."""
    s = replica.scenario
    degrees = ", ".join(f"{name} {n}" for name, n in degrees_of(replica))
    return f"{replicas} x {s.accelerator.id}:{s.gpus} ({degrees}, {s.weight_format} weights, {s.kv_format} cache)"


def degrees_of(replica: Replica) -> list[tuple[str, int]]:
    """Degrees of parallelism that are not 1 (tp always)."""
    s = replica.scenario
    return [("tp", s.tp), *((name, n) for name, n in (("pp", s.pp), ("dp", s.dp), ("ep", s.ep)) if n > 1)]


def _together(fitting: Sequence[Replica], targets: Targets) -> Binding:
    """No single relaxation is enough: the fastest that one sequence can be, and where."""
    unpriced = targets.usd_per_hour is not None and all(replica_price(replica) is None for replica in fitting)
    if unpriced:
        return Binding("budget", None, "budget: no device here has a price; --price NAME=USD gives one")
    fastest = min(fitting, key=lambda replica: float(replica.times.tpot_s[0]) if replica.times else 0.0)
    times = fastest.times
    assert times is not None
    ttft, tpot = format_seconds(float(times.ttft_s[0])), format_seconds(float(times.tpot_s[0]))
    return Binding(
        "latency",
        None,
        "several constraints: no single one relaxed is enough; "
        f"a single sequence alone has TTFT {ttft} and TPOT {tpot} with {placed(fastest, 1)}",
    )


def _memory(replicas: Sequence[Replica], targets: Targets) -> Binding:
    """The model and one sequence fit on nothing that is allowed: the fewest devices that would hold them."""
    best: tuple[int, Replica] | None = None
    for replica in {(r.hardware.accelerator.id, r.request.weights, r.request.kv): r for r in replicas}.values():
        request = replace(replica.request, gpus=None, tp=1, pp=1, dp=1, ep=None, batch=1)
        enough = fewest_gpus(replica.built, replica.hardware, request, limit=MOST_DEVICES)
        if enough is not None and (best is None or enough.scenario.gpus < best[0]):
            best = (enough.scenario.gpus, replace(replica, built=enough))
    s = replicas[0].scenario
    what = f"{s.model.id} and one sequence of {s.context_tokens} tokens"
    if best is None:
        short = memory_ledger(replace(s, batch=s.dp))
        size = f"{short.stored_weights_bytes / 1e9:.1f} GB of weights"
        return Binding("memory", None, f"memory: {what} fit on nothing here, {size}; a shorter --isl may help")
    gpus, replica = best
    if gpus <= targets.max_gpus:  # a placement the search does not try, or a cap of --hw
        return Binding("memory", float(gpus), f"memory: {what} fit only with {placed(replica, 1)}")
    return Binding(
        "memory", float(gpus), f"memory: {what} fit on no {targets.max_gpus} devices; nearest {placed(replica, 1)}"
    )
