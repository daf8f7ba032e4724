"""The best deployments under latency targets, a rate and a budget: the Pareto front over the whole space.

    replicas  R >= rate / served(B*)      B* the most sequences at which one replica still meets the targets
    at the load  B = smallest concurrency with served(B) >= rate / R      (Little's law: B = rate (TTFT + OSL TPOT) / R)
    head-room = R served(B*) / rate - 1
    usd per million output tokens = R usd_per_hour / (rate OSL 3600) 1e6
    tokens per joule = rate OSL / (R gpus TDP)
Replicas are a dimension of the space: a wider placement has to beat more narrow ones on the same devices. On the front
is what no other deployment beats or equals in every one of: price, tokens per second and device, latency, energy, bits
of weights and of cache (fewer bits may cost quality). Without a rate: one replica, at concurrencies 1, 2, 4 ... B*.
Placements of a kind that nobody measured (pipelines, replicas over several machines) come last in their format.
Ignored: bursts (the load is its mean), link time between machines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from infopt.errors import InfoptError
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.cost import usd_per_million_tokens
from infopt.ledgers.links import machine_devices
from infopt.profiles.geometry import ModelProfile
from infopt.studies.planning import Plan, plan_built
from infopt.studies.scenarios import Request, lengths
from infopt.studies.search_space import Replica, Space, space, weight_bits

if TYPE_CHECKING:
    from infopt.studies.search_simulated import Tail

# Latencies nearer than this are equal: the estimate is no better.
LATENCY_STEP = 1.02
# A computed rate may miss the rate asked for by rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Targets:
    """What a deployment must do; None where nothing is asked."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    rate_per_s: float | None = None
    usd_per_hour: float | None = None
    max_gpus: int = 16


