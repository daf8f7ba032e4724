"""Two saved runs beside each other: what differs, what that did, and whether the gain has one cause.

A gain is attributed to a variable only where
    exactly one variable of the configuration differs       (studies/experiment_variables.py)
    kind of run, traffic and hardware are the same
    chance is known and smaller                             (studies/experiment_noise.py)
else it is refused, with the run that is missing. What can make answers worse counts only beside a measured quality on
both sides; a gain beside a quality that fell by more than its own chance is flagged.
    quality  half = 1.96 sqrt(q_a (1 - q_a) / n_a + q_b (1 - q_b) / n_b)    of shares with their n; else unknown
Ignored: knobs that no run states, drifts of a machine between two measured runs (repeat A after B).
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Literal

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.studies.experiment_noise import half_width
from infopt.studies.experiment_variables import Change, Differences, Scalar, differences
from infopt.studies.saved_run import Metric, Quality, SavedRun, metric_data

Effect = Literal["better", "worse", "same", "within noise", "unknown noise", "shown"]
Verdict = Literal["attributed", "none", "refused", "needs-measurement", "quality-worse"]
NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of both.

    half    of the interval of the difference; None where chance is not known
    effect  what B did to it; shown: of a metric that is neither good nor bad
    """

    metric: Metric
    a: float | None
    b: float | None
    half: float | None
    paired: bool
    effect: Effect

    @property
    def difference(self) -> float | None:
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def ratio(self) -> float | None:
        return self.b / self.a if self.a and self.b is not None else None


@dataclass(frozen=True, slots=True)
class QualityRow:
    """One quality result of both; half as above."""

    name: str
    unit: str
    a: Quality | None
    b: Quality | None
    half: float | None
    effect: Effect


@dataclass(frozen=True, slots=True)
class Compared:
    """B beside A.

    refusals  why nothing is attributed, the first first; each names what would settle it
    missing   measurements without which a gain does not count
    """

    a: SavedRun
    b: SavedRun
    differences: Differences
    metrics: tuple[MetricRow, ...]
    quality: tuple[QualityRow, ...]
    refusals: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def variable(self) -> Change | None:
        """The one variable that differs."""
        return self.differences.changes[0] if len(self.differences.changes) == 1 else None

    @property
    def keeps_up(self) -> Effect:
        """What B did to a system that more reaches than it serves, or that keeps up."""
        old, new = self.a.saturated, self.b.saturated
        if old is None or new is None:
            return "shown"
        return "same" if old == new else "better" if old else "worse"

    @property
    def better(self) -> tuple[MetricRow, ...]:
        return tuple(row for row in self.metrics if row.effect == "better")

    @property
    def worse(self) -> tuple[MetricRow, ...]:
        return tuple(row for row in self.metrics if row.effect == "worse")

    @property
    def verdict(self) -> Verdict:
        if self.refusals:
            return "refused"
        if any(row.effect == "worse" for row in self.quality):
            return "quality-worse"
        if self.missing:
            return "needs-measurement"
        moved = self.better or self.worse or self.keeps_up in ("better", "worse")
        return "attributed" if moved and self.differences.changes else "none"


def compare_all(runs: Sequence[SavedRun]) -> tuple[Compared, ...]:
    """Every run beside the one before. Errors: InfoptError for fewer than two."""
    if len(runs) < 2:
        raise InfoptError("experiment compare takes at least two saved runs")
    return tuple(compare_runs(a, b) for a, b in itertools.pairwise(runs))


def compare_runs(a: SavedRun, b: SavedRun) -> Compared:
    """B beside A."""
    defaulted = [name for name in a.defaulted if name in b.defaulted]
    found = differences(a.configuration, b.configuration, defaulted)
    metrics = tuple(_metric(a, b, metric) for metric in metric_data().metrics if metric.id in {*a.metrics, *b.metrics})
    quality = tuple(_quality(name, a, b) for name in dict.fromkeys(one.name for one in (*a.quality, *b.quality)))
    refusals = (*_conditions(a, b), *_causes(found, metrics), *_chance(metrics, a, b))
    return Compared(a, b, found, metrics, quality, refusals, tuple(_missing(found, quality)))


