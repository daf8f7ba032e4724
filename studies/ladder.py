"""Document 3's cost ladder on our own ledgers: batching, fewer bits, speculation, a prompt cache, one after the other.

Each step starts from the last that has figures; where nothing was measured the step says so and is left out, never
guessed. What bounds a step is said beside it:
    speculation    gain <= 1 / (p + (1 - p) / G),  G = tokens per cycle / max(1, (g + 1) products / step)
    prompt cache   gain <= 1 / (1 - h p)
p  part of a request's time that goes with its prompt, h share of prompt tokens in the cache, g drafted tokens
A cycle is no shorter than a plain step, nor than the products of all the tokens it verifies at dense peak.
Ignored: the memory of a draft, blocks that cached prompts share (more sequences would fit).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.cost import usd_per_million_tokens
from infopt.ledgers.estimate import NoEstimate, clock
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.ledgers.speculation import tokens_per_cycle_at_rate
from infopt.profiles.engine_flags import engine_flags
from infopt.profiles.geometry import ModelProfile
from infopt.records import read_yaml
from infopt.studies.ladder_steps import Rung, Served, fewest_sequences, most_sequences, served
from infopt.studies.planning import WORTHWHILE_SHARE, Plan, plan_built
from infopt.studies.scenarios import Request, build, with_weights
from infopt.studies.search_space import weight_bits
from infopt.studies.speed_speculation import cycle_costs
from infopt.studies.truth import DATA

# A gain this much short of the document's is still called its gain.
NEAR_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Knobs:
    """What the steps take for granted; None is document 3's own."""

    tpot_s: float | None = None
    acceptance_ratio: float | None = None
    drafted_tokens: int | None = None
    cached_share: float | None = None


@dataclass(frozen=True, slots=True)
class Theirs:
    """The document's figures of a step; the gain is over its step before."""

    tokens_per_s: float
    usd_per_million_tokens: float
    gain_ratio: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the ladder.

    rung, served  None where there is no estimate; `reason` says why
    gain_ratio    throughput over that of the last step with figures, None for the first
    most_ratio    the gain that nothing here can exceed, where one is known
    holds         whether our gain reaches the document's, None where that cannot be said
    note          what the gain rests on
    """

    id: str
    name: str
    rung: Rung | None
    served: Served | None
    usd_per_million_output_tokens: float | None
    gain_ratio: float | None
    most_ratio: float | None
    theirs: Theirs
    holds: bool | None
    reason: str | None
    note: str


@dataclass(frozen=True, slots=True)
class Ladder:
    """All steps, with the plan of the first and what was taken for granted."""

    plan: Plan
    knobs: Knobs
    steps: tuple[Step, ...]

    @property
    def usd_per_hour(self) -> float | None:
        return self.plan.cost.usd_per_hour if self.plan.cost else None

    @property
    def gain_ratio(self) -> float | None:
        """Throughput of the last step with figures over that of the first."""
        rates = [step.served.tokens_per_s for step in self.steps if step.served]
        return rates[-1] / rates[0] if rates else None


@dataclass(frozen=True, slots=True)
class Found:
    """A step worked out: its rung or why there is none, the bound on its gain, and a remark."""

    rung: Rung | NoEstimate
    note: str
    most_ratio: float | None = None


@cache
def document() -> dict[str, Any]:
    """The document's table and what its steps take for granted."""
    data: dict[str, Any] = read_yaml(DATA / "ladder.yaml")
    return data


def ladder(model: ModelProfile, hardware: HardwareChoice, request: Request, knobs: Knobs) -> Ladder:
    """The ladder of a model on a device; of the request's batch only that of the ladder's own steps is used."""
    table = document()
    knobs = Knobs(
        knobs.tpot_s,
        *(
            table[name] if getattr(knobs, name) is None else getattr(knobs, name)
            for name in ("acceptance_ratio", "drafted_tokens", "cached_share")
        ),
    )
    built = build(model, hardware, replace(request, batch=request.dp))
    request = replace(request, batch=request.dp)
    plan = plan_built(built, hardware, request, explain_fit=False)
    return Ladder(plan, knobs, tuple(_steps(Rung(built, request, 1), plan, knobs)))


