"""An observation beside the ledgers, in place of what was not given, and the advice made of it."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.boundaries.engine_settings import FOLDER, refused_by, setting, settings_of, written
from infopt.boundaries.load import Draft, Load, Prefix, Targets
from infopt.boundaries.registry import technique, techniques
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement
from infopt.cli import run
from infopt.hardware.names import resolve_hardware
from infopt.observing.observation import Observation, Spread
from infopt.profiles.engines import in_versions
from infopt.profiles.flag_data import engines_with_tables, flag_table
from infopt.profiles.resolve import resolve_model
from infopt.records import names_in
from infopt.reports.advice_report import advice_added, advice_dict, beside_added, joined
from infopt.reports.observe_report import as_dict, render_observation
from infopt.reports.schemas import schema_text
from infopt.studies.advice import Advice, advise, held_of, short_of
from infopt.studies.advice_flags import versions_of, words
from infopt.studies.beside import Beside, beside, floor_note, plan_beside
from infopt.studies.boundary import boundaries
from infopt.studies.checklist_context import Deployment
from infopt.studies.observed import Filled, speculates, with_observed
from infopt.studies.observed_items import answered
from infopt.studies.scenarios import Request, build

LIVE = Path(__file__).resolve().parent.parent.parent / "shared" / "live"
KV_8B_BYTES = 2 * 32 * 8 * 128 * 2  # keys and values, layers, heads, width, 16 bit
READ_8B_BYTES = 2 * 7_504_924_672  # all weights in 16 bit but the input embedding
H100_BYTES_PER_S = 3.35e12
LOAD = {"engine": "vllm", "version_guess": "0.20 to 0.33", "kind": "window", "window_s": 60.0}
REQUESTS = {"requests": 100.0, "prompt_tokens": 200_000.0, "output_tokens": 30_000.0}  # 2,000 in, 300 out
SMALL = "HuggingFaceTB/SmolLM2-135M"
CPU = "custom:20GB:24GB/s"
# A step curve of that size on two cores, ours: flat while weights are read, then 2.3 ms a token.
MEASURED_CURVE = ((1.0, 0.0251), (2.0, 0.0288), (4.0, 0.0264), (8.0, 0.0359), (16.0, 0.0545))  # live_engines.md, 3
CURVE = ((1.0, 0.025), (2.0, 0.028), (4.0, 0.028), (8.0, 0.036), (16.0, 0.0545))


def observed(**given: Any) -> Observation:
    """A server that answers 2,000 tokens with 300."""
    return Observation(**{**LOAD, **REQUESTS, "tokens_per_step": 1.0, "waiting": 0.0, "preemptions": 0.0, **given})


def filled(o: Observation, request: Request | None = None, load: Load | None = None, hw: str = "h100") -> Filled:
    return with_observed(o, resolve_model("8b"), resolve_hardware(hw), request or Request(), load or Load())


def stood(o: Observation, model: str = "8b", hw: str = "h100", request: Request | None = None) -> Beside:
    asked = request or Request()
    return beside(o, plan_beside(o, resolve_model(model), resolve_hardware(hw), asked))


def advised(
    o: Observation,
    model: str = "8b",
    hw: str = "h100",
    request: Request | None = None,
    load: Load | None = None,
    **more: Any,
) -> Advice:
    return advise(o, resolve_model(model), resolve_hardware(hw), request or Request(), load or Load(), **more)


def names(found: Advice) -> list[tuple[str, str]]:
    return [(change.technique, change.action) for change in found.changes]


# In place of what was not given.


def test_lengths_batch_and_drafts_stand_in() -> None:
    o = observed(
        effective_batch=13.2,
        tokens_per_step=1.6,
        acceptance_per_position=(0.6, 0.4),
        draft_share=0.5,
        prefix_hit_share=0.25,
    )
    found = filled(o)
    assert (found.request.input_tokens, found.request.output_tokens, found.request.batch) == (2000, 300, 13)
    assert found.load.draft == Draft(method="ngram", accepted=(0.6, 0.4), drafting_share=0.5)
    assert found.load.prefix.hit_share == 0.25
    assert [c.id for c in found.assumed] == ["lengths", "batch", "prefix", "acceptance"]
    assert found.request.points == ()  # a step with drafts in it is no step of one token


def test_what_was_given_stands() -> None:
    o = observed(effective_batch=13.2, acceptance_per_position=(0.6, 0.4), prefix_hit_share=0.25, tpot_s=0.02)
    request = Request(input_tokens=500, output_tokens=50, batch=4, points=("batch=1,tpot=9ms",))
    load = Load(prefix=Prefix(hit_share=0.1), draft=Draft(method="eagle", acceptance=0.7))
    assert filled(o, request, load) == Filled(request, load, ())


def test_lengths_that_do_not_fit_are_said_and_left_out() -> None:
    found = filled(observed(), Request(context_tokens=1024))
    assert (found.request.input_tokens, found.request.context_tokens) == (None, 1024)
    assert "do not fit in a context of 1024" in found.assumed[0].text
    assert filled(observed(), Request(context_tokens=4096)).request.input_tokens == 2000


def test_batch_is_of_one_replica_and_little_stands_in_for_the_gauge() -> None:
    assert filled(observed(effective_batch=6.4), Request(dp=2), hw="h100:2").request.batch == 12
    assert filled(observed(effective_batch_by_littles_law=6.4)).request.batch == 6
    assert filled(observed(effective_batch=0.3)).request.batch == 1


def test_another_engine_than_the_default_is_taken_over() -> None:
    found = filled(observed(engine="sglang"))
    assert (found.request.engine, found.assumed[0].text) == ("sglang", "engine sglang: observed")
    other = filled(observed(engine="nim"))
    assert (other.request.engine, other.assumed[0].text) == (
        "vllm",
        "constants and options are vllm's: nim has none of its own here",
    )
    assert "no engine was named" in filled(observed(engine=None)).assumed[0].text


def test_hits_of_a_measured_point_take_the_prompts_of_others_out() -> None:
    """The same time per token with prompts cached leaves more of it to the step: steps are longer, not shorter."""
    hot, cold = (
        filled(observed(effective_batch=32.0, tpot_s=0.02, **more)) for more in ({"prefix_hit_share": 0.9}, {})
    )
    assert hot.request.points[0].endswith(",hits=0.900000")
    s = build(resolve_model("8b"), resolve_hardware("h100"), cold.request).scenario
    from infopt.studies.planning import own_constants

    steps = [Situation(s, Load(), own_constants(s, f.request)).steps.step_s(32, 2150) for f in (hot, cold)]
    assert steps[0] > 1.2 * steps[1]


def test_hits_are_at_most_what_whole_blocks_can_give() -> None:
    """Of a mean prompt of 100 tokens 6 blocks of 16: hits of long prompts do not carry over to it."""
    o = observed(prefix_hit_share=0.99, prompt_tokens=10_000.0)
    found = filled(o)
    assert found.load.prefix.hit_share == 0.96
    assert any("99.0% of prompt tokens: observed, taken as the 96.0%" in c.text for c in found.assumed)
    assert advised(o.model_copy(update={"effective_batch": 8.0})).judged
    shared = filled(observed(prefix_hit_share=0.99), load=Load(prefix=Prefix(shared_tokens=1000)))
    assert shared.load.prefix.hit_share == 992 / 2000


# On the command line.


@pytest.fixture
def record(tmp_path: Path) -> str:
    o = observed(effective_batch=16.0, tpot_s=0.012, prefix_hit_share=0.5, prefix_caching=True)
    path = tmp_path / "observed.json"
    path.write_text(json.dumps({**o.plain(), "newer_key": 1}), encoding="utf-8")
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert run([*arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_plan_takes_an_observation(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = printed(capsys, "plan", "--model", "8b", "--hw", "h100", "--observed", record)
    assert (data["workload"]["batch"], data["workload"]["input_tokens"]) == (16, 2000)
    told = [c["text"] for c in data["assumptions"]] if "assumptions" in data else json.dumps(data)
    assert "means observed" in str(told)
    assert "prefix hits were observed" in str(told)


def test_unknown_keys_are_told(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--model", "8b", "--hw", "h100", "--observed", record]) == 0
    assert "newer_key: not a key that is known" in capsys.readouterr().err


def test_json_of_something_else_is_no_observation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a command prints that failed, for one: with every key left out it would be a plan of nothing observed."""
    path = tmp_path / "observed.json"
    path.write_text('{"error": {"message": "no server", "exit_status": 2}}', encoding="utf-8")
    assert run(["plan", "--model", "8b", "--hw", "h100", "--observed", str(path)]) == 2
    assert "has no key of an observation" in capsys.readouterr().err


