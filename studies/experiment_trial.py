"""One try of the ladder: a job with one knob at another value, simulated over seeds, as a saved run.

Seeds draw the traffic anew; the same seeds serve every try, so differences are paired. A trace has one order of
requests: its parts stand in the place of seeds.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from infopt.arrivals.arrival import Source
from infopt.errors import InfoptError, UndeterminedError
from infopt.frozen import dataclass
from infopt.studies.experiment_variables import Scalar
from infopt.studies.saved_run import Repetition, Repetitions, Requests, SavedRun, mean_metrics
from infopt.studies.saved_simulation import run_of, seed_of
from infopt.studies.simulate import Job, Simulation
from infopt.studies.simulate_many import Failed, run_many

# Knobs and the field of the plan's request, or of the simulation's choices, that sets them.
OF_REQUEST = {
    "weights": "weights",
    "kv": "kv",
    "tp": "tp",
    "pp": "pp",
    "dp": "dp",
    "gpus": "gpus",
    "utilization": "utilization",
    "context_tokens": "context_tokens",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
}
OF_CHOICES = {"prefix_caching": "prefix_caching"}


@dataclass(frozen=True, slots=True)
class Tried:
    """A job and what became of it: a run with the simulation of its first seed, or why there is none.

    status  of the error: 1 does not fit, 2 cannot be, 4 undetermined
    """

    job: Job
    run: SavedRun | None
    simulation: Simulation | None
    reason: str = ""
    status: int = 0

    @property
    def found(self) -> tuple[SavedRun, Simulation]:
        """Both; of one that has them."""
        assert self.run is not None
        assert self.simulation is not None
        return self.run, self.simulation


def with_knobs(job: Job, values: dict[str, Scalar]) -> Job:
    """The job with knobs at other values. Errors: InfoptError for a knob that no job has."""
    request: dict[str, Any] = {}
    choices: dict[str, Any] = {}
    for name, value in values.items():
        if name in OF_REQUEST:
            request[OF_REQUEST[name]] = value
        elif name in OF_CHOICES:
            choices[OF_CHOICES[name]] = value
        else:
            raise InfoptError(f"{name}: no knob that a simulation can try")
    made = replace(job.request, **request)
    return replace(job, request=replace(made, batch=made.dp), choices=replace(job.choices, **choices))


def reseeded(source: Source, seed: int) -> Source:
    """The same description of traffic, drawn anew; a trace stays as it is."""
    given: dict[str, Any] = {}
    names = {field.name for field in dataclasses.fields(source)}  # type: ignore[arg-type]
    if "seed" in names:
        given["seed"] = seed
    if "source" in names:
        given["source"] = reseeded(source.source, seed)  # type: ignore[attr-defined]
    return replace(source, **given) if given else source  # type: ignore[type-var]


def seeded(job: Job, seeds: int) -> list[Job]:
    """The job with so many seeds, from its own on; one with rows where nothing is drawn."""
    first = seed_of(job.source)
    if first is None:
        return [replace(job, choices=replace(job.choices, keep_rows=True, saturation=False))]
    plain = replace(job.choices, keep_rows=False, saturation=False)
    return [
        replace(job, source=reseeded(job.source, seed), choices=replace(plain, seed=seed))
        for seed in range(first, first + seeds)
    ]


def tried(job: Job, seeds: int, workers: int | None = None) -> Tried:
    """The job over its seeds."""
    return several([job], seeds, workers)[0]


def several(jobs: Sequence[Job], seeds: int, workers: int | None = None) -> list[Tried]:
    """Each job over its seeds, all of them at once."""
    each = [seeded(job, seeds) for job in jobs]
    found = iter(run_many([job for group in each for job in group], workers))
    return [_joined(job, [next(found) for _ in group]) for job, group in zip(jobs, each, strict=True)]


def _joined(job: Job, found: Sequence[Simulation | Failed]) -> Tried:
    good = []
    for one in found:
        if isinstance(one, Failed):
            return Tried(job, None, None, one.text, one.exit_status)
        good.append(one)
    return Tried(job, joined([run_of(one) for one in good]), good[0])


def joined(runs: Sequence[SavedRun]) -> SavedRun:
    """Runs of several seeds as one with repetitions; a single one as it is."""
    first = runs[0]
    if len(runs) == 1:
        return first
    repeated = [Repetition(key=f"seed-{one.seed}", requests=one.requests.count, metrics=one.metrics) for one in runs]
    return first.model_copy(
        update={
            "saturated": any(one.saturated for one in runs),
            "traffic": first.traffic.model_copy(update={"sha256": None}),
            "requests": Requests(count=sum(one.requests.count for one in runs)),
            "metrics": mean_metrics([one.metrics for one in runs]),
            "repetitions": Repetitions(kind="seeds", runs=repeated),
        }
    )


def needed(tried_one: Tried) -> tuple[SavedRun, Simulation]:
    """What was found, or the error of the command. Errors: InfoptError with the status of why there is none."""
    if tried_one.run is None:
        error = UndeterminedError(tried_one.reason) if tried_one.status == 4 else InfoptError(tried_one.reason)
        error.exit_status = tried_one.status
        raise error
    return tried_one.found
