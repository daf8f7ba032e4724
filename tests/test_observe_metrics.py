"""Scrapes of servers as one observation: every engine and version, and what goes wrong between two scrapes."""

import itertools
import math
from pathlib import Path

import pytest
import yaml

from infopt.errors import InfoptError
from infopt.observing.metric_names import known_engines
from infopt.observing.observation import Observation, Spread
from infopt.observing.snapshots import Snapshot, observation_of
from infopt.probes.metrics_text import parse_metrics
from infopt.profiles.engines import engine_names

TEXTS = Path(__file__).parent / "data" / "metrics"
EXPECTED = yaml.safe_load((TEXTS / "expected.yaml").read_text())
NOT_FIGURES = {"source", "kind", "window_s", "taken", "notes", "unknown_names", "ignored"}


def snapshot(text: str, at_s: float = 0.0, taken: str | None = None, slots: int | None = None) -> Snapshot:
    return Snapshot(parse_metrics(text.encode(), "here"), at_s, taken, slots)


def text_of(name: str) -> str:
    return (TEXTS / f"{name}.txt").read_text()


def window(*texts: str, apart_s: float = 60.0, **options: str) -> Observation:
    """What texts say that were read one after another."""
    shots = [snapshot(text, 100.0 + apart_s * i) for i, text in enumerate(texts)]
    return observation_of(shots, "here", **options)


def pair(name: str) -> tuple[str, str]:
    return text_of(f"{name}_before"), text_of(f"{name}_after")


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_figure_of_every_engine(name: str) -> None:
    found, expected = window(*pair(name)), EXPECTED[name]
    for field in Observation.model_fields.keys() - NOT_FIGURES:
        value, wanted = getattr(found, field), expected.get(field)
        if isinstance(value, Spread):
            said = [value.mean, value.p50, value.p90, value.p99, value.count]
            assert said == [None if w is None else close(w) for w in wanted], field
            assert value.is_bucket is (value.p50 is not None), field
        elif isinstance(value, tuple):
            assert list(value) == [close(w) for w in wanted], field
        elif isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
            assert value == close(wanted), field
        else:
            assert value == wanted, field
    assert found.kind == "window"
    assert found.window_s == 60.0
    assert found.unknown_names == ()


def test_every_pair_of_texts_is_expected() -> None:
    assert {path.name.removesuffix("_before.txt") for path in TEXTS.glob("*_before.txt")} == set(EXPECTED)


def test_engines_have_the_names_of_the_ledgers() -> None:
    mine = {names.engine for names in known_engines()}
    assert mine >= set(engine_names())
    assert mine - set(engine_names()) == {"tgi", "dynamo", "nim"}


def test_one_scrape_is_totals() -> None:
    _, after = pair("vllm_0.32_ngram")
    found = observation_of([snapshot(after, taken="2027-01-15T08:07:22Z")], "file.txt")
    assert (found.kind, found.taken, found.source) == ("totals", "2027-01-15T08:07:22Z", "file.txt")
    assert found.window_s == pytest.approx(441.58, abs=0.01)  # since process_start_time_seconds
    assert (found.requests, found.output_tokens, found.preemptions) == (50, 6400, 3)
    assert found.effective_batch == close((3175 + 50) / 960)
    assert found.tokens_per_step == close((6400 - 50) / 3175)
    assert found.kv_use_share == 0.6
    assert any("since the server's start" in note for note in found.notes)
    assert observation_of([snapshot(after)], "file.txt").window_s is None
    for unknown in ("yesterday", "2027-01-15T08:07:22", "2020-01-01T00:00:00Z"):
        assert observation_of([snapshot(after, taken=unknown)], "file.txt").window_s is None


def test_files_without_times_give_no_rates() -> None:
    found = observation_of([snapshot(text) for text in pair("vllm_0.32_ngram")], "a, b")
    assert (found.kind, found.window_s, found.requests) == ("window", None, 40)
    assert found.effective_batch_by_littles_law is None
    assert found.read_bytes_per_s is None
    assert any("no rates" in note for note in found.notes)


