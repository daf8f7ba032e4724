"""Traffic that comes by itself: a real server is sent the requests of a trace, each at its time, and `simulate --trace`
gets the same file and a calibration by two runs of that server: one request alone, and sixteen at once.

What no clock has a part in (preemptions and steps of a crowd, tokens found in the prefix cache) is exact. Times are
judged where nobody else used the machine: the middle of three rounds of the same traffic with other tokens, for the
engine makes kernels for numbers of tokens that it has not met, and one round of bursts differs from the next.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infopt.arrivals.arrival import Arrival
from infopt.arrivals.synthetic import Lengths, SharedPrefix, Synthetic
from infopt.hardware.calibrate import resolve_calibrated
from infopt.profiles.resolve import resolve_model
from infopt.simulation.deployment import simulate
from infopt.simulation.outcome import Outcome
from infopt.studies.offered import Offer, offered
from infopt.studies.planning import plan
from infopt.studies.scenarios import Request
from infopt.studies.simulate import Choices, Job, ready_of
from tests.engine.calibrated import HERE, PROMPT, Loads, Measured, add_to
from tests.engine.figures import Figures
from tests.engine.fleet import Fleet
from tests.engine.planned import Infopt, planned
from tests.engine.setups import CONFIGS
from tests.engine.traffic import Run, send_trace, wave, write_trace

Observe = Callable[..., dict[str, Any]]
# The two runs: the longest prompt that is asked about, alone, for a step of traffic holds several shorter ones and a
# processor takes longer for a token of many; then answers as many as come together.
ALONE, ALONE_OUTPUT, ALONE_ROUNDS, TOGETHER = 300, 20, 3, 16
INPUTS, OUTPUTS = (
    Lengths(counted=(32, 48, 64, 96, 128, 160, 200, 256, 300)),
    Lengths(counted=(8, 12, 16, 24, 32, 48, 64)),
)
ROUNDS = 3
# 20 % is the aim. A tenth too much in a step is a third too much in a wait at half load, and two thirds at 80 %, so
# streams are held to what their load makes of such steps; the aim was missed once in bursts (25 %, docs/simulate.md).
TPOT, RATE = 0.20, 0.15
# A crowd: all come while the first prompt is computed, one well after the other, so that their order is theirs.
FIRST, FIRST_OUTPUT, COME_S, APART_S = 1200, 2, 0.05, 0.02
CROWD_INPUTS, CROWD_OUTPUTS = (100, 120, 200, 230, 240, 250), (30, 60, 90, 120, 150)


@dataclass(frozen=True)
class Stream:
    """Requests at a rate that is a share of what the server can serve."""

    share: float
    source: Synthetic
    ttft_error: float

    def at(self, rate_per_s: float) -> list[Arrival]:
        """The requests, the first of them at once."""
        found = list(replace(self.source, rate_per_s=rate_per_s).stream())
        return [replace(one, time_s=one.time_s - found[0].time_s) for one in found]


STREAMS = {
    "by chance at 50%": Stream(0.5, Synthetic(INPUTS, OUTPUTS, requests=60, seed=1), ttft_error=0.25),
    "bursts at 80%": Stream(
        0.8,
        Synthetic(
            INPUTS,
            OUTPUTS,
            process="gamma",
            burstiness_ratio=2.0,
            requests=80,
            shared=SharedPrefix(128, prefixes=4, skew=1.0),
            seed=2,
        ),
        ttft_error=0.40,
    ),
}


@dataclass(frozen=True)
class Beside:
    """A stream as the server served it each time, and as it was simulated.

    said  what the command prints
    """

    runs: tuple[Run, ...]
    outcome: Outcome
    said: dict[str, Any]

    @property
    def calm(self) -> list[Run]:
        """Those that nobody disturbed, the quickest first."""
        return sorted((run for run in self.runs if run.load.disturbed is None), key=lambda run: run.load.ttft_s())

    @property
    def middle(self) -> Run:
        """The round that is judged."""
        chosen = self.calm or self.runs
        return chosen[(len(chosen) - 1) // 2]

    @property
    def spread(self) -> float:
        """How far mean first tokens of the rounds are apart."""
        times_s = [run.load.ttft_s() for run in self.calm or self.runs]
        return (max(times_s) - min(times_s)) / self.middle.load.ttft_s()

    @property
    def contended(self) -> str | None:
        """Why its times are not judged."""
        return (
            None if 2 * len(self.calm) > len(self.runs) else self.runs[-1].load.disturbed or self.runs[0].load.disturbed
        )


def outcome_of(name: str, models: dict[str, Path], record: Path, file: Path) -> Outcome:
    """A trace simulated as the command does, with its counts of steps, which the command does not print."""
    config, model = CONFIGS[name], resolve_model(str(models[CONFIGS[name].shape]))
    request = Request(
        context_tokens=config.context,
        engine_version="0.32.0",
        kv_pool_bytes=config.pool_bytes,
        max_num_seqs=config.sequences,
    )
    hardware, arriving = resolve_calibrated(HERE, str(record)), offered(Offer(trace=str(file)), model, request)
    choices = Choices(prefix_caching=config.prefix_caching)
    job = Job(model, hardware, arriving.request, arriving.source, choices)
    return simulate(arriving.source, ready_of(job, plan(model, hardware, arriving.request)).setup)


def simulated(infopt: Infopt, name: str, models: dict[str, Path], record: Path, file: Path) -> dict[str, Any]:
    """What `infopt simulate` prints of it."""
    config = CONFIGS[name]
    caching = "--prefix-caching" if config.prefix_caching else "--no-prefix-caching"
    more = ["--max-num-seqs", config.sequences, caching, "--trace", file]
    hardware = ["--hw", HERE, "--calibration", record]
    return planned(infopt, name, models, command=("simulate",), more=more, hardware=hardware, status=None)


@pytest.fixture(scope="module")
def two_runs(serving: Fleet, loads: Loads) -> dict[int, Measured]:
    """What the calibration is given, by requests at once."""
    with serving["real"].running() as server:
        alone = tuple(wave(server, 1, ALONE, ALONE_OUTPUT, 500 + seed).load for seed in range(ALONE_ROUNDS))
    return {1: Measured(alone), TOGETHER: loads["real", TOGETHER]}


def record_of(runs: dict[int, Measured], infopt: Infopt, models: dict[str, Path], folder: Path) -> Path:
    """A calibration by these runs; a batch that was disturbed is left out, and nothing is judged then."""
    record = folder / "record.yaml"
    for batch, held in runs.items():
        if batch == 1 or held.contended is None:
            add_to(record, infopt, models, "real", held.middle, ALONE if batch == 1 else PROMPT)
    return record


@pytest.fixture(scope="module")
def streams(
    serving: Fleet,
    two_runs: dict[int, Measured],
    infopt: Infopt,
    models: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Beside]:
    """Every stream, sent and simulated."""
    folder = tmp_path_factory.mktemp("streams")
    record = record_of(two_runs, infopt, models, folder)
    found = {}
    for number, (name, stream) in enumerate(STREAMS.items()):
        pattern = write_trace(folder / "pattern.csv", stream.at(1.0))
        most_per_s = simulated(infopt, "real", models, record, pattern)["saturation"]["rate_per_s"]
        file = write_trace(folder / f"{number}.csv", stream.at(stream.share * most_per_s))
        with serving["real"].running() as server:
            runs = tuple(send_trace(server, file, seed) for seed in range(ROUNDS))
        said = simulated(infopt, "real", models, record, file)
        found[name] = Beside(runs, outcome_of("real", models, record, file), said)
    return found


def times_of(seconds: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles."""
    p50, p90 = np.percentile(seconds, (50, 90))
    return {"mean": float(np.mean(seconds)), "p50": float(p50), "p90": float(p90)}


