"""Fewer bits for weights: less memory, fewer bytes per step, and faster products where the device has units for them.

    gain  = s TPOT(weights as they are) / TPOT(weights smaller), at this batch
    s     measured over predicted gain of formats the device multiplies in (data/weight_kernels.yaml)
    memory: weights of a rank in either format, sequences that fit beside them, fewest devices that hold the scenario
Formats the device has no units for are unpacked to 16 bit (data/weight_kernels.yaml): bytes shrink, products do not, so
the gain ends where products and the prompts of others take over. The format with the best gain decides, of several
about as good the one with the most bits; one that makes the scenario fit, or fit fewer devices, is worth using at any
gain.
"""

from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.capacity import fewest_devices
from infopt.boundaries.deciding import by_gain, measured_by, plain_verdict, threshold, unsure
from infopt.boundaries.quantities import BATCH, CONTEXT
from infopt.boundaries.roots import first_lost
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Steps
from infopt.boundaries.technique import VERDICTS, Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.boundaries.weight_kernels import (
    BEST,
    EXPECTED,
    WORST,
    candidates,
    gain_share,
    obstacle,
    storage_only,
    unpacked_shape,
    unread,
)
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.step_time import step_shape
from infopt.profiles.engine_flags import engine_flags
from infopt.profiles.formats import format_name, load_weight_format, weight_bits_by_part


