"""The two engines: atheris, guided by the lines that an input reaches, and ours, guided by what is answered.

Ours needs nothing that is not installed for tests, and one seed draws the same inputs everywhere. An input with an
outcome that was not seen before joins those that others are made from.
"""

import importlib.util
import json
import os
import random
import time
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fuzz.mutation import mutated
from fuzz.target import Target
from fuzz.watch import Seen, shrunk, watched

MOST_POOL = 2_000
SLICE_S = 0.1
REPORT_EVERY_S = 1.0


def has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


@dataclass
class Tally:
    """What was done to one target."""

    inputs: int = 0
    outcomes: int = 0
    longest_s: float = 0.0
    most_bytes: int = 0
    broken: dict[str, dict[str, Any]] = field(default_factory=dict)


class Run:
    """Tallies of a run, written as it goes, with the input that is being read: a process that dies leaves both."""

    def __init__(self, targets: list[Target], report: Path) -> None:
        self.targets = targets
        self.report = report
        self.tallies = {target.name: Tally() for target in targets}
        self.outcomes: dict[str, set[str]] = {target.name: set() for target in targets}
        self.current = os.open(report.with_suffix(".input"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._written_s = 0.0

    def give(self, target: Target, data: bytes) -> Seen:
        """Give one input to a target and keep what is broken; the input is kept until it has been read."""
        os.pwrite(self.current, data, 0)
        os.ftruncate(self.current, len(data))
        seen = watched(target, data)
        tally = self.tallies[target.name]
        tally.inputs += 1
        tally.longest_s = max(tally.longest_s, seen.seconds)
        tally.most_bytes = max(tally.most_bytes, seen.grown_bytes)
        self.outcomes[target.name].add(seen.outcome)
        tally.outcomes = len(self.outcomes[target.name])
        if seen.broken and seen.broken not in tally.broken:
            small = shrunk(target, data, seen.broken)
            tally.broken[seen.broken] = {"trace": seen.trace, "input": small.decode("latin-1")}
        if time.monotonic() - self._written_s > REPORT_EVERY_S:
            self.write()
        return seen

    def write(self) -> None:
        self._written_s = time.monotonic()
        tallies = {name: asdict(tally) for name, tally in self.tallies.items()}
        beside = self.report.with_suffix(".new")
        beside.write_text(json.dumps({"targets": tallies}), encoding="utf-8")
        beside.replace(self.report)


def random_of(target: Target, seed: int) -> random.Random:
    """Random numbers of one target: the same whatever the others do."""
    return random.Random(seed * 2**32 + zlib.crc32(target.name.encode()))


def run_own(run: Run, seconds: float, seed: int) -> None:
    """Changed seeds: targets take turns until the time is over."""
    end = time.monotonic() + seconds
    draws = {target.name: random_of(target, seed) for target in run.targets}
    pools = {target.name: target.seeds() or [b""] for target in run.targets}
    while time.monotonic() < end:
        for target in run.targets:
            until = min(end, time.monotonic() + SLICE_S)
            while time.monotonic() < until:
                _one(run, target, pools[target.name], draws[target.name])
    run.write()


def _one(run: Run, target: Target, pool: list[bytes], rng: random.Random) -> None:
    data = mutated(target.form, rng.choice(pool), rng.choice(pool), rng)
    before = len(run.outcomes[target.name])
    run.give(target, data)
    if len(run.outcomes[target.name]) > before and len(pool) < MOST_POOL:
        pool.append(data)


def run_atheris(run: Run, seconds: float, seed: int, folder: Path) -> None:
    """One target in this process, until the time is over; ends the process.

    Half of the changes are ours, half libFuzzer's own, which knows what the code compared its input with.
    """
    import atheris

    (target,) = run.targets
    end = time.monotonic() + seconds
    seeds = target.seeds() or [b""]
    with atheris.instrument_imports(include=["infopt"]):
        for data in seeds:  # modules are imported where they are needed: what is imported later is not watched
            run.give(target, data)

    def one(data: bytes) -> None:
        run.give(target, data)
        if time.monotonic() > end:
            run.write()
            os._exit(0)  # libFuzzer has no other way to be told

    def change(data: bytes, most: int, number: int) -> bytes:
        rng = random.Random(number)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(data, most))
        return mutated(target.form, data, rng.choice(seeds), rng)[:most]

    for number, data in enumerate(seeds):
        (folder / f"seed{number}").write_bytes(data)
    limits = [
        f"-seed={seed}",
        "-max_len=100000",
        "-timeout=300",
        "-rss_limit_mb=0",
        "-verbosity=0",
        "-print_final_stats=0",
    ]
    atheris.Setup(["fuzz", *limits, str(folder)], one, custom_mutator=change)
    atheris.Fuzz()
