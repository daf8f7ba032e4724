"""`infopt experiment`: save runs, climb the tuning ladder, run the workload matrix, compare saved runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infopt.cli import FAILS, GOOD, UNDETERMINED, app, emit, tell
from infopt.cli_load import above_zero
from infopt.cli_observed import ObservedOptions
from infopt.cli_options import OutputOptions, ScenarioOptions, calibration_notes, number, takes
from infopt.cli_saved_run import RunOptions, SavedScenario, measured, with_quality_results
from infopt.cli_serving import ServingOptions, TargetOptions
from infopt.cli_traffic import TrafficOptions
from infopt.errors import InfoptError

if TYPE_CHECKING:
    from infopt.studies.experiment_compare import Compared
    from infopt.studies.experiment_ladder import Ladder
    from infopt.studies.simulate import Job

experiment = typer.Typer(
    help="Tuning as an experiment: one variable at a time, what it gained, and whether that can be said.",
    rich_markup_mode=None,
)
app.add_typer(experiment, name="experiment")

Workers = Annotated[int | None, number("--workers", "Processes; default: as many as there are processors.")]


@experiment.command(epilog="Exit status: 0 written, 2 wrong usage or unreadable input.")
@takes(RunOptions, SavedScenario)
def save(options: RunOptions, scenario: SavedScenario) -> None:
    """A measurement as a saved run: configuration, traffic, metrics, quality and hardware in one file.

    \b
    infopt experiment save --observed bench.json --model 8b --hw h100 --max-num-seqs 256 --out a.yaml
    infopt experiment save --observed 1.json --observed 2.json --observed 3.json --model 8b --hw h100 \\
        --weights fp8 --quality mmlu=70.9%:14042 --out fp8.yaml
    infopt experiment save --run a.yaml --quality mmlu=71.2%:14042 --out a.yaml

    Repeat --observed with at least three results of the same configuration: one alone does not show chance.
    `infopt simulate --save FILE` writes the same of a simulation.
    """
    from infopt.studies.saved_run import run_text, write_run

    run = with_quality_results(options) if options.run is not None else measured(options, scenario)
    if options.out is None:
        emit(run_text(run, as_json=False).removesuffix("\n"))
    else:
        from infopt.reports.experiment_compare_report import who

        write_run(options.out, run)
        emit(who(run, str(options.out)))
    raise typer.Exit(GOOD)


@dataclass(frozen=True, slots=True)
class ClimbOptions:
    """How the ladder is climbed."""

    seeds: Annotated[int | None, number("--seeds", "Draws of the traffic for each value; default 5.")] = None
    quality_holds: Annotated[
        bool,
        typer.Option("--quality-holds", help="Quality of fewer bits was measured and holds: such steps may stay."),
    ] = False
    workers: Workers = None
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FOLDER", help="Write the baseline and each step that stays as saved runs."),
    ] = None


LADDER_STATUSES = (
    "Exit status: 0 the last step keeps up and meets the targets, 1 it does not, or the baseline does not fit, "
    "2 wrong usage, 4 no step times are known."
)


@experiment.command(epilog=LADDER_STATUSES)
@takes(ScenarioOptions, TrafficOptions, ServingOptions, TargetOptions, ObservedOptions, ClimbOptions, OutputOptions)
def ladder(
    scenario: ScenarioOptions,
    traffic: TrafficOptions,
    serving: ServingOptions,
    targets: TargetOptions,
    observed: ObservedOptions,
    climbing: ClimbOptions,
    output: OutputOptions,
) -> None:
    """Document 2's tuning ladder, predicted: one variable at a time, kept where it gains beyond chance.

    \b
    infopt experiment ladder --model 8b --hw h100 --isl 1000 --osl 200 --rate 20/s --ttft 200ms --tpot 20ms
    infopt experiment ladder --model 70b --hw h100:8 --workload interactive --rate 10/s --seeds 8 --json
    infopt experiment ladder --model 8b --hw l40s --trace azure-conv --requests 2000 --save rungs/

    What is given is the baseline. Simulated steps are predictions: the commands to measure them stand below.
    (`infopt plan --ladder` is another one: document 3's ladder of costs.)
    """
    from infopt.reports.experiment_render import render_ladder
    from infopt.studies.experiment_ladder import climb, ladder_data

    if climbing.save is not None and not climbing.save.is_dir():
        raise InfoptError(f"--save {climbing.save}: is no folder; make it first")
    if traffic.requests is None and traffic.duration is None and traffic.trace is None:
        traffic = replace(traffic, requests=ladder_data().requests)
    found = climb(_job(scenario, traffic, serving, targets, observed), climbing.seeds, climbing.quality_holds,
                  climbing.workers)  # fmt: skip
    emit(render_ladder(found, output.form))
    if climbing.save is not None:
        _save_steps(found, climbing.save)
    raise typer.Exit(GOOD if found.holds else FAILS)


def _job(
    scenario: ScenarioOptions,
    traffic: TrafficOptions,
    serving: ServingOptions,
    targets: TargetOptions,
    observed: ObservedOptions,
) -> "Job":
    from infopt.cli_simulate import ShownOptions, job_of

    return job_of((scenario, traffic, serving, targets, observed, ShownOptions()))


def _save_steps(found: "Ladder", folder: Path) -> None:
    from infopt.studies.experiment_ladder import steps
    from infopt.studies.saved_run import write_run

    for file, run in steps(found):
        write_run(folder / file, run)
    tell([f"saved runs: {', '.join(str(folder / file) for file, _ in steps(found))}"])


@dataclass(frozen=True, slots=True)
class MatrixOptions:
    """Which cells, and how much of each."""

    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", parser=above_zero("--rate", "rate"), metavar="RATE", help="Requests of every cell: 8/s."
        ),
    ] = None
    cell: Annotated[
        list[str],
        typer.Option("--cell", metavar="NAME", show_default=False, help="Only these; repeatable. Default: all."),
    ] = field(default_factory=list)
    requests: Annotated[int, number("--requests", "Of each cell, at least.")] = 1000
    seed: Annotated[int, number("--seed", "Of all chance.", minimum=0)] = 0
    workers: Workers = None


MATRIX_STATUSES = (
    "Exit status: 0 every cell holds, 1 one does not, 2 wrong usage, 4 a cell could not be simulated (no step times)."
)


@experiment.command(epilog=MATRIX_STATUSES)
@takes(ScenarioOptions, MatrixOptions, ServingOptions, TargetOptions, OutputOptions)
def matrix(
    scenario: ScenarioOptions,
    cells: MatrixOptions,
    serving: ServingOptions,
    targets: TargetOptions,
    output: OutputOptions,
) -> None:
    """Document 2's workload matrix through one deployment: which kind of traffic breaks it first.

    \b
    infopt experiment matrix --model 8b --hw h100 --rate 8/s
    infopt experiment matrix --model 70b --hw h100:4 --rate 2/s --ttft 1s --tpot 50ms --json
    infopt experiment matrix --model 8b --hw h100 --rate 8/s --cell short-short --cell bursty --format csv

    Lengths and arrivals are the cells' own. Without targets: those of the base's profile.
    """
    from infopt.reports.experiment_render import render_matrix
    from infopt.studies.experiment_matrix import base_job, cells_named
    from infopt.studies.experiment_matrix import matrix as study

    if scenario.hw is None:
        raise InfoptError("--hw is missing: traffic is served by a certain machine, such as --hw h100:4")
    if cells.rate is None:
        raise InfoptError("--rate is missing: say how many requests come, such as --rate 8/s")
    for option, given in (("--isl", scenario.isl), ("--osl", scenario.osl)):
        if given is not None:
            raise InfoptError(f"{option}: every cell has lengths of its own; leave it out")
    from infopt.profiles.resolve import resolve_model

    chosen = cells_named(cells.cell)
    model, hardware = resolve_model(scenario.model, online=scenario.online), scenario.hardware()
    tell(calibration_notes([hardware]))
    base = base_job(
        model, hardware, scenario.request(), serving.choices(cells.seed, True), targets.targets(), targets.good
    )
    found = study(base, chosen, cells.rate, cells.requests, cells.seed, cells.workers)
    emit(render_matrix(found, output.form))
    raise typer.Exit({True: GOOD, False: FAILS, None: UNDETERMINED}[found.holds])


COMPARE_STATUSES = (
    "Exit status: 0 the difference has one cause, or there is none beyond chance; 1 refused (several variables, other "
    "traffic or hardware, chance not known), or quality fell; 2 wrong usage or unreadable input; 4 quality was not "
    "measured."
)


@experiment.command(epilog=COMPARE_STATUSES)
@takes(OutputOptions)
def compare(
    output: OutputOptions,
    runs: Annotated[list[Path], typer.Argument(metavar="A B [C ...]", help="Saved runs, in the order of the ladder.")],
) -> None:
    """Saved runs, each beside the one before: what differs, what it did, and whether that is its doing.

    \b
    infopt experiment compare baseline.yaml fp8.yaml
    infopt experiment compare rungs/*.yaml --json

    A gain is attributed only where one variable differs, on the same traffic and hardware, and chance is smaller.
    """
    from infopt.reports.experiment_render import render_compared
    from infopt.studies.experiment_compare import compare_all
    from infopt.studies.saved_run import read_run

    found = compare_all([read_run(path) for path in runs])
    names = [str(path) for path in runs]
    emit(render_compared(found, names, output.form))
    tell(_refusals(found, names))
    raise typer.Exit(_status(found))


def _refusals(found: "Sequence[Compared]", names: Sequence[str]) -> list[str]:
    """One line for each pair that is refused."""
    return [
        f"{names[at]}, {names[at + 1]}: not attributed: {one.refusals[0]}"
        for at, one in enumerate(found)
        if one.refusals
    ]


def _status(found: "Sequence[Compared]") -> int:
    verdicts = {one.verdict for one in found}
    if verdicts & {"refused", "quality-worse"}:
        return FAILS
    return UNDETERMINED if "needs-measurement" in verdicts else GOOD