@dataclass(frozen=True, slots=True)
class Candidate:
    """A format and what it brings.

    blocked  why it does not run here; empty where it does
    verdict  what its gain in TPOT deserves
    """

    name: str
    situation: Situation
    blocked: str
    gain: Gain
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer without its figures.

    before  the situation in its present format, from the step model
    best    the format that decides, None where there is none to choose from
    """

    verdict: Verdict
    reason: str
    before: Situation
    tried: tuple[Candidate, ...]
    best: Candidate | None = None


def judge(situation: Situation) -> Judgement:
    """The best of the smaller formats beside the one in use."""
    found = decide(situation)
    before, best = found.before, found.best
    formats = tuple(_format_figures(found))
    if best is None:
        return Judgement(found.verdict, None, found.reason, formats)
    few, fewer = fewest_devices(before.scenario), fewest_devices(best.situation.scenario)
    figures = (*_figures(before, best, few, fewer), *formats)
    settle = measured_by([before.scenario, best.situation.scenario]) if found.verdict == "measure" else ""
    rule, costs = _rule(found, few, fewer), tuple(_costs(before, best))
    return Judgement(found.verdict, _shown_gain(before, best), found.reason, figures, costs, rule, settle)


def decide(situation: Situation) -> Decision:
    """The verdict, its reason and what it rests on."""
    before = unmeasured(situation)
    tried = tuple(_candidate(before, name) for name in asked(situation))
    if not tried:
        reason = f"weights are {before.scenario.weight_format} already: no other format is much smaller"
        return Decision("skip", reason, before, tried)
    runs = [candidate for candidate in tried if not candidate.blocked]
    if not runs:
        return Decision("impossible", tried[0].blocked, before, tried)
    best = _best(before, runs)
    verdict, reason = _by_time(before, best) if before.fits else _by_memory(before, best)
    return Decision(verdict, reason, before, tried, best)


def _by_memory(before: Situation, best: Candidate) -> tuple[Verdict, str]:
    """Where the batch does not fit: what the smaller format holds decides."""
    s, name = before.scenario, best.name
    fit, fit_after = before.memory.max_sequences, best.situation.memory.max_sequences
    reason = f"{name} weights leave room for {fit_after:,} sequences, {s.weight_format} for {fit:,}"
    if fit_after == 0:
        return "impossible", f"no sequence fits, with {name} weights neither"
    if fit == 0 or best.situation.fits:
        return "use", f"{reason}; {s.batch_per_replica:,} are asked for"
    return plain_verdict(fit_after / fit), f"{reason}; {s.batch_per_replica:,} are asked for"


def _by_time(before: Situation, best: Candidate) -> tuple[Verdict, str]:
    """Where it fits: time per token, then devices saved at no loss of time."""
    s, name, gain = before.scenario, best.name, best.gain
    now = before.tpot_s()
    times = f"TPOT {now * 1e3:.1f} ms, {now / gain.value * 1e3:.1f} with {name} weights"
    gained = f"{times} ({gain.value:.2f}x) at batch {s.batch}"
    if best.verdict == "use":
        return "use", gained
    few, fewer = fewest_devices(s), fewest_devices(best.situation.scenario)
    if few is not None and fewer is not None and fewer < few:
        verdict: Verdict = "use" if gain.value >= 1 else "limited"
        return verdict, f"{fewer} {'device holds' if fewer == 1 else 'devices hold'} it instead of {few}; {gained}"
    if best.verdict == "measure":
        return "measure", f"{gained}, {unsure(gain, before.basis_with(best.situation))}"
    return best.verdict, gained


def _shown_gain(before: Situation, best: Candidate) -> Gain | None:
    """Of time where the batch fits, of sequences where it does not."""
    fit = before.memory.max_sequences
    if before.fits:
        return best.gain
    ratio = best.situation.memory.max_sequences / fit if fit else None
    return None if ratio is None else Gain(ratio, ratio, ratio, "sequences")


def _best(before: Situation, runs: list[Candidate]) -> Candidate:
    """The format to choose: of those that are sure to gain about as much, the one with the most bits."""
    best = min(runs, key=lambda candidate: _place(before, candidate))
    enough = best.gain.low / threshold("worth_ratio")
    alike = [c for c in runs if _place(before, c)[:2] == _place(before, best)[:2] and c.gain.low >= enough]
    if not (before.fits or best.situation.fits):
        return best
    return max(alike, key=lambda c: (int(load_weight_format(c.name).bits_per_weight), c.gain.low))


def _place(before: Situation, candidate: Candidate) -> tuple[bool, int, float]:
    """Order of the candidates: those that make it fit, the better verdict, the gain that is sure."""
    if not (before.fits or candidate.situation.fits):
        return True, 0, -float(candidate.situation.memory.max_sequences)
    return False, VERDICTS.index(candidate.verdict), -candidate.gain.low


def _candidate(before: Situation, name: str) -> Candidate:
    after = in_format(before, name)
    blocked = obstacle(after.scenario)
    gain = _gain(before, after)
    return Candidate(name, after, blocked, gain, by_gain(gain, before.basis_with(after)))


def _gain(before: Situation, after: Situation) -> Gain:
    """Of TPOT, with what was measured of the format: its kernels where it is unpacked, its gain where it is not."""
    ratio = before.gain_over(after, "tpot", lambda here, there: before.tpot_s(here) / after.tpot_s(there))
    shares = [gain_share(after.scenario, place) for place in (BEST, EXPECTED, WORST)]
    ratio = replace(ratio, low=ratio.low * shares[2], value=ratio.value * shares[1], high=ratio.high * shares[0])
    if after.steps.basis != "assumed" or not storage_only(after.scenario):
        return ratio
    here = before.tpot_s()
    ends = [here / after.tpot_s(_unpacked(after, place)) for place in (BEST, WORST)]
    return replace(ratio, low=min(ratio.low, *ends), high=max(ratio.high, *ends))


def _unpacked(after: Situation, place: int) -> Steps:
    """The steps with other kernels than those expected."""
    steps = after.steps
    plain = step_shape(after.scenario, steps.constants) if steps.constants is not None else None
    return steps if plain is None else replace(steps, shape=unpacked_shape(after.scenario, plain, place))


def asked(situation: Situation) -> list[str]:
    """Formats judged: the one asked about, or those of the engine that are clearly smaller than what is in use."""
    s = situation.scenario
    wanted = situation.load.weight_format
    names = [format_name(wanted, "weights")] if wanted else candidates(s.engine.engine)
    limit = 1.0 if wanted else threshold("smaller_weights_share")
    present = _bits(s)
    return [name for name in names if _bits(in_format(situation, name).scenario) < limit * present]


def _bits(s: Scenario) -> float:
    return sum(count * s.weight_bits[part] for part, count in s.model.params_by_part.items())


def in_format(situation: Situation, name: str) -> Situation:
    """The same with weights in another format; a measured step curve is of the old one and is dropped."""
    found, bits = weight_bits_by_part(situation.scenario.model, name)
    record = load_weight_format(found)
    return situation.changed(
        curve=(),
        weight_format=found,
        weight_bits=bits,
        weight_compute=record.compute,
        weight_quality=record.quality_range,
    )


def unmeasured(situation: Situation) -> Situation:
    """Without a measured curve: it says nothing of another format, so both are taken from the step model."""
    return situation.changed(curve=()) if situation.curve else situation


def apply(situation: Situation, argument: str) -> Situation:
    """Weights in the format named, or in the one the judgement would choose.

    Errors: InfoptError for an unknown format, one that does not run here, or none that is smaller.
    """
    before = unmeasured(situation)
    names = [format_name(argument, "weights")] if argument else asked(situation)
    if not names:
        raise InfoptError(f"weights are {situation.scenario.weight_format} already; name a format: weights=int4")
    tried = [_candidate(before, name) for name in names]
    runs = [candidate for candidate in tried if not candidate.blocked]
    if not runs:
        raise InfoptError(tried[0].blocked)
    best = _best(before, runs)
    return best.situation.changed(used=(*situation.used, TECHNIQUE.id))


def _figures(before: Situation, best: Candidate, few: int | None, fewer: int | None) -> Iterator[Figure]:
    s, after, name = before.scenario, best.situation, best.name
    yield Figure(
        "weights_bytes_per_gpu",
        before.memory.weights_bytes_per_gpu,
        "bytes",
        f"weights on one device in {s.weight_format}",
    )
    yield Figure(
        "weights_after_bytes_per_gpu", after.memory.weights_bytes_per_gpu, "bytes", f"weights on one device in {name}"
    )
    yield Figure("tpot_s", before.tpot_s(), "s", "TPOT now")
    yield Figure("tpot_after_s", before.tpot_s() / best.gain.value, "s", f"TPOT with {name} weights")
    yield Figure("max_sequences", before.memory.max_sequences, "sequences", f"that fit with {s.weight_format} weights")
    yield Figure("max_sequences_after", after.memory.max_sequences, "sequences", f"that fit with {name} weights")
    yield Figure("fewest_devices", few, "devices", f"of one machine at least hold this batch in {s.weight_format}")
    yield Figure(
        "fewest_devices_after", fewer, "devices", f"of one machine at least hold it in {name}, with a longer TPOT"
    )
    for name_of, ledger, bits in (("", before.compute, s.weight_format), ("_after", after.compute, name)):
        never = ": never" if ledger.ridge_batch is None else ""
        text = f"batch from which {bits} steps wait for FLOP, not bytes{never}"
        yield Figure(f"ridge_batch{name_of}", ledger.ridge_batch, "sequences", text)
    low, high = after.scenario.weight_quality or (None, None)
    yield Figure("quality_low_share", low, "share", f"of quality {name} keeps at least, where document 3 says")
    yield Figure("quality_high_share", high, "share", f"of quality {name} keeps at most")


def _format_figures(found: Decision) -> Iterator[Figure]:
    """Every format asked about: its gain, and the batch at which that is no longer worth it."""
    before = found.before
    for candidate in found.tried:
        s, name = candidate.situation.scenario, candidate.name
        how = "does not run here" if candidate.blocked else "multiplied in " + ("16 bit" if storage_only(s) else name)
        ratio = None if candidate.blocked else candidate.gain.value
        text = f"{name}: TPOT gain; {_bits(s) / _bits(before.scenario):.0%} of the bytes, {how}"
        yield Figure(f"gain_{name}_ratio", ratio, "ratio", text)
        if not candidate.blocked:
            end = gain_ends_batch(before, candidate.situation)
            text = f"{name}: batch at which TPOT gains less than {threshold('worth_ratio'):.2f}x, memory aside" + (
                ": none" if end is None else ""
            )
            yield Figure(f"gain_{name}_ends_batch", end, "sequences", text)


def gain_ends_batch(before: Situation, after: Situation) -> int | None:
    """The first batch of a replica at which the gain in TPOT is below what is worth it; None up to the range's end."""
    share = gain_share(after.scenario)

    def gains(batch: int) -> bool:
        return share * before.tpot_s(batch=batch) / after.tpot_s(batch=batch) >= threshold("worth_ratio")

    return first_lost(gains, int(BATCH.high(before)))


