"""`infopt observe`: whose metrics, for how long, what they are set beside, and where the record goes."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from infopt.cli import GOOD, INTERRUPTED, NOTHING, UNDETERMINED, app, emit, tell
from infopt.cli_load import LoadOptions
from infopt.cli_options import OutputOptions, OwnScenario, number, takes
from infopt.errors import InfoptError
from infopt.units import parse_seconds

if TYPE_CHECKING:
    from infopt.hardware.accelerator import HardwareChoice
    from infopt.observing.observation import Observation
    from infopt.observing.watching import Schedule, Watched
    from infopt.profiles.geometry import ModelProfile
    from infopt.reports.observe_report import Added
    from infopt.studies.planning import Plan

OBSERVE_STATUSES = (
    "Exit status: 0 observed; 1 the engine of a --log refused to start; 2 wrong usage, unreadable, or nothing answers; "
    "3 nothing was served meanwhile; 4 the server was lost on the way, or says nothing that is read; 130 interrupted "
    "(what was seen is printed)."
)
ADDRESS = re.compile(r"https?://", re.IGNORECASE)
HOST_PORT = re.compile(r"(localhost|[\w.-]+:\d{1,5}|\d+(\.\d+){3}|\[[\da-fA-F:.]+\](:\d{1,5})?)(/.*)?")


def lasting(option: str, help: str) -> Any:
    """A Typer option that takes a time with its unit."""
    return typer.Option(option, parser=lambda text: parse_seconds(str(text), option), metavar="TIME", help=help)


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How long, since when, and where the record goes."""

    interval: Annotated[float | None, lasting("--interval", "Between two looks at a server; default 10s.")] = None
    duration: Annotated[
        float | None, lasting("--duration", "In all; default 60s. 0s looks once: totals since the server's start.")
    ] = None
    timeout: Annotated[float | None, lasting("--timeout", "Longest wait for one answer; default 10s.")] = None
    since: Annotated[
        Path | None,
        typer.Option("--since", metavar="FILE", help="An earlier text of the same server: what happened since."),
    ] = None
    apart: Annotated[
        float | None, lasting("--apart", "How long after --since SOURCE is, where the texts do not say it.")
    ] = None
    served: Annotated[
        str | None,
        typer.Option("--served", metavar="NAME", help="Which model counts, where an address serves several."),
    ] = None
    row: Annotated[int | None, number("--row", "Which of the results of a file that has several.")] = None
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.json", help="Write the record here too, for --observed.")
    ] = None
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Keep the last text read, for a later --since.")
    ] = None

    def schedule(self) -> "Schedule":
        """When to look; an earlier text is the first look, so one more is enough."""
        from infopt.observing.watching import ANSWER_S, DURATION_S, INTERVAL_S, Schedule

        usual = 0.0 if self.since is not None else DURATION_S
        return Schedule.of(
            INTERVAL_S if self.interval is None else self.interval,
            usual if self.duration is None else self.duration,
            ANSWER_S if self.timeout is None else self.timeout,
        )

    def check(self, is_server: bool) -> None:
        """Options that do not go together, and folders that are not there, before anything is waited for."""
        if not is_server:
            for option, given in (
                ("--interval", self.interval),
                ("--duration", self.duration),
                ("--timeout", self.timeout),
                ("--save", self.save),
            ):
                if given is not None:
                    raise InfoptError(f"{option} is of a server: a file is read once; leave it out")
        elif self.row is not None:
            raise InfoptError("--row is of a file with several results: a server has none; leave it out")
        if self.apart is not None and (self.since is None or self.apart <= 0):
            raise InfoptError("--apart: a time above 0 that lies between --since FILE and SOURCE is expected")
        for path in (self.out, self.save):
            check_writable(path)

    def check_log(self, output: OutputOptions) -> None:
        """Options that a start-up log has no use for."""
        if output.form == "csv":
            raise InfoptError("--format csv is of metrics and results: a log has table, md and json")
        for option, given in (("--since", self.since), ("--served", self.served), ("--row", self.row)):
            if given is not None:
                raise InfoptError(f"{option} is of metrics and results: a start-up log is read alone; leave it out")


@dataclass(frozen=True, slots=True)
class UseOptions:
    """What is made of what was seen."""

    advise: Annotated[
        bool, typer.Option("--advise", help="The three changes that would pay most, and what to measure next.")
    ] = False
    calibrate: Annotated[
        Path | None,
        typer.Option("--calibrate", metavar="FILE.yaml", help="Write what it says of the hardware, for --calibration."),
    ] = None
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="An engine's start-up log: memory beside the ledger.")
    ] = None

    def check(self, source: str | None, hw: str | None) -> None:
        """What must be there before anything is waited for."""
        if (source is None) == (self.log is None):
            raise InfoptError(
                "SOURCE is missing: the address of a server, a text of its /metrics, or a benchmark's JSON"
                if source is None
                else "--log is a page of its own: leave SOURCE out"
            )
        for option, given in (("--advise", self.advise), ("--calibrate", self.calibrate is not None)):
            if given and hw is None:
                raise InfoptError(f"{option} is of one deployment: name its hardware with --hw")
        if self.advise and self.log is not None:
            raise InfoptError("--advise is of a load: a start-up log has none; leave it out")
        check_writable(self.calibrate)


