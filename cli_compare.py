"""`plan --compare A B`: option strings laid over the plan's other options."""

import shlex
from dataclasses import fields, replace
from typing import Any

import typer
from typer.exceptions import TyperException

from infopt.cli_options import Format, ScenarioOptions, calibration_notes, takes
from infopt.errors import InfoptError
from infopt.studies.planning import Plan


def compared(base: ScenarioOptions, a: str, b: str, form: Format) -> tuple[str, bool | None]:
    """The comparison in one form, and whether both scenarios fit."""
    from infopt.reports.render import render_comparison
    from infopt.studies.compare import compare

    result = compare(_plan(base, a), _plan(base, b), a, b)
    return render_comparison(result, form), result.fits


def _plan(base: ScenarioOptions, text: str) -> Plan:
    from infopt.cli import tell
    from infopt.profiles.resolve import resolve_model
    from infopt.studies.planning import plan

    options = laid_over(base, text)
    if options.hw is None:
        raise InfoptError(f"--compare {text!r}: no hardware; give --hw to both or in each of the two")
    hardware = options.hardware()
    tell(calibration_notes([hardware]))
    return plan(resolve_model(options.model, online=options.online), hardware, options.request())


def laid_over(base: ScenarioOptions, text: str) -> ScenarioOptions:
    """`base` with the options of `text` in place of its own; options that `text` does not name stay."""
    parser = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

    @parser.command(add_help_option=False)
    @takes(ScenarioOptions)
    def scenario(options: ScenarioOptions) -> None: ...

    try:
        words = shlex.split(text)
        command: Any = typer.main.get_command(parser)
        context = command.make_context("--compare", ["--model", base.model, *words])
    except ValueError as error:
        raise InfoptError(f"--compare {text!r}: {error}") from error
    except TyperException as error:
        raise InfoptError(f"--compare {text!r}: {error.format_message()}") from error
    named = {name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"}
    given = {f.name: context.params[f.name] for f in fields(base) if f.name in named}
    return replace(base, **given)
