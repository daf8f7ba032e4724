"""Keeping calibration records: one file a device, added to by each run, never half-written, never by two at once."""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from infopt.errors import InfoptError
from infopt.files import write_text
from infopt.hardware.calibration import (
    Acceptance,
    Calibration,
    Device,
    Measurement,
    MemoryTerm,
    Step,
    calibration_folder,
    calibration_text,
    load_calibration,
)

F = TypeVar("F", Measurement, Step, Acceptance, MemoryTerm)


def default_path(device: Device) -> Path:
    """The file of a device in the user's folder; a CPU on other threads is another device."""
    name = re.sub(r"[^a-z0-9]+", "-", (device.accelerator or device.name).lower()).strip("-") or device.kind
    unit = f"-{device.uuid_hash[:8]}" if device.uuid_hash else ""
    threads = f"-{device.threads}-thread{'s' if device.threads > 1 else ''}" if device.kind == "cpu" else ""
    return calibration_folder() / f"{name}{unit}{threads}.yaml"


def check_target(path: Path, device: Device) -> None:
    """Refuse, before anything is measured, a file that could not take the result.

    Errors: InfoptError where it is no calibration, is one of another device, or its folder cannot be written.
    """
    folder = path.parent
    if path == default_path(device):
        _make(folder)
    if not folder.is_dir():
        raise InfoptError(f"{path}: the folder {folder} does not exist; make it, or name another --out")
    if not os.access(folder, os.W_OK):
        raise InfoptError(f"{path}: the folder {folder} cannot be written to; name another --out")
    if path.exists():
        if not path.is_file():
            raise InfoptError(f"{path}: is no regular file; name another --out")
        _same_device(path, load_calibration(path).device, device)


def save(record: Calibration, path: Path) -> Calibration:
    """Write a record to `path`, added to what the file holds of the same device; the record as written.

    Errors: InfoptError as `check_target`, and where the disk is full: the old file is intact then.
    """
    with file_lock(path):
        if path.exists():
            old = load_calibration(path)
            _same_device(path, old.device, record.device)
            record = merged(old, record)
        write_text(path, calibration_text(record))
    return record


def merged(old: Calibration, new: Calibration) -> Calibration:
    """`new` with the figures of `old` that it did not measure anew."""
    return new.model_copy(
        update={
            "measurements": newest(old.measurements, new.measurements),
            "steps": newest(old.steps, new.steps),
            "acceptance": newest(old.acceptance, new.acceptance),
            "memory": newest(old.memory, new.memory),
        }
    )


# What two figures must share for the later one to replace the earlier.
KEYS: dict[type, tuple[str, ...]] = {
    Measurement: ("probe", "name", "format", "unit", "conditions"),
    Step: ("engine", "eager", "model", "weights", "kv", "batch", "tokens", "context_tokens", "tp"),
    Acceptance: ("target", "draft", "text", "sampling", "temperature", "drafted"),
    MemoryTerm: (
        "engine", "engine_version", "name", "model", "weights", "tp", "pp", "eager", "speculative_tokens",
        "context_tokens", "max_num_seqs", "max_num_batched_tokens", "utilization",
    ),
}  # fmt: skip


def key(figure: Measurement | Step | Acceptance | MemoryTerm) -> tuple[Any, ...]:
    """What a figure is of, whatever its value."""
    values = (getattr(figure, name) for name in KEYS[type(figure)])
    return tuple(tuple(sorted(v.items())) if isinstance(v, dict) else v for v in values)


def newest(old: Sequence[F], new: Sequence[F]) -> list[F]:
    """All figures, the later of those with one key."""
    kept = {key(figure): figure for figure in old}
    kept |= {key(figure): figure for figure in new}
    return list(kept.values())


def _same_device(path: Path, there: Device, here: Device) -> None:
    same = ("name", "kind", "uuid_hash", "threads")
    if any(getattr(there, name) != getattr(here, name) for name in same):
        unit = f" ({there.uuid_hash}, {there.threads} threads)" if there.name == here.name else ""
        other = f"{there.name}{unit}"
        raise InfoptError(f"{path}: holds another device, {other}; name another --out")


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Only one process at a time reads, adds to and writes `path`; others wait."""
    beside = path.with_name(f".{path.name}.lock")
    with _opened(beside) as handle:
        try:
            _flock(handle, wait=True)
        except OSError as error:  # a network file system whose lock service does not run
            raise InfoptError(f"{beside}: cannot be locked: {error.strerror}; name an --out on a local disk") from error
        yield


@contextmanager
def device_lock(device: Device) -> Iterator[None]:
    """Only one probe at a time measures a device.

    Errors: InfoptError naming the process that holds it.
    """
    unit = device.uuid_hash or re.sub(r"[^a-z0-9]+", "-", device.name.lower())
    path = Path(tempfile.gettempdir()) / f"infopt-probe-{os.getuid()}-{unit}.lock"
    with _opened(path) as handle:
        try:
            _flock(handle, wait=False)
        except OSError as error:
            holder = path.read_text(encoding="ascii", errors="replace").strip() or "unknown"
            raise InfoptError(
                f"another infopt probe (process {holder}) is measuring {device.name}; wait for it to end"
            ) from error
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        yield


def _flock(handle: int, wait: bool) -> None:
    """Take the lock of an open file; it goes with the process, however that ends.

    Errors: OSError where another process holds it (and we do not wait), InfoptError where the system has no such locks.
    """
    try:
        import fcntl
    except ImportError as error:
        raise InfoptError("calibrations are written on Linux and macOS; on Windows use WSL") from error
    fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InfoptError(f"{path}: cannot be locked: {error.strerror}") from error
    try:
        yield handle
    finally:
        os.close(handle)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InfoptError(f"{folder}: cannot be made: {error.strerror}; set INFOPT_DATA or name --out") from error