@pytest.mark.parametrize("more", [(), ("--hw", "h100", "--ladder"), ("--hw", "h100", "--compare", "", "--batch 2")])
def test_plan_refuses_an_observation_of_many(
    more: tuple[str, ...], record: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--model", "8b", "--observed", record, *more]) == 2
    assert "--observed is of one deployment" in capsys.readouterr().err


def test_boundary_takes_an_observation(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = printed(capsys, "boundary", "prefix", "--model", "8b", "--hw", "h100", "--observed", record)
    (one,) = data["techniques"]
    assert (data["workload"]["batch"], one["verdict"]) == (16, "use")
    assert "50% of prompt tokens are cached" in one["reason"]
    assert any("calibrated by the observed 12 ms" in c["text"] for c in data["assumptions"])


def test_a_prefix_cache_in_use_is_no_larger_than_a_shorter_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    """Break-evens along the context went to prompts shorter than what was cached of the present one, and broke."""
    scenario = ("--model", "8b", "--hw", "l40s", "--isl", "2k", "--osl", "300", "--batch", "13", "--hit-share", "0.31")
    data = printed(capsys, "boundary", *scenario, "--with", "prefix")
    assert len(data["techniques"]) == len(techniques()) - 1


# Beside the ledgers.


def test_utilization_is_of_the_step() -> None:
    """13 sequences of 2,150 tokens: 15.0 GB and 3.7 GB in 20 ms, of the 67 GB that H100 reads in that time."""
    found = stood(observed(effective_batch=13.0, tpot_s=0.02))
    needed = READ_8B_BYTES + 13 * 2150 * KV_8B_BYTES
    assert found.needed_bytes == pytest.approx(needed, rel=1e-6)
    assert found.bandwidth_utilization == pytest.approx(needed / 0.02 / H100_BYTES_PER_S, rel=1e-6)
    assert found.flop_utilization == pytest.approx(13 * 2 * 7.5e9 / 0.02 / 989.5e12, rel=0.1)


def test_a_step_of_drafts_reads_its_weights_once() -> None:
    """Two tokens a step of 20 ms are 10 ms a token: bytes are those of one step, products of all it verifies."""
    plain, drafts = (
        stood(observed(effective_batch=8.0, **more))
        for more in (
            {"tpot_s": 0.02},
            {"tpot_s": 0.01, "tokens_per_step": 2.0, "acceptance_per_position": (0.9, 0.5), "draft_share": 0.5},
        )
    )
    assert drafts.step_s == plain.step_s == 0.02
    assert drafts.bandwidth_utilization == pytest.approx(plain.bandwidth_utilization)
    assert drafts.needed_flop == pytest.approx(2 * (plain.needed_flop or 0))  # 1 + 0.5 x 2 tokens a sequence
    assert [one.inside for one in drafts.times] == [None, None, None]


def test_without_tokens_per_step_a_speculating_server_has_no_step() -> None:
    o = observed(effective_batch=8.0, tpot_s=0.01, tokens_per_step=None, acceptance_per_position=(0.9, 0.5))
    assert stood(o).bandwidth_utilization is None


def test_replicas_each_have_their_own_step() -> None:
    """The observation is of one server: two replicas of it need the same bytes each."""
    o = observed(effective_batch=13.0, tpot_s=0.02)
    two = stood(o, hw="h100:2", request=Request(dp=2, tp=1))
    assert two.needed_bytes == pytest.approx(stood(o).needed_bytes)
    assert two.bandwidth_utilization == pytest.approx(stood(o).bandwidth_utilization)


def test_experts_are_those_a_batch_hits() -> None:
    """A mixture reads more of its experts with 32 sequences than with one, and never all its bytes for one."""
    one, many = (
        stood(observed(effective_batch=b, tpot_s=0.05), model="mixtral", hw="h100:4").needed_bytes for b in (1.0, 32.0)
    )
    assert one is not None
    assert many is not None
    assert many > 2.5 * one


def test_inside_outside_and_by_how_much() -> None:
    plan = plan_beside(observed(effective_batch=13.0), resolve_model("8b"), resolve_hardware("h100"), Request())
    estimate: Any = plan.estimate
    for tpot_s, inside in (
        (estimate.tpot_s, True),
        (2 * estimate.tpot_high_s, False),
        (0.9 * estimate.tpot_low_s, False),
    ):
        row = next(t for t in beside(observed(effective_batch=13.0, tpot_s=tpot_s), plan).times if t.name == "tpot_s")
        assert row.inside is inside
        wanted = 1.0 if inside else 2.0 if tpot_s > estimate.tpot_s else 0.9
        assert row.off_ratio == pytest.approx(wanted, rel=1e-3)


def test_the_comparison_is_not_calibrated_by_what_it_compares() -> None:
    o = observed(effective_batch=13.0, tpot_s=0.05)
    row = next(t for t in stood(o).times if t.name == "tpot_s")
    assert row.ratio is not None
    assert row.ratio > 3


def test_the_queue_is_no_part_of_what_the_plan_computes() -> None:
    def ttft(**given: Any) -> Any:
        found = stood(observed(effective_batch=13.0, tpot_s=0.01, ttft_s=1.2, **given))
        return next(t for t in found.times if t.name == "ttft_s")

    assert ttft(queue_s=1.0).observed == pytest.approx(0.2)
    assert ttft().observed == 1.2
    assert "wait in a queue" in ttft(waiting=3.0).note
    assert ttft(queue_s=Spread(p50=0.5, is_bucket=True)).observed == 1.2


def test_a_time_below_its_floor_is_another_server() -> None:
    from infopt.studies.beside import floor_note

    assert "below its floor" in floor_note(stood(observed(effective_batch=13.0, tpot_s=0.002)))
    assert floor_note(stood(observed(effective_batch=13.0, tpot_s=0.02))) == ""


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ({"waiting": 4.0, "kv_use_share": 0.4}, "queue"),
        ({"waiting": 4.0, "kv_use_share": 0.4, "kv_use_peak_share": 0.99}, "kv-pool"),
        ({"preemptions": 3.0}, "kv-pool"),
        ({"kv_use_peak_share": 0.99}, "weights"),  # full, and nobody waits
        ({"itl_s": Spread(mean=0.010, p50=0.006)}, "prefill"),
        ({"itl_s": Spread(mean=0.010, p50=0.009)}, "weights"),
        ({"itl_s": Spread(mean=0.010, p50=0.0075, is_bucket=True)}, "weights"),  # buckets are as coarse as that
        ({"tpot_s": 0.1}, "overhead"),
    ],
)
def test_which_ledger_binds(given: dict[str, Any], first: str) -> None:
    found = stood(observed(**{"effective_batch": 13.0, "tpot_s": 0.010, **given}))
    assert found.bounds[0].ledger == first


