"""What the metrics of a server cannot tell, and the command that would."""

import shlex
from collections.abc import Iterator, Mapping

from infopt.boundaries.deciding import threshold
from infopt.boundaries.engine_settings import setting
from infopt.boundaries.technique import Judgement
from infopt.frozen import dataclass
from infopt.observing.observation import Observation
from infopt.profiles.checklists import commands, filled
from infopt.studies.checklist_context import Context
from infopt.studies.observed import batch_of, observed_speedup, speculates

# Requests at once at which a step curve is taken.
CURVE = (1, 4, 16)


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing to measure.

    what     in a few words;  why  it is not known, and what depends on it
    command  that would tell
    """

    what: str
    why: str
    command: str


def measures(
    context: Context,
    o: Observation,
    judged: Mapping[str, Judgement | None],
    states: Mapping[str, bool | None],
    versions: tuple[str, ...],
) -> Iterator[Measure]:
    """In the order in which they change the answer: the load, the steps, then one technique after the other."""
    yield from _load(o)
    yield from _steps(context, judged)
    yield from _prefix(context, o, judged["prefix-caching"], versions)
    yield from _drafts(context, o, judged["speculative"])
    seen = ("prefix-caching", "speculative")
    for id, answer in judged.items():
        if answer is None or id in seen or states[id]:
            continue
        if answer.verdict == "use" and answer.gain is not None and answer.gain.low <= 1:
            low, high = answer.gain.low, answer.gain.high
            why = f"its gain may be {low:.2f}x to {high:.2f}x"
            yield Measure(id, why, f"infopt boundary {id} {_here(context)} --point batch=N,tpot=TIME")


def _here(context: Context) -> str:
    """Model and hardware as options."""
    s = context.scenario
    hardware = shlex.quote(f"{s.accelerator.id}:{s.gpus}" if ":" not in s.accelerator.id else s.accelerator.id)
    return f"--model {shlex.quote(s.model.id)} --hw {hardware} --observed observed.json"


def server_of(o: Observation) -> str:
    """The address that was observed, or a place for it."""
    return o.source if o.source and o.source.startswith(("http://", "https://")) else commands().server


def _load(o: Observation) -> Iterator[Measure]:
    command = filled(commands().observe, {"server": server_of(o)})
    if o.kind == "totals":
        yield Measure("a window", "one scrape has counts since the start: idle hours and warm-up are in them", command)
    elif batch_of(o) is None:
        yield Measure("effective batch", "the source does not say how many sequences share a step", command)


def _steps(context: Context, judged: Mapping[str, Judgement | None]) -> Iterator[Measure]:
    """Step times, where verdicts wait for them."""
    steps, s = context.situation.steps, context.scenario
    if steps.basis not in ("assumed", "floor"):
        return
    waits = [id for id, answer in judged.items() if answer is not None and answer.verdict == "measure" and answer.gain]
    lengths = {"model": s.model.id, "isl": str(s.input_tokens), "osl": str(s.output_tokens)}
    known = commands()
    one = filled(known.benchmark, {**lengths, "server": known.server, "at_once": "$n", "prompts": "$((10 * n))"})
    asked = f"{', '.join(waits)} wait for them" if waits else "gains are less certain without them"
    yield Measure(
        "step times",
        f"{steps.reason}; {asked}",
        f"for n in {' '.join(map(str, CURVE))}; do {one}; done  # --step-curve",
    )


def _prefix(context: Context, o: Observation, answer: Judgement | None, versions: tuple[str, ...]) -> Iterator[Measure]:
    """0 hits of 0 is not 0 hits of many: where caching is off nothing says what prompts share."""
    if answer is None or answer.verdict != "measure" or o.prefix_hit_share is not None:
        return
    s = context.scenario
    row = setting(s.engine.engine, versions[-1], "prefix-caching")
    told = f"start one replica with {row.enable}, then " if row is not None and row.enable else ""
    off = "prefix caching is off" if o.prefix_caching is False else "no prompt was looked up in a prefix cache"
    why = f"{off}, so hits are not known, which is not the same as none"
    yield Measure("prefix hits", why, f"{told}{filled(commands().observe, {'server': server_of(o)})}")


def _drafts(context: Context, o: Observation, answer: Judgement | None) -> Iterator[Measure]:
    if answer is None:
        return
    probe = filled(commands().acceptance, {"server": server_of(o)})
    if speculates(o):
        if o.acceptance_per_position is None:
            yield Measure("acceptance by position", "it drafts, but does not count what is accepted where", probe)
        observed, gain = observed_speedup(o, context.before("speculative")), answer.gain
        if gain is not None and observed is not None and _disagree(gain.value, observed):
            told = f"acceptance and step times say {gain.value:.2f}x, the observed time per token {observed:.2f}x"
            yield Measure("whether drafts pay", told, f"the same load on a replica without drafts, then {_again(o)}")
    elif answer.verdict == "measure" and answer.gain is None:
        yield Measure("acceptance", answer.reason, f"infopt probe draft, or on a replica that drafts {probe}")


def _disagree(expected: float, observed: float) -> bool:
    """Whether one says that it gains and the other that it loses, and they are further apart than what is worth it."""
    apart = max(expected, observed) / min(expected, observed)
    return (expected - 1) * (observed - 1) < 0 and apart >= threshold("worth_ratio")


def _again(o: Observation) -> str:
    return filled(commands().observe, {"server": server_of(o)})