def test_gauges_are_averaged_and_counters_taken_once() -> None:
    before, after = pair("vllm_0.6.3")
    found = window(before, after, after, after)
    assert found.effective_batch == close((10 + 14 * 3) / 4)
    assert found.kv_use_share == close((0.3 + 0.5 * 3) / 4)
    assert found.kv_use_peak_share == 0.5
    assert (found.requests, found.window_s) == (50, 180.0)


def test_a_restart_is_left_out() -> None:
    before, after = pair("vllm_0.32_ngram")
    found = window(before, after, before, after)
    assert found.requests == 80  # twice 40: the interval in which counters fell is not -40
    assert found.window_s == 120.0
    assert found.read_bytes_per_s == close(1.82e11)
    assert found.effective_batch == close(3.9090909)
    assert any("restarted" in note and "1 of 3" in note for note in found.notes)


def test_a_restart_shows_in_the_start_time_where_counters_grew() -> None:
    before, after = pair("vllm_0.32_ngram")
    again = after.replace("1.80000000042e+09", "1.80000009e+09")
    found = window(before, again, again)
    assert (found.requests, found.window_s) == (0, 60.0)
    assert any("process_start_time_seconds" in note for note in found.notes)


def test_nothing_but_restarts_leaves_gauges() -> None:
    before, after = pair("vllm_0.32_ngram")
    found = window(after, before)
    assert (found.requests, found.output_tokens, found.window_s) == (None, None, None)
    assert found.tpot_s is None
    assert found.effective_batch == 4.0
    assert found.kv_pool_tokens == 73728


def test_a_series_that_goes_away_is_a_restart_and_one_that_comes_begins_at_zero() -> None:
    before, after = pair("vllm_0.32_ngram")
    line = 'vllm:request_success_total{engine="0",model_name="example-8b",finished_reason="stop"} '
    assert line in before
    without = "\n".join(row for row in before.splitlines() if not row.startswith(line))
    assert window(without, after).requests == 44
    gone = "\n".join(row for row in after.splitlines() if not row.startswith(line))
    assert any("request_success_total fell" in note for note in window(before, gone).notes)


def test_a_sum_that_could_not_be_read_before_is_not_known() -> None:
    before, after = pair("vllm_0.32")
    name = "vllm:time_to_first_token_seconds_sum"
    without = "\n".join(row for row in before.splitlines() if not row.startswith(name))
    lost = "\n".join(row for row in after.splitlines() if not row.startswith(name))
    for texts in ((without, after), (before, lost), (before, lost, after)):
        found = window(*texts)
        assert isinstance(found.ttft_s, Spread)
        assert (found.ttft_s.mean, found.ttft_s.p50, found.requests) == (None, 0.25, 40)


@pytest.mark.parametrize("times", [(100.0, 100.0), (100.0, 50.0), (0.0, 60.0, 30.0), (5.0, 0.0)])
def test_times_that_do_not_rise_are_refused(times: tuple[float, ...]) -> None:
    before, _ = pair("vllm_0.32")
    with pytest.raises(InfoptError, match=r"here: .*the clock jumped"):
        observation_of([snapshot(before, at_s) for at_s in times], "here")


def test_engines_under_one_address_add_up() -> None:
    before, after = pair("vllm_0.32_ngram")
    both = [text + text.replace('engine="0"', 'engine="1"') for text in (before, after)]
    one, two = window(before, after), window(*both)
    for field in ("requests", "output_tokens", "preemptions", "steps", "kv_pool_tokens", "blocks", "effective_batch"):
        assert getattr(two, field) == close(2 * getattr(one, field)), field
    for field in ("tokens_per_step", "draft_share", "kv_use_share", "prefix_hit_share", "read_bytes_per_s"):
        assert getattr(two, field) == close(getattr(one, field)), field
    assert isinstance(two.itl_s, Spread)
    assert isinstance(one.itl_s, Spread)
    assert (two.itl_s.mean, two.itl_s.p90, two.itl_s.count) == (one.itl_s.mean, close(one.itl_s.p90 or 0), 5080)
    assert any("2 engines (engine 0, 1)" in note for note in two.notes)


