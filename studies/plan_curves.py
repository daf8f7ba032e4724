"""A plan along its load: times against the batch, the cache against the context, the roofline with the scenario on it.

Every point is the plan's own ledgers at another batch or context; there is no second arithmetic. Of a replica of the
devices tp x pp, as in the compute ledger:
    roof(i) = min(peak, i bandwidth)      i FLOP per byte read; bandwidth of the tp ranks that read at once
"""

from collections.abc import Iterable
from dataclasses import replace

from infopt.frozen import dataclass
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.compute import all_weights_read_bytes, compute_ledger
from infopt.ledgers.estimate import Estimate, estimate
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.studies.planning import Plan

POINTS = 64
LEAST_BATCH = 8  # a curve reaches at least so far
MOST_BATCH = 4096
LEAST_CONTEXT_TOKENS = 512
DEFAULT_LONGEST_TOKENS = 131_072  # of a model that has no limit


@dataclass(frozen=True, slots=True)
class TpotCurve:
    """TPOT against the sequences of the whole deployment; None where there is no estimate.

    now, most  the plan's batch; the most that fit at once, None where that is beyond the curve
    target_s   a TPOT to stay below, where one is given
    """

    batch: tuple[int, ...]
    tpot_floor_s: tuple[float, ...]
    tpot_s: tuple[float | None, ...]
    tpot_low_s: tuple[float | None, ...]
    tpot_high_s: tuple[float | None, ...]
    now: int
    most: int | None
    target_s: float | None


@dataclass(frozen=True, slots=True)
class KvCurve:
    """The cache of the plan's batch against the tokens of each sequence, as shares of one.

    kv_share          of a device's memory (document 1)
    pool_share        of a device's memory that the engine leaves to the cache: above it the batch does not fit
    kv_share_of_step  of the bytes of a decode step at that context
    """

    context_tokens: tuple[int, ...]
    kv_share: tuple[float, ...]
    pool_share: tuple[float, ...]
    kv_share_of_step: tuple[float, ...]
    now_tokens: int


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """Work on the roofline.

    at_most_flop_per_s   the roof above it
    expected_flop_per_s  at the expected TPOT, None where there is none
    """

    name: str
    flop_per_byte: float
    at_most_flop_per_s: float
    expected_flop_per_s: float | None


@dataclass(frozen=True, slots=True)
class Roofline:
    """Of one replica: its dense peak, its bandwidth, where they meet, and the scenario's work."""

    peak_flop_per_s: float
    peak_format: str
    bandwidth_bytes_per_s: float
    ridge_flop_per_byte: float
    points: tuple[RooflinePoint, ...]

    def at_most_flop_per_s(self, flop_per_byte: float) -> float:
        """The roof."""
        return min(self.peak_flop_per_s, flop_per_byte * self.bandwidth_bytes_per_s)


@dataclass(frozen=True, slots=True)
class PlanCurves:
    """What a plan's pictures are drawn from; no roofline where the device's dense peak is not known."""

    tpot: TpotCurve
    kv: KvCurve
    roofline: Roofline | None


def plan_curves(plan: Plan, target_s: float | None = None) -> PlanCurves:
    """The curves of a plan; `target_s` is a TPOT to stay below."""
    tpot = _tpot_curve(plan, target_s)
    return PlanCurves(tpot, _kv_curve(plan), _roofline(plan, tpot))


def between(low: int, high: int, points: int, also: Iterable[int] = ()) -> tuple[int, ...]:
    """Whole numbers from low to high at even ratios, with those of `also` that lie between.

    >>> between(1, 8, 4, (3, 20))
    (1, 2, 3, 4, 8)
    """
    ratio = high / low
    even = {round(low * ratio ** (i / (points - 1))) for i in range(points)}
    return tuple(sorted(even | {low, high} | {one for one in also if low <= one <= high}))


