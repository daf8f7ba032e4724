"""How fast a simulation is, and how near it is to queues that have formulas.

    python bench/simulate.py [--requests 100000] [--model 70b --hw h100:4 --rate 8]
    python bench/simulate.py --queues [--processes 2] [--share 1.0]
    python bench/simulate.py --saturation [--processes 2]

Without --queues: requests of a chat (1000 + 300 tokens in the mean, exponential) against the plan's own clock and cache
pool on one core. Time in simpy is sampled every millisecond of processor time: the share of samples whose innermost
frame is in simpy, which makes nothing slower. Exit status 1 where 100,000 requests would take more than a minute.

With --queues: a replica of c seats whose steps all take as long is a queue with c servers; a request of n tokens takes
n steps. 20 seeds each; the mean over seeds must lie within its 99 % confidence interval of the formula, and half of
that interval be at most 2 % of it. Exit status 1 where one does not.

    M/G/1   W = S + load S (1 + cv^2) / (2 (1 - load))         Pollaczek, Khinchine
    M/M/c   W = S + C(c, c load) S / (c (1 - load))             Erlang's C formula
    M/G/oo  W = S                     L = rate W                 Little
--saturation prints in how many of a hundred runs a load is called saturated.
W mean time in system, S mean service, L mean number inside, cv coefficient of variation of service. Control variates
(second half-width): what a seed's mean gap and mean service are off their known means is regressed out.
"""

import argparse
import math
import resource
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from infopt.arrivals.synthetic import Lengths, Synthetic
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.paging import Layout
from infopt.profiles.resolve import resolve_model
from infopt.simulation.clock import FixedClock
from infopt.simulation.deployment import simulate
from infopt.simulation.setup import Cache, Scheduler, Setup
from infopt.simulation.summary import saturated, summary
from infopt.studies.scenarios import Request, build
from infopt.studies.simulated import Asked, Simulated, simulated

SEEDS = 20
MOST_HALF_WIDTH = 0.02
# Student's t at 99.5 % by degrees of freedom.
STUDENT = {19: 2.861, 18: 2.878, 17: 2.898}
MEAN_TOKENS = 1000
STEP_S = 1.0 / MEAN_TOKENS
NO_CACHE = Cache(Layout(0, 0, 0.0, 16, (), 0), 1)
TARGET_S_PER_REQUEST = 60 / 100_000


@dataclass(frozen=True)
class Queue:
    """spread  cv of service; servers 0: as many as come;  requests  of one seed"""

    name: str
    spread: float
    servers: int
    load: float
    requests: int

    @property
    def rate_per_s(self) -> float:
        return self.load * max(1, self.servers)  # a mean service is one second

    @property
    def time_s(self) -> float:
        """Mean time in the system."""
        if not self.servers:
            return 1.0
        if self.servers == 1:
            return 1.0 + self.load * (1 + self.spread**2) / (2 * (1 - self.load))
        return 1.0 + erlang_c(self.servers, self.load) / (self.servers * (1 - self.load))


QUEUES = (
    Queue("M/D/1", 0.0, 1, 0.5, 20_000),
    Queue("M/D/1", 0.0, 1, 0.8, 60_000),
    Queue("M/M/1", 1.0, 1, 0.5, 30_000),
    Queue("M/M/1", 1.0, 1, 0.8, 160_000),
    Queue("M/G/1 cv 0.5", 0.5, 1, 0.8, 80_000),
    Queue("M/G/1 cv 2", 2.0, 1, 0.5, 120_000),
    Queue("M/M/4", 1.0, 4, 0.8, 120_000),
    Queue("M/G/oo cv 2", 2.0, 0, 8.0, 20_000),
)


def erlang_c(servers: int, load: float) -> float:
    """Share of the requests that wait."""
    offered = servers * load
    last = offered**servers / math.factorial(servers) / (1 - load)
    return last / (sum(offered**n / math.factorial(n) for n in range(servers)) + last)


