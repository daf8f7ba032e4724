"""From an observation to advice: the three changes that would pay most here, and what must be measured first.

Every technique is judged where it was observed: by the boundary's own `judge`, in the deployment without it and with
the others that are in use, so that a verdict is that of `infopt boundary --observed`. A change is advised where the
verdict is `use`, the technique is not in use yet and the whole interval of its gain is above 1; or where one in use
loses by more than runs differ. What rests on figures nobody knows goes to `measure_next`. Where requests wait for a
free place and the pool has room, the limit of running sequences is judged by the same step times:

    gain = (B' / TPOT(B')) / (B / TPOT(B))                 B sequences in a step, B' with those that wait
Order: gains in what is short first (targets missed, a queue, the first token, the time per token), then by size.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from infopt.boundaries.chunked_prefill import default_tokens
from infopt.boundaries.deciding import by_gain, threshold
from infopt.boundaries.engine_settings import setting
from infopt.boundaries.load import Load
from infopt.boundaries.registry import bounded, techniques
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Basis, Curve, Steps
from infopt.boundaries.technique import BreakEven, Gain, Judgement, Metric, Technique, Verdict
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.terms import Caveat
from infopt.observing.observation import Observation
from infopt.profiles.geometry import ModelProfile
from infopt.studies.advice_flags import Setting, scenario_after, setting_for, versions_of
from infopt.studies.beside import lengths_known, limit, pool_is_full, stall_share
from infopt.studies.checklist_context import Context, Deployment
from infopt.studies.measure_next import Measure, measures
from infopt.studies.observed import batch_of, observed_speedup, speculates
from infopt.studies.scenarios import Request
from infopt.units import format_seconds, format_share

MOST_CHANGES = 3
MOST_WAITING = 4096
Short = Literal["throughput", "tpot", "ttft"]
Action = Literal["turn on", "turn off", "change"]
# Gains that help what is short, the most direct first; one that is not listed comes last.
HELPS: dict[Short | None, tuple[Metric, ...]] = {
    "throughput": ("throughput", "sequences", "tpot", "cost", "ttft", "itl"),
    "tpot": ("tpot", "itl", "throughput", "ttft", "cost"),
    "ttft": ("ttft", "throughput", "tpot", "itl", "cost"),
    None: ("tpot", "throughput", "ttft", "itl", "cost"),
}
QUANTIZED = ("kv-quantization", "weight-quantization")
# What was switched on by somebody, and may be switched off again; of the rest `skip` means that it does not matter.
CHOSEN = ("speculative", *QUANTIZED)


@dataclass(frozen=True, slots=True)
class Change:
    """One change that would pay.

    gain     of turning a technique on, or off
    basis    what the step times rest on
    flips    where the technique's verdict turns, all else as it is
    setting  the option of this engine
    """

    technique: str
    name: str
    ledger: str
    action: Action
    gain: Gain
    basis: Basis
    reason: str
    flips: tuple[BreakEven, ...]
    setting: Setting
    costs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A technique's verdict here; in_use None where it is not known."""

    technique: str
    verdict: Verdict
    gain: Gain | None
    in_use: bool | None
    reason: str


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do.

    short, why    what is short here, None where the observation does not show it
    changes       at most three, the best first
    not_worth     in use, though no gain comes of it here that could be told from none: what turning each off gains
    measure_next  what the metrics cannot tell, with the command that would
    judged        every technique, in the order of the registry
    remarks       what else the observation says
    """

    context: Context
    short: Short | None
    why: str
    changes: tuple[Change, ...]
    not_worth: tuple[Change, ...]
    measure_next: tuple[Measure, ...]
    judged: tuple[Judged, ...]
    remarks: tuple[str, ...]

    @property
    def assumptions(self) -> tuple[Caveat, ...]:
        return (*self.context.assumed, *self.context.plan.assumptions)


def advise(
    o: Observation, model: ModelProfile, hardware: HardwareChoice, request: Request, load: Load, curve: Curve = ()
) -> Advice:
    """The advice of an observation.

    Errors: InfoptError for a placement no engine runs.
    """
    context = Context(Deployment(model, hardware, request, load, curve, observed=o))
    versions = versions_of(o, request.engine_version, context.scenario)
    short, why = short_of(o, load)
    judged = {t.id: context.judgement(t.id, _batch_for(t, context, o)) for t in techniques()}
    states = {t.id: in_use(t.id, context, o, versions[-1]) for t in techniques()}
    unknown = _unknown(o, request)
    found = [*_changes(context, o, judged, states, versions), *_more_sequences(context, o, versions)]
    helps = HELPS[short]
    found = [change for change in found if change.gain.metric in helps and not unknown]
    idle = [
        change for change in found if change.action == "turn off" and change.gain.value < threshold("limited_ratio")
    ]
    found = [change for change in found if change not in idle]
    found.sort(key=lambda c: (not c.setting.text, helps.index(c.gain.metric), -c.gain.value))
    return Advice(
        context=context,
        short=short,
        why=why,
        changes=tuple(_with_flips(change, context, o) for change in found[:MOST_CHANGES]),
        not_worth=tuple(_with_flips(change, context, o) for change in idle),
        measure_next=tuple(measures(context, o, judged, states, versions)),
        judged=tuple(
            Judged(id, answer.verdict, answer.gain, states[id], answer.reason)
            for id, answer in judged.items()
            if answer
        ),
        remarks=(*unknown, *_little(judged, states), *_remarks(context, o, versions[-1])),
    )


def _unknown(o: Observation, request: Request) -> tuple[str, ...]:
    """What must be known before anything is advised, and is neither observed nor given."""
    batch = batch_of(o) is not None or request.batch > 1
    lengths = o.input_tokens_mean or request.input_tokens or request.context_tokens
    missing = [name for name, there in (("how many sequences share a step", batch), ("lengths", lengths)) if not there]
    return (f"nothing is advised: {' and '.join(missing)} were neither observed nor given",) if missing else ()


def short_of(o: Observation, load: Load) -> tuple[Short | None, str]:
    """What is short: a target missed, places or cache for those that wait, the first token, else the time per token."""
    targets, tpot_s, ttft_s = load.targets, o.mean_s("tpot_s"), o.mean_s("ttft_s")
    missed: tuple[tuple[Short, float | None, float | None], ...] = (
        ("tpot", tpot_s, targets.tpot_s),
        ("ttft", ttft_s, targets.ttft_s),
    )
    for name, value_s, target_s in missed:
        if value_s is not None and target_s is not None and value_s > target_s:
            return name, f"{name.upper()} {format_seconds(value_s)}, target {format_seconds(target_s)}"
    full, queued = pool_is_full(o), (o.waiting or 0.0) >= limit("queued")
    if full or queued:
        return "throughput", full or f"{o.waiting:.3g} requests wait"
    if tpot_s is None or ttft_s is None:
        return ("tpot", f"TPOT {format_seconds(tpot_s)}; nothing waits") if tpot_s else (None, "no times were observed")
    answer_s = max(0.0, (o.output_tokens_mean or 1.0) - 1) * tpot_s
    if ttft_s > answer_s:
        return "ttft", f"TTFT {format_seconds(ttft_s)} is more than the answer after it ({format_seconds(answer_s)})"
    return "tpot", f"TPOT {format_seconds(tpot_s)}: the answer takes longer than its first token, and nothing waits"


def in_use(technique: str, context: Context, o: Observation, version: str) -> bool | None:
    """Whether the engine uses a technique: as it says, as the options say, else as this engine does by itself."""
    s = context.scenario
    if technique == "speculative":
        return speculates(o) or context.uses("speculation")
    if technique == "prefix-caching" and (o.prefix_caching is not None or o.prefix_hit_share is not None):
        return bool(o.prefix_caching) or o.prefix_hit_share is not None
    if technique in ("kv-quantization", "weight-quantization"):
        return context.uses("kv-quantization" if technique == "kv-quantization" else "weight-quantization")
    if technique == "lora":
        return context.uses("adapters")
    if technique == "cuda-graphs":
        return not (s.eager or context.load.eager)
    row = setting(s.engine.engine, version, technique)
    if row is None or row.always:
        return row is not None
    # What an engine does by itself may have been switched off, which prefix caching alone would tell.
    return None if technique == "prefix-caching" else row.by_default


def _batch_for(technique: Technique, context: Context, o: Observation) -> int | None:
    """Where the cache is full, formats are judged at the batch that is asked for; None: at the batch observed."""
    if technique.id not in QUANTIZED or not pool_is_full(o):
        return None
    wanted = round((batch_of(o) or 0.0) + (o.waiting or 0.0)) * context.scenario.dp
    return wanted if wanted > context.scenario.batch else None


def _changes(
    context: Context,
    o: Observation,
    judged: dict[str, Judgement | None],
    states: dict[str, bool | None],
    versions: tuple[str, ...],
) -> Iterator[Change]:
    for t in techniques():
        answer, before = judged[t.id], context.before(t.id, _batch_for(t, context, o))
        if answer is None or answer.gain is None or answer.verdict in ("impossible", "measure"):
            continue
        if states[t.id] and not _smaller_chunks(t, answer, before):
            lost = _loses(t, context, o, answer)
            if lost is not None:
                after = before.scenario if t.id in QUANTIZED else None
                here = context.situation if t.id in QUANTIZED else before
                option = setting_for(t.id, here, answer, versions, after, on=False)
                yield _change(t, "turn off", lost, before, answer, option)
        elif answer.verdict == "use" and answer.gain.low > 1:
            option = setting_for(t.id, before, answer, versions, scenario_after(t, before), on=True)
            action: Action = "change" if states[t.id] or t.id in ("parallelism", "more-bandwidth") else "turn on"
            yield _change(t, action, answer.gain, before, answer, option)


def _change(t: Technique, action: Action, gain: Gain, before: Situation, answer: Judgement, option: Setting) -> Change:
    return Change(t.id, t.name, t.ledger, action, gain, before.steps.basis, answer.reason, (), option, answer.costs)


def _smaller_chunks(t: Technique, answer: Judgement, before: Situation) -> bool:
    """Chunks below the engine's own are a change of what is on already."""
    chunk = next((f.value for f in answer.figures if f.name == "chunk_tokens"), None)
    return t.id == "chunked-prefill" and chunk is not None and chunk < default_tokens(before)


