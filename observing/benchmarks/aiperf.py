"""Summaries of aiperf and genai-perf (`profile_export_aiperf.json`, `profile_export_genai_perf.json`).

Sources: genai_perf/export_data/json_exporter.py, metrics/statistics.py, metrics/metrics.py and
profile_data_parser/llm_profile_data_parser.py of 0.0.16, tests/test_json_exporter.py of 2024 (num_output_token);
aiperf/exporters/json_exporter.py and metrics/types of 0.1.1 (metrics under `records`, ttft for time_to_first_token);
aiperf/common/models/export_models.py and metrics/types of 0.13.0. A sweep's file (0.11.0) has the metrics of each
combination beside its parameters.

Each metric is {unit, avg, p50, p90, p99, ...}. `inter_token_latency` is (end - first token) / (tokens - 1) of a
request: our time per output token, not a step; `inter_chunk_latency` is the gap between chunks. genai-perf states no
duration: it is request_count / request_throughput; where request_count is absent too (older files) the counts stay
unknown and the batch follows from the throughput. `spec_decode_acceptance_length` is 1 + accepted / drafts, which
forgets steps without a draft, and is not used.
"""

from collections.abc import Mapping
from typing import Any

from infopt.observing.benchmarks.figures import (
    Counted,
    Figures,
    draft_share,
    engine_of,
    failures,
    observation,
    ratio,
    spread,
    steps,
)
from infopt.observing.observation import Observation, Spread

# Units the two tools write times in -> seconds (aiperf MetricTimeUnit; genai-perf always ms).
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0, "s": 1.0}
OUTPUT = ("output_sequence_length", "num_output_token")  # newest first
INPUT = ("input_sequence_length", "num_input_token")
SWEEP = "per_combination_metrics"
MOST_COMBINATIONS = 1000  # of one sweep
METRICS = ("request_throughput", "request_latency", *OUTPUT, *INPUT)


def claims(result: Mapping[str, Any]) -> bool:
    """By the configuration, or the version, and the metrics the tools write beside it; a sweep by its parts."""
    if isinstance(result.get(SWEEP), list):
        return True
    inside = _metrics(result)
    said = "input_config" in result or "aiperf_version" in result
    return said and any(_is_metric(inside.get(name)) for name in METRICS)


def observe(result: Mapping[str, Any], where: str) -> list[Observation]:
    """The observation of one summary, or one of each combination of a sweep."""
    if SWEEP not in result:
        return [_summary(result, where, ())]
    parts = result[SWEEP]
    if not parts or len(parts) > MOST_COMBINATIONS:
        raise Figures(result, where).error(f"{SWEEP} holds {len(parts)} combinations, not 1 to {MOST_COMBINATIONS}")
    return [_combination(part, f"{where}: combination {number}") for number, part in enumerate(parts, 1)]


def _combination(part: Any, where: str) -> Observation:
    """One of a sweep: metrics as a summary has them, means over its trials, and what it was asked to run."""
    figures = Figures(part, where)
    asked = figures.part("parameters")
    said = [f"{name} {value}" for name in asked.data if (value := asked.setting(name)) is not None]
    return _summary(figures.part("metrics").data, where, (f"load: {', '.join(said)} asked for",) if said else ())


def _summary(result: Mapping[str, Any], where: str, asked: tuple[str, ...]) -> Observation:
    figures = Figures(_metrics(result), where)
    rate_per_s = _positive(figures, "request_throughput")
    requests = _average(figures, "request_count")
    if requests == 0:
        raise figures.error("request_count is 0: no request completed")
    window_s, requests_known = _window(figures, rate_per_s, requests)
    ttft = _time(figures, "time_to_first_token") or _time(figures, "ttft")
    tpot, chunk = _time(figures, "inter_token_latency"), _time(figures, "inter_chunk_latency")
    output_mean, input_mean = (_length(figures, names) for names in (OUTPUT, INPUT))
    output_tokens = None if output_mean is None else output_mean * requests_known
    counted = Counted(
        window_s, requests_known, output_tokens, tpot, ttft, _time(figures, "request_latency")
    ).fields()  # fmt: skip
    drafts = _average(figures, "total_spec_decode_steps")
    speculation = steps(ratio(chunk, counted["tpot_s"]), chunk, speculates=bool(drafts))
    if drafts:
        decoded = None if output_tokens is None else output_tokens - requests_known
        speculation |= _drafts(result, figures, drafts, decoded, speculation["tokens_per_step"])
    notes = [*counted["notes"], *speculation.pop("notes"), *asked]
    notes += failures(_average(figures, "error_request_count"), requests_known)
    if result.get("was_cancelled") is True or result.get("is_complete") is False:
        notes.append("the run was cancelled or broke off before its end")
    fields = {
        **counted,
        **speculation,
        "engine": _engine(result),
        "model": _model(result),
        "prompt_tokens": None if input_mean is None else input_mean * requests_known,
    }
    if requests is None:
        lengths = " and ".join(f"{mean:g}" for mean in (input_mean, output_mean) if mean is not None)
        notes.append(f"the file counts no requests; tokens in and out of one: {lengths or 'not said'}")
        fields |= dict.fromkeys(("window_s", "requests", "prompt_tokens", "output_tokens"))
    fields["notes"] = tuple(notes)
    return observation(where, fields)