def seed_of(queue: Queue, seed: int, share: float = 1.0) -> tuple[float, float, float, float]:
    """Of one seed: mean time in system, mean number inside, mean service, mean gap."""
    outputs = Lengths(float(MEAN_TOKENS), queue.spread)
    requests = int(queue.requests * share)
    source = Synthetic(Lengths(1.0), outputs, rate_per_s=queue.rate_per_s, requests=requests, seed=seed)
    rules = Scheduler(max_num_seqs=queue.servers or 10**6, max_num_batched_tokens=10**7)
    outcome = simulate(source, Setup(FixedClock(STEP_S), rules, NO_CACHE, 10**9))
    sent, stay = np.frombuffer(outcome.rows.sent_s), np.frombuffer(outcome.rows.e2e_s)
    inside = (outcome.window.running_s + outcome.window.waiting_s) / outcome.window.time_s
    service_s = float(np.mean(outcome.rows.output_tokens)) * STEP_S
    return float(stay[sent >= outcome.from_s].mean()), inside, service_s, outcome.arrivals_end_s / (requests - 1)


def interval(values: "np.ndarray", controls: "np.ndarray") -> tuple[float, float]:
    """Mean and half of its 99 % interval; controls (0 where they are as expected) are regressed out."""
    kept = controls[:, controls.std(axis=0) > 0]
    design = np.column_stack([np.ones(len(values)), kept])
    found, *_ = np.linalg.lstsq(design, values, rcond=None)
    free = len(values) - design.shape[1]
    rest = values - design @ found
    variance = float(rest @ rest) / free * float(np.linalg.inv(design.T @ design)[0, 0])
    return float(found[0]), STUDENT[free] * math.sqrt(variance)


def intervals(queue: Queue, rows: list[tuple[float, float, float, float]]) -> list[tuple[float, float, float, float]]:
    """Of time and of number inside: formula, mean, half-width, half-width with controls."""
    table = np.array(rows)
    controls = table[:, 2:] - np.array([1.0, 1 / queue.rate_per_s])
    found = []
    for column, formula in ((0, queue.time_s), (1, queue.time_s * queue.rate_per_s)):
        mean, half = interval(table[:, column], controls[:, :0])
        found.append((formula, mean, half, interval(table[:, column], controls)[1]))
    return found


def queues(processes: int, share: float) -> bool:
    """Print the table; whether every mean lies within its interval, and every interval is narrow."""
    good = True
    print(f"{SEEDS} seeds, 99 % interval of the mean over seeds, in % of the formula; exact lies within or not")
    heads = f"{'queue':14}{'load':>5}{'requests':>10}{'':>8}{'formula':>9}{'mean':>9}"
    print(f"{heads}{'off %':>8}{'half %':>8}{'controls':>9}")
    with ProcessPoolExecutor(processes) as pool:
        for queue in QUEUES:
            began = time.perf_counter()
            rows = list(pool.map(seed_of, [queue] * SEEDS, range(SEEDS), [share] * SEEDS))
            for name, (formula, mean, half, controlled) in zip(
                ("time s", "inside"), intervals(queue, rows), strict=True
            ):
                fine = abs(mean - formula) <= half <= MOST_HALF_WIDTH * formula
                good &= fine
                off, half_share, controlled_share = (100 * x / formula for x in (mean - formula, half, controlled))
                line = f"{queue.name:14}{queue.load:5.1f}{int(queue.requests * share):10,}{name:>8}{formula:9.4f}"
                line += f"{mean:9.4f}{off:+8.2f}{half_share:8.2f}{controlled_share:9.2f}"
                print(line if fine else f"{line}  outside", flush=True)
            print(f"{'':14}{time.perf_counter() - began:.0f} s", file=sys.stderr)
    return good


LOADS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.5)
TRAFFIC: dict[str, dict[str, Any]] = {
    "steady": {"process": "steady"},
    "poisson": {},
    "gamma 4": {"process": "gamma", "burstiness_ratio": 4.0},
    "periodic": {"process": "periodic", "peak_ratio": 1.8},  # five waves
}


