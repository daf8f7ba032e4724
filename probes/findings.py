"""What probes return, part by part, and how a timing becomes a figure of the record."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from infopt.frozen import dataclass
from infopt.hardware.calibration import Acceptance, Measurement, Probe, Step, Value
from infopt.probes.sampling import Timing

RATE_UNITS = {"bytes": "bytes/s", "flop": "flop/s", "tokens": "tokens/s"}


@dataclass(frozen=True, slots=True)
class Findings:
    """One finished part of a probe. `notes` are for the user and the record ("half the size: memory ran out")."""

    measurements: tuple[Measurement, ...] = ()
    steps: tuple[Step, ...] = ()
    acceptance: tuple[Acceptance, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether anything was measured."""
        return bool(self.measurements or self.steps or self.acceptance)


# A probe yields each part when it is whole, so that stopping it keeps what is done.
Part = Iterator[Findings]
Begun = Callable[[], Part]


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rate(
    probe: Probe, name: str, timing: Timing, format: str | None, peak_per_s: float | None = None, **conditions: Value
) -> Measurement:
    """A timing as bytes, FLOP or tokens a second; the fast end of the times is the high end of the rates."""
    amount = timing.operation.amount
    return Measurement(
        probe=probe,
        name=name,
        format=format,
        unit=RATE_UNITS[timing.operation.unit],  # type: ignore[arg-type]
        value=amount / timing.median_s,
        p10=amount / timing.p90_s,
        p90=amount / timing.p10_s,
        n=timing.n,
        n_clean=timing.n_clean,
        contended=timing.contended,
        taken=now(),
        moved=amount,
        moved_unit=timing.operation.unit,
        share_of_peak=amount / timing.median_s / peak_per_s if peak_per_s else None,
        conditions=conditions,
    )


def duration(probe: Probe, name: str, timing: Timing, format: str | None, **conditions: Value) -> Measurement:
    """A timing as seconds."""
    return Measurement(
        probe=probe,
        name=name,
        format=format,
        unit="s",
        value=timing.median_s,
        p10=timing.p10_s,
        p90=timing.p90_s,
        n=timing.n,
        n_clean=timing.n_clean,
        contended=timing.contended,
        taken=now(),
        moved=timing.operation.amount,
        moved_unit=timing.operation.unit,
        conditions=conditions,
    )
