"""A search's front under traffic: does each deployment keep its targets for nearly all requests, and up to which rate?

    holds    at the rate, good share >= GOOD_SHARE and not saturated
    held     the most requests/s at which it holds, to within NEAR, no more than the search's own limit; sought for
             the first row of each device and weight format, and for the first that holds
    requests max(LEAST_REQUESTS, LEAST_STAYS x sequences at the load)      so that the beginning does not count
good share  of requests that arrive, answered whole with both TTFT and TPOT within the targets. Requests come by
chance (Poisson; burstiness: standard deviation over mean of their gaps) and are all of the lengths searched for. A
search judges means: what differs is queueing, and that latency is not the same for all. Every rate and deployment
meets the same traffic, stretched in time. Ignored: lengths that spread, which make tails longer (`infopt simulate`).
"""

from collections.abc import Callable
from dataclasses import replace

from infopt.arrivals.synthetic import Lengths, Process, Synthetic
from infopt.frozen import dataclass
from infopt.simulation.deployment import simulate
from infopt.simulation.summary import Summary, Targets, Times, summary
from infopt.studies.planning import plan as planned
from infopt.studies.search import Deployment, Search, request_of
from infopt.studies.simulate import Choices, Job, ready_of
from infopt.studies.simulate_many import Failed, each

GOOD_SHARE = 0.99
LEAST_REQUESTS, LEAST_STAYS = 2000, 20
NEAR = 1.05
LOWEST_SHARE = 1 / 64  # of the rate asked for: what does not hold there holds nowhere


@dataclass(frozen=True, slots=True)
class Traffic:
    """What arrives; requests None: as many as it takes."""

    requests: int | None = None
    burstiness_ratio: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Tail:
    """What simulations say of a deployment.

    holds        None where there is no simulation, for this `reason`
    good_share   None without latency targets
    ttft_p99_s, tpot_p99_s  of requests answered at the rate; None of a saturated deployment
    held_per_s   the most requests/s at which it holds, 0 where it does at none; None where it was not sought
    """

    holds: bool | None
    requests: int = 0
    burstiness_ratio: float = 1.0
    saturated: bool = False
    good_share: float | None = None
    ttft_p99_s: float | None = None
    tpot_p99_s: float | None = None
    held_per_s: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """A deployment at its rate; limit_per_s is the most that the search says it serves, None: not to be sought."""

    job: Job
    rate_per_s: float
    limit_per_s: float | None


def simulated_front(
    result: Search, traffic: Traffic, workers: int | None = None, scheduler: str | None = None
) -> Search:
    """The search with what simulations say of each row of its front."""
    leading = {(s.accelerator.id, s.weight_format): d for d in reversed(result.front) if (s := d.replica.scenario)}
    trials = [trial_of(result, d, traffic, d in leading.values()) for d in result.front]
    found = each(tail, trials, workers, scheduler)
    tails = [Tail(None, reason=one.text) if isinstance(one, Failed) else one for one in found]
    first = next((position for position, one in enumerate(tails) if one.holds), None)
    if first is not None and tails[first].held_per_s is None:
        tails[first] = tail(trial_of(result, result.front[first], traffic, to_limit=True))
    return replace(result, tails=tuple(tails))


def trial_of(result: Search, d: Deployment, traffic: Traffic, to_limit: bool) -> Trial:
    """A row of the front with its traffic; `to_limit`: its most is to be sought."""
    needed = max(LEAST_REQUESTS, LEAST_STAYS * d.sequences * d.replicas)
    source = Synthetic(
        Lengths(result.input_tokens),
        Lengths(result.output_tokens),
        process=_process(traffic.burstiness_ratio),
        rate_per_s=d.rate_per_s,
        burstiness_ratio=traffic.burstiness_ratio,
        requests=traffic.requests or needed,
        seed=traffic.seed,
    )
    targets = Targets(result.targets.ttft_s, result.targets.tpot_s)
    choices = Choices(replicas=d.replicas, saturation=False, seed=traffic.seed)
    job = Job(result.model, d.replica.hardware, request_of(d), source, choices, targets)
    return Trial(job, d.rate_per_s, d.capacity_per_s if to_limit else None)


def _process(burstiness_ratio: float) -> Process:
    """Gaps that vary so much; exponential ones have a name of their own."""
    if not burstiness_ratio:
        return "steady"
    return "poisson" if burstiness_ratio == 1 else "gamma"


def tail(trial: Trial) -> Tail:
    """Simulations of a deployment at its rate, and at others until the most that it holds is found."""
    job = trial.job
    setup = ready_of(job, planned(job.model, job.hardware, job.request)).setup

    def at(rate_per_s: float) -> Summary:
        assert isinstance(job.source, Synthetic)
        return summary(simulate(replace(job.source, rate_per_s=rate_per_s), setup), job.targets)

    asked, held = at(trial.rate_per_s), None
    if trial.limit_per_s is not None:
        held = held_per_s(lambda rate: holds(at(rate)), trial.rate_per_s, holds(asked), trial.limit_per_s)
    return Tail(
        holds=holds(asked),
        requests=asked.requests,
        burstiness_ratio=job.source.burstiness_ratio if isinstance(job.source, Synthetic) else 1.0,
        saturated=asked.saturated,
        good_share=asked.good_share,
        ttft_p99_s=_p99_s(asked.ttft_s, asked.saturated),
        tpot_p99_s=_p99_s(asked.tpot_s, asked.saturated),
        held_per_s=held,
    )


def holds(figures: Summary) -> bool:
    """Whether nearly all requests were answered within the targets, and it keeps up."""
    return not figures.saturated and (figures.good_share is None or figures.good_share >= GOOD_SHARE)


def held_per_s(holding: Callable[[float], bool], rate_per_s: float, held: bool, limit_per_s: float) -> float:
    """The most requests/s that hold, by halving between one that does and one that does not; at most the limit."""
    low, high = rate_per_s, max(rate_per_s, limit_per_s)
    if held:
        if high == low or holding(high):
            return high
    else:
        while not held:
            if low <= LOWEST_SHARE * rate_per_s:
                return 0.0
            low, high = low / 2, low
            held = holding(low)
    while high > low * NEAR:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holding(middle) else (low, middle)
    return low


def _p99_s(times: Times | None, saturated: bool) -> float | None:
    return None if times is None or saturated else times.p99
