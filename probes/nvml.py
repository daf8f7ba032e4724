"""A GPU as its driver sees it, asked through NVML (the module `pynvml`, of the package nvidia-ml-py).

Everything here is optional: a probe measures without the module too, and what a driver does not answer is None.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from infopt.frozen import dataclass
from infopt.probes.runtime import Runtime

NO_MODULE = "the GPU's clocks, power and throttling are unknown: pip install nvidia-ml-py"


@dataclass(frozen=True, slots=True)
class Driver:
    """One GPU.

    nvml    the module pynvml
    handle  of the whole GPU: clocks, power and throttling are the whole one's
    part    of the slice that is measured where MIG cut the GPU, else the same
    """

    nvml: Any
    handle: Any
    part: Any

    def ask(self, question: str, *arguments: object, part: bool = False) -> Any:
        """The answer of `question(handle, *arguments)`; None where this driver or this GPU does not know."""
        function = getattr(self.nvml, question, None)
        if function is None:
            return None  # an older module
        try:
            return function(self.part if part else self.handle, *arguments)
        except self.nvml.NVMLError:
            return None

    def clock_mhz(self, memory: bool = False) -> float | None:
        """Clock of the multiprocessors, or of the memory, now."""
        which = self.nvml.NVML_CLOCK_MEM if memory else self.nvml.NVML_CLOCK_SM
        return _number(self.ask("nvmlDeviceGetClockInfo", which))

    def power_w(self) -> float | None:
        """Power drawn now (the driver's average of the last second on most GPUs)."""
        return _number(self.ask("nvmlDeviceGetPowerUsage"), 1e-3)

    def power_limit_w(self) -> float | None:
        """The limit in force."""
        return _number(self.ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3)

    def energy_j(self) -> float | None:
        """Energy drawn since the driver was loaded."""
        return _number(self.ask("nvmlDeviceGetTotalEnergyConsumption"), 1e-3)

    def temperature_c(self) -> float | None:
        return _number(self.ask("nvmlDeviceGetTemperature", self.nvml.NVML_TEMPERATURE_GPU))

    def event_bits(self) -> int | None:
        """Why the clock is not at its highest, as a mask; older modules call events throttling."""
        bits = self.ask("nvmlDeviceGetCurrentClocksEventReasons")
        return self.ask("nvmlDeviceGetCurrentClocksThrottleReasons") if bits is None else int(bits)

    def ecc(self) -> bool | None:
        """Whether error correction is on."""
        modes = self.ask("nvmlDeviceGetEccMode")
        return None if modes is None else bool(modes[0])

    def mig(self) -> bool | None:
        """Whether the GPU is cut into slices."""
        modes = self.ask("nvmlDeviceGetMigMode")
        return None if modes is None else bool(modes[0])

    def processes(self) -> list[Any] | None:
        """Processes that compute on it, this one too: `pid` and `usedGpuMemory` (None where the driver hides it)."""
        listed = self.ask("nvmlDeviceGetComputeRunningProcesses", part=True)
        return None if listed is None else list(listed)

    def version(self) -> str | None:
        """Of the driver."""
        try:
            return _text(self.nvml.nvmlSystemGetDriverVersion())
        except self.nvml.NVMLError:
            return None


@contextmanager
def driver(runtime: Runtime) -> Iterator[tuple[Driver | None, str]]:
    """The driver of the runtime's GPU, or None and the reason why it cannot be asked; None alone on a CPU."""
    if runtime.kind == "cpu":
        yield None, ""
        return
    try:
        nvml = import_module("pynvml")
    except ImportError:
        yield None, NO_MODULE
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        yield None, f"the GPU's clocks, power and throttling are unknown: NVML answers {error}"
        return
    try:
        found = _find(nvml, runtime)
        yield found, "" if found else "the GPU's clocks, power and throttling are unknown: NVML does not list this GPU"
    finally:
        nvml.nvmlShutdown()


def device_uuid(runtime: Runtime) -> str | None:
    """The UUID torch gives for the GPU, without the driver's prefix."""
    properties = runtime.torch.cuda.get_device_properties(runtime.index)
    found = getattr(properties, "uuid", None)
    return None if found is None else str(found).lower().removeprefix("gpu-").removeprefix("mig-")


def _find(nvml: Any, runtime: Runtime) -> Driver | None:
    """Torch's device at NVML: by UUID, since CUDA_VISIBLE_DEVICES renumbers; else the only GPU there is."""
    uuid = device_uuid(runtime)
    for prefix in ("GPU-", "MIG-") if uuid else ():
        try:
            part = nvml.nvmlDeviceGetHandleByUUID(prefix + str(uuid))
            whole = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part) if prefix == "MIG-" else part
        except nvml.NVMLError:
            continue  # not of that kind
        return Driver(nvml, whole, part)
    try:
        only = nvml.nvmlDeviceGetHandleByIndex(0) if nvml.nvmlDeviceGetCount() == 1 else None
    except nvml.NVMLError:
        return None
    return None if only is None else Driver(nvml, only, only)


def _number(answer: Any, factor: float = 1.0) -> float | None:
    return None if answer is None else float(answer) * factor


def _text(answer: str | bytes) -> str:
    """Old modules answer in bytes."""
    return answer.decode() if isinstance(answer, bytes) else str(answer)
