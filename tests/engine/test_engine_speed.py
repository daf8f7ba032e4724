"""A calibration of two sizes and one batch curve, made from a client's results, against models it has not seen.

SmolLM2-135M and the 1.1B geometry are measured at batch 1, the latter at larger batches too; `observe --calibrate` puts
the steps into a record, and `plan --calibration` says what the 0.5B geometry, one of our
own, and SmolLM2 at larger batches take. Steps of batch 1 are measured in rounds, one model after the other, so that a
machine that slows down slows all of them down. Where equal steps differ by more than CONTENDED between rounds, or steps
of one load among themselves (UNEVEN), others use the machine, and that timing is not judged.
"""

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.figures import Figures
from tests.engine.load import Load
from tests.engine.planned import Fleet, Infopt, planned
from tests.engine.traffic import wave

PROMPT, OUTPUT = 32, 16
HERE = "cpu:40GB/s"  # this machine; its bandwidth makes floors only, and one core reads less than that
ROUNDS = 3
NAMES = ("real", "one", "half", "own")
WAVES = {"real": (2, 4, 8, 16), "one": (4, 8, 16), "half": (4, 8, 16), "own": (4, 8, 16)}
# What the calibration is given; everything else is predicted.
GIVEN = (("real", 1), ("one", 1), ("one", 4), ("one", 8), ("one", 16))
UNSEEN = tuple((name, batch) for name in ("half", "own") for batch in (1, 4, 8, 16))
PREDICTED = (*UNSEEN, *(("real", batch) for batch in (1, 2, 4, 8, 16)))
CONTENDED, UNEVEN = 0.10, 1.3
STEP_ERROR, BATCH_ERROR = 0.10, 0.20
HALF_WIDTH, TTFT_RATIO = 0.30, 3.0


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
    def contended(self) -> str | None:
        """Why its times are not judged."""
        steps = [load.step_s() for load in self.loads]
        if max(steps) / min(steps) - 1 > CONTENDED:
            return f"equal steps took {1e3 * min(steps):.1f} to {1e3 * max(steps):.1f} ms"
        tail = self.middle.tail_ratio()
        return f"90th percentile of steps {tail:.2f} times the median" if tail > UNEVEN else None


Loads = Mapping[tuple[str, int], Measured]


@pytest.fixture(scope="module")
def loads(serving: Fleet) -> Loads:
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
                found[name, batch] = Measured((wave(server, batch, PROMPT, OUTPUT, batch).load,))
    return found


@pytest.fixture(scope="module")
def record(loads: Loads, infopt: Infopt, models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The calibration."""
    folder = tmp_path_factory.mktemp("calibration")
    path, result = folder / "record.yaml", folder / "result.json"
    for name, batch in GIVEN:
        result.write_text(json.dumps(loads[name, batch].middle.bench_result(name, PROMPT)))
        more = ["--batch", batch, "--calibrate", path]
        planned(infopt, name, models, command=("observe", result), more=more, hardware=("--hw", HERE), status=None)
    return path


def predicted(infopt: Infopt, models: dict[str, Path], record: Path, name: str, batch: int) -> dict[str, float]:
    """The estimate of a plan."""
    hardware = ["--hw", HERE, "--calibration", record]
    load = ["--isl", PROMPT, "--osl", OUTPUT, "--batch", batch]
    found = planned(infopt, name, models, more=load, hardware=hardware)["estimate"]
    assert found["tpot_s"] is not None, found["reason"]
    return {key: value for key, value in found.items() if isinstance(value, float)}


def judged(loads: Loads, name: str, batch: int) -> None:
    """Skip where neither this timing nor what it is predicted from says anything."""
    for key in ((name, batch), *GIVEN):
        why = loads[key].contended
        if why is not None:
            pytest.skip(f"contended: {key[0]} at {key[1]}: {why}")


@pytest.mark.parametrize(("name", "batch"), PREDICTED)
def test_step(
    name: str,
    batch: int,
    loads: Loads,
    record: Path,
    infopt: Infopt,
    models: dict[str, Path],
    figures: Figures,
) -> None:
    """TPOT: of models not seen within 10 % at batch 1 and 20 % at others; inside its interval, which is no wider than
    it may be; TTFT inside its range."""
    held, said = loads[name, batch], predicted(infopt, models, record, name, batch)
    case = f"{name} at {batch}"
    for quantity, value in (("tpot", held.tpot_s), ("ttft", held.ttft_s)):
        low, high = (said[f"{quantity}_{end}_s"] for end in ("low", "high"))
        figures.add("speed", case, f"{quantity}_s", value, said[f"{quantity}_s"], low, high, held.contended or "")
    judged(loads, name, batch)
    if (name, batch) in UNSEEN:
        assert said["tpot_s"] == pytest.approx(held.tpot_s, rel=STEP_ERROR if batch == 1 else BATCH_ERROR)
    assert said["tpot_low_s"] <= held.tpot_s <= said["tpot_high_s"]
    assert (said["tpot_high_s"] - said["tpot_low_s"]) / 2 <= HALF_WIDTH * said["tpot_s"]
    assert said["ttft_low_s"] <= held.ttft_s <= said["ttft_high_s"]
    assert said["ttft_high_s"] <= TTFT_RATIO * said["ttft_low_s"]
