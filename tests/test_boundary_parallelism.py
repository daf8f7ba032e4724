"""Placements of a model: times by hand, document 2's seven steps, verdicts as expected, flips that are roots."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.boundaries.deciding import MEASURE_BOTH
from infopt.boundaries.load import Links, Load, Targets
from infopt.boundaries.parallelism import LINK_BANDWIDTH, TECHNIQUE, apply, judge, quick
from infopt.boundaries.placement_links import wires_here
from infopt.boundaries.placements import Placed, candidates, fewest_devices, longest_stage_ratio, placed, present
from infopt.boundaries.quantities import BATCH, CONTEXT
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement
from infopt.errors import InfoptError
from infopt.hardware.links import link_kind
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.links import Wire, Wires, layer_sums_s, send_s, sums_s_per_token
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build


@cache
def scenario(model: str, hw: str, **given: Any) -> Scenario:
    request = Request(**({"input_tokens": 2000, "output_tokens": 300, "batch": 8} | given))
    return build(resolve_model(model), resolve_hardware(hw), request).scenario


def situation(model: str, hw: str, load: Load | None = None, **given: Any) -> Situation:
    return Situation(scenario(model, hw, **given), load)


def figures(answer: Judgement) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in answer.figures}


def tpot_s(here: Placed) -> float:
    return here.tpot_s(here.steps)


def linked(bytes_per_s: float) -> Load:
    return Load(links=Links(link_bytes_per_s=bytes_per_s))


# --- times of a placement ---------------------------------------------------------------------------------------


def test_the_present_placement_of_a_dense_model_is_the_step_model() -> None:
    """Over NVLink the constants hold the sums: nothing is added."""
    here = situation("70b", "h100:4")
    assert present(here).links.pass_s(8) == 0
    assert tpot_s(present(here)) == pytest.approx(here.tpot_s())


def test_the_rate_by_hand() -> None:
    here = present(situation("70b", "h100:4", batch=64))
    output = here.scenario.output_tokens
    user_s = here.ttft_s(here.steps, tpot_s(here)) + output * tpot_s(here)
    assert here.rate_per_s(here.steps) == pytest.approx(64 * output / user_s)


def test_pcie_adds_the_difference_to_nvlink() -> None:
    """Constants lent from H100: of the sums over PCIe only what NVLink would not have taken is new."""
    here = present(situation("8b", "l40s:2"))
    model, own = here.scenario.model, here.links.wires
    nvlink = Wires(Wire(link_kind("NVLink"), 450e9), own.between, own.machine_devices)
    extra = layer_sums_s(own, model, 2, 8) - layer_sums_s(nvlink, model, 2, 8)
    assert here.links.pass_s(8) == pytest.approx(extra)
    assert extra > 0
    prompt = layer_sums_s(own, model, 2, 2000) - layer_sums_s(nvlink, model, 2, 2000)
    assert here.stall_s(here.steps) == pytest.approx(7 / 300 * (here.prompt_s(here.steps) + prompt))


def test_mixtures_hold_the_sums_of_four() -> None:
    """Their constants were fitted over placements with and without sums: a single device is rid of what they hold."""
    here = situation("gpt-oss-120b", "h100:4")
    one, four = placed(here, 4, 1, 1, 1, 1), placed(here, 1, 4, 1, 1, 1)
    model = here.scenario.model
    assert four.links.pass_s(2) == 0
    assert one.links.pass_s(2) == pytest.approx(-layer_sums_s(wires_here(here), model, 4, 2))


def test_nothing_beats_the_bytes() -> None:
    for name, hw in (("gpt-oss-120b", "h100:1"), ("70b", "h200:2"), ("deepseek-v3", "h200:8")):
        here = present(situation(name, hw, batch=1))
        assert tpot_s(here) >= bandwidth_ledger(here.scenario).step_floor_s


def test_local_engines_sum_over_their_own_link() -> None:
    """llama.cpp was measured on one device: all of the sums is new."""
    here = present(situation("8b", "rtx-4090:2", engine="llama.cpp", batch=1))
    sums_s = layer_sums_s(here.links.wires, here.scenario.model, 2, 1)
    assert here.links.pass_s(1) == pytest.approx(sums_s)
    assert sums_s > 0


def test_a_pipeline_by_hand() -> None:
    """61 layers in two stages are 31 and 30; 64 sequences run as two micro-batches of 32."""
    here = placed(situation("deepseek-v3", "h100:16", batch=64), 1, 8, 2, 1, 1)
    assert longest_stage_ratio(here.scenario) == pytest.approx(31 * 2 / 61)
    step_s = here.steps.step_s(32, here.scenario.decode_context_tokens)
    assert here.pass_s(here.steps) == pytest.approx(step_s * 62 / 61 + here.links.pass_s(32))
    hop_s = send_s(here.links.wires.between, 32 * here.scenario.model.hidden * 2)
    assert here.links.hops_s(32) == pytest.approx(hop_s)
    lone = placed(situation("deepseek-v3", "h100:16", batch=1), 1, 8, 2, 1, 1)
    one_s = lone.steps.step_s(1, lone.scenario.decode_context_tokens)
    assert lone.pass_s(lone.steps) == pytest.approx(one_s + lone.links.pass_s(1))


def test_replicas_split_the_batch() -> None:
    here = placed(situation("8b", "h100:8", batch=80), 8, 1, 1, 1, 1)
    assert (here.resident, here.waiting, here.scenario.batch) == (10, 0, 10)
    assert here.max_sequences == 8 * memory_ledger(here.scenario).max_sequences
    few = placed(situation("8b", "h100:8", batch=2), 8, 1, 1, 1, 1)
    output = few.scenario.output_tokens
    assert few.rate_per_s(few.steps) == pytest.approx(
        2 * output / (few.ttft_s(few.steps, tpot_s(few)) + output * tpot_s(few))
    )


def test_what_does_not_fit_waits() -> None:
    here = placed(situation("70b", "h100:4", batch=64), 2, 2, 1, 1, 1)
    held = memory_ledger(here.scenario).max_sequences
    assert here.resident == held < 32
    assert here.waiting == 64 - 2 * held
    assert here.unbounded().resident == 32
    assert tpot_s(here.unbounded()) > tpot_s(here)


def test_latent_caches_are_copied_on_every_rank() -> None:
    """8 B200, DeepSeek: attention replicas hold 7.7 times the KV of tp 8 (vllm-project/vllm issue 51454)."""
    here = situation("deepseek-v3", "b200:8", weights="nvfp4")
    wide, spread = placed(here, 1, 8, 1, 1, 8), placed(here, 1, 1, 1, 8, 8)
    tokens = [p.scenario.dp * memory_ledger(p.scenario).kv_pool_tokens for p in (wide, spread)]
    assert tokens[1] / tokens[0] == pytest.approx(7.7, rel=0.05)


def test_measured_gains_of_tensor_parallelism() -> None:
    """Llama 70B FP8 on H200, TensorRT-LLM, 4 clients: 20.1, 12.0, 8.0 and 6.3 ms at tp 1, 2, 4 and 8 (InferenceX)."""
    here = situation(
        "70b", "h200:8", weights="fp8", kv="fp8", engine="tensorrt-llm", batch=4, input_tokens=1024, output_tokens=1024
    )
    one, *wider = (tpot_s(placed(here, 1, tp, 1, 1, 1)) for tp in (1, 2, 4, 8))
    for predicted, measured in zip(wider, (12.0, 8.0, 6.3), strict=True):
        assert one / predicted == pytest.approx(20.1 / measured, rel=0.10)


@given(st.floats(1e8, 1e12), st.sampled_from(["l40s:4", "h100:4"]), st.sampled_from([1, 16, 200]))
@settings(max_examples=30)
def test_a_slower_link_is_never_better(bytes_per_s: float, hw: str, batch: int) -> None:
    slow, fast = (present(situation("8b", hw, linked(b), batch=batch)) for b in (bytes_per_s, 2 * bytes_per_s))
    assert tpot_s(slow) > tpot_s(fast)
    assert slow.rate_per_s(slow.steps) < fast.rate_per_s(fast.steps)


# --- verdicts ---------------------------------------------------------------------------------------------------


def test_replicas_win_a_large_batch_and_lose_a_single_sequence() -> None:
    """Document 2: eight replicas may serve more than TP 8 - from a batch on."""
    lone, many = (judge(situation("8b", "h100:8", batch=batch)) for batch in (1, 512))
    assert lone.verdict == "skip"
    assert many.verdict == "use"
    assert many.gain is not None
    assert many.gain.low > 1.3
    assert "instead of tp 8" in many.reason
    assert many.rule is not None
    assert (many.rule.document, many.rule.says, many.rule.why) == (2, "use", "")
    assert lone.rule is not None
    assert "batch and link, which it leaves out" in lone.rule.why


def test_one_machine_too_small_for_replicas() -> None:
    """70B in 16 bit on 4 H100: two replicas hold 8 sequences, TP 4 some 200."""
    answer = judge(situation("70b", "h100:4", batch=64))
    assert answer.verdict == "skip"
    assert answer.reason.startswith("tp 4 is right")
    assert figures(answer)["fewest_gpus"] == 2
    assert figures(answer)["one_gpu_max_sequences"] == 0


def test_pcie_turns_tensor_parallelism_down() -> None:
    answer = judge(situation("8b", "l40s:4", batch=64))
    assert answer.verdict == "use"
    assert figures(answer)["link_bytes_per_s"] < figures(answer)["link_break_even_bytes_per_s"]  # type: ignore[operator]
    assert judge(situation("70b", "h100:4", linked(1e9), batch=8)).verdict == "use"


def test_attention_replicas_for_latent_caches() -> None:
    answer = judge(situation("deepseek-v3", "b200:8", batch=256))
    assert answer.verdict == "use"
    assert answer.reason.startswith("dp 8 ep 8 instead of tp 8")
    held = figures(answer)
    assert held["expert_parallel_max_sequences"] > 6 * held["present_max_sequences"]  # type: ignore[operator]
    assert any("step together" in cost for cost in answer.costs)


def test_not_tensor_parallelism_over_machines() -> None:
    """DeepSeek on two machines of 8 H100: not tp 16 (vllm-project/vllm issue 14120 ended at tp 8 pp 2)."""
    answer = judge(situation("deepseek-v3", "h100:16", batch=64))
    assert answer.verdict == "use"
    assert answer.reason.startswith("tp 8 pp 2 instead of tp 16")


def test_lent_constants_leave_doubt() -> None:
    """gpt-oss-120b on two A100 made 90 tokens/s with one, 77 with tp 2 (vllm issue 22331): the ledger cannot tell."""
    answer = judge(situation("gpt-oss-120b", "a100-sxm-80gb:2", batch=1))
    assert answer.verdict == "measure"
    assert answer.gain is not None
    assert answer.gain.low < 1 < answer.gain.high
    # No constants of A100 that a point could calibrate: --point would be refused.
    assert answer.settle == MEASURE_BOTH
    assert judge(situation("70b", "mi300x:8", batch=64)).verdict == "measure"


def test_engines_measured_on_one_device() -> None:
    answer = judge(situation("8b", "rtx-4090:2", engine="llama.cpp", batch=1))
    assert answer.verdict == "measure"
    assert "one device" in answer.reason
    assert judge(situation("8b", "rtx-4090:1", engine="llama.cpp", batch=1)).verdict == "skip"


def test_layers_or_tensors_over_a_slow_slot() -> None:
    """Two 3090, 70B: 1,045 prompt tokens/s split by layers, 379 by tensors (exllamav2 issue 734).

    Sums at 1.56 GB/s make up the difference; over the slot's rated bandwidth they would cost a tenth of it.
    """
    model, layers_s = resolve_model("70b"), 1 / 1045
    assert 1 / (layers_s + sums_s_per_token(model, 2, 1.56e9)) == pytest.approx(379, rel=0.01)
    assert 1 / (layers_s + sums_s_per_token(model, 2, 31.5e9)) > 900


def test_nothing_holds_it() -> None:
    answer = judge(situation("70b", "rtx-3090:2", batch=1))
    assert answer.verdict == "impossible"
    assert answer.reason.endswith("the fewest are 8")
    assert answer.gain is None
    assert figures(answer)["fewest_gpus"] == 8
    assert any(option.holds for option in candidates(situation("70b", "rtx-3090:2", batch=1), 8))
    assert fewest_devices(situation("70b", "rtx-3090:2", batch=1)) == 8


def test_a_placement_that_holds_nothing_must_change() -> None:
    """70B in 8 bit on 2 H100 as two replicas: none holds a sequence of 100k; tp 2 does."""
    here = situation("70b", "h100:2", weights="fp8", tp=1, dp=2, input_tokens=100_000, batch=1)
    answer = judge(here)
    assert answer.verdict == "use"
    assert answer.reason.startswith("tp 2 holds")


def test_targets_decide_what_counts() -> None:
    """8B, 8 H100, 256 sequences: replicas serve more, but tp 8 alone may meet a target between the two."""
    here = situation("8b", "h100:8", batch=1)
    ours, theirs = tpot_s(present(here)), min(tpot_s(p) for p in list(candidates(here))[1:])
    assert ours < theirs
    load = Load(targets=Targets(tpot_s=(ours + theirs) / 2))
    assert "alone meets" in judge(situation("8b", "h100:8", load, batch=1)).reason
    narrow = situation("8b", "h100:8", Load(targets=Targets(tpot_s=(ours + theirs) / 2)), batch=1, tp=1, dp=8)
    answer = judge(narrow)
    assert answer.verdict == "use"
    assert answer.gain is not None
    assert answer.gain.metric == "tpot"
    assert answer.reason.startswith("tp 8 instead of 8 x tp 1")


def test_one_device_has_nothing_to_split() -> None:
    answer = judge(situation("8b", "h100:1"))
    assert answer.verdict == "skip"
    assert "a second with tp 2" in answer.reason
    assert not any(figure.name.startswith("expert_") for figure in answer.figures)


def test_the_seven_steps_are_all_there() -> None:
    answer = judge(situation("deepseek-v3", "h200:8", batch=64))
    every = {"fewest_gpus", "tpot_tp1_s", "pipeline_tpot_s", "prompt_s", "kv_transfer_bytes"}
    assert {figure.name for figure in answer.figures} >= every | {"expert_parallel_tpot_s"}
    dense = judge(situation("8b", "h100:8", Load(targets=Targets(ttft_s=0.5)), batch=64))
    assert {figure.name for figure in dense.figures} >= every | {"replicas_tpot_s"}
    shown = figures(dense)
    assert shown["pipeline_bubble_share"] == pytest.approx(1 / 2)  # two stages, one chunk
    assert shown["replicas_lost_share"] == pytest.approx(1 / 8)
    assert shown["kv_transfer_bytes"] == 2000 * 131072
    assert shown["kv_transfer_network_s"] == pytest.approx(30e-6 + 2000 * 131072 / 8 / (0.94 * 50e9))
    assert shown["longest_prompt_tokens"] > 2000  # type: ignore[operator]


def test_prefill_and_decode_devices() -> None:
    """Prompt work over decode work of a request; the stall is what a split removes."""
    here = situation("8b", "h100:8", batch=64)
    answer, now = figures(judge(here)), present(here)
    step_s = tpot_s(now) - now.stall_s(now.steps)
    assert answer["split_tpot_s"] == pytest.approx(step_s)
    assert answer["prefill_per_decode_gpu"] == pytest.approx(now.prompt_s(now.steps) / (300 * step_s / 64))


def test_chunks_fill_a_pipeline() -> None:
    here = situation("8b", "h100:2", Load(chunk_tokens=500))
    assert figures(judge(here))["pipeline_bubble_share"] == pytest.approx(1 / 5)  # 4 chunks, 2 stages
    piped = placed(here, 1, 1, 2, 1, 1)
    whole = placed(situation("8b", "h100:2", Load(chunk_tokens=2000)), 1, 1, 2, 1, 1)
    saved_s = whole.ttft_s(whole.steps, 0.01) - piped.ttft_s(piped.steps, 0.01)
    assert saved_s == pytest.approx((1 - 1 / 4) * whole.prompt_s(whole.steps))


def test_attention_is_half_of_a_long_prompt() -> None:
    """8B: 4 L d h n^2/2 = 2 (P - head) n at n = 2 (P - head) / (2 L h d)."""
    model = resolve_model("8b")
    linear = 2 * (model.params_active - model.head_params)
    tokens = linear / (2 * 32 * 32 * 128)
    assert figures(judge(situation("8b", "h100:8")))["context_parallel_tokens"] == pytest.approx(tokens, rel=0.02)


# --- flips ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "hw", "quantity"),
    [
        ("8b", "h100:8", BATCH),
        ("70b", "h100:4", LINK_BANDWIDTH),
        ("deepseek-v3", "h200:8", BATCH),
        ("gpt-oss-120b", "h100:1", CONTEXT),
    ],
)
def test_flips_are_roots(model: str, hw: str, quantity: Any) -> None:
    here = situation(model, hw, batch=16)
    found = break_evens(quick, quantity, here)
    assert found[0].value is not None
    for flip in found:
        assert flip.value is not None
        before, after = (flip.value - 1, flip.value) if quantity.whole else (0.99 * flip.value, 1.01 * flip.value)
        verdicts = [judge(quantity.set(here, value)).verdict for value in (before, after)]
        assert verdicts == [flip.below, flip.above]
        assert verdicts[0] != verdicts[1]


def test_the_batch_from_which_replicas_serve_more() -> None:
    batch = figures(judge(situation("8b", "h100:8", batch=64)))["replicas_batch"]
    assert batch is not None
    for value, wins in ((int(batch) - 1, False), (int(batch), True)):
        here = situation("8b", "h100:8", batch=value)
        wide, narrow = placed(here, 1, 8, 1, 1, 1), placed(here, 8, 1, 1, 1, 1)
        assert (narrow.rate_per_s(narrow.steps) > wide.rate_per_s(wide.steps)) is wins


def test_the_link_at_which_widths_are_equal() -> None:
    here = situation("8b", "l40s:4", batch=64)
    value = figures(judge(here))["link_break_even_bytes_per_s"]
    assert value is not None
    for bytes_per_s, wins in ((0.99 * value, False), (1.01 * value, True)):
        there = situation("8b", "l40s:4", linked(bytes_per_s), batch=64)
        wide, narrow = placed(there, 1, 4, 1, 1, 1), placed(there, 2, 2, 1, 1, 1)
        assert (tpot_s(wide) < tpot_s(narrow)) is wins


@given(
    st.sampled_from([("8b", "h100:8"), ("70b", "a100-sxm-80gb:8"), ("gpt-oss-120b", "h100:2"), ("8b", "l40s:2")]),
    st.integers(1, 2048),
    st.sampled_from([200, 4000, 60_000]),
)
@settings(max_examples=25)
def test_the_quick_verdict_is_the_verdict(place: tuple[str, str], batch: int, prompt: int) -> None:
    here = situation(*place, batch=batch, input_tokens=prompt)
    answer = judge(here)
    assert quick(here) == answer.verdict
    assert len(answer.reason) < 130
    if answer.gain is not None:
        assert answer.gain.low <= answer.gain.value <= answer.gain.high


# --- use of it --------------------------------------------------------------------------------------------------


def test_apply_takes_degrees_or_the_best() -> None:
    here = situation("8b", "h100:8", batch=512)
    for text in ("tp2-dp4", "tp=2,dp=4", "TP 2 replicas 4"):
        changed = apply(here, text).scenario
        assert (changed.tp, changed.dp, changed.batch) == (2, 4, 512)
    best = apply(here, "")
    assert best.used == (TECHNIQUE.id,)
    assert judge(best).verdict == "skip"


def test_servers_of_a_mixture_leave_one() -> None:
    here = situation("gpt-oss-120b", "h100:4", batch=64)
    one = apply(here, "replicas4").scenario
    assert (one.gpus, one.batch) == (1, 16)
    shared = apply(here, "dp4-ep4").scenario
    assert (shared.gpus, shared.dp, shared.batch) == (4, 4, 64)


@pytest.mark.parametrize("text", ["tp3", "tp0", "fast", "tp2-dp2-x9", "tp2"])
def test_apply_refuses_what_is_none(text: str) -> None:
    with pytest.raises(InfoptError):
        apply(situation("8b", "h100:8"), text)


@pytest.mark.parametrize("links", [Links(link_bytes_per_s=0.0), Links(network_bytes_per_s=-1.0)])
def test_bandwidths_must_be_above_zero(links: Links) -> None:
    with pytest.raises(InfoptError, match="must be above 0"):
        judge(situation("8b", "h100:8", Load(links=links)))