def _tpot_curve(plan: Plan, target_s: float | None) -> TpotCurve:
    s, most = plan.scenario, plan.memory.max_sequences * plan.scenario.dp
    top = max(min(most, s.max_num_seqs * s.dp, MOST_BATCH), s.batch, LEAST_BATCH * s.dp)
    replicas = between(1, -(-top // s.dp), POINTS, (s.batch_per_replica, plan.memory.max_sequences))
    batches = tuple(sorted({s.dp * one for one in replicas} | {s.batch}))
    floors, found = [], []
    for batch in batches:
        at = replace(s, batch=batch)
        bandwidth = bandwidth_ledger(at)
        floors.append(bandwidth.tpot_floor_s)
        found.append(_estimated(plan, at))
    return TpotCurve(
        batch=batches,
        tpot_floor_s=tuple(floors),
        tpot_s=tuple(e.tpot_s if e else None for e in found),
        tpot_low_s=tuple(e.tpot_low_s if e else None for e in found),
        tpot_high_s=tuple(e.tpot_high_s if e else None for e in found),
        now=s.batch,
        most=most if most <= batches[-1] else None,
        target_s=target_s,
    )


def _estimated(plan: Plan, s: Scenario) -> Estimate | None:
    """The estimate at another batch: what fits does not depend on that."""
    found = estimate(s, plan.memory, bandwidth_ledger(s), plan.calibrated)
    return found if isinstance(found, Estimate) else None


def _kv_curve(plan: Plan) -> KvCurve:
    s = plan.scenario
    longest = max(s.model.max_position_tokens or DEFAULT_LONGEST_TOKENS, s.context_tokens)
    contexts = between(min(LEAST_CONTEXT_TOKENS, s.context_tokens), longest, POINTS, (s.context_tokens,))
    memories = [memory_ledger(_at_context(s, tokens)) for tokens in contexts]
    steps = [bandwidth_ledger(_at_context(s, tokens)) for tokens in contexts]
    return KvCurve(
        context_tokens=contexts,
        kv_share=tuple(m.kv_share for m in memories),
        pool_share=tuple(m.kv_pool_bytes_per_gpu / m.capacity_bytes_per_gpu for m in memories),
        kv_share_of_step=tuple(b.kv_share_of_step for b in steps),
        now_tokens=s.context_tokens,
    )


def _at_context(s: Scenario, tokens: int) -> Scenario:
    return replace(s, context_tokens=tokens, decode_context_tokens=float(tokens))


def _roofline(plan: Plan, tpot: TpotCurve) -> Roofline | None:
    s, c = plan.scenario, plan.compute
    if c.peak_flop_per_s is None:
        return None
    peak, bandwidth = c.peak_flop_per_s * s.tp * s.pp, s.accelerator.bandwidth_bytes_per_s * s.tp
    batches = sorted({s.dp, s.batch, tpot.most or s.batch})
    points = [_decode_point(plan, batch, peak, bandwidth) for batch in batches]
    per_byte = c.prefill_flop / all_weights_read_bytes(s, plan.bandwidth)
    name = f"prompt of {s.input_tokens:,} tokens"
    points.append(RooflinePoint(name, per_byte, min(peak, per_byte * bandwidth), None))
    return Roofline(peak, c.peak_format, bandwidth, peak / bandwidth, tuple(points))


def _decode_point(plan: Plan, batch: int, peak: float, bandwidth: float) -> RooflinePoint:
    s = replace(plan.scenario, batch=batch)
    read = bandwidth_ledger(s)
    work_flop = s.batch_per_replica * compute_ledger(s, read).decode_flop_per_token
    per_byte = work_flop / (read.weight_bytes_per_step + read.kv_bytes_per_step)
    expected = _estimated(plan, s)
    reached = work_flop / expected.tpot_s if expected else None
    return RooflinePoint(f"decode, batch {batch:,}", per_byte, min(peak, per_byte * bandwidth), reached)
