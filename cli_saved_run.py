"""Options and parsing of `experiment save`: a measurement, or quality results, as a saved run."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infopt.cli import tell
from infopt.cli_options import ScenarioOptions, calibration_notes, number
from infopt.errors import InfoptError

if TYPE_CHECKING:
    from infopt.studies.experiment_variables import Scalar
    from infopt.studies.saved_run import Quality, SavedRun


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a saved run holds beside its figures."""

    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The saved run: .json, else YAML; default: printed."),
    ] = None
    observed: Annotated[
        list[Path],
        typer.Option(
            "--observed",
            metavar="FILE",
            show_default=False,
            help="A benchmark's result or a record of `infopt observe`; repeated: the same measured again.",
        ),
    ] = field(default_factory=list)
    row: Annotated[int | None, number("--row", "Which of the results of a file that has several.")] = None
    run: Annotated[
        Path | None, typer.Option("--run", metavar="FILE", help="A saved run that gets quality results instead.")
    ] = None
    set: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KNOB=VALUE",
            show_default=False,
            help="A knob without an option here: prefix_caching=no, flag.NAME=VALUE; repeatable.",
        ),
    ] = field(default_factory=list)
    traffic: Annotated[
        list[str],
        typer.Option(
            "--traffic",
            metavar="NAME=VALUE",
            show_default=False,
            help="What arrived, as the client was told: rate_per_s=5, users=64, dataset=sharegpt; repeatable.",
        ),
    ] = field(default_factory=list)
    requests: Annotated[
        Path | None,
        typer.Option("--requests", metavar="FILE", help="The raw requests; their fingerprint tells the traffic."),
    ] = None
    quality: Annotated[
        list[str],
        typer.Option(
            "--quality",
            metavar="NAME=VALUE[:N][:lower]",
            show_default=False,
            help="A quality result of N samples: mmlu=71.2%:14042, perplexity=5.31:lower; repeatable.",
        ),
    ] = field(default_factory=list)
    driver: Annotated[str | None, typer.Option("--driver", metavar="VERSION", help="Of the device.")] = None
    date: Annotated[str | None, typer.Option("--date", metavar="DAY", help="Of the run, 2026-11-30.")] = None
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="What the run is called.")] = ""


@dataclass(frozen=True, slots=True)
class SavedScenario(ScenarioOptions):
    """The scenario's options; of --run the model is known."""

    model: Annotated[
        str, typer.Option("--model", "-m", metavar="MODEL", show_default=False, help="As --model of plan takes it.")
    ] = ""


def with_quality_results(options: RunOptions) -> "SavedRun":
    """A saved run with quality results in the place of those of the same names."""
    from infopt.studies.saved_run import read_run, with_quality

    assert options.run is not None
    given = (options.observed, options.set, options.traffic, options.requests, options.driver)
    if any(given):
        raise InfoptError(
            "--run is of a run that is saved already: only --quality, --name, --date and --out go with it"
        )
    if not options.quality:
        raise InfoptError("--run without --quality: nothing is to be added")
    run = with_quality(read_run(options.run), _qualities(options.quality))
    return _named(run, options)


def _named(run: "SavedRun", options: RunOptions) -> "SavedRun":
    from infopt.studies.saved_run import checked_date

    changed: dict[str, Any] = {"name": options.name} if options.name else {}
    return run.model_copy(update=changed | ({"date": checked_date(options.date)} if options.date else {}))


def measured(options: RunOptions, scenario: SavedScenario) -> "SavedRun":
    from infopt.profiles.resolve import resolve_model
    from infopt.studies.experiment_variables import parsed
    from infopt.studies.saved_observation import measured_configuration, observed_rows, run_from_observation
    from infopt.studies.saved_run import Hardware, Requests, checked_date, sha256_of_file
    from infopt.studies.scenarios import build

    if not options.observed:
        raise InfoptError("nothing to save: --observed FILE (a benchmark's result), or --run FILE with --quality")
    if not scenario.model or scenario.hw is None:
        raise InfoptError("--model and --hw are missing: a saved run says what ran, and on what")
    observations = observed_rows(options.observed, options.row)
    model, hardware = resolve_model(scenario.model, online=scenario.online), scenario.hardware()
    tell(calibration_notes([hardware]))
    request = scenario.request()
    stated = {name: parsed(name, text) for name, text in _pairs(options.set, "--set")}
    s = build(model, hardware, replace(request, batch=request.dp)).scenario
    configuration, defaulted = measured_configuration(s, request, stated, observations[0], hardware.gpus is not None)
    requests = None
    if options.requests is not None:
        requests = Requests(count=0, file=options.requests.name, sha256=sha256_of_file(options.requests))
    return run_from_observation(
        observations,
        configuration,
        Hardware(
            device=s.accelerator.id,
            name=s.accelerator.name or "",
            driver=options.driver,
            calibration=s.accelerator.calibration,
        ),
        defaulted=defaulted,
        traffic=_traffic(options.traffic),
        requests=requests,
        quality=_qualities(options.quality),
        name=options.name,
        date=checked_date(options.date),
    )


def _pairs(texts: Sequence[str], option: str) -> list[tuple[str, str]]:
    """NAME=VALUE texts, each name once."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (piece.strip() for piece in text.partition("="))
        if not equals or not name or not value:
            raise InfoptError(f"{option} {text}: NAME=VALUE is expected")
        if name in found:
            raise InfoptError(f"{option} {name}: given twice")
        found[name] = value
    return list(found.items())


def _traffic(texts: Sequence[str]) -> "dict[str, Scalar]":
    """Numbers where they are numbers, else texts."""
    from infopt.studies.experiment_variables import number as parsed_number

    found: dict[str, Scalar] = {}
    for name, text in _pairs(texts, "--traffic"):
        try:
            found[name] = parsed_number(name, text)
        except InfoptError:
            found[name] = text
    return found


def _qualities(texts: Sequence[str]) -> "list[Quality]":
    """`mmlu=71.2%:14042` and the like."""
    from infopt.studies.saved_run import parse_quality

    return [parse_quality(name, text) for name, text in _pairs(texts, "--quality")]
