"""The command line: parse, call one function, render."""

import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer
from typer.exceptions import TyperException

from infopt import __version__
from infopt.cli_observed import ObservedOptions
from infopt.cli_options import (
    Curves,
    LadderOptions,
    MonthOptions,
    OutputOptions,
    PageFile,
    PlotFile,
    ScenarioOptions,
    calibration_notes,
    takes,
    without_options,
)
from infopt.errors import InfoptError, one_line
from infopt.files import BROKEN_NAMES, say

if TYPE_CHECKING:
    from infopt.profiles.geometry import ModelProfile
    from infopt.studies.planning import Plan

GOOD, FAILS, WRONG_USAGE, NOTHING, UNDETERMINED, INTERRUPTED = 0, 1, 2, 3, 4, 130
STATUSES = "Exit status: 0 fits, 1 does not fit, 2 wrong usage or unreadable input, 4 undetermined (a fact is missing)."
ALL_STATUSES = (
    "Exit status: 0 good; 1 does not fit, gate failed or target missed; 2 wrong usage or unreadable input; "
    "3 nothing to check; 4 undetermined (a fact is missing)."
)
ALWAYS_GOOD = "Exit status: 0 good, 2 wrong usage or unreadable input."
# Commands with many options of their own: their modules are imported where they are named, or all are listed.
MODULES = {
    "boundary": "infopt.cli_boundary",
    "checklist": "infopt.cli_checklist",
    "completion": "infopt.cli_completion",
    "experiment": "infopt.cli_experiment",
    "export": "infopt.cli_export",
    "gate": "infopt.cli_gate",
    "mcp": "infopt.cli_mcp",
    "hardware": "infopt.cli_catalogue",
    "models": "infopt.cli_catalogue",
    "observe": "infopt.cli_observe",
    "probe": "infopt.cli_probe",
    "reproduce": "infopt.cli_evidence",
    "rules": "infopt.cli_rules",
    "search": "infopt.cli_search",
    "simulate": "infopt.cli_simulate",
    "sweep": "infopt.cli_sweep",
    "validate": "infopt.cli_evidence",
}

