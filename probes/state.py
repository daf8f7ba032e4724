"""Which device is measured, how it is while it is measured, and whether it should be measured now.

On a GPU the driver is asked before, every tenth of a second, and after: a clock held back by heat or by a failing
supply spoils figures of compute, another process spoils all. On a CPU the load of the host says what others took.
"""

import os
import platform
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from types import TracebackType
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator
from infopt.hardware.calibration import Device, State
from infopt.hardware.host import catalogued_processor, gpu_hash, machine_hash
from infopt.hardware.names import resolve_hardware
from infopt.probes.nvml import Driver, device_uuid, driver
from infopt.probes.runtime import Runtime
from infopt.probes.setting import MOST_SHARE_BUSY
from infopt.units import format_bytes, format_share

INTERVAL_S = 0.1
SAME_CARD = 0.15  # relative difference of memory above which a GPU of the same name is another card

# Bits of nvmlClocksEventReasons (nvml.h). Not here: what says nothing about this run, that is 0x1 idle, 0x2 clocks set
# by the user, 0x10 sync boost, 0x100 display clocks.
IDLE = 0x1
HELD_BACK = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
LIMITED = {0x4: "software power cap", 0x200: "board limit", 0x400: "reliability voltage"}


def identify(runtime: Runtime) -> Device:
    """The device: what it is called, which one of its kind it is, and what it has."""
    _, memory_bytes = runtime.memory_bytes()
    listed = catalogued(runtime)
    if runtime.kind == "cpu":
        return Device(
            kind="cpu",
            name=runtime.name,
            accelerator=listed.id if listed else None,
            uuid_hash=machine_hash(runtime.name),
            memory_bytes=memory_bytes,
            last_cache_bytes=runtime.last_cache_bytes(),
            threads=runtime.threads,
        )
    uuid = device_uuid(runtime)
    major, minor = runtime.torch.cuda.get_device_capability(runtime.index)
    with driver(runtime) as (found, _):
        return Device(
            kind="cuda",
            name=runtime.name,
            accelerator=listed.id if listed else None,
            uuid_hash=gpu_hash(uuid) if uuid else None,
            memory_bytes=memory_bytes,
            compute_capability=f"{major}.{minor}",
            last_cache_bytes=runtime.last_cache_bytes(),
            threads=runtime.threads,
            driver=found.version() if found else None,
        )


def catalogued(runtime: Runtime) -> Accelerator | None:
    """The record its own name resolves to, of a GPU the first with about its memory; None where there is none."""
    if runtime.kind == "cpu":
        return catalogued_processor(runtime.name)  # its memory is what the host has fitted
    try:
        choice = resolve_hardware(runtime.name)
        named = [choice.accelerator, *(resolve_hardware(other).accelerator for other in choice.others)]
    except InfoptError:
        return None  # not listed: measured all the same
    _, memory_bytes = runtime.memory_bytes()
    near = SAME_CARD * memory_bytes
    return next((a for a in named if not a.processor and abs(a.usable_memory_bytes - memory_bytes) <= near), None)


@dataclass(frozen=True, slots=True)
class Company:
    """Who else is on a GPU: other processes (None where the driver does not tell) and the memory they hold."""

    processes: int | None
    held_bytes: int
    total_bytes: int


def company(runtime: Runtime, found: Driver | None) -> Company:
    """Others on the GPU now.

    In a container the driver lists processes under the host's numbers: this one, which holds a context since torch
    was asked for the memory, is then one of those listed, whichever it is.
    """
    free, total = runtime.memory_bytes()
    listed = found.processes() if found else None
    ours = next((p.usedGpuMemory for p in listed or () if p.pid == os.getpid()), None)
    own_bytes = int(runtime.torch.cuda.memory_reserved(runtime.index)) if ours is None else int(ours)
    others = None if listed is None else max(0, len(listed) - 1)
    return Company(others, max(0, total - free - own_bytes), total)


def busy(runtime: Runtime) -> str | None:
    """Why the device should not be measured now, in one line; None where nothing speaks against it."""
    if runtime.kind == "cpu":
        load, processors = _load(), os.cpu_count() or 1
        if load is None or load <= processors:
            return None
        return f"the host is busy: its load is {load:.1f} on {processors} processors"
    with driver(runtime) as (found, _):
        others = company(runtime, found)
    if others.processes:
        word = "process computes" if others.processes == 1 else "processes compute"
        return f"{runtime.name} is shared: {others.processes} other {word} on it"
    if others.held_bytes > MOST_SHARE_BUSY * others.total_bytes:
        share = format_share(others.held_bytes / others.total_bytes)
        return f"others hold {format_bytes(others.held_bytes)} ({share}) of the memory of {runtime.name}"
    return None


