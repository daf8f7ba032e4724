"""Long runs in bounded memory: ten million rows, a million requests, thousands of files and calls.

    python trust/long_runs.py [--only NAME]

Each run is made twice, small and large, by a process of its own: peak memory is what the system counted for it (VmHWM).
A stream takes as much at ten times the length. Of a simulation's request 61 bytes are kept, in arrays: twelve figures
of which exact percentiles, goodput and --rows are made. Of a gated file its findings and its plan are kept until the
answer is written, which is one document.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figure import Figure, conclude

MEASURED = """\
import sys
from pathlib import Path
from infopt.cli import run
status = run(sys.argv[1:])
sys.stdout.flush()
peak = Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]
print(status, int(peak) * 1024, file=sys.stderr)
"""
SIMULATE = ("simulate", "--model", "8b", "--hw", "h100", "--isl", "200", "--osl", "20", "--rate", "40/s", "--json")
SWEEP = ("sweep", "--model", "8b", "--hw", "h100,h200", "--batch", "1:1000")
SEARCH = ("search", "--model", "8b", "--isl", "1k", "--osl", "100", "--rate", "30/s", "--ttft", "1s", "--tpot", "50ms")
LOG_HEAD = "INFO 07-01 09:00:00 [kv_cache_utils.py:634] GPU KV cache size: 145,472 tokens\n"
LOG_LINE = (
    "INFO 07-01 10:00:00 [loggers.py:100] Engine 000: Avg generation throughput: 10.0 tokens/s, Running: 3 reqs\n"
)
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: chat-{number}}}
spec:
  template:
    spec:
      containers:
      - name: server
        image: vllm/vllm-openai:v0.11.0
        args: [--model=Qwen/Qwen3-8B, --max-model-len={length}, --gpu-memory-utilization=0.9]
        resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""


@dataclass(frozen=True)
class Run:
    """A run at two lengths, and what it may take: bytes in all, and either growth of the whole or bytes a unit."""

    name: str
    unit: str
    small: int
    large: int
    peak: Callable[[int, Path], int]  # bytes of a run of so many units, in a folder of its own
    most_bytes: int
    most_growth: float | None = None
    most_bytes_per_unit: float | None = None


@dataclass(frozen=True)
class Found:
    run: Run
    small_bytes: int
    large_bytes: int
    seconds: float

    @property
    def growth(self) -> float:
        return self.large_bytes / self.small_bytes - 1

    @property
    def bytes_per_unit(self) -> float:
        return (self.large_bytes - self.small_bytes) / (self.run.large - self.run.small)

    @property
    def holds(self) -> bool:
        run = self.run
        within = self.large_bytes <= run.most_bytes
        within = within and (run.most_growth is None or self.growth <= run.most_growth)
        return within and (run.most_bytes_per_unit is None or self.bytes_per_unit <= run.most_bytes_per_unit)

    @property
    def limit(self) -> str:
        run = self.run
        more = (
            f"{run.most_growth:.0%} more" if run.most_growth is not None else f"{run.most_bytes_per_unit:,.0f} B each"
        )
        return f"{run.most_bytes / 1e6:,.0f} MB, {more}"


def peak_bytes(arguments: tuple[str, ...], good: tuple[int, ...] = (0,), stdout: int | None = None) -> int:
    """Peak memory of one command run in a process of its own.

    Raises RuntimeError where it leaves with another status than those that are good.
    """
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments],
        stdout=subprocess.DEVNULL if stdout is None else stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    words = done.stderr.splitlines()[-1].split()
    if done.returncode or int(words[0]) not in good:
        raise RuntimeError(f"infopt {' '.join(arguments)}: {done.stderr[-500:]}")
    return int(words[1])


def sweep(rows: int, folder: Path) -> int:
    """A grid to standard output, as CSV."""
    return peak_bytes((*SWEEP, "--ctx", f"1:{rows // 2000}"))


def sweep_json(rows: int, folder: Path) -> int:
    """A grid of one device to a file of JSON lines."""
    grid = ("--hw", "h100", "--batch", "1:1000", "--ctx", f"1000:{999 + rows // 1000}")
    return peak_bytes(("sweep", "--model", "8b", *grid, "--out", str(folder / "rows.jsonl")))


def sweep_cases(rows: int, folder: Path) -> int:
    """A file of cases, one row each."""
    cases = folder / "cases.csv"
    with cases.open("w", encoding="utf-8") as file:
        file.write("ctx,concurrency\n")
        file.writelines(f"{1000 + at % 9000},{1 + at % 64}\n" for at in range(rows))
    return peak_bytes(("sweep", "--cases", str(cases), "--model", "8b", "--hw", "h100"))


def simulate(requests: int, folder: Path) -> int:
    return peak_bytes((*SIMULATE, "--requests", str(requests)))


def simulate_rows(requests: int, folder: Path) -> int:
    """With a row of each request written at the end."""
    return peak_bytes((*SIMULATE, "--requests", str(requests), "--rows", str(folder / "rows.csv")))


def search_simulated(candidates: int, folder: Path) -> int:
    """With the front simulated, of so many kinds of hardware."""
    hardware = ["h100", "h200", "l40s", "a100-sxm-80gb", "l4", "a10", "mi300x", "b200"][:candidates]
    return peak_bytes((*SEARCH, "--hw", ",".join(hardware), "--simulate"), (0, 1))


def observe_log(lines: int, folder: Path) -> int:
    """An engine's log: its start-up, and so many lines of traffic."""
    log = folder / "server.log"
    with log.open("w", encoding="utf-8") as file:
        file.write(LOG_HEAD)
        file.writelines(LOG_LINE for _ in range(lines))
    return peak_bytes(("observe", "--log", str(log), "--json"))