def _loses(t: Technique, context: Context, o: Observation, answer: Judgement) -> Gain | None:
    """What turning a technique off gains; None where it is worth its place, or may well be.

    The time per token that was observed is a second witness: it settles an interval on both sides of 1, or objects.
    """
    gain, least = answer.gain, threshold("limited_ratio")
    if t.id not in CHOSEN or gain is None or answer.verdict != "skip" or gain.metric != "tpot" or gain.value >= least:
        return None
    off = Gain(1 / gain.value, 1 / gain.high, 1 / gain.low, gain.metric)
    observed = observed_speedup(o, context.before(t.id)) if t.id == "speculative" else None
    if off.value < least:
        return off
    if observed is not None:
        return off if observed * least <= 1 else None
    return off if gain.high < 1 else None


def _more_sequences(context: Context, o: Observation, versions: tuple[str, ...]) -> Iterator[Change]:
    """A higher limit of running sequences, where requests wait although the cache has room for them."""
    here, batch, waiting = context.situation, batch_of(o), o.waiting or 0.0
    s = here.scenario
    if waiting < limit("queued") or pool_is_full(o) or not batch or here.steps.basis == "floor" or here.cycle:
        return
    held = held_of(o, s)
    held = float(here.memory.max_sequences) if held is None else held
    wanted = min(batch + waiting, held)
    if wanted <= batch:
        return
    gain = here.gain("throughput", lambda steps: _more(here, steps, batch, wanted))
    if by_gain(gain, here.steps.basis) != "use" or gain.low <= 1:
        return
    flip = _least_waiting(here, batch)
    turn = BreakEven("waiting", flip, "requests", waiting, "skip", "use", 0.0, float(MOST_WAITING))
    now, after = (replace(s, max_num_seqs=max(1, math.ceil(most))) for most in (batch, wanted))
    option = setting_for(
        "more-sequences", here.changed(scenario=now), Judgement("use", gain, ""), versions, after, on=True
    )
    reason = f"{waiting:.3g} requests wait, {batch:.3g} run, and the cache holds {held:,.0f}"
    longer = here.tpot_s(batch=wanted) / here.tpot_s(batch=batch)
    costs = (f"TPOT gets {longer:.2f} times as long",)
    yield Change(
        "more-sequences",
        "More sequences at once",
        "bandwidth: a step reads weights once for all",
        "change",
        gain,
        here.steps.basis,
        reason,
        (turn,),
        option,
        costs,
    )


