"""`probe bandwidth`: how fast this device reads and writes its memory, and what a matrix times a vector gets of that.

    read, sum  memory alone: the floor of a step rests on the better of them
    copy, triad  with writes
    gemv       what decoding does, by number format (gemv.py): on a GPU nearly memory, on a CPU mostly the library

The CUDA part is not yet run on a GPU.
"""

from collections.abc import Sequence
from typing import Any

from infopt.hardware.calibration import Measurement
from infopt.probes.findings import Findings, Part, rate
from infopt.probes.gemv import gemv
from infopt.probes.runtime import Runtime, inference
from infopt.probes.setting import Setting, scoped
from infopt.probes.streams import (
    BUFFER_BYTES,
    BUFFER_CACHES,
    LEAST_CACHES,
    Buffers,
    peak_bytes_per_s,
    processor_reads,
    stream_operations,
    streams,
    timed,
)
from infopt.units import format_bytes, format_bytes_per_s

ARRAYS = 3
DRIFT = 0.10  # between the first and the last look at a CPU's memory
SUSPICIOUS = 0.15  # by which a GPU's copy and read may differ: both are memory


def bandwidth(setting: Setting) -> Part:
    """Memory first, then matrices times vectors; notes say what could not be measured and why.

    On a CPU memory is read again in the end: neighbours on the host, invisible from inside, may have come or gone.
    Errors: InfoptError where memory has no room for arrays that a cache does not hold.
    """
    from infopt.probes.kernels import usable_kernels  # loads Triton, where there is one

    kernels, notes = usable_kernels(setting.runtime)
    if notes:
        yield Findings(notes=notes)
    with scoped(setting):
        memory = stream_findings(setting, kernels)
    yield memory
    with scoped(setting):
        products = gemv(setting, kernels)
    with scoped(setting):
        yield steady(setting, memory.measurements, products)


def stream_findings(setting: Setting, kernels: Any) -> Findings:
    """Bytes a second of every way through memory."""
    runtime = setting.runtime
    cache = runtime.last_cache_bytes()
    wanted, least = max(BUFFER_BYTES[runtime.kind], BUFFER_CACHES * cache), LEAST_CACHES * cache
    what = "bandwidth: its arrays"
    size = setting.fitting_bytes(ARRAYS * wanted, ARRAYS * least, what) // ARRAYS
    short = f"{what} take {format_bytes(size)} each instead of {format_bytes(wanted)}, memory is short"
    figures, notes = setting.shrinking(size, least, what, lambda size: measured(setting, size, kernels))
    return Findings(
        tuple(figures), notes=(*([short] if size < wanted else ()), *notes, *doubts(setting.runtime, figures))
    )


def measured(setting: Setting, size_bytes: int, kernels: Any, reads_only: bool = False) -> list[Measurement]:
    """Every way through arrays of `size_bytes`, or a CPU's reads alone, timed in turn."""
    runtime = setting.runtime
    setting.tell("bandwidth: filling memory", 0.0, 1.0)
    with inference(runtime):
        buffers = Buffers(runtime, size_bytes)
        ways = processor_reads(runtime, buffers) if reads_only else streams(runtime, buffers, kernels)
        timings = timed(setting, stream_operations(runtime, buffers, ways))
    peak = peak_bytes_per_s(setting)
    conditions = {"size_bytes": size_bytes, "threads": runtime.threads}
    return [
        rate("bandwidth", way.name, timing, None, peak, kernel=way.kernel, traffic=way.traffic, **conditions)
        for way, timing in zip(ways, timings, strict=True)
    ]


def doubts(runtime: Runtime, figures: Sequence[Measurement]) -> tuple[str, ...]:
    """A note where a GPU copies much faster or slower than it reads: then one of the two is not memory."""
    if runtime.kind == "cpu":
        return ()
    reads = max(figure.value for figure in figures if figure.name in ("read", "sum"))
    copies = max(figure.value for figure in figures if figure.name == "copy")
    if abs(copies / reads - 1) <= SUSPICIOUS:
        return ()
    return (
        f"bandwidth: a copy moves {copies / reads:.0%} of the bytes a second that reading does, more than "
        f"{SUSPICIOUS:.0%} apart: other programs on the device, or a cache in between; trust neither",
    )


def steady(setting: Setting, memory: Sequence[Measurement], products: Findings) -> Findings:
    """The products; where a CPU now reads memory faster or slower than before, all of them and memory are contended.

    What was said of memory before is then said again, and replaces it in the record.
    """
    if setting.runtime.kind == "cuda":
        return products
    size_bytes = memory[0].conditions["size_bytes"]
    assert isinstance(size_bytes, int)
    now = {figure.conditions["kernel"]: figure.value for figure in measured(setting, size_bytes, None, True)}
    then = {kernel: figure.value for figure in memory if (kernel := figure.conditions["kernel"]) in now}
    kernel = max(now, key=lambda kernel: abs(now[kernel] / then[kernel] - 1))
    if abs(now[kernel] / then[kernel] - 1) <= DRIFT:
        return products
    note = (
        f"bandwidth: {kernel} read {format_bytes_per_s(then[kernel])}, then {format_bytes_per_s(now[kernel])} a moment "
        "later: others use this memory, take these figures as contended"
    )
    figures = (figure.model_copy(update={"contended": True}) for figure in (*memory, *products.measurements))
    return Findings(tuple(figures), notes=(*products.notes, note))
