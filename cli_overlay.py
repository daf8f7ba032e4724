"""Option strings laid over the options of a command: what a string names is replaced, all else stays."""

import shlex
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import typer
from typer.exceptions import TyperException

from infopt.cli_options import takes
from infopt.errors import InfoptError


def overlaid(records: Sequence[Any], text: str, option: str = "--compare") -> list[Any]:
    """The option records of a command with the options of `text` in place of their own."""
    parser = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

    @parser.command(add_help_option=False)
    @takes(*(type(record) for record in records))
    def options(*given: Any) -> None: ...

    try:
        words = shlex.split(text)
        command: Any = typer.main.get_command(parser)
        needed = [word for record in records if hasattr(record, "model") for word in ("--model", record.model)]
        context = command.make_context(option, [*needed, *words])
    except ValueError as error:
        raise InfoptError(f"{option} {text!r}: {error}") from error
    except TyperException as error:
        raise InfoptError(f"{option} {text!r}: {error.format_message()}") from error
    named = {name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"}
    return [
        replace(record, **{f.name: context.params[f.name] for f in fields(record) if f.name in named})
        for record in records
    ]
