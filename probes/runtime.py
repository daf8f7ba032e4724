"""The device a probe runs on, and how time is taken there: one code path for CPUs and CUDA GPUs.

torch is imported here and nowhere else at module level: a probe asks `open_runtime` and works with what it gets.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Literal

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.host import host_memory_bytes, processor_name
from infopt.units import whole_of

Kind = Literal["cpu", "cuda"]
# Names of number types as the weight formats of `profiles` spell them, and torch's.
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8_e4m3fn", "int8": "int8"}
BYTES_PER_ELEMENT = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
# What torch's allocator of a CPU says: on Linux and macOS, on Windows.
NO_MEMORY = ("can't allocate memory", "not enough memory")
INSTALL = (
    "pip install 'infopt[probe]' (for a CPU alone: pip install torch --index-url https://download.pytorch.org/whl/cpu)"
)


@dataclass(frozen=True, slots=True)
class Runtime:
    """A device that torch can use.

    kind     cpu or cuda
    index    of the GPU, 0 on a CPU
    threads  torch uses on a CPU (1 on a GPU: the host only launches)
    torch    the module; None where nothing is run here (`host_runtime`)
    """

    kind: Kind
    index: int
    threads: int
    torch: Any

    @property
    def device(self) -> Any:
        return self.torch.device(self.kind, self.index) if self.kind == "cuda" else self.torch.device("cpu")

    @property
    def name(self) -> str:
        """What the driver, or the processor, calls itself."""
        if self.kind == "cuda":
            return str(self.torch.cuda.get_device_name(self.index))
        return processor_name()

    def dtype(self, name: str) -> Any:
        """torch's type of a format name; raises InfoptError for one that torch does not compute with."""
        if name not in DTYPES:
            raise InfoptError(f"--dtype {name}: one of {', '.join(DTYPES)} is expected")
        return getattr(self.torch, DTYPES[name])

    def synchronize(self) -> None:
        """Wait for everything launched so far."""
        if self.kind == "cuda":
            self.torch.cuda.synchronize(self.index)

    def memory_bytes(self) -> tuple[int, int]:
        """Free and total memory of the device now."""
        if self.kind == "cuda":
            free, total = self.torch.cuda.mem_get_info(self.index)
            return int(free), int(total)
        return host_memory_bytes()

    def last_cache_bytes(self) -> int:
        """The last cache a read may hit: L2 on a GPU, those of its threads on a CPU (32 MiB where none is listed)."""
        if self.kind == "cuda":
            return int(self.torch.cuda.get_device_properties(self.index).L2_cache_size)
        return _processor_cache_bytes(self.threads) or 32 * 2**20

    def release(self) -> None:
        """Give cached memory back, after the tensors of a probe are gone."""
        if self.kind == "cuda":
            self.torch.cuda.empty_cache()
        else:
            _trim()

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether an error says that memory ran out (torch raises a plain RuntimeError for a CPU)."""
        if isinstance(error, MemoryError) or (self.torch and isinstance(error, self.torch.OutOfMemoryError)):
            return True
        return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


def open_runtime(device: str = "auto", threads: int | None = None) -> Runtime:
    """The device named: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:1`.

    `threads` of a CPU; without it as many as this process may use.
    Errors: InfoptError where torch is absent or broken, or sees no such device, and for more threads than processors.
    """
    torch = need_torch()
    kind, _, number = device.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (number and whole_of(number) is None) or (number and kind != "cuda"):
        raise InfoptError(f"--device {device}: auto, cpu, cuda or cuda:N is expected")
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "cpu" or (kind == "auto" and not seen):
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        count = threads or usable
        if count > usable:
            raise InfoptError(
                f"--threads {count}: this process may use {usable} processors; threads that wait measure nothing"
            )
        torch.set_num_threads(count)
        return Runtime("cpu", 0, count, torch)
    if not seen:
        raise InfoptError(
            f"--device {device}: torch {torch.__version__} sees no GPU here; --device cpu measures the CPU"
        )
    index = int(number or 0)
    if index >= seen:
        raise InfoptError(
            f"--device {device}: torch sees {seen} GPU{'s' if seen > 1 else ''}, cuda:0 to cuda:{seen - 1}"
        )
    torch.cuda.set_device(index)
    return Runtime("cuda", index, 1, torch)


def host_runtime() -> Runtime:
    """This machine for what only asks a server: it needs no torch, and opens no GPU."""
    return Runtime("cpu", 0, 1, None)


def need_torch() -> Any:
    """The torch module; an error that says how to get it where it is absent or cannot be loaded."""
    try:
        return import_module("torch")
    except ImportError as error:
        if getattr(error, "name", None) in ("torch", None):
            raise InfoptError(f"probe needs torch, which is not installed: {INSTALL}") from error
        raise InfoptError(f"torch is installed but cannot be loaded: {error}; reinstall it: {INSTALL}") from error
    except OSError as error:
        raise InfoptError(f"torch is installed but cannot be loaded: {error}; reinstall it: {INSTALL}") from error


@contextmanager
def inference(runtime: Runtime) -> Iterator[None]:
    """No gradients, and torch's choice of algorithms left alone."""
    with runtime.torch.inference_mode():
        yield


def capture(runtime: Runtime, run: Callable[[], object], warm_ups: int = 3) -> Callable[[], None]:
    """A CUDA graph of `run`, as a callable that replays it; on a CPU `run` itself.

    Warm-up is on a side stream, as capture demands; what `run` reads and writes must stay where it is.
    """
    if runtime.kind == "cpu":
        return lambda: (run(), None)[1]
    torch = runtime.torch
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm_ups):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return lambda: graph.replay()


def _trim() -> None:
    """Give memory that is free in this process back to the system: glibc keeps pieces of up to 32 MiB for itself."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # macOS and musl have none
    if trim is not None:
        trim(0)


def _processor_cache_bytes(threads: int) -> int | None:
    """What `threads` can keep in their last caches: the largest ones, each counted once however many cores share it."""
    caches: dict[str, int] = {}
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    for core in cores:
        shared_by, size = _last_cache(f"/sys/devices/system/cpu/cpu{core}/cache")
        caches[shared_by or str(core)] = size
    return sum(sorted(caches.values(), reverse=True)[:threads]) or None


def _last_cache(folder: str) -> tuple[str, int]:
    """Cores that share the largest cache the kernel lists for a core, and its bytes; 0 where it lists none."""
    found = ("", 0)
    try:
        for entry in os.listdir(folder):
            if entry.startswith("index"):
                text, shared_by = (_first_line(f"{folder}/{entry}/{name}") for name in ("size", "shared_cpu_list"))
                size = int(text[:-1]) * {"K": 2**10, "M": 2**20, "G": 2**30}[text[-1]]
                found = max(found, (shared_by, size), key=lambda one: one[1])
    except (OSError, ValueError, KeyError, IndexError):
        return "", 0
    return found


def _first_line(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.readline().strip()
