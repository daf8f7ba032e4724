"""`probe links`: collectives between devices by message size, and the line t = a + S/B through them.

Run alone it starts one rank a GPU (on a CPU two of one thread each); under `torchrun` or `srun` it joins the ranks that
were started, so that several nodes are measured by the launcher they have. The first rank reports, the others yield
nothing.

    algorithm bandwidth = size / t            bus bandwidth = algorithm bandwidth x factor
    factor: all-reduce 2 (n-1)/n, all-gather (n-1)/n, send and receive 1       (NVIDIA/nccl-tests, doc/PERFORMANCE.md)

The factor is what each rank's link carries for each byte of the message, so that the bus bandwidth compares with what a
link can do, whatever n is. S in the line is size x factor, and so B is a bus bandwidth. Decoding sends small messages:
there the latency a decides, and the figure by size counts.
"""

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.calibration import Measurement, Value
from infopt.probes.findings import Findings, Part, duration, now, rate
from infopt.probes.links_rank import (
    COLLECTIVES,
    FORMAT,
    Collective,
    Plan,
    Timed,
    backend_of,
    measure_ranks,
    rank_runtime,
)
from infopt.probes.ranks import Place, launched, spawned
from infopt.probes.runtime import Runtime
from infopt.probes.sampling import Operation, Sample, Timing, summarize
from infopt.probes.setting import Setting

SIZES_BYTES = (8 * 2**10, 64 * 2**10, 2**20, 16 * 2**20, 64 * 2**20)
QUICK_SIZES_BYTES = (8 * 2**10, 256 * 2**10, 4 * 2**20)
RUNS, QUICK_RUNS = 50, 20
CPU_RANKS = 2
TIMEOUT_S = 120.0  # to meet, and for any one collective
_SILENCE_S = 180.0  # of ranks of our own: more, so that a rank says itself what it waited for
_BUFFERS = 3  # a rank holds at once: what it sends, what it receives, what it compares with


def links(setting: Setting, ranks: int | None = None) -> Part:
    """Time of all-reduce, all-gather and send/receive by size, their bus bandwidth, and a line through them.

    ranks  processes to start, one GPU each; without it all GPUs that are visible, or two on a CPU
    Yields one part a collective, in the first rank. Where there is one GPU and `ranks` is not given, a note says so.
    Errors: InfoptError where more ranks than GPUs are asked for, fewer than two, NCCL (gloo) is absent, a rank dies or
    hangs, a collective computes a wrong result, or a launcher's variables are incomplete.
    """
    place = launched()
    plan = Plan(QUICK_SIZES_BYTES, QUICK_RUNS, TIMEOUT_S) if setting.quick else Plan(SIZES_BYTES, RUNS, TIMEOUT_S)
    if place is None:
        count = ranks_to_start(setting.runtime, ranks)
        if count is None:
            yield Findings(notes=("links: torch sees one GPU; links need two devices",))
            return
        backend_of(setting.runtime)
        _need(setting, plan, count if setting.runtime.kind == "cpu" else 1)
        timings = _alone(setting.runtime, plan, count)
    else:
        _check_joining(place, ranks)
        timings = measure_ranks(rank_runtime(setting.runtime.kind, place.local_rank), place, plan)
    yield from _parts(setting, plan, _told(setting, plan, timings))


def ranks_to_start(runtime: Runtime, ranks: int | None) -> int | None:
    """How many ranks this machine can have; None where it has a single GPU and nothing was asked for."""
    if ranks is not None and ranks < 2:
        raise InfoptError(f"--ranks {ranks}: links need two devices or more")
    if runtime.kind == "cpu":
        return ranks or CPU_RANKS
    seen = runtime.torch.cuda.device_count()
    if ranks is not None and ranks > seen:
        raise InfoptError(
            f"--ranks {ranks}: torch sees {seen} GPU{'s' if seen > 1 else ''} here, and each rank needs one"
        )
    return ranks or (seen if seen > 1 else None)


def _check_joining(place: Place, ranks: int | None) -> None:
    if ranks is not None and ranks != place.ranks:
        raise InfoptError(f"--ranks {ranks}: the launcher started {place.ranks}; leave --ranks out")
    if place.ranks < 2:
        raise InfoptError("probe links: the launcher started one rank; links need two devices or more")


def _need(setting: Setting, plan: Plan, held: int) -> None:
    setting.need(_BUFFERS * held * max(plan.sizes_bytes), "links")


def _alone(runtime: Runtime, plan: Plan, ranks: int) -> Iterator[Timed]:
    """Ranks of this machine; they meet in a file, which needs no free port."""
    with tempfile.TemporaryDirectory(prefix="infopt-links-") as folder:
        url = (Path(folder) / "meeting").as_uri()
        common = {"ranks": ranks, "url": url, "kind": runtime.kind, "sizes_bytes": plan.sizes_bytes, "runs": plan.runs}
        orders = [{**common, "rank": rank, "timeout_s": plan.timeout_s} for rank in range(ranks)]
        for fields in spawned("infopt.probes.links_rank", orders, _SILENCE_S):
            yield Timed(**fields)


def _told(setting: Setting, plan: Plan, timings: Iterator[Timed]) -> Iterator[Timed]:
    """The same, with the progress bar told how much is left."""
    begun, whole = time.perf_counter(), len(COLLECTIVES) * len(plan.sizes_bytes)
    setting.tell("links", 0.0, 10.0)  # a guess, until the first size is done
    for done, timed in enumerate(timings, 1):
        spent = time.perf_counter() - begun
        setting.tell(f"links: {timed.collective}", spent, spent * whole / done)
        yield timed


