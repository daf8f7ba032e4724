"""`probe bandwidth`: how fast this device reads and writes its memory, and what a matrix times a vector gets of that.

    read, sum  memory alone: the floor of a step rests on the better of them
    copy, triad  with writes
    gemv       what decoding does, by number format (gemv.py): on a GPU nearly memory, on a CPU mostly the library

The CUDA part is not yet run on a GPU.
"""

from typing import Any

from infopt.hardware.calibration import Measurement
from infopt.probes.findings import Findings, Part, rate
from infopt.probes.gemv import gemv
from infopt.probes.runtime import inference
from infopt.probes.sampling import measure
from infopt.probes.setting import Setting, scoped
from infopt.probes.streams import (
    BUFFER_BYTES,
    BUFFER_CACHES,
    LEAST_CACHES,
    Buffers,
    often,
    peak_bytes_per_s,
    stream_operations,
    streams,
)
from infopt.units import format_bytes

ARRAYS = 3
SUSPICIOUS = 0.15  # by which a GPU's copy and read may differ: both are memory


def bandwidth(setting: Setting) -> Part:
    """Memory first, then matrices times vectors; notes say what could not be measured and why.

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
    yield products


def stream_findings(setting: Setting, kernels: Any) -> Findings:
    """Bytes a second of every way through memory."""
    runtime = setting.runtime
    cache = runtime.last_cache_bytes()
    wanted, least = max(BUFFER_BYTES[runtime.kind], BUFFER_CACHES * cache), LEAST_CACHES * cache
    size = setting.fitting_bytes(ARRAYS * wanted, ARRAYS * least, "bandwidth: its arrays") // ARRAYS
    short = (
        ()
        if size == wanted
        else (f"bandwidth: arrays of {format_bytes(size)} instead of {format_bytes(wanted)}, memory is short",)
    )
    figures, notes = setting.shrinking(size, least, "bandwidth: arrays", lambda size: measured(setting, size, kernels))
    return Findings(tuple(figures), notes=(*short, *notes, *doubts(setting, figures)))


def measured(setting: Setting, size_bytes: int, kernels: Any) -> list[Measurement]:
    """Every way through arrays of `size_bytes`, timed in turn."""
    runtime = setting.runtime
    setting.tell("bandwidth: filling memory", 0.0, 1.0)
    with inference(runtime):
        buffers = Buffers(runtime, size_bytes)
        ways = streams(runtime, buffers, kernels)
        operations = stream_operations(runtime, buffers, ways)
        timings = measure(runtime, operations, often(setting), setting.tell)
    return [
        rate(
            "bandwidth",
            way.name,
            timing,
            None,
            peak_bytes_per_s(setting),
            size_bytes=size_bytes,
            threads=runtime.threads,
            kernel=way.kernel,
            traffic=way.traffic,
        )
        for way, timing in zip(ways, timings, strict=True)
    ]


def doubts(setting: Setting, figures: list[Measurement]) -> tuple[str, ...]:
    """A note where a GPU copies much faster or slower than it reads: then one of the two is not memory."""
    if setting.runtime.kind == "cpu":
        return ()
    reads = max(figure.value for figure in figures if figure.name in ("read", "sum"))
    copies = max(figure.value for figure in figures if figure.name == "copy")
    if abs(copies / reads - 1) <= SUSPICIOUS:
        return ()
    return (
        f"bandwidth: a copy moves {copies / reads:.0%} of the bytes a second that reading does, more than "
        f"{SUSPICIOUS:.0%} apart: other programs on the device, or a cache in between; do not trust either",
    )