def _steps(rung: Rung, plan: Plan, knobs: Knobs) -> Iterator[Step]:
    """Each step on top of the last that has figures."""
    usd = plan.cost.usd_per_hour if plan.cost else None
    work = {
        "single": _single,
        "batching": _batching,
        "weights": _weights,
        "speculation": _speculation,
        "prompt-cache": _prompt_cache,
    }
    last: Served | None = None
    before: float | None = None
    for row in document()["steps"]:
        gain = row["tokens_per_s"] / before if before else None
        theirs = Theirs(row["tokens_per_s"], row["usd_per_million"], gain)
        before = row["tokens_per_s"]
        found = work[row["id"]](rung, last, knobs, theirs)
        step = _step(row, found, last, usd, theirs)
        yield step
        if step.rung is not None:
            rung, last = step.rung, step.served


def _step(row: dict[str, Any], found: Found, last: Served | None, usd_per_hour: float | None, theirs: Theirs) -> Step:
    now = found.rung if isinstance(found.rung, NoEstimate) else served(found.rung)
    most = found.most_ratio
    if isinstance(now, NoEstimate) or isinstance(found.rung, NoEstimate):
        reason = now.reason if isinstance(now, NoEstimate) else ""
        beyond = theirs.gain_ratio is not None and most is not None and most < NEAR_SHARE * theirs.gain_ratio
        holds = False if beyond else None
        return Step(row["id"], row["name"], None, None, None, None, most, theirs, holds, reason, found.note)
    gain = now.tokens_per_s / last.tokens_per_s if last else None
    holds = None if gain is None or theirs.gain_ratio is None else gain >= NEAR_SHARE * theirs.gain_ratio
    usd = None if usd_per_hour is None else usd_per_million_tokens(usd_per_hour, now.tokens_per_s)
    return Step(row["id"], row["name"], found.rung, now, usd, gain, most, theirs, holds, None, found.note)


def _single(rung: Rung, last: Served | None, knobs: Knobs, theirs: Theirs) -> Found:
    one = served(rung)
    if isinstance(one, NoEstimate):
        return Found(one, "")
    missed = knobs.tpot_s is not None and one.tpot_s > knobs.tpot_s
    note = f"one request on {rung.scenario.engine.engine}, where theirs is plain PyTorch"
    return Found(rung, note + ("; it already misses the target" if missed else ""))


def _batching(rung: Rung, last: Served | None, knobs: Knobs, theirs: Theirs) -> Found:
    many = most_sequences(rung, knobs.tpot_s)
    if isinstance(many, NoEstimate) or last is None or theirs.gain_ratio is None:
        return Found(many, "")
    needed = fewest_sequences(many, theirs.gain_ratio * last.tokens_per_s)
    limit = _limit_words(many, knobs)
    if needed is None:
        return Found(many, f"{limit}; {theirs.gain_ratio:.3g}x takes more")
    return Found(many, f"{theirs.gain_ratio:.3g}x takes {needed} sequences; {limit}")


def _limit_words(rung: Rung, knobs: Knobs) -> str:
    """What stops the batch from growing."""
    s, count = rung.scenario, rung.sequences
    if count == s.max_num_seqs:
        return f"{count} are the most the engine runs"
    if count == memory_ledger(s).max_sequences:
        return f"{count} are all that fit"
    return f"{count} are the most " + ("within the target" if knobs.tpot_s is not None else "that were measured")


def _weights(rung: Rung, last: Served | None, knobs: Knobs, theirs: Theirs) -> Found:
    """The fewest bits that were measured, at the most sequences that then fit."""
    s, told, unmeasured = rung.scenario, [], []
    for name in reversed(engine_flags(s.engine.engine).small_weights):
        built = with_weights(rung.built, name)
        if weight_bits(built.scenario) > WORTHWHILE_SHARE * weight_bits(s):
            continue
        if isinstance(clock(built.scenario), NoEstimate):
            unmeasured.append(name)
            continue
        fewer = most_sequences(replace(rung, built=built, request=replace(rung.request, weights=name)), knobs.tpot_s)
        if isinstance(fewer, NoEstimate):
            told.append(f"{name}: {fewer.reason}")
            continue
        note = f"{built.scenario.weight_format} weights, {_limit_words(fewer, knobs)}"
        if last is not None:
            note += f"; before, weights took {last.weights_share:.0%} of an output token's time"
        return Found(fewer, "; ".join([note, *_not_measured(unmeasured, s)]))
    told += _not_measured(unmeasured, s)
    reason = "; ".join(told) or f"{s.weight_format} weights are as small as those of this engine get"
    return Found(NoEstimate(reason), "")


