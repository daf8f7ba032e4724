"""`infopt search`: the model, the load, the targets, and what may be used to meet them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from infopt.cli import app, command, emit, tell, verdict_status
from infopt.cli_options import (
    CalibrationOption,
    Context,
    Curves,
    Online,
    OutputOptions,
    PlotFile,
    calibration_notes,
    length,
    named_hardware,
    number,
    share,
    takes,
)
from infopt.cli_page import PageOptions
from infopt.cli_pictures import check_pictures
from infopt.cli_simulate_grid import SchedulerOption, WorkersOption
from infopt.errors import InfoptError
from infopt.units import parse_rate_per_s, parse_seconds, parse_usd

if TYPE_CHECKING:
    from infopt.hardware.accelerator import HardwareChoice
    from infopt.reports.emit import EmitForm
    from infopt.reports.pages.page import Page
    from infopt.studies.scenarios import Request
    from infopt.studies.search import Search, Targets
    from infopt.studies.search_simulated import Traffic


SEARCH_STATUSES = (
    "Exit status: 0 good, 1 nothing meets the targets, 2 wrong usage or unreadable input, "
    "4 undetermined (a fact is missing, or nothing was measured there)."
)
NONE_HOLDS = "no row of the front keeps the targets in simulation; without --simulate the first is emitted"
MOST_BURSTINESS = 100.0
EmitOption = Annotated[
    Literal["helm", "k8s", "compose"] | None,
    typer.Option("--emit", help="The deployment of the row as a file, printed or written to --out."),
]
EmitFile = Annotated[Path | None, typer.Option("--out", metavar="FILE.yaml", help="Where --emit writes.")]


def duration(option: str) -> Any:
    """A parser of times above zero."""

    def parse(text: str) -> float:
        value = parse_seconds(text, option)
        if not value:
            raise InfoptError(f"{option} {text}: a target must be more than 0; without {option} there is none")
        return value

    return parse


def usd_per_hour(text: str) -> float:
    """US dollars per hour in "20/h", "$20/h" or "20"."""
    plain = text.strip()
    usd = parse_usd(plain[:-2] if plain.endswith("/h") else plain, "--budget")
    if not usd:
        raise InfoptError(f"--budget {text}: a budget must be more than 0; without --budget there is none")
    return usd


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What is served, under which load and targets, on what."""

    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", metavar="MODEL", help="Short name (70b), org/name[@revision], config.json, folder, .gguf."
        ),
    ]
    ttft: Annotated[
        float | None,
        typer.Option("--ttft", parser=duration("--ttft"), metavar="TIME", help="Most time to the first token: 500ms."),
    ] = None
    tpot: Annotated[
        float | None,
        typer.Option("--tpot", parser=duration("--tpot"), metavar="TIME", help="Most time per output token: 40ms."),
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            parser=lambda text: parse_rate_per_s(text, "--rate"),
            metavar="RATE",
            help="Requests: 5/s, 300/min. Without it, one replica is looked at.",
        ),
    ] = None
    isl: Annotated[int | None, length("--isl", help="Input (prompt) tokens.")] = None
    osl: Annotated[int | None, length("--osl", help="Output tokens.")] = None
    ctx: Context = None
    budget: Annotated[
        float | None,
        typer.Option("--budget", parser=usd_per_hour, metavar="USD/h", help="Most US dollars per hour: 20/h."),
    ] = None
    hw: Annotated[
        str | None,
        typer.Option("--hw", metavar="A,B", help="Only these accelerators; h200:8 uses at most 8. Default: all."),
    ] = None
    max_gpus: Annotated[int, number("--max-gpus", "Most devices in all.")] = 16
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="FORMAT", help="Only this; default: as stored, fp8, int4.")
    ] = None
    kv: Annotated[
        str | None, typer.Option("--kv", metavar="FORMAT", help="Only this cache; default: the model's own and 8 bit.")
    ] = None
    engine: Annotated[
        str, typer.Option("--engine", metavar="ENGINE", help="vllm, sglang, tensorrt-llm or llama.cpp.")
    ] = "vllm"
    engine_version: Annotated[
        str | None,
        typer.Option("--engine-version", metavar="VERSION", help="Default: the newest with measured constants."),
    ] = None
    util: Annotated[
        float | None,
        typer.Option("--util", parser=share("--util"), metavar="SHARE", help="The engine's own memory fraction."),
    ] = None
    price: Annotated[
        list[str],
        typer.Option(
            "--price", metavar="NAME=USD", show_default=False, help="US dollars per device-hour, h100=2.49; repeatable."
        ),
    ] = field(default_factory=list)
    calibration: CalibrationOption = None
    text_only: Annotated[bool, typer.Option("--text-only", help="Vision and audio encoders are not loaded.")] = False
    online: Online = False

    def targets(self) -> "Targets":
        """What a deployment must do."""
        from infopt.studies.search import Targets

        return Targets(self.ttft, self.tpot, self.rate, self.budget, self.max_gpus)

    def request(self) -> "Request":
        """The load, and what is the same for all deployments."""
        from infopt.studies.scenarios import Request

        return Request(
            context_tokens=self.ctx,
            input_tokens=self.isl,
            output_tokens=self.osl,
            engine=self.engine,
            engine_version=self.engine_version,
            weights=self.weights,
            kv=self.kv,
            utilization=self.util,
            text_only=self.text_only,
        )

    def devices(self) -> "list[HardwareChoice]":
        """The accelerators to search, at the user's prices: those named, or all of the catalogue."""
        from infopt.studies.search_space import all_devices, device_at_unit_price

        if self.hw is not None:
            choices = [device_at_unit_price(named_hardware(name, self.calibration)) for name in self.hw.split(",")]
        elif self.calibration is None:
            choices = all_devices()
        else:
            from infopt.hardware.calibrate import calibrated_where_known

            choices = calibrated_where_known(all_devices(), self.calibration)
        if not self.price:
            return choices
        from infopt.hardware.prices import apply_prices, parse_prices

        prices = parse_prices(self.price)
        return [apply_prices(choice, prices) for choice in choices]


