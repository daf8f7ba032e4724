"""Ways through memory: reading it, copying it, adding two arrays into a third; and how a pass becomes an operation.

    read   a CPU's dot of two arrays, and matrix times vector; a GPU's sum by Triton   1 x the bytes read
    sum    torch.sum of one array                                                      1 x
    copy   b into c                                                                    2 x the bytes of one array
    triad  a + s b into c                                                              3 x

Which read of a CPU comes nearest to a compiled loop depends on the processor: on Zen 4 dot was 94 to 106 % of it and
matrix times vector 70 %, on Zen 3 they are 85 to 95 % and 96 to 104 %. So both are measured, and the best counts.

On a CPU one sample is one piece, short enough (a millisecond) that samples which the kernel interrupted can be set
aside, and operations are at different places of the arrays, so that none finds in the cache what another left there. On
a GPU a sample is a captured graph of whole passes: launching them costs nothing.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from infopt.frozen import dataclass
from infopt.probes.runtime import Runtime, capture
from infopt.probes.sampling import Operation, Sampling, Timing, measure
from infopt.probes.setting import Setting

MIB = 2**20
BUFFER_BYTES = {"cpu": 512 * MIB, "cuda": 1024 * MIB}  # of one array, and
BUFFER_CACHES = 8  # at least this many times the last cache: below two, graphs replay from the cache (facts/probes.md)
LEAST_CACHES = 4  # what is refused where memory is short: smaller arrays would measure the cache
PIECE_BYTES = 8 * MIB  # of one array and thread: 1 ms at 20 GB/s a thread, well below a turn of a busy scheduler
CAPTURED_PASSES = 4  # at least, in a graph: beside them the start of the graph is short
FEWEST_ROUNDS, MOST_ROUNDS = 100, 4000  # of samples of a millisecond
OTHERS_SHARE = 0.1  # of all processors, above which what others read is felt
BLOCK = 1 << 22  # random numbers drawn; more would take longer than the probe
MV_COLUMNS = 8192  # of the matrix that is read: fewer are slower, more no faster
FACTOR = 0.75  # of the triad


@dataclass(frozen=True, slots=True)
class Stream:
    """One way through memory.

    counted   bytes of one piece it is credited with
    traffic   what of them is written, and what moves beside them
    run       a pass over piece number i
    """

    name: str
    kernel: str
    counted: int
    traffic: str
    run: Callable[[int], object]


class Buffers:
    """Three arrays of f32 random numbers, in pieces; `target` is written, and filled when it is first asked for."""

    def __init__(self, runtime: Runtime, size_bytes: int) -> None:
        self.piece_bytes = min(size_bytes, PIECE_BYTES * runtime.threads) if runtime.kind == "cpu" else size_bytes
        self.pieces = size_bytes // self.piece_bytes
        self._filled = partial(random_numbers, runtime, self.pieces * self.piece_bytes // 4, runtime.torch.float32)
        self.first, self.second = self._filled(0), self._filled(1)

    @cached_property
    def target(self) -> Any:
        """What is written: where memory is only read, it need not be there."""
        return self._filled(2)

    def piece(self, array: Any, number: int) -> Any:
        """Piece `number` of an array, counted round and round."""
        size = self.piece_bytes // 4
        start = number % self.pieces * size
        return array[start : start + size]


def random_numbers(
    runtime: Runtime, elements: int, dtype: Any, seed: int, span: float = 1.0, middle: float = 0.0
) -> Any:
    """[elements] within span / 2 of the middle: one block drawn, then repeated."""
    torch = runtime.torch
    generator = torch.Generator(device=runtime.device).manual_seed(seed)
    drawn = torch.rand(min(BLOCK, elements), generator=generator, device=runtime.device)
    block = ((drawn - 0.5) * span + middle).to(dtype)
    array = torch.empty(elements, dtype=dtype, device=runtime.device)
    for start in range(0, elements, block.numel()):
        piece = array[start : start + block.numel()]
        piece.copy_(block[: piece.numel()])
    return array


def timed(setting: Setting, operations: Sequence[Operation], sampling: Sampling | None = None) -> list[Timing]:
    """Timings of operations in turn; on a CPU all contended where other programs ran meanwhile.

    Memory is shared even where processors are not: a program on another one slows every read down and interrupts none.
    """
    runtime = setting.runtime
    if runtime.kind == "cuda":
        return measure(runtime, operations, sampling or setting.sampling, setting.tell)
    # Many short samples: a few in a row would describe one moment of a machine that others use as well.
    often = replace(setting.sampling, width=setting.sampling.width / 2, fewest=FEWEST_ROUNDS, most=MOST_ROUNDS)
    before_s, started = others_s(), time.perf_counter()
    timings = measure(runtime, operations, sampling or often, setting.tell)
    after_s, wall_s = others_s(), time.perf_counter() - started
    if before_s is None or after_s is None or after_s - before_s <= OTHERS_SHARE * wall_s * (os.cpu_count() or 1):
        return timings
    return [replace(timing, contended=True) for timing in timings]


def others_s() -> float | None:
    """Seconds that processors have worked for other programs, or for other guests of the host, since the system began.

    None where the kernel does not count them (not Linux).
    """
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _, _, interrupts, soft, stolen = (int(word) for word in file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    busy = user + nice + system + interrupts + soft + stolen
    return busy / os.sysconf("SC_CLK_TCK") - time.process_time()


def peak_bytes_per_s(setting: Setting) -> float | None:
    """The vendor's figure of a GPU; None for a processor, whose memory is what its host has fitted."""
    known = setting.accelerator
    return known.bandwidth_bytes_per_s if known and setting.runtime.kind == "cuda" else None


