"""Traffic from what was asked: a rate or users, a named workload or a trace, and what was given in place of its parts.

What is given stands; then what a workload profile says; then defaults. Each figure that nobody gave is said.
A trace has its own times, lengths and prefixes: only its pace, how much of it, and its clients can be chosen.
    speed of a trace at a rate r = r (t_n - t_1) / (n - 1)
"""

import math
from dataclasses import replace

from infopt.arrivals.arrival import Source
from infopt.arrivals.clients import Clients, Tenant
from infopt.arrivals.profiles import Profile, load_profile
from infopt.arrivals.synthetic import Process
from infopt.arrivals.traces import Trace, open_trace
from infopt.arrivals.traffic import Sender, Traffic
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.terms import Caveat
from infopt.profiles.geometry import ModelProfile
from infopt.simulation.summary import Targets
from infopt.studies.scenarios import Request, lengths
from infopt.units import format_whole

# Enough for a 99th percentile of twenty requests.
REQUESTS = 2000
# Users send so many requests each at least.
TURNS = 20
GOOD_SHARE = 0.9  # of the requests within their targets, where no profile and nobody says more
# A trace within a shorter time has no rate.
LEAST_TIME_S = 1e-9


@dataclass(frozen=True, slots=True)
class Offer:
    """What was asked of the traffic; None: not given. Lengths are in the scenario's request."""

    rate_per_s: float | None = None
    users: int | None = None
    think_s: float | None = None
    requests: int | None = None
    duration_s: float | None = None
    process: Process | None = None
    burstiness_ratio: float | None = None
    period_s: float | None = None
    peak_ratio: float | None = None
    input_spread_ratio: float | None = None
    output_spread_ratio: float | None = None
    shared_tokens: int | None = None
    prefixes: int | None = None
    skew: float | None = None
    workload: str | None = None
    trace: str | None = None
    speed_ratio: float | None = None
    cancel_share: float | None = None
    patience_s: float | None = None
    tenants: tuple[Sender, ...] = ()
    leave_out: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Offered:
    """The traffic, and the request of a plan that has its mean lengths.

    targets, good_share, streaming  of a workload profile; None: it has none, or there is none
    """

    source: Source
    request: Request
    assumed: tuple[Caveat, ...]
    targets: Targets | None = None
    good_share: float | None = None
    streaming: bool | None = None


def offered(offer: Offer, model: ModelProfile, request: Request) -> Offered:
    """What arrives. Errors: InfoptError for options that contradict each other, and for what no traffic can be."""
    _check(offer)
    if offer.trace is not None:
        return _traced(offer, offer.trace, model, request)
    if offer.rate_per_s is None and offer.users is None:
        raise InfoptError("what arrives is not said: --rate 8/s, --users 16, or --trace azure-conv")
    return _made(offer, model, request)


def _check(o: Offer) -> None:
    if o.rate_per_s is not None and o.users is not None:
        raise InfoptError("--rate and --users: requests come at a rate, or as answers end; give one of them")
    if o.think_s is not None and o.users is None:
        raise InfoptError("--think is time between an answer and the next request of a user: add --users")
    if o.trace is None and o.speed_ratio is not None:
        raise InfoptError("--speedup replays a trace faster: add --trace, or choose the --rate")
    if o.trace is not None and o.users is not None:
        raise InfoptError("--users and --trace: a trace has its own times; leave one of them out")
    if o.speed_ratio is not None and o.rate_per_s is not None:
        raise InfoptError("--speedup and --rate both set the pace of a trace: give one of them")
    if o.burstiness_ratio is not None and o.process not in (None, "gamma"):
        raise InfoptError(f"--burstiness is of gamma arrivals, these are {o.process}: leave one of them out")
    if (o.period_s is not None or o.peak_ratio is not None) and o.process not in (None, "periodic"):
        raise InfoptError(f"--period and --peak are of periodic arrivals, these are {o.process}: leave them out")
    if o.process == "periodic" or o.period_s is not None or o.peak_ratio is not None:
        if o.burstiness_ratio is not None:
            raise InfoptError("--burstiness is of gamma arrivals, --period and --peak of periodic ones: choose")
        if o.period_s is None or o.peak_ratio is None:
            raise InfoptError("periodic arrivals need --period 10min and --peak 1.8 (peak over mean rate, 1 to 2)")