def burstiness(text: str) -> float:
    """Standard deviation over mean of the gaps between requests."""
    try:
        ratio = float(str(text))
    except ValueError as error:
        raise InfoptError(f"--simulate-burstiness {text}: not a number; 1 by chance, 2 in bursts, 0 evenly") from error
    if not 0 <= ratio <= MOST_BURSTINESS:
        raise InfoptError(f"--simulate-burstiness {text}: it must be 0 to {MOST_BURSTINESS:g}")
    return ratio


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """Whether the front is simulated, under which traffic, and where."""

    simulate: Annotated[
        bool,
        typer.Option("--simulate", help="Simulate every row of the front: do the targets hold for 99 % of requests?"),
    ] = False
    simulate_requests: Annotated[
        int | None, number("--simulate-requests", "Requests of each simulation; default: 2,000, or 20 full batches.")
    ] = None
    simulate_burstiness: Annotated[
        float,
        typer.Option(
            "--simulate-burstiness",
            parser=burstiness,
            metavar="RATIO",
            help="How gaps between requests vary: 1 by chance (Poisson), more in bursts, 0 not at all.",
        ),
    ] = 1.0
    workers: WorkersOption = None
    scheduler: SchedulerOption = None

    def traffic(self) -> "Traffic | None":
        """What arrives, None where nothing is simulated."""
        from infopt.studies.search_simulated import Traffic

        if self.simulate:
            return Traffic(self.simulate_requests, self.simulate_burstiness)
        alone = (self.simulate_requests, self.workers, self.scheduler)
        if any(value is not None for value in alone) or self.simulate_burstiness != 1.0:
            raise InfoptError("--simulate-requests, --simulate-burstiness, --workers, --scheduler: add --simulate")
        return None


def check_emission(form: str | None, out: Path | None, printed: bool) -> None:
    """Refuse options that contradict each other: standard output holds one thing."""
    if form is None and out is not None:
        raise InfoptError(f"--out {out}: say what is written there with --emit helm, k8s or compose")
    if form is not None and out is None and printed:
        raise InfoptError("--emit prints the file itself: with --out FILE it goes there, and the search is printed")


