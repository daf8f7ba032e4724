"""Is a calibration record believable? Its own steps against the floor and against predictions from a part of them.

    floor      (W + K) / best read of the record;  no step may be below it
    predicted  from one context of each size and the batch curve of one model; every other decode step is untouched
    top        of the interval around the prediction;  no untouched step may be above it
An error of an untouched step is |predicted / measured - 1|; the median of them is what is promised (LIMITS).
"""

from collections.abc import Iterator, Sequence
from statistics import median

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.calibration import Calibration, Step
from infopt.studies.predicted_steps import predicted_s

# Median error of untouched steps that a record may have, by device: decode steps of one sequence, and of several.
# A GPU's steps are steadier than those of a shared processor; docs/accuracy.md has what was seen.
LIMITS = {"cuda": (0.05, 0.05), "cpu": (0.15, 0.20)}


@dataclass(frozen=True, slots=True)
class Checked:
    """One decode step beside its floor and its prediction (None where it helped to make it).

    measured_s, floor_s, predicted_s, low_s, high_s  seconds of the step
    """

    step: Step
    measured_s: float
    floor_s: float | None
    predicted_s: float | None
    low_s: float | None
    high_s: float | None

    @property
    def above_floor(self) -> bool | None:
        return None if self.floor_s is None else self.measured_s >= self.floor_s

    @property
    def below_top(self) -> bool | None:
        return None if self.high_s is None else self.measured_s <= self.high_s

    @property
    def error_ratio(self) -> float | None:
        return None if self.predicted_s is None else self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, slots=True)
class Group:
    """Untouched steps of one kind: how far off, and how far they may be."""

    name: str
    n: int
    median_error_ratio: float
    worst_error_ratio: float
    limit_ratio: float

    @property
    def good(self) -> bool:
        return self.median_error_ratio <= self.limit_ratio


@dataclass(frozen=True, slots=True)
class CalibrationCheck:
    """All steps of a record, the errors of its untouched ones, and what could not be checked.

    left_out  steps that were contended: they calibrate nothing and are judged by nothing
    """

    device: str
    rows: tuple[Checked, ...]
    groups: tuple[Group, ...]
    left_out: int
    unknown: tuple[str, ...]

    @property
    def passes(self) -> bool | None:
        """False where a bound is broken or predictions are off; None where nothing could be predicted."""
        broken = any(row.above_floor is False or row.below_top is False for row in self.rows)
        if broken or any(not group.good for group in self.groups):
            return False
        return True if self.groups and not self.unknown else None


def check_calibration(record: Calibration) -> CalibrationCheck:
    """Check a record against itself."""
    steps = [s for s in record.steps if s.tp == 1]
    clean = [s for s in steps if not s.contended]
    read = record.best_read
    unknown = [] if read is not None else ["no read without contention: there is no floor; infopt probe bandwidth"]
    if not clean:
        unknown.append("no step is without contention: nothing is predicted; infopt probe latency")
    rows: list[Checked] = []
    for kind in sorted({_kind(s) for s in clean}):
        found, reason = _rows([s for s in clean if _kind(s) == kind], read.value if read else None)
        rows += found
        unknown += [f"{', '.join(kind)}: {reason}"] if reason else []
    groups = tuple(_groups(rows, LIMITS[record.device.kind]))
    return CalibrationCheck(record.device.name, tuple(rows), groups, len(steps) - len(clean), tuple(unknown))


def _kind(s: Step) -> tuple[str, str, str, str]:
    return s.engine, s.weights, f"{s.kv} cache", "eager" if s.eager else "graph"


def _rows(steps: Sequence[Step], read_bytes_per_s: float | None) -> tuple[list[Checked], str | None]:
    """Decode steps of one kind with predictions, and why one has none."""
    known, reason = calibrating(steps)
    rows = []
    for s in (s for s in steps if s.tokens == 1):
        floor_s = None if read_bytes_per_s is None else (s.weight_bytes + s.kv_bytes) / read_bytes_per_s
        found: tuple[float | None, ...] = (None, None, None)
        if reason is None and s not in known and (s.batch == 1 or len(known) > 2):
            try:
                found = predicted_s(s, tuple(known))
            except InfoptError as error:
                reason = str(error)
        rows.append(Checked(s, s.median_s, floor_s, *found))
    return rows, reason


def calibrating(steps: Sequence[Step]) -> tuple[list[Step], str | None]:
    """Steps to calibrate with: one context of each size, and the batches of the model that has most; or why not."""
    ones = [s for s in steps if s.batch == s.tokens == 1]
    models = {s.model for s in ones}
    if len(models) < 2:
        return [], "one size of model was measured, from which no other follows; infopt probe latency takes two"
    first = {m: min((s for s in ones if s.model == m), key=lambda s: s.context_tokens) for m in models}
    batches = {
        m: [s for s in steps if s.model == m and s.tokens == 1 and s.context_tokens == first[m].context_tokens]
        for m in models
    }
    curve = max(sorted(models), key=lambda m: len(batches[m]))
    return [*(first[m] for m in sorted(models) if m != curve), *batches[curve]], None


def _groups(rows: Sequence[Checked], limits: tuple[float, float]) -> Iterator[Group]:
    """Errors of untouched steps by format, of one sequence and of several."""
    for weights in sorted({row.step.weights for row in rows}):
        for name, several, limit in (("one sequence", False, limits[0]), ("batches", True, limits[1])):
            errors = [
                abs(row.error_ratio)
                for row in rows
                if row.error_ratio is not None and row.step.weights == weights and (row.step.batch > 1) is several
            ]
            if errors:
                yield Group(f"{weights}, {name}", len(errors), median(errors), max(errors), limit)