def test_keys_and_values_bind_at_long_contexts_and_nothing_is_said_without_times() -> None:
    long = observed(effective_batch=13.0, tpot_s=0.04, prompt_tokens=3_000_000.0)
    assert stood(long).bounds[0].ledger == "kv"
    assert stood(observed()).bounds == ()


def test_lengths_nobody_said_are_not_held_against_the_server() -> None:
    """A load generator that counts no prompts: the plan's 8,192 tokens are its own, and judge nothing."""
    given = {"prompt_tokens": None, "effective_batch": 128.0, "tpot_s": 0.02, "itl_s": 0.02}
    o = observed(**given)
    found = stood(o)
    assert (found.needed_bytes, found.bandwidth_utilization, found.flop_utilization) == (None, None, None)
    assert all("neither observed nor given" in one.note and one.inside is None for one in found.times)
    assert floor_note(found) == ""
    assert stood(o, request=Request(context_tokens=8192)).bandwidth_utilization is not None
    assert not any("room for" in said for said in advised(o).remarks)
    model, hardware = resolve_model("8b"), resolve_hardware("h100")
    unsure = {item.id for item in answered(Deployment(model, hardware, Request(), Load(), observed=o))}
    said = Request(context_tokens=8192)
    sure = {item.id for item in answered(Deployment(model, hardware, said, Load(), observed=o))}
    assert "memory-budget" in sure - unsure


