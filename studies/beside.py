"""What a running engine does beside what the ledgers say of it.

    step       = mean time between two outputs of a sequence; where that is not known, TPOT x tokens per step
    needed     = sum over stages of W(n) + K(B, c), n = B (1 + d g) tokens of a step; bytes of a rank
    bandwidth utilization = needed / BW / step                  FLOP utilization = n f / (F devices step)
    gauge      = mean sequences in a step     Little's law = output tokens/s x TPOT: the same where both saw one load
B sequences of one replica, c mean context, d share of steps with a draft, g drafted tokens, f FLOP of a token, F dense
peak. Per step, not per token: a step that verifies drafts reads the weights once for all its tokens. Prompts in the
mean step take part of its time; their bytes and FLOP are left out, so both utilizations are those of decoding.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from infopt.boundaries.load import Load
from infopt.boundaries.steps import STALL
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.compute import decode_flop_per_token
from infopt.ledgers.estimate import Estimate
from infopt.ledgers.terms import Term
from infopt.ledgers.traffic import traffic
from infopt.observing.observation import Observation, Spread
from infopt.profiles.geometry import ModelProfile
from infopt.records import Record, read_yaml, validate_record
from infopt.studies.observed import batch_of, speculates, with_observed
from infopt.studies.planning import Plan, plan
from infopt.studies.scenarios import Request
from infopt.units import format_seconds, format_share

DATA = Path(__file__).resolve().parent / "data" / "beside.yaml"
LENGTHS_UNKNOWN = "lengths were neither observed nor given (--isl, --osl); the plan's are its own"
Binding = Literal["queue", "kv-pool", "prefill", "weights", "kv", "compute", "link", "overhead"]


_ENDS: tuple[Callable[[Term], float], ...] = (lambda t: t.value, lambda t: t.low, lambda t: t.high)


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both.

    observed, expected, low, high  base units, None where unknown; low and high are the interval of `expected`
    floor    what nothing can be below, None where there is none
    note     what makes the two differ in kind; where it is not empty they are not judged
    """

    name: str
    unit: str
    observed: float | None
    expected: float | None
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Observed over expected."""
        return None if self.observed is None or not self.expected else self.observed / self.expected

    @property
    def inside(self) -> bool | None:
        """Whether the observation lies in the interval; None where either is unknown or they are not alike."""
        if self.observed is None or self.low is None or self.high is None or self.note:
            return None
        return self.low <= self.observed <= self.high

    @property
    def off_ratio(self) -> float | None:
        """Observed over the end of the interval it lies beyond; 1 inside."""
        if self.inside is None or self.observed is None or not self.low or not self.high:
            return None
        return 1.0 if self.inside else self.observed / (self.low if self.observed < self.low else self.high)


@dataclass(frozen=True, slots=True)
class Bound:
    """A ledger that binds, with the number that says so."""

    ledger: Binding
    reason: str


@dataclass(frozen=True, slots=True)
class Beside:
    """An observation beside a plan.

    times       step, TPOT, TTFT less the queue;  others: the engine's own account of bytes and its pool beside ours
    step_s      observed; batch of one replica; needed_bytes a rank reads in a step, needed_flop of all its sequences
    bandwidth_utilization, flop_utilization  of one device, None where a figure is missing
    batch_gauge, batch_little  the effective batch both ways, and what it means where they differ
    bounds      what binds, first first; empty where nothing that was observed says it
    """

    times: tuple[Compared, ...]
    others: tuple[Compared, ...]
    step_s: float | None
    batch: float | None
    needed_bytes: float | None
    needed_flop: float | None
    bandwidth_utilization: float | None
    flop_utilization: float | None
    batch_gauge: float | None
    batch_little: float | None
    batch_note: str
    bounds: tuple[Bound, ...]


class Limit(Record):
    """A number of data/beside.yaml."""

    value: float
    kind: str
    source: str


@cache
def limit(name: str) -> float:
    """A limit by its name."""
    return validate_record(Limit, read_yaml(DATA)[name], f"{DATA}: {name}").value


def plan_beside(o: Observation, model: ModelProfile, hardware: HardwareChoice, request: Request) -> Plan:
    """The plan to stand beside an observation: at its batch and lengths, its times and pool not taken from itself."""
    filled = with_observed(o, model, hardware, request, Load())
    return plan(model, hardware, replace(filled.request, points=request.points, kv_pool_bytes=request.kv_pool_bytes))


def beside(o: Observation, plan: Plan) -> Beside:
    """The observation beside a plan of the same batch and lengths (`plan_beside`)."""
    step_s, batch = step_of(o), batch_of(o)
    tokens = None if batch is None or not lengths_known(o, plan) else batch * tokens_per_sequence(o)
    needed = None if batch is None or tokens is None else needed_bytes(plan, batch, tokens)
    flop = None if tokens is None else tokens * decode_flop(plan)
    read = bandwidth_utilization(o, plan)
    peak, devices = plan.compute.peak_flop_per_s, plan.scenario.tp * plan.scenario.pp
    used = _share(flop, peak * devices if peak else None, step_s)
    return Beside(
        times=tuple(_times(o, plan, step_s)),
        others=tuple(_others(o, plan, needed, step_s)),
        step_s=step_s,
        batch=batch,
        needed_bytes=needed,
        needed_flop=flop,
        bandwidth_utilization=read,
        flop_utilization=used,
        batch_gauge=o.effective_batch,
        batch_little=o.effective_batch_by_littles_law,
        batch_note=_batch_note(o),
        bounds=tuple(_bounds(o, plan, read, used)),
    )


def bandwidth_utilization(o: Observation, plan: Plan) -> float | None:
    """Bytes a step needs over what the device could read in its time; None where batch, lengths or time is unknown."""
    batch = batch_of(o)
    if batch is None or not lengths_known(o, plan):
        return None
    needed = needed_bytes(plan, batch, batch * tokens_per_sequence(o))
    return _share(needed, plan.scenario.accelerator.bandwidth_bytes_per_s, step_of(o))


def lengths_known(o: Observation, plan: Plan) -> bool:
    """Whether the plan's lengths are those of the requests, and not the ones it takes where nobody says any."""
    return o.input_tokens_mean is not None or all(assumed.id != "context" for assumed in plan.assumptions)


