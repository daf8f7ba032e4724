"""How fast `infopt sweep` is: `python bench/sweep.py [ROWS]` (default a million), on one core.

arithmetic   scenarios per second of one placement, by rows evaluated at once
placements   milliseconds to compile one
grid, cases  rows per second end to end through CSV, in a process of its own, with its peak memory
A fresh process a figure; the cases are written with a fixed seed. Targets: 1,000,000/s arithmetic in chunks of 16k to
64k, 100,000/s end to end, less than 1 GB at ten million rows.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from infopt.studies.sweep_groups import Groups, Load
from infopt.studies.sweep_values import KEY_COLUMNS

PLACEMENTS = {
    "70b, tp 4": {"model": "70b", "hw": "h100", "tp": "4"},
    "70b, tp 4, pp 4": {"model": "70b", "hw": "h100", "tp": "4", "pp": "4"},
    "deepseek-v3, tp 8": {"model": "deepseek-v3", "hw": "h200", "tp": "8"},
    "gpt-oss-120b": {"model": "gpt-oss-120b", "hw": "h100", "tp": "2"},
    "8b, a floor only": {"model": "8b", "hw": "mi300x"},
}
CHUNKS = (16_384, 32_768, 65_536)
ROUNDS = 15
HEADER = "id,model,hw,gpus,tp,pp,dp,ep,weights,kv,engine,engine_version,util,ctx,isl,osl,concurrency\n"


def key(cells: dict[str, str]) -> tuple[str, ...]:
    return tuple(cells.get(name, "") for name in KEY_COLUMNS)


def loads(rows: int) -> Load:
    """Rows that differ in everything a load has."""
    some = np.random.default_rng(7)
    isl, osl = some.integers(16, 30_000, rows), some.integers(1, 2_000, rows)
    return Load(isl + osl + some.integers(0, 100, rows), isl, osl, some.integers(1, 512, rows))


def arithmetic() -> None:
    print("arithmetic, million scenarios a second (median of", ROUNDS, "rounds)")
    for name, cells in PLACEMENTS.items():
        group = Groups().group(key(cells))
        assert not isinstance(group, str), group
        rates = []
        for rows in CHUNKS:
            load = loads(rows)
            group.columns(load)
            took = [seconds(partial(group.columns, load)) for _ in range(ROUNDS)]
            rates.append(rows / float(np.median(took)))
        print(
            f"  {name:20}", "  ".join(f"{rows:,}: {rate / 1e6:.2f}" for rows, rate in zip(CHUNKS, rates, strict=True))
        )


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def placements() -> None:
    """Placements of a known model on known hardware, each compiled for the first time."""
    groups = Groups()
    groups.model("70b"), groups.hardware("h100")
    keys = [key({"model": "70b", "hw": "h100", "tp": "4", "util": f"0.{share}"}) for share in range(500, 900)]
    took = seconds(lambda: [groups.group(one) for one in keys])
    print(f"placements, compiled in {took / len(keys) * 1e3:.2f} ms each")


def cases(path: Path, rows: int, distinct: int) -> None:
    """Random cases over `distinct` placements."""
    rng = random.Random(3)
    models = ("70b", "8b", "deepseek-v3", "qwen3-30b-a3b", "gpt-oss-120b", "gemma-3-27b-it")
    devices = ("h100", "h200", "a100", "b200", "mi300x", "l40s")
    some = [
        (
            rng.choice(models),
            rng.choice(devices),
            rng.choice("1248"),
            rng.choice(("bf16", "fp8", "")),
            rng.choice("6789"),
        )
        for _ in range(distinct)
    ]
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER)
        for row in range(rows):
            model, hw, tp, weights, util = some[rng.randrange(distinct)]
            isl, osl, batch = rng.randint(16, 30_000), rng.randint(1, 4_000), rng.randint(1, 512)
            file.write(f"{row},{model},{hw},,{tp},,1,,{weights},,vllm,,0.{util},,{isl},{osl},{batch}\n")


def end_to_end(name: str, rows: int, *arguments: str) -> None:
    """One `infopt sweep` in its own process: rate, memory, and that every row came out."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.csv"
        command = [sys.executable, "-m", "infopt", "sweep", *arguments, "--out", str(out)]
        start = time.perf_counter()
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter() - start
        with out.open("rb") as file:
            lines = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
    assert status == 0, status
    assert lines == rows + 1, lines
    print(f"{name:32} {rows / took:9,.0f} rows/s  {took:6.1f} s  {usage.ru_maxrss / 1024:5.0f} MiB at most")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print(f"numpy {np.__version__}, Python {sys.version.split()[0]}, {os.cpu_count()} CPUs")
    arithmetic()
    placements()
    grid = ("--model", "70b", "--hw", "h100,h200", "--tp", "4,8", "--ctx", "8k,32k", "--batch", f"1:{rows // 8}")
    end_to_end("grid, 4 placements", rows // 8 * 8, *grid)
    for distinct in (20, 500):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cases.csv"
            cases(path, rows, distinct)
            end_to_end(f"cases, {distinct} placements", rows, "--cases", str(path))


if __name__ == "__main__":
    main()