def check_writable(path: Path | None) -> None:
    """Whether a file can be written there, before anything is waited for. Errors: InfoptError."""
    if path is None:
        return
    if path.is_dir():
        raise InfoptError(f"{path}: cannot be written: is a folder; name a file")
    if not path.parent.is_dir():
        raise InfoptError(f"{path}: cannot be written: there is no folder {path.parent}")
    if not os.access(path if path.exists() and not path.is_file() else path.parent, os.W_OK):
        raise InfoptError(f"{path}: cannot be written: no permission")


@app.command(epilog=OBSERVE_STATUSES)
@takes(WatchOptions, UseOptions, OwnScenario, LoadOptions, OutputOptions)
def observe(
    watching: WatchOptions,
    use: UseOptions,
    scenario: OwnScenario,
    load: LoadOptions,
    output: OutputOptions,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            show_default=False,
            help="http://HOST:PORT of a server, a text of its /metrics, or a benchmark's JSON.",
        ),
    ] = None,
) -> None:
    """What a running engine does: batch, times, cache, drafts, off its metrics; beside the plan with --model and --hw.

    \b
    infopt observe http://localhost:8000 --interval 10s --duration 5m --out observed.json
    infopt observe http://localhost:8000 --model 8b --hw h100 --advise
    infopt observe metrics.txt --since earlier.txt
    infopt observe bench.json --model 8b --hw h100
    infopt observe --log server.log --model 8b --hw h100
    infopt boundary --model 8b --hw h100 --observed observed.json

    vLLM, SGLang, TGI, TensorRT-LLM, Triton, llama.cpp, Dynamo; results of vllm bench, SGLang, aiperf, guidellm,
    llama-bench. A key goes into INFOPT_API_KEY.
    """
    is_server = source is not None and ADDRESS.match(source) is not None
    use.check(source, scenario.hw)
    watching.check(is_server)
    known = Known.of(scenario)
    if use.log is not None:
        watching.check_log(output)
        from infopt.cli_observe_log import finish_log, log_page

        raise typer.Exit(finish_log(log_page(use.log, known, scenario), known, watching, output, use.calibrate))
    assert source is not None
    asked = Asked(known, scenario, load, use)
    if is_server:
        watched = seen(source, watching)
        finish(watched.observation, asked, watching, output, status(watched.observation, watched), watched)
    if not os.path.lexists(source):
        if HOST_PORT.fullmatch(source):
            raise InfoptError(f"{source}: no such file; an address begins with http://: http://{source}")
        if ":/" in source:
            raise InfoptError(f"{source}: no such file; an address begins with http:// or https://")
    one = read_one(Path(source), watching, use, output)
    finish(one, asked, watching, output, status(one))


def read_one(path: Path, watching: WatchOptions, use: UseOptions, output: OutputOptions) -> "Observation":
    """The observation of a file; where it has several and none is chosen they are listed, and that is all."""
    from infopt.observing.reading import read_sources

    found = read_sources(path, watching.since, watching.apart, watching.served)
    if watching.row is not None and watching.row > len(found):
        raise InfoptError(f"--row {watching.row}: {path} holds {len(found)} result{'s' if len(found) > 1 else ''}")
    if len(found) > 1 and watching.row is None:
        for option, given in (("--out", watching.out), ("--advise", use.advise), ("--calibrate", use.calibrate)):
            if given:
                raise InfoptError(f"{option}: {path} holds {len(found)} results; choose one with --row N")
        from infopt.reports.observe_report import render_several

        emit(render_several(found, output.form))
        raise typer.Exit(GOOD)
    return found[(watching.row or 1) - 1]


@dataclass(frozen=True, slots=True)
class Known:
    """What the options name, resolved before anything is waited for; None where they do not name it."""

    model: "ModelProfile | None"
    hardware: "HardwareChoice | None"

    @classmethod
    def of(cls, scenario: OwnScenario) -> "Known":
        """Errors: InfoptError for a name nobody knows."""
        from infopt.profiles.resolve import resolve_model

        return cls(
            resolve_model(scenario.model, online=scenario.online) if scenario.model else None,
            scenario.hardware() if scenario.hw is not None else None,
        )

    def served(self, name: str | None) -> "ModelProfile | None":
        """The model named, else the catalogue's of the name a server has for it; why there is none is told."""
        from infopt.profiles.catalogue import load_catalogue_model
        from infopt.studies.observed import other_model, served_model

        if self.model is not None:
            tell(text for text in [other_model(name, self.model)] if text)
            return self.model
        if not name:
            tell(["which model is served is not known: name it with --model"])
            return None
        found = served_model(name)
        if found is None:
            tell([f"the model served as {name!r} is not one of the catalogue: name it with --model"])
            return None
        if found != name:
            tell([f"the model served as {name!r} is taken for {found}; --model names another"])
        return load_catalogue_model(found)


