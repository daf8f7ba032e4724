"""Accelerators in the terminal: the list, and one with kind and source of each figure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from infopt.hardware.accelerator import Accelerator, HardwareChoice
from infopt.reports.terminal import columns_table, facts, heading, to_text
from infopt.studies.hardware_view import Stored
from infopt.units import format_bytes_per_s, format_flop_per_s, format_gib, format_usd


def list_page(summaries: Sequence[Mapping[str, Any]]) -> str:
    """One line for each accelerator: memory, bandwidth, 16-bit peak, price."""
    columns = ("id", "usable", "bandwidth", "16 bit dense", "$/h")
    rows = [_summary(item) for item in summaries]
    return to_text([columns_table(columns, rows, "id", ("16 bit dense", "$/h", "bandwidth"))])


def _summary(item: Mapping[str, Any]) -> list[str]:
    peak, price = item["bf16_flop_per_s"], item["usd_per_hour"]
    return [
        item["id"],
        format_gib(item["usable_memory_bytes"]),
        format_bytes_per_s(item["bandwidth_bytes_per_s"]),
        format_flop_per_s(peak) if peak else "-",
        format_usd(price) if price else "-",
    ]


def hardware_page(choice: HardwareChoice, calibrations: Sequence[Stored] = ()) -> str:
    """Every figure with its kind and where it came from, and what was measured on such a device."""
    return to_text([*_parts(choice), *_calibrations(calibrations)])


def _calibrations(calibrations: Sequence[Stored]) -> Iterator[RenderableType]:
    if not calibrations:
        return
    yield ""
    yield heading("CALIBRATIONS", "--calibration FILE, or auto for the newest")
    for one in calibrations:
        yield facts([(one.created[:10], one.file), *(("", text) for text in _stored_words(one))], label_width=10)


def _stored_words(one: Stored) -> Iterator[str]:
    """What a record holds, and what is wrong with it."""
    if one.problem is not None:
        yield f"not usable: {one.problem}"
        return
    unit = f", unit {one.unit[:8]}" if one.unit else ""
    yield f"{', '.join(one.holds) or 'nothing'}; of {one.device}{unit}"
    if one.contended:
        yield f"{one.contended} contended: not used"
    if not one.complete:
        yield "interrupted: the rest was not measured"


def _parts(choice: HardwareChoice) -> Iterator[RenderableType]:
    device = choice.accelerator
    yield Text(device.name or device.id, style="bold")
    rows = [("id", device.id), ("vendor", device.vendor), ("memory", device.memory_class)]
    if choice.gpus is not None:
        rows.append(("devices", f"{choice.gpus}: {choice.resolved_as}"))
    if device.compute_capability:
        rows.append(("capability", device.compute_capability))
    if device.devices_per_node:
        rows.append(("in one node", str(device.devices_per_node)))
    yield facts(rows)
    yield ""
    yield heading("FIGURES")
    sources: dict[str, int] = {}
    yield _figures(device, sources)
    yield ""
    yield heading("SOURCES")
    yield facts(((f"[{n}]", source) for source, n in sources.items()), label_width=4)
    if device.notes:
        yield ""
        yield heading("NOTES")
        yield facts((("-", note) for note in device.notes), label_width=1)


def _figures(device: Accelerator, sources: dict[str, int]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold", style="cyan")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for field, name, value in figures(device):
        datum = device.data.get(field)
        kind = datum.kind if datum else "assumed"
        mark = f"[{sources.setdefault(datum.source, len(sources) + 1)}]" if datum and datum.source else ""
        table.add_row(name, value, kind, mark)
    return Padding(table, (0, 0, 0, 2))


def figures(device: Accelerator) -> Iterator[tuple[str, str, str]]:
    """Field name, what people call it, and its value in words."""
    yield "memory_bytes", "memory as sold", format_gib(device.memory_bytes)
    if device.driver_memory_bytes:
        yield "driver_memory_bytes", "driver lists", format_gib(device.driver_memory_bytes)
    yield "usable_memory_bytes", "engines see", format_gib(device.usable_memory_bytes)
    yield "bandwidth_bytes_per_s", "bandwidth", format_bytes_per_s(device.bandwidth_bytes_per_s)
    if device.rated_bandwidth_bytes_per_s:
        yield "rated_bandwidth_bytes_per_s", "bandwidth, rated", format_bytes_per_s(device.rated_bandwidth_bytes_per_s)
    for name, peak in device.peak_flop_per_s.items():
        yield f"peak_flop_per_s.{name}", f"{name} dense", format_flop_per_s(peak)
    for field, link in (("link", device.link), ("pcie", device.pcie)):
        if link:
            yield field, f"{link.type}, one way", format_bytes_per_s(link.bytes_per_s)
    for name, value in device.measured.items():
        words = name.removesuffix("_flop_per_s").removesuffix("_bytes_per_s").replace("_", " ")
        rate = format_flop_per_s(value) if name.endswith("flop_per_s") else format_bytes_per_s(value)
        yield f"measured.{name}", f"{words}, measured", rate
    if device.tdp_watts:
        yield "tdp_watts", "power limit", f"{device.tdp_watts:g} W"
    if device.usd_per_hour is not None:
        dated = f" ({device.price_date})" if device.price_date else ""
        yield "usd_per_hour", f"price per hour{dated}", format_usd(device.usd_per_hour)