def _metrics(result: Mapping[str, Any]) -> Mapping[str, Any]:
    records = result.get("records")
    return records if isinstance(records, Mapping) else result


def _is_metric(value: Any) -> bool:
    return isinstance(value, Mapping) and "unit" in value


def _window(figures: Figures, rate_per_s: float, requests: float | None) -> tuple[float, float]:
    """Seconds of the run and requests in it; a second of it, for the rates, where the file does not count."""
    if requests is None:
        return 1.0, rate_per_s
    duration = figures.data.get("benchmark_duration")
    if _is_metric(duration):
        inside = figures.part("benchmark_duration")
        return inside.positive("avg", "the run took no time") * _unit(inside), requests
    return requests / rate_per_s, requests


def _average(figures: Figures, name: str) -> float | None:
    return figures.part(name).number("avg") if name in figures.data and figures.data[name] is not None else None


def _length(figures: Figures, names: tuple[str, ...]) -> float | None:
    return next((mean for name in names if (mean := _average(figures, name)) is not None), None)


def _positive(figures: Figures, name: str) -> float:
    return figures.part(name).positive("avg", "no request completed")


def _unit(metric: Figures) -> float:
    unit = metric.text("unit")
    if unit not in SECONDS:
        raise metric.error(f"the unit {unit!r} is none of {', '.join(SECONDS)}")
    return SECONDS[unit]


def _time(figures: Figures, name: str) -> Spread | None:
    if figures.data.get(name) is None:
        return None
    metric = figures.part(name)
    names = {"mean": "avg", "p50": "p50", "p90": "p90", "p99": "p99"}
    return spread(metric, names, _unit(metric), metric.nullable("count"))


def _drafts(
    result: Mapping[str, Any], figures: Figures, drafts: float, decoded: float | None, tokens_per_step: float | None
) -> dict[str, Any]:
    """From the accounts of single answers, which a vLLM started for it gives: its "steps" are those with a draft."""
    drafted = _average(figures, "total_draft_tokens")
    share = None if tokens_per_step is None or not decoded else draft_share(drafts, tokens_per_step, max(decoded, 0.0))
    return {
        "drafted_tokens": None if drafted is None else drafted / drafts,
        "acceptance_per_position": _per_position(result, figures),
        "draft_share": share,
    }


def _per_position(result: Mapping[str, Any], figures: Figures) -> tuple[float, ...] | None:
    """Share of drafts that accept at least i tokens, from how many accepted exactly j."""
    histogram = result.get("pooled_spec_decode_acceptance_histogram")
    if not isinstance(histogram, Mapping):
        return None
    inside = Figures(histogram, f"{figures.where}: pooled_spec_decode_acceptance_histogram")
    counts = {int(name): inside.number(name) for name in histogram if str(name).isascii() and str(name).isdigit()}
    total, longest = sum(counts.values()), max(counts, default=0)
    if not total or not 0 < longest <= 256:  # no draft is longer
        return None
    return tuple(sum(n for j, n in counts.items() if j >= i) / total for i in range(1, longest + 1))


def _engine(result: Mapping[str, Any]) -> str | None:
    """The backend genai-perf was told Triton runs; nobody says what is behind another address."""
    config = result.get("input_config")
    return engine_of(Figures(config, "").text("backend")) if isinstance(config, Mapping) else None


def _model(result: Mapping[str, Any]) -> str | None:
    """The first model of the configuration, wherever the version keeps it; None if it is elsewhere."""
    config = result.get("input_config")
    if not isinstance(config, Mapping):
        return None
    endpoint = config.get("endpoint")
    models = config.get("models")
    items = models.get("items") if isinstance(models, Mapping) else models
    for names in (
        config.get("model_names"),
        config.get("model"),
        endpoint.get("model_names") if isinstance(endpoint, Mapping) else None,
        items,
    ):
        first = names[0] if isinstance(names, list) and names else names
        named = Figures({"name": first} if isinstance(first, str) else first if isinstance(first, Mapping) else {}, "")
        if named.text("name"):
            return named.text("name")
    return None
