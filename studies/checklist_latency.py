"""Checks on time: targets, batch, phases, cold start."""

from collections.abc import Iterator, Mapping

from infopt.boundaries.cuda_graphs import start_of
from infopt.boundaries.deciding import threshold
from infopt.boundaries.steps import variants
from infopt.frozen import dataclass
from infopt.ledgers.cold_start import Range
from infopt.ledgers.estimate import Estimate
from infopt.studies.beside import bandwidth_utilization
from infopt.studies.checklist_context import NOT_JUDGED, Answer, Context, Status, needs
from infopt.units import format_seconds, format_share

Limits = Mapping[str, float]
# How long a replica takes from here until it answers; start it at the same moment.
HEALTH = "time (until curl -sf {server}/health; do sleep 1; done)"
TARGETS = (("tpot_s", "time per token"), ("ttft_s", "time to the first token"))


@dataclass(frozen=True, slots=True)
class Time:
    """What is known of a time.

    value  measured mean, or expected; None where only a floor is known
    low    it is not less than this
    high   nor, in its mean, more than this; None where that is not known
    tail   its measured 99th (or 90th) percentile
    """

    name: str
    value: float | None
    low: float
    high: float | None
    tail: float | None
    words: str


def times(context: Context) -> Iterator[tuple[Time, float]]:
    """Each time that has a target, with the target."""
    targets = context.load.targets
    for field, name in TARGETS:
        target = getattr(targets, field)
        if target is not None:
            yield time_of(context, field, name), target


def time_of(context: Context, field: str, name: str) -> Time:
    """Observation, else expected, else its floor."""
    observed = context.observed
    mean = observed.mean_s(field) if observed is not None else None
    if observed is not None and mean is not None:
        tail = observed.tail_s(field)
        tails = "" if tail is None else f", tail {format_seconds(tail)}"
        return Time(name, mean, mean, mean, tail, f"{name} {format_seconds(mean)} measured{tails}")
    expected = expected_s(context, field)
    if expected is None:
        return _floor(context, field, name)
    value, low, high = expected
    lent = " with constants of other devices" if context.situation.steps.basis == "assumed" else ""
    words = f"{name} {format_seconds(value)} expected{lent} ({format_seconds(low)} to {format_seconds(high)})"
    return Time(name, value, low, high, None, words)


def expected_s(context: Context, field: str) -> tuple[float, float, float] | None:
    """A time and its interval, with the speculation and the cached tokens of the deployment; None where unknown.

    As of the boundary's verdicts, constants of another class do for the time per token, in their wide interval.
    """
    here, e = context.situation, context.plan.estimate
    if field == "tpot_s":
        if not here.fits or here.steps.basis == "floor" or _unsure(context):
            return None
        ends = [here.tpot_s(), *(here.tpot_s(steps) for steps in variants(here.steps))]
        # Stalls of lent constants are no bound: only what bytes take is.
        floor = [context.plan.bandwidth.tpot_floor_s] if here.steps.basis == "assumed" and not here.cycle else []
        return ends[0], min(ends + floor), max(ends)
    if not isinstance(e, Estimate):
        return None
    isl, plain_s = context.scenario.input_tokens, here.steps.tpot_s(here.batch, context.scenario.decode_context_tokens)
    found_s = here.steps.ttft_s(plain_s, here.batch, isl, min(here.cached_tokens, isl - 1.0))
    shorter = found_s / here.steps.ttft_s(plain_s, here.batch, isl)
    return e.ttft_s * shorter, e.ttft_low_s * shorter, e.ttft_high_s * shorter


def _unsure(context: Context) -> bool:
    """Whether it speculates, but what that gains is not known or cannot be."""
    return context.uses("speculation") and "speculative" not in context.situation.used


def _floor(context: Context, field: str, name: str) -> Time:
    """The least it can be; techniques in use leave none that is known."""
    e, here = context.plan.estimate, context.situation
    least = context.plan.bandwidth.tpot_floor_s if field == "tpot_s" else context.plan.compute.ttft_floor_s or 0.0
    if context.uses("speculation") if field == "tpot_s" else here.cached_tokens:
        least = 0.0
    why = "" if isinstance(e, Estimate) else e.reason
    if not why:
        judged = context.judgement("speculative")
        why = NOT_JUDGED if judged is None else judged.reason
    told = f"at least {format_seconds(least)}; {why}" if least else f"not known: {why}"
    return Time(name, None, least, None, None, f"{name} {told}")


def worst(found: list[tuple[Status, str]]) -> tuple[Status, str]:
    """The status that counts, with the sentences of that status."""
    order: tuple[Status, ...] = ("fail", "needs-measurement", "pass")
    status = min((s for s, _ in found), key=order.index)
    return status, "; ".join(words for s, words in found if s == status)


def latency_targets(context: Context, limits: Limits) -> Answer:
    """Means and tails: a mean that misses fails, a tail passes only where it was measured."""
    asked = list(times(context))
    if not asked:
        return needs("no target is given", settle="infopt checklist {scenario} --tpot TIME --ttft TIME")
    status, words = worst([_with_tail(time, target) for time, target in asked] + _served(context))
    return Answer(status, asked[0][0].value, "s", words)