def test_the_engines_own_account_and_pool() -> None:
    """Per step where steps are known: idle time is in a rate a second, and in no step."""
    o = observed(effective_batch=13.0, tpot_s=0.02, read_bytes_per_s=2e11, steps=600.0, kv_pool_tokens=4e5)
    rows = {one.name: one for one in stood(o).others}
    assert rows["step_bytes"].observed == pytest.approx(2e11 * 60 / 600)
    assert rows["step_bytes"].ratio == pytest.approx(2e10 / (READ_8B_BYTES + 13 * 2150 * KV_8B_BYTES), rel=1e-6)
    assert rows["kv_pool_tokens"].inside is False
    rate = {one.name: one for one in stood(o.model_copy(update={"steps": None})).others}["read_bytes_per_s"]
    assert rate.expected == pytest.approx((READ_8B_BYTES + 13 * 2150 * KV_8B_BYTES) / 0.02, rel=1e-6)


@pytest.mark.parametrize(
    ("gauge", "little", "said"), [(20.0, 10.0, "emit nothing"), (10.0, 20.0, "moved"), (10.0, 11.0, "")]
)
def test_the_batch_both_ways(gauge: float, little: float, said: str) -> None:
    note = stood(observed(effective_batch=gauge, effective_batch_by_littles_law=little)).batch_note
    assert said in note
    assert bool(said) == bool(note)


# Options of the engines.


def test_every_option_is_taken_by_every_release_its_row_holds_for() -> None:
    known, read = {t.id for t in techniques()} | {"kv-pool"}, 0
    for engine in names_in(FOLDER):
        for row in settings_of(engine):
            assert row.technique in known
            if engine not in engines_with_tables():
                continue
            for release in flag_table(engine).releases:
                if in_versions(release.version, row.since, row.until):
                    read += 1
                    assert refused_by(engine, [release.version], f"{row.enable} {row.disable}") == "", row
    assert read > 300


def test_every_word_of_a_setting_stands_for_something() -> None:
    s = build(resolve_model("8b"), resolve_hardware("h100"), Request(batch=4)).scenario
    from infopt.boundaries.load import Adapters, Offload

    load = Load(draft=Draft(scenario=s), offload=Offload(capacity_bytes=2.0**36), adapters=Adapters(4, 16))
    from infopt.boundaries.technique import Figure

    judged = Judgement("use", None, "", (Figure("drafted_tokens", 3.0, "", ""), Figure("chunk_tokens", 509.0, "", "")))
    told = words(Situation(s, load), judged)
    assert (told["drafted"], told["verified"], told["gib"], told["budget"]) == ("3", "4", "64", "512")
    for engine in names_in(FOLDER):
        for row in settings_of(engine):
            assert "$" not in written(row.enable, told), row


def test_a_version_that_does_not_take_an_option_is_named() -> None:
    assert refused_by("vllm", ["0.5.4"], "--speculative-config x") == "vLLM 0.5.4 does not take --speculative-config"
    assert "does not take --speculative-model" in refused_by("vllm", ["0.20", "0.33"], "--speculative-model x")
    assert "no table" in refused_by("tensorrt-llm", ["1.0"], "--max_batch_size 4")
    ngram = setting("vllm", "0.7", "speculative", "ngram")
    assert ngram is not None
    assert "--speculative-model" in ngram.enable


def test_versions_are_those_given_or_the_ends_of_the_guess() -> None:
    s = build(resolve_model("8b"), resolve_hardware("h100"), Request()).scenario
    assert versions_of(observed(), None, s) == ("0.20", "0.33")
    assert versions_of(observed(), "0.28.0", s) == ("0.28.0",)
    assert versions_of(observed(version_guess="up to 0.10 (V0)"), None, s) == ("0.10",)
    assert versions_of(observed(version_guess=None), None, s) == (s.engine_version,)


# Advice.


def test_a_queue_with_room_wants_more_sequences() -> None:
    found = advised(
        observed(effective_batch=16.0, waiting=40.0, tpot_s=0.027, ttft_s=4.0, kv_use_share=0.2), "70b", "h100:4"
    )
    assert found.short == "throughput"
    first = found.changes[0]
    assert (first.technique, first.setting.text) == ("more-sequences", "--max-num-seqs 56")
    assert 1.5 < first.gain.low <= first.gain.value <= first.gain.high < 2.5
    flip = first.flips[0]
    assert flip.value is not None
    assert flip.value < 40
    less = advised(
        observed(effective_batch=16.0, waiting=flip.value - 1, tpot_s=0.027, kv_use_share=0.2), "70b", "h100:4"
    )
    assert "more-sequences" not in [name for name, _ in names(less)]