def _made(offer: Offer, model: ModelProfile, request: Request) -> Offered:
    """Requests drawn from a description."""
    said: list[Caveat] = []
    profile = load_profile(offer.workload) if offer.workload is not None else None
    base = _base(profile, offer, model, request, said)
    traffic = base.model_copy(update=_given(offer, base))
    if offer.shared_tokens is None and not base.shared_tokens and (offer.prefixes or offer.skew is not None):
        raise InfoptError("--prefixes and --prefix-skew are of a shared prefix: add --shared-prefix TOKENS")
    if traffic.shared_tokens > traffic.input_mean_tokens:
        raise InfoptError(
            f"--shared-prefix {traffic.shared_tokens} is more than the {traffic.input_mean_tokens:g} tokens of a prompt"
        )
    requests = offer.requests
    if requests is None and (offer.duration_s is None or offer.users is not None):
        requests = max(REQUESTS, TURNS * (offer.users or 0))
        said.append(Caveat("requests", f"{format_whole(requests)} requests: not given"))
    if offer.users is not None and offer.duration_s is not None:
        raise InfoptError("--duration with --users: how long they take is the result; give --requests")
    if not (traffic.input_spread_ratio or traffic.output_spread_ratio):
        said.append(Caveat("spread", "all prompts and answers are equally long: --input-spread, --output-spread"))
    source = traffic.source(
        offer.rate_per_s or 0.0,
        requests=requests,
        duration_s=offer.duration_s,
        users=offer.users,
        think_s=offer.think_s or 0.0,
        seed=offer.seed,
    )
    if profile is not None:
        inputs, outputs = round(traffic.input_mean_tokens), round(traffic.output_mean_tokens)
        request = replace(request, input_tokens=inputs, output_tokens=outputs)
    wanted = profile.targets if profile else None
    return Offered(
        source=source,
        request=request,
        assumed=tuple(said),
        targets=Targets(wanted.ttft_s, wanted.tpot_s, wanted.e2e_s) if wanted else None,
        good_share=wanted.share if wanted else None,
        streaming=profile.streaming if profile else None,
    )


def _base(profile: Profile | None, offer: Offer, model: ModelProfile, request: Request, said: list[Caveat]) -> Traffic:
    """A profile's traffic with the lengths that were given, or requests of these lengths."""
    if profile is None:
        _, inputs, outputs, _, _ = lengths(request, model)  # the plan says what of them was filled in
        if offer.process is None and offer.burstiness_ratio is None and offer.period_s is None and offer.users is None:
            said.append(Caveat("arrivals", "requests come by chance (poisson): --arrivals"))
        return Traffic(input_mean_tokens=inputs, output_mean_tokens=outputs)
    own = profile.traffic
    means = (
        ("isl", own.input_mean_tokens, request.input_tokens),
        ("osl", own.output_mean_tokens, request.output_tokens),
    )
    filled = [f"--{name} {mean:,.0f}" for name, mean, given in means if given is None]
    if filled:
        said.append(Caveat("lengths", f"{', '.join(filled)} on average: workload {profile.id}"))
    told = [f"workload {profile.id} leaves out: {text}" for text in profile.not_shown]
    said += [Caveat("workload", text) for text in told]
    changed: dict[str, object] = {}
    if request.input_tokens is not None:
        changed |= {"input_mean_tokens": float(request.input_tokens), "most_input_tokens": None}
    if request.output_tokens is not None:
        changed |= {"output_mean_tokens": float(request.output_tokens), "most_output_tokens": None}
    return own.model_copy(update=changed)


