"""Result lines of SGLang's bench_serving (`python -m sglang.bench_serving --output-file`), one JSON object a run.

Sources: sglang/bench_serving.py of 0.4.6, sglang/benchmark/serving.py of 0.5.23 (its Rust client writes the same keys).

`mean_itl_ms` is per token where the client talks to SGLang: it spreads the gap between two chunks over their tokens, so
it is another TPOT and never a step; it is the gap itself for other engines. `accept_length` is the server's own tokens
per verification over its life (avg_spec_accept_length); SGLang verifies in every decode step, so it is tokens per step.
`concurrency` is the sum of end-to-end times over the duration: Little's law with those that wait or are prefilled.
Failed requests are not counted in the file, unless --output-details kept their errors. Checked against files 0.4.6
wrote of a paced server.
"""

from collections.abc import Mapping
from typing import Any

from infopt.observing.benchmarks.figures import (
    MS,
    Counted,
    Figures,
    agree,
    engine_of,
    failures,
    load,
    observation,
    ratio,
    spread,
    steps,
)
from infopt.observing.observation import Observation, Spread

OWN = frozenset({"backend", "dataset_name", "random_input_len", "random_output_len", "random_range_ratio"})


def claims(result: Mapping[str, Any]) -> bool:
    """By what it says of the run."""
    return result.keys() >= OWN


def observe(result: Mapping[str, Any], where: str) -> list[Observation]:
    """The observation of one result."""
    figures = Figures(result, where)
    window_s = figures.positive("duration", "the run took no time")
    requests = figures.positive("completed", "no request completed")
    agree(figures, "request_throughput", "completed", "duration")
    agree(figures, "output_throughput", "total_output_tokens", "duration")
    tpot, itl = _time(figures, "tpot"), _time(figures, "itl")
    counted = Counted(
        window_s, requests, figures.number("total_output_tokens"), tpot,
        _time(figures, "ttft"), _time(figures, "e2e_latency"),
    ).fields()  # fmt: skip
    engine = engine_of(figures.text("backend"))
    stepped = _steps(figures, counted["tpot_s"], itl, engine == "sglang")
    server = figures.data.get("server_info")
    described = Figures(server if isinstance(server, Mapping) else {}, where)
    fields = {
        **counted,
        **stepped,
        "engine": engine,
        "version_guess": described.text("version"),
        "model": described.text("served_model_name") or described.text("model_path"),
        "prompt_tokens": figures.number("total_input_tokens"),
        "prefix_hit_share": _hit_share(figures),
        "notes": (*counted["notes"], *stepped["notes"], *_failed(figures, requests), *_asked(figures)),
    }
    return [observation(where, fields)]


def _time(figures: Figures, name: str) -> Spread | None:
    names = {"mean": f"mean_{name}_ms", "p50": f"median_{name}_ms", "p90": f"p90_{name}_ms", "p99": f"p99_{name}_ms"}
    return spread(figures, names, MS)


def _steps(figures: Figures, tpot: Spread | None, itl: Spread | None, is_sglang: bool) -> dict[str, Any]:
    """Tokens per step, and the time of one: of SGLang its mean alone, tokens per step x time per token."""
    if not is_sglang:
        return steps(ratio(itl, tpot), itl, speculates=False)
    accepted = figures.nullable("accept_length")
    if accepted:
        if accepted < 1:
            raise figures.error(f"accept_length is {accepted:g}: a step gives at least 1 token")
        note = f"tokens per step: {accepted:.4g} by the server's own count since it started"
        mean = None if tpot is None or tpot.mean is None else Spread(mean=tpot.mean * accepted)
        return {"tokens_per_step": accepted, "itl_s": mean, "notes": (note,)}
    server = figures.data.get("server_info")
    if isinstance(server, Mapping) and "speculative_algorithm" in server and server["speculative_algorithm"] is None:
        return {"tokens_per_step": 1.0, "itl_s": itl, "notes": ()}
    return {"tokens_per_step": None, "itl_s": None, "notes": ("the file does not say whether the server speculates",)}


def _hit_share(figures: Figures) -> float | None:
    """Of prompt tokens, where --cache-report asked the server."""
    report = figures.data.get("cache_report")
    if not isinstance(report, Mapping):
        return None
    inside = Figures(report, f"{figures.where}: cache_report")
    prompts = inside.nullable("total_prompt_tokens")
    return inside.number("total_cached_tokens") / prompts if prompts else None


def _failed(figures: Figures, requests: float) -> tuple[str, ...]:
    errors = figures.data.get("errors")
    return failures(sum(1 for error in errors if error), requests) if isinstance(errors, list) else ()


def _asked(figures: Figures) -> tuple[str, ...]:
    mean = figures.setting("concurrency")
    flight = f"{mean} in flight in the mean, waiting ones counted" if mean else None
    return load(figures, "max_concurrency", "request_rate", flight)