def test_ranks_that_do_the_same_work_count_once() -> None:
    before, after = pair("sglang_0.5.23")
    copies = [
        text + "".join(_copy(text, 'tp_rank="0"', f'tp_rank="{rank}"') for rank in (1, 2, 10))
        for text in (before, after)
    ]
    assert window(*copies).effective_batch == 16
    # Attention in two halves: rank 4 is the first of the second.
    halves = [
        text.replace('tp_rank="0"', 'tp_rank="0",dp_rank="0"')
        + _copy(text, 'tp_rank="0"', 'tp_rank="4",dp_rank="1"')
        + _copy(text, 'tp_rank="0"', 'tp_rank="5",dp_rank="1"')
        for text in (before, after)
    ]
    found = window(*halves)
    assert found.effective_batch == 32
    assert found.kv_use_share == close(0.2)
    assert found.kv_pool_tokens == 200000


def _copy(text: str, old: str, new: str) -> str:
    """The lines of another rank."""
    return "".join(row.replace(old, new) + "\n" for row in text.splitlines() if old in row)


def test_models_under_one_address() -> None:
    before, after = pair("vllm_0.32")
    both = [text + text.replace("example-8b", "example-70b") for text in (before, after)]
    assert window(*both).requests == 80
    assert window(*both).model == "example-70b, example-8b"
    assert any("2 models under one address" in note for note in window(*both).notes)
    alone = window(*both, model="example-8b")
    assert (alone.requests, alone.model, alone.kv_pool_tokens) == (40, "example-8b", 73728)
    assert not any("models" in note for note in alone.notes)
    assert window(before, after, model="/models/example").requests == 40  # as the client calls it: no label has it


@pytest.mark.parametrize("bad", ["NaN", "+Inf", "-3.0"])
def test_values_that_are_none_are_left_out_and_said(bad: str) -> None:
    before, after = pair("vllm_0.32_ngram")
    for name in ("vllm:num_requests_waiting", "vllm:num_preemptions_total"):
        broken = _with(after, name, bad)
        found = window(_with(before, name, bad), broken)
        assert any("left out" in note and name in note for note in found.notes)
        assert found.requests == 40
    assert found.preemptions is None


def _with(text: str, name: str, value: str) -> str:
    rows = [f"{row.rsplit(' ', 1)[0]} {value}" if row.startswith(name + "{") else row for row in text.splitlines()]
    return "\n".join(rows) + "\n"


def test_a_share_above_one_is_left_out() -> None:
    before, after = pair("vllm_0.32")
    found = window(before, _with(after, "vllm:kv_cache_usage_perc", "55"))
    assert found.kv_use_share is None
    assert any("more than the whole" in note for note in found.notes)


def test_a_histogram_that_is_rubbish_leaves_the_rest() -> None:
    before, after = pair("vllm_0.32")
    row = 'vllm:time_to_first_token_seconds_bucket{engine="0",model_name="example-8b",le="0.5"} '
    broken = "\n".join(row + "11.0" if line.startswith(row) else line for line in after.splitlines())
    found = window(before, broken)
    assert found.ttft_s is None
    assert any("time_to_first_token_seconds" in note and "fewer than" in note for note in found.notes)
    assert found.requests == 40


