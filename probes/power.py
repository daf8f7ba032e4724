"""`probe power`: watts of the device idle, reading memory, and multiplying matrices.

    power = energy drawn over a window / its length

Energy is the driver's counter on a GPU (the mean of its power readings where a GPU has no counter), and the counters of
the packages and their memory on a CPU (RAPL, where the kernel lets this user read them).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.calibration import Measurement
from infopt.probes.compute import Product, not_offered, operation_of
from infopt.probes.findings import Findings, Part, now
from infopt.probes.nvml import Driver, driver
from infopt.probes.sampling import percentile
from infopt.probes.setting import Setting, scoped

POWERCAP = Path("/sys/class/powercap")
WINDOWS, QUICK_WINDOWS = 7, 3
WINDOW_S, QUICK_WINDOW_S = 1.0, 0.5
# Drivers average power over up to a second, and a clock takes about as long to settle.
SETTLE_S = 1.5
STEP_S = 0.02  # work between two looks at the clock
READ_BYTES, READ_QUICK_BYTES = 2**30, 2**28
LEAST_READ_CACHES = 4
CUBE = {"cpu": 512, "cuda": 8192}
WIDEST_QUARTILES = 0.25  # over the median: others work on the device too

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Meter:
    """What tells the power: a counter of joules, or watts now."""

    source: str
    energy_j: Callable[[], float] | None
    power_w: Callable[[], float] | None


def power(setting: Setting) -> Part:
    """power_idle, power_read and power_matmul in W, each a part; a note where this machine tells no power.

    Errors: InfoptError where memory has no room for the read.
    """
    with driver(setting.runtime) as (found, reason):
        meter = gpu_meter(found) if found else None
        if setting.runtime.kind == "cpu":
            meter, reason = processor_meter()
        if meter is None:
            yield Findings(notes=(f"power: {reason or 'this GPU tells no power'}",))
            return
        mig = (f"power is the whole GPU's, of which a slice is measured ({meter.source})",)
        notes = mig if found and found.mig() else ()
        yield Findings((_measured(setting, meter, "power_idle", lambda: time.sleep(STEP_S)),), notes=notes)
        for name, load in (("power_read", _reading), ("power_matmul", _multiplying)):
            with scoped(setting), load(setting) as work:
                figure = _measured(setting, meter, name, work)
            yield Findings((figure,))


def gpu_meter(found: Driver) -> Meter | None:
    """The energy counter of a GPU (Volta and later), else its power readings; None where it has neither."""
    if found.energy_j() is not None:
        return Meter("NVML energy", lambda: _known(found.energy_j()), None)
    if found.power_w() is not None:
        return Meter("NVML power", None, lambda: _known(found.power_w()))
    return None


def _known(answer: float | None) -> float:
    if answer is None:
        raise InfoptError("the driver told the power and then no longer does; run it again")
    return answer


def processor_meter() -> tuple[Meter | None, str]:
    """RAPL of the packages and their memory; None and the reason where there is none or it cannot be read."""
    zones = []
    try:
        for zone in sorted(POWERCAP.glob("*")):
            name = zone / "name"
            if name.is_file() and (name.read_text().startswith("package") or name.read_text().strip() == "dram"):
                zones.append(Zone(zone))
    except PermissionError:
        return None, f"{POWERCAP} is readable by root only, run as root to measure the power of this CPU"
    except (OSError, ValueError) as error:
        return None, f"{POWERCAP} cannot be read: {error}"
    if not zones:
        return None, f"this machine tells no power (no RAPL under {POWERCAP})"
    return Meter("RAPL", lambda: sum(zone.energy_j() for zone in zones), None), ""


class Zone:
    """One RAPL counter, which begins again at its end."""

    def __init__(self, folder: Path) -> None:
        self._counter = folder / "energy_uj"
        self._range = int((folder / "max_energy_range_uj").read_text())
        self._last = self._first = int(self._counter.read_text())
        self._turns = 0

    def energy_j(self) -> float:
        """Joules since this object was made; asked at least once a turn (tens of minutes)."""
        value = int(self._counter.read_text())
        self._turns += value < self._last
        self._last = value
        return (value - self._first + self._turns * self._range) / 1e6


def _measured(setting: Setting, meter: Meter, name: str, work: Work) -> Measurement:
    """Median, p10 and p90 of the power over windows of work, after it settled."""
    windows, length_s = (QUICK_WINDOWS, QUICK_WINDOW_S) if setting.quick else (WINDOWS, WINDOW_S)
    expected_s = SETTLE_S + windows * length_s
    window_w(setting, meter, work, SETTLE_S)
    watts = []
    for i in range(windows):
        setting.tell(name, SETTLE_S + i * length_s, expected_s)
        watts.append(window_w(setting, meter, work, length_s))
    ordered = sorted(watts)
    median = percentile(ordered, 0.5)
    quartiles = percentile(ordered, 0.75) - percentile(ordered, 0.25)
    return Measurement(
        probe="power",
        name=name,
        format=None,
        unit="W",
        value=median,
        p10=percentile(ordered, 0.1),
        p90=percentile(ordered, 0.9),
        n=windows,
        n_clean=windows,
        contended=quartiles > WIDEST_QUARTILES * median,
        taken=now(),
        conditions={"source": meter.source, "window_s": length_s, "threads": setting.runtime.threads},
    )


def window_w(setting: Setting, meter: Meter, work: Work, length_s: float) -> float:
    """Mean power while `work` is repeated for `length_s`."""
    looks = []
    before_j = meter.energy_j() if meter.energy_j else 0.0
    started = time.perf_counter()
    while time.perf_counter() - started < length_s:
        work()
        setting.runtime.synchronize()
        if meter.power_w:
            looks.append(meter.power_w())
    if meter.energy_j:
        drawn_j = meter.energy_j() - before_j
        return drawn_j / (time.perf_counter() - started)
    return fmean(looks)


@contextmanager
def _reading(setting: Setting) -> Iterator[Work]:
    """Dot products over memory well past the last cache: 2 bytes read for a FLOP at most."""
    torch, runtime = setting.runtime.torch, setting.runtime
    wanted = READ_QUICK_BYTES if setting.quick else READ_BYTES
    size = setting.fitting_bytes(wanted, LEAST_READ_CACHES * runtime.last_cache_bytes(), "probe power")
    a, b = (torch.rand(size // 8, device=runtime.device) for _ in range(2))
    yield _steady(setting, lambda: torch.dot(a, b))


@contextmanager
def _multiplying(setting: Setting) -> Iterator[Work]:
    """A cube of the widest-used number type: 16 bits on a GPU, 32 on a CPU, which may have no others in hardware."""
    runtime, edge = setting.runtime, CUBE[setting.runtime.kind]
    wanted = ("bf16", "fp16") if runtime.kind == "cuda" else ("fp32",)
    name = next((f for f in wanted if not_offered(runtime, f) is None), "fp32")
    product = Product("cube", name, edge, edge, edge)
    setting.need(product.held_bytes(0), "probe power")
    operation = operation_of(runtime, product, 0)
    yield _steady(setting, lambda: operation.run(0))


def _steady(setting: Setting, run: Work) -> Work:
    """`run` so often that waiting for it once a step leaves the device no time to rest."""
    run()
    setting.runtime.synchronize()
    started = time.perf_counter()
    run()
    setting.runtime.synchronize()
    times = max(1, round(STEP_S / (time.perf_counter() - started)))

    def repeated() -> None:
        for _ in range(times):
            run()

    return repeated
