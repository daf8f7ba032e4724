"""More bandwidth, or a mixture of experts: document 1's alternative where the batch stays below 4.

    gain  = TPOT(bandwidth) / TPOT(2 x bandwidth)           at the batch that meets in a step
The batch is the scenario's, or what the rate makes of it (boundaries/continuous_batching.py). From 4 on a larger batch
shares the bytes; below, only fewer bytes (a mixture, smaller formats) or faster ones help. Other accelerators stand
beside it with their price, and mixtures of the catalogue with the batch at which they lose their advantage.
"""

import math
from collections.abc import Iterator
from functools import cache

from infopt.boundaries.continuous_batching import CAPS, occupancy
from infopt.boundaries.deciding import DATA, by_gain, measured_by, threshold
from infopt.boundaries.quantities import BANDWIDTH, BATCH, RATE
from infopt.boundaries.roots import first_lost
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Basis
from infopt.boundaries.technique import Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator
from infopt.hardware.catalogue import common_accelerators, load_accelerator
from infopt.ledgers.cost import usd_per_million_tokens
from infopt.ledgers.mixture import all_experts_batch, halving_active_share
from infopt.ledgers.scenario import Scenario, allowed_tensor_parallel
from infopt.profiles.formats import kv_format_name, load_kv_format, load_weight_format, weight_bits_by_part
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.resolve import resolve_model
from infopt.records import Record, read_yaml, validate_record

TIMES = 2.0
BASIS_TEXT: dict[Basis, str] = {
    "curve": "measured",
    "estimate": "estimated",
    "assumed": "lent constants",
    "floor": "at least",
}


