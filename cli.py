"""The command line: parse, call one function, render."""

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from infopt import __version__
from infopt.cli_options import OutputOptions, ScenarioOptions, takes
from infopt.errors import InfoptError

GOOD, FAILS, WRONG_USAGE, UNDETERMINED, INTERRUPTED = 0, 1, 2, 4, 130
STATUSES = "Exit status: 0 fits, 1 does not fit, 2 wrong usage or unreadable input, 4 undetermined (a fact is missing)."

app = typer.Typer(
    name="infopt",
    help="Will a model fit, how fast can it be, and which optimization pays.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
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
@takes(ScenarioOptions, OutputOptions)
def plan(
    scenario: ScenarioOptions,
    output: OutputOptions,
    explain: Annotated[bool, typer.Option("--explain", help="Every term with formula, numbers and source.")] = False,
    allow_undetermined: Annotated[
        bool, typer.Option("--allow-undetermined", help="Exit 0 where undetermined.")
    ] = False,
) -> None:
    """Memory, bandwidth and compute of one scenario; without --hw, the hardware that holds it.

    infopt plan --model 70b --ctx 32k

    infopt plan --model 70b --ctx 32k --hw h100:4 --batch 8 --explain

    32k means 32768 tokens.
    """
    from infopt.profiles.resolve import resolve_model

    model = resolve_model(scenario.model, online=scenario.online)
    if scenario.hw is None:
        from infopt.reports.render import render_choices
        from infopt.studies.choices import choices

        found = choices(model, scenario.request(), scenario.common_hardware())
        text, fits = render_choices(found, output.form, command()), found.fits
    else:
        from infopt.reports.render import render_plan
        from infopt.studies.planning import plan as planned

        result = planned(model, scenario.hardware(), scenario.request())
        text, fits = render_plan(result, output.form, explain), result.fits
    emit(text)
    raise typer.Exit(verdict_status(fits, allow_undetermined))


def verdict_status(fits: bool | None, allow_undetermined: bool) -> int:
    """Exit status of a verdict."""
    if fits is None:
        return GOOD if allow_undetermined else UNDETERMINED
    return GOOD if fits else FAILS


def command() -> str:
    """The command line as it was typed."""
    return shlex.join(["infopt", *sys.argv[1:]])


def emit(text: str) -> None:
    """Print a result; a reader who leaves early (`| head -1`) is no failure."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered must go nowhere, or the interpreter complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, status: int, arguments: Sequence[str]) -> int:
    """One line on stderr and, where JSON was asked for, an error object on stdout."""
    line = " ".join(message.split())
    sys.stderr.write(f"infopt: {line}\n")
    if "--json" in arguments or "--format=json" in arguments or "--format json" in " ".join(arguments):
        from infopt.reports.json_report import dumps, error_dict

        emit(dumps(error_dict(line, status)))
    return status


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit status."""
    try:
        return app(args=list(arguments), prog_name="infopt", standalone_mode=False) or GOOD
    except InfoptError as error:
        return fail(str(error), error.exit_status, arguments)
    except TyperException as error:
        return fail(error.format_message().replace("Value error, ", ""), WRONG_USAGE, arguments)
    except OSError as error:
        return fail(f"{error.filename or 'output'}: {error.strerror or error}", WRONG_USAGE, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


def main() -> None:
    """Entry point of the `infopt` program."""
    sys.exit(run(sys.argv[1:]))
