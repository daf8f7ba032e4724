"""Document 2's tuning ladder (section 14) for one deployment: one variable at a time, on top of the best so far.

Every value is simulated over the same seeds as the best so far. It stays where, beyond chance,
    1  it keeps up and the best did not, or meets the targets' share and the best did not
    2  it serves more per device: goodput with targets, output tokens/s without them or where both are saturated
    3  it serves as much with no more devices, and answers come sooner (mean end-to-end time)
and never where it loses the targets that the best holds. Changes of formats stay only where their quality was measured.
    gain = value / value so far (per device where devices differ)        chance: studies/experiment_noise.py
What is not simulated (speculation, offload, prompts and answers apart) has the verdict of `infopt boundary`, if any.
Ignored: interactions (a value dropped early could pay later), and that of forty tries without effect one passes.
Data: data/experiment/ladder.yaml. Document 3's ladder of costs is another one: studies/ladder.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Literal

from pydantic import Field

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.records import Record, read_yaml, validate_record
from infopt.studies.experiment_noise import half_width
from infopt.studies.experiment_trial import Tried, needed, tried, with_knobs
from infopt.studies.experiment_values import Try, values_of
from infopt.studies.experiment_variables import DATA, Scalar, differences
from infopt.studies.saved_run import SavedRun, metric, metric_data
from infopt.studies.simulate import Job

Outcome = Literal["kept", "no gain", "worse", "needs quality", "no estimate", "does not fit", "impossible"]
OF_STATUS: dict[int, Outcome] = {1: "does not fit", 4: "no estimate"}


class Rung(Record):
    """One step of the ladder; see the file."""

    id: str
    name: str
    what: str
    why: str
    tries: list[Try]
    boundary: str | None = None
    not_simulated: str = ""


class Gates(Record):
    """What must hold before a step stays."""

    source: str
    performance: list[str]
    quality: list[str]
    stop: list[str]


class LadderData(Record):
    """The file."""

    source: str
    seeds: int = Field(ge=1)
    requests: int = Field(ge=1)
    good_share: float
    baseline: str
    rungs: list[Rung]
    gates: Gates


@cache
def ladder_data() -> LadderData:
    """The ladder as data."""
    path = DATA / "ladder.yaml"
    return validate_record(LadderData, read_yaml(path), str(path))


@dataclass(frozen=True, slots=True)
class Judged:
    """What a value did to the best so far.

    metric      that decided;  gain_ratio  its value over that of the best, per device;  half_ratio  chance, likewise
    note        what else it waits for
    """

    outcome: Outcome
    reason: str
    metric: str | None = None
    gain_ratio: float | None = None
    half_ratio: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One value of one variable."""

    variable: str
    value: Scalar
    before: Scalar
    tried: Tried
    judged: Judged


@dataclass(frozen=True, slots=True)
class Boundaried:
    """What `infopt boundary` says in the place of a simulation."""

    technique: str
    verdict: str
    reason: str
    settle: str


@dataclass(frozen=True, slots=True)
class Climbed:
    """A rung: its trials in order, the best after it; `unknown` says what is not simulated here."""

    rung: Rung
    trials: tuple[Trial, ...]
    best: Tried
    unknown: str
    boundary: Boundaried | None
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.judged.outcome == "kept")


@dataclass(frozen=True, slots=True)
class Ladder:
    """All rungs; `departs` says where the baseline is not the document's."""

    baseline: Tried
    rungs: tuple[Climbed, ...]
    seeds: int
    departs: tuple[str, ...]

    @property
    def best(self) -> Tried:
        return self.rungs[-1].best

    @property
    def holds(self) -> bool:
        """Whether the last step keeps up and meets the targets, if there are any."""
        run, _ = self.best.found
        share = run.metrics.get("good_share")
        return not run.saturated and (share is None or share >= self.best.job.good_share)


