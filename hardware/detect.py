"""`--hw auto`: what the drivers of this machine list.

Asked in turn: NVML (the `pynvml` module of the `probe` extra), nvidia-smi, amd-smi, rocm-smi, xpu-smi, hl-smi, and
sysctl on Apple silicon. The first that lists a device decides; a tool that is absent, fails or hangs lists none.
"""

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator, Datum, HardwareChoice
from infopt.hardware.catalogue import GIB
from infopt.hardware.host import gpu_hash
from infopt.units import whole_of

TOOL_TIMEOUT_S = 10.0
RESERVED_BYTES = round(0.45 * GIB)  # driver total minus CUDA total on data-centre cards (DESIGN section 5)
SAME_CARD = 0.01  # relative difference of memory below which the catalogue's CUDA total holds


@dataclass(frozen=True, slots=True)
class Found:
    """One device as its driver names it; `uuid` tells it from others of its kind, where the driver says it."""

    name: str
    memory_bytes: int | None
    tool: str
    uuid: str | None = None


def detect() -> HardwareChoice:
    """The accelerators of this machine.

    Errors: none found, more than one kind, or a kind that is not in the catalogue; each says how to name hardware.
    """
    choice = detect_any()
    if choice is not None:
        return choice
    raise InfoptError(
        "--hw auto: no accelerator found (asked NVML, nvidia-smi, amd-smi, rocm-smi, xpu-smi, hl-smi and sysctl); "
        "name one, as in --hw h100:8 or --hw custom:80GB:3.35TB/s; a CPU is measured by `infopt probe` and then named "
        "by --hw auto --calibration auto"
    )


def detect_any() -> HardwareChoice | None:
    """The same; None where there are none."""
    return next((_choice(found) for probe in PROBES if (found := probe())), None)


def _choice(found: list[Found]) -> HardwareChoice:
    from infopt.hardware.names import resolve_hardware

    kinds = Counter(device.name for device in found)
    if len(kinds) > 1:
        listed = " and ".join(f"{count} x {name}" for name, count in kinds.items())
        raise InfoptError(f"--hw auto: this machine has {listed}; name one kind, as in --hw '{found[0].name}:1'")
    device = found[0]
    try:
        named = resolve_hardware(device.name)
    except InfoptError as error:
        size = f"{device.memory_bytes / 1e9:.0f}GB" if device.memory_bytes else "MEMORY"
        raise InfoptError(
            f"--hw auto: {device.tool} lists {len(found)} x {device.name}, which is not in the catalogue; "
            f"describe it, as in --hw 'custom:{size}:BANDWIDTH x{len(found)}'"
        ) from error
    accelerator = _with_memory(named.accelerator, device)
    return replace(
        named,
        accelerator=accelerator,
        gpus=len(found),
        resolved_as=f"auto ({device.tool}): {len(found)} x {device.name}",
        units=tuple(gpu_hash(device.uuid) for device in found if device.uuid),
    )


def _with_memory(accelerator: Accelerator, device: Found) -> Accelerator:
    """`accelerator` with the driver total seen here; its CUDA total too where this card is not the catalogue's."""
    if device.memory_bytes is None or accelerator.vendor not in ("nvidia", "amd"):
        return accelerator
    data = {**accelerator.data, "driver_memory_bytes": Datum("measured", f"{device.tool} on this machine")}
    usable = accelerator.usable_memory_bytes
    known = accelerator.driver_memory_bytes or usable
    if not usable <= device.memory_bytes <= known * (1 + SAME_CARD):
        usable = device.memory_bytes - RESERVED_BYTES
        data["usable_memory_bytes"] = Datum("assumed", f"{device.tool} total on this machine minus 0.45 GiB")
    return replace(accelerator, driver_memory_bytes=device.memory_bytes, usable_memory_bytes=usable, data=data)


