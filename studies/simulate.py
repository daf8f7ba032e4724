"""One simulation of a scenario under traffic, with what is worth knowing beside it.

    plan           of the same scenario: what it costs, and its times at the batch that was simulated
    fixed point    the batch that Little's law expects at this rate (studies/simulate_bounds.py)
    saturation     the most requests a second that are served, found with all of them present at once
    low, high      the same requests where every step is as short, and as long, as its interval allows
    losses         the deployment before a replica fails, and until it is back
Every run has the same requests: what differs between two is not chance.
Sources: simulation/, studies/simulated.py (the setup and its assumptions).
"""

from array import array
from dataclasses import dataclass as mutable
from dataclasses import replace

from infopt.arrivals.arrival import Source
from infopt.arrivals.clients import Clients
from infopt.arrivals.reshaped import Shorter
from infopt.arrivals.synthetic import Synthetic
from infopt.arrivals.traces import Trace
from infopt.boundaries.load import Load
from infopt.errors import InfoptError, UndeterminedError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.estimate import Estimate, NoEstimate
from infopt.ledgers.terms import Caveat
from infopt.profiles.geometry import ModelProfile
from infopt.simulation.deployment import simulate
from infopt.simulation.outcome import CANCELLED, DONE, ENDS, Outcome, Rows, Samples
from infopt.simulation.setup import Batching, Loss, Routing
from infopt.simulation.summary import Summary, Targets, summary
from infopt.studies.boundary import situated
from infopt.studies.planning import Plan, own_constants
from infopt.studies.planning import plan as planned
from infopt.studies.prefix_trace import PrefixTrace, caches_of, hits_by_capacity, prefix_trace
from infopt.studies.scenarios import Request
from infopt.studies.simulate_bounds import FixedPoint, Losses, Saturation, fixed_point, loss_figures, saturation
from infopt.studies.simulated import Asked, Simulated
from infopt.studies.simulated import simulated as made_ready


@dataclass(frozen=True, slots=True)
class Choices:
    """How it is served beyond what a plan asks; None: the engine's own default, which is said.

    batching .. most_waiting, routing .. losses, seed  as in simulation/setup.py
    replicas    copies of the plan's deployment, each with its own devices; None: one
    leave_out   requests that the engine would refuse as too long are left out; else they are an error
    interval    both ends of the step times' interval are simulated as well
    saturation  the rate at which it is saturated is sought
    keep_rows   the simulation keeps a row for each request
    hits        what caches of other sizes find of a trace with prefix ids
    """

    batching: Batching = "continuous"
    static_batch: int | None = None
    static_wait_s: float | None = None
    chunked: bool | None = None
    chunk_tokens: int | None = None
    prefill_first: bool | None = None
    prefix_caching: bool | None = None
    watermark_share: float | None = None
    by_priority: bool = False
    admission_wait_s: float | None = None
    most_waiting: int | None = None
    replicas: int | None = None
    routing: Routing = "least-loaded"
    streaming: bool = True
    aborts: bool = True
    losses: tuple[Loss, ...] = ()
    seed: int = 0
    leave_out: bool = False
    interval: bool = False
    saturation: bool = True
    keep_rows: bool = False
    hits: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """What is simulated; small, and it can be sent to another process.

    good_share  of the requests within the targets that is asked for
    assumed     what was filled in to make it
    """

    model: ModelProfile
    hardware: HardwareChoice
    request: Request
    source: Source
    choices: Choices = Choices()
    targets: Targets = Targets()
    good_share: float = 0.9
    assumed: tuple[Caveat, ...] = ()


