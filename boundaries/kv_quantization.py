"""Fewer bits for cached keys and values: more sequences, fewer bytes per step, some precision.

    share  = KV at this batch and context / memory of the device
    gain   = TPOT(KV as it is) / TPOT(KV smaller)                       sequences: pool // (request in either format)
Where the batch fits in the smaller format only: use. Below 10 % of memory (document 1) it is limited, unless the step
itself gets 10 % shorter: the rule counts what is stored, the step what is read. Above, it is worth using where the step
gets shorter by more than repeated runs differ, or where the batch fills more than half of the cache; else limited.
Bits are those of the format with its scales (profiles/data/kv); what engines make of it: data/kv_kernels.yaml.
"""

import math
from collections.abc import Iterator

from infopt.boundaries.deciding import by_gain, measured_by, threshold, unsure
from infopt.boundaries.kv_kernels import Row, formats, kinds, loss, notes, read_of
from infopt.boundaries.quantities import BATCH, CONTEXT
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Figure, Gain, Judgement, Rule, Technique, Verdict
from infopt.frozen import dataclass
from infopt.ledgers.scenario import Scenario
from infopt.profiles.engine_flags import engine_flags
from infopt.profiles.formats import format_name, load_kv_format

MEASURE_KERNELS = "TPOT and throughput with the smaller cache and without it, at this batch and context"


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer without its figures; `after` and `gain` are None where there is no smaller format."""

    verdict: Verdict
    reason: str
    before: Situation
    after: Situation | None = None
    gain: Gain | None = None
    slow: Row | None = None


def judge(situation: Situation) -> Judgement:
    """The smaller format beside the one in use."""
    found = decide(situation)
    before, after = found.before, found.after
    share = before.memory.kv_share
    if after is None:
        return Judgement(found.verdict, None, found.reason, rule=_rule(share, before, None, None))
    figures = (*_figures(before, after), *_other_figures(before, after), *_crossings(before))
    open_by_steps = measured_by([before.scenario, after.scenario])
    settle = "" if found.verdict != "measure" else MEASURE_KERNELS if _in_doubt(found) else open_by_steps
    rule = _rule(share, before, found.verdict, found.gain)
    return Judgement(found.verdict, _shown_gain(found), found.reason, figures, tuple(_costs(found)), rule, settle)


def _in_doubt(found: Decision) -> bool:
    """Whether kernels, not steps, are what is not known."""
    return found.slow is not None or not read_of(found.before.scenario)


def decide(situation: Situation) -> Decision:
    """The verdict, its reason and what it rests on."""
    before = situation.changed(curve=()) if situation.curve else situation
    s = before.scenario
    if not any(run.mixer.cache_elements_per_token for run in s.model.runs):
        return Decision("skip", "the model keeps no keys and values, only a state", before)
    after = apply(before, "")
    name = after.scenario.kv_format
    if cache_bits(after.scenario) >= cache_bits(s):
        return Decision("skip", f"the cache is in {s.kv_format} already", before)
    slow = loss(s, name)
    if slow is not None and slow.refused:
        return Decision("impossible", slow.text, before)
    if name not in formats(s) and read_of(s):
        takes = ", ".join(formats(s)) or "none"
        return Decision("impossible", f"{s.engine.engine} takes no {name} cache for this model here ({takes})", before)
    gain = before.gain_over(after, "tpot", lambda here, there: before.tpot_s(here) / after.tpot_s(there))
    verdict, reason = _by_time(before, after, gain, slow) if before.fits else _by_memory(before, after)
    if verdict == "use" and not read_of(s):
        return Decision("measure", f"{reason}; {_unread(s)}", before, after, gain)
    return Decision(verdict, reason, before, after, gain, slow)


def _unread(s: Scenario) -> str:
    return f"what {s.engine.engine} keeps smaller of {' and '.join(sorted(kinds(s)))} layers was not read"


def cache_bits(s: Scenario) -> float:
    """Mean bits of a cached element, latent entries as their format fixes them."""
    entry = sum(run.layers * run.mixer.cache_elements_per_token for run in s.model.runs)
    latent = sum(run.layers for run in s.model.runs if run.mixer.kind in ("latent", "indexed"))
    if s.kv.latent_bytes_per_token is None or not latent:
        return s.kv.bits_per_element
    return 8.0 * s.kv.latent_bytes_per_token * latent / entry


def _by_memory(before: Situation, after: Situation) -> tuple[Verdict, str]:
    """Where the batch does not fit."""
    s, name = before.scenario, after.scenario.kv_format
    fit, fit_after = before.memory.max_sequences, after.memory.max_sequences
    if fit_after == 0:
        return "skip", f"no sequence fits, not with the cache in {name} either: smaller weights or more devices first"
    return (
        "use",
        f"{fit_after:,} sequences fit with the cache in {name}, {fit:,} with {s.kv_format}, of {s.batch_per_replica:,}",
    )


def _by_time(before: Situation, after: Situation, gain: Gain, slow: Row | None) -> tuple[Verdict, str]:
    """Where it fits."""
    share, limit = before.memory.kv_share, threshold("kv_share")
    fit, fit_after = before.memory.max_sequences, after.memory.max_sequences
    by_time = by_gain(gain, before.basis_with(after))
    stored = f"the KV cache is {share:.1%} of memory" if share < limit else f"the KV cache is {share:.0%} of memory"
    step = f"TPOT gains {gain.value:.2f}x"
    if slow is not None and slow.loses:
        return "skip", f"{stored}, but {slow.text}"
    if share < limit and by_time != "use":
        return "limited", f"{stored}, below {limit:.0%}; {step} with {after.scenario.kv_format}"
    crowded = 2 * before.scenario.batch_per_replica > fit
    if by_time == "skip" and not crowded:
        return "limited", f"{stored}, but {step} only, and {fit:,} sequences fit already"
    if slow is not None:
        return "measure", f"{stored}; {slow.text}"
    if by_time == "measure" and not crowded:
        return "measure", f"{stored}; {step}, {unsure(gain, before.basis_with(after))}"
    return "use", f"{stored}; with {after.scenario.kv_format} {step}, {fit_after:,} sequences fit instead of {fit:,}"


def _shown_gain(found: Decision) -> Gain | None:
    """Of time where the batch fits, unless a loss was measured; of sequences where it does not."""
    before, after = found.before, found.after
    if before.fits or after is None:
        return None if found.slow is not None and found.slow.loses else found.gain
    fit = before.memory.max_sequences
    ratio = after.memory.max_sequences / fit if fit else None
    return None if ratio is None else Gain(ratio, ratio, ratio, "sequences")


def _figures(before: Situation, after: Situation) -> Iterator[Figure]:
    now, name = before.scenario.kv_format, after.scenario.kv_format
    yield Figure("kv_share", before.memory.kv_share, "share", "KV cache's part of memory at this batch and context")
    yield Figure(
        "kv_share_of_step",
        before.bandwidth.kv_share_of_step,
        "share",
        "KV cache's part of the bytes a decode step reads",
    )
    yield Figure("max_sequences", before.memory.max_sequences, "sequences", f"that fit with the cache in {now}")
    yield Figure("max_sequences_after", after.memory.max_sequences, "sequences", f"that fit with the cache in {name}")
    yield Figure("tpot_s", before.tpot_s(), "s", "TPOT now")
    yield Figure("tpot_after_s", after.tpot_s(), "s", f"TPOT with the cache in {name}")


def _other_figures(before: Situation, after: Situation) -> Iterator[Figure]:
    """The other smaller formats of the engine."""
    for name in formats(before.scenario):
        other = in_format(before, name)
        if name == after.scenario.kv_format or cache_bits(other.scenario) >= cache_bits(before.scenario):
            continue
        bits = cache_bits(other.scenario)
        slow = loss(before.scenario, name)
        told = "; slow here" if slow is not None else ""
        text = f"that fit with the cache in {name} ({bits:g} bits with scales){told}"
        yield Figure(f"max_sequences_{name}", other.memory.max_sequences, "sequences", text)
        ratio = before.tpot_s() / other.tpot_s()
        yield Figure(f"gain_{name}_ratio", ratio, "ratio", f"TPOT gain of a cache in {name} by bytes alone{told}")


def _crossings(before: Situation) -> Iterator[Figure]:
    """Batch and context at which the cache is 10 % of memory, the other as it is."""
    s, page, limit = before.scenario, before.memory.layout, threshold("kv_share")
    allowed = limit * before.memory.capacity_bytes_per_gpu
    replica = math.ceil(allowed / page.request_bytes(s.context_tokens))
    batch = (replica - 1) * s.dp + 1
    yield Figure(
        "share_limit_batch", batch, "sequences", f"at once make the KV cache {limit:.0%} of memory at this context"
    )

    def reached(context: int) -> bool:
        return s.batch_per_replica * float(page.request_bytes(context)) >= allowed

    low, high = 1, int(CONTEXT.high(before))
    if not reached(high):
        yield Figure(
            "share_limit_context", None, "tokens", f"of context that make the KV cache {limit:.0%} of memory: none"
        )
        return
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    yield Figure(
        "share_limit_context", high, "tokens", f"of context that make the KV cache {limit:.0%} of memory at this batch"
    )


def _costs(found: Decision) -> Iterator[str]:
    before, after = found.before, found.after
    if after is None:
        return
    now, name = before.scenario.kv_format, after.scenario.kv_format
    yield f"KV cache precision falls from {now} to {name}: test long contexts and long answers"
    if found.slow is not None:
        yield found.slow.text
    others = {name: slow.text for name in formats(before.scenario) if (slow := loss(before.scenario, name)) is not None}
    others.pop(name, None)
    for text in dict.fromkeys(others.values()):
        yield f"{', '.join(other for other in others if others[other] == text)}: {text}"
    if not read_of(before.scenario):
        yield _unread(before.scenario)
    yield from notes(before.scenario)


def _rule(share: float, before: Situation, verdict: Verdict | None, gain: Gain | None) -> Rule:
    says: Verdict = "limited" if share < threshold("kv_share") else "use"
    why = ""
    if verdict == "use" and says == "limited":
        why = "the rule counts what is stored; "
        why += "this batch does not fit" if not before.fits else "every decode step reads the cache"
    elif verdict == "limited" and says == "use":
        why = f"TPOT gains {gain.value:.2f}x only and this batch does not need the room" if gain else ""
    elif verdict in ("measure", "skip"):
        why = "the rule says nothing of kernels that may be slower on this device"
    return Rule(1, "a KV cache below about 10% of memory leaves little to gain", says, why)


def target(situation: Situation, argument: str) -> str:
    """The format asked about: the argument, what the load names, or the engine's usual smaller one for this model."""
    s = situation.scenario
    asked = argument or situation.load.kv_format
    if asked:
        return format_name(asked, "kv")
    usual = format_name(engine_flags(s.engine.engine).small_kv, "kv")
    taken = formats(s)
    return usual if usual in taken or not taken else taken[0]


def in_format(situation: Situation, name: str) -> Situation:
    """The same with the cache in another format; a measured step curve is of the old one and is dropped."""
    return situation.changed(curve=(), kv_format=name, kv=load_kv_format(name))


def apply(situation: Situation, argument: str) -> Situation:
    """The cache in the smaller format.

    Errors: InfoptError for an unknown format.
    """
    changed = in_format(situation, target(situation, argument))
    return changed.changed(used=(*situation.used, TECHNIQUE.id))


TECHNIQUE = Technique(
    id="kv-quantization",
    name="KV quantization",
    ledger="memory, cache bandwidth",
    order=2,
    judge=judge,
    quantities=(BATCH, CONTEXT),
    plane=(BATCH, CONTEXT),
    apply=apply,
    aliases=("kv",),
    quick=lambda situation: decide(situation).verdict,
)
