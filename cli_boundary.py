"""`infopt boundary`: the scenario, what arrives, what is in use already, and how deep to go."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

import typer

from infopt.cli import app, emit
from infopt.cli_load import LoadOptions
from infopt.cli_observed import ObservedOptions
from infopt.cli_options import Curves, OutputOptions, PlotFile, ScenarioOptions, takes
from infopt.cli_page import PageOptions
from infopt.cli_pictures import check_pictures
from infopt.errors import InfoptError
from infopt.units import parse_bytes, parse_count

if TYPE_CHECKING:
    from infopt.profiles.geometry import ModelProfile
    from infopt.reports.pages.page import Page
    from infopt.studies.boundary import Boundaries
    from infopt.studies.observed import Filled
    from infopt.studies.prefix_trace import Capacity, Hits

BOUNDARY_STATUSES = (
    "Exit status: 0 good, 1 the technique asked about is impossible here, 2 wrong usage or unreadable input, "
    "4 it must be measured first."
)


@dataclass(frozen=True, slots=True)
class DepthOptions:
    """What is in use already, and which curve is drawn."""

    applied: Annotated[
        list[str],
        typer.Option(
            "--with",
            metavar="A,B",
            show_default=False,
            help="Techniques in use: kv-fp8,speculative. They re-price the others.",
        ),
    ] = field(default_factory=list)
    vary: Annotated[
        str | None,
        typer.Option("--vary", metavar="NAME=LOW:HIGH", help="Gain and verdict along a quantity, as CSV."),
    ] = None
    curves: Curves = False
    plot: PlotFile = None

    def techniques_in_use(self) -> tuple[str, ...]:
        """The names, one by one."""
        return tuple(name.strip() for text in self.applied for name in text.split(",") if name.strip())


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Requests as they were recorded."""

    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="NAME|FILE",
            help="Recorded requests (mooncake, or a file): their mean lengths, and hits of their prefixes in the pool.",
        ),
    ] = None
    capacity: Annotated[
        str | None,
        typer.Option(
            "--capacity",
            metavar="SIZE,..",
            help="More sizes of the cache: blocks of the trace (30000), or bytes of a device (200GB).",
        ),
    ] = None

    def capacities(self) -> tuple["Capacity", ...]:
        """The sizes, one by one."""
        return tuple(parse_capacity(text.strip()) for text in self.capacity.split(",")) if self.capacity else ()

    def hits(self, model: "ModelProfile", filled: "Filled", is_counted: bool) -> "Hits | None":
        """The trace as prefix caches see it, None without one; where hits are asked for it must have prefix ids."""
        if self.trace is None:
            return None
        from infopt.arrivals.traces import open_trace
        from infopt.studies.prefix_trace import caches_of, hits_by_capacity, read_hits

        read = hits_by_capacity if is_counted else read_hits
        caches = caches_of(filled.request.dp, filled.load.prefix.routing)
        return read(open_trace(self.trace), self.trace, caches, model.max_position_tokens)


def parse_capacity(text: str) -> "Capacity":
    """`30000` blocks of a trace, or `200GB` of one device.

    >>> parse_capacity("30000").blocks, parse_capacity("200GB").device_bytes
    (30000, 200000000000)
    """
    from infopt.studies.prefix_trace import Capacity

    if text.lower().endswith("b"):
        return Capacity(text, device_bytes=parse_bytes(text, "--capacity"))
    return Capacity(f"{text} blocks", blocks=parse_count(text, "--capacity"))