def test_a_full_pool_wants_a_smaller_cache() -> None:
    o = observed(effective_batch=200.0, waiting=40.0, tpot_s=0.1, ttft_s=4.0, kv_use_share=0.99)
    found = advised(o, "70b", "h100:4")
    first = found.changes[0]
    assert (first.technique, first.gain.metric, first.setting.text) == (
        "kv-quantization",
        "sequences",
        "--kv-cache-dtype fp8",
    )
    assert "more-sequences" not in [name for name, _ in names(found)]


def test_what_an_engine_always_does_is_not_called_worthless() -> None:
    alone = advised(observed(effective_batch=1.0, tpot_s=0.009, ttft_s=0.1))
    assert next(one.verdict for one in alone.judged if one.technique == "continuous-batching") == "skip"
    assert alone.not_worth == ()


def test_targets_missed_come_first_then_the_first_token() -> None:
    slow = observed(tpot_s=0.05, ttft_s=0.4)
    assert short_of(slow, Load(targets=Targets(tpot_s=0.04)))[0] == "tpot"
    assert short_of(slow, Load(targets=Targets(ttft_s=0.3)))[0] == "ttft"
    assert short_of(observed(tpot_s=0.01, ttft_s=4.0), Load())[0] == "ttft"  # 299 x 10 ms follow it
    assert short_of(observed(tpot_s=0.05, ttft_s=4.0), Load())[0] == "tpot"
    assert short_of(observed(tpot_s=0.05, ttft_s=4.0, waiting=2.0), Load())[0] == "throughput"
    assert short_of(observed(), Load())[0] is None


def test_quantization_has_its_gain_and_the_options_of_the_engine() -> None:
    o = observed(effective_batch=64.0, tpot_s=0.025, ttft_s=0.2, prefix_caching=True, prefix_hit_share=0.0)
    asked = Load(weight_format="fp8")
    found = advised(o, load=asked)
    weights, cache = found.changes
    assert (weights.technique, weights.setting.text) == ("weight-quantization", "--quantization fp8")
    assert (cache.technique, cache.setting.text) == ("kv-quantization", "--kv-cache-dtype fp8")
    assert weights.gain.value > cache.gain.value > 1
    assert cache.setting.versions == ("0.20", "0.33")
    assert next(f for f in cache.flips if f.quantity == "batch").value is not None
    sglang = advised(o.model_copy(update={"engine": "sglang", "version_guess": "0.5.5 to 0.5.23"}), load=asked)
    assert "--kv-cache-dtype fp8_e4m3" in [change.setting.text for change in sglang.changes]


def test_a_measured_point_holds_for_formats_whose_steps_were_not_measured() -> None:
    """Weights of half the bits cannot make a step less than half as long, nor what is slow besides any shorter."""
    o = observed(effective_batch=32.0, tpot_s=0.03, ttft_s=0.4)
    for name in ("int8", "fp8"):
        found = next(
            one
            for one in advised(o, "mixtral", "h100:4", load=Load(weight_format=name)).judged
            if one.technique == "weight-quantization"
        )
        assert found.gain is not None
        assert 1 < found.gain.value < 1.5


def test_other_engines_name_the_model_and_their_configuration_file() -> None:
    o = observed(effective_batch=64.0, tpot_s=0.025, engine="tensorrt-llm", version_guess=None)
    found = advised(o, load=Load(weight_format="fp8"))
    texts = {change.technique: change.setting.text for change in found.changes}
    assert texts["weight-quantization"] == "serve CHECKPOINT-FP8 in place of meta-llama/Llama-3.1-8B"
    assert texts["kv-quantization"] == "in the configuration file, kv_cache_config.dtype: fp8"


def test_prefixes_that_are_known_to_be_shared_want_the_cache_on() -> None:
    o = observed(effective_batch=16.0, tpot_s=0.012, ttft_s=6.0, prefix_caching=False)
    found = advised(o, load=Load(prefix=Prefix(shared_tokens=1600)))
    assert found.short == "ttft"
    assert (found.changes[0].technique, found.changes[0].setting.text) == ("prefix-caching", "--enable-prefix-caching")
    unknown = advised(o)
    assert "prefix-caching" not in [name for name, _ in names(unknown)]
    asked = next(one for one in unknown.measure_next if one.what == "prefix hits")
    assert "--enable-prefix-caching" in asked.command
    none = advised(observed(effective_batch=16.0, tpot_s=0.012, prefix_caching=True, prefix_hit_share=0.0))
    assert "prefix hits" not in [one.what for one in none.measure_next]  # 0 of N is an answer, 0 of 0 is none


def test_drafts_that_lose_are_turned_off() -> None:
    rates = {"tokens_per_step": 1.1, "acceptance_per_position": (0.2, 0.05, 0.01), "draft_share": 0.4}
    found = advised(observed(effective_batch=8.0, tpot_s=0.010, ttft_s=0.2, **rates))
    off = next(change for change in found.changes if change.technique == "speculative")
    assert (off.action, off.setting.text) == ("turn off", "leave --speculative-config out")
    assert off.gain.value > 1.03
    verdict = next(one for one in found.judged if one.technique == "speculative")
    assert verdict.gain is not None
    assert off.gain.value == pytest.approx(1 / verdict.gain.value)


