"""A calibration record in use: `--calibration FILE|auto`.

    bandwidth     the best of the record's reads (a floor must not be beaten by another read), beside the rated one
    dense peaks   as rated; measured ones only where none is known (a processor, hardware of the user's own)
    memory        as engines logged it: ledgers/measured_memory.py puts it in place of shipped constants
    steps         as measured: ledgers/device_steps.py fits constants of this device to them
    copies        between host and device, as measured
Contended figures are left out. A record of another device is refused; of another unit of the same kind it is taken, and
that is said, as is everything else a record changes (`calibration_notes`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator, Datum, HardwareChoice
from infopt.hardware.calibration import (
    Calibration,
    Device,
    Measurement,
    MemoryTerm,
    Step,
    load_calibration,
    stored_calibrations,
)
from infopt.hardware.catalogue import base_id
from infopt.hardware.host import UNLISTED
from infopt.hardware.names import resolve_hardware
from infopt.units import format_bytes_per_s, format_whole

AUTO = "auto"
PEAK = "matmul_best"
# Where a copy between host and device is kept on an accelerator.
HOST_COPY = "host_copy_bytes_per_s"


@dataclass(frozen=True, slots=True)
class Found:
    """A record and the file it is in."""

    path: str
    record: Calibration


def resolve_calibrated(hardware: str, calibration: str) -> HardwareChoice:
    """What `--hw` names, with the figures of a record; `auto` without an accelerator, and `cpu`, mean the processor.

    calibration  a file, or `auto` for the newest stored record of this hardware
    Errors: InfoptError as `resolve_hardware` and `calibrated`.
    """
    text = hardware.strip().lower()
    if text not in ("auto", "cpu"):
        return calibrated(resolve_hardware(hardware), calibration)
    from infopt.hardware.detect import detect_any
    from infopt.hardware.host import processor_to_calibrate

    accelerators = detect_any() if text == "auto" else None
    return calibrated(accelerators or processor_to_calibrate(), calibration)


def calibrated(choice: HardwareChoice, text: str) -> HardwareChoice:
    """`choice` with the figures of a record.

    Errors: InfoptError for a file that is no record, an old one, or one of another device; where `auto` finds none; and
    where nothing in the record is of use to a plan.
    """
    found = _named(choice, Path(text)) if text != AUTO else _newest(choice)
    return replace(choice, accelerator=_applied(choice, found))


def calibrated_where_known(choices: Sequence[HardwareChoice], text: str) -> list[HardwareChoice]:
    """Hardware that is compared rather than named: the record is applied to the kind it is of, others stay as rated.

    Errors: as `calibrated`, where it is of none of them.
    """
    records = [Found(text, load_calibration(Path(text)))] if text != AUTO else _usable(stored_calibrations(), [])
    changed = list(choices)
    for i, choice in enumerate(choices):
        matching = [found for found in records if same_kind(found.record.device, choice.accelerator)]
        if matching:
            changed[i] = replace(choice, accelerator=_applied(choice, _latest(matching)))
    if changed == list(choices):
        measured = ", ".join(dict.fromkeys(_name(found.record.device) for found in records)) or "nothing"
        raise InfoptError(
            f"--calibration {text}: none of the hardware compared was measured ({measured} was); name it with --hw"
        )
    return changed


def same_kind(measured: Device, device: Accelerator) -> bool:
    """Whether a record of one device says something about another; of hardware nobody listed it says what it can."""
    listed = measured.accelerator is not None and base_id(measured.accelerator) == base_id(device.id)
    if device.processor:
        described = device.vendor == "custom" and measured.accelerator is None
        return measured.kind == "cpu" and (listed or described or measured.name == device.name)
    return measured.accelerator is None if device.vendor == "custom" else listed


def device_of(device: Accelerator, unit: str | None = None) -> Device:
    """The device of a record that is begun without a probe; what nobody listed goes by its name.

    unit  hash of the one unit that is meant, where that is known
    """
    return Device(
        kind="cpu" if device.processor else "cuda",
        name=device.name or device.id,
        accelerator=None if device.vendor == "custom" or device.id == UNLISTED else device.id,
        uuid_hash=unit,
        memory_bytes=device.memory_bytes,
        compute_capability=device.compute_capability,
    )


def _name(device: Device) -> str:
    return f"{device.name} ({device.accelerator})" if device.accelerator else device.name


def _named(choice: HardwareChoice, path: Path) -> Found:
    """The record of a file, which must be of the hardware."""
    record = load_calibration(path)
    if same_kind(record.device, choice.accelerator):
        return Found(str(path), record)
    asked = choice.accelerator
    name = record.device.accelerator or ("cpu" if record.device.kind == "cpu" else None)
    other = f"name what was measured, --hw {name}, or " if name else ""
    raise InfoptError(
        f"--calibration {path}: it is of {_name(record.device)}, not of {asked.name or asked.id} ({asked.id}); "
        f"{other}measure this one with `infopt probe`"
    )


def _newest(choice: HardwareChoice) -> Found:
    """The newest record of the hardware: of the user's own, else of those that came with the package."""
    if choice.accelerator.vendor == "custom":
        raise InfoptError("--calibration auto: hardware of your own description has no name to look for; give the file")
    skipped: list[str] = []
    records = _usable(stored_calibrations(), skipped)
    matching = [found for found in records if same_kind(found.record.device, choice.accelerator)]
    if matching:
        return _latest(matching)
    others = [f"{found.path} ({_name(found.record.device)})" for found in records]
    there = "; ".join([*others, *skipped])
    raise InfoptError(
        f"--calibration auto: no record of {choice.accelerator.id} is stored"
        f"{', only ' + there if there else ', and no other'}; `infopt probe` makes one of this machine"
    )


