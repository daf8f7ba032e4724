"""Caches of whole answers, the price of cached prompts, and images in a prompt."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.boundaries.application_caches import HITS, TECHNIQUE, lookup_ratio
from infopt.boundaries.image_tokens import image_figures, with_image_tokens
from infopt.boundaries.load import Load, Prefix, Traffic
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.compute import prefill_flop
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build

VISION = "Qwen/Qwen2.5-VL-7B-Instruct"


@cache
def scenario(model: str = "70b", hw: str = "h100:4", **given: object) -> Scenario:
    request = Request(**({"input_tokens": 2000, "output_tokens": 300, "batch": 8} | given))
    return build(resolve_model(model), resolve_hardware(hw), request).scenario


def judged(load: Load, **given: object) -> Judgement:
    return TECHNIQUE.judge(Situation(scenario(**given), load))


def figures(answer: Judgement) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in answer.figures}


def test_the_lookup_by_hand() -> None:
    """An embedding of 335M over 2,000 tokens: 1.34e12 FLOP of a request's 3.2e14."""
    situation = Situation(scenario(), Load())
    request = situation.compute.prefill_flop + 300 * situation.compute.decode_flop_per_token
    assert lookup_ratio(situation) == pytest.approx(2 * 335e6 * 2000 / request)
    assert 0.003 < lookup_ratio(situation) < 0.005


def test_a_third_of_all_answers() -> None:
    """Document 3's 30 %: 1 / (0.7 + 0.004)."""
    answer = judged(Load(semantic_hit_share=0.3))
    assert answer.gain is not None
    assert answer.gain.value == pytest.approx(1 / 0.7, rel=0.01)
    assert (answer.verdict, answer.gain.metric) == ("use", "throughput")
    assert any("owner must answer" in cost for cost in answer.costs)
    assert answer.rule is not None
    assert (answer.rule.document, answer.rule.says) == (3, "use")
    assert "not for prompts" in answer.rule.why


def test_below_saturation_it_saves_cost_only() -> None:
    answer = judged(Load(semantic_hit_share=0.3, traffic=Traffic(1.0)))
    assert answer.gain is not None
    assert answer.gain.metric == "cost"
    assert figures(answer)["model_rate_per_s"] == pytest.approx(0.7)


def test_unknown_hits_leave_a_break_even() -> None:
    situation = Situation(scenario(), Load())
    answer = TECHNIQUE.judge(situation)
    assert answer.verdict == "measure"
    assert "--semantic-hits" in answer.settle
    flips = break_evens(lambda other: TECHNIQUE.judge(other).verdict, HITS, situation)
    assert [(f.below, f.above) for f in flips] == [("skip", "limited"), ("limited", "use")]
    least = 1 - 1 / 1.1 + lookup_ratio(situation)
    assert flips[1].value == pytest.approx(least, rel=1e-4)
    assert figures(answer)["hits_to_pay"] == pytest.approx(least)


def test_a_small_model_gains_less_than_its_hits() -> None:
    """A lookup is a quarter of the work of a 1B model."""
    answer = judged(Load(semantic_hit_share=0.3), model="meta-llama/Llama-3.2-1B", hw="rtx-4090:1", batch=1)
    assert answer.verdict == "limited"
    assert answer.gain is not None
    assert answer.gain.value < 1.05


@given(st.floats(0, 1), st.floats(0, 1))
def test_more_hits_gain_more(one: float, other: float) -> None:
    low, high = (judged(Load(semantic_hit_share=h)).gain for h in sorted((one, other)))
    assert low is not None
    assert high is not None
    assert high.value >= low.value


def test_cached_prompts_as_a_price() -> None:
    """Half a prompt, read at a tenth: at most 45 % of input tokens; the second use pays for the write."""
    found = figures(judged(Load(prefix=Prefix(1000))))
    assert found["api_input_saving_share"] == pytest.approx(0.45)
    assert found["api_uses_to_pay"] == pytest.approx(1.15 / 0.9)
    assert figures(judged(Load()))["api_input_saving_share"] is None


@pytest.mark.parametrize(
    "given",
    [
        {"model": "gpt-oss-120b", "hw": "h100:1"},
        {"model": "8b", "hw": "mi300x:1"},
        {"model": "8b", "hw": "custom:80GB:2TB/s"},
        {"model": "8b", "hw": "rtx-4090:1", "engine": "llama.cpp", "weights": "q4_k_m", "batch": 1},
    ],
)
def test_it_needs_no_step_times(given: dict[str, object]) -> None:
    assert judged(Load(semantic_hit_share=0.4, traffic=Traffic(2.0)), **given).verdict == "use"


def test_a_model_that_does_not_fit() -> None:
    assert judged(Load(semantic_hit_share=0.4), hw="h100:1").verdict == "impossible"


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_bad_shares_are_named(share: float) -> None:
    with pytest.raises(InfoptError, match="--semantic-hits"):
        judged(Load(semantic_hit_share=share))


# --- images ---------------------------------------------------------------------------------------------------------


def test_image_tokens_lengthen_prompt_and_context() -> None:
    s = scenario(VISION, "l40s:1")
    with_images = with_image_tokens(s, 1200)
    assert (with_images.input_tokens, with_images.context_tokens) == (3200, 3500)
    assert with_images.decode_context_tokens == s.decode_context_tokens + 1200
    assert with_image_tokens(s, 0) is s
    assert memory_ledger(with_images).max_sequences < memory_ledger(s).max_sequences


def test_what_images_add() -> None:
    """1,200 of 3,200 tokens; 28 layers of 4 KV heads of 128, 2 bytes; an encoder of 677M parameters in 16 bits."""
    s = scenario(VISION, "l40s:1")
    situation = Situation(with_image_tokens(s, 1200), Load(image_tokens=1200))
    found = {figure.name: figure.value for figure in image_figures(situation)}
    assert found["image_prefill_flop"] == pytest.approx(prefill_flop(s.model, 3200) - prefill_flop(s.model, 2000))
    assert found["image_kv_bytes"] == pytest.approx(1200 * 2 * 28 * 4 * 128 * 2, rel=0.01)
    assert found["encoder_weights_bytes"] == 2 * s.model.extra_params["vision"]
    assert found["sequences_lost_to_images"] == memory_ledger(s).max_sequences - situation.memory.max_sequences
    assert found["image_prompt_s"] > 0
    assert set(found) <= set(figures(TECHNIQUE.judge(situation)))
    assert not list(image_figures(Situation(s, Load())))


@pytest.mark.parametrize(("model", "tokens", "text_only"), [("8b", 100, False), (VISION, -1, False), (VISION, 1, True)])
def test_images_a_model_cannot_take(model: str, tokens: int, text_only: bool) -> None:
    with pytest.raises(InfoptError, match="--image-tokens"):
        with_image_tokens(scenario(model, "l40s:1", text_only=text_only), tokens)