def _served(context: Context) -> list[tuple[Status, str]]:
    """Whether the rate is more than the deployment serves, or than its batch is planned for; nothing without a rate."""
    rate, most = context.load.traffic.rate_per_s, context.figure("continuous-batching", "saturation_per_s")
    if rate is None or most is None:
        return []
    if rate >= most:
        return [("fail", f"{rate:.3g} requests/s arrive, at most {most:.3g} can be served")]
    batch, expected = context.scenario.batch, context.expected_batch or 0.0
    if expected > batch + 1:
        told = f"{rate:.3g} requests/s keep about {expected:.0f} sequences in flight, {batch} are planned (--batch)"
        return [("needs-measurement", told)]
    return []


def _with_tail(time: Time, target: float) -> tuple[Status, str]:
    against = f"{time.words}, target {format_seconds(target)}"
    if time.low > target or (time.tail is not None and time.tail > target):
        return "fail", against
    if time.tail is not None:
        return "pass", against
    return "needs-measurement", f"{against}; the tail was not measured"


def batch_within_targets(context: Context, limits: Limits) -> Answer:
    """Means at this batch: the whole interval must be on one side of the target."""
    asked = list(times(context))
    if not asked:
        return needs("no target is given: --tpot and --ttft")
    status, words = worst([_mean(time, target) for time, target in asked] + _served(context))
    most = context.figure("continuous-batching", "batch_cap_tpot_sequences")
    largest = "" if not most else f"; at most {most:,.0f} at once keep the TPOT target"
    settle = "{benchmark}" if status == "needs-measurement" else ""
    return Answer(status, asked[0][0].value, "s", f"batch {context.scenario.batch}: {words}{largest}", settle)


def _mean(time: Time, target: float) -> tuple[Status, str]:
    against = f"{time.words}, target {format_seconds(target)}"
    if time.low > target:
        return "fail", against
    if time.high is not None and time.high <= target:
        return "pass", against
    return "needs-measurement", against if time.value is None else f"{against}: within the error"


def measured_batch(context: Context, limits: Limits) -> Answer:
    """Effective batch and utilization of the memory bandwidth, both observed."""
    o = context.observed
    if o is None or o.effective_batch is None:
        expected = context.expected_batch
        told = f"; about {expected:.3g} at once are expected at the rate" if expected else ""
        return needs(f"not measured{told}; write it to a file for --observed", None, "sequences")
    used = o.bandwidth_utilization if o.bandwidth_utilization is not None else bandwidth_utilization(o, context.plan)
    told = f"effective batch {o.effective_batch:.3g}"
    if used is None:
        return needs(f"{told}, but bandwidth_utilization or tpot_s is missing", o.effective_batch, "sequences")
    told = f"{told}, {format_share(used)} of the bandwidth used"
    if o.effective_batch < threshold("least_batch"):
        told += f"; below {threshold('least_batch'):g}: where it cannot rise, bandwidth or an MoE pays more"
    return Answer("pass", o.effective_batch, "sequences", told)


def phases(context: Context, limits: Limits) -> Answer:
    """Which of the four parts of a request's time have a figure."""
    s, expected = context.scenario, context.plan.estimate
    known = isinstance(expected, Estimate)
    linked = s.tp * s.pp == 1 or (known and (s.accelerator.link is not None or s.accelerator.pcie is not None))
    have = {
        "prefill": known,
        "decode": known,
        "queueing": context.load.traffic.rate_per_s is not None,
        "network": linked,
    }
    missing = [name for name, there in have.items() if not there]
    count = float(len(have) - len(missing))
    if missing:
        rate = "; --rate gives queueing its figure" if "queueing" in missing else ""
        why = "" if isinstance(expected, Estimate) else f"; {expected.reason}"
        return needs(f"no figure of {', '.join(missing)}{rate}{why}", count, "phases")
    judged = context.judgement("continuous-batching")
    if judged is None:
        return needs("queueing is not judged by this version", count, "phases")
    saturated = [words for status, words in _served(context) if status == "fail"]
    if judged.verdict == "impossible" or saturated:
        return Answer("fail", count, "phases", saturated[0] if saturated else judged.reason)
    return Answer("pass", count, "phases", f"all four have a figure; {judged.reason}")


def cold_start(context: Context, limits: Limits) -> Answer:
    """Time until a new replica serves against its target."""
    target = context.load.targets.start_s
    start = cold_start_s(context)
    told = f"a cold start takes {start.value:.0f} s ({start.low:.0f} to {start.high:.0f} seen)"
    if target is None:
        return needs(f"{told}; no target is given: --start", start.value, "s")
    told = f"{told}, {format_seconds(target)} are allowed"
    if start.low > target:
        return Answer("fail", start.value, "s", told)
    if start.high <= target:
        return Answer("pass", start.value, "s", told)
    return needs(f"{told}: time one", start.value, "s", settle=HEALTH)


def cold_start_s(context: Context) -> Range:
    """From start to the first answer with nothing cached; without graphs where they are off."""
    s, load = context.scenario, context.load
    start = start_of(s, context.plan.memory.stored_weights_bytes, load.storage_bytes_per_s)
    return start.eager_s if load.eager else start.cold_s