def _usable(paths: Iterator[Path], skipped: list[str]) -> list[Found]:
    """Records that can be read; why others cannot is added to `skipped`."""
    found = []
    for path in paths:
        try:
            found.append(Found(str(path), load_calibration(path)))
        except InfoptError as error:
            skipped.append(str(error))
    return found


def _latest(found: Sequence[Found]) -> Found:
    """The record written last, of those in the folder that comes first: the user's own."""
    folder = Path(found[0].path).parent
    return max((f for f in found if Path(f.path).parent == folder), key=lambda f: f.record.created)


def _applied(choice: HardwareChoice, found: Found) -> Accelerator:
    """The device with every figure of the record that is of use, and notes that say so."""
    device, record = choice.accelerator, found.record
    figures = [m for m in record.measurements if not m.contended and m.value > 0]
    steps = tuple(step for step in record.steps if not step.contended and step.median_s > 0)
    read = record.best_read
    if read is None and not device.bandwidth_bytes_per_s:
        why = "all its reads are contended" if record.reads else "it has no read"
        raise InfoptError(
            f"--calibration {found.path}: {why}, and no bandwidth of {device.name} is known otherwise; "
            "measure it when nothing else runs: infopt probe bandwidth"
        )
    new = _with_rates(device, found.path, figures)
    if read is not None:
        new = _with_bandwidth(new, read, found.path)
    new = _with_total(new, record.memory, found.path)
    used = _used(device, new, read, steps) + _memory_used(record.memory)
    if not used:
        held = ", ".join(sorted({m.probe for m in record.measurements})) or "nothing"
        raise InfoptError(
            f"--calibration {found.path}: no figure in it that a plan uses (it holds {held}"
            f"{', and contended figures' if len(figures) < len(record.measurements) else ''}); measure: infopt probe"
        )
    notes = (f"calibration {found.path} of {record.created[:10]}: {'; '.join(used)}", *_caveats(choice, record))
    return replace(
        new, calibration=found.path, calibration_notes=notes, measured_steps=steps, measured_memory=tuple(record.memory)
    )


def _datum(path: str, m: Measurement) -> Datum:
    return Datum("measured", f"calibration {path}, {m.taken[:10]}: {_words(m)}")


def _words(m: Measurement) -> str:
    return " ".join(filter(None, (m.name.replace("_", " "), m.format)))


def _with_bandwidth(device: Accelerator, read: Measurement, path: str) -> Accelerator:
    """The best read as bandwidth; what was rated stays beside it, for constants that were fitted to it."""
    data = {**device.data, "bandwidth_bytes_per_s": _datum(path, read)}
    rated = device.bandwidth_bytes_per_s or None
    if rated is not None and "bandwidth_bytes_per_s" in device.data:
        data["rated_bandwidth_bytes_per_s"] = device.data["bandwidth_bytes_per_s"]
    return replace(device, bandwidth_bytes_per_s=read.value, rated_bandwidth_bytes_per_s=rated, data=data)


def _with_total(device: Accelerator, memory: Sequence[MemoryTerm], path: str) -> Accelerator:
    """The total an engine printed, where the catalogue's is assumed; a processor's is the host's own."""
    totals = [term for term in memory if term.name == "total"]
    datum = device.data.get("usable_memory_bytes")
    if not totals or device.processor or (datum is not None and datum.kind != "assumed"):
        return device
    last = max(totals, key=lambda term: term.taken)
    told = Datum("measured", f"calibration {path}, {last.taken[:10]}: {last.source}")
    return replace(device, usable_memory_bytes=int(last.value_bytes), data={**device.data, "usable_memory_bytes": told})


