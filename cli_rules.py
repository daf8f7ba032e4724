"""`infopt rules`: what the gate looks for."""

from typing import Annotated, Literal

import typer

from infopt.cli import ALWAYS_GOOD, app, emit


@app.command(epilog=ALWAYS_GOOD)
def rules(
    id: Annotated[
        str | None, typer.Argument(metavar="ID", show_default=False, help="One rule; without it, all of them.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON, the same as --format json.")] = False,
    format: Annotated[Literal["table", "json", "md"], typer.Option("--format", help="Output form.")] = "table",
) -> None:
    """The rules of `infopt gate`: what each finds, why, what to do, and the numbers a policy can set.

    \b
    infopt rules
    infopt rules does-not-fit
    infopt rules --json
    """
    from infopt.gate.rules.registry import catalogue, rule
    from infopt.reports.rules_report import render_rules

    emit(render_rules(catalogue() if id is None else (rule(id),), "json" if json else format, id is not None))
