"""Reports of inference-perf (`summary_lifecycle_metrics.json`, `stage_N_lifecycle_metrics.json`).

Source: kubernetes-sigs/inference-perf inference_perf/reportgen/base.py at 010d12f (2026): times in seconds, `median`
for p50; prompt_tokens is of newer versions, prompt_len of older.

`time_per_output_token` is (last - first token) / (tokens - 1) of a request; versions of 2025 divide by streamed
chunks, those without text too (llm-d's benchmark guide shows such a file: 6.6 ms where the answers took 14.7 a token),
which the end-to-end times give away. `inter_token_latency` gives every token of a chunk after its first a gap of 0: its
mean is another time per output token and never a step. `normalized_...` divides the whole answer time by its tokens and
is not used.
"""

from collections.abc import Mapping
from typing import Any

from infopt.observing.benchmarks.figures import Counted, Figures, failures, load, observation, spread
from infopt.observing.observation import Observation, Spread

PARTS = frozenset({"load_summary", "successes", "failures"})


def claims(result: Mapping[str, Any]) -> bool:
    """By the three parts of a report."""
    return result.keys() >= PARTS


def observe(result: Mapping[str, Any], where: str) -> list[Observation]:
    """The observation of one report."""
    figures = Figures(result, where)
    done, rates = figures.part("successes"), figures.part("successes").part("throughput")
    requests = done.positive("count", "no request completed")
    rate_per_s = rates.positive("requests_per_sec", "no request completed")
    window_s = requests / rate_per_s
    times = done.part("latency")
    tpot, ttft = _time(times, "time_per_output_token"), _time(times, "time_to_first_token")
    output_tokens = rates.number("output_tokens_per_sec") * window_s
    counted = Counted(window_s, requests, output_tokens, tpot, ttft, _time(times, "request_latency")).fields()
    fields = {
        **counted,
        "prompt_tokens": _prompts(done, rates, requests, window_s),
        "notes": (
            *counted["notes"],
            *failures(figures.part("failures").optional("count"), requests),
            *load(figures.part("load_summary"), "concurrency", "requested_rate"),
        ),
    }
    return [observation(where, fields)]


def _time(times: Figures, name: str) -> Spread | None:
    if times.data.get(name) is None:
        return None
    return spread(times.part(name), {"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99"})


def _prompts(done: Figures, rates: Figures, requests: float, window_s: float) -> float | None:
    for name in ("prompt_tokens", "prompt_len"):
        if done.data.get(name) is not None and "mean" in done.part(name).data:
            return done.part(name).number("mean") * requests
    rate = rates.optional("input_tokens_per_sec")
    return None if rate is None else rate * window_s