def step_of(o: Observation) -> float | None:
    """Mean duration of a step: between two outputs of a sequence, else TPOT times the tokens of a step."""
    itl_s, tpot_s = o.mean_s("itl_s"), o.mean_s("tpot_s")
    if itl_s or tpot_s is None:
        return itl_s or None
    if o.tokens_per_step is None and speculates(o):
        return None
    return tpot_s * (o.tokens_per_step or 1.0) or None


def tokens_per_sequence(o: Observation) -> float:
    """Tokens of one sequence in a step: itself, and what was drafted for it (all positions where no mean is known)."""
    if not speculates(o):
        return 1.0
    drafted = o.drafted_tokens if o.drafted_tokens is not None else float(len(o.acceptance_per_position or ()))
    return 1.0 + drafted * (1.0 if o.draft_share is None else o.draft_share)


def needed_bytes(plan: Plan, batch: float, tokens: float) -> float:
    """Bytes a rank of every stage reads in a step: weights with the distinct experts `tokens` hit, and the caches."""
    s = plan.scenario
    sharing = tokens * s.sharing_replicas
    return sum(
        float(stage.weight_bytes(sharing)) + float(stage.kv_bytes(batch, s.decode_context_tokens))
        for stage in traffic(s)
    )


def decode_flop(plan: Plan) -> float:
    """FLOP of one output token."""
    return float(decode_flop_per_token(plan.scenario.model, plan.scenario.decode_context_tokens))


def _share(amount: float | None, per_s: float | None, step_s: float | None) -> float | None:
    return None if amount is None or not per_s or not step_s else amount / per_s / step_s


