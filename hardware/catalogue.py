"""Read accelerator records: one YAML file each, only the one asked for.

Every figure of a record is `{value, kind, source}`; a figure without its own source rests on the record's `sources`.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field

from infopt.errors import InfoptError
from infopt.hardware.accelerator import Accelerator, Datum, Kind, Link, MemoryClass
from infopt.records import ROOT, Record, load_record, names_in, read_yaml, validate_record

DATA = ROOT / "hardware" / "data"
ACCELERATORS = DATA / "accelerators"
GIB = 2**30
FORMATS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "fp4")
REMEDY = "`infopt hardware list` shows all, custom:80GB:3.35TB/s describes any other"


class Figure(Record):
    """One number, what kind of knowledge it is, and where it came from (empty: the record's sources)."""

    value: float
    kind: Kind
    source: str = ""
    date: str | None = None  # of a price


class LinkFigure(Record):
    """A link's one-direction bandwidth."""

    type: str
    bytes_per_s: float
    peer_bytes_per_s: float | None = None
    kind: Kind
    source: str = ""


class MemoryOption(Record):
    """One of the memory sizes a chip is sold with, and what changes with it."""

    memory_bytes: int
    usable_memory_bytes: Figure
    bandwidth_bytes_per_s: Figure | None = None


class AcceleratorRecord(Record):
    """The file form of an `Accelerator`."""

    id: str
    name: str
    vendor: str
    memory_class: MemoryClass
    processor: bool = False
    compute_capability: str | None = None
    sources: list[str]
    memory_bytes: Figure
    driver_memory_bytes: Figure | None = None
    usable_memory_bytes: Figure
    memory_options: list[MemoryOption] = Field([])
    bandwidth_bytes_per_s: Figure
    peak_flop_per_s: dict[str, Figure]
    link: LinkFigure | None = None
    pcie: LinkFigure | None = None
    tdp_watts: Figure | None = None
    devices_per_node: int | None = None
    link_domain_devices: int | None = None
    usd_per_hour: Figure | None = None
    measured: dict[str, Figure] = Field({})
    notes: list[str] = Field([])


class CommonRecord(Record):
    """The file form of `common_accelerators`."""

    accelerators: list[str]


def hardware_names() -> tuple[str, ...]:
    """Ids of all accelerators, sorted; no record is read."""
    return names_in(ACCELERATORS)


def load_accelerator(id: str, **overrides: float) -> Accelerator:
    """The accelerator `id`; where the buyer chooses the memory, in the size a suffix names (`apple-m2-max-96gb`).

    Without a suffix such a chip comes in its smallest size.

    overrides  figures by field name, of the user's own (kind `user`): usable_memory_bytes, bandwidth_bytes_per_s,
               memory_bytes, tdp_watts, usd_per_hour, or a format's dense peak as `bf16=989e12`.
    Errors: an unknown id lists the nearest; a size the chip is not sold with lists those it is.
    """
    base, gigabytes = _split_size(id)
    record = load_record(AcceleratorRecord, ACCELERATORS, base, "accelerator", REMEDY)
    accelerator = _accelerator(record)
    if record.memory_options or record.processor:
        accelerator = _sized(accelerator, record, gigabytes)
    return override(accelerator, overrides) if overrides else accelerator


def accelerator_summary(id: str) -> dict[str, Any]:
    """What `infopt hardware list` shows of one accelerator; bytes and rates in base units, None where unknown."""
    accelerator = load_accelerator(id)
    peaks = accelerator.peak_flop_per_s
    return {
        "id": accelerator.id,
        "name": accelerator.name,
        "vendor": accelerator.vendor,
        "memory_bytes": accelerator.memory_bytes,
        "usable_memory_bytes": accelerator.usable_memory_bytes,
        "usable_kind": accelerator.data["usable_memory_bytes"].kind,
        "bandwidth_bytes_per_s": accelerator.bandwidth_bytes_per_s,
        "bf16_flop_per_s": peaks.get("bf16", peaks.get("fp16")),
        "fp8_flop_per_s": peaks.get("fp8"),
        "link": accelerator.link.type if accelerator.link else None,
        "link_bytes_per_s": accelerator.link.bytes_per_s if accelerator.link else None,
        "usd_per_hour": accelerator.usd_per_hour,
        "price_date": accelerator.price_date,
    }


def common_accelerators() -> tuple[str, ...]:
    """The accelerators `plan` compares when no hardware is named, in the file's order."""
    path = DATA / "common.yaml"
    return tuple(validate_record(CommonRecord, read_yaml(path), str(path)).accelerators)


def override(accelerator: Accelerator, figures: Mapping[str, float]) -> Accelerator:
    """`accelerator` with figures of the user's own in place of the record's, marked kind `user`."""
    fields: dict[str, Any] = {}
    peaks = dict(accelerator.peak_flop_per_s)
    data = dict(accelerator.data)
    for name, value in figures.items():
        if not 0 < value < float("inf"):
            raise InfoptError(f"{accelerator.id}: {name}={value} must be a positive number")
        if name in FORMATS:
            peaks[name] = float(value)
            data[f"peak_flop_per_s.{name}"] = Datum("user", "given by the user")
            continue
        if name not in OVERRIDABLE:
            raise InfoptError(
                f"{accelerator.id}: {name} cannot be overridden; {', '.join((*OVERRIDABLE, *FORMATS))} can"
            )
        fields[name] = OVERRIDABLE[name](value)
        data[name] = Datum("user", "given by the user")
    return replace(accelerator, peak_flop_per_s=peaks, data=data, **fields)


OVERRIDABLE: Mapping[str, type[int] | type[float]] = {
    "memory_bytes": int,
    "usable_memory_bytes": int,
    "bandwidth_bytes_per_s": float,
    "tdp_watts": float,
    "usd_per_hour": float,
}


def base_id(id: str) -> str:
    """Id of the record, without the size that was chosen when the device was bought."""
    return _split_size(id)[0]


def _split_size(id: str) -> tuple[str, int | None]:
    """`apple-m2-max-96gb` -> (`apple-m2-max`, 96) where only the part before the size is a record."""
    match = re.fullmatch(r"(.+)-(\d{1,5})gb", id)
    if match and id not in hardware_names() and match[1] in hardware_names():
        return match[1], int(match[2])
    return id, None


def _sized(accelerator: Accelerator, record: AcceleratorRecord, gigabytes: int | None) -> Accelerator:
    """A chip whose memory is chosen when it is bought: the size asked for, else the record's own (the smallest)."""
    if record.processor:
        return accelerator if gigabytes is None else _fitted(accelerator, record, gigabytes * GIB)
    wanted = gigabytes * GIB if gigabytes is not None else accelerator.memory_bytes
    option = next((o for o in record.memory_options if o.memory_bytes == wanted), None)
    if option is None:
        sizes = ", ".join(f"{o.memory_bytes // GIB}GB" for o in record.memory_options)
        raise InfoptError(f"{record.id}: not sold with {gigabytes}GB of memory; sold with {sizes}")
    bandwidth = option.bandwidth_bytes_per_s or record.bandwidth_bytes_per_s
    data = dict(accelerator.data)
    data["usable_memory_bytes"] = _datum(option.usable_memory_bytes, record)
    data["bandwidth_bytes_per_s"] = _datum(bandwidth, record)
    return replace(
        accelerator,
        id=f"{record.id}-{wanted // GIB}gb",
        memory_bytes=wanted,
        usable_memory_bytes=int(option.usable_memory_bytes.value),
        bandwidth_bytes_per_s=bandwidth.value,
        data=data,
    )


def _fitted(accelerator: Accelerator, record: AcceleratorRecord, memory_bytes: int) -> Accelerator:
    """A processor with the memory the user says is fitted; the usable share stays the record's."""
    if memory_bytes <= 0:
        raise InfoptError(f"{record.id}: the memory fitted must be more than 0 GB")
    share = record.usable_memory_bytes.value / record.memory_bytes.value
    data = {**accelerator.data, "memory_bytes": Datum("user", "named by the user")}
    return replace(
        accelerator,
        id=f"{record.id}-{memory_bytes // GIB}gb",
        memory_bytes=memory_bytes,
        usable_memory_bytes=round(memory_bytes * share),
        data=data,
    )


def _accelerator(record: AcceleratorRecord) -> Accelerator:
    """The in-memory form of a file record."""
    driver, price, tdp = record.driver_memory_bytes, record.usd_per_hour, record.tdp_watts
    return Accelerator(
        id=record.id,
        vendor=record.vendor,
        memory_class=record.memory_class,
        memory_bytes=int(record.memory_bytes.value),
        driver_memory_bytes=int(driver.value) if driver else None,
        usable_memory_bytes=int(record.usable_memory_bytes.value),
        bandwidth_bytes_per_s=record.bandwidth_bytes_per_s.value,
        peak_flop_per_s={name: figure.value for name, figure in record.peak_flop_per_s.items()},
        link=_link(record.link),
        pcie=_link(record.pcie),
        tdp_watts=tdp.value if tdp else None,
        compute_capability=record.compute_capability,
        devices_per_node=record.devices_per_node,
        usd_per_hour=price.value if price else None,
        price_date=price.date if price else None,
        data=_data(record),
        notes=tuple(record.notes),
        name=record.name,
        measured={name: figure.value for name, figure in record.measured.items()},
        link_domain_devices=record.link_domain_devices,
        processor=record.processor,
    )


def _link(figure: LinkFigure | None) -> Link | None:
    return Link(figure.type, figure.bytes_per_s, figure.peer_bytes_per_s) if figure else None


def _data(record: AcceleratorRecord) -> dict[str, Datum]:
    """Kind and source of every figure by field name; nested ones as `peak_flop_per_s.bf16`."""
    figures: dict[str, Figure | LinkFigure | None] = {
        name: getattr(record, name)
        for name in (
            "memory_bytes", "driver_memory_bytes", "usable_memory_bytes", "bandwidth_bytes_per_s",
            "link", "pcie", "tdp_watts", "usd_per_hour",
        )
    }  # fmt: skip
    figures |= {f"peak_flop_per_s.{name}": figure for name, figure in record.peak_flop_per_s.items()}
    figures |= {f"measured.{name}": figure for name, figure in record.measured.items()}
    return {name: _datum(figure, record) for name, figure in figures.items() if figure}


def _datum(figure: Figure | LinkFigure, record: AcceleratorRecord) -> Datum:
    return Datum(figure.kind, figure.source or "; ".join(record.sources))