def test_names_nobody_knows_are_listed() -> None:
    before, after = pair("vllm_0.32")
    more = 'vllm:brand_new_total{engine="0"} 1\nvllm:brand_new_created{engine="0"} 1\nvllm:odd_time_seconds_sum 1\n'
    more += 'vllm:odd_time_seconds_count 1\nvllm:odd_time_seconds_bucket{le="+Inf"} 1\nsomething_else 1\n'
    assert window(before, after + more).unknown_names == ("vllm:brand_new", "vllm:odd_time_seconds")
    alone = window(before, after + 'vllm:kv_block_lifetime_seconds_sum{engine="0"} 1\n')
    assert alone.unknown_names == ()  # a part of a histogram somebody cut out is no new name
    many = after + "".join(f"vllm:new_{i:03} 1\n" for i in range(70))
    found = window(before, many)
    assert len(found.unknown_names) == 50
    assert any("70 names are not known" in note for note in found.notes)


def test_few_requests_and_none_are_said() -> None:
    before, after = pair("vllm_0.12")
    assert any("only 5 requests" in note for note in window(before, after).notes)
    assert any("nothing was served in the window" in note for note in window(after, after).notes)
    idle = window(after, after)
    assert idle.tpot_s is None
    assert idle.prefix_hit_share is None
    assert idle.tokens_per_step is None


def test_speculation_that_never_drafts_is_not_speculation_that_is_off() -> None:
    """vLLM has counters of drafts only where speculation is configured; llama.cpp always has them."""
    before, after = pair("vllm_0.32_ngram")
    for name in ("drafts", "draft_tokens", "accepted_tokens", "accepted_tokens_per_pos"):
        before = _with(before, f"vllm:spec_decode_num_{name}_total", "0")
        after = _with(after, f"vllm:spec_decode_num_{name}_total", "0")
    found = window(before, after)
    assert (found.draft_share, found.drafted_tokens, found.acceptance_per_position) == (0.0, None, None)
    assert window(*pair("vllm_0.32")).draft_share is None
    idle = [
        "".join(f"{row.split()[0]} 0\n" if row.startswith("llamacpp:spec") else row + "\n" for row in text.splitlines())
        for text in pair("llama.cpp_2026")
    ]
    assert (window(*idle).draft_share, window(*idle).tokens_per_step) == (None, 1.0)


def test_a_load_that_moves_is_said() -> None:
    low, high = pair("vllm_0.6.3")
    low = _with(low, "vllm:num_requests_running", "1")
    texts = [low, low, low, high, high, high]
    assert any("the load moved" in note for note in window(*texts).notes)
    assert not any("the load moved" in note for note in window(*[high] * 6).notes)


def test_idle_time_in_the_gauge_is_said() -> None:
    before, after = pair("vllm_0.32_ngram")
    idle = [_with(after, "vllm:num_requests_running", "0")] * 6
    found = window(before, *idle)
    assert found.effective_batch == close(3.9090909)
    assert any("by the gauge" in note for note in found.notes)


def test_busy_slots_stand_in_for_the_gauge() -> None:
    before, after = (
        "\n".join(row for row in text.splitlines() if "requests_processing" not in row and "busy_slots" not in row)
        for text in pair("llama.cpp_2026")
    )
    shots = [snapshot(before, 10.0, slots=2), snapshot(after, 70.0, slots=4)]
    assert observation_of(shots, "here").effective_batch == 3.0


def test_vllm_before_it_renamed_its_metrics() -> None:
    """V1 of 0.8: the step under the old name, no time per token of a request, prefixes of the gpu's cache."""
    renamed = []
    for text in pair("vllm_0.12"):
        rows = [row for row in text.splitlines() if "request_time_per_output_token" not in row]
        renamed.append("\n".join(rows).replace("inter_token_latency", "time_per_output_token"))
    old = [t.replace("vllm:kv_cache", "vllm:gpu_cache").replace("vllm:prefix_", "vllm:gpu_prefix_") for t in renamed]
    found, new = window(*old), window(*pair("vllm_0.12"))
    assert (found.version_guess, found.unknown_names) == ("0.8 to 0.10 (V1)", ())
    assert found.itl_s == new.itl_s
    assert (found.mean_s("tpot_s"), found.tokens_per_step) == (close(0.02), 1.0)
    assert (found.prefix_hit_share, found.kv_use_share, found.effective_batch) == (0.0, 0.5, 5.0)