app = typer.Typer(
    name="infopt",
    help="Will a model fit, how fast can it be, and which optimization pays.\n\n\b\ninfopt plan --model 70b --ctx 32k",
    epilog=f"32k means 32768 tokens. {ALL_STATUSES}",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        emit(f"infopt {__version__}")
        raise typer.Exit(GOOD)
    if context.invoked_subcommand is None:
        emit(context.get_help())
        raise typer.Exit(WRONG_USAGE)


@app.command(epilog=STATUSES)
@takes(ScenarioOptions, ObservedOptions, MonthOptions, LadderOptions, OutputOptions)
def plan(
    scenario: ScenarioOptions,
    observed: ObservedOptions,
    monthly: MonthOptions,
    ladder: LadderOptions,
    output: OutputOptions,
    explain: Annotated[bool, typer.Option("--explain", help="Every term with formula, numbers and source.")] = False,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="A B", show_default=False, help="Two sets of options, term by term."),
    ] = None,
    curves: Curves = False,
    plot: PlotFile = None,
    html: PageFile = None,
    allow_undetermined: Annotated[
        bool, typer.Option("--allow-undetermined", help="Exit 0 where undetermined.")
    ] = False,
) -> None:
    """Memory, bandwidth and compute of one scenario; without --hw, the hardware that holds it.

    \b
    infopt plan --model 70b --ctx 32k
    infopt plan --model 70b --ctx 32k --hw h100:4 --batch 8 --explain
    infopt plan --model ./config.json --hw "2x rtx 4090" --weights int4 --json
    infopt plan --model 70b --isl 2k --osl 300 --compare "--hw h100:4" "--hw h200:2 --weights fp8"
    infopt plan --model 70b --isl 2k --osl 300 --hw h100:4 --batch 32 --monthly 5/s --baseline-usd 30000
    infopt plan --model 70b --isl 2k --osl 300 --hw h100:4 --ladder
    infopt plan --model 8b --hw l40s --observed observed.json
    infopt plan --model 8b --hw h100 --ctx 8k --batch 64 --tpot 20ms --curves --plot plan.svg
    infopt plan --model 70b --hw h100:4 --ctx 32k --batch 8 --html plan.html

    32k means 32768 tokens. Times are floors (at least this long) but for those of the estimate.
    """
    from infopt.profiles.resolve import resolve_model

    if ladder.asked and (compare is not None or explain or monthly.load() is not None):
        raise InfoptError("--ladder is a page of its own: leave --compare, --explain and --monthly out")
    check_plan(scenario, observed, monthly, is_one=compare is None and not ladder.asked)
    draws = curves or plot is not None
    if draws:
        from infopt.cli_pictures import check_plan_pictures, pictures_of_plan

        check_plan_pictures(
            curves, plot, output, is_one=scenario.hw is not None and compare is None and not ladder.asked
        )
    if ladder.tpot is not None and not (ladder.asked or draws or html):
        raise InfoptError("--tpot is a target of --ladder, --curves, --plot and --html: add one of them")
    if html is not None and (ladder.asked or compare is not None):
        raise InfoptError("--html is of one plan, or of the choice of hardware: leave --ladder and --compare out")
    if html is not None:
        from infopt.cli_page import PageOptions

        PageOptions(html).check(("--plot", plot))
    if ladder.asked or compare is not None:
        text, fits = other_page(scenario, ladder, compare, output)
        emit(text)
        raise typer.Exit(verdict_status(fits, allow_undetermined))
    model = resolve_model(scenario.model, online=scenario.online)
    if scenario.hw is None:
        from infopt.reports.render import render_choices
        from infopt.studies.choices import choices

        compared = scenario.common_hardware()
        tell(calibration_notes(compared))
        found = choices(model, scenario.request(), compared)
        if html is not None:
            from infopt.cli_plan_page import write_choices

            write_choices(html, found)
        text, fits = render_choices(found, output.form, next_command(found.plans, command())), found.fits
    else:
        from infopt.reports.render import render_plan

        result = planned(model, scenario, observed)
        if html is not None:
            from infopt.cli_plan_page import write_plan

            write_plan(html, result, scenario, ladder, monthly, explain, observed.observed is not None)
        drawn = pictures_of_plan(result, curves, plot, ladder.target_s()) if draws else None
        text, fits = render_plan(result, output.form, explain, monthly.month(result), drawn), result.fits
    emit(text)
    raise typer.Exit(verdict_status(fits, allow_undetermined))


def check_plan(
    scenario: ScenarioOptions, observed: ObservedOptions, monthly: MonthOptions, is_one: bool = True
) -> None:
    """Refuse what is said of one deployment where there is none, or another page (not `is_one`)."""
    named = is_one and scenario.hw is not None
    if monthly.load() is not None and not named:
        raise InfoptError("--monthly is of one deployment: name it with --hw, and leave --compare out")
    if observed.observed is not None and not named:
        raise InfoptError("--observed is of one deployment: name it with --hw, and leave --compare and --ladder out")


def planned(model: "ModelProfile", scenario: ScenarioOptions, observed: ObservedOptions) -> "Plan":
    """The plan of one scenario, with what was observed of it where a file says that."""
    from infopt.studies.planning import plan as study

    if observed.observed is None:
        return study(model, scenario.hardware(), scenario.request())
    from infopt.studies.observed import planned_with

    return planned_with(model, scenario.hardware(), observed.filled(model, scenario))


def other_page(
    scenario: ScenarioOptions, ladder: LadderOptions, compare: tuple[str, str] | None, output: OutputOptions
) -> tuple[str, bool | None]:
    """Pages of `plan` that are not one plan: the cost ladder, two plans beside each other."""
    if compare is None:
        from infopt.cli_ladder import laddered

        return laddered(scenario, ladder, output.form)
    from infopt.cli_compare import compared

    return compared(scenario, *compare, output.form)


