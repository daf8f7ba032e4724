"""Two calibration records side by side: `probe compare A B`.

    drift   |B / A - 1| above 10 % either way, and neither median within the other's 10th to 90th percentile
Both conditions, since a wide spread excuses a difference and a narrow one makes differences of no consequence certain.
Contended figures are shown and judge nothing. Figures are of one thing where probe, name, format, unit and conditions
are equal; steps where engine, mode, model, formats, batch, tokens and context are.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from infopt.frozen import dataclass
from infopt.hardware.calibration import Acceptance, Calibration, Measurement, Step, Value, load_calibration
from infopt.hardware.calibration_store import key

DRIFT_RATIO = 1.1
DRIFTED, SAME, UNDETERMINED = 1, 0, 4

Verdict = Literal["same", "drift", "contended", "only in A", "only in B"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One median of either record with its spread."""

    value: float
    p10: float
    p90: float
    contended: bool

    def holds(self, value: float) -> bool:
        """Whether a value lies in the spread."""
        return self.p10 <= value <= self.p90


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured, in both records or in one.

    probe, name, format, unit  as the record has them; a step is probe `latency` or `verify`
    conditions                 what else had to be equal
    """

    probe: str
    name: str
    format: str | None
    unit: str
    conditions: dict[str, Value]
    a: Figure | None
    b: Figure | None

    @property
    def ratio(self) -> float | None:
        """B over A, None where one of them lacks it."""
        return self.b.value / self.a.value if self.a is not None and self.b is not None and self.a.value else None

    @property
    def verdict(self) -> Verdict:
        """Drift, or why there is none."""
        if self.a is None:
            return "only in B"
        if self.b is None:
            return "only in A"
        if self.a.contended or self.b.contended:
            return "contended"
        far = self.ratio is None or not 1 / DRIFT_RATIO <= self.ratio <= DRIFT_RATIO
        apart = not self.a.holds(self.b.value) and not self.b.holds(self.a.value)
        return "drift" if far and apart else "same"


@dataclass(frozen=True, slots=True)
class Compared:
    """Both records, and their figures in the order of A, then those only B has.

    a_path, b_path  the files as they were named
    """

    a: Calibration
    b: Calibration
    a_path: str
    b_path: str
    rows: tuple[Row, ...]

    def count(self, verdict: Verdict) -> int:
        """Figures with a verdict."""
        return sum(row.verdict == verdict for row in self.rows)

    @property
    def exit_status(self) -> int:
        """1 where a figure drifted, 0 where none did, 4 where none could be compared."""
        if self.count("drift"):
            return DRIFTED
        return SAME if self.count("same") else UNDETERMINED

    @property
    def differences(self) -> tuple[str, ...]:
        """What besides time may explain a drift: another device, another driver, other versions."""
        return tuple(_differences(self.a, self.b))


def compare_files(a: Path, b: Path) -> Compared:
    """Two records by their files; raises InfoptError for one that cannot be read, was edited or is outdated."""
    return compare(load_calibration(a), load_calibration(b), str(a), str(b))


def compare(a: Calibration, b: Calibration, a_path: str = "A", b_path: str = "B") -> Compared:
    """Two records figure by figure."""
    left, right = _rows(a), _rows(b)
    rows = [_row(left.get(of), right.get(of)) for of in dict.fromkeys((*left, *right))]
    return Compared(a, b, a_path, b_path, tuple(rows))


def _row(a: Row | None, b: Row | None) -> Row:
    of = a or b
    assert of is not None
    return Row(of.probe, of.name, of.format, of.unit, of.conditions, a.a if a else None, b.a if b else None)


def _rows(record: Calibration) -> dict[Any, Row]:
    """The figures of a record by what they are of, each on side A."""
    rows: dict[Any, Row] = {}
    for m in record.measurements:
        rows[key(m)] = _measured(m)
    for s in record.steps:
        rows[key(s)] = _stepped(s)
    for one in record.acceptance:
        rows[key(one)] = _accepted(one)
    return rows


def _measured(m: Measurement) -> Row:
    return Row(m.probe, m.name, m.format, m.unit, m.conditions, Figure(m.value, m.p10, m.p90, m.contended), None)


def _stepped(s: Step) -> Row:
    conditions: dict[str, Value] = {
        "engine": s.engine,
        "eager": s.eager,
        "kv": s.kv,
        "batch": s.batch,
        "tokens": s.tokens,
        "context_tokens": s.context_tokens,
        "tp": s.tp,
    }
    figure = Figure(s.median_s, s.p10_s, s.p90_s, s.contended)
    return Row("latency" if s.tokens == 1 else "verify", s.model, s.weights, "s", conditions, figure, None)


def _accepted(one: Acceptance) -> Row:
    conditions: dict[str, Value] = {
        "target": one.target,
        "text": one.text,
        "sampling": one.sampling,
        "temperature": one.temperature,
        "drafted": one.drafted,
    }
    figure = Figure(one.tokens_per_step, one.tokens_per_step_low, one.tokens_per_step_high, False)
    return Row("draft", one.draft, None, "tokens/step", conditions, figure, None)


def _differences(a: Calibration, b: Calibration) -> Iterator[str]:
    if a.device.name != b.device.name:
        yield f"other devices: {a.device.name} and {b.device.name}"
    elif a.device.uuid_hash != b.device.uuid_hash:
        yield f"two units of one kind: {a.device.uuid_hash or 'unknown'} and {b.device.uuid_hash or 'unknown'}"
    if a.device.threads != b.device.threads:
        yield f"threads: {a.device.threads} and {b.device.threads}"
    if a.device.driver != b.device.driver:
        yield f"driver: {a.device.driver or 'unknown'} and {b.device.driver or 'unknown'}"
    for name in dict.fromkeys((*a.software, *b.software)):
        if a.software.get(name) != b.software.get(name):
            yield f"{name}: {a.software.get(name, 'none')} and {b.software.get(name, 'none')}"
    for where, record in (("A", a), ("B", b)):
        if record.state.throttle:
            yield f"{where} was held back while it was measured: {', '.join(record.state.throttle)}"
