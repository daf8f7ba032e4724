"""`infopt observe`: whose metrics, for how long, what they are set beside, and where the record goes."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infopt.cli import GOOD, INTERRUPTED, NOTHING, UNDETERMINED, app, emit, tell
from infopt.cli_options import OutputOptions, OwnScenario, number, takes
from infopt.errors import InfoptError
from infopt.units import parse_seconds

if TYPE_CHECKING:
    from infopt.hardware.accelerator import HardwareChoice
    from infopt.observing.observation import Observation
    from infopt.observing.watching import Schedule, Watched
    from infopt.profiles.geometry import ModelProfile
    from infopt.reports.observe_report import Added

OBSERVE_STATUSES = (
    "Exit status: 0 observed; 2 wrong usage, unreadable, or nothing answers; 3 nothing was served meanwhile; "
    "4 the server was lost on the way, or says nothing that is read; 130 interrupted (what was seen is printed)."
)
ADDRESS = re.compile(r"https?://", re.IGNORECASE)
HOST_PORT = re.compile(r"[\w.-]+:\d{1,5}(/.*)?")


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
            if path is not None and not path.parent.is_dir():
                raise InfoptError(f"{path}: cannot be written: there is no folder {path.parent}")


@app.command(epilog=OBSERVE_STATUSES)
@takes(WatchOptions, OwnScenario, OutputOptions)
def observe(
    watching: WatchOptions,
    scenario: OwnScenario,
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
    infopt observe metrics.txt --since earlier.txt
    infopt observe bench.json --model 8b --hw h100
    infopt boundary --model 8b --hw h100 --observed observed.json

    vLLM, SGLang, TGI, TensorRT-LLM, Triton, llama.cpp, Dynamo; results of vllm bench, SGLang, aiperf, guidellm,
    llama-bench. A key goes into INFOPT_API_KEY.
    """
    if source is None:
        raise InfoptError("SOURCE is missing: the address of a server, a text of its /metrics, or a benchmark's JSON")
    is_server = ADDRESS.match(source) is not None
    if not is_server and HOST_PORT.fullmatch(source) and not os.path.lexists(source):
        raise InfoptError(f"{source}: no such file; an address begins with http://: http://{source}")
    watching.check(is_server)
    known = Known.of(scenario)
    if is_server:
        watched = seen(source, watching)
        finish(watched.observation, known, scenario, watching, output, status(watched.observation, watched))
    from infopt.observing.reading import read_sources

    found = read_sources(Path(source), watching.since, watching.apart)
    if watching.row is not None and watching.row > len(found):
        raise InfoptError(f"--row {watching.row}: {source} holds {len(found)} results")
    if len(found) > 1 and watching.row is None:
        if watching.out is not None:
            raise InfoptError(f"--out: {source} holds {len(found)} results; choose one with --row N")
        from infopt.reports.observe_report import render_several

        emit(render_several(found, output.form))
        raise typer.Exit(GOOD)
    one = found[(watching.row or 1) - 1]
    finish(one, known, scenario, watching, output, status(one))


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
        from infopt.profiles.catalogue import find_in_catalogue, load_catalogue_model

        if self.model is not None or self.hardware is None:
            return self.model
        found = find_in_catalogue(name) if name else None
        if found is not None:
            tell([f"the model served as {name} is taken for {found}; --model names another"])
            return load_catalogue_model(found)
        tell([f"the model served{f' as {name}' if name else ''} is not in the catalogue: name it with --model"])
        return None


def seen(url: str, watching: WatchOptions) -> "Watched":
    """Watch a server, on a terminal with a display; Ctrl-C and SIGTERM end it with what was seen."""
    from infopt.cli_stop import stopped_by_terminate
    from infopt.files import write_text
    from infopt.observing.endpoints import server_at
    from infopt.observing.reading import read_snapshot
    from infopt.observing.saved import saved_text
    from infopt.observing.watching import watch
    from infopt.reports.observe_live import live

    schedule, server = watching.schedule(), server_at(url, os.environ)
    since = read_snapshot(watching.since) if watching.since is not None else None
    with live() as told, stopped_by_terminate():
        watched = watch(server, schedule, told, since, watching.apart)
    if watching.save is not None:
        write_text(watching.save, saved_text(watched.text, watched.taken, watched.address))
    return watched


def status(o: "Observation", watched: "Watched | None" = None) -> int:
    """Exit status of an observation."""
    if watched is not None and watched.interrupted:
        return INTERRUPTED
    if (watched is not None and watched.lost is not None) or o.is_silent:
        return UNDETERMINED
    return NOTHING if o.is_idle else GOOD


def finish(
    o: "Observation",
    known: Known,
    scenario: OwnScenario,
    watching: WatchOptions,
    output: OutputOptions,
    exit_status: int,
) -> None:
    """Set beside the plan, print, write, and leave. What was seen is printed whatever the plan's trouble is."""
    from infopt.files import write_text
    from infopt.reports.json_report import dumps
    from infopt.reports.observe_report import NOTHING, as_dict, render_observation

    added, trouble = NOTHING, None
    try:
        added = beside_plan(o, known, scenario)
    except InfoptError as error:
        trouble = error
    emit(render_observation(o, output.form, added))
    if watching.out is not None:
        write_text(watching.out, dumps(as_dict(o, added)) + "\n")
        tell([f"written to {watching.out}; use it with --observed {watching.out}"])
    if trouble is not None:
        raise trouble
    raise typer.Exit(exit_status)


def beside_plan(o: "Observation", known: Known, scenario: OwnScenario) -> "Added":
    """What the ledgers say of it; nothing where model or hardware are not known."""
    from infopt.reports.observe_report import NOTHING

    model = known.served(o.model)
    if model is None or known.hardware is None:
        if known.model is not None:
            tell(["--model without --hw: name the hardware too, and the ledgers stand beside"])
        return NOTHING
    return NOTHING
