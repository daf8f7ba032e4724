"""Results of `vllm bench latency --output-json` and `vllm bench throughput --output-json`.

Source: vllm/benchmarks/latency.py and throughput.py of 0.32.0 (older files lack model_id).

Neither file says the length of prompts and answers, nor how many sequences ran: the latency is of a whole batch of
unknown size, the tokens are prompts and answers together. A step cannot be had from either.
"""

from collections.abc import Mapping
from typing import Any

from infopt.observing.benchmarks.figures import Figures, observation, spread
from infopt.observing.observation import Observation

LATENCY = frozenset({"avg_latency", "latencies", "percentiles"})
THROUGHPUT = frozenset({"elapsed_time", "num_requests", "total_num_tokens", "requests_per_second"})


def claims(result: Mapping[str, Any]) -> bool:
    """By the few keys either file has."""
    return result.keys() >= LATENCY or result.keys() >= THROUGHPUT


def observe(result: Mapping[str, Any], where: str) -> list[Observation]:
    """The observation of one result."""
    figures = Figures(result, where)
    return [_latency(figures) if result.keys() >= LATENCY else _throughput(figures)]


def _latency(figures: Figures) -> Observation:
    mean = figures.positive("avg_latency", "the run took no time")
    percentiles = figures.part("percentiles").data
    flat = {name: percentiles[name] for name in ("50", "90", "99") if name in percentiles} | {"mean": mean}
    runs = figures.values("latencies") or []
    names = {"mean": "mean", "p50": "50", "p90": "90", "p99": "99"}
    fields = {
        "engine": "vllm",
        "model": figures.text("model_id"),
        "e2e_s": spread(Figures(flat, figures.where), names, 1.0, float(len(runs)) or None),
        "notes": ("time of a whole batch; the file says neither its size nor the lengths, so no step follows",),
    }
    return observation(figures.where, fields)


def _throughput(figures: Figures) -> Observation:
    window_s = figures.positive("elapsed_time", "the run took no time")
    requests = figures.positive("num_requests", "no request completed")
    tokens = figures.number("total_num_tokens")
    said = f"{tokens:.0f} tokens, prompts and answers together: the file does not part them, so no step follows"
    fields = {
        "engine": "vllm",
        "model": figures.text("model_id"),
        "window_s": window_s,
        "requests": requests,
        "notes": (said,),
    }
    return observation(figures.where, fields)