def emitted(result: "Search", row: int, form: "EmitForm", out: Path | None) -> bool:
    """Write or print the deployment of a row; whether standard output is thereby used up."""
    missing = result.binding.text if result.binding else NONE_HOLDS if result.none_holds else ""
    if missing:
        if out is None:
            tell([f"nothing is emitted: {missing}"])
        return out is None
    from infopt.reports.emit import emit_text

    text = emit_text(result, row, form, command())
    if out is None:
        emit(text.removesuffix("\n"))
        return True
    from infopt.files import write_text

    write_text(out, text)
    return False


def searched(options: SearchOptions, simulation: SimulateOptions) -> "Search":
    """What the options ask for, its front simulated where they say so."""
    from infopt.profiles.resolve import resolve_model
    from infopt.studies.search import search as study

    traffic = simulation.traffic()
    model = resolve_model(options.model, online=options.online)
    devices = options.devices()
    tell(calibration_notes(devices))
    result = study(model, options.request(), devices, options.targets())
    if traffic is None or not result.front:
        return result
    from infopt.studies.search_simulated import simulated_front

    return simulated_front(result, traffic, simulation.workers, simulation.scheduler)


@app.command(epilog=SEARCH_STATUSES)
@takes(SearchOptions, SimulateOptions, PageOptions, OutputOptions)
def search(
    options: SearchOptions,
    simulation: SimulateOptions,
    page: PageOptions,
    output: OutputOptions,
    row: Annotated[int | None, number("--row", "Only this row of the front, with its neighbours.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Every term of the row (default: the first).")] = False,
    curves: Curves = False,
    plot: PlotFile = None,
    emit_form: EmitOption = None,
    out: EmitFile = None,
    allow_undetermined: Annotated[
        bool, typer.Option("--allow-undetermined", help="Exit 0 where undetermined.")
    ] = False,
) -> None:
    """The best deployments under latency targets, a rate and a budget, with the engine's command line.

    \b
    infopt search --model 70b --ttft 500ms --tpot 40ms --rate 5/s --isl 2000 --osl 300
    infopt search --model 8b --tpot 20ms --rate 300/min --isl 1k --osl 256 --hw h100,h200 --budget 20/h
    infopt search --model 8b --tpot 20ms --rate 5/s --isl 1k --osl 256 --hw h200 --row 2 --explain
    infopt search --model 8b --tpot 20ms --rate 5/s --isl 1k --osl 256 --hw h200 --emit k8s --out deployment.yaml
    infopt search --model 8b --ttft 300ms --tpot 20ms --rate 12/s --isl 1k --osl 256 --hw h200 --simulate

    Every accelerator, placement, number format and concurrency is looked at; the Pareto front is printed.
    """
    from infopt.reports.render import render_search, render_search_row
    from infopt.studies.search import holds

    check_emission(emit_form, out, printed=output.form != "table" or explain)
    check_pictures(curves, plot, output)
    page.check(("--plot", plot), ("--out", out))
    if curves and (row is not None or explain or emit_form is not None):
        raise InfoptError("--curves are of the whole front: leave --row, --explain and --emit out")
    result = searched(options, simulation)
    if plot is not None and result.front:
        from infopt.reports.search_plot import draw

        draw(result, plot)
    elif plot is not None:
        tell([f"--plot {plot}: nothing meets the targets, so nothing is drawn"])
    status = verdict_status(holds(result), allow_undetermined)
    chosen = row or result.chosen_number
    alone = bool(result.front) and (explain or row is not None)
    page.write(lambda command: _web_page(result, chosen if alone else None, explain, command))
    if emit_form is not None and emitted(result, chosen, emit_form, out):
        raise typer.Exit(status)
    if alone:
        emit(render_search_row(result, chosen, output.form, explain))
    else:
        emit(render_search(result, output.form, curves))
    raise typer.Exit(status)


def _web_page(result: "Search", row: int | None, explain: bool, command: str) -> "Page":
    """The page of the search, or of one row of its front."""
    from infopt.reports.pages.search_overview import search_page, search_row_page

    return search_page(result, command) if row is None else search_row_page(result, row, explain, command)
