"""What `infopt probe bandwidth` reads on this CPU beside a compiled C loop over the same two arrays of 512 MiB.

    python bench/bandwidth.py [--seconds 10] [--size 512MiB]

stream.c is compiled by gcc into a temporary folder. Its loops and the probe's operations are timed by the probe's own
sampling, in the same rounds, on one thread; no two of them read the same piece in a round. Printed are medians with
their 10th and 90th percentiles, and the ratio of each probe to its loop, round by round.

Arrays lie where the allocator puts them, a page and a power of two apart; an odd distance between them makes both dots
some 10 % faster on Zen 3, and a matrix times a vector, which reads one array, no different.

A floor rests on the best of the probe's reads, so that is what is held against the best C loop that only reads.
Exit status 1 where it is more than TARGET off; 4 where it is and others used the machine (contended); 2 without gcc.
"""

import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infopt.probes.runtime import Runtime, inference, open_runtime
from infopt.probes.sampling import Ratio, Sampling, Timing, paired
from infopt.probes.setting import Setting
from infopt.probes.streams import FACTOR, Buffers, Stream, stream_operations, streams, timed
from infopt.units import parse_bytes

TARGET = 0.10
SOURCE = Path(__file__).resolve().parent / "stream.c"
# What -ffast-math allows of sums, without it: with it gcc links code that makes the whole process flush its smallest
# numbers to zero as soon as the library is loaded.
SUMS = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno")
FLAGS = ("-O3", "-march=native", *SUMS, "-shared", "-fPIC")
# (probe, C loop) of the same traffic
PAIRS = (
    ("torch.dot", "C dot"),
    ("torch.mv", "C read"),
    ("torch.sum", "C read"),
    ("torch.copy_", "C copy"),
    ("torch.add", "C triad"),
)

READS, LOOPS = ("torch.dot", "torch.mv", "torch.sum"), ("C dot", "C read")


def compiled(folder: Path) -> ctypes.CDLL:
    """stream.c as a library; raises RuntimeError where there is no gcc or it refuses."""
    if shutil.which("gcc") is None:
        raise RuntimeError("no gcc here: install it (apt-get install gcc), or take the probe's figures alone")
    library = folder / "stream.so"
    done = subprocess.run(["gcc", *FLAGS, str(SOURCE), "-o", str(library)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"gcc refuses {SOURCE.name}: {done.stderr.strip()}")
    loaded = ctypes.CDLL(str(library))
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float
    for name, arguments, result in (
        ("stream_read", (pointer, size), number),
        ("stream_dot", (pointer, pointer, size), number),
        ("stream_copy", (pointer, pointer, size), None),
        ("stream_triad", (pointer, pointer, pointer, number, size), None),
    ):
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, result
    return loaded


def loops(library: ctypes.CDLL, buffers: Buffers) -> list[Stream]:
    """The C loops over the pieces that torch's operations read and write."""
    n, size = buffers.piece_bytes // 4, buffers.piece_bytes

    def at(array: Any, i: int) -> int:
        return int(buffers.piece(array, i).data_ptr())

    a, b, c = buffers.first, buffers.second, buffers.target
    return [
        Stream("read", "C dot", 2 * size, "", lambda i: library.stream_dot(at(a, i), at(b, i), n)),
        Stream("sum", "C read", size, "", lambda i: library.stream_read(at(a, i), n)),
        Stream("copy", "C copy", 2 * size, "", lambda i: library.stream_copy(at(b, i), at(c, i), n)),
        Stream(
            "triad", "C triad", 3 * size, "", lambda i: library.stream_triad(at(a, i), at(b, i), at(c, i), FACTOR, n)
        ),
    ]


def compared(runtime: Runtime, library: ctypes.CDLL, size_bytes: int, sampling: Sampling) -> dict[str, Timing]:
    """Timings of probes and loops by kernel, of one interleaved run."""
    with inference(runtime):
        buffers = Buffers(runtime, size_bytes)
        ways = [*streams(runtime, buffers), *loops(library, buffers)]
        timings = timed(Setting(runtime), stream_operations(runtime, buffers, ways), sampling)
    return {way.kernel: timing for way, timing in zip(ways, timings, strict=True)}


def line(name: str, timing: Timing, loop: str = "", ratio: Ratio | None = None) -> str:
    amount = timing.operation.amount
    text = f"{name:12}{timing.per_s / 1e9:8.2f}{amount / timing.p90_s / 1e9:8.2f}{amount / timing.p10_s / 1e9:8.2f}"
    text += f"{f'{timing.n_clean}/{timing.n}':>10}"
    if ratio is not None:
        text += f"{ratio.median:9.3f}{ratio.p10:8.3f}{ratio.p90:8.3f}{ratio.n:6}  of {loop}"
    return text + ("   contended" if timing.contended else "")


def verdict(found: dict[str, Timing]) -> int:
    """0 where the probe's best read is within TARGET of the best C loop, 1 where not, 4 where others may be why."""
    probe, loop = (max(names, key=lambda name: found[name].per_s) for names in (READS, LOOPS))
    ratio = paired(found[probe], found[loop])
    contended = found[probe].contended or found[loop].contended
    near = abs(ratio.median - 1) <= TARGET
    print(f"best read {probe}, best loop {loop}: ratio {ratio.median:.3f} ({ratio.p10:.3f} to {ratio.p90:.3f})", end="")
    print(
        "" if near else f", more than {TARGET:.0%} apart", "(contended: others used the machine)" if contended else ""
    )
    return 0 if near else 4 if contended else 1


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The bandwidth probe beside a compiled C loop.")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--size", default="512MiB", help="of one array")
    return parser.parse_args(given)


def main() -> int:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="infopt-stream-") as folder:
        try:
            library = compiled(Path(folder))
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 2
        sampling = Sampling(width=0.01, fewest=20, most=2000, budget_s=options.seconds)
        found = compared(open_runtime("cpu", 1), library, parse_bytes(options.size, "--size"), sampling)
    print(f"{'':12}{'GB/s':>8}{'p10':>8}{'p90':>8}{'clean':>10}{'ratio':>9}{'p10':>8}{'p90':>8}{'n':>6}")
    for probe, loop in PAIRS:
        print(line(probe, found[probe], loop, paired(found[probe], found[loop])))
    for loop in dict.fromkeys(loop for _, loop in PAIRS):
        print(line(loop, found[loop]))
    return verdict(found)


if __name__ == "__main__":
    sys.exit(main())