def _memory_used(memory: Sequence[MemoryTerm]) -> list[str]:
    """Whose memory the record has, in words."""
    of = sorted({f"{m.engine} {m.engine_version}" for m in memory})
    return [f"memory of {', '.join(of)} by start-up logs"] if of else []


def _with_rates(device: Accelerator, path: str, figures: Sequence[Measurement]) -> Accelerator:
    """Products and copies as measured: beside the dense peaks, or in their place where none is known."""
    peaks, measured, data = dict(device.peak_flop_per_s), dict(device.measured), dict(device.data)
    # Formats that the catalogue leaves out of a GPU's peaks are those it has no units for.
    fills = device.processor or device.vendor == "custom"
    for m in sorted(figures, key=lambda m: m.value):  # the best of several sizes stays
        if m.probe != "compute" or m.format is None:
            continue
        # Nothing is faster than a peak: products of few rows may be faster than those of many.
        if fills and m.format not in device.peak_flop_per_s:
            peaks[m.format], data[f"peak_flop_per_s.{m.format}"] = m.value, _datum(path, m)
        if m.name == PEAK:
            name = f"matmul_{m.format}_flop_per_s"
            measured[name], data[f"measured.{name}"] = m.value, _datum(path, m)
    copy = _host_copy(figures)
    if copy is not None and not device.processor:
        measured[HOST_COPY], data[f"measured.{HOST_COPY}"] = copy.value, _datum(path, copy)
    return replace(device, peak_flop_per_s=peaks, measured=measured, data=data)


def _host_copy(figures: Sequence[Measurement]) -> Measurement | None:
    """The slower direction of copies to and from pinned memory, each at its best size: what is stored is read again."""
    best: dict[str, Measurement] = {}
    for m in figures:
        if m.probe == "transfer" and m.unit == "bytes/s" and m.conditions.get("memory") == "pinned":
            best[m.name] = max(m, best.get(m.name, m), key=lambda one: one.value)
    return min(best.values(), key=lambda m: m.value, default=None)


def _used(before: Accelerator, after: Accelerator, read: Measurement | None, steps: Sequence[Step]) -> list[str]:
    """What the record brings, in words."""
    used = []
    if read is not None:
        rated = f", rated {format_bytes_per_s(before.bandwidth_bytes_per_s)}" if before.bandwidth_bytes_per_s else ""
        used.append(f"bandwidth {format_bytes_per_s(read.value)} ({_words(read)}{rated})")
    filled = [name for name in after.peak_flop_per_s if name not in before.peak_flop_per_s]
    if filled:
        used.append(f"dense peaks of {', '.join(filled)}, where none was known")
    if steps:
        engines = ", ".join(sorted({step.engine for step in steps}))
        used.append(f"{format_whole(len(steps))} step times of {engines}")
    kept = {name.removesuffix("_per_s").rpartition("_")[0].replace("_", " ") for name in _fresh(before, after)}
    if kept:
        used.append(f"measured beside what is rated: {', '.join(sorted(kept))}")
    return used


def _fresh(before: Accelerator, after: Accelerator) -> list[str]:
    return [n for n in after.measured if after.data.get(f"measured.{n}") is not before.data.get(f"measured.{n}")]


def _caveats(choice: HardwareChoice, record: Calibration) -> Iterator[str]:
    """What keeps the record from being the last word."""
    device, state = record.device, record.state
    busy = sum(step.contended for step in record.steps)
    contended = list(dict.fromkeys(_words(m) for m in record.measurements if m.contended))
    contended += [f"{busy} of {len(record.steps)} step times"] if busy else []
    if contended:
        yield f"calibration: left out, contended: {', '.join(contended)}"
    if not record.complete:
        yield "calibration: its last run was interrupted: what is in it is whole, the rest was not measured"
    if state.throttle:
        yield f"calibration: the device was held back while measured: {', '.join(state.throttle)}"
    if state.other_processes:
        others = f"{state.other_processes} other process{'es' if state.other_processes > 1 else ''}"
        yield f"calibration: {others} used the device while it was measured"
    if choice.units and device.uuid_hash is not None and device.uuid_hash not in choice.units:
        yield "calibration: taken on another unit of the same kind, not on this machine's"
    if device.kind == "cpu":
        yield f"calibration: of {device.threads} thread{'s' if device.threads > 1 else ''} of the processor"
    if choice.accelerator.vendor == "custom":
        yield f"calibration: hardware of your own description is taken to be {device.name}"