def _times(o: Observation, plan: Plan, step_s: float | None) -> Iterator[Compared]:
    """Step, TPOT and TTFT; the plan has one token a step and computes every prompt whole."""
    e, floor_s = plan.estimate, plan.bandwidth.step_floor_s
    drafts = "a step with drafts in it; the plan's has one token a sequence" if speculates(o) else ""
    hits = o.prefix_hit_share or 0.0
    cached = f"{format_share(hits)} of prompt tokens were cached; the plan computes all" if hits else ""
    tpot_s, (ttft_s, queued) = o.mean_s("tpot_s"), _without_queue(o)
    # Without drafts the mean step is the time per token itself.
    apart = bool(drafts) or tpot_s is None
    lengths = "" if lengths_known(o, plan) else LENGTHS_UNKNOWN
    cached, drafts = cached or queued or lengths, drafts or lengths
    if not isinstance(e, Estimate):
        if apart:
            yield Compared("step_s", "s", step_s, None, floor=floor_s, note=drafts)
        yield Compared("tpot_s", "s", tpot_s, None, floor=None if drafts else floor_s, note=drafts)
        yield Compared("ttft_s", "s", ttft_s, None, floor=None if cached else plan.compute.ttft_floor_s, note=cached)
        return
    # A mean gap carries the prompts of others, as TPOT does; only a median of values is a step without them.
    typical_s, with_prompts, alone = _median(o), _expected_s(e, 1 - hits, floor_s), _expected_s(e, 0.0, floor_s)
    if typical_s is not None:
        yield Compared("step_s", "s", typical_s, *alone, floor_s, drafts)
    elif apart:
        yield Compared("step_s", "s", step_s, *with_prompts, floor_s, drafts)
    yield Compared("tpot_s", "s", tpot_s, *with_prompts, None if drafts else floor_s, drafts)
    least_s = None if cached else plan.compute.ttft_floor_s
    yield Compared("ttft_s", "s", ttft_s, e.ttft_s, e.ttft_low_s, e.ttft_high_s, least_s, cached)


def _without_queue(o: Observation) -> tuple[float | None, str]:
    """TTFT less the time in the queue, of which the plan has none; where that is not known, why they are not alike."""
    ttft_s, queue_s = o.mean_s("ttft_s"), o.mean_s("queue_s")
    if ttft_s is not None and isinstance(o.queue_s, Spread) and o.queue_s.mean is None:
        queue_s = None  # a median of the queue is no part of a mean
    if ttft_s is not None and queue_s is not None:
        return max(0.0, ttft_s - queue_s), ""
    waits = (o.waiting or 0.0) >= limit("queued")
    return ttft_s, "requests wait in a queue, whose time is in it and not in the plan's" if waits else ""


def _expected_s(e: Estimate, stall_share: float, floor_s: float) -> tuple[float, float, float]:
    """Time per token with its interval, with that share of the prompts of others in it."""
    parts = [(stall_share if term.name == STALL else 1.0, term) for term in e.terms]
    sums = [sum(part * value(term) for part, term in parts) for value in _ENDS]
    return sums[0], max(sums[1], floor_s), sums[2]


def _median(o: Observation) -> float | None:
    """The median gap, where it is of values and not of buckets."""
    itl = o.itl_s
    return itl.p50 if isinstance(itl, Spread) and not itl.is_bucket else None


def _others(o: Observation, plan: Plan, needed: float | None, step_s: float | None) -> Iterator[Compared]:
    """The engine's own account beside ours."""
    if o.read_bytes_per_s is not None:
        per_step = o.read_bytes_per_s * o.window_s / o.steps if o.window_s and o.steps and o.steps >= 1 else None
        if per_step is not None:
            yield Compared("step_bytes", "bytes", per_step, needed)
        else:
            ours = None if needed is None or not step_s else needed / step_s
            yield Compared("read_bytes_per_s", "bytes/s", o.read_bytes_per_s, ours)
    if o.kv_pool_tokens is not None:
        m = plan.memory
        own = m.kv_pool_bytes_per_gpu
        low, high = (m.kv_pool_tokens * b / own if own else None for b in (m.kv_pool_low_bytes, m.kv_pool_high_bytes))
        yield Compared("kv_pool_tokens", "tokens", o.kv_pool_tokens, float(m.kv_pool_tokens), low, high)