def test_prefixes_with_an_underscore_are_the_same_engine() -> None:
    for name, old, new in (("vllm_0.32", "vllm:", "vllm_"), ("trtllm_1.3", "trtllm_", "trtllm:")):
        before, after = pair(name)
        found = window(before.replace(old, new), after.replace(old, new))
        assert found.model_dump(exclude={"notes"}) == window(before, after).model_dump(exclude={"notes"})


def test_names_that_ray_writes_are_the_engines_own() -> None:
    """Ray Serve puts its own prefix and labels before a vLLM's names, and a node's replicas into one text."""
    before, after = pair("vllm_0.12")
    for prefix in ("ray_vllm:", "ray_vllm_"):
        found = window(before.replace("vllm:", prefix), after.replace("vllm:", prefix))
        assert found.model_dump(exclude={"notes"}) == window(before, after).model_dump(exclude={"notes"})
    two = [text.replace("vllm:", "ray_vllm_").replace("{", '{WorkerId="a",') for text in (before, after)]
    both = window(*(text + "\n" + text.replace('"a"', '"b"') for text in two))
    one = window(*two)
    assert one.effective_batch is not None
    assert both.effective_batch == close(2 * one.effective_batch)
    assert any("2 engines (WorkerId a, b)" in note for note in both.notes)


def test_a_nim_is_read_and_names_no_engine_inside() -> None:
    text = """num_requests_running{model_name="example"} 3
num_requests_waiting{model_name="example"} 2
gpu_cache_usage_perc{model_name="example"} 0.25
prompt_tokens_total{model_name="example"} 8000
generation_tokens_total{model_name="example"} 1010
time_to_first_token_seconds_count{model_name="example"} 10
time_to_first_token_seconds_sum{model_name="example"} 2
time_per_output_token_seconds_count{model_name="example"} 1000
time_per_output_token_seconds_sum{model_name="example"} 20
request_success_total{model_name="example"} 10
num_request_max{model_name="example"} 256
"""
    found = observation_of([snapshot(text)], "here")
    assert (found.engine, found.version_guess, found.model, found.unknown_names) == ("nim", None, "example", ())
    assert (found.effective_batch, found.waiting, found.kv_use_share) == (3, 2, 0.25)
    assert (found.requests, found.output_tokens, found.tokens_per_step) == (10, 1010, 1.0)
    assert (found.mean_s("tpot_s"), found.mean_s("itl_s"), found.mean_s("ttft_s")) == (0.02, 0.02, 0.2)
    assert any("does not say which engine" in note for note in found.notes)


def test_lengths_are_of_the_prompts_that_finished() -> None:
    """vLLM V0 counts a prompt once for each chunk of it; a window without an end has the prompts that began."""
    text = """vllm:prompt_tokens_total{model_name="example"} 9000
vllm:generation_tokens_total{model_name="example"} 300
vllm:request_success_total{finished_reason="stop",model_name="example"} 10
vllm:request_prompt_tokens_sum{model_name="example"} 6000
vllm:request_prompt_tokens_count{model_name="example"} 10
"""
    found = observation_of([snapshot(text)], "here")
    assert (found.input_tokens_mean, found.unknown_names) == (600, ())
    later = text.replace("9000", "9700").replace(" 300", " 340")
    assert window(text, later).prompt_tokens == 700