@pytest.mark.parametrize("name", STREAMS)
def test_tokens_that_prompts_find(name: str, streams: dict[str, Beside], observed: Observe, figures: Figures) -> None:
    """Prompts that begin alike while others are computed: as many tokens found, and nobody preempted."""
    found, seen = streams[name], observed(streams[name].runs[0])
    rows = found.outcome.rows
    hits = seen["prefix_hit_share"] * seen["prompt_tokens"]
    figures.add("trace", name, "found_tokens", hits, sum(rows.found_tokens))
    assert seen["requests"] == len(rows)
    assert hits == pytest.approx(sum(rows.found_tokens), abs=0.5)
    assert found.said["prefix_hit_share"] == pytest.approx(sum(rows.found_tokens) / sum(rows.input_tokens))
    assert seen["preemptions"] == found.said["preemptions"] == 0
    assert (hits > 0) is (STREAMS[name].source.shared is not None)


@pytest.mark.parametrize("name", STREAMS)
def test_times_of_a_trace(
    name: str,
    streams: dict[str, Beside],
    two_runs: dict[int, Measured],
    observed: Observe,
    figures: Figures,
) -> None:
    """First tokens, time per token and tokens per second of a stream that nothing of was measured before."""
    found, seen = streams[name], observed(streams[name].middle)
    load, rows, total = found.middle.load, found.outcome.rows, found.outcome.total
    why = next((why for why in (found.contended, *(held.contended for held in two_runs.values())) if why), None)
    measured = {
        "ttft_s": times_of([one.ttft_s for one in load.answers]),
        "tpot_s": times_of([one.tpot_s for one in load.answers]),
        "e2e_s": times_of([one.e2e_s for one in load.answers]),
    }
    predicted = {quantity: times_of(getattr(rows, quantity)) for quantity in measured}
    for quantity, times in measured.items():
        for which, seconds in times.items():
            note = why or f"rounds differ by {found.spread:.0%}"
            figures.add("trace", f"{name} {which}", quantity, seconds, predicted[quantity][which], note=note)
    first_s = min(one.sent_s for one in load.answers)
    time_s = max(one.chunks[-1][0] for one in load.answers) - first_s
    rates = load.tokens() / time_s, total.output_tokens / total.time_s
    figures.add("trace", name, "output_tokens_per_s", *rates, note=why or "")
    figures.add("trace", name, "steps", seen["steps"], total.steps)
    figures.add("trace", name, "effective_batch", seen["effective_batch"], total.output_tokens / total.steps)
    assert found.said["tpot_s"]["mean"] == pytest.approx(predicted["tpot_s"]["mean"])
    if why is not None:
        pytest.skip(f"contended: {why}")
    assert predicted["ttft_s"]["mean"] == pytest.approx(measured["ttft_s"]["mean"], rel=STREAMS[name].ttft_error)
    assert predicted["tpot_s"]["mean"] == pytest.approx(measured["tpot_s"]["mean"], rel=TPOT)
    assert rates[1] == pytest.approx(rates[0], rel=RATE)