def seen(url: str, watching: WatchOptions) -> "Watched":
    """Watch a server, on a terminal with a display; Ctrl-C and SIGTERM end it with what was seen."""
    from infopt.cli_stop import stopped_by_terminate
    from infopt.observing.endpoints import server_at
    from infopt.observing.reading import read_snapshot
    from infopt.observing.watching import watch
    from infopt.reports.observe_live import live

    schedule, server = watching.schedule(), server_at(url, os.environ)
    since = read_snapshot(watching.since) if watching.since is not None else None
    with live() as told, stopped_by_terminate():
        return watch(server, schedule, told, since, watching.apart, watching.served)


def kept_text(watched: "Watched", path: Path) -> list[str]:
    """Write the last text that was read for a later --since; what to say of it."""
    from infopt.files import write_text
    from infopt.observing.saved import saved_text

    if not watched.text:
        return [f"{path} was not written: the server has no text of metrics, only slots"]
    write_text(path, saved_text(watched.text, watched.taken, watched.address))
    return []


def status(o: "Observation", watched: "Watched | None" = None) -> int:
    """Exit status of an observation."""
    if watched is not None and watched.interrupted:
        return INTERRUPTED
    if (watched is not None and watched.lost is not None) or o.is_silent:
        return UNDETERMINED
    return NOTHING if o.is_idle else GOOD


@dataclass(frozen=True, slots=True)
class Asked:
    """What an observation is set beside."""

    known: Known
    scenario: OwnScenario
    load: LoadOptions
    use: UseOptions


def finish(
    o: "Observation",
    asked: Asked,
    watching: WatchOptions,
    output: OutputOptions,
    exit_status: int,
    watched: "Watched | None" = None,
) -> NoReturn:
    """Set beside the plan, write, print, and leave. What was seen is printed whatever else goes wrong."""
    from infopt.cli_troubles import Troubles
    from infopt.files import write_text
    from infopt.reports.json_report import dumps
    from infopt.reports.observe_report import NOTHING_ADDED, as_dict, render_observation

    plan, added, told, troubles = None, NOTHING_ADDED, list[str](), Troubles()
    with troubles:
        o, plan, added = beside_plan(o, asked)
    if watched is not None and watching.save is not None:
        with troubles:
            told += kept_text(watched, watching.save)
    if watching.out is not None:
        with troubles:
            write_text(watching.out, dumps(as_dict(o, added)) + "\n")
            told.append(f"written to {watching.out}; use it with --observed {watching.out}")
    if asked.use.calibrate is not None and plan is not None:
        with troubles:
            told += calibrate_with(o, plan, asked, asked.use.calibrate)
    emit(render_observation(o, output.form, troubles.in_json(added)))
    tell(told)
    raise typer.Exit(troubles.told(exit_status))


def beside_plan(o: "Observation", asked: Asked) -> "tuple[Observation, Plan | None, Added]":
    """What the ledgers say of it; nothing where model or hardware are not known."""
    from infopt.reports.observe_report import NOTHING_ADDED

    known = asked.known
    if known.hardware is None:
        if known.model is not None:
            tell(["--model without --hw: name the hardware too, and the ledgers stand beside"])
        return o, None, NOTHING_ADDED
    model = known.served(o.model)
    if model is None:
        if asked.use.advise or asked.use.calibrate is not None:
            raise InfoptError("--advise and --calibrate are of a model: name it with --model")
        return o, None, NOTHING_ADDED
    from infopt.reports.advice_report import advice_added, beside_added, joined
    from infopt.studies.advice import advise
    from infopt.studies.beside import beside, plan_beside
    from infopt.studies.checklist_context import Deployment
    from infopt.studies.observed_items import answered

    request, load, curve = asked.scenario.request(), asked.load.load(asked.scenario), asked.load.curve()
    plan = plan_beside(o, model, known.hardware, request)
    found = beside(o, plan)
    if o.bandwidth_utilization is None:
        o = o.model_copy(update={"bandwidth_utilization": found.bandwidth_utilization})
    items = answered(Deployment(model, known.hardware, request, load, curve, observed=o))
    added = beside_added(found, plan, items)
    if asked.use.advise:
        added = joined(added, advice_added(advise(o, model, known.hardware, request, load, curve)))
    return o, plan, added


def calibrate_with(o: "Observation", plan: "Plan", asked: Asked, path: Path) -> list[str]:
    """Add the steps that were observed to the record at `path`; what to say of it."""
    from infopt.studies.observed_steps import calibrate

    assert asked.known.hardware is not None
    # One sequence is the default of --batch: then the observation says how many there were.
    batch = asked.scenario.batch if asked.scenario.batch > 1 else None
    _, found = calibrate(o, plan.scenario, asked.known.hardware, path, batch)
    return [*found.notes, f"written to {path}; use it with --calibration {path}"]