class Mixtures(Record):
    """data/mixtures.yaml."""

    span: list[float]
    shown: int
    models: list[str]
    source: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer without its figures; `batch` meets in one step."""

    verdict: Verdict
    reason: str
    before: Situation
    batch: float
    gain: Gain


def judge(situation: Situation) -> Judgement:
    """What twice the bandwidth gains at the batch there is, and what else would."""
    found = decide(situation)
    before = found.before
    figures = [Figure("effective_batch", found.batch, "sequences", "in one decode step")]
    if found.batch < threshold("least_batch"):
        figures += [*_devices(found), *_mixture(found)]
    costs = ("faster devices cost more per hour; a mixture is another model, whose quality must be tested anew",)
    settle = measured_by([situation.scenario], by_curve=True) if found.verdict == "measure" else ""
    rule = _rule(found)
    return Judgement(
        found.verdict, found.gain if before.fits else None, found.reason, tuple(figures), costs, rule, settle
    )


def decide(situation: Situation) -> Decision:
    """The verdict, its reason and what it rests on."""
    before = situation.changed(curve=()) if situation.curve else situation
    here = occupancy(situation, situation.steps)
    batch = max(1.0, here.batch)
    after = with_bandwidth(before, TIMES)
    gain = before.gain_over(after, "tpot", lambda here, there: before.tpot_s(here, batch) / after.tpot_s(there, batch))
    least = threshold("least_batch")
    shared = f"{batch:,.3g} sequences share a step" if batch > 1 else "one sequence at a time"
    if batch < min(least, situation.batch) and situation.load.traffic.rate_per_s is None:
        shared += f" (of {situation.batch:,.3g}, by {CAPS[here.capped_by]})"
    doubled = f"twice the bandwidth gains {gain.value:.2f}x in TPOT"
    if not before.memory.max_sequences:
        return Decision("skip", "no sequence fits: memory is missing, not bandwidth", before, batch, gain)
    if batch >= least:
        reason = f"{shared}, {least:g} or more: tune the batch first; {doubled}"
        return Decision("skip", reason, before, batch, gain)
    verdict = by_gain(gain, before.basis_with(after))
    return Decision(verdict, f"{shared}, fewer than {least:g}; {doubled}", before, batch, gain)


def with_bandwidth(situation: Situation, times: float) -> Situation:
    """The same devices with memory `times` as fast."""
    device = situation.scenario.accelerator
    return situation.changed(accelerator=device.at_bandwidth(times * device.bandwidth_bytes_per_s))


def _devices(found: Decision) -> Iterator[Figure]:
    """The device in use and every common one with more bandwidth, as many of them: time and price of a token."""
    before, s = found.before, found.before.scenario
    yield from _priced(found, before, "here")
    for device in faster(s):
        yield from _priced(found, before.changed(accelerator=device), device.id)


def faster(s: Scenario) -> list[Accelerator]:
    """Common accelerators with more bandwidth than the one in use, the slowest first."""
    known = [_accelerator(id) for id in common_accelerators()]
    # Rated against rated: a device is not faster than itself because less was measured on it.
    more = [device for device in known if device.bandwidth_bytes_per_s > s.accelerator.fitted_bandwidth_bytes_per_s]
    return sorted(more, key=lambda device: device.bandwidth_bytes_per_s)


@cache
def _accelerator(id: str) -> Accelerator:
    return load_accelerator(id)


def _priced(found: Decision, other: Situation, name: str) -> Iterator[Figure]:
    s, where = other.scenario, name.replace("-", "_")
    device = s.accelerator
    if not other.memory.max_sequences:
        yield Figure(f"tpot_{where}_s", None, "s", f"TPOT on {s.gpus} x {device.id}: no sequence fits")
        return
    tpot_s = other.tpot_s(batch=found.batch)
    where_text = f"{s.gpus} x {device.id}"
    text = f"TPOT on {where_text}, {device.bandwidth_bytes_per_s / 1e12:.2f} TB/s each"
    yield Figure(f"tpot_{where}_s", tpot_s, "s", f"{text} ({BASIS_TEXT[other.steps.basis]})")
    hour = None if device.usd_per_hour is None else device.usd_per_hour * s.gpus
    yield Figure(f"price_{where}_usd_per_hour", hour, "usd/h", f"price of {where_text}")
    # Replicas that do not step together answer side by side.
    at_once = found.batch * s.dp / s.sharing_replicas
    tokens = None if hour is None else usd_per_million_tokens(hour, at_once / tpot_s)
    yield Figure(f"cost_{where}_usd_per_million", tokens, "usd", f"price of a million output tokens on {where_text}")


def _mixture(found: Decision) -> Iterator[Figure]:
    """What a mixture must be like to do as much, and those of the catalogue."""
    before, s = found.before, found.before.scenario
    if s.model.experts:
        first = next(run.feed_forward for run in s.model.runs if run.feed_forward.experts)
        end = all_experts_batch(first.experts, first.experts_per_token)
        yield Figure("all_experts_batch", end, "tokens", "in a step from which it reads every expert: no bytes saved")
        return
    ledger = before.bandwidth
    kv = ledger.kv_bytes_per_step * found.batch / s.batch_per_replica
    share = halving_active_share(ledger.weight_bytes_per_step, kv, found.batch)
    text = "active part with which a mixture of this size halves the bytes read"
    yield Figure("mixture_active_share", share, "share", text)
    active = None if share is None else share * s.model.params_active
    yield Figure("mixture_active_params", active, "params", "that is, active in such a mixture")
    for model in similar_mixtures(s.model):
        yield from _example(found, model)


def similar_mixtures(model: ModelProfile) -> list[ModelProfile]:
    """Mixtures of the list nearest in total parameters."""
    data = _mixtures()
    low, high = data.span
    near = [other for other in _models() if low <= other.params_total / model.params_total <= high]
    return sorted(near, key=lambda other: abs(math.log(other.params_total / model.params_total)))[: data.shown]


def _example(found: Decision, model: ModelProfile) -> Iterator[Figure]:
    before, name = found.before, model.id.rpartition("/")[2].lower().replace("-", "_").replace(".", "_")
    size = f"{model.id}, {model.params_active / 1e9:.1f}B of {model.params_total / 1e9:.0f}B active"
    try:
        other = with_model(before, model)
        holds = other.memory.max_sequences
    except InfoptError as error:
        yield Figure(f"mixture_{name}_ratio", None, "ratio", f"{size}: {error}")
        return
    if not holds:
        yield Figure(f"mixture_{name}_ratio", None, "ratio", f"{size}: no sequence fits")
        return
    ratio = before.tpot_s(batch=found.batch) / other.tpot_s(batch=found.batch)
    basis = before.basis_with(other)
    yield Figure(f"mixture_{name}_ratio", ratio, "ratio", f"TPOT gain of {size} ({BASIS_TEXT[basis]})")
    end = _loses_batch(before, other)
    text = f"batch from which {model.id} gains no TPOT" + (": never" if end is None else "")
    yield Figure(f"mixture_{name}_ends_batch", end, "sequences", text)


def with_model(situation: Situation, model: ModelProfile) -> Situation:
    """Another model on the same placement, in its own formats.

    Errors: InfoptError where it cannot be placed so.
    """
    s = situation.scenario
    if s.tp not in allowed_tensor_parallel(model, s.tp):
        raise InfoptError(f"tp {s.tp} does not divide it")
    weight_format, bits = weight_bits_by_part(model, None)
    record, kv = load_weight_format(weight_format), kv_format_name(model, None)
    return situation.changed(
        curve=(),
        model=model,
        weight_format=weight_format,
        weight_bits=bits,
        weight_compute=record.compute,
        weight_quality=record.quality_range,
        kv_format=kv,
        kv=load_kv_format(kv),
    )


def _loses_batch(before: Situation, other: Situation) -> int | None:
    """The first batch at which the other's step is no shorter, memory aside."""
    return first_lost(lambda n: before.tpot_s(batch=n) > other.tpot_s(batch=n), int(BATCH.high(before)))


@cache
def _mixtures() -> Mixtures:
    path = DATA / "mixtures.yaml"
    return validate_record(Mixtures, read_yaml(path), str(path))


@cache
def _models() -> tuple[ModelProfile, ...]:
    return tuple(resolve_model(name) for name in _mixtures().models)


def _rule(found: Decision) -> Rule:
    says: Verdict | None = "use" if found.batch < threshold("least_batch") else None
    why = "" if says else "the batch is 4 or more"
    if says == "use" and found.verdict != "use":
        why = f"a step waits for more than bytes, so twice the bandwidth gains {found.gain.value:.2f}x only"
        if not found.before.memory.max_sequences:
            why = "no sequence fits, so memory is missing first"
    return Rule(
        1,
        "tune the batch, unless the effective batch is below 4 and cannot rise: then more bandwidth or an MoE",
        says,
        why,
    )


TECHNIQUE = Technique(
    id="more-bandwidth",
    name="More bandwidth, or an MoE",
    ledger="bandwidth",
    order=None,
    judge=judge,
    quantities=(BATCH, RATE, BANDWIDTH),
    plane=(RATE, BANDWIDTH),
    aliases=("bandwidth", "moe"),
    quick=lambda situation: decide(situation).verdict,
)