def _nvml() -> list[Found]:
    """Devices NVML lists; slices instead of their GPU where MIG is on."""
    try:
        pynvml = import_module("pynvml")
    except ImportError:
        return []  # the extra is not installed; nvidia-smi is asked next
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []  # no NVIDIA driver on this machine
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [_nvml_device(pynvml, part) for handle in handles for part in _parts(pynvml, handle)]
    except pynvml.NVMLError as error:
        raise InfoptError(f"--hw auto: NVML answers {error}; name the hardware instead, as in --hw h100:8") from error
    finally:
        pynvml.nvmlShutdown()


def _parts(pynvml: Any, handle: Any) -> list[Any]:
    """The MIG slices of a device, or the device itself."""
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError:
        return [handle]  # not a GPU that can be cut
    if not current:
        return [handle]
    slices = []
    for i in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            slices.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, i))
        except pynvml.NVMLError:
            continue  # an empty place
    return slices


def _nvml_device(pynvml: Any, handle: Any) -> Found:
    name = pynvml.nvmlDeviceGetName(handle)
    text = name.decode() if isinstance(name, bytes) else str(name)
    try:
        uuid = str(pynvml.nvmlDeviceGetUUID(handle))
    except pynvml.NVMLError:
        uuid = None  # then it is not told from others of its kind
    return Found(text, int(pynvml.nvmlDeviceGetMemoryInfo(handle).total), "NVML", uuid)


def _nvidia_smi() -> list[Found]:
    text = _ask("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
    rows = ((name.strip(), whole_of(mib)) for name, _, mib in (line.rpartition(",") for line in text.splitlines()))
    return [Found(name, None if mib is None else mib * 2**20, "nvidia-smi") for name, mib in rows if name]


def _amd_smi() -> list[Found]:
    return _named_in(_ask("amd-smi", "static", "--asic", "--json"), ("market_name",), "amd-smi")


def _rocm_smi() -> list[Found]:
    return _named_in(_ask("rocm-smi", "--showproductname", "--json"), ("Card Series", "Card series"), "rocm-smi")


def _xpu_smi() -> list[Found]:
    return _named_in(_ask("xpu-smi", "discovery", "-j"), ("device_name",), "xpu-smi")


def _hl_smi() -> list[Found]:
    names = _ask("hl-smi", "-Q", "name", "-f", "csv,noheader").split()
    # Gaudi cards are named by board: HL-225 is Gaudi 2, HL-325 and HL-338 Gaudi 3.
    boards = {"HL-2": "Gaudi2", "HL-3": "Gaudi3"}
    return [Found(boards.get(name.upper()[:4], name), None, "hl-smi") for name in names]


def _apple() -> list[Found]:
    chip = _ask("sysctl", "-n", "machdep.cpu.brand_string").strip()
    size = whole_of(_ask("sysctl", "-n", "hw.memsize"))
    return [Found(f"{chip} {size // GIB}GB", size, "sysctl")] if chip.startswith("Apple M") and size is not None else []


PROBES: tuple[Callable[[], list[Found]], ...] = (_nvml, _nvidia_smi, _amd_smi, _rocm_smi, _xpu_smi, _hl_smi, _apple)


def _ask(tool: str, *arguments: str) -> str:
    """What `tool` prints; nothing where it is absent, fails or takes too long."""
    path = shutil.which(tool)
    if path is None:
        return ""
    try:
        answer = subprocess.run(
            [path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=TOOL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # as if the tool were not there
    return answer.stdout.decode(errors="replace") if answer.returncode == 0 else ""


def _named_in(text: str, keys: tuple[str, ...], tool: str) -> list[Found]:
    """Devices of a JSON answer: every text found under one of `keys`, however deep."""
    try:
        answer = json.loads(text) if text.strip() else []
    except (ValueError, RecursionError):
        return []  # not the JSON this tool is known to print
    return [Found(name, None, tool) for name in _values(answer, keys)]


def _values(node: Any, keys: tuple[str, ...]) -> list[str]:
    if isinstance(node, dict):
        here = [value for key, value in node.items() if key in keys and isinstance(value, str)]
        return here or [text for value in node.values() for text in _values(value, keys)]
    return [text for value in node for text in _values(value, keys)] if isinstance(node, list) else []