def called_saturated(traffic: str, load: float, requests: int, seats: int, seed: int) -> bool:
    rate_per_s, more = load * seats, dict(TRAFFIC[traffic])
    if traffic == "periodic":
        more["period_s"] = requests / rate_per_s / 5
    source = Synthetic(Lengths(1.0), Lengths(100.0, 1.0), rate_per_s=rate_per_s, requests=requests, seed=seed, **more)
    return saturated(simulate(source, Setup(FixedClock(0.01), Scheduler(seats, 10**7), NO_CACHE, 10**9)))


def saturation(processes: int) -> None:
    """Print in how many of a hundred runs each load is called saturated."""
    print(f"{'traffic':10}{'requests':>9}" + "".join(f"{load:6}" for load in LOADS))
    with ProcessPoolExecutor(processes) as pool:
        for traffic in TRAFFIC:
            for requests, seeds in ((50, 50), (200, 50), (1000, 25), (5000, 5)):
                shares = []
                for load in LOADS:
                    runs = [(traffic, load, requests, seats, seed) for seats in (1, 16, 64) for seed in range(seeds)]
                    found = list(pool.map(called_saturated, *zip(*runs, strict=True), chunksize=10))
                    shares.append(100 * sum(found) / len(found))
                print(f"{traffic:10}{requests:9,}" + "".join(f"{share:6.0f}" for share in shares), flush=True)


class Sampler:
    """Where processor time goes: whether the innermost frame is in simpy."""

    def __init__(self) -> None:
        self.samples = self.inside = 0

    def __enter__(self) -> "Sampler":
        signal.signal(signal.SIGPROF, self._take)
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0, 0)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.samples += 1
        self.inside += frame is not None and "/simpy/" in frame.f_code.co_filename


def speed(model: str, hardware: str, rate_per_s: float, requests: int) -> bool:
    """Print how fast one simulation is; whether 100,000 requests take less than a minute."""
    request = Request(input_tokens=1000, output_tokens=300)
    ready = simulated(build(resolve_model(model), resolve_hardware(hardware), request).scenario, Asked())
    if not isinstance(ready, Simulated):
        sys.exit(f"no estimate: {ready}")
    lengths = [Lengths(mean, 1.0, most_tokens=int(mean) * 20) for mean in (1000.0, 300.0)]
    source = Synthetic(*lengths, rate_per_s=rate_per_s, requests=requests)
    before_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began, busy = time.perf_counter(), time.process_time()
    with Sampler() as sampler:
        outcome = simulate(source, ready.setup)
    took_s, busy_s = time.perf_counter() - began, time.process_time() - busy
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = summary(outcome)
    print(f"{model} on {hardware}, {rate_per_s:g} requests/s: {requests:,} requests, {outcome.total.steps:,} steps")
    print(f"effective batch {found.effective_batch:.1f}, busy {found.busy_share:.0%}, saturated {found.saturated}")
    each = f"{requests / busy_s:,.0f} requests/s, {1e6 * busy_s / requests:.0f} us each"
    print(f"{took_s:.1f} s, {busy_s:.1f} s of one core: {each}")
    print(f"{sampler.inside / max(1, sampler.samples):.0%} of it in simpy ({sampler.samples:,} samples)")
    added_mib = peak_mib - before_mib
    of_run = f"{added_mib:.0f} MiB of it the run, {added_mib * 2**20 / requests:.0f} bytes a request"
    print(f"peak memory {peak_mib:.0f} MiB ({of_run})")
    return busy_s / requests <= TARGET_S_PER_REQUEST


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of simulations, and queues that have formulas.")
    parser.add_argument("--queues", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--share", type=float, default=1.0, help="of the requests of each queue")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--model", default="70b")
    parser.add_argument("--hw", default="h100:4")
    parser.add_argument("--rate", type=float, default=8.0)
    parser.add_argument("--saturation", action="store_true")
    options = parser.parse_args()
    if options.saturation:
        saturation(options.processes)
        return
    if options.queues:
        sys.exit(0 if queues(options.processes, options.share) else 1)
    sys.exit(0 if speed(options.model, options.hw, options.rate, options.requests) else 1)


if __name__ == "__main__":
    main()
