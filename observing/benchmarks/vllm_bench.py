"""Results of `vllm bench serve --save-result` (and `--append-result`), before 0.9 of benchmarks/benchmark_serving.py.

Sources: vllm/benchmarks/serve.py and lib/endpoint_request_func.py of 0.32.0; vllm-project/vllm
benchmarks/benchmark_serving.py at 0049e29 (2025), whose files lack `failed`, `latencies` and `spec_decode_*`;
src/output/json.rs of vllm-project/vllm-bench at e942e43 (2026), the same keys, and conversations of several turns.

The client stamps each streamed chunk: `itls` are the gaps between chunks, one gap for a chunk of several tokens;
`mean_tpot_ms` is the mean over requests of (end - first token) / (tokens - 1). vLLM sends one chunk a step, so with
speculation ITL is a step and ITL / TPOT the tokens of one. `spec_decode_*` are differences of the server's counters
over the run; `spec_decode_acceptance_length` is 1 + accepted / drafts, which forgets steps without a draft, and is not
used. `max_concurrency` and `request_rate` are what was asked for, not what ran; percentiles are those asked for with
--metric-percentiles; e2el only if asked for, but newer files keep `latencies`. Checked against files 0.32.0 wrote of a
paced server, with chunks of one token and of three.
"""

from collections.abc import Mapping
from typing import Any

from infopt.observing.benchmarks.figures import (
    MS,
    Counted,
    Figures,
    agree,
    draft_share,
    engine_of,
    failures,
    load,
    observation,
    ratio,
    spread,
    spread_of,
    steps,
)
from infopt.observing.observation import Observation, Spread

OWN = frozenset({"model_id", "tokenizer_id", "num_prompts", "request_rate"})
TURNS = frozenset({"model_id", "num_conversations", "multi_turn_concurrency"})
AGREED = 0.1  # tokens per step by two ways differ no more, or it is said


def claims(result: Mapping[str, Any]) -> bool:
    """By what it says of the run, so that a result without its figures is refused and not passed over."""
    known = result.keys() >= OWN or result.keys() >= TURNS
    return known and ("backend" in result or "endpoint_type" in result)


def observe(result: Mapping[str, Any], where: str) -> list[Observation]:
    """The observation of one result."""
    figures = Figures(result, where)
    if "total_input_sequences" in result:
        raise figures.error("a benchmark of embeddings or ranking: nothing is generated, there is nothing to observe")
    window_s = figures.positive("duration", "the run took no time")
    requests = figures.positive("completed", "no request completed")
    agree(figures, "request_throughput", "completed", "duration")
    agree(figures, "output_throughput", "total_output_tokens", "duration")
    output_tokens = figures.number("total_output_tokens")
    times = {name: _time(figures, name) for name in ("ttft", "tpot", "itl", "e2el")}
    times["e2el"] = times["e2el"] or _latencies(figures, requests)
    if not any(times.values()):
        raise figures.error("holds no time of a request: keep ttft, tpot and itl in --percentile-metrics")
    counted = Counted(window_s, requests, output_tokens, times["tpot"], times["ttft"], times["e2el"]).fields()
    speculation = _speculation(figures, output_tokens - requests, times["itl"], counted["tpot_s"])
    notes = (*counted.pop("notes"), *speculation.pop("notes"), *_failed(figures, requests), *_asked(figures))
    named = engine_of(figures.text("backend") or figures.text("endpoint_type"))
    fields = {
        **counted,
        **speculation,
        "engine": "vllm" if "spec_decode_num_drafts" in result else named,  # read from its vllm: metrics
        "model": figures.text("model_id"),
        "prompt_tokens": figures.number("total_input_tokens"),
        "notes": notes,
    }
    return [observation(where, fields)]


def _time(figures: Figures, name: str) -> Spread | None:
    names = {"mean": f"mean_{name}_ms", "p50": f"median_{name}_ms", "p90": f"p90_{name}_ms", "p99": f"p99_{name}_ms"}
    return spread(figures, names, MS)


def _latencies(figures: Figures, requests: float) -> Spread | None:
    """End-to-end times kept one by one; a failed request has 0 there. Not used where their number does not match."""
    done = [value for value in figures.values("latencies") or () if value > 0]
    return spread_of(done) if len(done) == requests else None


def _speculation(figures: Figures, decoded: float, itl: Spread | None, tpot: Spread | None) -> dict[str, Any]:
    drafts = figures.optional("spec_decode_num_drafts")
    per_chunk = _per_chunk(figures)
    if per_chunk is None:
        per_chunk = ratio(itl, tpot)
    fields = steps(per_chunk, itl, speculates=bool(drafts))
    tokens_per_step = fields["tokens_per_step"]
    if not drafts:
        return fields
    drafted, accepted = figures.number("spec_decode_draft_tokens"), figures.number("spec_decode_accepted_tokens")
    fields["drafted_tokens"] = drafted / drafts
    fields["acceptance_per_position"] = tuple(figures.values("spec_decode_per_position_acceptance_rates") or ()) or None
    counted = decoded / (decoded - accepted) if decoded > accepted else None
    if tokens_per_step is None:
        fields["tokens_per_step"] = tokens_per_step = counted
    elif counted is not None and abs(counted / tokens_per_step - 1) > AGREED:
        said = f"tokens per step: {tokens_per_step:.3g} by the client's chunks, {counted:.3g} by the server's counters"
        fields["notes"] = (f"{said}, which count the traffic of others too",)
    if tokens_per_step is not None and decoded > 0:
        fields["draft_share"] = draft_share(drafts, tokens_per_step, decoded)
    return fields


def _per_chunk(figures: Figures) -> float | None:
    """Tokens of a chunk after the first, counted one by one, where --save-detailed kept them."""
    gaps, lengths = figures.nested("itls"), figures.values("output_lens")
    if gaps is None or lengths is None or len(gaps) != len(lengths):
        return None
    long = [(length, len(chunks)) for length, chunks in zip(lengths, gaps, strict=True) if length > 1 and chunks]
    chunks = sum(count for _, count in long)
    return sum(length - 1 for length, _ in long) / chunks if chunks else None


def _failed(figures: Figures, requests: float) -> tuple[str, ...]:
    failed = figures.optional("failed")
    if failed is not None:
        return failures(failed, requests)
    asked = figures.nullable("num_prompts")
    if asked is None or asked <= requests:
        return ()
    return (f"{requests:.0f} of {asked:.0f} requests completed: the figures are of those",)


def _asked(figures: Figures) -> tuple[str, ...]:
    peak = figures.setting("max_concurrent_requests")
    talks = figures.setting("num_conversations")
    said = (f"{talks} conversations, a request a turn" if talks else None, f"{peak} at the peak" if peak else None)
    return load(figures, "multi_turn_concurrency" if talks else "max_concurrency", "request_rate", *said)
