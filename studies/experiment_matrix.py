"""Document 2's workload matrix (section 15) through one deployment: which kind of traffic breaks it, and how soon.

Every cell is simulated at the same rate with the same seed, so two cells that differ in one thing differ by it.
    holds      it keeps up, and the share of requests that is asked for is within the targets
    headroom   the most requests a second that it serves of this cell's kind over the rate asked
    breaks first  of the cells that do not hold the one with the least headroom; where all hold, the least of all:
                  as the rate rises, that one is reached first
A cell that holds though its answers are long beside the run, or seems saturated though it can serve more than arrives,
is run again with more requests: a deployment that still fills up looks like one with room, or like one without.
Who does not stream sees no first token: such a cell has no target for it, nor for the time between tokens.
Ignored: what `not_shown` of a cell says (arrivals/data/matrix.yaml); mixtures of cells, which production is.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from infopt.arrivals.matrix import Cell, base_profile, matrix_cell, matrix_cells
from infopt.arrivals.profiles import load_profile
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.profiles.geometry import ModelProfile
from infopt.simulation.summary import Targets
from infopt.studies.offered import GOOD_SHARE
from infopt.studies.scenarios import Request
from infopt.studies.simulate import Choices, Job, Simulation
from infopt.studies.simulate_many import Failed, run_many

Verdict = Literal["holds", "misses", "saturated", "does not fit", "no estimate", "impossible"]
# A run lasts at least so many answers at full load; it is made longer by this factor, so many times, up to so many.
STAYS, LONGER, TURNS, MOST_REQUESTS = 5.0, 4, 3, 20_000
OF_STATUS: dict[int, Verdict] = {1: "does not fit", 4: "no estimate"}


@dataclass(frozen=True, slots=True)
class Row:
    """A cell with what became of it at a rate; `reason` where there is no simulation."""

    cell: Cell
    job: Job
    rate_per_s: float
    simulation: Simulation | None
    verdict: Verdict
    reason: str

    @property
    def headroom_ratio(self) -> float | None:
        """The most that is served over what arrives."""
        found = self.simulation
        return None if found is None or found.saturation_per_s is None else found.saturation_per_s / self.rate_per_s


@dataclass(frozen=True, slots=True)
class Matrix:
    """All cells."""

    rate_per_s: float
    targets: Targets
    good_share: float
    rows: tuple[Row, ...]

    @property
    def breaks_first(self) -> Row | None:
        """The cell that is reached first as the rate rises; see the module."""
        broken = [row for row in self.rows if row.verdict in ("misses", "saturated")]
        known = [row for row in broken or self.rows if row.headroom_ratio is not None]
        return min(known, key=lambda row: row.headroom_ratio or 0.0) if known else None

    @property
    def holds(self) -> bool | None:
        """Whether every cell holds; None where one could not be simulated and no other fails."""
        verdicts = {row.verdict for row in self.rows}
        if verdicts & {"misses", "saturated", "does not fit", "impossible"}:
            return False
        return None if "no estimate" in verdicts else True


def cells_named(names: Sequence[str]) -> tuple[Cell, ...]:
    """The cells of these names, all where there are none. Errors: InfoptError for an unknown one."""
    return tuple(matrix_cell(name) for name in names) or matrix_cells()


def base_targets() -> tuple[Targets, float]:
    """Targets of the matrix's base, and the share of requests that must meet them."""
    asked = load_profile(base_profile()).targets
    return Targets(asked.ttft_s, asked.tpot_s, asked.e2e_s), asked.share


def base_job(
    model: ModelProfile,
    hardware: HardwareChoice,
    request: Request,
    choices: Choices,
    targets: Targets | None,
    good_share: float | None,
) -> Job:
    """The deployment under the matrix's base; targets that are not given are those of its profile."""
    cell, (own, share) = matrix_cells()[0], base_targets()
    return Job(
        model=model,
        hardware=hardware,
        request=replace(request, batch=request.dp),
        source=cell.traffic.source(1.0, requests=1),
        choices=choices,
        targets=targets or own,
        good_share=good_share if good_share is not None else share if targets is None else GOOD_SHARE,
    )


def cell_job(base: Job, cell: Cell, rate_per_s: float, requests: int, seed: int) -> Job:
    """The job of a cell: the deployment of `base` under the cell's traffic."""
    traffic = cell.traffic
    source = traffic.source(rate_per_s, requests=requests, seed=seed)
    priorities = {sender.priority for sender in traffic.tenants}
    choices = replace(
        base.choices,
        streaming=traffic.streaming,
        by_priority=base.choices.by_priority or len(priorities) > 1,
        seed=seed,
        saturation=True,
        leave_out=True,
    )
    targets = base.targets if traffic.streaming else Targets(None, None, base.targets.e2e_s)
    request = replace(
        base.request, input_tokens=round(traffic.input_mean_tokens), output_tokens=round(traffic.output_mean_tokens)
    )
    return replace(base, request=request, source=source, choices=choices, targets=targets)


def matrix(
    base: Job, cells: Sequence[Cell], rate_per_s: float, requests: int, seed: int = 0, workers: int | None = None
) -> Matrix:
    """The cells through the deployment of a job; an error of a cell stays with it."""
    jobs = [cell_job(base, cell, rate_per_s, requests, seed) for cell in cells]
    found = run_many(jobs, workers)
    for _ in range(TURNS):
        short = [at for at, one in enumerate(found) if isinstance(one, Simulation) and _is_short(one, rate_per_s)]
        for at in short:
            jobs[at] = cell_job(base, cells[at], rate_per_s, _more(found[at]), seed)
        for at, one in zip(short, run_many([jobs[at] for at in short], workers), strict=True):
            found[at] = one
    rows = tuple(_row(cell, job, rate_per_s, one) for cell, job, one in zip(cells, jobs, found, strict=True))
    return Matrix(rate_per_s, base.targets, base.good_share, rows)


def _is_short(one: Simulation, rate_per_s: float) -> bool:
    """Whether more requests could change the verdict."""
    limit = one.saturation
    if limit is None or one.summary.requests >= MOST_REQUESTS:
        return False
    stay_s = limit.batch * one.ready.setup.replicas / limit.rate_per_s
    if one.summary.saturated:
        return limit.rate_per_s > rate_per_s
    return one.arrivals_end_s < STAYS * stay_s


def _more(one: Simulation | Failed) -> int:
    assert isinstance(one, Simulation)
    return min(MOST_REQUESTS, LONGER * (one.summary.requests + one.left_out))


def _row(cell: Cell, job: Job, rate_per_s: float, found: Simulation | Failed) -> Row:
    if isinstance(found, Failed):
        return Row(cell, job, rate_per_s, None, OF_STATUS.get(found.exit_status, "impossible"), found.text)
    verdict: Verdict = "saturated" if found.summary.saturated else "holds" if found.keeps_up else "misses"
    return Row(cell, job, rate_per_s, found, verdict, "")
