"""Many simulations: how much two processes gain, and what a job costs beside its simulation, here and on dask.

    python bench/simulate_many.py [ROUNDS]

Rounds are paired (one process, then two, then a dask cluster of two, on the same jobs), so that a busy machine is busy
for all; medians over the rounds are printed. Dask is left out where the extra `cluster` is not installed.
"""

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from typing import Any

from infopt.arrivals.synthetic import Lengths, Synthetic
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.simulation.summary import Targets
from infopt.studies.scenarios import Request
from infopt.studies.simulate import Choices, Job
from infopt.studies.simulate_many import each, run_many

JOBS, REQUESTS, EMPTY_JOBS = 12, 8000, 500


def jobs() -> list[Job]:
    """Simulations of about half a second each."""
    model, hardware = resolve_model("8b"), resolve_hardware("h100")
    request = Request(input_tokens=1000, output_tokens=150)
    return [
        Job(
            model,
            hardware,
            request,
            Synthetic(Lengths(1000, 0.5), Lengths(150, 0.5), rate_per_s=4.0 + 0.5 * number, requests=REQUESTS),
            Choices(saturation=False),
            Targets(0.5, 0.05),
        )
        for number in range(JOBS)
    ]


def took_s(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def nothing(job: Any) -> None:
    """A job that is only sent and answered."""


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    work = jobs()
    ways: dict[str, Callable[[], Any]] = {
        "1 process": lambda: run_many(work, workers=1),
        "2 processes": lambda: run_many(work, workers=2),
    }
    empty: dict[str, Callable[[], Any]] = {"2 processes": lambda: each(nothing, work[:1] * EMPTY_JOBS, workers=2)}
    cluster = None
    if find_spec("distributed"):
        from distributed import LocalCluster

        cluster = LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL",
        )
        address = cluster.scheduler_address
        each(nothing, work[:2], scheduler=address)
        ways["dask, 2 workers"] = lambda: run_many(work, scheduler=address)
        empty["dask, 2 workers"] = lambda: each(nothing, work[:1] * EMPTY_JOBS, scheduler=address)
    times = [{name: took_s(run) for name, run in ways.items()} for _ in range(rounds)]
    print(f"{JOBS} simulations of {REQUESTS:,} requests, {rounds} paired rounds")
    for name in ways:
        gain = median(one["1 process"] / one[name] for one in times)
        print(f"  {name:<16} {median(one[name] for one in times):6.2f} s  {gain:.2f} x")
    for name, run in empty.items():
        print(
            f"  {name:<16} {1e3 * median(took_s(run) for _ in range(3)) / EMPTY_JOBS:6.2f} ms a job that does nothing"
        )
    if cluster is not None:
        cluster.close()


if __name__ == "__main__":
    main()
