"""This machine's own processor: what it is called, which one it is, and the memory it has fitted."""

import hashlib
import os
import platform
import re
from dataclasses import replace
from pathlib import Path

from infopt.errors import InfoptError
from infopt.hardware.accelerator import Accelerator, Datum, HardwareChoice, MemoryNode
from infopt.hardware.catalogue import load_accelerator
from infopt.units import parse_bytes_per_s

MACHINE_ID = "/etc/machine-id"
UNLISTED = "cpu"  # id of this machine's processor where the catalogue does not know it
USABLE_SHARE = 0.9  # as the catalogue's processors have it
FITTED = Datum("measured", "memory of this machine, as its kernel counts it")
# What processors call themselves beside their model: "AMD EPYC 9654 96-Core Processor",
# "Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz".
DECORATION = r"\(R\)|\(TM\)|\b\d+-Core\b|\b\d+th Gen\b|\bProcessor\b|\bCPU\b|@.*"


def processor_name() -> str:
    """What the processor calls itself."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("model name", "Hardware", "Processor")):
                    return " ".join(line.partition(":")[2].split())
    except OSError:
        pass  # not Linux: platform answers
    return platform.processor() or platform.machine()


def host_memory_bytes() -> tuple[int, int]:
    """Memory of the host that a process may still take, and in all; a container's limit counts."""
    values = {}
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                name, _, rest = line.partition(":")
                values[name] = int(rest.split()[0]) * 1024
    except OSError:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        return pages * size, pages * size
    total, free = values["MemTotal"], values.get("MemAvailable", values["MemFree"])
    limit, used = _group_number("memory.max"), _group_number("memory.current")
    if limit is not None and limit < total:
        return min(free, limit - (used or 0)), limit
    return free, total


NODES = Path("/sys/devices/system/node")
# What of a node's memory a process may take: the kernel gives cached files back.
FREE = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")


def memory_node() -> MemoryNode:
    """The memory node of the first processor this process may run on; all memory where the system has no nodes.

    Counted as vLLM does (utils/cpu_resource_utils.py), whose checks at the start use these figures.
    """
    free, total = host_memory_bytes()
    folders = _nodes()
    here = next((folder for folder in folders if _first_processor() in _processors(folder)), None)
    if here is None:
        return MemoryNode(total, free, max(1, len(folders)))
    values = {}
    try:
        for line in (here / "meminfo").read_text(encoding="ascii").splitlines():
            _, _, name, value, *_ = line.split()
            values[name.rstrip(":")] = int(value) * 1024
        of_node, unused = values["MemTotal"], sum(values[name] for name in FREE)
    except (OSError, ValueError, KeyError):
        return MemoryNode(total, free, len(folders))
    limit = _group_number("memory.max")
    if limit is not None and limit < of_node:
        return MemoryNode(limit, min(unused, free), len(folders))
    return MemoryNode(of_node, unused, len(folders))


def _nodes() -> list[Path]:
    try:
        return sorted(entry for entry in NODES.iterdir() if re.fullmatch(r"node\d+", entry.name))
    except OSError:
        return []  # not Linux, or a kernel that lists none


def _first_processor() -> int:
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
    return min(allowed)


def _processors(folder: Path) -> set[int]:
    """Numbers of a node's processors, written `0-3,8-11`."""
    try:
        parts = (folder / "cpulist").read_text(encoding="ascii").strip().split(",")
        spans = [[int(end) for end in part.split("-")] for part in parts if part]
    except (OSError, ValueError):
        return set()
    return {n for span in spans for n in range(span[0], span[-1] + 1)}


def _group_number(name: str) -> int | None:
    """A figure of the control group this process is in; None where there is none or it has no limit."""
    try:
        with open(f"/sys/fs/cgroup/{name}", encoding="ascii") as file:
            text = file.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def unit_hash(text: str) -> str:
    """First 16 hex digits of the SHA-256 of what identifies one unit: tells two apart and names neither."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def gpu_hash(uuid: str) -> str:
    """`unit_hash` of a GPU's UUID; NVML writes a prefix before it that torch leaves out."""
    return unit_hash(uuid.lower().removeprefix("gpu-").removeprefix("mig-"))


