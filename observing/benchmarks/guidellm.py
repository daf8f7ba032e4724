"""Reports of guidellm (`benchmarks.json`): one observation for each benchmark of a sweep.

Sources: guidellm/benchmark/benchmark.py and objects/statistics.py of 0.2.1 and 0.3.1; guidellm/benchmark/schemas,
schemas/statistics.py and schemas/request_stats.py of 0.5.0 and 0.8.1. request_totals stands beside `metrics` to 0.3,
inside it later; the model in worker.backend_model, later in config.backend.model or args.model, or nowhere.

`inter_token_latency_ms` is (last - first token) / (tokens - 1) of a request, weighted by tokens: our time per output
token, not a step. `time_per_output_token_ms` counts the first token in and is not used. `request_concurrency` is
measured over time, with requests that wait or are prefilled; times the decoding share of a request it is the batch.
`iter_tokens_per_iteration` is tokens of a streamed chunk after the first. From 0.5 on the counts are of requests that
overlap the measured part of the run, so rates are taken as the file states them and not from the counts. Checked
against a report 0.8.1 wrote of a paced server.
"""

from collections.abc import Mapping
from typing import Any

from infopt.observing.benchmarks.figures import MS, TOGETHER, Counted, Figures, observation, spread, steps
from infopt.observing.observation import Observation, Spread

MOST_BENCHMARKS = 1000  # of one sweep


def claims(result: Mapping[str, Any]) -> bool:
    """By benchmarks that hold metrics with the tool's names."""
    benchmarks = result.get("benchmarks")
    if not isinstance(benchmarks, list) or not benchmarks:
        return False
    metrics = benchmarks[0].get("metrics") if isinstance(benchmarks[0], Mapping) else None
    return isinstance(metrics, Mapping) and ("inter_token_latency_ms" in metrics or "request_concurrency" in metrics)


def observe(result: Mapping[str, Any], where: str) -> list[Observation]:
    """The observations of one report."""
    benchmarks = result["benchmarks"]
    if len(benchmarks) > MOST_BENCHMARKS:
        raise Figures(result, where).error(f"holds {len(benchmarks)} benchmarks, more than {MOST_BENCHMARKS}")
    alone = len(benchmarks) == 1
    return [
        _one(Figures(benchmark, where if alone else f"{where}: benchmark {number}"), result)
        for number, benchmark in enumerate(benchmarks, 1)
    ]


def _one(figures: Figures, report: Mapping[str, Any]) -> Observation:
    metrics = figures.part("metrics")
    totals = (metrics if "request_totals" in metrics.data else figures).part("request_totals")
    requests = totals.positive("successful", "no request completed")
    window_s = figures.positive("duration", "the run took no time")
    tpot, e2e = _time(metrics, "inter_token_latency_ms", MS), _time(metrics, "request_latency", 1.0)
    ttft = _time(metrics, "time_to_first_token_ms", MS)
    output_mean, input_mean = _mean(metrics, "output_token_count"), _mean(metrics, "prompt_token_count")
    if output_mean is None:
        raise metrics.error("output_token_count has no mean: the result is incomplete, save it again")
    counted = Counted(window_s, requests, round(output_mean * requests, 6), tpot, ttft, e2e).fields()
    tpot = counted["tpot_s"]
    counted.update(_batches(metrics, tpot, ttft, e2e))
    stepped = steps(_mean(metrics, "iter_tokens_per_iteration"), None, speculates=False)
    fields = {
        **counted,
        "model": _model(figures, report),
        "prompt_tokens": None if input_mean is None else round(input_mean * requests, 6),
        "tokens_per_step": stepped["tokens_per_step"],
        "itl_s": tpot if stepped["tokens_per_step"] == 1 else None,
        "notes": (*counted["notes"], *stepped["notes"], *_unfinished(totals), *_load(figures)),
    }
    return observation(figures.where, fields)


def _successful(metrics: Figures, name: str) -> Figures | None:
    """The distribution over requests that succeeded."""
    if metrics.data.get(name) is None:
        return None
    part = metrics.part(name)
    return None if part.data.get("successful") is None else part.part("successful")


def _mean(metrics: Figures, name: str) -> float | None:
    found = _successful(metrics, name)
    return None if found is None else found.number("mean")


def _time(metrics: Figures, name: str, scale: float) -> Spread | None:
    found = _successful(metrics, name)
    if found is None:
        return None
    percentiles = found.part("percentiles").data if found.data.get("percentiles") is not None else {}
    flat = {key: percentiles[key] for key in ("p90", "p99") if key in percentiles}
    flat |= {key: found.data[key] for key in ("mean", "median") if key in found.data}
    names = {"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99"}
    return spread(Figures(flat, found.where), names, scale, found.nullable("count"))


def _batches(metrics: Figures, tpot: Spread | None, ttft: Spread | None, e2e: Spread | None) -> dict[str, Any]:
    """The batch by the concurrency the tool measured, and by Little's law from the rate it states."""
    found: dict[str, Any] = {}
    concurrency, rate = _mean(metrics, "request_concurrency"), _mean(metrics, "output_tokens_per_second")
    if concurrency and e2e and e2e.mean and ttft and ttft.mean is not None and ttft.mean < e2e.mean:
        found["effective_batch"] = concurrency * (1 - ttft.mean / e2e.mean)
        said = "effective batch: measured concurrency x share of a request from first to last token"
        found["notes"] = (f"{said}, {TOGETHER}",)
    if rate and tpot and tpot.mean is not None:
        found["effective_batch_by_littles_law"] = rate * tpot.mean
    return found


def _unfinished(totals: Figures) -> tuple[str, ...]:
    """Requests that failed, or were cut off when time was up: both shared the batch with those that are counted."""
    said = []
    for name, word in (("errored", "failed"), ("incomplete", "were cut off at the end")):
        count = totals.nullable(name)
        if count:
            said.append(f"{count:.0f} requests {word}: the figures are of the others")
    return tuple(said)


def _model(figures: Figures, report: Mapping[str, Any]) -> str | None:
    for holder, name, key in (
        (figures.data, "worker", "backend_model"),
        (figures.data.get("config"), "backend", "model"),
        (report, "args", "model"),
        (report.get("config"), "backend", "model"),
    ):
        inner = holder.get(name) if isinstance(holder, Mapping) else None
        found = Figures(inner, "").text(key) if isinstance(inner, Mapping) else None
        if found:
            return found
    return None


def _load(figures: Figures) -> tuple[str, ...]:
    """The strategy that was asked for."""
    for holder in (figures.data.get("args"), figures.data.get("config")):
        strategy = holder.get("strategy") if isinstance(holder, Mapping) else None
        if isinstance(strategy, Mapping):
            inside = Figures(strategy, "")
            kind = inside.text("type_") or inside.text("kind")
            streams, rate = inside.setting("streams"), inside.setting("rate")
            detail = f", {streams} streams" if streams else f", {rate} requests/s" if rate else ""
            return (f"load: {kind}{detail} asked for",) if kind else ()
    return ()