def _not_measured(formats: list[str], s: Scenario) -> list[str]:
    """Formats without measurements, in words."""
    where = f"with {s.engine.engine} on {s.accelerator.name or s.accelerator.id}"
    return [f"{', '.join(formats)} weights were not measured {where}"] if formats else []


def _speculation(rung: Rung, last: Served | None, knobs: Knobs, theirs: Theirs) -> Found:
    """Drafts at the measured cost of a cycle, which is known for one sequence at a time; else the bound alone."""
    drafted, acceptance = knobs.drafted_tokens, knobs.acceptance_ratio
    assert drafted is not None
    assert acceptance is not None
    if last is None:
        return Found(NoEstimate("the step before has no estimate"), "")
    tokens = tokens_per_cycle_at_rate(acceptance, drafted)
    verified = (drafted + 1) * (last.compute_share or 0.0)
    share = last.prompt_share
    most = 1 / (share + (1 - share) * max(1.0, verified) / tokens)
    says = f"{drafted} drafted, {acceptance:.0%} accepted: {tokens:.3g} tokens a cycle"
    cycle = _cycle(rung, drafted)
    if isinstance(cycle, NoEstimate):
        return Found(cycle, f"{says}: at most {most:.3g}x", most)
    if rung.sequences > 1:
        reason = f"cycles were measured at one sequence only, where decoding gains {tokens / cycle:.3g}x"
        checked = f"{rung.sequences:,} sequences verify {rung.sequences * (drafted + 1):,} tokens a step"
        bound = f"at most {most:.3g}x, as prompts keep {share:.0%} of a request's time"
        return Found(NoEstimate(reason), f"{says}; {checked}: {bound}", most)
    return Found(replace(rung, decode_ratio=cycle / tokens), f"{says}, a cycle of {cycle:.3g} steps", most)


def _cycle(rung: Rung, drafted_tokens: int) -> float | NoEstimate:
    """Duration of a cycle in plain steps on this engine, measured at one sequence."""
    s = rung.scenario
    known = document()["cycles"].get(s.engine.engine)
    if known is None:
        return NoEstimate(f"no cycle was measured on {s.engine.engine}")
    if known["method"] == "MTP" and not s.model.mtp_layers:
        return NoEstimate(f"{s.engine.engine} was measured with prediction layers, which {s.model.id} has not")
    of = cycle_costs()[known["source"]][known["method"]]
    return float(of["cycle"] + of.get("per_draft_token", 0.0) * drafted_tokens)


def _prompt_cache(rung: Rung, last: Served | None, knobs: Knobs, theirs: Theirs) -> Found:
    """Saves the work of cached prompt tokens and nothing else; the batch stays."""
    hit = knobs.cached_share
    assert hit is not None
    if last is None:
        return Found(NoEstimate("the step before has no estimate"), "")
    tokens = rung.scenario.input_tokens
    cached = min(round(hit * tokens), tokens - 1)
    note = f"saves prefill only, and prompts take {last.prompt_share:.0%} of a request's time"
    if theirs.gain_ratio and hit:
        needed = (1 - 1 / theirs.gain_ratio) / hit
        whole = "takes requests that are all prefill" if needed >= NEAR_SHARE else f"takes {needed:.0%}"
        note += f"; {theirs.gain_ratio:.3g}x at {hit:.0%} hits {whole if needed <= 1.01 else 'is out of reach'}"
    most = 1 / (1 - cached / tokens * last.prompt_share)
    return Found(replace(rung, cached_tokens=cached), note, most)