@mutable(slots=True)
class Simulation:
    """A simulation and what stands beside it.

    plan           of one copy of the deployment
    ready          what was simulated: scheduler, cache, clock
    arrive_per_s   requests, while any arrive;  served_per_s  answered whole
    measured_from_s  requests sent from then on are measured
    good_share     within the targets, of requests whose client did not leave by itself; without targets, answered whole
    plan_batch     `--batch` of a plan with as many sequences; plan_tpot_s  its TPOT, None where it has none
    left_out       requests that the engine would have refused
    prefix         caches of other sizes on this trace
    rows           of the requests, where they were asked for
    """

    job: Job
    plan: Plan
    ready: Simulated
    summary: Summary
    samples: Samples
    arrive_per_s: float
    served_per_s: float
    good_share: float
    measured_from_s: float
    arrivals_end_s: float
    fixed_point: FixedPoint | None
    saturation: Saturation | None
    losses: Losses | None
    low: Summary | None
    high: Summary | None
    plan_batch: int
    plan_tpot_s: float | None
    left_out: int
    prefix: PrefixTrace | None
    rows: Rows | None
    assumptions: tuple[Caveat, ...]
    notes: tuple[str, ...]

    @property
    def fixed_point_batch(self) -> float | None:
        """Mean sequences in a replica by Little's law, chance included where requests come by chance."""
        return self.fixed_point.batch if self.fixed_point else None

    @property
    def saturation_per_s(self) -> float | None:
        return self.saturation.rate_per_s if self.saturation else None

    @property
    def keeps_up(self) -> bool:
        """Whether it serves what arrives, and well enough."""
        return not self.summary.saturated and self.good_share >= self.job.good_share

    @property
    def usd_per_hour(self) -> float | None:
        """Of all copies; None where no price is known."""
        return self.plan.cost.usd_per_hour * (self.job.choices.replicas or 1) if self.plan.cost else None

    @property
    def gpus(self) -> int:
        return self.plan.scenario.gpus * (self.job.choices.replicas or 1)


# Assumptions of a setup that its plan has told in other words.
SAID_BY_PLANS = ("calibration",)
# A rate so much above saturation is beyond what chance does in a run.
OVERLOAD_RATIO = 1.05
# Requests within a shorter time come at once: they have no rate.
LEAST_TIME_S = 1e-9
# Replicas in one simulation; tokens of a step, below which prompts take more steps than a run can have.
MOST_REPLICAS = 10_000
LEAST_STEP_TOKENS = 16


class DoesNotFitError(InfoptError):
    """The deployment cannot start, so there is nothing to simulate."""

    exit_status = 1


def simulated(job: Job) -> Simulation:
    """The simulation of a job.

    Errors: InfoptError for traffic that makes no sense, or a request that no replica could ever serve; DoesNotFitError
    where the deployment does not start; UndeterminedError where a plan has no estimate, for the same reason.
    """
    plan = planned(job.model, job.hardware, job.request)
    ready = ready_of(job, plan)
    source = Shorter(job.source, ready.setup.max_tokens, job.choices.leave_out, _limit(job, ready))
    outcome = simulate(source, ready.setup)
    most = saturation(source, ready.setup) if job.choices.saturation else None
    found = _figures(outcome, job)
    arrive_per_s = _arrive_per_s(outcome, found)
    if most is not None and _overloaded(outcome, found, arrive_per_s / most.rate_per_s):
        found = replace(found, saturated=True, ttft_s=None, e2e_s=None)
    low, high = _ends(job, source, ready, found)
    plan_batch = _plan_batch(job, ready, found.effective_batch)
    return Simulation(
        job=job,
        plan=plan,
        ready=ready,
        summary=found,
        samples=outcome.samples,
        arrive_per_s=arrive_per_s,
        served_per_s=_served_per_s(outcome, found),
        good_share=_good_share(outcome, found),
        measured_from_s=outcome.from_s,
        arrivals_end_s=outcome.arrivals_end_s,
        fixed_point=None if found.saturated or ready.setup.losses else _fixed_point(job, outcome, ready),
        saturation=most,
        losses=loss_figures(outcome, ready.setup.losses, job.targets) if ready.setup.losses else None,
        low=low,
        high=high,
        plan_batch=plan_batch,
        plan_tpot_s=_plan_tpot_s(job, plan_batch),
        left_out=source.left_out() if job.choices.leave_out else 0,
        prefix=_prefix(job, plan_batch) if job.choices.hits and ready.setup.scheduler.prefix_caching else None,
        rows=outcome.rows if job.choices.keep_rows else None,
        assumptions=(*job.assumed, *plan.assumptions, *(c for c in ready.assumptions if c.id not in SAID_BY_PLANS)),
        notes=tuple(_notes(outcome, found, plan, ready, job.source)),
    )