def gate_files(files: int, folder: Path) -> int:
    """A folder of deployments, no two alike, as JSON with the plan of each."""
    for number in range(files):
        text = DEPLOYMENT.format(number=number, length=8192 + number)
        (folder / f"{number}.yaml").write_text(text, encoding="utf-8")
    return peak_bytes(("gate", str(folder), "--gpu", "h100", "--json"), (0, 1, 4))


def mcp_calls(calls: int, folder: Path) -> int:
    """The server and the processes that answer, together, after so many calls."""
    with mcp_server() as (process, ask):
        for number in range(calls):
            answer = ask(number + 2, "tools/call", **call(number))
            if answer["result"].get("isError"):
                raise RuntimeError(f"mcp: {answer}")
        return sum(resident_bytes(pid) for pid in [process.pid, *children(process.pid)])


def call(number: int) -> dict[str, Any]:
    """A plan that was never asked for, and after it nine that cost little."""
    if number % 10:
        return {"name": "show_hardware", "arguments": {"hw": "h100"}}
    return {"name": "plan", "arguments": {"model": "8b", "hw": "h100", "ctx": 1000 + number}}


@contextmanager
def mcp_server() -> Iterator[tuple[subprocess.Popen[str], Callable[..., dict[str, Any]]]]:
    """A server over its standard streams, and a function that asks it."""
    words = [sys.executable, "-m", "infopt", "mcp"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests, answers = process.stdin, process.stdout

        def send(**message: Any) -> None:
            requests.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            requests.flush()

        def ask(number: int, method: str, **parameters: Any) -> dict[str, Any]:
            send(id=number, method=method, params=parameters)
            found: dict[str, Any] = json.loads(answers.readline())
            return found

        client = {"name": "long_runs", "version": "0"}
        ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        send(method="notifications/initialized")
        yield process, ask
        requests.close()


def children(pid: int) -> list[int]:
    """Processes that a process started, and those that they did."""
    own = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    return own + [below for child in own for below in children(child)]


def resident_bytes(pid: int) -> int:
    """Memory of a process that no other shares, and its part of what is shared."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return int(text.split("Pss:")[1].split()[0]) * 1024


MB = 1_000_000
RUNS = (
    Run("sweep to CSV", "rows", 1_000_000, 10_000_000, sweep, 300 * MB, most_growth=0.1),
    Run("sweep to JSON lines", "rows", 300_000, 3_000_000, sweep_json, 300 * MB, most_growth=0.1),
    Run("sweep of a file of cases", "rows", 300_000, 3_000_000, sweep_cases, 300 * MB, most_growth=0.1),
    Run("simulate", "requests", 100_000, 1_000_000, simulate, 400 * MB, most_bytes_per_unit=250),
    Run("simulate --rows", "requests", 100_000, 500_000, simulate_rows, 400 * MB, most_bytes_per_unit=500),
    Run("search --simulate", "kinds of hardware", 2, 8, search_simulated, 300 * MB, most_growth=0.1),
    Run("observe --log", "lines", 200_000, 2_000_000, observe_log, 300 * MB, most_growth=0.1),
    Run("gate --json", "files", 500, 5_000, gate_files, 600 * MB, most_bytes_per_unit=100_000),
    Run("mcp", "calls", 1_000, 10_000, mcp_calls, 400 * MB, most_growth=0.1),
)


def measured(run: Run, small: int, large: int) -> Found:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        before, after = run.peak(small, Path(one)), run.peak(large, Path(other))
    return Found(run, before, after, time.monotonic() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[run.name for run in RUNS], help="one run, by its name: no record is kept")
    asked = parser.parse_args()
    table = [["run", "small", "large", "peak, small", "peak, large", "a unit", "limit", "seconds of both"]]
    every: list[Found] = []
    for run in RUNS:
        if asked.only in (None, run.name):
            found = measured(run, run.small, run.large)
            every.append(found)
            table.append(row(found))
            print(", ".join(table[-1]), "" if found.holds else "TOO MUCH", flush=True)
    if asked.only is None:
        conclude(figure_of(every, table))


def row(found: Found) -> list[str]:
    run = found.run
    sizes = [f"{found.small_bytes / 1e6:.0f} MB", f"{found.large_bytes / 1e6:.0f} MB"]
    grown = f"{found.bytes_per_unit:,.0f} B" if run.most_growth is None else f"{found.growth:+.1%} in all"
    return [run.name, f"{run.small:,} {run.unit}", f"{run.large:,}", *sizes, grown, found.limit, f"{found.seconds:.0f}"]


def figure_of(every: list[Found], table: list[list[str]]) -> Figure:
    sweeps, simulated = every[0], next(one for one in every if one.run.name == "simulate")
    text = (
        f"{sum(one.holds for one in every)} of {len(every)} kinds of runs; 10,000,000 rows of a sweep in "
        f"{sweeps.large_bytes / 1e6:.0f} MB ({sweeps.growth:+.1%} beside 1,000,000), 1,000,000 simulated requests in "
        f"{simulated.large_bytes / 1e6:.0f} MB ({simulated.bytes_per_unit:.0f} B a request)"
    )
    return Figure(
        name="long-runs",
        claim="a sweep of 10 million rows takes as much memory as one of 1 million, below 300 MB; a simulation of 1 "
        "million requests takes below 400 MB; logs, searches and calls of the MCP server take no more as they grow",
        figure=text,
        holds=all(one.holds for one in every),
        command="make long-runs",
        seed=0,
        limits=[
            "a simulation keeps 61 bytes of each request, since percentiles are exact, and twice as many while it sums",
            "below 100,000 requests it takes 560 B each: the flood of which saturation is taken grows too",
            "where more arrives than is served, whoever waits is kept as well",
            "gate keeps each file's plan and findings until its one answer is written",
            "as JSON lines a second device takes 22 MB more once, where its rows begin, and no more after it",
            "Parquet is not measured: its rows go out in groups of one size",
            "peak memory is of one run each; it repeats within a few MB",
        ],
        table=table,
    )


if __name__ == "__main__":
    main()
