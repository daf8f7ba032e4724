"""Chunked prefill: the step with a chunk by hand, against a server, under targets; flips that are roots."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.boundaries.chunked_prefill import (
    CHUNK,
    TECHNIQUE,
    default_tokens,
    itl_s,
    judge,
    largest_chunk,
    ridge_tokens,
    ttft_s,
)
from infopt.boundaries.load import Load, Targets
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement, Verdict
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build

INTERACTIVE = Load(targets=Targets(tpot_s=0.05))


def situation(model: str, hw: str, load: Load | None = None, **request: object) -> Situation:
    given = {"input_tokens": 2000, "output_tokens": 300, "batch": 8, **request}
    scenario = build(resolve_model(model), resolve_hardware(hw), Request(**given)).scenario  # type: ignore[arg-type]
    return Situation(scenario, load)


def figures(judgement: Judgement) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in judgement.figures}


def verdict(situation: Situation) -> Verdict:
    return judge(situation).verdict


def test_step_with_a_chunk_by_hand() -> None:
    """Dense: the decode step, and the chunk's work beyond what runs while weights are read."""
    here = situation("70b", "h100:4", batch=9)
    steps, c = here.steps, here.steps.constants
    assert c is not None
    assert steps.shape is not None
    peak = 4 * 989e12
    weights_s = c.traffic_ratio * here.bandwidth.weight_bytes_per_step / (4 * 3.35e12)
    spare_s = weights_s - 8 * 2 * here.scenario.model.params_active / peak * c.prefill_ratio
    work_s = steps.prompt_s(2000, 2000 - 1024)
    assert work_s > spare_s
    assert itl_s(here, steps, 1024) == pytest.approx(steps.step_s(8, 2150) + work_s - spare_s, rel=1e-3)


def test_small_chunks_hide_behind_the_weights() -> None:
    here = situation("70b", "h100:4")
    assert itl_s(here, here.steps, 16) == pytest.approx(here.steps.step_s(7, 2150))


def test_measured_server_with_two_prompts_in_a_step() -> None:
    """vLLM 0.32 on a CPU, budget 2,048, prompts of 1,088, 8 clients: p99 of ITL 3.4 s.

    Prompts of 256 and 1,024 take 0.33 and 1.64 s there; a step of 2,048 tokens holds two prompts.
    """
    curve = ((1.0, 0.0251), (8.0, 0.0359), (16.0, 0.0545), (256.0, 0.33), (1024.0, 1.64))
    asked = situation("8b", "h100:1", input_tokens=1088, output_tokens=32, max_num_batched_tokens=2048)
    here = asked.changed(curve=curve)
    assert itl_s(here, here.steps, default_tokens(here)) == pytest.approx(3.4, rel=0.03)


def test_ridge_of_a_dense_model() -> None:
    """16-bit weights: 2 bytes for 2 FLOP, so the peak over the bandwidth, 989 / 3.35 (and norms on every rank)."""
    assert ridge_tokens(situation("70b", "h100:4")) == pytest.approx(989e12 / 3.35e12, rel=1e-3)
    # One of 32 experts is used by a token: the units fill later.
    assert (ridge_tokens(situation("deepseek-v3", "h200:8")) or 0) > 3000


def test_ttft_of_chunks() -> None:
    """Four chunks of 500: the same work four times over a step of the others, less what hides in it."""
    here = situation("70b", "h100:4")
    step_s, whole = here.steps.step_s(7, 2150), ttft_s(here, here.steps, 2000)
    parts = ttft_s(here, here.steps, 500)
    assert whole < parts < whole + 3 * step_s
    assert ttft_s(here, here.steps, 9999) == whole


def test_prompts_that_fit_a_chunk_gain_nothing() -> None:
    found = judge(situation("70b", "h100:4"))
    assert found.verdict == "skip"
    assert found.gain is not None
    assert (found.gain.value, found.gain.metric) == (1.0, "itl")
    assert "--tpot" in found.reason


def test_long_prompts() -> None:
    found = judge(situation("70b", "h100:4", input_tokens=32000))
    assert found.verdict == "use"
    assert found.gain is not None
    # Four chunks: nearly a quarter of the work, and the last one attends to all before it.
    assert 3 < found.gain.value < 4
    assert any("4 chunks" in cost for cost in found.costs)


def test_target_picks_the_chunk() -> None:
    here = situation("70b", "h100:4", INTERACTIVE)
    found = judge(here)
    chunk = int(figures(found)["chunk_tokens"] or 0)
    assert found.verdict == "use"
    assert chunk == figures(found)["largest_chunk_tokens"]
    assert itl_s(here, here.steps, chunk) <= 0.05 < itl_s(here, here.steps, chunk + 1)
    assert any(f"budget of {chunk + 7:,}" in cost for cost in found.costs)


@given(st.floats(0.02, 0.5), st.floats(1.0, 3.0))
@settings(max_examples=20)
def test_chunk_grows_with_the_target(target_s: float, factor: float) -> None:
    here = situation("8b", "h100:1")
    tight = largest_chunk(here, here.steps, target_s)
    assert largest_chunk(here, here.steps, target_s * factor) >= tight
    assert tight == 0 or itl_s(here, here.steps, tight) <= target_s


