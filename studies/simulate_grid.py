"""Many configurations under the same traffic: which of them keep up, and the best of those.

    usd per million tokens = usd per hour / (output tokens/s (1 - wasted share) 3600) 1e6
Best is, of those that keep up: the cheapest token (else the fewest devices), to NEAR; of these the largest share within
the targets, to SHARE_STEP; of these the shortest mean answer. Requests are the same for all wherever what is varied
does not change them, so that what differs is not chance.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from infopt.frozen import dataclass
from infopt.ledgers.cost import usd_per_million_tokens
from infopt.studies.simulate import Job, Simulation
from infopt.studies.simulate_many import Failed, run_many

# Costs and shares nearer than these are equal: the measured time ends a little differently.
NEAR = 1.02
SHARE_STEP = 0.001


@dataclass(frozen=True, slots=True)
class Grid:
    """Configurations in order.

    names   what is varied
    values  of each configuration, as they were given
    """

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    found: tuple[Simulation | Failed, ...]

    @property
    def best(self) -> int | None:
        """Position of the best configuration; None where none keeps up."""
        return best_of(self.found)

    @property
    def exit_status(self) -> int:
        """0 where one keeps up, 1 where none does, else that of what was in the way of all."""
        if self.best is not None:
            return 0
        return max(one.exit_status if isinstance(one, Failed) else 1 for one in self.found) if self.all_failed else 1

    @property
    def all_failed(self) -> bool:
        return all(isinstance(one, Failed) for one in self.found)


def simulated_grid(
    names: Sequence[str],
    values: Sequence[Sequence[str]],
    jobs: Sequence[Job | Failed],
    workers: int | None = None,
    scheduler: str | None = None,
) -> Grid:
    """All configurations; those that could not be made stay as they failed. Saturation is not sought."""
    made = [position for position, job in enumerate(jobs) if not isinstance(job, Failed)]
    asked = [_lean(job) for job in jobs if not isinstance(job, Failed)]
    results: dict[int, Simulation | Failed] = dict(zip(made, run_many(asked, workers, scheduler), strict=True))
    found = tuple(job if isinstance(job, Failed) else results[position] for position, job in enumerate(jobs))
    return Grid(tuple(names), tuple(map(tuple, values)), found)


def _lean(job: Job) -> Job:
    """Without what a table does not show, for it takes as long as the rest."""
    return replace(job, choices=replace(job.choices, saturation=False, hits=False, keep_rows=False))


def usd_per_million(s: Simulation) -> float | None:
    """US dollars per million output tokens that were read."""
    read_per_s = s.summary.output_tokens_per_s * (1 - s.summary.wasted_share)
    return usd_per_million_tokens(s.usd_per_hour, read_per_s) if s.usd_per_hour is not None and read_per_s else None


def best_of(found: Sequence[Simulation | Failed]) -> int | None:
    """Position of the best, None where none keeps up."""
    good = [(position, s) for position, s in enumerate(found) if isinstance(s, Simulation) and s.keeps_up]
    if not good:
        return None
    costs = [usd_per_million(s) for _, s in good]
    priced = all(cost is not None for cost in costs)
    cost: Callable[[Simulation], float] = (lambda s: usd_per_million(s) or 0.0) if priced else (lambda s: float(s.gpus))
    least = min(cost(s) for _, s in good)
    good = [(position, s) for position, s in good if cost(s) <= least * NEAR]
    most = max(s.good_share for _, s in good)
    good = [(position, s) for position, s in good if s.good_share >= most - SHARE_STEP]
    return min(good, key=lambda one: one[1].summary.e2e_s.mean if one[1].summary.e2e_s else 0.0)[0]
