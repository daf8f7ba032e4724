"""The Python API: commands as functions, their options as keyword arguments, an `Answer` as what they print.

    from infopt import plan
    found = plan(model="70b", hw="h100:4", ctx="32k", batch=8)
    found.memory.fits, found.estimate.tpot_s

A keyword is the option of the command line without its dashes, `_` for `-` (`with_` for `--with`), and takes what the
option takes, as a text or as a number. `to_dict` is the object of `--json`. Errors are `InfoptError`, with the line
that the command would print; a keyword that there is not, or of a wrong type, is a `TypeError`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import typer

from infopt.answer import Answer
from infopt.api_options import called, documented
from infopt.cli import check_plan, next_command, planned, verdict_status
from infopt.cli_boundary import DepthOptions, TraceOptions, answered, boundary_status
from infopt.cli_gate import GateOptions, gate_status, gated
from infopt.cli_load import LoadOptions
from infopt.cli_observed import ObservedOptions
from infopt.cli_options import MonthOptions, ScenarioOptions
from infopt.cli_search import SearchOptions, SimulateOptions, searched
from infopt.cli_serving import ServingOptions, TargetOptions
from infopt.cli_simulate import ShownOptions, job_of, next_step
from infopt.cli_traffic import TrafficOptions


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """How much of a plan is told."""

    explain: Annotated[bool, typer.Option("--explain", help="Every term with formula, numbers and source.")] = False


PLAN = (ScenarioOptions, ObservedOptions, MonthOptions, ExplainOptions)
BOUNDARY = (ScenarioOptions, LoadOptions, DepthOptions, TraceOptions, ObservedOptions)
SEARCH = (SearchOptions, SimulateOptions)
SIMULATE = (ScenarioOptions, TrafficOptions, ServingOptions, TargetOptions, ObservedOptions, ShownOptions)
GATE = (GateOptions,)


@documented(*PLAN)
def plan(**options: Any) -> Answer:
    """Memory, bandwidth and compute of one scenario; without hw, the hardware that holds it.

    >>> plan(model="8b", hw="h100", ctx="8k").memory.fits
    True
    """
    from infopt.profiles.resolve import resolve_model
    from infopt.reports.render import render_choices, render_plan
    from infopt.studies.choices import choices

    call = called("plan", PLAN, options)
    scenario, observed, monthly, told = call.records
    check_plan(scenario, observed, monthly)
    model = resolve_model(scenario.model, online=scenario.online)
    if scenario.hw is None:
        found = choices(model, scenario.request(), scenario.common_hardware())
        line = next_command(found.plans, call.line("plan"))
        return Answer(partial(render_choices, found, command=line), verdict_status(found.fits, False))
    result = planned(model, scenario, observed)
    page = partial(render_plan, result, explain=told.explain, month=monthly.month(result))
    return Answer(page, verdict_status(result.fits, False))


@documented(*BOUNDARY)
def boundary(technique: str | None = None, **options: Any) -> Answer:
    """What each optimization gains here, and the value at which it starts or stops paying; of one, in full.

    >>> boundary("prefix-caching", model="8b", hw="h100", ctx="8k").techniques[0].verdict
    'measure'
    """
    from infopt.reports.render import render_boundaries, render_boundary

    scenario, load, depth, trace, observed = called("boundary", BOUNDARY, options).records
    if not isinstance(technique, str | None):
        raise TypeError(f"boundary() takes the name of a technique, not {technique!r}")
    found = answered(scenario, load, depth, trace, observed, technique)
    page = partial(render_boundaries, found) if technique is None else partial(render_boundary, found)
    return Answer(page, boundary_status(found, technique, False))


@documented(*SEARCH)
def search(**options: Any) -> Answer:
    """The best deployments under latency targets, a rate and a budget, with the engine's command line.

    >>> search(model="8b", tpot="20ms", rate="5/s", isl=1024, osl=256, hw="h200").front[0].replicas
    1
    """
    from infopt.reports.render import render_search
    from infopt.studies.search import holds

    searching, simulation = called("search", SEARCH, options).records
    result = searched(searching, simulation)
    return Answer(partial(render_search, result), verdict_status(holds(result), False))


@documented(*SIMULATE)
def simulate(**options: Any) -> Answer:
    """Traffic against a deployment: waits and their tails, goodput, the batch, saturation.

    >>> simulate(model="8b", hw="h100", isl=1024, osl=64, rate="2/s", requests=100).saturated
    False
    """
    from infopt.reports.simulate_render import render_simulation
    from infopt.studies.simulate import simulated

    call = called("simulate", SIMULATE, options)
    job = job_of(call.records)
    found = simulated(replace(job, choices=replace(job.choices, hits=True)))
    page = partial(render_simulation, found, command=next_step(found, ("simulate", *call.words)))
    return Answer(page, 0 if found.keeps_up else 1)


@documented(*GATE)
def gate_files(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **options: Any) -> Answer:
    """Deployment files and folders checked, as `infopt gate` does. (`infopt.gate` is the package of its rules.)

    >>> gate_files("docs/examples/vllm.yaml").verdict
    'fail'
    """
    paths = [files] if isinstance(files, str | os.PathLike) else files
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str | os.PathLike) for path in paths):
        raise TypeError(f"gate_files() takes a path or a list of them, not {files!r}")
    return gate_answer([os.fspath(path) for path in paths], None, options)


@documented(*GATE)
def gate_text(text: str, **options: Any) -> Answer:
    """The text of one deployment file checked.

    >>> gate_text("apiVersion: v1").exit_status
    3
    """
    if not isinstance(text, str):
        raise TypeError(f"gate_text() takes the text of a file, not {type(text).__name__}")
    return gate_answer(["-"], text, options)


def gate_answer(paths: list[str], text: str | None, options: dict[str, Any]) -> Answer:
    """Files checked; `-` among the paths is the text."""
    from infopt.reports.gate_words import Strictness
    from infopt.reports.render_gate import render_gate

    (given,) = called("gate", GATE, options).records
    found, strictness = gated(given, paths, text), Strictness(given.fail_on)
    return Answer(partial(render_gate, found, strictness=strictness), gate_status(found, strictness))
