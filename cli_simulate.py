"""`infopt simulate`: a scenario, what arrives, how it is served, what was promised, and how it is shown."""

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infopt.cli import app, emit, tell
from infopt.cli_observed import ObservedOptions
from infopt.cli_options import (
    Curves,
    OutputOptions,
    PlotFile,
    ScenarioOptions,
    calibration_notes,
    takes,
    without_options,
)
from infopt.cli_page import PageOptions
from infopt.cli_pictures import check_pictures
from infopt.cli_serving import ServingOptions, TargetOptions
from infopt.cli_simulate_grid import GridOptions, varied
from infopt.cli_traffic import TrafficOptions
from infopt.errors import InfoptError

if TYPE_CHECKING:
    from infopt.cli_options import Format
    from infopt.studies.simulate import Job, Simulation

SIMULATE_STATUSES = (
    "Exit status: 0 it keeps up and meets the targets, 1 saturated, does not fit or target missed, 2 wrong usage or "
    "unreadable input, 4 undetermined (no step times are known)."
)
SPARE_RATIO = 1.2
MOST_COPIES = 10_000  # that are proposed


@dataclass(frozen=True, slots=True)
class ShownOptions:
    """What is kept of a simulation, and how it is shown."""

    interval: Annotated[
        bool, typer.Option("--interval", help="Both ends of the step times' interval are simulated as well.")
    ] = False
    curves: Curves = False
    plot: PlotFile = None
    rows: Annotated[
        Path | None, typer.Option("--rows", metavar="FILE.csv", help="A row for each request is written here.")
    ] = None
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="The run, for `infopt experiment compare`.")
    ] = None
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="A B", show_default=False, help="Two sets of options, the same requests."),
    ] = None


@app.command(epilog=SIMULATE_STATUSES)
@takes(
    ScenarioOptions,
    TrafficOptions,
    ServingOptions,
    TargetOptions,
    ObservedOptions,
    ShownOptions,
    GridOptions,
    PageOptions,
    OutputOptions,
)
def simulate(
    scenario: ScenarioOptions,
    traffic: TrafficOptions,
    serving: ServingOptions,
    targets: TargetOptions,
    observed: ObservedOptions,
    shown: ShownOptions,
    many: GridOptions,
    page: PageOptions,
    output: OutputOptions,
) -> None:
    """Traffic against a deployment: waits and their tails, goodput, the batch, saturation.

    \b
    infopt simulate --model 8b --hw h100 --isl 2000 --osl 300 --rate 8/s --ttft 1s --tpot 50ms
    infopt simulate --model 8b --hw h100 --trace azure-conv --speedup 2 --curves
    infopt simulate --model 70b --hw h100:8 --trace mooncake --rate 1/s --leave-out-long
    infopt simulate --model 8b --hw h100 --workload interactive --rate 9/s --requests 5000
    infopt simulate --model 8b --hw h100 --isl 1k --osl 200 --users 64 --output-spread 1
    infopt simulate --model 8b --hw h100 --isl 2k --osl 300 --rate 5/s --compare "--chunk 512" "--chunk 2k"
    infopt simulate --model 8b --hw h100 --isl 2k --osl 300 --rate 5/s --vary chunk=512,2k --vary max-num-seqs=64,256
    infopt simulate --model 8b --hw h100 --replicas 3 --isl 1k --osl 200 --rate 50/s --requests 20k --lose 0@60s+2min
    infopt simulate --model 8b --hw h100 --isl 1k --osl 200 --rate 15/s --tenant paid=30%:0 --tenant free=70%:1 \\
        --by-priority

    Options in order: the scenario as of `plan`, what arrives (--rate to --seed), how it is served (--batching to
    --abort), targets, and what is shown. 32k means 32768 tokens. Step times are the plan's estimate, with its interval.
    """
    records = (scenario, traffic, serving, targets, observed, shown)
    many.check(shown)
    check_pictures(shown.curves, shown.plot, output)
    page.check(("--rows", shown.rows), ("--save", shown.save), ("--plot", shown.plot))
    if many.vary:
        text, status = varied(records[:5], many, output.form, lambda laid: job_of((*laid, shown)), page)
        emit(text)
        raise typer.Exit(status)
    if shown.compare is not None:
        text, good = _compared(records, shown, output.form, page)
    else:
        text, good = _single(records, shown, output.form, page)
    emit(text)
    raise typer.Exit(0 if good else 1)


Records = tuple[ScenarioOptions, TrafficOptions, ServingOptions, TargetOptions, ObservedOptions, ShownOptions]