def machine_hash(processor: str) -> str | None:
    """`unit_hash` of this machine's id and its processor's name; None where the system has no id (a container)."""
    try:
        with open(MACHINE_ID, encoding="ascii") as file:
            machine = file.read().strip()
    except OSError:
        return None
    return unit_hash(machine + processor) if machine else None


def catalogued_processor(name: str) -> Accelerator | None:
    """The record a processor's own name resolves to, with the record's memory; None where there is none."""
    from infopt.hardware.names import resolve_hardware

    try:
        choice = resolve_hardware(re.sub(DECORATION, " ", name))
    except InfoptError:
        return None  # not listed
    named = (choice.accelerator, *(load_accelerator(other) for other in choice.others))
    return next((device for device in named if device.processor), None)


def listed_processor() -> Accelerator | None:
    """This machine's processor with the memory it has; None where the catalogue does not know it."""
    name, (_, memory_bytes) = processor_name(), host_memory_bytes()
    listed = catalogued_processor(name)
    if listed is None:
        return None
    share = listed.usable_memory_bytes / listed.memory_bytes
    return replace(
        listed,
        memory_bytes=memory_bytes,
        usable_memory_bytes=round(share * memory_bytes),
        data={**listed.data, "memory_bytes": FITTED},
        node=memory_node(),
    )


def unlisted_processor() -> Accelerator:
    """This machine's processor where the catalogue does not know it; a calibration must bring its bandwidth."""
    name, (_, memory_bytes) = processor_name(), host_memory_bytes()
    return Accelerator(
        id=UNLISTED,
        vendor=next((vendor for vendor in ("amd", "intel", "apple") if vendor in name.lower()), "unknown"),
        memory_class="ddr",
        memory_bytes=memory_bytes,
        driver_memory_bytes=None,
        usable_memory_bytes=round(USABLE_SHARE * memory_bytes),
        bandwidth_bytes_per_s=0.0,
        peak_flop_per_s={},
        data={
            "memory_bytes": FITTED,
            "usable_memory_bytes": Datum("assumed", "a tenth kept for the operating system and the engine"),
            "memory_class": Datum("assumed", "memory of a processor is taken to be DDR"),
        },
        name=name,
        processor=True,
        node=memory_node(),
    )


def processor_to_calibrate() -> HardwareChoice:
    """This machine's processor, whether it is listed or not."""
    name = processor_name()
    unit = machine_hash(name)
    device = listed_processor() or unlisted_processor()
    return HardwareChoice(device, 1, f"cpu: {name}, this machine's", units=(unit,) if unit else ())


def processor_choice() -> HardwareChoice:
    """What `--hw cpu` names without a calibration.

    Errors: InfoptError where the catalogue does not know this processor: it has to be measured first.
    """
    choice = processor_to_calibrate()
    if choice.accelerator.bandwidth_bytes_per_s:
        return choice
    raise InfoptError(
        f"--hw cpu: {choice.accelerator.name} is not in the catalogue; measure it with `infopt probe`, then give "
        "--hw cpu --calibration auto, or say how fast its memory reads, --hw cpu:20GB/s"
    )


def processor_at(rate: str) -> HardwareChoice:
    """What `--hw cpu:20GB/s` names: this machine's processor, the user's figure as the bandwidth of its memory."""
    choice = processor_to_calibrate()
    device = choice.accelerator
    data = {**device.data, "bandwidth_bytes_per_s": Datum("user", "given on the command line")}
    bandwidth = parse_bytes_per_s(rate, "--hw cpu")
    return replace(choice, accelerator=replace(device, bandwidth_bytes_per_s=bandwidth, data=data))