def ready_of(job: Job, plan: Plan) -> Simulated:
    """The setup of a job. Errors as of `simulated`."""
    c = job.choices
    asked = Asked(
        max_tokens=job.request.context_tokens,
        chunk_tokens=c.chunk_tokens,
        chunked=c.chunked,
        prefill_first=c.prefill_first,
        prefix_caching=c.prefix_caching,
        watermark_share=c.watermark_share,
        batching=c.batching,
        static_batch=c.static_batch,
        static_wait_s=c.static_wait_s,
        by_priority=c.by_priority,
        admission_wait_s=c.admission_wait_s,
        most_waiting=c.most_waiting,
        routing=c.routing,
        streaming=c.streaming,
        aborts=c.aborts,
        losses=c.losses,
        seed=c.seed,
    )
    ready = made_ready(plan.scenario, asked, own_constants(plan.scenario, job.request))
    if isinstance(ready, NoEstimate):
        if plan.memory.fits is False:
            remedies = "; ".join(remedy.text for remedy in plan.remedies)
            raise DoesNotFitError(f"{ready.reason}{f'; it would with any one of: {remedies}' if remedies else ''}")
        raise UndeterminedError(f"no simulation, for there is no step time: {ready.reason}")
    copies = c.replicas or 1
    rules = ready.setup.scheduler
    step_tokens = min(rules.chunk_tokens or rules.max_num_batched_tokens, rules.max_num_batched_tokens)
    if rules.chunked and step_tokens < LEAST_STEP_TOKENS:
        raise InfoptError(f"prompts in chunks of {step_tokens} tokens: at least {LEAST_STEP_TOKENS} are simulated")
    if ready.setup.replicas * copies > MOST_REPLICAS:
        raise InfoptError(f"{ready.setup.replicas * copies:,} replicas are more than the {MOST_REPLICAS:,} of a run")
    return replace(ready, setup=replace(ready.setup, replicas=ready.setup.replicas * copies))


def _limit(job: Job, ready: Simulated) -> str:
    """What decides the longest request, and what to do about it."""
    most, model = ready.setup.max_tokens, job.model
    if job.request.context_tokens is not None:
        return f"--ctx {most}: raise it"
    if most == model.max_position_tokens:
        return f"the {most:,} positions of {model.id}"
    return f"the {most:,} tokens that its cache pool holds: more or larger devices"


def _figures(outcome: Outcome, job: Job) -> Summary:
    """The figures; means over replicas are 0 where none was alive in the measured time."""
    found = summary(outcome, job.targets)
    if outcome.window.alive_s:
        return found
    return replace(found, effective_batch=0.0, kv_share=0.0, busy_share=0.0)


def _arrive_per_s(outcome: Outcome, found: Summary) -> float:
    """The measured time may go on after the last request has come."""
    time_s = outcome.arrivals_end_s - outcome.from_s
    return found.requests_per_s if outcome.closed or time_s < LEAST_TIME_S else found.measured_requests / time_s


def _served_per_s(outcome: Outcome, found: Summary) -> float:
    """Whole answers a second: of the requests that came in the measured time, all of which end soon after; where more
    arrives than is served, those that ended in it."""
    rows, time_s, from_s = outcome.rows, outcome.window.time_s, outcome.from_s
    if not time_s:
        return 0.0
    answered = ((sent, e2e) for end, sent, e2e in zip(rows.end, rows.sent_s, rows.e2e_s, strict=True) if end == DONE)
    if found.saturated:
        return sum(from_s <= sent + e2e <= from_s + time_s for sent, e2e in answered) / time_s
    return sum(sent >= from_s for sent, _ in answered) / time_s


def _overloaded(outcome: Outcome, found: Summary, load_ratio: float) -> bool:
    """Whether more arrives than can be served, and nobody is sent away; a short run may end before its queue shows."""
    ended = found.ended
    stay = found.requests == ended[ENDS[DONE]] + ended[ENDS[CANCELLED]]
    return not outcome.closed and stay and load_ratio > OVERLOAD_RATIO


def _fixed_point(job: Job, outcome: Outcome, ready: Simulated) -> FixedPoint | None:
    inner = job.source.source if isinstance(job.source, Clients) else job.source
    evenly = isinstance(inner, Synthetic) and inner.process == "steady"
    think_s = inner.think_s if isinstance(inner, Synthetic) else 0.0
    return fixed_point(outcome, ready.setup, not evenly, job.source.users, think_s)