def _metric(a: SavedRun, b: SavedRun, metric: Metric) -> MetricRow:
    old, new = a.metrics.get(metric.id), b.metrics.get(metric.id)
    half = None if old is None or new is None else half_width(a, b, metric.id)
    width = half.width if half else None
    return MetricRow(metric, old, new, width, bool(half and half.paired), _effect(metric, old, new, width))


def _effect(metric: Metric, old: float | None, new: float | None, half: float | None) -> Effect:
    if metric.better is None or old is None or new is None:
        return "shown"
    if old == new:
        return "same"
    if half is None:
        return "unknown noise"
    if abs(new - old) <= max(half, metric_data().least_gain_share * abs(old)):
        return "within noise"
    return "better" if (new > old) == (metric.better == "higher") else "worse"


def _quality(name: str, a: SavedRun, b: SavedRun) -> QualityRow:
    old, new = (next((one for one in run.quality if one.name == name), None) for run in (a, b))
    unit = next(one.unit for one in (old, new) if one is not None)
    if old is None or new is None:
        return QualityRow(name, unit, old, new, None, "shown")
    half = _quality_half(old, new)
    if old.value == new.value:
        effect: Effect = "same"
    elif half is None:
        effect = "unknown noise"
    elif abs(new.value - old.value) <= half:
        effect = "within noise"
    else:
        effect = "better" if (new.value > old.value) == old.higher_is_better else "worse"
    return QualityRow(name, unit, old, new, half, effect)


def _quality_half(a: Quality, b: Quality) -> float | None:
    """Of shares of so many samples; None of other scores, whose chance no number of samples tells."""
    if a.n is None or b.n is None or "share" not in (a.unit, b.unit) or a.unit != b.unit:
        return None
    return NORMAL_95 * math.sqrt(a.value * (1 - a.value) / a.n + b.value * (1 - b.value) / b.n)


def _conditions(a: SavedRun, b: SavedRun) -> list[str]:
    """What must be the same for a cause to be told."""
    found = []
    if a.kind != b.kind:
        found.append(
            f"A is {a.kind}, B {b.kind}: compare two of a kind; `infopt observe` sets a measured one beside us"
        )
    if a.hardware.device != b.hardware.device:
        found.append(f"the hardware differs ({a.hardware.device}, {b.hardware.device}): run B on {a.hardware.device}")
    for what in ("driver", "calibration"):
        mine, its = getattr(a.hardware, what), getattr(b.hardware, what)
        if mine != its:
            found.append(f"the {what} differs ({mine or 'not stated'}, {its or 'not stated'}): run both with the same")
    if sorted(a.hardware.points) != sorted(b.hardware.points):
        found.append("the measured points that calibrate the step times differ: simulate both with the same --point")
    found += _traffic(a, b)
    if a.targets != b.targets and ("good_share" in a.metrics or "good_share" in b.metrics):
        found.append(f"the targets differ ({_told(a.targets)}; {_told(b.targets)}): run both with the same")
    return found


def _told(values: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None) or "none"


def _traffic(a: SavedRun, b: SavedRun) -> list[str]:
    """Whether both had the same requests; by their fingerprint where both have one, else by what is told of them."""
    mine, its = a.traffic, b.traffic
    if mine.left_out != its.left_out:
        lost = f"A leaves {mine.left_out:,} requests out as too long, B {its.left_out:,}"
        return [f"the traffic differs: {lost}; run both with a --ctx that takes all"]
    seeded = a.repetitions is not None and b.repetitions is not None and a.repetitions.kind == "seeds"
    if mine.sha256 and its.sha256 and not seeded:
        return [] if mine.sha256 == its.sha256 else [_traffic_words(a, b)]
    near = metric_data().noise.same_traffic_ratio
    names = dict.fromkeys((*mine.description, *its.description))
    if not names and not mine.trace:
        return ["neither run says what arrived: give --traffic NAME=VALUE, or --requests FILE, of both"]
    same = all(
        _near(mine.description.get(name), its.description.get(name), near if a.kind == "measured" else 1.0)
        for name in names
    )
    return [] if same and mine.trace == its.trace else [_traffic_words(a, b)]


