"""`infopt gate`: which files, what is known beside them, what fails, and the form of the answer."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from infopt.cli import app, emit, tell
from infopt.cli_options import takes

if TYPE_CHECKING:
    from infopt.gate.check import Gate
    from infopt.gate.policy import Policy

GATE_STATUSES = (
    "Exit status: 0 pass, 1 a finding fails it, 2 a file could not be read, 3 no deployment was found, "
    "4 undetermined (a fact is missing)."
)
GateForm = Literal["table", "json", "sarif", "junit", "github", "gitlab", "md"]


@dataclass(frozen=True, slots=True)
class GateOptions:
    """What the files do not say, and what counts as a failure."""

    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Default: infopt.yaml here, where there is one.")
    ] = None
    gpu: Annotated[
        str | None, typer.Option("--gpu", metavar="HARDWARE", help="Device of every file: h100.")
    ] = None
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL", help="What every file serves.")] = None
    engine_version: Annotated[
        str | None, typer.Option("--engine-version", metavar="VERSION", help="Version of the engine in every file.")
    ] = None
    fail_on: Annotated[Literal["error", "warning"], typer.Option("--fail-on", help="Least severity that fails.")] = (
        "error"
    )
    allow_undetermined: Annotated[bool, typer.Option("--allow-undetermined", help="Exit 0 where undetermined.")] = False
    json: Annotated[bool, typer.Option("--json", help="JSON, the same as --format json.")] = False
    format: Annotated[GateForm, typer.Option("--format", help="Output form.")] = "table"

    @property
    def form(self) -> GateForm:
        return "json" if self.json else self.format


@app.command(epilog=GATE_STATUSES)
@takes(GateOptions)
def gate(
    options: GateOptions,
    files: Annotated[list[str], typer.Argument(metavar="FILES", help="Files and folders; - is standard input.")],
) -> None:
    """Check deployment files: do they start, hold one request, and use what they are given?

    \b
    infopt gate k8s/
    infopt gate deployment.yaml --gpu h100 --json
    helm template . | infopt gate -
    """
    from infopt.gate.check import gate as checked
    from infopt.gate.reading import Overrides
    from infopt.reports.render_gate import render_gate

    policy = _policy(options)
    overrides = Overrides(options.model, options.engine_version, options.gpu)
    text = sys.stdin.read() if "-" in files else None
    found = checked(files, policy, overrides, text)
    tell(found.errors)
    emit(render_gate(found, options.form))
    raise typer.Exit(gate_status(found, options.fail_on, options.allow_undetermined))


def _policy(options: GateOptions) -> "Policy":
    from infopt.gate.policy import Policy

    return Policy(hardware=options.gpu)


def gate_status(found: "Gate", fail_on: str, allow_undetermined: bool) -> int:
    """1 for a failure, else 2 for an unreadable file, else 4, else 0; 3 where nothing was found."""
    failing = ("error",) if fail_on == "error" else ("error", "warning")
    if any(f.severity in failing and f.suppressed is None for f in found.findings):
        return 1
    if found.errors:
        return 2
    if not found.checked:
        return 3
    return 4 if found.verdict == "undetermined" and not allow_undetermined else 0