def test_chunk_asked_for_misses_the_target() -> None:
    found = judge(situation("70b", "h100:4", Load(targets=Targets(tpot_s=0.05), chunk_tokens=2048)))
    assert found.verdict == "limited"
    assert "the target allows" in found.reason


def test_chunks_too_small_for_the_batch() -> None:
    """64 sequences of 2,000 in and 300 out bring 64 x 2000 / 300 = 427 prompt tokens a step."""
    found = judge(situation("70b", "h100:4", Load(chunk_tokens=256), batch=64))
    assert found.verdict == "limited"
    assert figures(found)["needed_chunk_tokens"] == pytest.approx(64 * 2000 / 300)
    assert "427 prompt tokens a step" in found.reason
    assert verdict(situation("70b", "h100:4", Load(chunk_tokens=512), batch=64)) == "use"


def test_ttft_target_limits() -> None:
    targets = Targets(tpot_s=0.05, ttft_s=0.14)
    found = judge(situation("70b", "h100:4", Load(targets=targets)))
    assert found.verdict == "limited"
    assert "TTFT" in found.reason


def test_nothing_to_gain() -> None:
    assert "one sequence" in judge(situation("70b", "h100:4", INTERACTIVE, batch=1)).reason
    slow = judge(situation("70b", "h100:4", Load(targets=Targets(tpot_s=0.001))))
    assert slow.verdict == "skip"
    assert "no chunk is small enough" in slow.reason
    easy = judge(situation("8b", "h100:1", Load(targets=Targets(tpot_s=5.0))))
    assert easy.verdict == "skip"
    assert "even with whole prompts" in easy.reason


def test_versions() -> None:
    old = judge(situation("8b", "h100:1", INTERACTIVE, engine_version="0.3.0"))
    assert old.verdict == "impossible"
    between = judge(situation("8b", "h100:1", INTERACTIVE, engine_version="0.6.0"))
    assert any("--enable-chunked-prefill" in cost for cost in between.costs)
    today = judge(situation("8b", "h100:1", INTERACTIVE))
    assert not any("--enable-chunked-prefill" in cost for cost in today.costs)
    other = judge(situation("8b", "h100:1", INTERACTIVE, engine="tensorrt-llm"))
    assert any("enable_chunked_prefill" in cost for cost in other.costs)


@pytest.mark.parametrize("hw", ["a100-sxm-80gb", "mi300x"])
def test_lent_constants_leave_a_band_to_measure(hw: str) -> None:
    here = situation("8b", hw, Load(targets=Targets(tpot_s=0.05)))
    flips = break_evens(verdict, CHUNK, here)
    assert ("use", "measure") in [(flip.below, flip.above) for flip in flips]


def test_does_not_fit() -> None:
    found = judge(situation("70b", "h100:1"))
    assert found.verdict == "skip"
    assert "not one sequence fits" in found.reason


def test_unknown_peak_must_be_measured() -> None:
    here = situation("8b", "custom:80GB:3.35TB/s")
    found = judge(here)
    assert found.verdict == "measure"
    assert "--step-curve" in found.settle
    curve = ((1.0, 0.01), (512.0, 0.03), (8192.0, 0.3))
    assert verdict(here.changed(curve=curve, load=INTERACTIVE)) == "use"


def test_llama_cpp_on_a_consumer_card() -> None:
    found = judge(situation("8b", "rtx-4090:1", engine="llama.cpp", weights="q4_k_m", batch=4))
    assert found.verdict == "use"
    assert figures(found)["chunk_tokens"] == 512 - 3


@pytest.mark.parametrize(("model", "hw"), [("gpt-oss-120b", "h100:1"), ("deepseek-v3", "h200:8")])
def test_mixtures(model: str, hw: str) -> None:
    found = judge(situation(model, hw, INTERACTIVE))
    assert found.verdict == "use"
    assert any("does not fill the units" in cost for cost in found.costs)


@pytest.mark.parametrize("quantity", TECHNIQUE.quantities, ids=lambda quantity: quantity.name)
@pytest.mark.parametrize("load", [Load(), INTERACTIVE], ids=["gain", "target"])
def test_flips_are_roots(quantity: object, load: Load) -> None:
    here = situation("70b", "h100:4", load, batch=64)
    found = break_evens(verdict, quantity, here)  # type: ignore[arg-type]
    assert found
    for flip in found:
        if flip.value is not None:
            assert verdict(quantity.set(here, flip.value - 1)) == flip.below  # type: ignore[attr-defined]
            assert verdict(quantity.set(here, flip.value)) == flip.above  # type: ignore[attr-defined]


def test_band_of_chunks_between_the_grid() -> None:
    """427 keep the batch full, the target allows a little more: both edges are found."""
    here = situation("70b", "h100:4", INTERACTIVE, batch=64)
    most = largest_chunk(here, here.steps, 0.05)
    flips = break_evens(verdict, CHUNK, here)
    assert [(flip.value, flip.above) for flip in flips] == [(427.0, "use"), (most + 1.0, "limited")]


@pytest.mark.parametrize(
    ("load", "option"),
    [
        (Load(chunk_tokens=0), "--chunk"),
        (Load(targets=Targets(tpot_s=-1.0)), "--tpot"),
        (Load(targets=Targets(ttft_s=0.0)), "--ttft"),
    ],
)
def test_bad_input(load: Load, option: str) -> None:
    with pytest.raises(InfoptError, match=option):
        judge(situation("8b", "h100:1", load))
