"""Continuous batching: document 1's table, the rule of 4, Little's law in a scenario, caps, flips that are roots."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.boundaries.continuous_batching import (
    EFFECTIVE_BATCH,
    OUTPUT_SPREAD,
    TECHNIQUE,
    judge,
    occupancy,
    residence_s,
    spread_of,
)
from infopt.boundaries.load import Load, Targets, Traffic
from infopt.boundaries.quantities import RATE
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement, Verdict
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.queueing import static_loss_ratio
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build


def situation(model: str, hw: str, load: Load | None = None, **request: object) -> Situation:
    given = {"input_tokens": 2000, "output_tokens": 300, **request}
    scenario = build(resolve_model(model), resolve_hardware(hw), Request(**given)).scenario  # type: ignore[arg-type]
    return Situation(scenario, load)


def rated(rate: float, **traffic: float) -> Load:
    return Load(traffic=Traffic(rate_per_s=rate, **traffic))


def figures(judgement: Judgement) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in judgement.figures}


def verdict(situation: Situation) -> Verdict:
    return judge(situation).verdict


def test_document_1_table() -> None:
    """70B in 16 bit: 140, 17.5 and 2.2 GB of weights for a token at batch 1, 8 and 64."""
    found = figures(judge(situation("70b", "h100:4", batch=64)))
    for batch, gigabytes in ((1, 140), (8, 17.5), (64, 2.2)):
        assert found[f"weights_at_batch_{batch}_bytes"] == pytest.approx(gigabytes * 1e9, rel=0.015)
    # 80 layers, 8 KV heads of 128, keys and values in 2 bytes, 2,150 tokens.
    kv = 80 * 8 * 2 * 128 * 2 * 2150
    assert found["kv_per_token_bytes"] == kv
    assert found["read_per_token_bytes"] == pytest.approx((found["weights_at_batch_64_bytes"] or 0) + kv)


def test_weights_of_a_mixture_fall_slower_than_the_batch() -> None:
    found = figures(judge(situation("deepseek-v3", "h200:8", batch=8)))
    one, eight = found["weights_at_batch_1_bytes"], found["weights_at_batch_8_bytes"]
    assert one is not None
    assert eight is not None
    assert one / 8 < eight < one


@pytest.mark.parametrize(("batch", "expected"), [(1, "skip"), (2, "limited"), (3, "limited"), (4, "use"), (64, "use")])
def test_rule_of_four(batch: int, expected: Verdict) -> None:
    found = judge(situation("70b", "h100:4", batch=batch))
    assert found.verdict == expected
    assert found.rule is not None
    assert found.rule.says == ("use" if batch >= 4 else "skip")
    assert ("leave it on" in found.reason) == (batch < 4)
    assert "no --rate" in found.reason


def test_gain_by_hand() -> None:
    """(prompt + loss x decode) / (prompt + decode) with machine seconds of one request."""
    here = situation("70b", "h100:4", Load(traffic=Traffic(output_spread=1.0)), batch=8)
    prompt_s = here.steps.prompt_s(2000)
    decode_s = 300 * here.steps.step_s(8, 2150) / 8
    harmonic = sum(1 / k for k in range(1, 9))
    gain = judge(here).gain
    assert gain is not None
    assert gain.metric == "throughput"
    assert gain.value == pytest.approx((prompt_s + harmonic * decode_s) / (prompt_s + decode_s), rel=1e-3)
    assert gain.low <= gain.value <= gain.high
    assert static_loss_ratio(8, 1.0) > gain.value


def test_equal_answers_lose_nothing() -> None:
    found = judge(situation("70b", "h100:4", Load(traffic=Traffic(output_spread=0.0)), batch=64))
    assert found.verdict == "skip"
    assert found.gain is not None
    assert found.gain.value == 1


def test_default_spread_is_named() -> None:
    found = judge(situation("70b", "h100:4", batch=64))
    assert figures(found)["output_spread"] == spread_of(Load())
    assert any("--output-spread" in cost for cost in found.costs)
    told = judge(situation("70b", "h100:4", Load(traffic=Traffic(output_spread=0.5)), batch=64))
    assert not any("--output-spread" in cost for cost in told.costs)


@given(st.floats(0.3, 5.0))
@settings(max_examples=15)
def test_littles_law_holds(rate: float) -> None:
    here = situation("70b", "h100:4", rated(rate))
    batch = figures(judge(here))["effective_batch"]
    assert batch is not None
    assert batch == pytest.approx(rate * residence_s(here, here.steps, max(1.0, batch)), rel=1e-5)


@given(st.floats(0.05, 4.0), st.floats(1.01, 2.0))
@settings(max_examples=15)
def test_batch_grows_with_the_rate(rate: float, factor: float) -> None:
    lower, higher = (situation("8b", "h100:1", rated(r)) for r in (rate, rate * factor))
    assert occupancy(higher, higher.steps).batch > occupancy(lower, lower.steps).batch


def test_above_saturation_the_cache_caps() -> None:
    here = situation("70b", "h100:4")
    found = figures(judge(here))
    most = here.memory.max_sequences
    assert found["saturation_per_s"] == pytest.approx(most / residence_s(here, here.steps, most))
    above = judge(situation("70b", "h100:4", rated((found["saturation_per_s"] or 0) * 1.001)))
    assert figures(above)["effective_batch"] == most == figures(above)["batch_cap_cache_sequences"]
    assert above.verdict == "use"
    assert "saturated" in above.reason
    below = judge(situation("70b", "h100:4", rated((found["saturation_per_s"] or 0) * 0.99)))
    assert "saturated" not in below.reason


def test_replicas_share_the_rate() -> None:
    """Two replicas at 4 a second each see 2."""
    one = situation("8b", "h100:1", rated(2.0))
    two = situation("8b", "h100:2", rated(4.0), dp=2)
    assert occupancy(two, two.steps).batch == pytest.approx(occupancy(one, one.steps).batch, rel=1e-6)
    assert occupancy(two, two.steps).saturation_per_s == pytest.approx(2 * occupancy(one, one.steps).saturation_per_s)
    assert EFFECTIVE_BATCH.get(two) == pytest.approx(2 * (EFFECTIVE_BATCH.get(one) or 0), rel=1e-6)


def test_tpot_target_caps() -> None:
    load = Load(traffic=Traffic(rate_per_s=5.0), targets=Targets(tpot_s=0.03))
    here = situation("70b", "h100:4", load)
    most = figures(judge(here))["batch_cap_tpot_sequences"]
    assert most is not None
    assert here.tpot_s(batch=most) <= 0.03 < here.tpot_s(batch=most + 1)
    assert figures(judge(here))["effective_batch"] == most
    assert "TPOT target" in judge(here).reason


def test_target_below_one_sequence() -> None:
    found = judge(situation("70b", "h100:4", Load(targets=Targets(tpot_s=0.001)), batch=64))
    assert found.verdict == "skip"
    assert "more bandwidth or an MoE" in found.reason


def test_setting_caps_what_a_rate_brings() -> None:
    here = judge(situation("70b", "h100:4", rated(5.0), max_num_seqs=2))
    assert figures(here)["effective_batch"] == 2
    assert here.verdict == "limited"


def test_more_than_fits() -> None:
    here = situation("70b", "h100:4", batch=4096)
    assert figures(judge(here))["effective_batch"] == here.memory.max_sequences
    assert "only" in judge(here).reason


def test_does_not_fit() -> None:
    found = judge(situation("70b", "h100:1", batch=8))
    assert (found.verdict, found.gain) == ("skip", None)
    assert figures(found)["effective_batch"] == 0
    assert figures(found)["saturation_per_s"] == 0


@pytest.mark.parametrize("hw", ["a100-sxm-80gb", "mi300x"])
def test_lent_constants_leave_a_band_to_measure(hw: str) -> None:
    here = situation("8b", hw)
    assert here.steps.basis == "assumed"
    flips = [(flip.below, flip.above) for flip in break_evens(verdict, RATE, here)]
    assert ("limited", "measure") in flips
    assert ("measure", "use") in flips
    assert verdict(here.changed(batch=64)) == "use"  # a batch that is given needs no step time


def test_llama_cpp_needs_more_slots() -> None:
    found = judge(situation("8b", "rtx-4090:1", batch=4, engine="llama.cpp", weights="q4_k_m"))
    assert found.verdict == "use"
    assert any("from 1 to 4" in cost for cost in found.costs)


def test_mixture_in_4_bit() -> None:
    assert verdict(situation("gpt-oss-120b", "h100:1", batch=8)) == "use"


def test_rate_at_which_the_batch_reaches_4_is_a_flip() -> None:
    here = situation("70b", "h100:4")
    flips = break_evens(verdict, RATE, here)
    (to_use,) = [flip for flip in flips if flip.above == "use"]
    assert to_use.value == pytest.approx(figures(judge(here))["rate_for_batch_4_per_s"], rel=1e-5)
    assert to_use.value == pytest.approx(4 / residence_s(here, here.steps, 4.0), rel=1e-5)


@pytest.mark.parametrize("quantity", TECHNIQUE.quantities, ids=lambda quantity: quantity.name)
@pytest.mark.parametrize(("model", "hw", "batch"), [("70b", "h100:4", 64), ("gpt-oss-120b", "h100:1", 2)])
def test_flips_are_roots(quantity: object, model: str, hw: str, batch: int) -> None:
    here = situation(model, hw, batch=batch)
    found = break_evens(verdict, quantity, here)  # type: ignore[arg-type]
    assert found
    for flip in found:
        if flip.value is not None:
            beside = 1 if quantity.whole else flip.value * 0.01  # type: ignore[attr-defined]
            after = flip.value if quantity.whole else flip.value + beside  # type: ignore[attr-defined]
            assert verdict(quantity.set(here, flip.value - beside)) == flip.below  # type: ignore[attr-defined]
            assert verdict(quantity.set(here, after)) == flip.above  # type: ignore[attr-defined]


def test_setting_the_batch_drops_the_rate() -> None:
    here = EFFECTIVE_BATCH.set(situation("70b", "h100:4", rated(2.0)), 3)
    assert here.load.traffic.rate_per_s is None
    assert verdict(here) == "limited"


def test_spread_of_equal_answers_is_where_it_starts() -> None:
    flips = break_evens(verdict, OUTPUT_SPREAD, situation("70b", "h100:4", batch=64))
    assert [(flip.below, flip.above) for flip in flips] == [("skip", "limited"), ("limited", "use")]


@pytest.mark.parametrize(
    ("load", "option"),
    [
        (rated(0.0), "--rate"),
        (rated(-1.0), "--rate"),
        (Load(traffic=Traffic(output_spread=-0.1)), "--output-spread"),
        (Load(targets=Targets(tpot_s=0.0)), "--tpot"),
    ],
)
def test_bad_input(load: Load, option: str) -> None:
    with pytest.raises(InfoptError, match=option):
        judge(situation("8b", "h100:1", load))


# --- what was measured -------------------------------------------------------------------------------------------

# vLLM 0.32 on 2 cores of a Zen 4, our runs: ms of one prompt, median ms between tokens by clients, tokens/s.
LIVE = (
    (
        "HuggingFaceTB/SmolLM2-135M",
        256,
        64,
        328,
        {1: 25.1, 2: 28.8, 4: 26.4, 8: 35.9, 16: 54.5},
        (33, 51, 86, 104, 119),
    ),
    ("Qwen/Qwen2.5-0.5B", 64, 24, 275, {1: 70.0, 2: 84.0, 4: 65.9, 8: 85.8, 16: 120.0}, (12.7, 19.1, 37.6, 49.2, 57.6)),
)


def live(model: str, prompt: int, output: int, points: dict[float, float], **given: object) -> Situation:
    here = situation(model, "ryzen-9-7950x", input_tokens=prompt, output_tokens=output, **given)
    return here.changed(curve=tuple((tokens, ms / 1e3) for tokens, ms in sorted(points.items())))


@pytest.mark.parametrize(("model", "prompt", "output", "prompt_ms", "steps_ms", "measured"), LIVE)
def test_throughput_of_a_real_server_by_clients(
    model: str, prompt: int, output: int, prompt_ms: float, steps_ms: dict[int, float], measured: tuple[float, ...]
) -> None:
    """Steps and one prompt measured: tokens a second within 10 % at 1 to 16 clients, and so is the gain over one."""
    here = live(model, prompt, output, {**steps_ms, prompt: prompt_ms})
    for clients, tokens_per_s in zip(steps_ms, measured, strict=True):
        ours = clients * output / residence_s(here, here.steps, clients)
        assert ours == pytest.approx(tokens_per_s, rel=0.10)
    found = figures(judge(here.changed(batch=16)))
    assert found["gain_over_one_ratio"] == pytest.approx(measured[-1] / measured[0], rel=0.15)


def test_prompts_are_not_free_where_only_steps_are_known() -> None:
    """Without a point at the prompt's length the curve goes on from its last; it says so and asks for one."""
    _, prompt, output, prompt_ms, steps_ms, _ = LIVE[0]
    short, whole = (live("HuggingFaceTB/SmolLM2-135M", prompt, output, points, batch=16) for points in (
        dict(steps_ms), {**steps_ms, prompt: prompt_ms}))  # fmt: skip
    assert short.steps.entry_s(prompt) == pytest.approx(0.0545 + 240 * (54.5 - 35.9) / 8e3)
    assert whole.steps.entry_s(prompt) == pytest.approx(0.328)
    assert any("give one at 256" in cost for cost in judge(short).costs)
    assert not any("give one at 256" in cost for cost in judge(whole).costs)
    free = 16 * 25.1 / 54.5
    assert figures(judge(short))["gain_over_one_ratio"] < figures(judge(whole))["gain_over_one_ratio"] < free / 1.8


@pytest.mark.parametrize("model", ["8b", "70b", "deepseek-v3"])
@pytest.mark.parametrize("batch", [1, 2, 8, 64])
def test_steps_that_get_shorter_lose_less(model: str, batch: int) -> None:
    """Of a step only what its sequences share is lost: less with every sequence, nothing of one alone."""
    judged = judge(situation(model, "h200:8", batch=batch))
    found = figures(judged)["gain_over_shrinking_ratio"]
    assert found is not None
    assert judged.gain is not None
    assert 1 <= found <= judged.gain.value * (1 + 1e-9)
    assert (found == 1) == (batch == 1)