def _parts(setting: Setting, plan: Plan, timings: Iterator[Timed]) -> Part:
    """One part a collective, as soon as all its sizes are there."""
    sizes: list[Timed] = []
    for timed in timings:
        sizes.append(timed)
        if len(sizes) == len(plan.sizes_bytes):
            yield findings(setting, sizes)
            sizes = []


def bus_factor(collective: Collective, ranks: int) -> float:
    """Bytes a rank's link carries for each byte of the message (nccl-tests, doc/PERFORMANCE.md).

    >>> bus_factor("all_reduce", 4)
    1.5
    """
    shares = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "send_recv": 1.0}
    return shares[collective]


def findings(setting: Setting, sizes: Sequence[Timed]) -> Findings:
    """A collective: time and bus bandwidth at each size, and the line through the sizes."""
    taken = [_timing(setting, timed) for timed in sizes]
    peak = _peak_bytes_per_s(setting, sizes[0])
    measurements: list[Measurement] = []
    for timed, timing in zip(sizes, taken, strict=True):
        conditions = _conditions(timed) | {"size_bytes": timed.size_bytes}
        measurements.append(rate("links", timed.collective, timing, FORMAT, peak, **conditions))
        measurements.append(duration("links", timed.collective, timing, FORMAT, **conditions))
    line, notes = _line(sizes[0], taken)
    return Findings(measurements=(*measurements, *line), notes=notes)


def _conditions(timed: Timed) -> dict[str, Value]:
    return {
        "world": timed.ranks,
        "nodes": timed.nodes,
        "backend": timed.backend,
        "links": "intra-node" if timed.nodes == 1 else "inter-node",
    }


def _peak_bytes_per_s(setting: Setting, timed: Timed) -> float | None:
    """One direction of a device's links inside a machine; a network is not in a device's record."""
    device = setting.accelerator
    link = None if device is None or timed.nodes != 1 else device.link or device.pcie
    return None if link is None else link.bytes_per_s


def _timing(setting: Setting, timed: Timed) -> Timing:
    """Waiting for others is what a collective does, so the processor's share of the time says nothing here."""
    moved_bytes = timed.size_bytes * bus_factor(timed.collective, timed.ranks)
    samples = [Sample(seconds, clean, 1.0) for seconds, clean in zip(timed.seconds, timed.clean, strict=True)]
    operation = Operation(timed.collective, lambda _: None, moved_bytes, "bytes")
    return summarize(setting.runtime, operation, samples, setting.sampling.width)


@dataclass(frozen=True, slots=True)
class Line:
    """t = latency_s + bytes / bytes_per_s; infinite where time does not grow with size."""

    latency_s: float
    bytes_per_s: float


def fit_line(sizes_bytes: Sequence[float], times_s: Sequence[float]) -> Line:
    """Least squares of the relative error, sum((a + S/B)/t - 1)^2, with a >= 0 and 1/B >= 0.

    Relative, so that the microseconds of a small message count as much as the milliseconds of a large one.

    >>> fit_line([0.0, 100.0], [1.0, 2.0])
    Line(latency_s=1.0, bytes_per_s=100.0)
    """
    scale = max(sizes_bytes)
    # Two columns, 1/t and S/t, and a target of ones.
    ones = [1 / t for t in times_s]
    sizes = [size / scale / t for size, t in zip(sizes_bytes, times_s, strict=True)]
    aa, bb = _dot(ones, ones), _dot(sizes, sizes)
    ab, a1, b1 = _dot(ones, sizes), math.fsum(ones), math.fsum(sizes)
    determinant = aa * bb - ab * ab
    if determinant <= 1e-12 * aa * bb:
        raise InfoptError("a line through one message size is worthless: two or more are needed")
    latency, slope = (bb * a1 - ab * b1) / determinant, (aa * b1 - ab * a1) / determinant
    # The sum of squares is convex: where its lowest point is outside, the lowest inside is on the edge it crossed.
    if latency < 0:
        latency, slope = 0.0, b1 / bb
    elif slope < 0:
        latency, slope = a1 / aa, 0.0
    return Line(latency, scale / slope if slope > 0 else math.inf)


def _dot(x: Sequence[float], y: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(x, y, strict=True))


def _line(first: Timed, taken: Sequence[Timing]) -> tuple[list[Measurement], tuple[str, ...]]:
    """The line through the medians; its spread is what the 10th and the 90th percentiles give instead."""
    sizes = [timing.operation.amount for timing in taken]
    if len(sizes) < 2:
        return [], ()
    lines = [fit_line(sizes, [getattr(timing, name) for timing in taken]) for name in ("median_s", "p10_s", "p90_s")]
    name, notes, measurements = first.collective, [], []
    if math.isfinite(max(line.bytes_per_s for line in lines)):
        rates = [line.bytes_per_s for line in lines]
        measurements.append(_fitted(first, taken, f"{name}_bandwidth", "bytes/s", rates))
    else:
        notes.append(f"links: {name} takes as long for {sizes[-1]:.0f} bytes as for {sizes[0]:.0f}: no bandwidth")
    if lines[0].latency_s > 0:
        measurements.append(_fitted(first, taken, f"{name}_latency", "s", [line.latency_s for line in lines]))
    else:
        notes.append(f"links: {name} is proportional to size here: its latency is too small to be seen")
    return measurements, tuple(notes)


def _fitted(first: Timed, taken: Sequence[Timing], name: str, unit: str, values: Sequence[float]) -> Measurement:
    return Measurement(
        probe="links",
        name=name,
        format=FORMAT,
        unit=unit,  # type: ignore[arg-type]
        value=values[0],
        p10=min(values),
        p90=max(values),
        n=sum(timing.n for timing in taken),
        n_clean=sum(timing.n_clean for timing in taken),
        contended=any(timing.contended for timing in taken),
        taken=now(),
        conditions=_conditions(first),
    )
