"""A GPU that is not there: the parts of torch and of pynvml that the probes ask."""

import os
import sys
import time
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from infopt.probes.runtime import Runtime

UUID = "8d0c9a1e-0000-1111-2222-333344445555"
GIB = 2**30


def fake_runtime(
    name: str = "NVIDIA H100 80GB HBM3",
    capability: tuple[int, int] = (9, 0),
    free_bytes: int = 78 * GIB,
    total_bytes: int = 79 * GIB,
    uuid: str | None = UUID,
) -> Runtime:
    """A CUDA runtime that answers questions and computes nothing."""
    cuda = SimpleNamespace(
        get_device_name=lambda index: name,
        get_device_capability=lambda index: capability,
        get_device_properties=lambda index: SimpleNamespace(
            L2_cache_size=50 * 2**20, **({"uuid": uuid} if uuid else {})
        ),
        mem_get_info=lambda index: (free_bytes, total_bytes),
        memory_reserved=lambda index: 0,
        synchronize=lambda index: None,
        empty_cache=lambda: None,
    )
    torch = SimpleNamespace(
        cuda=cuda,
        __version__="9.9",
        version=SimpleNamespace(cuda="13.0", hip=None),
        backends=SimpleNamespace(cuda=SimpleNamespace(preferred_blas_library=lambda: "_BlasBackend.Cublas")),
        inference_mode=nullcontext,
    )
    return Runtime("cuda", 0, 1, torch)


class Event:
    """A time on the host's clock."""

    def __init__(self, enable_timing: bool) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        """Nothing is pending on a CPU."""

    def elapsed_time(self, end: "Event") -> float:
        return (end.at - self.at) * 1e3


class Graph:
    """A captured graph whose replay takes a tenth of a millisecond; `replays` counts them over all graphs."""

    replays = 0

    def replay(self) -> None:
        Graph.replays += 1
        time.sleep(1e-4)


class TorchOnCpu:
    """The module torch with a GPU that is the CPU: the code of a GPU runs, its figures mean nothing."""

    def __init__(self, torch: Any, capability: tuple[int, int], free_bytes: int) -> None:
        self._torch = torch
        self.pinned_bytes = 0
        stream = SimpleNamespace(wait_stream=lambda other: None)
        self.cuda = SimpleNamespace(
            Event=Event,
            CUDAGraph=Graph,
            graph=self._graph,
            Stream=lambda: stream,
            current_stream=lambda: stream,
            stream=lambda stream: nullcontext(),
            _sleep=lambda cycles: None,
            synchronize=lambda index: None,
            empty_cache=lambda: None,
            memory_reserved=lambda index: 0,
            mem_get_info=lambda index: (free_bytes, 2 * free_bytes),
            get_device_name=lambda index: "NVIDIA H100 80GB HBM3",
            get_device_capability=lambda index: capability,
            get_device_properties=lambda index: SimpleNamespace(L2_cache_size=2**16, uuid=UUID),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    @staticmethod
    @contextmanager
    def _graph(graph: Graph) -> Any:
        yield

    def device(self, kind: str, index: int = 0) -> Any:
        return self._torch.device("cpu")

    def empty(self, *size: int, pin_memory: bool = False, **options: Any) -> Any:
        made = self._torch.empty(*size, **options)
        self.pinned_bytes += made.nbytes if pin_memory else 0
        return made


def gpu_on_cpu(capability: tuple[int, int] = (9, 0), free_bytes: int = 4 * GIB) -> Runtime:
    """A CUDA runtime that computes on the CPU."""
    import torch

    torch.set_num_threads(1)
    return Runtime("cuda", 0, 1, TorchOnCpu(torch, capability, free_bytes))


class FakeError(Exception):
    """What the fake driver raises."""


class FakeNvml:
    """A module `pynvml` over one GPU; a test changes what it answers.

    bits      reasons, one for each look in turn, the last one from then on
    others    process ids on the GPU beside this one;  hidden  whether this process goes by another number (container)
    energy_j  counted, grows by 10 with each question; None where the GPU has no counter
    """

    NVMLError = FakeError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, **changes: Any) -> None:
        self.driver = True
        self.bits = [0x0]
        self.others: list[int] = []
        self.hidden = False
        self.mig: int | None = 0
        self.energy_j: float | None = 0.0
        self.power_w: float | None = 300.0
        self.uuids = ("GPU-" + UUID,)
        self.count = 1
        self.open = 0
        self.looks = 0
        for name, value in changes.items():
            setattr(self, name, value)

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise FakeError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"gpu {index}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid not in self.uuids:
            raise FakeError("Not Found")
        return "slice" if uuid.startswith("MIG-") else "gpu"

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> str:  # noqa: N802
        return "gpu"

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"580.65.06"

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:  # noqa: N802
        self.looks += 1
        return self.bits[min(self.looks, len(self.bits)) - 1]

    def nvmlDeviceGetClockInfo(self, handle: str, which: int) -> int:  # noqa: N802
        if handle == "slice":
            raise FakeError("Not Supported")  # as a real slice answers
        return 1980 if which == self.NVML_CLOCK_SM else 2619

    def nvmlDeviceGetPowerUsage(self, handle: str) -> float:  # noqa: N802
        return self._known(self.power_w) * 1e3

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:  # noqa: N802
        return 700_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> float:  # noqa: N802
        self.energy_j = self._known(self.energy_j) + 10
        return self.energy_j * 1e3

    def nvmlDeviceGetTemperature(self, handle: str, which: int) -> int:  # noqa: N802
        return 45

    def nvmlDeviceGetEccMode(self, handle: str) -> tuple[int, int]:  # noqa: N802
        return 1, 1

    def nvmlDeviceGetMigMode(self, handle: str) -> tuple[float, float]:  # noqa: N802
        return self._known(self.mig), self._known(self.mig)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        own = 1 if self.hidden else os.getpid()
        return [SimpleNamespace(pid=pid, usedGpuMemory=GIB // 2) for pid in (own, *self.others)]

    @staticmethod
    def _known(value: float | None) -> float:
        if value is None:
            raise FakeError("Not Supported")
        return value


def install(monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml | None) -> FakeNvml | None:
    """What `import pynvml` finds; None: no such module."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return nvml
