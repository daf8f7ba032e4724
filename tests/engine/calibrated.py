"""What the engine is measured with for a calibration, and the calibration: two sizes alone, one of them in batches.

SmolLM2-135M and the 1.1B geometry are measured at batch 1, the latter at larger batches too; `observe --calibrate` puts
the steps of a client's results into a record. Steps of batch 1 are measured in rounds, one model after the other, so
that a machine that slows down slows all of them down.
"""

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.engine.fleet import Fleet
from tests.engine.load import Load
from tests.engine.planned import Infopt, planned
from tests.engine.server import EngineServer
from tests.engine.traffic import wave

PROMPT, OUTPUT = 32, 20
HERE = "cpu:40GB/s"  # this machine; its bandwidth makes floors only, and one core reads less than that
ROUNDS = 3
# Of batches; the largest model, whose batches are only given, takes longest.
BATCH_ROUNDS = {"real": 2, "one": 1, "half": 2, "own": 2}
MOST_ROUNDS = 4
NAMES = ("real", "one", "half", "own")
WAVES = {"real": (2, 4, 8, 16), "one": (4, 8, 16), "half": (4, 16), "own": (4, 16)}
# What the calibration is given; everything else is predicted.
GIVEN = (("real", 1), ("one", 1), ("one", 4), ("one", 8), ("one", 16))
# The same with the batches of the small model too: both ends of the sizes have a curve, so intervals may be asked for.
CURVES = (*GIVEN, ("real", 4), ("real", 8), ("real", 16))
# Equal steps whose median is this far above the least, or a 90th percentile so many times the median: others are here.
CONTENDED, UNEVEN = 0.10, 1.3


@dataclass(frozen=True)
class Measured:
    """Loads of one model at one batch."""

    loads: tuple[Load, ...]

    @property
    def tpot_s(self) -> float:
        return statistics.median(load.tpot_s() for load in self.loads)

    @property
    def ttft_s(self) -> float:
        return statistics.median(load.ttft_s() for load in self.loads)

    @property
    def middle(self) -> Load:
        """The load in the middle."""
        return sorted(self.loads, key=Load.step_s)[len(self.loads) // 2]

    @property
    def spread(self) -> float:
        """How far equal loads are apart: nothing can be told better than that."""
        times = [load.tpot_s() for load in self.loads]
        return (max(times) - min(times)) / statistics.median(times)

    @property
    def contended(self) -> str | None:
        """Why its times are not judged."""
        calm = [load for load in self.loads if load.disturbed is None]
        if 2 * len(calm) < len(self.loads):
            return max(self.loads, key=lambda load: load.others_share).disturbed
        steps = [load.step_s() for load in self.loads]
        # One disturbed round of three does not matter.
        if sorted(steps)[len(steps) // 2] / min(steps) - 1 > CONTENDED:
            return f"equal steps took {1e3 * min(steps):.1f} to {1e3 * max(steps):.1f} ms"
        tail = self.middle.tail_ratio()
        return f"90th percentile of steps {tail:.2f} times the median" if tail > UNEVEN else None


Loads = Mapping[tuple[str, int], Measured]


def measure(serving: Fleet) -> Loads:
    """Every model alone, in rounds, then several requests at once."""
    rounds: dict[str, list[Load]] = {name: [] for name in NAMES}
    for seed in range(ROUNDS):
        for name in NAMES:
            with serving[name].running() as server:
                rounds[name].append(wave(server, 1, PROMPT, OUTPUT, seed).load)
    found = {(name, 1): Measured(tuple(held)) for name, held in rounds.items()}
    for name, batches in WAVES.items():
        with serving[name].running() as server:
            for batch in batches:
                found[name, batch] = settled(server, batch, BATCH_ROUNDS[name])
    return found


def settled(server: EngineServer, batch: int, rounds: int) -> Measured:
    """Equal loads until the last ones are even and agree; all of them, which are then not judged, where they never do.

    Requests that arrive a step apart make a load uneven, whoever else uses the machine.
    """
    loads: list[Load] = []
    for seed in range(MOST_ROUNDS):
        loads.append(wave(server, batch, PROMPT, OUTPUT, batch + seed).load)
        last = Measured(tuple(load for load in loads if load.tail_ratio() <= UNEVEN)[-rounds:])
        if len(last.loads) == rounds and last.contended is None:
            return last
    return Measured(tuple(loads))


def calibrate(
    given: tuple[tuple[str, int], ...], loads: Loads, infopt: Infopt, models: dict[str, Path], folder: Path
) -> Path:
    """A record, written by `observe --calibrate`."""
    path = folder / "record.yaml"
    for name, batch in given:
        if loads[name, batch].contended is None:  # else refused as a step perhaps; no test judges what lacks it
            add_to(path, infopt, models, name, loads[name, batch].middle, PROMPT)
    return path


def add_to(path: Path, infopt: Infopt, models: dict[str, Path], name: str, load: Load, prompt: int) -> None:
    """One load of equal prompts into a record."""
    result = path.with_name("result.json")
    result.write_text(json.dumps(load.bench_result(name, prompt)))
    more = ["--batch", load.concurrency, "--calibrate", path]
    planned(infopt, name, models, command=("observe", result), more=more, hardware=("--hw", HERE))


def contended(loads: Loads, *also: tuple[str, int]) -> str | None:
    """Why neither the calibration nor these timings say anything; None where they do."""
    for name, batch in (*also, *CURVES):
        why = loads[name, batch].contended
        if why is not None:
            return f"contended: {name} at {batch}: {why}"
    return None
