"""`infopt gate`: which files, what is known beside them, what fails, and the form of the answer."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from infopt.cli import FAILS, GOOD, NOTHING, UNDETERMINED, WRONG_USAGE, app, emit, tell
from infopt.cli_options import CalibrationOption, takes
from infopt.cli_page import PageOptions

if TYPE_CHECKING:
    from infopt.gate.check import Gate
    from infopt.reports.gate_words import Strictness

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
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="HARDWARE", help="Device of every file: h100.")] = None
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL", help="What every file serves.")] = None
    engine_version: Annotated[
        str | None, typer.Option("--engine-version", metavar="VERSION", help="Version of the engine in every file.")
    ] = None
    calibration: CalibrationOption = None
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE", help="Findings of an earlier day that are accepted.")
    ] = None
    write_baseline: Annotated[
        Path | None, typer.Option("--write-baseline", metavar="FILE", help="Accept today's findings: write them there.")
    ] = None
    fail_on: Annotated[Literal["error", "warning"], typer.Option("--fail-on", help="Least severity that fails.")] = (
        "error"
    )
    allow_undetermined: Annotated[bool, typer.Option("--allow-undetermined", help="Exit 0 where undetermined.")] = False
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Exit 0 where no deployment is found.")] = False
    json: Annotated[bool, typer.Option("--json", help="JSON, the same as --format json.")] = False
    format: Annotated[GateForm, typer.Option("--format", help="Output form.")] = "table"

    @property
    def form(self) -> GateForm:
        return "json" if self.json else self.format


@app.command(epilog=GATE_STATUSES)
@takes(GateOptions, PageOptions)
def gate(
    options: GateOptions,
    page: PageOptions,
    files: Annotated[list[str], typer.Argument(metavar="FILES", help="Files and folders; - is standard input.")],
) -> None:
    """Check deployment files: do they start, hold one request, and use what they are given?

    \b
    infopt gate k8s/
    infopt gate deployment.yaml --gpu h100 --json
    helm template . | infopt gate -
    """
    from infopt.reports.gate_words import Strictness
    from infopt.reports.render_gate import render_gate

    page.check(("--write-baseline", options.write_baseline))
    strictness = Strictness(options.fail_on, options.allow_undetermined)
    found = gated(options, files, _standard_input() if "-" in files else None)
    tell(found.errors)
    if page.html is not None:
        from infopt.reports.pages.gate_page import gate_page

        page.write(lambda command: gate_page(found, command))
    emit(render_gate(found, options.form, strictness))
    raise typer.Exit(gate_status(found, strictness, options.allow_empty))


def gated(options: GateOptions, files: list[str], text: str | None) -> "Gate":
    """The files checked, and what is accepted today; `-` among them is the text."""
    from infopt.gate.baseline import write_baseline
    from infopt.gate.check import gate as checked
    from infopt.gate.check import with_baseline
    from infopt.gate.policy_file import find_policy
    from infopt.gate.reading import Overrides
    from infopt.hardware.names import resolve_hardware

    if options.gpu is not None:
        resolve_hardware(options.gpu)
    if options.calibration not in (None, "auto"):
        from infopt.hardware.calibration import load_calibration

        load_calibration(Path(options.calibration))
    policy = find_policy(options.policy)
    overrides = Overrides(options.model, options.engine_version, options.gpu, options.calibration)
    found = checked(files, policy, overrides, text, options.fail_on)
    if options.write_baseline is not None:
        count = write_baseline(options.write_baseline, found.findings)
        tell([f"{count} findings are accepted in {options.write_baseline}"])
    baseline = options.write_baseline or options.baseline
    return found if baseline is None else with_baseline(found, baseline)


def _standard_input() -> str:
    """What stands on standard input, a character more than is read of any file at most."""
    from infopt.gate.reading import MOST_BYTES

    content = getattr(sys.stdin, "buffer", sys.stdin).read(MOST_BYTES + 1)
    return content.decode("utf-8", "surrogateescape") if isinstance(content, bytes) else str(content)


def gate_status(found: "Gate", strictness: "Strictness", allow_empty: bool = False) -> int:
    """1 for a failure, else 2 for an unreadable file, else 4, else 0; 3 where nothing was found."""
    verdict = found.verdict
    if verdict == "fail":
        return FAILS
    if found.errors:
        return WRONG_USAGE
    if not found.checked:
        return GOOD if allow_empty else NOTHING
    return UNDETERMINED if verdict == "undetermined" and not strictness.allow_undetermined else GOOD