def climb(job: Job, seeds: int | None = None, quality_holds: bool = False, workers: int | None = None) -> Ladder:
    """The ladder of a job, whose settings are the baseline.

    quality_holds  quality of fewer bits was measured and holds: such steps may stay
    Errors: InfoptError where the baseline cannot be simulated.
    """
    data = ladder_data()
    count = data.seeds if seeds is None else seeds
    if count < metric_data().noise.least_repetitions:
        raise InfoptError(f"--seeds {count}: chance needs at least {metric_data().noise.least_repetitions}")
    baseline = tried(job, count, workers)
    needed(baseline)
    best, climbed = baseline, []
    for rung in data.rungs:
        found = _climbed(rung, best, count, quality_holds, workers)
        climbed.append(found)
        best = found.best
    return Ladder(baseline, tuple(climbed), count, tuple(_departures(baseline)))


def _departures(baseline: Tried) -> Iterator[str]:
    """Where the baseline is not BF16 weights, default batch, one replica."""
    run, _ = needed(baseline)
    c = run.configuration
    if c["weights"] not in ("bf16", "fp16"):
        yield f"weights {c['weights']}"
    if "max_num_seqs" not in run.defaulted:
        yield f"max_num_seqs {c['max_num_seqs']}"
    if c["dp"] != 1:
        yield f"{c['dp']} replicas"


def _climbed(rung: Rung, best: Tried, seeds: int, quality_holds: bool, workers: int | None) -> Climbed:
    trials: list[Trial] = []
    notes: list[str] = []
    for one in rung.tries:
        asked = values_of(one, best, seeds)
        notes += asked.notes
        for way in asked.ways:
            for values in way:
                trial = _trial(one.knob, values, best, seeds, quality_holds, workers)
                trials.append(trial)
                if trial.judged.outcome == "kept":
                    best = trial.tried
                elif trial.judged.outcome == "worse":
                    break  # stop rule: no further in this direction
    bound = _boundary(rung.boundary, best) if rung.boundary else None
    return Climbed(rung, tuple(trials), best, rung.not_simulated, bound, tuple(notes))


def _trial(
    name: str, values: dict[str, Scalar], best: Tried, seeds: int, quality_holds: bool, workers: int | None
) -> Trial:
    run, _ = best.found
    found = tried(with_knobs(best.job, values), seeds, workers)
    judged = judge(best, found, quality_holds)
    return Trial(name, _shown(name, values, found), run.configuration.get(name), found, judged)


def _shown(name: str, values: Mapping[str, Scalar], found: Tried) -> Scalar:
    """The value as it came out: formats by their full name."""
    return found.run.configuration.get(name) if found.run is not None else values[name]


def judge(best: Tried, found: Tried, quality_holds: bool) -> Judged:
    """Whether a value stays."""
    if found.run is None:
        return Judged(OF_STATUS.get(found.status, "impossible"), found.reason)
    (old, _), (new, _) = best.found, found.found
    changes = differences(
        old.configuration, new.configuration, [n for n in old.defaulted if n in new.defaulted]
    ).changes
    if len(changes) > 1:
        raise AssertionError(f"one variable at a time: {[change.variable for change in changes]}")
    judged = _performance(old, new, best.job.good_share)
    if judged.outcome == "kept" and any(change.quality for change in changes) and not quality_holds:
        what = ", ".join(change.variable for change in changes)
        return replace(judged, outcome="needs quality", note=f"quality of {what} is to be measured")
    return judged


def _performance(old: SavedRun, new: SavedRun, good_share: float) -> Judged:
    """The rules of the module, without quality."""
    if old.saturated != new.saturated:
        gained = bool(old.saturated)
        served = _gain(old, new, "output_tokens_per_s")
        return Judged(
            "kept" if gained else "worse", "keeps up" if gained else "saturated", *(served or ("output_tokens_per_s",))
        )
    share = "good_share"
    targeted = old.metrics.get(share) is not None and not new.saturated
    if targeted:
        before, after = (_known(run, share) >= good_share for run in (old, new))
        moved = _moved(old, new, share)
        if before != after and moved in ("better", "worse"):
            words = f"{_known(new, share):.1%} of requests within the targets, {_known(old, share):.1%} before"
            return Judged(
                "kept" if after else "worse", words, share, _ratio(old, new, share), _half_ratio(old, new, share)
            )
    main = "goodput_per_s" if targeted else "output_tokens_per_s"
    judged = _by(old, new, main, _devices(new) / _devices(old))
    as_much = judged.gain_ratio is not None and judged.gain_ratio >= 1 - metric_data().least_gain_share
    if judged.outcome != "no gain" or not as_much or _devices(new) != _devices(old) or new.saturated:
        return judged
    sooner = _by(old, new, "e2e_mean_s", 1.0)
    return judged if sooner.outcome == "no gain" and sooner.gain_ratio is None else sooner