def test_a_small_gain_is_said_and_not_turned_off() -> None:
    rates = {"tokens_per_step": 1.3, "acceptance_per_position": (0.45, 0.18, 0.05), "draft_share": 0.4}
    found = advised(observed(effective_batch=8.0, tpot_s=0.0087, ttft_s=0.2, **rates))
    gain = next(one.gain for one in found.judged if one.technique == "speculative")
    assert gain is not None
    assert 1.03 < gain.value < 1.1
    assert "speculative" not in [change.technique for change in (*found.changes, *found.not_worth)]
    assert any("speculative is in use and gains" in remark for remark in found.remarks)


def test_two_witnesses_that_disagree_are_measured_not_followed() -> None:
    """By acceptance and steps drafts lose; by the time per token they gain: then nobody knows."""
    rates = {"tokens_per_step": 1.1, "acceptance_per_position": (0.2, 0.05, 0.01), "draft_share": 0.4}
    found = advised(observed(effective_batch=8.0, tpot_s=0.007, ttft_s=0.2, **rates))
    assert "speculative" not in [change.technique for change in (*found.changes, *found.not_worth)]
    assert "whether drafts pay" in [one.what for one in found.measure_next]


def test_nothing_is_advised_on_what_is_not_known() -> None:
    found = advised(Observation(engine="vllm"), hw="l40s")
    assert (found.changes, found.not_worth) == ((), ())
    assert "neither observed nor given" in found.remarks[0]
    assert [one.what for one in found.measure_next] == ["effective batch", "step times", "prefix hits", "acceptance"]
    asked = advised(Observation(engine="vllm"), request=Request(input_tokens=2000, output_tokens=300, batch=64))
    assert asked.changes


def test_intervals_on_both_sides_of_one_are_no_advice() -> None:
    for o in (observed(effective_batch=b, tpot_s=t, ttft_s=0.3) for b, t in ((4.0, 0.05), (32.0, 0.1))):
        for change in advised(o, "70b", "h100:4").changes:
            assert change.gain.low > 1


def test_where_nothing_pays_it_says_so() -> None:
    """fp8 weights and cache already, prompts share nothing, a mixture needs no drafts: the page says that, no list."""
    o = observed(effective_batch=8.0, tpot_s=0.008, ttft_s=0.2, prefix_caching=True, prefix_hit_share=0.0)
    found = advised(
        o, request=Request(weights="fp8", kv="fp8"), load=Load(weight_format="fp8", draft=Draft(acceptance=0.05))
    )
    assert found.changes == ()
    assert "nothing that is known" in str(advice_added(found).sections[0].rows)


def test_preemptions_count_requests_in_whole_blocks() -> None:
    """33 blocks of 128, one of them never used: requests of 400 tokens take 4 blocks at their ends, so 8 fit."""
    own = {"requests": 17.0, "prompt_tokens": 3400.0, "output_tokens": 3400.0, "kv_pool_tokens": 4224.0}
    o = observed(effective_batch=6.2, tpot_s=0.068, preemptions=8.0, block_tokens=128.0, **own)
    found = advised(o, SMALL, CPU, Request(context_tokens=2048), curve=CURVE)
    assert held_of(o, found.context.scenario) == 8
    assert any("holds 8 requests" in remark and "--max-num-seqs" in remark for remark in found.remarks)


# n-grams: one acceptance, two verdicts.


def drafting(sequences: float, tpot_s: float, itl_s: float) -> Observation:
    """A server of our own making that drafts 4 tokens in half of its steps and has 1.9 tokens accepted a step."""
    return observed(
        effective_batch=sequences,
        tpot_s=tpot_s,
        itl_s=Spread(mean=itl_s, p50=itl_s, is_bucket=True),
        requests=16.0,
        prompt_tokens=4096.0,
        output_tokens=1536.0,
        tokens_per_step=1.9,
        draft_share=0.52,
        drafted_tokens=4.0,
        acceptance_per_position=(0.6, 0.46, 0.37, 0.3),
    )


def test_n_grams_pay_alone_and_not_in_a_batch() -> None:
    alone = advised(drafting(1.0, 0.014, 0.027), SMALL, CPU, Request(context_tokens=4096), curve=CURVE)
    busy = advised(drafting(8.0, 0.047, 0.09), SMALL, CPU, Request(context_tokens=4096), curve=CURVE)
    verdicts = [next(one for one in a.judged if one.technique == "speculative") for a in (alone, busy)]
    assert [(one.verdict, one.in_use) for one in verdicts] == [("use", True), ("skip", True)]
    assert "speculative" not in [change.technique for change in (*alone.changes, *alone.not_worth)]
    off = next(change for change in (*busy.changes, *busy.not_worth) if change.technique == "speculative")
    assert (off.action, off.setting.text) == ("turn off", "leave --speculative-config out")
    batch = next(f for f in off.flips if f.quantity == "batch")
    assert batch.value is not None
    assert 1 < batch.value <= 8