def streams(runtime: Runtime, buffers: Buffers, kernels: Any = None) -> list[Stream]:
    """Every way through the buffers; `kernels` are Triton's, None where they cannot be used."""
    torch, piece, size = runtime.torch, buffers.piece, buffers.piece_bytes
    first, second, target = buffers.first, buffers.second, buffers.target
    # A processor fetches a line before it overwrites it; a GPU writes whole sectors.
    fetched = ", and what is written is fetched first" if runtime.kind == "cpu" else ""
    both, all_three = f"1 read, 1 written{fetched}", f"2 read, 1 written{fetched}"

    def add(i: int) -> None:
        torch.add(piece(first, i), piece(second, i), alpha=FACTOR, out=piece(target, i))

    found = [
        Stream("sum", "torch.sum", size, "1 read", lambda i: torch.sum(piece(first, i))),
        Stream("copy", "torch.copy_", 2 * size, both, lambda i: piece(target, i).copy_(piece(second, i))),
        Stream("triad", "torch.add", 3 * size, all_three, add),
    ]
    if runtime.kind == "cpu":
        return [*processor_reads(runtime, buffers), *found]
    if kernels is None:
        return found
    partial = torch.empty(kernels.partial_sums(first.numel()), device=runtime.device)
    return [
        Stream("read", "triton", size, "1 read", lambda i: kernels.read(first, partial)),
        *found,
        Stream("copy", "triton", 2 * size, both, lambda i: kernels.copy(second, target)),
        Stream("triad", "triton", 3 * size, all_three, lambda i: kernels.triad(first, second, target, FACTOR)),
    ]


def processor_reads(runtime: Runtime, buffers: Buffers) -> list[Stream]:
    """torch's operations that meet a compiled loop, each on some processors (bench/bandwidth.py)."""
    torch, piece, size = runtime.torch, buffers.piece, buffers.piece_bytes
    first, second = buffers.first, buffers.second
    x = random_numbers(runtime, MV_COLUMNS, torch.float32, seed=3)
    return [
        Stream("read", "torch.dot", 2 * size, "2 read", lambda i: torch.dot(piece(first, i), piece(second, i))),
        Stream("read", "torch.mv", size, "1 read", lambda i: torch.mv(piece(first, i).view(-1, MV_COLUMNS), x)),
    ]


def operation(
    runtime: Runtime, name: str, run: Callable[[int], object], count: int, each_bytes: int, first: int = 0
) -> Operation:
    """`run(i)` over `count` pieces as something to time.

    On a CPU one piece a sample, beginning with `first`; on a GPU all of them (CAPTURED_PASSES at least) as one graph.
    """
    if runtime.kind == "cpu":
        return Operation(name, lambda i: run((i + first) % count), each_bytes, "bytes")
    passes = max(count, CAPTURED_PASSES)
    replay = capture(runtime, lambda: [run(i % count) for i in range(passes)])
    return Operation(name, lambda i: replay(), passes * each_bytes, "bytes")


def stream_operations(runtime: Runtime, buffers: Buffers, ways: Sequence[Stream]) -> list[Operation]:
    """Ways as operations, each beginning at a place of its own."""
    step = buffers.pieces / len(ways)
    return [
        operation(runtime, f"{way.name} ({way.kernel})", way.run, buffers.pieces, way.counted, round(i * step))
        for i, way in enumerate(ways)
    ]
