"""Sentences about the estimate, shared by terminal and Markdown."""

from infopt.ledgers.estimate import Estimate
from infopt.studies.planning import Plan
from infopt.units import format_seconds

BOUNDS = {
    "weights": "weights, read once a step for the whole batch: a larger batch or fewer bits pay",
    "kv": "KV reads, anew for every sequence: a smaller cache pays, a larger batch hardly",
    "compute": "the products of the batch: more batch adds time, not throughput",
    "link": "collectives between the devices: fewer devices for a replica, or a faster link",
    "overhead": "fixed costs of kernels, experts and requests: more batch is nearly free, fewer bits hardly help",
    "prefill": "prompts of other requests: chunked or separate prefill, shorter prompts, a prefix cache",
}
SMALLEST_SHARE = 0.005
TERM_NAMES = {"kv": "KV"}


def estimate_rows(plan: Plan) -> list[tuple[str, str]]:
    """Label and sentence of each line of the estimate."""
    e = plan.estimate
    if not isinstance(e, Estimate):
        return [("none", e.reason)]
    return [
        ("TPOT", f"{_with_interval(e.tpot_s, e.tpot_low_s, e.tpot_high_s)}: {1 / e.tpot_s:.3g} tokens/s for each user"),
        ("TTFT", _with_interval(e.ttft_s, e.ttft_low_s, e.ttft_high_s)),
        ("throughput", throughput_words(plan, e)),
        ("made of", terms_words(e)),
        ("bound by", BOUNDS[e.bound]),
        *extrapolated_rows(e),
    ]


def extrapolated_rows(e: Estimate) -> list[tuple[str, str]]:
    """What of the scenario lies outside the measurements; no line where nothing does."""
    return (
        [("extrapolated", "; ".join(e.extrapolated) + "; there the interval is not measured")] if e.extrapolated else []
    )


def throughput_words(plan: Plan, e: Estimate) -> str:
    """Output tokens per second, of the deployment and of one device."""
    gpus = plan.scenario.gpus
    each = f", {_rate(e.output_tokens_per_s / gpus)} for each device" if gpus > 1 else ""
    return f"{_rate(e.output_tokens_per_s)} output tokens/s{each}"


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"


def terms_words(e: Estimate) -> str:
    """What one output token's time is made of, largest first; what rounds to nothing is left out."""
    shown = sorted((t for t in e.terms if t.value > SMALLEST_SHARE * e.tpot_s), key=lambda t: -t.value)
    return ", ".join(f"{term_name(t.name)} {format_seconds(t.value)}" for t in shown)


def term_name(name: str) -> str:
    """A part of an output token's time as people say it."""
    return TERM_NAMES.get(name, name)


def _with_interval(value_s: float, low_s: float, high_s: float) -> str:
    return f"{format_seconds(value_s)} ({format_seconds(low_s)} to {format_seconds(high_s)})"