def _near(a: Scalar, b: Scalar, ratio: float) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and a > 0 and b > 0:
        return max(a, b) / min(a, b) <= ratio
    return a == b


def _traffic_words(a: SavedRun, b: SavedRun) -> str:
    """What of the traffic differs."""
    mine, its = a.traffic, b.traffic
    if mine.trace != its.trace:
        return f"the traffic differs ({mine.trace or 'no trace'}, {its.trace or 'no trace'}): run B with that of A"
    names = dict.fromkeys((*mine.description, *its.description))
    told = [
        f"{name} {mine.description.get(name)} and {its.description.get(name)}"
        for name in names
        if mine.description.get(name) != its.description.get(name)
    ]
    if a.seed != b.seed:
        told.append(f"seed {a.seed} and {b.seed}")
    return f"the traffic differs ({'; '.join(told) or 'other requests'}): run B with that of A"


def _causes(found: Differences, metrics: Sequence[MetricRow]) -> list[str]:
    """Whether one variable differs."""
    if found.unknown:
        told = ", ".join(f"{name} (in {side})" for name, side in found.unknown)
        return [f"only one run states {told}: state it of both, or it may be the cause"]
    names = [change.variable for change in found.changes]
    moved = [row.metric.id for row in metrics if row.effect in ("better", "worse")]
    if not names and moved:
        return [f"no variable differs, yet {', '.join(moved)} do by more than chance: a cause that no run states"]
    if len(names) > 1:
        first = found.changes[0]
        values = ", ".join(f"{name}={new}" for name, _, new in first.knobs)
        return [f"{len(names)} variables differ ({', '.join(names)}): the run that is missing is A with only {values}"]
    return []


def _chance(metrics: Sequence[MetricRow], a: SavedRun, b: SavedRun) -> list[str]:
    """Whether chance is known for any figure that could be a gain."""
    judged = [row for row in metrics if row.effect != "shown"]
    if bool(a.saturated) != bool(b.saturated) and None not in (a.saturated, b.saturated):
        return []  # that one keeps up and the other does not is told by its own test (simulation/summary.py)
    if not judged:
        if a.saturated and b.saturated:
            return ["saturated runs have no times to compare: lower the rate, or give targets"]
        return ["no metric is in both runs: save both from the same kind of source"]
    if any(row.effect != "unknown noise" for row in judged):
        return []
    noise = metric_data().noise
    each = f"more --requests (each of {noise.parts} parts needs {noise.least_requests['mean']})"
    how = f"give --observed of at least {noise.least_repetitions} repetitions of each" if a.kind == "measured" else each
    return [f"too few repetitions to tell a gain from chance: {how}"]


def _missing(found: Differences, quality: Sequence[QualityRow]) -> list[str]:
    """Measured qualities without which a change of formats is not judged."""
    changed = [change.variable for change in found.changes if change.quality]
    both = [row for row in quality if row.a is not None and row.b is not None]
    if changed and not both:
        return [f"{', '.join(changed)} can make answers worse: quality needs measurement, --quality NAME=VALUE of both"]
    unknown = [row.name for row in both if row.effect == "unknown noise"]
    if changed and len(unknown) == len(both):
        return [f"the chance of {', '.join(unknown)} is not known: give shares with their n, --quality NAME=SHARE:N"]
    return [
        f"quality {row.name} is only in {'A' if row.a else 'B'}: measure it in both"
        for row in quality
        if (row.a is None) != (row.b is None)
    ]