@app.command(epilog=BOUNDARY_STATUSES)
@takes(ScenarioOptions, LoadOptions, DepthOptions, TraceOptions, ObservedOptions, PageOptions, OutputOptions)
def boundary(
    scenario: ScenarioOptions,
    load: LoadOptions,
    depth: DepthOptions,
    trace: TraceOptions,
    observed: ObservedOptions,
    page: PageOptions,
    output: OutputOptions,
    technique: Annotated[
        str | None, typer.Argument(metavar="TECHNIQUE", show_default=False, help="Without one: all of them.")
    ] = None,
    allow_undetermined: Annotated[
        bool, typer.Option("--allow-undetermined", help="Exit 0 where it must be measured.")
    ] = False,
) -> None:
    """What each optimization gains here, and the value at which it starts or stops paying.

    \b
    infopt boundary --model 70b --hw h100:4 --isl 2k --osl 300 --batch 32
    infopt boundary speculative --model 70b --hw h100:4 --ctx 4k --alpha 0.7 --draft 1b --curves
    infopt boundary kv --model 70b --hw h100:4 --ctx 8k --vary batch=1:256
    infopt boundary --model 70b --hw h100:4 --ctx 8k --batch 64 --with kv-fp8,weights-fp8
    infopt boundary --model 8b --hw l40s --observed observed.json --with prefix
    infopt boundary prefix --model 70b --hw h100:8 --batch 16 --trace mooncake --capacity 30000,2TB

    Gains are ratios, more is better. A flip is the value at which the verdict changes, all else as it is.
    """
    if technique is None and (depth.vary is not None or depth.curves or depth.plot is not None):
        raise InfoptError("--vary, --curves and --plot are of one technique: name it, infopt boundary speculative ...")
    check_pictures(depth.curves, depth.plot, output)
    page.check(("--plot", depth.plot))
    if depth.vary is not None and page.html is not None:
        raise InfoptError("--vary prints one curve: leave it out with --html, whose page has every curve")
    found = answered(scenario, load, depth, trace, observed, technique)
    page.write(lambda command: _web_page(found, technique, command))
    emit(_page(found, technique, depth, output))
    raise typer.Exit(boundary_status(found, technique, allow_undetermined))


def answered(
    scenario: ScenarioOptions,
    load: LoadOptions,
    depth: DepthOptions,
    trace: TraceOptions,
    observed: ObservedOptions,
    technique: str | None,
) -> "Boundaries":
    """What the options ask, answered: all techniques, or one in full."""
    if scenario.hw is None:
        raise InfoptError("--hw is missing: an optimization pays or not on a certain machine, such as --hw h100:4")
    if trace.capacity is not None and trace.trace is None:
        raise InfoptError("--capacity is a size of the cache that a trace goes through: add --trace mooncake")
    if trace.capacity is not None and (technique is None or not _is_prefix_caching(technique)):
        raise InfoptError("--capacity is of one technique: infopt boundary prefix --trace ...")
    from infopt.boundaries.registry import technique as named
    from infopt.profiles.resolve import resolve_model
    from infopt.studies.boundary import boundaries
    from infopt.studies.prefix_trace import prefix_trace
    from infopt.studies.trace_filled import with_trace

    only = [named(technique)] if technique is not None else []
    model = resolve_model(scenario.model, online=scenario.online)
    used, curve = depth.techniques_in_use(), load.curve()
    filled = observed.filled(model, scenario, load.load(scenario), curve)
    is_prefix = technique is not None and _is_prefix_caching(technique)
    hits = trace.hits(model, filled, is_prefix)
    if hits is not None:
        filled = with_trace(hits, model, scenario.hardware(), filled, curve, used)
    found = boundaries(model, scenario.hardware(), filled.request, filled.load, curve, used, only)
    if hits is not None and is_prefix:
        found = replace(found, trace=prefix_trace(found.situation, hits, trace.capacities()))
    return replace(found, assumptions=(*filled.assumed, *found.assumptions))


def _is_prefix_caching(technique: str) -> bool:
    from infopt.boundaries.prefix_caching import TECHNIQUE
    from infopt.boundaries.registry import technique as named

    return named(technique).id == TECHNIQUE.id


def _page(found: "Boundaries", technique: str | None, depth: DepthOptions, output: OutputOptions) -> str:
    if technique is None:
        from infopt.reports.render import render_boundaries

        return render_boundaries(found, output.form)
    if depth.vary is not None:
        from infopt.reports.render import render_curve
        from infopt.studies.boundary_curve import varied

        return render_curve(varied(found, depth.vary), "json" if output.form == "json" else "csv")
    if depth.plot is not None:
        from infopt.reports.boundary_plot import draw

        draw(found, depth.plot)
    from infopt.reports.render import render_boundary

    return render_boundary(found, output.form, depth.curves)


def _web_page(found: "Boundaries", technique: str | None, command: str) -> "Page":
    if technique is None:
        from infopt.reports.pages.boundary_overview import overview_page

        return overview_page(found, command)
    from infopt.reports.pages.boundary_technique import technique_page

    return technique_page(found, command)


def boundary_status(found: "Boundaries", technique: str | None, allow_undetermined: bool) -> int:
    """The table is an overview and always good; of one technique the verdict counts."""
    if technique is None:
        return 0
    verdict = found.techniques[0].judgement.verdict
    if verdict == "impossible":
        return 1
    return 4 if verdict == "measure" and not allow_undetermined else 0