def _costs(before: Situation, best: Candidate) -> Iterator[str]:
    s, name = best.situation.scenario, best.name
    yield f"{name}: {_kept(s.weight_quality)}; test tool calls, long answers and safety on your own data"
    if unread(s):
        yield f"kernels of {s.engine.engine} on {s.accelerator.vendor} devices were not read: check that {name} runs"
    if name not in engine_flags(s.engine.engine).converts:
        yield f"needs a checkpoint in {name}, or calibration data like your own to make one"
    if storage_only(s):
        ratio = before.steps.prompt_s(s.input_tokens) / (best.situation.steps.prompt_s(s.input_tokens) or 1.0)
        slower = f"; prefill runs at {ratio:.2f}x of its speed" if 0 < ratio < 1 else ""
        yield f"{s.accelerator.id} multiplies {name} in 16 bit: it saves bytes, not FLOP{slower}"


def _kept(quality: tuple[float, float] | None) -> str:
    if quality is None:
        return "no document states its quality"
    low, high = quality
    return f"keeps {low:.0%} of quality" if low == high else f"keeps {low:.0%} to {high:.0%} of quality"


def _rule(found: Decision, few: int | None, fewer: int | None) -> Rule:
    saves = few is not None and fewer is not None and fewer < few
    says: Verdict | None = "use" if not found.before.fits or saves else None
    why = ""
    if says is None:
        why = "memory does not matter, and TPOT, on which our verdict rests, it leaves out"
    elif found.verdict != "use":
        why = "what it saves in memory is small, or costs TPOT, which the rule leaves out"
    return Rule(3, "quantize weights (INT4 with AWQ) when memory matters", says, why)


TECHNIQUE = Technique(
    id="weight-quantization",
    name="Weight quantization",
    ledger="memory, weight bandwidth, compute",
    order=2,
    judge=judge,
    quantities=(BATCH, CONTEXT),
    plane=(BATCH, CONTEXT),
    apply=apply,
    aliases=("weights",),
    quick=lambda situation: decide(situation).verdict,
)
