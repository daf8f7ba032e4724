"""What was measured as a saved run: observations of one configuration, the same measured once or several times.

    figure  mean over the observations; each of them is a repetition
Times are a client's (benchmarks) or a server's (metrics); both runs of a comparison should be of one kind of source.
Knobs that nobody states are the engine's own, which is said; the version of an engine is never guessed.
Ignored: what an observation says of the engine beside its knobs (acceptance of drafts, bandwidth).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from infopt.errors import InfoptError
from infopt.observing.observation import Observation, Spread
from infopt.observing.reading import read_sources
from infopt.studies.experiment_variables import Scalar
from infopt.studies.observed import other_model
from infopt.studies.saved_run import (
    Hardware,
    Metrics,
    Quality,
    Repetition,
    Repetitions,
    Requests,
    SavedRun,
    Traffic,
    mean_metrics,
    tool_name,
)
from infopt.studies.saved_simulation import ASKED, STATISTICS, scenario_knobs

if TYPE_CHECKING:
    from infopt.ledgers.scenario import Scenario
    from infopt.studies.scenarios import Request

# Of a simulation's scheduler only: nobody told a measured run of them.
SIMULATED_ONLY = ("offload", "prefill_decode", "speculation", "drafted_tokens", "kv_pool_bytes", "eager", "text_only")


def observed_rows(paths: Sequence[Path], row: int | None) -> list[Observation]:
    """The observation of each file, of several results in it the one of that number. Errors: InfoptError."""
    found = []
    for path in paths:
        several = read_sources(path)
        if row is None and len(several) > 1:
            raise InfoptError(f"{path}: holds {len(several)} results; choose one with --row")
        if row is not None and row > len(several):
            raise InfoptError(f"--row {row}: {path} holds {len(several)}")
        found.append(several[(row or 1) - 1])
    return found


def measured_configuration(
    s: "Scenario", request: "Request", stated: Mapping[str, Scalar], observed: Observation, counted: bool
) -> tuple[dict[str, Scalar], list[str]]:
    """Knobs of a measured run: those asked for, `stated` ones in their place, and the rest as nobody's.

    counted  the hardware was named with a number of devices
    """
    other = other_model(observed.model, s.model)
    if other:
        raise InfoptError(f"{observed.source}: {other}: name it with --model")
    if observed.engine is not None and observed.engine != s.engine.engine:
        raise InfoptError(
            f"{observed.source}: is of {observed.engine}, not of {s.engine.engine}: --engine {observed.engine}"
        )
    found = scenario_knobs(s)
    defaulted = [name for name, field in ASKED.items() if getattr(request, field) is None and name not in stated]
    # Neither the newest version that is known here nor the lengths of a plan are what ran.
    not_said = [name for name in ("engine_version", "context_tokens") if getattr(request, name) is None]
    for name in (*SIMULATED_ONLY, *not_said):
        found.pop(name, None)
    defaulted = [name for name in defaulted if name not in not_said]
    if counted and "gpus" in defaulted:
        defaulted.remove("gpus")
    if request.kv_pool_bytes is not None:
        found["kv_pool_bytes"] = request.kv_pool_bytes
    return found | dict(stated), defaulted


def run_from_observation(
    observations: Observation | Sequence[Observation],
    configuration: Mapping[str, Scalar],
    hardware: Hardware,
    *,
    defaulted: Sequence[str] = (),
    traffic: Mapping[str, Scalar] | None = None,
    requests: Requests | None = None,
    quality: Sequence[Quality] = (),
    name: str = "",
    date: str | None = None,
) -> SavedRun:
    """The run that was observed, once or several times.

    Errors: InfoptError for observations without a figure, of other models or engines than the first.
    """
    several = [observations] if isinstance(observations, Observation) else list(observations)
    _check(several)
    first = several[0]
    found = dict(configuration)
    if "prefix_caching" not in found and first.prefix_caching is not None:
        found["prefix_caching"] = first.prefix_caching
    metrics = [metrics_of_observation(one) for one in several]
    count = sum(round(one.requests or 0) for one in several)
    runs = [
        Repetition(key=Path(one.source or f"{number}").name, requests=round(one.requests or 0), metrics=figures)
        for number, (one, figures) in enumerate(zip(several, metrics, strict=True), 1)
    ]
    description = _lengths(several) | dict(traffic or {})
    kept = requests or Requests(count=count)
    return SavedRun(
        schema="infopt/run/1",
        tool=tool_name(),
        kind="measured",
        name=name,
        date=date,
        configuration=found,
        defaulted=[knob for knob in defaulted if knob in found],
        traffic=Traffic(description=description, sha256=kept.sha256),
        requests=kept.model_copy(update={"count": count}),
        metrics=mean_metrics(metrics),
        repetitions=Repetitions(kind="files", runs=runs) if len(runs) > 1 else None,
        quality=list(quality),
        hardware=hardware,
        notes=list(dict.fromkeys(note for one in several for note in (*_served(one), *one.notes))),
    )


def _served(one: Observation) -> tuple[str, ...]:
    """The name that a server has for its model, which need not be the one that is stated."""
    return () if one.model is None else (f"the server calls its model {one.model!r}",)


def _check(several: Sequence[Observation]) -> None:
    """All of one thing, and each with figures."""
    if not several:
        raise InfoptError("nothing was observed: give at least one file")
    for one in several:
        if not any(value is not None for value in metrics_of_observation(one).values()):
            raise InfoptError(f"{one.source}: holds no figure of a run: neither times nor tokens")
        for what in ("engine", "model"):
            mine, its = getattr(several[0], what), getattr(one, what)
            if mine and its and mine != its:
                raise InfoptError(
                    f"{one.source}: is of {what} {its}, {several[0].source} of {mine}: one run is of one configuration"
                )


def _lengths(several: Sequence[Observation]) -> dict[str, Scalar]:
    """Mean lengths of all requests."""
    found: dict[str, Scalar] = {}
    for name, field in (("input_tokens_mean", "prompt_tokens"), ("output_tokens_mean", "output_tokens")):
        counted = [(getattr(one, field), one.requests) for one in several]
        if all(tokens is not None and requests for tokens, requests in counted):
            found[name] = sum(tokens for tokens, _ in counted) / sum(requests or 0 for _, requests in counted)
    return found


def metrics_of_observation(o: Observation) -> Metrics:
    """The flat figures of an observation."""
    found: Metrics = {"output_tokens_per_s": o.output_tokens_per_s, "requests_per_s": o.requests_per_s}
    for kind in ("ttft", "tpot", "e2e"):
        value = getattr(o, f"{kind}_s")
        spread = value if isinstance(value, Spread) else Spread(mean=value)
        found |= {f"{kind}_{statistic}_s": getattr(spread, statistic) for statistic in STATISTICS}
    found |= {
        "itl_mean_s": o.mean_s("itl_s"),
        "effective_batch": o.effective_batch,
        "waiting": o.waiting,
        "kv_share": o.kv_use_share,
        "kv_peak_share": o.kv_use_peak_share,
        "prefix_hit_share": o.prefix_hit_share,
        "preemptions": o.preemptions,
        "tokens_per_step": o.tokens_per_step,
    }
    return {name: value for name, value in found.items() if value is not None}