def _given(o: Offer, base: Traffic) -> dict[str, object]:
    """Fields of the traffic that were asked for."""
    process = o.process
    if process is None and o.burstiness_ratio is not None:
        process = "gamma"
    if process is None and o.period_s is not None:
        process = "periodic"
    if process is None and o.users is not None and base.process == "periodic":
        process = "poisson"
    asked = {
        "input_spread_ratio": o.input_spread_ratio,
        "output_spread_ratio": o.output_spread_ratio,
        "shared_tokens": o.shared_tokens,
        "prefixes": o.prefixes,
        "skew": o.skew,
        "process": process,
        "burstiness_ratio": o.burstiness_ratio,
        "period_s": o.period_s,
        "peak_ratio": o.peak_ratio,
        "cancel_share": o.cancel_share,
        "patience_s": o.patience_s,
        "tenants": list(o.tenants) or None,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _traced(offer: Offer, name: str, model: ModelProfile, request: Request) -> Offered:
    """Requests as they were recorded."""
    _check_trace(offer, request)
    speed_ratio = offer.speed_ratio or 1.0
    part_s = None if offer.duration_s is None else offer.duration_s * speed_ratio
    trace = open_trace(name, speed_ratio=speed_ratio, most_requests=offer.requests, duration_s=part_s)
    limits = (model.max_position_tokens, request.context_tokens)
    accepted = min((limit for limit in limits if limit is not None), default=math.inf)
    means = _means(trace, accepted if offer.leave_out else math.inf)
    if offer.rate_per_s is not None:
        if means.rate_per_s is None:
            raise InfoptError(f"--rate: {name} has no rate of its own, all its requests come at once")
        trace = replace(trace, speed_ratio=offer.rate_per_s / means.rate_per_s)
    inputs, outputs = round(means.input_tokens), max(1, round(means.output_tokens))
    if inputs + outputs > accepted:
        raise InfoptError(
            f"{name}: its mean request of {inputs:,} + {outputs:,} tokens is more than the {accepted:,} accepted; "
            f"--leave-out-long leaves such requests out, or raise --ctx as far as the model goes"
        )
    said = [Caveat("lengths", f"input {inputs:,} and output {outputs:,} tokens: means of {name}")]
    source: Source = trace
    if offer.cancel_share or offer.patience_s or offer.tenants:
        senders = tuple(Tenant(one.name, one.share, one.priority) for one in offer.tenants)
        source = Clients(trace, offer.cancel_share or 0.0, offer.patience_s, senders, offer.seed)
    return Offered(source, replace(request, input_tokens=inputs, output_tokens=outputs), tuple(said))


def _check_trace(o: Offer, request: Request) -> None:
    own = (
        ("--arrivals", o.process),
        ("--burstiness", o.burstiness_ratio),
        ("--period", o.period_s),
        ("--peak", o.peak_ratio),
        ("--input-spread", o.input_spread_ratio),
        ("--output-spread", o.output_spread_ratio),
        ("--shared-prefix", o.shared_tokens),
        ("--prefixes", o.prefixes),
        ("--prefix-skew", o.skew),
        ("--workload", o.workload),
        ("--isl", request.input_tokens),
        ("--osl", request.output_tokens),
    )
    given = [option for option, value in own if value is not None]
    if given:
        raise InfoptError(f"{', '.join(given)} with --trace: its times, lengths and prefixes are its own; choose")


@dataclass(frozen=True, slots=True)
class _Means:
    input_tokens: float
    output_tokens: float
    rate_per_s: float | None


def _means(trace: Trace, most_tokens: float) -> _Means:
    """Mean lengths and rate of a trace, in one pass; lengths of requests of at most so many tokens."""
    requests = inputs = outputs = taken = 0
    first_s = last_s = 0.0
    for one in trace.stream():
        if not requests:
            first_s = one.time_s
        last_s = one.time_s
        requests += 1
        if one.input_tokens + one.output_tokens <= most_tokens:
            taken += 1
            inputs += one.input_tokens
            outputs += one.output_tokens
    if not taken:
        raise InfoptError(f"every request of {trace.name} is longer than the {most_tokens:,} tokens that are accepted")
    time_s = last_s - first_s
    return _Means(inputs / taken, outputs / taken, (requests - 1) / time_s if time_s >= LEAST_TIME_S else None)