def held_of(o: Observation, s: Scenario) -> float | None:
    """Requests at their ends that the engine's own pool holds, in whole blocks; None where it does not say its size."""
    if o.kv_pool_tokens is None:
        return None
    block = o.block_tokens or 1.0
    usable = o.kv_pool_tokens - (block if s.engine.null_block else 0.0)
    return float(usable // (math.ceil((s.input_tokens + s.output_tokens) / block) * block))


def _more(here: Situation, steps: Steps, batch: float, wanted: float) -> float:
    return (wanted / here.tpot_s(steps, wanted)) / (batch / here.tpot_s(steps, batch))


def _least_waiting(here: Situation, batch: float) -> float | None:
    """The fewest waiting requests from which a higher limit is worth it; None where none is."""
    worth = threshold("worth_ratio")
    found = (n for n in range(1, MOST_WAITING) if _more(here, here.steps, batch, batch + n) >= worth)
    return next((float(n) for n in found), None)


def _with_flips(change: Change, context: Context, o: Observation) -> Change:
    """The break-evens of those that are shown: they are dear."""
    if change.flips:
        return change
    technique = next(t for t in techniques() if t.id == change.technique)
    here = context.before(technique.id, _batch_for(technique, context, o))
    return replace(change, flips=bounded(technique, here).break_evens)


def _little(judged: dict[str, Judgement | None], states: dict[str, bool | None]) -> Iterator[str]:
    """What is in use and gains, but less than what is worth its cost."""
    for id in CHOSEN:
        answer = judged[id]
        if answer is None or answer.gain is None or not states[id] or answer.verdict != "skip":
            continue
        if answer.gain.metric == "tpot" and answer.gain.value >= threshold("limited_ratio"):
            worth = threshold("worth_ratio")
            yield f"{id} is in use and gains {answer.gain.value:.2f}x here, less than the {worth:.2f}x that it is worth"


def _remarks(context: Context, o: Observation, version: str) -> Iterator[str]:
    s, batch = context.scenario, batch_of(o)
    m, new = context.situation.memory, s.input_tokens * (1 - (o.prefix_hit_share or 0.0))
    needed = (batch or 0.0) * (new + s.output_tokens / 2)
    if needed > m.kv_pool_tokens and lengths_known(o, context.plan):
        told = (
            f"{batch:.3g} sequences ran with about {needed:,.0f} tokens, the ledger has room for {m.kv_pool_tokens:,}"
        )
        yield f"{told}: model, formats or hardware are not the server's own"
    most = held_of(o, s)
    if o.preemptions and most is not None:
        told = (
            f"{o.preemptions:,.0f} preemptions: the pool of {o.kv_pool_tokens:,.0f} tokens holds {most:,.0f} requests"
        )
        row = setting(s.engine.engine, version, "kv-pool")
        how = f" ({row.enable})" if row is not None else ""
        lower = f" ({row.disable})" if row is not None else ""
        yield f"{told} at their ends; a larger pool{how} serves more, fewer sequences at once{lower} wait instead"
    stalled = stall_share(o)
    if stalled is not None:
        yield f"prompts of others take {format_share(stalled)} of the mean time between outputs"