@pytest.mark.shared
@pytest.mark.skipif(not LIVE.is_dir(), reason="../shared/live is absent")
@pytest.mark.parametrize(("before", "after", "verdict"), [(None, 1, "use"), (4, 8, "skip")])
def test_n_grams_of_a_real_server(before: int | None, after: int, verdict: str) -> None:
    """Measured against the same prompts without drafts: 1.85 times as fast alone, 0.86 times with eight at once."""
    from infopt.observing.reading import read_source

    paths = [None if c is None else LIVE / f"metrics_ngram4_code_c{c}.txt" for c in (before, after)]
    assert paths[1] is not None
    o = read_source(paths[1], paths[0])
    found = advised(o, SMALL, CPU, Request(context_tokens=4096), curve=CURVE)
    one = next(one for one in found.judged if one.technique == "speculative")
    assert (one.verdict, one.in_use) == (verdict, True)
    listed = [change.technique for change in (*found.changes, *found.not_worth)]
    assert ("speculative" in listed) == (verdict == "skip")


@pytest.mark.shared
@pytest.mark.skipif(not LIVE.is_dir(), reason="../shared/live is absent")
def test_n_grams_of_nine_measured_cells() -> None:
    """Three kinds of text at 1, 4 and 8 requests at once; a cell counts where it was 5 % from the 10 % that decide.

    Seven of eight: prose at 4 was 0.94 times as fast, for which its window, with 3.05 sequences in a step, says 1.2.
    """
    with (LIVE / "runs.tsv.txt").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    plain = {(row["kind"], row["conc"]): float(row["tpot_ms"]) for row in rows if row["name"] == "base2"}
    right = []
    for row in (row for row in rows if row["name"] == "spec4"):
        measured = plain[row["kind"], row["conc"]] / float(row["tpot_ms"])
        found = advised(cell(row), SMALL, CPU, Request(context_tokens=4096), curve=MEASURED_CURVE)
        verdict = next(one.verdict for one in found.judged if one.technique == "speculative")
        if abs(measured / 1.1 - 1) > 0.05:
            right.append((verdict == "use") == (measured > 1.1))
    assert (len(right), sum(right)) == (8, 7)


def cell(row: dict[str, str]) -> Observation:
    """One row of runs.tsv as an observation."""
    n = {name: float(row[name]) for name in row if name not in ("name", "kind")}
    steps, drafts = n["srv_itl_n"], n["drafts"]
    return observed(
        effective_batch=(steps + n["n"]) / n["iters"],
        tpot_s=n["srv_tpot"] / 1e3,
        itl_s=Spread(mean=n["srv_itl"] / 1e3, p50=n["itl_p50"] / 1e3),
        requests=n["n"],
        prompt_tokens=n["prompt"],
        output_tokens=n["gen"],
        tokens_per_step=(n["gen"] - n["n"]) / steps,
        draft_share=drafts / steps,
        drafted_tokens=n["drafted"] / drafts,
        acceptance_per_position=tuple(n[f"acc_pos{i}"] / drafts for i in range(4)),
    )


# Agreement with `infopt boundary`.


@settings(max_examples=5, deadline=None)
@given(
    batch=st.integers(1, 64),
    hits=st.sampled_from([None, 0.0, 0.4]),
    rates=st.sampled_from([None, (0.7, 0.5, 0.4), (0.2, 0.05)]),
    tpot_ms=st.floats(12.0, 60.0),
)
def test_verdicts_are_those_of_boundary(
    batch: int, hits: float | None, rates: tuple[float, ...] | None, tpot_ms: float
) -> None:
    o = observed(
        effective_batch=float(batch),
        tpot_s=tpot_ms / 1e3,
        ttft_s=0.3,
        prefix_caching=hits is not None,
        prefix_hit_share=hits,
        acceptance_per_position=rates,
        draft_share=None if rates is None else 0.5,
        tokens_per_step=1.0 if rates is None else 1.3,
    )
    model, hardware = resolve_model("8b"), resolve_hardware("h100")
    found = advise(o, model, hardware, Request(), Load())
    told = with_observed(o, model, hardware, Request(), Load())
    assert speculates(o) == (rates is not None)
    used = [id for id, there in (("prefix-caching", hits is not None), ("speculative", rates is not None)) if there]
    for one in found.judged:
        others = [id for id in used if id != one.technique]
        alone = boundaries(model, hardware, told.request, told.load, (), others, [technique(one.technique)])
        assert alone.techniques[0].judgement.verdict == one.verdict, one
        theirs = alone.techniques[0].judgement.gain
        assert (theirs.value if theirs else None) == pytest.approx(one.gain.value if one.gain else None)


# The checklist, the page, JSON.


def test_items_that_an_observation_answers() -> None:
    o = observed(effective_batch=32.0, tpot_s=Spread(mean=0.033, p99=0.05), ttft_s=0.4, prefix_hit_share=0.0)
    load = Load(targets=Targets(tpot_s=0.04))
    deployment = Deployment(resolve_model("70b"), resolve_hardware("h100:4"), Request(), load, observed=o)
    found = {one.id: one for one in answered(deployment)}
    assert (found["measured-batch"].before, found["measured-batch"].status) == ("needs-measurement", "pass")
    assert found["prefix-hits"].status == "pass"
    assert found["batch-and-tails"].status == "fail"  # the tail, which only an observation knows
    assert answered(replace(deployment, observed=None)) == ()