def test_lines_cut_out_of_a_text_are_the_engines_whose_prefix_they_have() -> None:
    """`curl .../metrics | grep spec_decode` holds none of the marks that tell engines from routers."""
    text = """vllm:spec_decode_num_drafts_total{engine="0",model_name="example"} 1000
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="example"} 3000
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="example"} 1500
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="example",position="0"} 900
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="example",position="1"} 600
"""
    found = observation_of([snapshot(text)], "here")
    assert (found.engine, found.model, found.drafted_tokens) == ("vllm", "example", 3)
    assert (found.acceptance_per_position, found.draft_share, found.tokens_per_step) == ((0.9, 0.6), None, None)
    assert any("gives 2.5 tokens" in note for note in found.notes)
    hits = "vllm:prefix_cache_queries_total 4000\nvllm:prefix_cache_hits_total 1000\n"
    assert observation_of([snapshot(hits)], "here").prefix_hit_share == 0.25
    with pytest.raises(InfoptError, match="router of vLLM's production stack"):
        observation_of([snapshot(hits + "vllm:current_qps 2\n")], "here")


def test_what_is_missing_takes_no_time() -> None:
    """A time is of two counters: where the seconds are not in the text, it is not known, and not 0."""
    rows = [row for row in text_of("triton_after").splitlines() if "_duration_us" not in row]
    found = observation_of([snapshot("\n".join(rows))], "here")
    assert found.requests
    assert (found.e2e_s, found.queue_s) == (None, None)


def test_a_label_of_an_older_version_names_the_model() -> None:
    old = 'sglang:generation_tokens_total{name="example"} 100\nsglang:num_running_reqs{name="example"} 2\n'
    assert observation_of([snapshot(old)], "here").model == "example"
    other = 'sglang:func_latency_seconds_count{name="step"} 5\nsglang:token_usage{model_name="m"} 0.5\n'
    assert observation_of([snapshot(other)], "here").model == "m"


def test_an_idle_moment_is_no_batch() -> None:
    """A step holds a sequence at least: a gauge of 0 beside tokens says when it was read."""
    text = "vllm:num_requests_running 0\nvllm:generation_tokens_total {}\n"
    found = observation_of([snapshot(text.format(500))], "here")
    assert found.effective_batch is None
    assert any("no sequence ran at any scrape" in note for note in found.notes)
    idle = observation_of([snapshot(text.format(0))], "here")
    assert idle.effective_batch is None
    assert not any("no sequence ran" in note for note in idle.notes)


def test_values_that_stand_for_none_are_none() -> None:
    """V0's hit rate of -1 where prefixes are not kept, SGLang's 0 after a decode step."""
    old = "vllm:num_requests_running 2\nvllm:gpu_prefix_cache_hit_rate {}\n"
    new = "sglang:num_running_reqs 2\nsglang:cache_hit_rate {}\n"
    for text, none in ((old, -1), (new, 0)):
        found = observation_of([snapshot(text.format(none))], "here")
        assert (found.prefix_hit_share, found.effective_batch) == (None, 2)
        assert not any("left out" in note for note in found.notes)
        assert observation_of([snapshot(text.format(0.25))], "here").prefix_hit_share == 0.25
    assert observation_of([snapshot(old.format(0))], "here").prefix_hit_share == 0.0
    wrong = observation_of([snapshot(old.format(-2))], "here")
    assert any("left out, being negative" in note for note in wrong.notes)


def test_engines_of_other_addresses_are_told_apart() -> None:
    before, after = pair("sglang_0.5.23")
    two = [
        text.replace("{", '{worker_addr="a",') + "\n" + text.replace("{", '{worker_addr="b",')
        for text in (before, after)
    ]
    found = window(*two)
    assert found.output_tokens == close(2 * (window(before, after).output_tokens or 0))
    assert any("2 engines (worker_addr a, b)" in note for note in found.notes)


@pytest.mark.parametrize(
    "text",
    [
        "vllm:num_requests_running 2\nvllm:kv_cache_usage_perc 0.5\nvllm:generation_tokens_total 10\n",
        "vllm:num_requests_running 2\nvllm:gpu_cache_usage_perc 0.5\n",
        "sglang:num_running_reqs 2\nsglang:token_usage 0.5\n",
    ],
)
def test_lines_cut_out_of_a_text_do_not_tell_its_version(text: str) -> None:
    assert observation_of([snapshot(text)], "here").version_guess is None