def _good_share(outcome: Outcome, found: Summary) -> float:
    """Of the requests whose client did not leave by itself, those that were served as promised."""
    rows = outcome.rows
    ends = array("b", (end for end, sent_s in zip(rows.end, rows.sent_s, strict=True) if sent_s >= outcome.from_s))
    meant = len(ends) - ends.count(CANCELLED)
    if found.good_share is None:
        return ends.count(DONE) / meant if meant else 1.0
    return found.good_share * len(ends) / meant if meant else 1.0


def _prefix(job: Job, batch: int) -> PrefixTrace | None:
    """Hits of a recorded trace at other sizes of the cache, beside the batch that was simulated."""
    source = job.source.source if isinstance(job.source, Clients) else job.source
    if not isinstance(source, Trace) or not source.prefix_block_tokens:
        return None
    request = replace(job.request, batch=batch)
    situation, _ = situated(job.model, job.hardware, request, Load())
    caches = caches_of(job.request.dp * (job.choices.replicas or 1), "random")
    if caches > 1:
        return None
    return prefix_trace(situation, hits_by_capacity(source, source.name, 1, job.model.max_position_tokens))


def _ends(job: Job, source: Source, ready: Simulated, found: Summary) -> tuple[Summary | None, Summary | None]:
    """The same requests with the shortest and the longest steps."""
    if not job.choices.interval:
        return None, None
    low, high = (summary(simulate(source, setup), job.targets) for setup in ready.ends(max(1, round(found.step_batch))))
    return low, high


def _plan_batch(job: Job, ready: Simulated, batch: float) -> int:
    """The `--batch` of a plan with as many sequences in a replica: replicas that share experts are one here."""
    groups = ready.setup.replicas // (job.choices.replicas or 1)
    return max(job.request.dp, round(batch * groups))


def _plan_tpot_s(job: Job, batch: int) -> float | None:
    """What `plan` expects of a token in this batch, of requests of the request's lengths."""
    at_batch = replace(job.request, batch=batch)
    expected = planned(job.model, job.hardware, at_batch).estimate
    return expected.tpot_s if isinstance(expected, Estimate) else None


# A measured time shorter than so many answers is mostly beginning and end.
FEW_STAYS = 5.0
# Below so many requests a 99th percentile is the longest of them.
FEW_REQUESTS = 100
# A rate that is so much off the one that was asked for is no mean.
OFF_SHARE = 0.2


def _rate_off(outcome: Outcome, source: Source) -> str | None:
    """That chance brought another rate than the one asked for: bursts, or waves, of which there are few."""
    inner = source.source if isinstance(source, Clients) else source
    if not isinstance(inner, Synthetic) or outcome.closed or outcome.arrivals_end_s < LEAST_TIME_S:
        return None
    came_per_s = len(outcome.rows) / outcome.arrivals_end_s
    if len(outcome.rows) < FEW_REQUESTS or abs(came_per_s / inner.rate_per_s - 1) <= OFF_SHARE:
        return None
    return f"{came_per_s:.3g} requests/s came by chance, where {inner.rate_per_s:.3g} are the mean: more --requests"


def _notes(outcome: Outcome, found: Summary, plan: Plan, ready: Simulated, source: Source) -> list[str]:
    """What a reader should know before believing the figures."""
    said = []
    e2e = found.e2e_s
    if found.measured_requests < FEW_REQUESTS:
        few = "1 request" if found.measured_requests == 1 else f"{found.measured_requests} requests"
        said.append(f"{few}: percentiles and rates say little of the next ones")
    if not outcome.closed and e2e is not None and found.measured_s < FEW_STAYS * e2e.mean:
        said.append("the measured time is only a few answers long: more --requests")
    rules = ready.setup.scheduler
    if rules.batching == "static" and rules.static_wait_s is None and found.requests < rules.static_batch:
        said.append(f"a batch waits for {rules.static_batch:,} requests, and fewer come: --static-batch, --static-wait")
    if off := _rate_off(outcome, source):
        said.append(off)
    s = plan.scenario
    outside = ready.extrapolated(max(1, round(found.step_batch)), s.input_tokens, s.output_tokens)
    said += [f"outside what step times were measured with: {text}" for text in outside]
    return [*said, *(caveat.text for caveat in plan.caveats if caveat.id not in ("hardware", "refused"))]
