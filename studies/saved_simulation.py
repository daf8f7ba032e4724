"""A simulation as a saved run: every knob, the traffic told by its requests, metrics, and parts that show their noise.

    parts   the measured requests in order of sending, cut into `parts` equal ones (batch means)
    figure  of a part only where it has enough requests for it (data/experiment/metrics.yaml, noise)
Ignored: what one part leaves to the next; parts are long beside an answer in any run worth saving.
"""

import csv
import dataclasses
import hashlib
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from infopt.arrivals.arrival import Source
from infopt.arrivals.reshaped import Shorter
from infopt.arrivals.traces import Trace
from infopt.simulation.outcome import DONE, ENDS, Rows
from infopt.simulation.summary import Summary, Targets, Times
from infopt.studies.experiment_variables import OFF, Scalar
from infopt.studies.saved_run import (
    Hardware,
    Metrics,
    Quality,
    Repetition,
    Repetitions,
    Requests,
    SavedRun,
    Traffic,
    metric_data,
    tool_name,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from infopt.ledgers.scenario import Scenario
    from infopt.studies.simulate import Simulation

STATISTICS = ("mean", "p50", "p90", "p99")
TIMES = ("ttft", "tpot", "e2e")
COLUMNS = (
    *("sent_s", "ttft_s", "tpot_s", "e2e_s", "machine_s"),
    *("input_tokens", "output_tokens", "found_tokens", "preemptions", "priority"),
)


def run_of(
    simulation: "Simulation", quality: Sequence[Quality] = (), *, name: str = "", date: str | None = None
) -> SavedRun:
    """The run that a simulation is."""
    job, figures = simulation.job, simulation.summary
    s = simulation.plan.scenario
    configuration, defaulted = configuration_of(simulation)
    return SavedRun(
        schema="infopt/run/1",
        tool=tool_name(),
        kind="simulated",
        name=name,
        date=date,
        seed=seed_of(job.source),
        saturated=figures.saturated,
        configuration=configuration,
        defaulted=defaulted,
        traffic=traffic_of(simulation),
        requests=Requests(count=figures.requests),
        metrics=metrics_of(figures),
        targets={f"{kind}_s": target_s for kind, target_s in _targets(job.targets)},
        repetitions=parts_of(simulation),
        quality=list(quality),
        hardware=Hardware(
            device=s.accelerator.id,
            name=s.accelerator.name or "",
            calibration=s.accelerator.calibration,
            step_times=simulation.ready.constants.source,
            points=list(job.request.points),
        ),
        notes=[*simulation.notes, *(caveat.text for caveat in simulation.assumptions)],
    )


def _targets(targets: Targets) -> list[tuple[str, float | None]]:
    return [("ttft", targets.ttft_s), ("tpot", targets.tpot_s), ("e2e", targets.e2e_s)]


def model_of(s: "Scenario") -> dict[str, Scalar]:
    """The model's knobs: its repository, the revision where one was named, and its network."""
    repository, _, revision = s.model.id.partition("@")
    network = f"{s.model.architecture}, {s.model.layers} layers, {s.model.params_total} parameters"
    found: dict[str, Scalar] = {"network": network, "model": repository}
    return found | ({"model_revision": revision} if revision else {})


def scenario_knobs(s: "Scenario", copies: int = 1) -> dict[str, Scalar]:
    """What a plan says of the engine and where it runs."""
    return {
        **model_of(s),
        "weights": s.weight_format,
        "kv": s.kv_format,
        "engine": s.engine.engine,
        "engine_version": s.engine_version,
        "gpus": s.gpus * copies,
        "tp": s.tp,
        "pp": s.pp,
        "dp": s.dp * copies,
        "ep": s.ep,
        "utilization": s.utilization,
        "context_tokens": s.context_tokens,
        "max_num_seqs": s.max_num_seqs,
        "max_num_batched_tokens": s.max_num_batched_tokens,
        "block_tokens": s.block_tokens,
        "kv_pool_bytes": s.kv_pool_bytes,
        "eager": s.eager,
        "text_only": s.text_only,
        "speculation": "mtp" if s.speculative_tokens else OFF,
        "drafted_tokens": s.speculative_tokens or None,
        "offload": OFF,
        "prefill_decode": OFF,
    }


# Fields of a request, or of the choices of a simulation, whose knob has the engine's own value where they are None.
ASKED = {
    "weights": "weights",
    "kv": "kv",
    "engine_version": "engine_version",
    "gpus": "gpus",
    "tp": "tp",
    "ep": "ep",
    "utilization": "utilization",
    "context_tokens": "context_tokens",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "block_tokens": "block_tokens",
}
CHOSEN = ("chunked", "prefill_first", "prefix_caching", "watermark_share", "static_batch")


def configuration_of(simulation: "Simulation") -> tuple[dict[str, Scalar], list[str]]:
    """Every knob with its value, and those that nobody set."""
    job, s = simulation.job, simulation.plan.scenario
    setup, request, chosen = simulation.ready.setup, job.request, job.choices
    rules = setup.scheduler
    static = rules.batching == "static"
    found = scenario_knobs(s, chosen.replicas or 1) | {
        "context_tokens": setup.max_tokens,
        "prefix_caching": rules.prefix_caching,
        "chunked": rules.chunked,
        "chunk_tokens": rules.chunk_tokens,
        "prefill_first": rules.prefill_first,
        "watermark_share": rules.watermark_share,
        "batching": rules.batching,
        "static_batch": rules.static_batch if static else None,
        "static_wait_s": rules.static_wait_s if static else None,
        "by_priority": rules.by_priority,
        "admission_wait_s": rules.admission_wait_s,
        "most_waiting": rules.most_waiting,
        "routing": setup.routing,
        "streaming": setup.streaming,
        "aborts": setup.aborts,
        "losses": "; ".join(f"{one.replica}@{one.time_s:g}s" + _down(one.down_s) for one in setup.losses) or OFF,
    }
    defaulted = [name for name, field in ASKED.items() if getattr(request, field) is None]
    if job.hardware.gpus is not None and "gpus" in defaulted:
        defaulted.remove("gpus")
    defaulted += [name for name in CHOSEN if getattr(chosen, name) is None]
    return found, defaulted


def _down(down_s: float | None) -> str:
    return "" if down_s is None else f"+{down_s:g}s"


def seed_of(source: Source) -> int | None:
    """The seed that requests are drawn with; None of a trace."""
    seed = getattr(source, "seed", None)
    return seed if seed is not None else seed_of(source.source) if hasattr(source, "source") else None


def traffic_of(simulation: "Simulation") -> Traffic:
    """What arrived, and the fingerprint of the requests themselves."""
    source: Source = simulation.job.source
    most = simulation.ready.setup.max_tokens
    served = Shorter(source, most, True, "the engine accepts") if simulation.left_out else source
    return Traffic(
        description=described(source),
        trace=_trace_name(source),
        sha256=fingerprint(served),
        left_out=simulation.left_out,
    )


def _trace_name(source: Source) -> str | None:
    if isinstance(source, Trace):
        return source.name
    return _trace_name(source.source) if hasattr(source, "source") else None


# Of a source's fields: what is no part of the traffic's description; of a trace also where it is.
NOT_TOLD, OF_TRACE = ("seed",), ("path", "form", "name")


def described(source: Any, prefix: str = "") -> dict[str, Scalar]:
    """The fields of a source as flat names; what is not set is left out."""
    found: dict[str, Scalar] = {}
    silent = (*NOT_TOLD, *(OF_TRACE if isinstance(source, Trace) else ()))
    for field in dataclasses.fields(source):
        value, name = getattr(source, field.name), f"{prefix}{field.name}"
        if value is None or value == () or field.name in silent:
            continue
        if dataclasses.is_dataclass(value):
            inner = "" if field.name == "source" else f"{name}."
            found |= described(value, inner)
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                nested = described(item, f"{name}.{index}.") if dataclasses.is_dataclass(item) else None
                found |= nested if nested is not None else {f"{name}.{index}": item}
        else:
            found[name] = value
    return found


def fingerprint(source: Source) -> str:
    """sha256 of every request, in order."""
    found = hashlib.sha256(f"{source.users} {source.prefix_block_tokens} {source.tenants}\n".encode())
    for one in source.stream():
        times = (float(one.time_s), None if one.patience_s is None else float(one.patience_s))
        whole = (int(one.input_tokens), int(one.output_tokens), int(one.tenant), int(one.priority))
        left = None if one.cancelled_after_tokens is None else int(one.cancelled_after_tokens)
        found.update(f"{times}{whole}{left}{[int(block) for block in one.prefix]}\n".encode())
    return found.hexdigest()


def metrics_of(figures: Summary) -> Metrics:
    """The flat figures of a summary; None where there is none, as of a saturated system."""
    found: Metrics = {"good_share": figures.good_share, "goodput_per_s": figures.goodput_per_s}
    found["output_tokens_per_s"] = figures.output_tokens_per_s
    for kind in TIMES:
        times: Times | None = getattr(figures, f"{kind}_s")
        found |= {f"{kind}_{statistic}_s": getattr(times, statistic) if times else None for statistic in STATISTICS}
    plain = ("requests_per_s", "prompt_tokens_per_s", "effective_batch", "waiting", "kv_share", "busy_share")
    found |= {name: getattr(figures, name) for name in (*plain, "prefix_hit_share", "preemptions", "wasted_share")}
    return {name: value if value is None or value == value else None for name, value in found.items()}


def parts_of(simulation: "Simulation") -> Repetitions | None:
    """The measured requests in equal parts; None without rows, or of too few requests.

    Of a saturated system there is throughput and TPOT: the rest grows from part to part.
    """
    rows, figures, noise = simulation.rows, simulation.summary, metric_data().noise
    measured = figures.measured_requests
    if rows is None or measured < noise.parts * min(noise.least_requests.values()):
        return None
    import numpy as np

    sent_s = np.asarray(rows.sent_s)
    order = np.argsort(sent_s, kind="stable")[len(sent_s) - measured :]
    pieces = np.array_split(order, noise.parts)
    per_s = _throughputs(rows, float(sent_s[order[0]]), simulation.arrivals_end_s, noise.parts)
    times = [_part(rows, piece, simulation.job.targets) for piece in pieces]
    if figures.saturated:
        times = [{name: value for name, value in found.items() if name.startswith("tpot")} for found in times]
    runs = [
        Repetition(key=f"part-{number}", requests=len(piece), metrics={"output_tokens_per_s": tokens, **found})
        for number, (piece, tokens, found) in enumerate(zip(pieces, per_s, times, strict=True), 1)
    ]
    return Repetitions(kind="parts", runs=runs)


def _throughputs(rows: Rows, from_s: float, to_s: float, parts: int) -> list[float]:
    """Output tokens a second of the requests that ended in each part of the time of arrivals."""
    import numpy as np

    ends_s = np.asarray(rows.sent_s) + np.nan_to_num(np.asarray(rows.e2e_s))
    edges = np.linspace(from_s, to_s, parts + 1)
    tokens, _ = np.histogram(ends_s, edges, weights=np.asarray(rows.output_tokens))
    width_s = (to_s - from_s) / parts
    return [float(count) / width_s if width_s > 0 else 0.0 for count in tokens]


def _part(rows: Rows, chosen: "NDArray[np.intp]", targets: Targets) -> Metrics:
    import numpy as np

    done = np.asarray(rows.end, dtype=int)[chosen] == DONE
    good, found = done.copy(), Metrics()
    for kind, target_s in _targets(targets):
        seconds = np.asarray(getattr(rows, f"{kind}_s"))[chosen]
        if target_s is not None:
            good &= ~(seconds > target_s)
        kept = seconds[done & ~np.isnan(seconds)]
        found |= {f"{kind}_{statistic}_s": _statistic(kept, statistic) for statistic in STATISTICS}
    if targets.given:
        found["good_share"] = float(good.mean())
        sent_s = np.asarray(rows.sent_s)[chosen]
        time_s = float(sent_s.max() - sent_s.min())
        found["goodput_per_s"] = int(good.sum()) / time_s if time_s > 0 else None
    return {name: value for name, value in found.items() if value is not None}


def _statistic(values: "NDArray[np.float64]", statistic: str) -> float | None:
    import numpy as np

    if len(values) < metric_data().noise.least_requests[statistic]:
        return None
    return float(values.mean() if statistic == "mean" else np.percentile(values, int(statistic[1:])))


def rows_csv(simulation: "Simulation") -> str:
    """Every request as a line, in the order in which they came; empty cells where there is no such time."""
    rows, names = simulation.rows, simulation.job.source.tenants
    if rows is None:
        raise ValueError("rows were not kept: Choices.keep_rows")
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*COLUMNS, "tenant", "end"))
    columns = [getattr(rows, name) for name in COLUMNS]
    for at in sorted(range(len(rows)), key=lambda at: rows.sent_s[at]):
        values = (column[at] for column in columns)
        plain = ["" if value != value else value for value in values]
        writer.writerow((*plain, names[rows.tenant[at]], ENDS[rows.end[at]]))
    return text.getvalue()
