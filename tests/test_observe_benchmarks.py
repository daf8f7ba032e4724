"""Results of benchmark tools as observations: figure by figure, and what no file can do."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.observing.benchmarks import MOST_RESULTS, read_benchmark, read_benchmark_text
from infopt.observing.benchmarks.figures import _backends
from infopt.observing.metric_names import known_engines
from infopt.observing.observation import Observation, Spread
from infopt.observing.reading import read_sources

DATA = Path(__file__).resolve().parent / "data" / "benchmarks"
FILES = sorted(path.name for path in DATA.iterdir())


def read(name: str) -> list[Observation]:
    found = read_benchmark_text((DATA / name).read_bytes(), name)
    assert found is not None
    assert {one.kind for one in found} == {"benchmark"}
    return found


def only(name: str) -> Observation:
    (found,) = read(name)
    return found


def parsed(name: str) -> Any:
    text = (DATA / name).read_text()
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else json.loads(text)


def times(value: Any) -> tuple[float | None, ...]:
    """Mean, median, 90th and 99th percentile in milliseconds."""
    assert isinstance(value, Spread)
    assert not value.is_bucket
    return tuple(None if one is None else round(one * 1000, 6) for one in (value.mean, value.p50, value.p90, value.p99))


def said(found: Observation, text: str) -> bool:
    return any(text in note for note in found.notes)


def test_vllm_bench_serve() -> None:
    found = only("vllm_serve.json")
    assert (found.engine, found.model, found.source) == (None, "example/tiny-1b", "vllm_serve.json")
    assert (found.window_s, found.requests, found.prompt_tokens, found.output_tokens) == (40, 80, 80_000, 10_240)
    assert (found.input_tokens_mean, found.output_tokens_mean) == (1000, 128)
    assert (found.requests_per_s, found.output_tokens_per_s) == (2, 256)
    assert times(found.ttft_s) == (150, 140, 210, 260)
    assert times(found.tpot_s) == (20, 19.5, 22, 25)
    assert times(found.itl_s) == (20.2, 19, 24, 61)
    assert times(found.e2e_s) == (2690, 2690, 2790, 2790)  # of `latencies`: e2el was not asked for
    assert isinstance(found.e2e_s, Spread)
    assert found.e2e_s.count == 80
    assert found.effective_batch == pytest.approx(2 * (2.69 - 0.15))
    assert found.effective_batch_by_littles_law == pytest.approx(256 * 0.020)
    assert found.tokens_per_step == 1  # a chunk holds 1.01 tokens, which is one
    assert found.draft_share is None
    assert said(found, "at most 6 at once asked for, 7 at the peak")
    assert not said(found, "failed")


def test_vllm_bench_serve_appends_a_curve() -> None:
    curve = read("vllm_serve_append.jsonl")
    assert [one.source for one in curve] == [f"vllm_serve_append.jsonl: result {number}" for number in (1, 2, 3)]
    assert [times(one.tpot_s) for one in curve] == [
        (12.5, 12.4, None, 13.1), (14, 13.9, None, 15.2), (18, 17.8, None, 21)
    ]  # fmt: skip
    # What ran, not the concurrency that was asked for: 1, 4 and 16.
    assert [one.effective_batch for one in curve] == pytest.approx(
        [4000 / 52 * 0.0125, 16000 / 60 * 0.014, 800 * 0.018]
    )
    assert [one.e2e_s for one in curve] == [None] * 3
    assert said(curve[2], "at most 16 at once asked for")


def test_vllm_speculation_counts_steps_without_a_draft() -> None:
    found = only("vllm_serve_ngram.json")
    assert found.engine == "vllm"
    # 4000 decoded tokens in 2000 steps; 1 + accepted / drafts, which the file states, is 2.67.
    assert found.tokens_per_step == pytest.approx(2)
    assert found.draft_share == pytest.approx(1200 / 2000)
    assert found.drafted_tokens == pytest.approx(4000 / 1200)
    assert found.acceptance_per_position == pytest.approx((0.75, 0.5, 0.25, 1 / 6))
    assert times(found.itl_s)[0] == 24
    assert not said(found, "tokens per step")


def test_vllm_speculation_by_counters_alone_and_against_them() -> None:
    result = parsed("vllm_serve_ngram.json")
    alone = {name: value for name, value in result.items() if "_itl_" not in name}
    (found,) = read_benchmark(alone, "x") or []
    assert found.tokens_per_step == pytest.approx(2)
    (found,) = read_benchmark({**result, "spec_decode_accepted_tokens": 1000}, "x") or []
    assert found.tokens_per_step == pytest.approx(2)
    assert said(found, "tokens per step: 2 by the client's chunks, 1.33 by the server's counters")
    (found,) = read_benchmark({**result, "spec_decode_num_drafts": 0}, "x") or []
    assert (found.tokens_per_step, found.itl_s) == (None, None)
    assert said(found, "streamed chunks hold 2 tokens, 24 ms apart")


def test_vllm_bench_serve_detailed() -> None:
    found = only("vllm_serve_detailed.json")
    assert (found.requests, found.output_tokens, found.tokens_per_step) == (3, 15, 1)
    assert times(found.e2e_s) == (220, 220, 268, 278.8)  # the failed request's 0 left out
    assert found.effective_batch == pytest.approx(0.3 * 0.12)
    assert said(found, "1 of 4 requests failed: the figures are of the others")
    result = parsed("vllm_serve_detailed.json") | {"spec_decode_num_drafts": 4, "spec_decode_draft_tokens": 8}
    result |= {"spec_decode_accepted_tokens": 6, "itls": [[0.06], [0.06, 0.06], [0.06, 0.06, 0.06], []]}
    (found,) = read_benchmark(result, "x") or []
    assert found.tokens_per_step == pytest.approx(12 / 6)  # counted in chunks, not by the means
    assert found.draft_share == pytest.approx(4 / 6)


def test_vllm_before_it_was_a_command() -> None:
    found = only("vllm_benchmark_serving.json")
    assert (found.engine, found.requests, found.window_s) == ("vllm", 190, 62.5)
    assert (found.input_tokens_mean, found.output_tokens_mean) == (512, 150)
    assert times(found.tpot_s) == (25, 24, None, 33)
    assert found.effective_batch == pytest.approx(28_500 / 62.5 * 0.025)
    assert said(found, "190 of 200 requests completed")
    assert said(found, "4 requests/s asked for")


def test_vllm_offline_says_little() -> None:
    latency = only("vllm_latency.json")
    assert (latency.engine, latency.model, latency.effective_batch) == ("vllm", "example/tiny-1b", None)
    assert times(latency.e2e_s) == (2500, 2500, 2580, 2598)
    assert (latency.requests, latency.tpot_s) == (None, None)
    throughput = only("vllm_throughput.json")
    assert (throughput.window_s, throughput.requests, throughput.output_tokens) == (100, 500, None)
    assert said(throughput, "192000 tokens, prompts and answers together")


def test_sglang() -> None:
    found = only("sglang_0_4_6.jsonl")
    assert (found.engine, found.model, found.version_guess) == ("sglang", None, None)
    assert (found.window_s, found.requests, found.input_tokens_mean, found.output_tokens_mean) == (50, 100, 1024, 201)
    assert times(found.tpot_s) == (10, 9.8, None, 15)
    assert times(found.e2e_s) == (2120, 2077.6, None, 3180)
    assert found.effective_batch == pytest.approx(4)  # 2 requests/s x 2 s; `concurrency` counts the prompts too: 4.24
    assert found.effective_batch_by_littles_law == pytest.approx(402 * 0.010)
    assert (found.tokens_per_step, found.itl_s) == (None, None)
    assert said(found, "does not say whether the server speculates")
    assert said(found, "4.24 in flight in the mean, waiting ones counted")


def test_sglang_speculation_and_other_engines() -> None:
    eagle, plain, other = read("sglang_0_5_23.jsonl")
    assert (eagle.version_guess, eagle.model, eagle.tokens_per_step) == ("0.5.23", "tiny", 2.5)
    assert times(eagle.tpot_s) == (6, 5.88, 7.2, 9)
    assert times(eagle.itl_s) == (15, None, None, None)  # the client's ITL is per token: 6 ms; a step is 2.5 of them
    assert eagle.prefix_hit_share == 0.25
    assert said(eagle, "by the server's own count since it started")
    assert (plain.tokens_per_step, times(plain.itl_s)) == (1, (8, 7.84, 9.6, 12))
    assert said(plain, "6 of 306 requests failed")
    assert (other.engine, other.tokens_per_step, other.itl_s) == ("vllm", None, None)
    assert said(other, "streamed chunks hold 2 tokens, 40 ms apart")
    assert "not-to-be-shown" not in "".join(one.model_dump_json() for one in (eagle, plain, other))


def test_aiperf() -> None:
    found = only("aiperf_0_13.json")
    assert (found.model, found.window_s, found.requests) == ("example/tiny-8b", 40, 100)
    assert (found.input_tokens_mean, found.output_tokens_mean) == (550, 201)
    assert times(found.ttft_s) == (200, 190, 240, 320)
    assert times(found.tpot_s) == (15, 14.25, 18, 24)  # inter_token_latency is of a request, over its tokens
    assert times(found.itl_s) == (30, 28.5, 36, 48)
    assert found.effective_batch == pytest.approx(2.5 * 3.0)
    assert found.effective_batch_by_littles_law == pytest.approx(502.5 * 0.015)
    assert found.tokens_per_step == pytest.approx(2)  # not spec_decode_acceptance_length, 2.25
    assert found.draft_share == pytest.approx(8000 / 10_000)
    assert found.drafted_tokens == 3
    assert found.acceptance_per_position == (5 / 8, 3 / 8, 2 / 8)
    assert said(found, "5 of 105 requests failed")


@pytest.mark.parametrize("name", ["aiperf_0_1_1.json", "genai_perf_0_0_16.json"])
def test_aiperf_of_old_and_genai_perf(name: str) -> None:
    found = only(name)
    assert (found.model, found.window_s, found.requests) == ("example/tiny-8b", 40, 100)
    assert (times(found.ttft_s), times(found.tpot_s)) == ((200, 190, 240, 320), (15, 14.25, 18, 24))
    assert found.effective_batch == pytest.approx(7.5)
    assert (found.itl_s, found.tokens_per_step) == (None, None)
    assert said(found, "cancelled") == name.startswith("aiperf")


def test_genai_perf_that_counts_no_requests() -> None:
    found = only("genai_perf_uncounted.json")
    assert (found.window_s, found.requests, found.prompt_tokens, found.output_tokens) == (None,) * 4
    assert found.effective_batch == pytest.approx(7.5)
    assert said(found, "tokens in and out of one: 550 and 201")


def test_units_of_aiperf_are_read() -> None:
    result = parsed("aiperf_0_13.json")
    result["inter_token_latency"] = {"unit": "us", "avg": 15_000.0, "p50": 14_000.0, "p99": 20_000.0}
    (found,) = read_benchmark(result, "x") or []
    assert times(found.tpot_s) == (15, 14, None, 20)
    result["inter_token_latency"]["unit"] = "fortnights"
    with pytest.raises(InfoptError, match="x: inter_token_latency: the unit 'fortnights' is none of"):
        read_benchmark(result, "x")


def test_guidellm() -> None:
    found = only("guidellm_0_2.json")
    assert (found.model, found.window_s, found.requests) == ("example/tiny-1b", 30, 75)
    assert (found.input_tokens_mean, found.output_tokens_mean) == (256, 128)
    assert times(found.tpot_s) == (10, 9.8, 12.5, 17.5)  # inter_token_latency_ms; time_per_output_token_ms is 11
    assert times(found.e2e_s) == (1400, 1372, 1750, 2450)
    assert found.effective_batch == pytest.approx(3.5 * (1 - 0.13 / 1.4))
    assert found.effective_batch_by_littles_law == pytest.approx(320 * 0.010)
    assert (found.tokens_per_step, found.itl_s) == (None, None)
    assert said(found, "2 requests were cut off at the end")
    assert said(found, "load: constant, 2.5 requests/s asked for")


def test_guidellm_sweep() -> None:
    first, second = read("guidellm_0_5.json")
    assert first.source == "guidellm_0_5.json: benchmark 1"
    assert (first.model, first.tokens_per_step, times(first.itl_s)[0]) == ("example/tiny-1b", 1, 7)
    assert (second.requests, second.tokens_per_step, second.itl_s) == (240, None, None)
    assert second.effective_batch == pytest.approx(7.9 * (1 - 0.325 / 1.975))
    assert said(second, "streamed chunks hold 2 tokens:")
    assert said(second, "3 requests failed")


def test_llama_bench() -> None:
    prefill, short, deep, both = read("llama_bench.json")
    assert (prefill.engine, prefill.version_guess) == ("llama.cpp", "b7100 (0abc123)")
    assert (prefill.model, prefill.taken) == ("models/tiny-q8_0.gguf", "2026-11-06T09:30:00Z")
    assert (times(prefill.prefill_s)[0], prefill.prompt_tokens) == (8000, 512)
    assert (prefill.effective_batch, prefill.tpot_s) == (None, None)
    assert times(short.tpot_s) == times(short.itl_s) == (50, None, None, None)  # 6.4 s / 128
    assert (short.effective_batch, short.tokens_per_step, short.steps, short.output_tokens_per_s) == (1, 1, 128, 20)
    assert (short.input_tokens_mean, short.output_tokens_mean) == (0, 128)
    assert (times(deep.itl_s)[0], deep.input_tokens_mean) == (75, 4096)
    assert said(deep, "4096 tokens of context were there before")
    assert (both.tpot_s, both.prefill_s, times(both.e2e_s)[0]) == (None, None, 14_400)
    assert said(both, "neither is known alone")
    assert said(short, "mean of 3 repetitions, fastest and slowest 4.0% apart")
    assert said(short, "llama 1B Q8_0, CPU, 4 threads, KV f16/f16")


def test_llama_bench_lines_are_the_same() -> None:
    lines, array = read("llama_bench.jsonl"), read("llama_bench.json")[:2]
    assert [one.model_dump(exclude={"source"}) for one in lines] == [
        one.model_dump(exclude={"source"}) for one in array
    ]


def test_llama_batched_bench() -> None:
    alone, eight, shared = read("llama_batched_bench.jsonl")
    assert [(one.effective_batch, times(one.itl_s)[0]) for one in (alone, eight, shared)] == [
        (1, 20),
        (8, 40),
        (32, 100),
    ]
    assert (eight.input_tokens_mean, eight.output_tokens_mean, eight.steps) == (128, 64, 64)
    assert (times(alone.prefill_s)[0], eight.prefill_s, times(shared.prefill_s)[0]) == (250, None, 250)
    assert said(shared, "one prompt of 128 tokens shared")


def test_inference_perf() -> None:
    found = only("inference_perf.json")
    assert (found.window_s, found.requests, found.input_tokens_mean, found.output_tokens_mean) == (50, 100, 400, 100)
    assert times(found.tpot_s) == (25, 22.5, 32.5, 45)
    assert found.effective_batch == pytest.approx(2 * (3 - 0.525))
    assert (found.itl_s, found.tokens_per_step) == (None, None)
    assert said(found, "4 of 104 requests failed")
    assert said(found, "at most 8 at once asked for, 2 requests/s asked for")


def test_every_file_is_an_observation_that_can_be_written_and_read() -> None:
    for name in FILES:
        for found in read(name):
            plain = {key: value for key, value in found.plain().items() if key != "schema"}
            assert Observation.model_validate_json(json.dumps(plain)) == found


def test_engines_are_named_as_everywhere() -> None:
    named = {one.engine for name in FILES for one in read(name)} - {None}
    assert named == {"llama.cpp", "sglang", "vllm"}
    assert set(_backends().values()) <= {names.engine for names in known_engines()}


def test_a_client_that_does_not_stream() -> None:
    result = parsed("sglang_0_4_6.jsonl")[0]
    for name in ("mean", "median", "std", "p99"):
        result[f"{name}_ttft_ms"] = result[f"{name}_e2e_latency_ms"]
        result[f"{name}_tpot_ms"] = result[f"{name}_itl_ms"] = 0.0
    (found,) = read_benchmark(result, "x") or []
    assert (found.tpot_s, found.itl_s) == (None, None)
    assert found.effective_batch == pytest.approx(4.24)
    assert said(found, "with those that wait or are prefilled")


# What is refused: the file, what is put in it, and the line.
REFUSED = [
    ("vllm_serve.json", {"duration": 0}, "x: duration is 0: the run took no time"),
    ("vllm_serve.json", {"duration": -1.0}, "x: duration is negative: no benchmark measures that"),
    ("vllm_serve.json", {"duration": math.nan}, "x: duration is infinite, or no number: no benchmark measures that"),
    ("vllm_serve.json", {"completed": 0}, "x: completed is 0: no request completed"),
    ("vllm_serve.json", {"completed": 10**400}, "x: completed is too large: no benchmark measures that"),
    ("vllm_serve.json", {"total_output_tokens": None}, r"x: total_output_tokens is null \(or NaN\), not a number"),
    ("vllm_serve.json", {"mean_tpot_ms": "20"}, "x: mean_tpot_ms is the text '20', not a number"),
    ("vllm_serve.json", {"mean_tpot_ms": True}, "x: mean_tpot_ms is a bool, not a number"),
    ("vllm_serve.json", {"p99_ttft_ms": 100.0}, "x: the percentiles of mean_ttft_ms fall: 140, 210, 100"),
    ("vllm_serve.json", {"request_throughput": 4.0}, "x: request_throughput is 4, but completed / duration is 2: not"),
    ("vllm_serve.json", {"latencies": 3}, "x: latencies is no list"),
    ("vllm_serve_detailed.json", {"itls": [3, 4, 5, 6]}, "x: itls is no list"),
    ("vllm_serve.json", {"total_input_sequences": 9}, "x: a benchmark of embeddings or ranking: nothing is generated"),
    ("vllm_serve_ngram.json", {"spec_decode_per_position_acceptance_rates": [0.2, 0.5]}, "_per_position rises"),
    ("vllm_serve_ngram.json", {"spec_decode_per_position_acceptance_rates": [1.5]}, "acceptance_per_position"),
    ("sglang_0_4_6.jsonl", {"accept_length": 0.5}, "x: accept_length is 0.5: a step gives at least 1 token"),
    ("aiperf_0_13.json", {"request_count": {"unit": "requests", "avg": 0}}, "x: request_count is 0: no request"),
    ("aiperf_0_13.json", {"inter_token_latency": 15.0}, "x: inter_token_latency: is no JSON object"),
    ("guidellm_0_2.json", {"benchmarks": [{"metrics": {"request_concurrency": {}}}]}, "x: request_totals: is no JSON"),
    ("llama_bench.json", {"avg_ns": 0}, "x: avg_ns is 0: the test took no time"),
    ("llama_bench.json", {"avg_ns": 5e-324}, "x: avg_ns is 0: the test took no time"),
    ("llama_bench.json", {"n_prompt": 0}, "x: n_prompt and n_gen are 0: the test did nothing"),
    ("llama_batched_bench.jsonl", {"t_tg": 0.0}, "x: t_tg is 0: the steps took no time"),
    ("inference_perf.json", {"successes": None}, "x: successes: is no JSON object"),
    ("vllm_latency.json", {"avg_latency": "fast"}, "x: avg_latency is the text 'fast', not a number"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "line"), REFUSED)
def test_refused(name: str, change: dict[str, Any], line: str) -> None:
    data = parsed(name)
    result = {**(data[0] if isinstance(data, list) else data), **change}
    with pytest.raises(InfoptError, match=line) as caught:
        read_benchmark(result, "x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("vllm_serve.json", "duration"), ("vllm_serve.json", "completed"), ("vllm_serve.json", "mean_tpot_ms"),
        ("vllm_serve.json", "total_input_tokens"), ("vllm_serve_ngram.json", "spec_decode_draft_tokens"),
        ("sglang_0_4_6.jsonl", "total_output_tokens"), ("llama_bench.json", "avg_ns"),
        ("llama_batched_bench.jsonl", "t_tg"), ("aiperf_0_13.json", "request_throughput"),
    ],
)  # fmt: skip
def test_a_known_result_without_a_figure_is_refused(name: str, key: str) -> None:
    data = parsed(name)
    result = dict(data[0] if isinstance(data, list) else data)
    del result[key]
    with pytest.raises(InfoptError, match=rf"^x: {key}(: is no JSON object| is missing)"):
        read_benchmark(result, "x")


def test_vllm_without_any_time_of_a_request() -> None:
    result = {name: value for name, value in parsed("vllm_serve.json").items() if not name.endswith("_ms")}
    del result["latencies"]
    with pytest.raises(InfoptError, match="x: holds no time of a request: keep ttft, tpot and itl"):
        read_benchmark(result, "x")


@pytest.mark.parametrize(
    "data", [None, 3, "text", [], {}, [[]], [3, {}], {"benchmarks": []}, {"schema": "infopt/plan/1"}]
)
def test_what_is_no_result(data: Any) -> None:
    assert read_benchmark(data, "x") is None


def test_files_that_hold_several_things() -> None:
    known = parsed("llama_bench.json")
    with pytest.raises(
        InfoptError, match="x: result 2: is no benchmark result that is known, though others of the file"
    ):
        read_benchmark([known[0], {"a": 1}], "x")
    with pytest.raises(InfoptError, match=r"x: holds 10001 results, more than 10000: split the file"):
        read_benchmark([known[0]] * (MOST_RESULTS + 1), "x")
    both = read_benchmark([known[1], parsed("vllm_serve.json")], "x") or []
    assert [one.engine for one in both] == ["llama.cpp", None]


@pytest.mark.parametrize("text", [b"", b"\n\n", b"vllm:num_requests_running 3\n", b"# HELP", b"<html>", b"3", b"\xff{"])
def test_texts_that_are_no_json(text: bytes) -> None:
    assert read_benchmark_text(text, "x") is None


def test_texts_that_break_off() -> None:
    whole = (DATA / "vllm_serve.json").read_bytes()
    with pytest.raises(InfoptError, match="x: not readable as JSON"):
        read_benchmark_text(whole[: len(whole) // 2], "x")
    lines = (DATA / "sglang_0_5_23.jsonl").read_bytes()
    with pytest.raises(InfoptError, match="x: line 3: not readable as JSON"):
        read_benchmark_text(lines[:-200], "x")
    with pytest.raises(InfoptError, match="more than 10000: split the file"):
        read_benchmark_text(b"{}\n" * 10_001, "x")
    with pytest.raises(InfoptError, match="JSON values"):
        read_benchmark_text(b'{"a": [' + b"1," * 4_000_001 + b"1]}", "x")
    with pytest.raises(InfoptError, match="nested too deeply"):
        read_benchmark_text(b"[" * 100_000, "x")


def test_nan_in_a_file_is_said() -> None:
    text = (DATA / "vllm_serve.json").read_bytes().replace(b'"mean_tpot_ms": 20.0', b'"mean_tpot_ms": NaN')
    with pytest.raises(InfoptError, match=r"mean_tpot_ms is null \(or NaN\), not a number"):
        read_benchmark_text(text, "x")


def test_names_from_a_file_stay_on_one_line() -> None:
    (found,) = read_benchmark({**parsed("vllm_serve.json"), "model_id": "a\nb\x1b[31m" + "c" * 400}, "x") or []
    assert found.model is not None
    assert found.model.isprintable()
    assert len(found.model) < 300


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400) | st.just(5e-324),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def read_or_refuse(data: Any) -> list[Observation]:
    """The observations, none where there are none or where the file is refused in one line."""
    problem = None
    try:
        return read_benchmark(data, "x") or []
    except InfoptError as error:
        problem = str(error)
    assert "\n" not in problem
    return []


@given(ANY)
def test_nothing_else_than_an_error_comes_of_any_json(data: Any) -> None:
    assert read_or_refuse(data) == []


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to every value inside."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    return [above] * bool(above) + [place for key, one in inside for place in places(one, (*above, key))]


PLACES = {name: places(parsed(name)) for name in FILES}


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(FILES), ANY, st.booleans())
def test_known_files_with_something_else_inside(draw: Any, name: str, value: Any, is_removed: bool) -> None:
    data = parsed(name)
    *above, last = draw.draw(st.sampled_from(PLACES[name]))
    inner = data
    for key in above:
        inner = inner[key]
    if is_removed:
        del inner[last]
    else:
        inner[last] = value
    for one in read_or_refuse(data):
        json.dumps(one.plain(), allow_nan=False)
        assert one.effective_batch is None or math.isfinite(one.effective_batch)
        assert one.tokens_per_step is None or one.tokens_per_step >= 1


def test_a_draft_in_every_step_is_all_of_them() -> None:
    """Means of requests put a draft in 100.2 % of the steps: it is in all of them."""
    result = {k: v for k, v in parsed("vllm_serve_ngram.json").items() if k != "latencies" and "e2el" not in k}
    result |= {"completed": 10, "failed": 0, "num_prompts": 10, "total_output_tokens": 4010, "duration": 20.0}
    result |= {"request_throughput": 0.5, "output_throughput": 200.5, "mean_itl_ms": 50.1, "mean_tpot_ms": 20.0}
    result |= {"spec_decode_num_drafts": 1600, "spec_decode_draft_tokens": 4800, "spec_decode_accepted_tokens": 2400}
    (found,) = read_benchmark(result, "here") or []
    assert found.tokens_per_step == pytest.approx(2.505)
    assert (found.draft_share, found.drafted_tokens) == (1.0, 3.0)
    (many,) = read_benchmark(result | {"spec_decode_num_drafts": 2400}, "here") or []
    assert many.draft_share is None


def test_a_time_per_token_that_counts_chunks_is_found_out() -> None:
    """inference-perf of 2025 divides by chunks: 40 ms x 100 tokens take 4 s, and the file states 20 ms."""
    result = parsed("inference_perf.json")
    done = result["successes"]
    done["throughput"]["output_tokens_per_sec"] = done["throughput"]["requests_per_sec"] * 101
    for name, mean in (("request_latency", 4.2), ("time_to_first_token", 0.2), ("time_per_output_token", 0.02)):
        done["latency"][name] = {"mean": mean, "median": mean, "p90": mean, "p99": mean}
    (found,) = read_benchmark(result, "here") or []
    assert isinstance(found.tpot_s, Spread)
    assert found.tpot_s.mean == pytest.approx(0.04)
    assert found.tpot_s.p50 is None
    assert said(found, "40 ms by end-to-end times and tokens, which counts here; the file states 20 ms")
    done["latency"]["time_per_output_token"]["mean"] = 0.038
    (close,) = read_benchmark(result, "here") or []
    assert isinstance(close.tpot_s, Spread)
    assert close.tpot_s.mean == 0.038


def test_conversations_of_vllm_bench() -> None:
    """The client in Rust writes other settings for conversations, and the same figures."""
    result = parsed("vllm_serve.json")
    for name in ("tokenizer_id", "num_prompts", "request_rate", "max_concurrency", "endpoint_type"):
        result.pop(name, None)
    talk = {"mode": "multi_turn", "backend": "openai-chat", "num_conversations": 20, "multi_turn_concurrency": 4}
    (found,) = read_benchmark(result | talk | {"per_turn_metrics": []}, "here") or []
    assert found.model_dump(exclude={"notes", "source"}) == only("vllm_serve.json").model_dump(
        exclude={"notes", "source"}
    )
    assert said(found, "load: at most 4 at once asked for, 20 conversations, a request a turn")


@pytest.mark.parametrize(
    ("name", "lost", "words"),
    [
        ("vllm_serve.json", ("backend", "endpoint_type"), "vllm bench serve .*backend, model_id"),
        ("llama_bench.json", ("build_commit",), "llama-bench, .*build_commit"),
        ("genai_perf_0_0_16.json", ("input_config",), "aiperf and genai-perf, .*input_config"),
    ],
)
def test_a_result_whose_settings_are_cut_off_is_named(
    name: str, lost: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    results = parsed(name)
    for result in results if isinstance(results, list) else [results]:
        for key in lost:
            result.pop(key, None)
    file = tmp_path / "result.json"
    for shape in (results, {"name": "a run", "results": results}):
        file.write_text(json.dumps(shape))
        with pytest.raises(InfoptError, match=words):
            read_sources(file)
    file.write_text(json.dumps({"name": "a run", "results": parsed(name)}))
    with pytest.raises(InfoptError, match="one stands inside of it: give what is under 'results' alone"):
        read_sources(file)


def test_a_sweep_of_aiperf_is_a_row_each() -> None:
    one = parsed("aiperf_0_13.json")
    metrics = {name: value for name, value in one.items() if isinstance(value, dict) and "unit" in value}
    parts = [{"parameters": {"concurrency": n}, "metrics": metrics} for n in (8, 16)]
    found = read_benchmark({"aggregation_type": "sweep", "per_combination_metrics": parts}, "here") or []
    assert [said(row, f"load: concurrency {n} asked for") for row, n in zip(found, (8, 16), strict=True)] == [True] * 2
    alone = only("aiperf_0_13.json")
    assert {(row.effective_batch, row.tpot_s, row.requests) for row in found} == {
        (alone.effective_batch, alone.tpot_s, alone.requests)
    }
    with pytest.raises(InfoptError, match="holds 0 combinations"):
        read_benchmark({"per_combination_metrics": []}, "here")
    with pytest.raises(InfoptError, match="combination 1"):
        read_benchmark({"per_combination_metrics": [{"parameters": {}}]}, "here")


def test_genai_perf_before_it_renamed_its_lengths() -> None:
    result = parsed("genai_perf_uncounted.json")
    new = only("genai_perf_uncounted.json")
    for name, old in (("output_sequence_length", "num_output_token"), ("input_sequence_length", "num_input_token")):
        result[old] = result.pop(name)
    result["input_config"] = {"model": ["example_vllm"], "backend": "tensorrtllm", "service_kind": "triton"}
    (found,) = read_benchmark(result, "here") or []
    assert (found.engine, found.model) == ("tensorrt-llm", "example_vllm")
    assert (found.effective_batch, found.tpot_s) == (new.effective_batch, new.tpot_s)
    assert [note for note in found.notes if "tokens in and out" in note] == [
        note for note in new.notes if "tokens in and out" in note
    ]


def test_aiperf_is_told_by_its_version_too() -> None:
    result = parsed("aiperf_0_13.json")
    del result["input_config"]
    (found,) = read_benchmark(result | {"aiperf_version": "0.13.0"}, "here") or []
    assert found.effective_batch == only("aiperf_0_13.json").effective_batch


def test_steps_on_a_context_of_ik_llama() -> None:
    """llama-sweep-bench, and llama-bench's label for steps behind a prompt that is not in the time."""
    line = {"n_kv_max": 4096, "n_threads": 8, "pp": 512, "tg": 128, "n_kv": 1024, "t_pp": 1.0, "speed_pp": 512.0}
    (found,) = read_benchmark(line | {"t_tg": 2.56, "speed_tg": 50.0}, "here") or []
    assert (found.effective_batch, found.prompt_tokens, found.output_tokens, found.mean_s("itl_s")) == (
        1,
        1024,
        128,
        0.02,
    )
    assert said(found, "prefill of 512 tokens behind them: 1 s")
    test = parsed("llama_bench.json")[0] | {"n_prompt": 512, "n_gen": 32, "avg_ns": 640_000_000}
    (both,) = read_benchmark(test, "here") or []
    assert said(both, "timed together")
    (behind,) = read_benchmark(test | {"test": "tg32@pp512"}, "here") or []
    assert (behind.mean_s("tpot_s"), behind.output_tokens, behind.effective_batch) == (0.02, 32, 1)
    assert not said(behind, "timed together")


@pytest.mark.parametrize("name", ["llama_bench.json", "llama_bench.jsonl", "aiperf_0_13.json"])
def test_a_result_in_a_log_is_read(name: str, tmp_path: Path) -> None:
    """What a terminal had: both streams in one file."""
    text = (DATA / name).read_text()
    file = tmp_path / "log.txt"
    file.write_text(
        f"ggml_cuda_init: found 1 CUDA devices:\n  Device 0: Example, VMM: yes\n{text.rstrip()}\nggml_free: done\n"
    )
    found = read_sources(file)
    assert [one.tpot_s for one in found] == [one.tpot_s for one in read(name)]
    assert all(said(one, "lines of a log") for one in found)
    file.write_text(f"loading\n{text[: len(text) // 2]}")
    if name.endswith(".json"):
        with pytest.raises(InfoptError, match="save the result alone"):
            read_sources(file)


def test_series_are_series_whatever_stands_behind_them(tmp_path: Path) -> None:
    file = tmp_path / "metrics.txt"
    file.write_text("vllm:num_requests_running 2\n" + (DATA / "llama_bench.jsonl").read_text())
    assert [one.kind for one in read_sources(file)] == ["totals"]