@dataclass(frozen=True, slots=True, eq=False)
class Deployment:
    """Replicas of one placement at the load.

    sequences        concurrent sequences of one replica at the load
    limit            most sequences of one replica within the targets: the engine's limit
    headroom_share   how much more load it takes until a target is missed
    usd_per_hour     of all replicas; None where the device has no price
    """

    replica: Replica
    replicas: int
    sequences: int
    limit: int
    ttft_s: float
    tpot_s: float
    e2e_s: float
    rate_per_s: float
    capacity_per_s: float
    usd_per_hour: float | None
    usd_per_million_output_tokens: float | None
    output_tokens_per_s_per_gpu: float
    tokens_per_joule: float | None

    @property
    def gpus(self) -> int:
        return self.replica.gpus * self.replicas

    @property
    def machines(self) -> int:
        """Machines one replica spans."""
        return -(-self.replica.gpus // machine_devices(self.replica.scenario.accelerator))

    @property
    def beyond_measured(self) -> bool:
        """Whether nothing of the kind was measured: pipelines, replicas over several machines."""
        return self.machines > 1 or self.replica.scenario.pp > 1

    @property
    def headroom_share(self) -> float:
        return self.capacity_per_s / self.rate_per_s - 1


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """What a search found.

    front     best first: formats in order (as stored first), within one by price, devices, bits of cache, latency
    feasible  deployments that meet every target, of which the front is left
    binding   the constraint that leaves nothing, with its nearest relaxation; None where something is feasible
    tails     what simulations say of each row of the front; empty where none were made
    """

    model: ModelProfile
    request: Request
    targets: Targets
    input_tokens: int
    output_tokens: int
    space: Space
    feasible: int
    front: tuple[Deployment, ...]
    binding: "Binding | None"
    tails: "tuple[Tail, ...]" = ()

    @property
    def chosen_number(self) -> int:
        """The first row that holds in simulation; the first of all where none was simulated, or none holds."""
        return next((number for number, tail in enumerate(self.tails, start=1) if tail.holds), 1)

    @property
    def none_holds(self) -> bool:
        """Whether simulations were made, and none of them held the targets."""
        return bool(self.tails) and not any(tail.holds for tail in self.tails)

    @property
    def chosen(self) -> Deployment:
        return self.front[self.chosen_number - 1]


@dataclass(frozen=True, slots=True)
class Binding:
    """Why nothing is feasible.

    constraint  ttft, tpot, rate, budget, gpus, latency (both together) or memory
    needed      the nearest value that would do, in base units; None where none would
    text        both in words
    others      further constraints that alone would do, in words, nearest first
    """

    constraint: str
    needed: float | None
    text: str
    others: tuple[str, ...] = ()


def search(model: ModelProfile, request: Request, devices: Sequence[HardwareChoice], targets: Targets) -> Search:
    """Search the whole space; raises UndeterminedError where no device has measurements."""
    _, isl, osl, _, _ = lengths(request, model)
    found = space(model, request, devices, targets.max_gpus)
    feasible = [d for replica in found.replicas for d in deployments(replica, targets)]
    front = pareto_front(feasible)
    binding = None
    if not front:
        from infopt.studies.search_relaxation import binding_constraint

        binding = binding_constraint(found, targets, model, request)
    return Search(model, request, targets, isl, osl, found, len(feasible), tuple(front), binding)


def row_of(result: Search, number: int) -> Deployment:
    """The row of the front a user names, counted from 1."""
    if not 1 <= number <= len(result.front):
        raise InfoptError(f"--row {number}: the front has rows 1 to {len(result.front)}")
    return result.front[number - 1]


def within(replica: Replica, targets: Targets) -> int:
    """Leading entries of a replica's times that meet the latency targets (times rise with concurrency)."""
    times = replica.times
    if times is None:
        return 0
    missed = [
        (values > target).argmax() if values[-1] > target else len(values)
        for values, target in ((times.ttft_s, targets.ttft_s), (times.tpot_s, targets.tpot_s))
        if target is not None
    ]
    return int(min(missed, default=len(times.sequences)))


def most_replicas(replica: Replica, targets: Targets) -> int:
    """Replicas that the devices and the budget allow."""
    most = replica.max_gpus // replica.gpus
    if targets.usd_per_hour is not None:
        price = replica_price(replica)
        most = min(most, int(targets.usd_per_hour / price + ROUNDING)) if price else 0
    return most


def replica_price(replica: Replica) -> float | None:
    """US dollars per hour of one replica."""
    usd = replica.scenario.accelerator.usd_per_hour
    return None if usd is None else usd * replica.gpus


def deployments(replica: Replica, targets: Targets) -> Iterator[Deployment]:
    """Numbers of replicas that serve the rate within the targets; without a rate, one replica at several loads.

    The fewest, then only numbers that make the answer faster by `LATENCY_STEP`.
    """
    import numpy as np

    count, most, times = within(replica, targets), most_replicas(replica, targets), replica.times
    if not count or not most or times is None:
        return
    served = times.requests_per_s[:count]
    best = int(served.argmax())
    if targets.rate_per_s is None:
        for position in sorted({min(2**n, best + 1) - 1 for n in range((best + 1).bit_length() + 1)}):
            yield _deployment(replica, 1, position, best, float(served[position]))
        return
    # Every concurrency is reached by some number of replicas; between those numbers nothing changes but the cost.
    enough = np.ceil(targets.rate_per_s / served[: best + 1] - ROUNDING)
    fastest = float("inf")
    for replicas in np.unique(np.maximum(enough, 1.0)):
        if replicas > most:
            return
        d = with_replicas(replica, targets, int(replicas), count)
        if d.e2e_s * LATENCY_STEP < fastest:
            fastest = d.e2e_s
            yield d


def with_replicas(replica: Replica, targets: Targets, replicas: int, count: int) -> Deployment:
    """So many replicas at the rate; `count` concurrencies are within the targets, and one of them is enough."""
    times, rate = replica.times, targets.rate_per_s
    assert times is not None
    assert rate is not None
    served = times.requests_per_s[:count]
    position = int((served >= rate / replicas * (1 - ROUNDING)).argmax())
    return _deployment(replica, replicas, position, int(served.argmax()), rate)


def replicas_needed(rate_per_s: float, served_per_s: float) -> int:
    """Whole replicas that serve a rate."""
    return max(1, -int(-(rate_per_s / served_per_s - ROUNDING) // 1))


def _deployment(replica: Replica, replicas: int, position: int, best: int, rate_per_s: float) -> Deployment:
    times, s = replica.times, replica.scenario
    assert times is not None
    ttft, tpot = float(times.ttft_s[position]), float(times.tpot_s[position])
    gpus, tokens_per_s = replica.gpus * replicas, rate_per_s * s.output_tokens
    price, watts = replica_price(replica), s.accelerator.tdp_watts
    usd = price * replicas if price is not None else None
    return Deployment(
        replica=replica,
        replicas=replicas,
        sequences=int(times.sequences[position]),
        limit=int(times.sequences[best]),
        ttft_s=ttft,
        tpot_s=tpot,
        e2e_s=ttft + s.output_tokens * tpot,
        rate_per_s=rate_per_s,
        capacity_per_s=float(times.requests_per_s[best]) * replicas,
        usd_per_hour=usd,
        usd_per_million_output_tokens=None if usd is None else usd_per_million_tokens(usd, tokens_per_s),
        output_tokens_per_s_per_gpu=tokens_per_s / gpus,
        tokens_per_joule=tokens_per_s / (gpus * watts) if watts else None,
    )


def pareto_front(found: Sequence[Deployment]) -> list[Deployment]:
    """What nothing else beats or equals in every objective, in the order of `Search.front`."""
    if not found:
        return []
    import numpy as np

    ordered = sorted(found, key=lambda d: (d.e2e_s, d.gpus, d.replica.scenario.pp, d.replica.gpus))
    costs = np.array([_objectives(d) for d in ordered])
    kept = np.arange(len(ordered))
    position = 0
    while position < len(kept):
        # Whatever is nowhere better than this one goes, equals included.
        better = (costs[kept] < costs[kept[position]]).any(axis=1)
        better[position] = True
        kept = kept[better]
        position = int(better[:position].sum()) + 1
    return sorted((ordered[index] for index in kept), key=_order)


def _objectives(d: Deployment) -> tuple[float, ...]:
    """All to be small; without a price or a TDP the worst."""
    import math

    s = d.replica.scenario
    return (
        math.inf if d.usd_per_million_output_tokens is None else d.usd_per_million_output_tokens,
        -d.output_tokens_per_s_per_gpu,
        round(math.log(d.e2e_s) / math.log(LATENCY_STEP)),
        0.0 if d.tokens_per_joule is None else -d.tokens_per_joule,
        -weight_bits(s),
        -s.kv.bits_per_element,
    )


def _order(d: Deployment) -> tuple[Any, ...]:
    """Formats with more bits first; in each: measured kinds, price (none last), devices, bits of cache, latency."""
    s, usd = d.replica.scenario, d.usd_per_million_output_tokens
    return (-weight_bits(s), d.beyond_measured, usd is None, usd or 0.0, d.gpus, -s.kv.bits_per_element, d.e2e_s)


def holds(result: Search) -> bool | None:
    """Whether a deployment does what is asked, in simulation where that was made; None where that is not known."""
    if not result.front:
        return False
    if result.none_holds:
        return False if any(tail.holds is False for tail in result.tails) else None
    return plan_of(result.chosen).fits


def request_of(d: Deployment) -> Request:
    """What one replica is asked at the load, with the engine's limit of sequences as the command line sets it."""
    return replace(d.replica.request, batch=d.sequences, max_num_seqs=limit_of(d))


def limit_of(d: Deployment) -> int:
    """The engine's limit of sequences, of each attention replica."""
    return -(-d.limit // d.replica.scenario.dp)


def plan_of(d: Deployment) -> Plan:
    """The plan of one replica at the load."""
    replica, request = d.replica, request_of(d)
    scenario = replace(replica.scenario, batch=d.sequences, max_num_seqs=limit_of(d))
    return plan_built(replace(replica.built, scenario=scenario), replica.hardware, request, explain_fit=False)