@app.command(epilog=ALWAYS_GOOD)
def schema(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="Without one: the names.")
    ] = None,
) -> None:
    """The JSON Schema of what a command prints with --json.

    \b
    infopt schema plan
    """
    from infopt.reports.schemas import schema_names, schema_text

    emit(schema_text(name) if name else "\n".join(schema_names()))


def verdict_status(fits: bool | None, allow_undetermined: bool) -> int:
    """Exit status of a verdict."""
    if fits is None:
        return GOOD if allow_undetermined else UNDETERMINED
    return GOOD if fits else FAILS


def command() -> str:
    """The command line as it was typed."""
    return shlex.join(["infopt", *sys.argv[1:]])


def next_command(plans: "Sequence[Plan]", typed: str) -> str:
    """The command line to which the best hardware is added: as typed, without a calibration that is not of it."""
    if not plans or plans[0].scenario.accelerator.calibration is not None:
        return typed
    return shlex.join(without_options(shlex.split(typed), {"--calibration"}))


def emit(text: str) -> None:
    """Print a result; a reader who leaves early (`| head -1`) is no failure, a full disk is."""
    try:
        try:
            sys.stdout.write(text + "\n")
        except UnicodeEncodeError:  # a page for the screen keeps to what it takes; a document is UTF-8, as in a file
            sys.stdout.buffer.write((text + "\n").encode("utf-8", BROKEN_NAMES))
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered must go nowhere, or the interpreter complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise InfoptError(f"the output cannot be written: {error.strerror}") from error


def tell(notes: Iterable[str]) -> None:
    """Lines for the user, on standard error."""
    for note in notes:
        say(f"infopt: {one_line(note)}\n")


def fail(message: str, status: int, arguments: Sequence[str]) -> int:
    """One line on stderr and, where JSON was asked for, an error object on stdout."""
    line = one_line(message)
    say(f"infopt: {line}\n")
    if "--json" in arguments or "--format=json" in arguments or "--format json" in " ".join(arguments):
        from infopt.reports.json_report import ERROR_SCHEMA, dumps, error_dict

        with suppress(InfoptError):  # it cannot be written either
            emit(dumps({"schema": ERROR_SCHEMA, **error_dict(line, status)}))
    return status


def usage_words(message: str, arguments: Sequence[str]) -> str:
    """What Typer says of wrong usage, with what to do next."""
    if message == "Missing command.":
        return f"{message} `{shlex.join(['infopt', *arguments])} --help` lists them"
    return message.replace("Value error, ", "")


def narrowed(name: str) -> typer.Typer:
    """The app with the one command or group `name`, where there is one: the others cost start-up time to build."""
    if name in MODULES:
        import_module(MODULES[name])
    commands = [c for c in app.registered_commands if c.callback is not None and c.callback.__name__ == name]
    groups = [g for g in app.registered_groups if g.name == name]
    if not commands and not groups:
        for module in MODULES.values():
            import_module(module)
        return app
    one = typer.Typer(name="infopt", rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    one.registered_callback = app.registered_callback
    one.registered_commands, one.registered_groups = commands, groups
    return one


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit status."""
    program = narrowed(arguments[0] if arguments else "")
    try:
        return program(args=list(arguments), prog_name="infopt", standalone_mode=False) or GOOD
    except InfoptError as error:
        return fail(str(error), error.exit_status, arguments)
    except TyperException as error:
        return fail(usage_words(error.format_message(), arguments), WRONG_USAGE, arguments)
    except OSError as error:
        return fail(f"{error.filename or 'output'}: {error.strerror or error}", WRONG_USAGE, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit:  # Typer leaves where a pipe is closed: a reader of help who leaves early is no failure
        return GOOD if "--help" in arguments else fail("a pipe was closed by its reader", WRONG_USAGE, arguments)


def main() -> None:
    """Entry point of the `infopt` program."""
    # Looking for plugins of pydantic, which we use none of, reads the metadata of every installed distribution.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    sys.exit(run(sys.argv[1:]))
