"""`infopt probe`: what to measure, on which device, and where the record goes."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infopt.cli import GOOD, INTERRUPTED, UNDETERMINED, app, emit, tell
from infopt.cli_options import Online, OutputOptions, length, number, takes
from infopt.errors import InfoptError, UndeterminedError
from infopt.units import parse_count, parse_tokens

if TYPE_CHECKING:
    from infopt.probes.findings import Part
    from infopt.probes.session import Job, Outcome
    from infopt.probes.setting import Setting
    from infopt.profiles.geometry import ModelProfile

PROBE_STATUSES = (
    "Exit status: 0 measured, 2 wrong usage or a device that refuses, 4 a figure is contended or something could not "
    "be measured, 130 interrupted (finished parts are kept)."
)
COMPARE_STATUSES = "Exit status: 0 no drift, 1 drift, 2 wrong usage or unreadable input, 4 nothing to compare."
probe = typer.Typer(help="Measure this machine and write a calibration record.", rich_markup_mode=None)
app.add_typer(probe, name="probe")


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Which device, how thoroughly, and where the record goes."""

    device: Annotated[str, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:1.")] = "auto"
    threads: Annotated[int | None, number("--threads", "Threads on a CPU; default: all this process may use.")] = None
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes and fewer samples: a check.")] = False
    force: Annotated[bool, typer.Option("--force", help="Measure a busy device, and take more of its memory.")] = False
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.yaml", help="The record; default: one per device in the user data folder."),
    ] = None


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Whose geometry is run, in which format."""

    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="MODEL", show_default=False, help="As --model of plan takes it."),
    ] = None
    weights: Annotated[str | None, typer.Option("--weights", metavar="FORMAT", help="fp32, bf16 or fp16.")] = None
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="N,N", help="Sequences at once, one or several: 1,2,4,8.")
    ] = None
    online: Online = False

    def profile(self) -> "ModelProfile | None":
        """The model named."""
        if self.model is None:
            return None
        from infopt.profiles.resolve import resolve_model

        return resolve_model(self.model, online=self.online)


@probe.callback(invoke_without_command=True, epilog=PROBE_STATUSES)
@takes(ProbeOptions, OutputOptions)
def everything(options: ProbeOptions, output: OutputOptions, context: typer.Context) -> None:
    """Measure this machine: everything, or one thing by its name.

    \b
    infopt probe --quick
    infopt probe --device cuda --out h100.yaml
    infopt probe bandwidth
    infopt plan --model 8b --hw auto --calibration auto

    Without a name: bandwidth, compute, transfers, links, power, decode steps, verification and drafts.
    """
    if context.invoked_subcommand is not None:
        return
    from infopt.probes.jobs import all_jobs

    finish(measured(options, all_jobs), options, output)


@probe.command("bandwidth", epilog=PROBE_STATUSES)
@takes(ProbeOptions, OutputOptions)
def probe_bandwidth(options: ProbeOptions, output: OutputOptions) -> None:
    """How fast memory is read, copied, and read by the products that decoding uses.

    \b
    infopt probe bandwidth
    """
    from infopt.probes.bandwidth import bandwidth

    finish(measured(options, lambda: [job("bandwidth", bandwidth)]), options, output)


@probe.command("compute", epilog=PROBE_STATUSES)
@takes(ProbeOptions, StepOptions, OutputOptions)
def probe_compute(options: ProbeOptions, steps: StepOptions, output: OutputOptions) -> None:
    """Products of matrices by number type, at the shapes of a model.

    \b
    infopt probe compute --model 8b
    """
    from infopt.probes.compute import compute

    model = steps.profile()
    formats = steps.weights.split(",") if steps.weights else None
    if steps.batch is not None:
        raise InfoptError("--batch is of probe latency and verify: products of a prompt have no batch")
    finish(measured(options, lambda: [job("compute", lambda s: compute(s, model, formats))]), options, output)


@probe.command("transfer", epilog=PROBE_STATUSES)
@takes(ProbeOptions, OutputOptions)
def probe_transfer(
    options: ProbeOptions,
    output: OutputOptions,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="Where storage is measured; default: here.")
    ] = None,
) -> None:
    """Host to device and back, and storage: a bounded file is written, read past the cache, and removed.

    \b
    infopt probe transfer --folder /mnt/nvme
    """
    from infopt.probes.transfer import transfer

    finish(measured(options, lambda: [job("transfer", lambda s: transfer(s, folder))]), options, output)


@probe.command("links", epilog=PROBE_STATUSES)
@takes(ProbeOptions, OutputOptions)
def probe_links(
    options: ProbeOptions,
    output: OutputOptions,
    ranks: Annotated[int | None, number("--ranks", "Processes to start; default: one a GPU, 2 on a CPU.", 2)] = None,
) -> None:
    """Collectives between devices by size: all-reduce, all-gather, send and receive.

    \b
    infopt probe links
    torchrun --nproc-per-node 8 --nnodes 2 -m infopt probe links

    Under torchrun or SLURM it joins the ranks that were started.
    """
    from infopt.probes.links import links
    from infopt.probes.ranks import follows_another, own_device
    from infopt.probes.session import Job

    asked = Job("links", lambda s: links(s, ranks), follows_another())
    finish(measured(replace(options, device=own_device(options.device)), lambda: [asked]), options, output)


@probe.command("power", epilog=PROBE_STATUSES)
@takes(ProbeOptions, OutputOptions)
def probe_power(options: ProbeOptions, output: OutputOptions) -> None:
    """Watts at rest, while memory is read, and while matrices are multiplied.

    \b
    infopt probe power --device cuda
    """
    from infopt.probes.power import power

    finish(measured(options, lambda: [job("power", power)]), options, output)


@probe.command("latency", epilog=PROBE_STATUSES)
@takes(ProbeOptions, StepOptions, OutputOptions)
def probe_latency(
    options: ProbeOptions,
    steps: StepOptions,
    output: OutputOptions,
    kv: Annotated[
        str | None, typer.Option("--kv", metavar="FORMAT", help="Of the cache; default: as the weights.")
    ] = None,
    ctx: Annotated[str | None, typer.Option("--ctx", metavar="TOKENS,TOKENS", help="Cached tokens: 256,4k.")] = None,
    single: Annotated[bool, typer.Option("--single", help="Only this model; one size solves no overhead.")] = False,
) -> None:
    """Decode steps of a model's geometry by batch and context, with random weights; and of a second size.

    \b
    infopt probe latency --model 8b --weights bf16 --batch 1,4,16 --ctx 256,4k
    """
    from infopt.probes.jobs import latency_job

    asked = latency_job(
        steps.profile(), steps.weights, kv, counts(steps.batch, "--batch"), lengths(ctx, "--ctx"), single
    )
    finish(measured(options, lambda: [asked]), options, output)


@probe.command("verify", epilog=PROBE_STATUSES)
@takes(ProbeOptions, StepOptions, OutputOptions)
def probe_verify(options: ProbeOptions, steps: StepOptions, output: OutputOptions) -> None:
    """What a step of several tokens a sequence costs: the verification of a draft.

    \b
    infopt probe verify --model 8b --batch 1,8
    """
    from infopt.probes.jobs import verify_job

    asked = verify_job(steps.profile(), steps.weights, counts(steps.batch, "--batch"))
    finish(measured(options, lambda: [asked]), options, output)


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """Who drafts for whom, on which texts."""

    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="PATH", help="Hugging Face folder or GGUF; default: SmolLM2-135M."),
    ] = None
    draft: Annotated[
        list[str],
        typer.Option(
            "--draft",
            metavar="DRAFT",
            show_default=False,
            help="ngram, exit:20, bits:3, or a folder or GGUF; repeatable.",
        ),
    ] = field(default_factory=list)
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FILE", help="JSONL or text of your own; default: a small set.")
    ] = None
    drafted: Annotated[
        str | None, typer.Option("--drafted", metavar="N,N", help="Tokens drafted in a cycle; default 4.")
    ] = None
    temperature: Annotated[float, typer.Option("--temperature", metavar="T", help="0 is greedy.")] = 0.0
    osl: Annotated[int | None, length("--osl", help="Tokens written for each prompt.")] = None
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="URL", help="A server that speculates, instead of a model here."),
    ] = None


@probe.command("draft", epilog=PROBE_STATUSES)
@takes(ProbeOptions, DraftOptions, OutputOptions)
def probe_draft(options: ProbeOptions, drafts: DraftOptions, output: OutputOptions) -> None:
    """How many drafted tokens a real model accepts, and what that gains here by the clock.

    \b
    infopt probe draft
    infopt probe draft --model ./my-model --draft ngram --draft ./my-draft --prompts prompts.jsonl
    infopt probe draft --endpoint http://localhost:8000 --prompts prompts.jsonl
    """
    from infopt.probes.jobs import draft_job, endpoint_job

    if not 0 <= drafts.temperature <= 10:
        raise InfoptError(f"--temperature {drafts.temperature:g}: between 0 (greedy) and 10 is expected")
    if drafts.endpoint is not None:
        for option, given in (("--model", drafts.model), ("--draft", drafts.draft), ("--drafted", drafts.drafted)):
            if given:
                raise InfoptError(f"{option} with --endpoint: the server decides that; leave it out")
        asked = endpoint_job(drafts.endpoint, drafts.prompts, drafts.osl, drafts.temperature)
    else:
        drafted = counts(drafts.drafted, "--drafted")
        asked = draft_job(drafts.model, drafts.draft, drafts.prompts, drafted, drafts.temperature, drafts.osl)
    finish(measured(options, lambda: [asked], here=drafts.endpoint is None), options, output)


@probe.command("compare", epilog=COMPARE_STATUSES)
@takes(OutputOptions)
def probe_compare(
    output: OutputOptions,
    a: Annotated[Path, typer.Argument(metavar="A.yaml", help="A calibration record.")],
    b: Annotated[Path, typer.Argument(metavar="B.yaml", help="Another.")],
) -> None:
    """Two records side by side: what drifted beyond its own spread.

    \b
    infopt probe compare monday.yaml friday.yaml
    """
    from infopt.reports.calibration_compare import render_comparison
    from infopt.studies.calibration_compare import compare_files

    found = compare_files(a, b)
    emit(render_comparison(found, output.form))
    raise typer.Exit(found.exit_status)


def job(name: str, begin: "Callable[[Setting], Part]") -> "Job":
    """A probe by name."""
    from infopt.probes.session import Job

    return Job(name, begin)


def counts(text: str | None, option: str) -> list[int]:
    """Whole numbers separated by commas; none where none were given."""
    return [] if text is None else [parse_count(part.strip(), option) for part in text.split(",")]


def lengths(text: str | None, option: str) -> list[int]:
    """Tokens separated by commas; none where none were given."""
    return [] if text is None else [parse_tokens(part.strip(), option) for part in text.split(",")]


def measured(options: ProbeOptions, jobs: "Callable[[], Sequence[Job]]", here: bool = True) -> "Outcome":
    """Run jobs on the device of the options, or nothing `here` but questions to a server; with a progress bar."""
    if sys.platform == "win32":
        raise InfoptError("probe runs on Linux and macOS; on Windows use WSL")
    from infopt.cli_stop import stopped_by_terminate
    from infopt.probes.runtime import host_runtime, open_runtime
    from infopt.probes.session import run
    from infopt.probes.setting import Setting
    from infopt.probes.state import catalogued
    from infopt.reports.probe_progress import progress

    runtime = open_runtime(options.device, options.threads) if here else host_runtime()
    with progress() as told, stopped_by_terminate():
        setting = Setting(runtime, catalogued(runtime), options.quick, options.force, told)
        return run(setting, jobs(), options.out)


def finish(outcome: "Outcome", options: ProbeOptions, output: OutputOptions) -> None:
    """Print the record and where it is; leave with the status of the run."""
    from infopt.reports.probe_report import render_probe

    tell(outcome.errors)
    if outcome.record is None:
        if outcome.interrupted:
            tell(["interrupted before anything was measured; nothing was written"])
            raise typer.Exit(INTERRUPTED)
        if outcome.notes or outcome.errors:
            raise UndeterminedError(f"nothing was measured: {'; '.join((*outcome.errors, *outcome.notes))}")
        raise typer.Exit(GOOD)  # a rank that another rank speaks for
    emit(render_probe(outcome.record, output.form))
    tell([f"written to {outcome.path}; use it with --calibration {outcome.path if options.out else 'auto'}"])
    if outcome.interrupted:
        tell(["interrupted: finished parts were kept"])
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(UNDETERMINED if outcome.contended or outcome.errors else GOOD)