def everything(o: Observation) -> Any:
    request, load = Request(), Load()
    model, hardware = resolve_model("70b"), resolve_hardware("h100:4")
    plan = plan_beside(o, model, hardware, request)
    items = answered(Deployment(model, hardware, request, load, observed=o))
    return joined(beside_added(beside(o, plan), plan, items), advice_added(advise(o, model, hardware, request, load)))


def test_page_json_and_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    o = observed(effective_batch=16.0, waiting=40.0, tpot_s=0.027, ttft_s=4.0, kv_use_share=0.2, prefix_caching=False)
    added = everything(o)
    page = render_observation(o, "table", added)
    assert max(map(len, page.splitlines())) <= 80
    for heading in ("BESIDE THE LEDGERS", "CHECKLIST", "ADVICE", "MEASURE NEXT"):
        assert heading in page
    assert "--max-num-seqs 56" in page
    data = json.loads(render_observation(o, "json", added))
    jsonschema.validate(data, json.loads(schema_text("observe")))
    assert data["advice"]["changes"][0]["technique"] == "more-sequences"
    assert len(data["advice"]["changes"]) <= 3
    assert {one["technique"] for one in data["advice"]["verdicts"]} == {t.id for t in techniques()}
    markdown = render_observation(o, "md", added)
    assert "**Advice**" in markdown
    assert not re.search(r"\$drafted|\$budget", markdown)


def test_a_record_with_advice_is_read_again(tmp_path: Path) -> None:
    from infopt.observing.observation import read_observation

    o = observed(effective_batch=16.0, tpot_s=0.027)
    path = tmp_path / "observed.json"
    path.write_text(json.dumps(as_dict(o, everything(o))), encoding="utf-8")
    again = read_observation(path)
    assert again.ignored == ()
    assert again == o


def test_advice_without_anything_known_is_json_too() -> None:
    data = advice_dict(advised(Observation(engine="vllm"), hw="l40s"))
    assert data["changes"] == []
    json.dumps(data, allow_nan=False)


def test_the_option_is_of_the_format_that_was_judged() -> None:
    """A full pool has formats judged at the batch that is asked for; the option must be of the one chosen there."""
    o = observed(
        engine="sglang", effective_batch=2.0, waiting=20.0, preemptions=3.0, prompt_tokens=1e6, output_tokens=64_000.0
    )
    found = advised(o, "mixtral-8x7b", "mi300x:2", Request(engine="sglang", engine_version="0.5.23"))
    (change,) = (change for change in found.changes if change.technique == "weight-quantization")
    (judged,) = (one for one in found.judged if one.technique == "weight-quantization")
    assert change.reason == judged.reason
    (chosen,) = re.findall(r"with (\w+) weights", change.reason)
    assert "at batch 22" in change.reason
    assert chosen.lower() in change.setting.text.lower()


def test_an_infinite_ratio_is_said_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A pool of no token is expected where --kv-pool is one byte: nothing is divided by it."""
    path = tmp_path / "o.json"
    path.write_text(json.dumps(observed(kv_pool_tokens=5000.0, effective_batch=2.0).plain()), encoding="utf-8")
    arguments = ["observe", str(path), "--model", "8b", "--hw", "h100", "--kv-pool", "1B"]
    for form in ("table", "md", "json"):
        assert run([*arguments, "--format", form]) == 0
        assert form == "json" or "outside" in capsys.readouterr().out


def test_many_unknown_keys_are_one_line_and_a_byte_order_mark_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "o.json"
    text = json.dumps({"schema": "infopt/observe/1", "requests": 3, **{f"k{number}": 1 for number in range(1000)}})
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    for command in ("plan", "boundary", "checklist"):
        run([command, "--model", "8b", "--hw", "h100", "--observed", str(path), "--json"])
        told = [line for line in capsys.readouterr().err.splitlines() if "not a key that is known" in line]
        assert told == [
            f"infopt: {path}: {', '.join(f'k{n}' for n in range(8))} and 992 more: not a key that is known; left out"
        ]


def test_a_server_of_another_size_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only where the catalogue knows the name and the geometry differs: aliases and fine-tunes pass."""
    path = tmp_path / "o.json"
    for name, told in (
        ("Qwen/Qwen3-32B", True),
        ("/models/Qwen3-32B/", True),
        ("meta-llama/Llama-3.1-8B-Instruct", False),
        ("chat", False),
        ("a, b", False),
    ):
        path.write_text(json.dumps(observed(model=name).plain()), encoding="utf-8")
        assert run(["observe", str(path), "--model", "8b", "--hw", "h100"]) == 0
        says = (
            f"the server calls its model {name!r}, which is Qwen/Qwen3-32B: another size than meta-llama/Llama-3.1-8B"
        )
        assert (says in capsys.readouterr().err) == told
        assert run(["plan", "--model", "8b", "--hw", "h100", "--observed", str(path), "--json"]) == 0
        texts = [one["text"] for one in json.loads(capsys.readouterr().out)["assumptions"]]
        assert (says in texts) == told


def test_a_benchmarks_result_is_no_observation_yet(capsys: pytest.CaptureFixture[str]) -> None:
    """It shares a key or two with one by chance; `observe` makes one of it."""
    for path in sorted((Path(__file__).resolve().parent / "data" / "benchmarks").glob("*.json")):
        assert run(["plan", "--model", "8b", "--hw", "h100", "--observed", str(path)]) == 2, path
        said = capsys.readouterr().err
        assert "infopt observe SOURCE --out FILE" in said or "expected an object" in said