def _batch_note(o: Observation) -> str:
    gauge, little = o.effective_batch, o.effective_batch_by_littles_law
    if not gauge or not little:
        return ""
    if gauge > little * limit("differ_ratio"):
        return "sequences are counted whose prompt is still computed, or that wait between steps: they emit nothing"
    if little > gauge * limit("differ_ratio"):
        return "the count is of few moments, or the load moved; Little's law is over the whole window"
    return ""


def _bounds(o: Observation, plan: Plan, read: float | None, used: float | None) -> Iterator[Bound]:
    """Queue, pool and prompts where the observation shows them, then what the step itself waits for."""
    full = pool_is_full(o)
    if full:
        yield Bound("kv-pool", full)
    if (o.waiting or 0.0) >= limit("queued") and not full:
        yield Bound("queue", f"{o.waiting:.3g} requests wait while the pool has room: the limit of running sequences")
    stalled = stall_share(o)
    if stalled is not None:
        yield Bound("prefill", f"prompts take {format_share(stalled)} of the mean time between outputs")
    if read is None and used is None:
        return
    yield _step_bound(plan, read, used)


def pool_is_full(o: Observation) -> str:
    """Why the cache pool is what limits; empty where the observation does not show it."""
    if o.preemptions:
        were = "sequence was" if o.preemptions == 1 else "sequences were"
        return f"{o.preemptions:,.0f} {were} put back for want of cache"
    most = max(o.kv_use_share or 0.0, o.kv_use_peak_share or 0.0)
    waits = (o.waiting or 0.0) >= limit("queued")
    return f"{format_share(most)} of the cache pool was in use" if most >= limit("full_pool_share") and waits else ""


def stall_share(o: Observation) -> float | None:
    """Part of the mean gap between outputs that its median has not; None where that is no more than noise."""
    itl = o.itl_s
    if not isinstance(itl, Spread) or itl.mean is None or not itl.p50:
        return None
    least = limit("bucket_stall_ratio") if itl.is_bucket else limit("stall_ratio")
    return 1 - itl.p50 / itl.mean if itl.mean >= least * itl.p50 else None


def _step_bound(plan: Plan, read: float | None, used: float | None) -> Bound:
    """The ledger of the step: bytes or FLOP where either is near its limit, else what is neither."""
    shares = (("bandwidth", read), ("peak FLOP/s", used))
    told = ", ".join(f"{name} in use {'not known' if share is None else format_share(share)}" for name, share in shares)
    if max(read or 0.0, used or 0.0) < limit("low_use_share"):
        linked = isinstance(plan.estimate, Estimate) and plan.estimate.bound == "link"
        return Bound("link" if linked else "overhead", f"{told}: neither is near its limit")
    if (used or 0.0) > (read or 0.0):
        return Bound("compute", told)
    kv = plan.bandwidth.kv_share_of_step
    return Bound("kv" if kv > 0.5 else "weights", f"{told}; {format_share(kv)} of the bytes are keys and values")


def floor_note(found: Beside) -> str:
    """A time below its floor: batch, lengths or hardware are not those of the server; empty where there is none."""
    below = [t for t in found.times if t.observed is not None and t.floor and t.observed < t.floor and not t.note]
    if not below:
        return ""
    one = below[0]
    assert one.observed is not None
    assert one.floor is not None
    name = one.name.removesuffix("_s")
    told = f"{name} {format_seconds(one.observed)} is below its floor of {format_seconds(one.floor)}"
    return f"{told}: model, formats, hardware or batch are not those of this server"