def crowd() -> list[Arrival]:
    """Requests of mixed lengths, more than the pool can hold to their ends."""
    draw = random.Random(12)
    rest = (
        Arrival(COME_S + APART_S * number, draw.choice(CROWD_INPUTS), draw.choice(CROWD_OUTPUTS))
        for number in range(CONFIGS["small"].sequences - 1)
    )
    return [Arrival(0.0, FIRST, FIRST_OUTPUT), *rest]


def test_preemptions_of_a_crowd(
    starts: Fleet,
    infopt: Infopt,
    observed: Observe,
    models: dict[str, Path],
    figures: Figures,
    tmp_path: Path,
) -> None:
    """Who is preempted, and how many steps all take, whatever a step takes: one request calibrates it."""
    record, file = tmp_path / "record.yaml", write_trace(tmp_path / "crowd.csv", crowd())
    with starts["small"].running() as server:
        add_to(record, infopt, models, "small", wave(server, 1, ALONE, ALONE_OUTPUT).load, ALONE)
        run = send_trace(server, file, seed=1)
    seen, said = observed(run), simulated(infopt, "small", models, record, file)
    total = outcome_of("small", models, record, file).total
    figures.add("trace", "crowd", "preemptions", seen["preemptions"], said["preemptions"])
    figures.add("trace", "crowd", "steps", seen["steps"], total.steps)
    first = run.load.answers[0]
    late_s = max(one.sent_s for one in run.load.answers) - first.chunks[0][0]
    if late_s > 0:
        pytest.skip(f"contended: the last request was sent {late_s:.2f} s after the first prompt was computed")
    assert seen["preemptions"] == said["preemptions"] > 0
    assert seen["steps"] == total.steps