def _load() -> float | None:
    """Load of the host over the last minute; None where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Sight:
    """What the driver says at one moment."""

    bits: int | None
    clock_mhz: float | None
    memory_clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None

    @property
    def working(self) -> bool:
        """Whether the GPU is not idle, as far as the driver tells."""
        return self.bits is None or not self.bits & IDLE


def look(found: Driver) -> Sight:
    """Ask the driver once."""
    return Sight(
        found.event_bits(), found.clock_mhz(), found.clock_mhz(memory=True), found.power_w(), found.temperature_c()
    )


class Watch:
    """State of the device over a `with` block: looked at before, while it works (on a GPU) and after.

    `state()` may be asked inside the block and after it.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._stack = ExitStack()
        self._sights: list[Sight] = []
        self._notes: list[str] = []
        self._ended = threading.Event()
        self._load_before: float | None = None
        self._load_after: float | None = None
        self._clock_mhz: float | None = None
        self._driver: Driver | None = None
        self._ecc: bool | None = None
        self._mig: bool | None = None
        self._power_limit_w: float | None = None
        self._before: Company | None = None
        self._after: Company | None = None

    def __enter__(self) -> "Watch":
        self._load_before = _load()
        with ExitStack() as stack:
            self._driver, reason = stack.enter_context(driver(self._runtime))
            self._notes = [reason] if reason else []
            if self._runtime.kind == "cuda":
                self._before = company(self._runtime, self._driver)
            if self._driver:
                self._ecc, self._mig = self._driver.ecc(), self._driver.mig()
                self._power_limit_w = self._driver.power_limit_w()
                thread = threading.Thread(target=self._look_on, args=(self._driver,), name="infopt-watch", daemon=True)
                thread.start()
                stack.callback(thread.join)
                stack.callback(self._ended.set)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._load_after = _load()
            self._clock_mhz = _processor_clock_mhz() if self._runtime.kind == "cpu" else None
            if self._runtime.kind == "cuda" and error is None:  # a GPU that failed answers nothing
                self._after = company(self._runtime, self._driver)
        finally:
            self._stack.close()

    def _look_on(self, found: Driver) -> None:
        while True:
            self._sights.append(look(found))
            if self._ended.wait(INTERVAL_S):
                return

    def state(self) -> State:
        """What was seen."""
        sights = list(self._sights)
        working = [s for s in sights if s.working]
        seen = [c for c in (self._before, self._after) if c is not None]
        counts = [c.processes for c in seen if c.processes is not None]
        throttle = throttled(working)
        return State(
            load_before=self._load_before,
            load_after=self._load_after,
            throttle=list(throttle),
            clock_mhz=self._clock_mhz if self._runtime.kind == "cpu" else _middle(working, lambda s: s.clock_mhz),
            memory_clock_mhz=_middle(working, lambda s: s.memory_clock_mhz),
            power_w=_middle(working, lambda s: s.power_w),
            power_limit_w=self._power_limit_w,
            temperature_c=max((s.temperature_c for s in sights if s.temperature_c is not None), default=None),
            ecc=self._ecc,
            mig=self._mig,
            other_processes=max(counts, default=None),
            notes=[*self._notes, *_throttle_notes(throttle), *_company_notes(seen), *_mig_notes(self._mig)],
        )


def throttled(sights: Sequence[Sight]) -> dict[str, float]:
    """Reasons that held the clock back, by name, with the share of the looks that saw each; the worst kind first."""
    counts: Counter[str] = Counter()
    for sight in sights:
        counts.update(name for bit, name in (HELD_BACK | LIMITED).items() if (sight.bits or 0) & bit)
    return {name: counts[name] / len(sights) for name in (HELD_BACK | LIMITED).values() if counts[name]}


def _throttle_notes(throttle: dict[str, float]) -> list[str]:
    def listed(names: Sequence[str]) -> str:
        return ", ".join(f"{name} in {format_share(throttle[name])} of the looks" for name in names)

    held = [name for name in throttle if name in HELD_BACK.values()]
    limited = [name for name in throttle if name in LIMITED.values()]
    notes = []
    if held:
        notes.append(f"throttled ({listed(held)}): figures of compute are below what the device does when it is well")
    if limited:
        # Seen on an RTX 3090: clock 11 % down under its power cap, memory clock and bandwidth as specified.
        notes.append(f"limited ({listed(limited)}): compute is what the limit allows, bandwidth is not affected")
    return notes


def _company_notes(seen: Sequence[Company]) -> list[str]:
    notes = []
    processes = max((c.processes for c in seen if c.processes is not None), default=0)
    if processes:
        notes.append(f"{processes} other {'process' if processes == 1 else 'processes'} on the GPU")
    held = max(seen, key=lambda c: c.held_bytes, default=None)
    if held and held.held_bytes > MOST_SHARE_BUSY * held.total_bytes:
        notes.append(f"others held {format_bytes(held.held_bytes)} of the memory of the GPU")
    return notes


def _mig_notes(mig: bool | None) -> list[str]:
    return ["the GPU is cut into slices (MIG): clocks and power are the whole GPU's"] if mig else []


def _middle(sights: Sequence[Sight], of: Callable[[Sight], float | None]) -> float | None:
    known = [value for sight in sights if (value := of(sight)) is not None]
    return median(known) if known else None


def _processor_clock_mhz() -> float | None:
    """The fastest core now, which at the end of a run is the one that ran; None where the kernel does not list it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = [float(line.partition(":")[2]) for line in file if line.startswith("cpu MHz")]
    except OSError:
        return None
    return max(found, default=None)


def software(runtime: Runtime) -> dict[str, str]:
    """Versions that decide what runs: an absent one is left out."""
    torch = runtime.torch
    found: dict[str, Any] = {"python": platform.python_version(), "kernel": platform.release()}
    if torch is not None:
        found |= {
            "torch": torch.__version__,
            "triton": _version("triton"),
            "numpy": _version("numpy"),
            "cuda": torch.version.cuda,
            "hip": torch.version.hip,
            "blas": _blas(runtime),
        }
    return {name: str(value) for name, value in found.items() if value}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _blas(runtime: Runtime) -> str | None:
    """What multiplies matrices: torch's choice on a GPU, what torch was built with on a CPU."""
    if runtime.kind == "cuda":
        preferred = getattr(runtime.torch.backends.cuda, "preferred_blas_library", None)
        return str(preferred()).rpartition(".")[2].lower() if preferred else None
    match = re.search(r"BLAS_INFO=([\w-]+)", str(runtime.torch.__config__.show()))
    return match[1] if match else None