def _by(old: SavedRun, new: SavedRun, name: str, devices_ratio: float) -> Judged:
    """By one metric, per device."""
    found = _gain(old, new, name)
    if found is None:
        return Judged("no gain", f"{name} is not known in both")
    _, ratio, half = found
    known = metric(name)
    gain = (1 / ratio if known.better == "lower" and ratio else ratio) / devices_ratio
    per = "" if devices_ratio == 1 else " per device"
    limit = max(half / devices_ratio, metric_data().least_gain_share)
    said = f"{known.name}{per}"
    outcome: Outcome = "kept" if gain - 1 > limit else "worse" if 1 - gain > limit else "no gain"
    return Judged(outcome, said, name, gain, half / devices_ratio)


def _gain(old: SavedRun, new: SavedRun, name: str) -> tuple[str, float, float] | None:
    """(metric, new over old, half-width of it)."""
    ratio, half = _ratio(old, new, name), _half_ratio(old, new, name)
    return None if ratio is None or half is None else (name, ratio, half)


def _ratio(old: SavedRun, new: SavedRun, name: str) -> float | None:
    before, after = old.metrics.get(name), new.metrics.get(name)
    return after / before if before and after is not None else None


def _half_ratio(old: SavedRun, new: SavedRun, name: str) -> float | None:
    before, half = old.metrics.get(name), half_width(old, new, name)
    return half.width / before if before and half else None


def _moved(old: SavedRun, new: SavedRun, name: str) -> str:
    half = half_width(old, new, name)
    change = _known(new, name) - _known(old, name)
    return "unknown" if half is None else "same" if abs(change) <= half.width else "better" if change > 0 else "worse"


def _known(run: SavedRun, name: str) -> float:
    return run.metrics.get(name) or 0.0


def _devices(run: SavedRun) -> float:
    value = run.configuration["gpus"]
    assert isinstance(value, int)
    return value


def _boundary(name: str, best: Tried) -> Boundaried:
    """What the ledgers say of a technique at the load that was simulated."""
    from infopt.boundaries.load import Load, Traffic
    from infopt.boundaries.registry import judge as judged
    from infopt.boundaries.registry import technique
    from infopt.boundaries.situation import Situation
    from infopt.studies.planning import own_constants, plan

    run, simulation = best.found
    batch = max(1, round(run.metrics.get("effective_batch") or 1)) * best.job.request.dp
    s = plan(best.job.model, best.job.hardware, replace(best.job.request, batch=batch)).scenario
    load = Load(traffic=Traffic(rate_per_s=simulation.summary.requests_per_s))
    known = technique(name)
    answer = judged(known, Situation(s, load, own_constants(s, best.job.request)))
    return Boundaried(known.id, answer.verdict, answer.reason, answer.settle)


def chosen(found: Ladder) -> list[Trial]:
    """The steps that stay, in order."""
    return [trial for climbed in found.rungs for trial in climbed.kept]


def steps(found: Ladder) -> list[tuple[str, SavedRun]]:
    """The baseline and each step that stays, as files in the order of the ladder."""
    runs = [("0-baseline", found.baseline), *((f"{n}-{t.variable}", t.tried) for n, t in enumerate(chosen(found), 1))]
    return [(f"{name}.yaml", one.found[0].model_copy(update={"name": name})) for name, one in runs]