def _single(records: Records, shown: ShownOptions, form: "Format", page: PageOptions) -> tuple[str, bool]:
    from infopt.reports.simulate_render import render_simulation
    from infopt.studies.simulate import simulated

    job = job_of(records)
    keeps = shown.curves or any(path is not None for path in (shown.rows, shown.save, shown.plot, page.html))
    found = simulated(replace(job, choices=replace(job.choices, keep_rows=keeps, hits=True)))
    text = render_simulation(found, form, next_step(found, sys.argv[1:]), shown.curves)
    _write(found, shown)
    if page.html is not None:
        from infopt.reports.pages.simulate_page import simulate_page

        page.write(lambda command: simulate_page(found, command))
    return text, found.keeps_up


def job_of(records: Records) -> "Job":
    """The job that option records describe."""
    from infopt.profiles.resolve import resolve_model
    from infopt.simulation.summary import Targets
    from infopt.studies.offered import GOOD_SHARE, offered
    from infopt.studies.simulate import Job

    scenario, traffic, serving, targets, observed, shown = records
    if scenario.hw is None:
        raise InfoptError("--hw is missing: traffic is served by a certain machine, such as --hw h100:4")
    if scenario.batch != 1:
        raise InfoptError(
            f"--batch {scenario.batch}: the batch is what traffic makes it: for so many, --users {scenario.batch}"
        )
    if traffic.users is not None and serving.batching == "static" and serving.static_wait is None:
        raise InfoptError("--users wait for their answers, so a static batch may never be full: add --static-wait 2s")
    model, hardware = resolve_model(scenario.model, online=scenario.online), scenario.hardware()
    tell(calibration_notes([hardware]))
    filled = observed.filled(model, scenario)
    request = replace(filled.request, batch=filled.request.dp)
    if traffic.trace is not None:
        request = replace(request, input_tokens=scenario.isl, output_tokens=scenario.osl)
    arriving = offered(traffic.offer(), model, request)
    choices = serving.choices(traffic.seed, traffic.leave_out_long, arriving.streaming)
    own = targets.targets()
    share = targets.good if targets.good is not None else arriving.good_share if own is None else None
    return Job(
        model=model,
        hardware=hardware,
        request=arriving.request,
        source=arriving.source,
        choices=replace(choices, interval=shown.interval),
        targets=own or arriving.targets or Targets(),
        good_share=GOOD_SHARE if share is None else share,
        assumed=(*(one for one in filled.assumed if one.id != "batch"), *arriving.assumed),  # traffic makes the batch
    )


def _write(found: "Simulation", shown: ShownOptions) -> None:
    """Files that were asked for, each whole or not at all."""
    if shown.rows is not None:
        from infopt.files import write_text
        from infopt.studies.saved_simulation import rows_csv

        write_text(shown.rows, rows_csv(found))
    if shown.plot is not None:
        from infopt.reports.simulate_plot import draw

        draw(found, shown.plot)
    if shown.save is not None:
        from infopt.studies.saved_run import save_run

        save_run(shown.save, found)


def _compared(records: Records, shown: ShownOptions, form: "Format", page: PageOptions) -> tuple[str, bool]:
    from infopt.cli_overlay import overlaid
    from infopt.reports.simulate_compare_report import render_comparison
    from infopt.studies.simulate_compare import compare

    if shown.save is not None or shown.rows is not None or shown.plot is not None or shown.curves:
        raise InfoptError("--save, --rows, --curves and --plot are of one simulation: leave --compare out")
    assert shown.compare is not None
    jobs = [job_of((*overlaid(records[:5], text), shown)) for text in shown.compare]
    keeps = page.html is not None
    a, b = (replace(job, choices=replace(job.choices, keep_rows=keeps)) for job in jobs)
    found = compare(a, b, *shown.compare)
    if keeps:
        from infopt.reports.pages.simulate_compare_page import simulate_compare_page

        page.write(lambda command: simulate_compare_page(found, command))
    return render_comparison(found, form), found.good


def next_step(found: "Simulation", typed: Sequence[str]) -> str:
    """What to try next: the command line as typed with something added."""
    words = list(typed)
    if not found.keeps_up and found.job.source.users is None and _enough(found) <= MOST_COPIES:
        words = [*without_options(words, {"--replicas"}), "--replicas", str(_enough(found))]
    elif not found.job.targets.given:
        words = [*words, "--ttft", "1s", "--tpot", "50ms"]
    elif not found.job.choices.interval:
        words = [*words, "--interval"]
    else:
        return ""
    return shlex.join(["infopt", *words])


def _enough(found: "Simulation") -> int:
    """Replicas that serve SPARE_RATIO as much as arrives, at least one more than there are."""
    copies = found.job.choices.replicas or 1
    one_per_s = (found.saturation_per_s or math.inf) / copies
    return max(copies + 1, math.ceil(SPARE_RATIO * found.arrive_per_s / one_per_s))
