"""What `hardware list` and `hardware show` show."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infopt.errors import InfoptError, unknown_name
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator, HardwareChoice
from infopt.hardware.catalogue import accelerator_summary, hardware_names
from infopt.hardware.names import OF_THIS_MACHINE, resolve_hardware

if TYPE_CHECKING:
    from infopt.hardware.calibration import Calibration


@dataclass(frozen=True, slots=True)
class Stored:
    """A calibration record of a device, as `hardware show` lists it.

    holds      how many figures of each kind there are: "bandwidth 6", "steps 24", "drafts 9", "memory 4"
    contended  how many of them are not used, because others were on the machine
    complete   False where the last run was interrupted
    problem    why it cannot be used: outdated, edited; the rest is empty then
    """

    file: str
    created: str
    device: str
    unit: str | None
    holds: tuple[str, ...]
    contended: int
    complete: bool
    problem: str | None = None


def find_hardware(pattern: str | None) -> list[dict[str, Any]]:
    """Summaries of the accelerators whose id holds every word of `pattern`; all of them without one.

    Raises InfoptError, with the nearest ids, where none does.
    """
    words = (pattern or "").lower().split()
    found = [id for id in hardware_names() if all(word in id for word in words)]
    if not found:
        raise unknown_name("accelerator", pattern or "", hardware_names(), "`infopt hardware list` shows all")
    return [accelerator_summary(id) for id in found]


def shown_hardware(name: str) -> HardwareChoice:
    """What `hardware show` is asked for: as `--hw` takes it; this machine's processor as measured if nobody listed it.

    Errors: InfoptError as `resolve_hardware`.
    """
    try:
        return resolve_hardware(name)
    except InfoptError as unlisted:
        if name.strip().lower() not in OF_THIS_MACHINE:
            raise
        from infopt.hardware.calibrate import resolve_calibrated

        try:
            return resolve_calibrated(name, "auto")
        except InfoptError:
            raise unlisted from None


def stored(device: Accelerator) -> Iterator[Stored]:
    """Calibration records of a device in the user's folder and in the package, newest first."""
    from infopt.hardware.calibrate import same_kind
    from infopt.hardware.calibration import load_calibration, stored_calibrations
    from infopt.hardware.catalogue import base_id

    for path in stored_calibrations():
        try:
            record = load_calibration(path)
        except InfoptError as error:
            # Whose it is can only be guessed: files are named after their device.
            if path.name.startswith(base_id(device.id)):
                yield Stored(str(path), "", "", None, (), 0, False, str(error).removeprefix(f"{path}: "))
            continue
        if device.vendor != "custom" and same_kind(record.device, device):
            yield _stored(path, record)


def _stored(path: Path, record: "Calibration") -> Stored:
    counts: Counter[str] = Counter(m.probe for m in record.measurements)
    counts |= Counter({"steps": len(record.steps), "drafts": len(record.acceptance), "memory": len(record.memory)})
    contended = [f.contended for group in (record.measurements, record.steps, record.acceptance) for f in group]
    return Stored(
        file=str(path),
        created=record.created,
        device=record.device.name,
        unit=record.device.uuid_hash,
        holds=tuple(f"{name} {count}" for name, count in counts.items() if count),
        contended=sum(contended),
        complete=record.complete,
    )
