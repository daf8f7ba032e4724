"""`infopt export`: a plan as rules for Prometheus or a dashboard for Grafana."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infopt.cli import app, command, emit, tell
from infopt.cli_load import (
    LoadOptions,
    Method,
    PrefixCount,
    PrefixSkew,
    SharedPrefixTokens,
    TpotTarget,
    TtftTarget,
    above_zero,
    part,
)
from infopt.cli_options import ScenarioOptions, number, takes
from infopt.errors import InfoptError

if TYPE_CHECKING:
    from infopt.studies.export import Export, Wanted

EXPORT_STATUSES = (
    "Exit status: 0 written, 1 the plan does not fit and nothing is written, 2 wrong usage or unreadable input, "
    "4 whether it fits is not known."
)
exports = typer.Typer(help="A plan as files for the tools that watch it.", rich_markup_mode=None)
app.add_typer(exports, name="export")

JsonOption = Annotated[bool, typer.Option("--json", help="JSON, which Prometheus reads as well; without comments.")]


@dataclass(frozen=True, slots=True)
class PromiseOptions:
    """What arrives and what was promised, as far as an alert is about it."""

    rate: Annotated[
        float | None,
        typer.Option("--rate", parser=above_zero("--rate", "rate"), metavar="RATE", help="Requests: 5/s, 300/min."),
    ] = None
    ttft: TtftTarget = None
    tpot: TpotTarget = None
    good: Annotated[float | None, part("--good", "Of the requests that must be within --ttft; default 90%.")] = None
    shared_prefix: SharedPrefixTokens = None
    prefixes: PrefixCount = None
    prefix_skew: PrefixSkew = None
    hit_share: Annotated[float | None, part("--hit-share", "Share of prompt tokens found in the cache.")] = None
    method: Annotated[Method | None, typer.Option("--method", help="How drafts are made.")] = None
    draft: Annotated[
        str | None, typer.Option("--draft", metavar="MODEL", help="A draft model, as --model takes it.")
    ] = None
    drafted: Annotated[int | None, number("--drafted", "Tokens drafted in a cycle.")] = None

    def load(self) -> LoadOptions:
        """The same as options of a load."""
        if self.good is not None and self.ttft is None:
            raise InfoptError("--good is of a target for the first token: add --ttft TIME")
        return LoadOptions(
            rate=self.rate,
            ttft=self.ttft,
            tpot=self.tpot,
            shared_prefix=self.shared_prefix,
            prefixes=self.prefixes,
            prefix_skew=self.prefix_skew,
            hit_share=self.hit_share,
            method=self.method,
            draft=self.draft,
            drafted=self.drafted,
        )


@dataclass(frozen=True, slots=True)
class WatchedOptions:
    """How Prometheus knows the engine, and where the file goes."""

    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="NAMES",
            help="Whose names /metrics has: dynamo, nim, triton, ..; default the engine's.",
        ),
    ] = None
    served: Annotated[
        str | None, typer.Option("--served", metavar="NAME", help="What the engine calls the model; default its id.")
    ] = None
    match: Annotated[
        list[str],
        typer.Option(
            "--match", metavar="LABEL=VALUE", show_default=False, help="A label its series have, job=llm; repeatable."
        ),
    ] = field(default_factory=list)
    metric_prefix: Annotated[
        str | None,
        typer.Option("--metric-prefix", metavar="TEXT", help="Written before the names by a collector: ray_vllm_."),
    ] = None
    name: Annotated[
        str | None, typer.Option("--name", metavar="TEXT", help="Of the plan, on all that is recorded.")
    ] = None
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write here, whole or not at all, instead of printing.")
    ] = None
    allow_undetermined: Annotated[
        bool, typer.Option("--allow-undetermined", help="Write it where a fact of the memory ledger is missing.")
    ] = False

    def wanted(self, good_share: float | None) -> "Wanted":
        """The same as the study takes them."""
        from infopt.studies.export import Wanted
        from infopt.studies.offered import GOOD_SHARE

        return Wanted(
            metrics=self.metrics,
            served=self.served,
            matches=tuple(self.match),
            prefix=self.metric_prefix,
            name=self.name,
            good_share=GOOD_SHARE if good_share is None else good_share,
            unknown_fits=self.allow_undetermined,
        )

    def deliver(self, text: str) -> None:
        """Print the file or write it."""
        if self.out is None:
            emit(text.removesuffix("\n"))
            return
        from infopt.files import write_text

        write_text(self.out, text)


@exports.command("prometheus", epilog=EXPORT_STATUSES)
@takes(ScenarioOptions, PromiseOptions, WatchedOptions)
def prometheus(
    scenario: ScenarioOptions, promised: PromiseOptions, watched: WatchedOptions, json: JsonOption = False
) -> None:
    """Recording rules and alerts whose thresholds are the plan's, in the engine's own metric names.

    \b
    infopt export prometheus --model 8b --hw h100 --isl 2000 --osl 300 --batch 32 > rules.yaml
    infopt export prometheus --model 8b --hw h100 --isl 2000 --osl 300 --batch 32 --ttft 1s --tpot 50ms --rate 8/s
    infopt export prometheus --model 70b --hw h200:8 --engine sglang --ctx 8k --batch 64 --match namespace=prod
    """
    from infopt.reports.export_prometheus import rules_text

    found = exported(scenario, promised, watched)
    watched.deliver(rules_text(found, command(), json))


@exports.command("grafana", epilog=EXPORT_STATUSES)
@takes(ScenarioOptions, PromiseOptions, WatchedOptions)
def grafana(
    scenario: ScenarioOptions,
    promised: PromiseOptions,
    watched: WatchedOptions,
    json: Annotated[bool, typer.Option("--json", help="A dashboard is JSON with it or without.")] = False,
) -> None:
    """A dashboard: live figures of the engine beside the plan's floor, estimate, interval and targets.

    \b
    infopt export grafana --model 8b --hw h100 --isl 2000 --osl 300 --batch 32 > dashboard.json
    infopt export grafana --model 8b --hw h100 --isl 2000 --osl 300 --batch 32 --ttft 1s --out dashboard.json
    """
    from infopt.reports.export_grafana import dashboard_text

    found = exported(scenario, promised, watched)
    watched.deliver(dashboard_text(found, command()))


def exported(scenario: ScenarioOptions, promised: PromiseOptions, watched: WatchedOptions) -> "Export":
    """The plan as queries; what is left out is told."""
    from infopt.profiles.resolve import resolve_model
    from infopt.studies.export import export

    if scenario.hw is None:
        raise InfoptError("--hw is missing: thresholds are of a certain machine, such as --hw h100:4")
    model = resolve_model(scenario.model, online=scenario.online)
    load = promised.load().load(scenario)
    found = export(model, scenario.hardware(), scenario.request(), load, watched.wanted(promised.good))
    tell(f"left out: {one.id}: {one.why}" for one in found.left_out)
    return found