def test_tokens_and_steps_of_different_things_give_no_time_per_token() -> None:
    before, after = pair("vllm_0.6.3")
    assert window(before, after).tokens_per_step == 1.0
    many = "\n".join(f'vllm:generation_tokens_total{{a="{i}"}} 900000' for i in range(9))
    found = window(before, after + "\n" + many)
    assert (found.tokens_per_step, found.tpot_s) == (None, None)
    assert any("not counted side by side" in note for note in found.notes)


def test_names_without_values_are_said_to_be() -> None:
    text = "# HELP vllm:num_requests_running Running.\n# TYPE vllm:num_requests_running gauge\n"
    with pytest.raises(InfoptError, match="names 1 metric and has no value of any"):
        snapshot(text)


def test_an_engine_behind_dynamo_is_read_itself() -> None:
    found = observation_of([snapshot(text_of("dynamo_worker"))], "here")
    assert (found.engine, found.steps, found.unknown_names) == ("vllm", 111, ())
    assert any("dynamo's metrics are there too" in note for note in found.notes)


def test_who_owns_the_models_decides_between_engines() -> None:
    text = text_of("vllm_0.32_after") + text_of("sglang_0.5.23_after")
    for owner in ("vllm", "sglang"):
        assert observation_of([snapshot(text)], "here", owner).engine == owner
    assert observation_of([snapshot(text_of("vllm_0.32_after"))], "here", "sglang").engine == "vllm"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('http_requests_total{path="/"} 1\npython_info 1\n', "a web server"),
        ('vllm:healthy_pods_total{server="a"} 1\nvllm:num_requests_running{server="a"} 2\n', "production stack"),
        ("smg_requests_total 1\n", "router of SGLang"),
        ("node_cpu_seconds_total 1\n", r"only node_\*"),
        ("vllm:something_of_a_router 1\n", r"only vllm:\*"),
        ("\n".join(f"a{i}_b 1" for i in range(30)), "and 22 more"),
    ],
)
def test_a_text_of_no_engine_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(InfoptError, match=said) as raised:
        observation_of([snapshot(text)], "http://127.0.0.1:9")
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("http://127.0.0.1:9: ")


def test_no_scrape_is_an_error() -> None:
    with pytest.raises(InfoptError, match="never read"):
        observation_of([], "here")


def test_an_engine_with_its_web_servers_metrics_is_the_engine() -> None:
    assert "http_requests_total" in text_of("vllm_0.32_after")
    assert window(*pair("vllm_0.32")).engine == "vllm"


def test_any_prefix_of_a_text_is_read_or_refused() -> None:
    """A text that breaks off: every figure stays a number that can be, or nothing."""
    before, after = pair("vllm_0.32_ngram")
    refused = 0
    for cut in range(1, len(after), 197):
        try:
            found = window(before, after[:cut])
        except InfoptError:
            refused += 1
            continue
        figures = [value for value in found.model_dump().values() if isinstance(value, float)]
        assert all(math.isfinite(value) and value >= 0 for value in figures)
    assert refused < 20  # without the first lines there is no engine


def test_order_of_lines_does_not_matter() -> None:
    texts = pair("sglang_0.5.23")
    turned = ["\n".join(reversed(text.splitlines())) for text in texts]
    assert window(*turned) == window(*texts)


def test_records_name_their_own_metrics() -> None:
    for names in known_engines():
        assert names.source
        for way in itertools.chain.from_iterable(names.gauges.values()):
            assert way.metric.startswith(tuple(names.prefixes)), way.metric
        assert all(name.startswith(tuple(names.prefixes)) for name in (*names.growing(), *names.unread, *names.marks))
