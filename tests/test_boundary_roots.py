"""Every technique in random situations: break-evens are roots, answers are whole, bad ground is named."""

import math
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infopt.boundaries.conflicts import Conflict
from infopt.boundaries.deciding import by_gain, plain_verdict
from infopt.boundaries.load import Adapters, Draft, Load, Offload, Prefix, Targets, Traffic
from infopt.boundaries.quantities import BATCH, CONTEXT, Quantity
from infopt.boundaries.registry import bounded, judge, technique, techniques
from infopt.boundaries.roots import BESIDE, break_evens, grid
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import checked_curve, interpolated, steps_of, variants
from infopt.boundaries.technique import VERDICTS, BreakEven, Gain, Verdict
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.estimate import Estimate, estimate
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build

PLACES = (
    ("70b", "h100:4", "vllm"),
    ("8b", "l40s:1", "vllm"),
    ("8b", "a100-sxm-80gb:1", "vllm"),
    ("gpt-oss-120b", "h100:1", "vllm"),
    ("deepseek-v3", "h200:8", "sglang"),
    ("8b", "rtx-4090:1", "llama.cpp"),
    ("mixtral-8x7b", "mi300x:2", "vllm"),
    ("70b", "b200:2", "tensorrt-llm"),
)


@cache
def scenario(place: int, batch: int, isl: int, osl: int) -> Scenario:
    model, hw, engine = PLACES[place]
    request = Request(input_tokens=isl, output_tokens=osl, batch=batch, engine=engine)
    return build(resolve_model(model), resolve_hardware(hw), request).scenario


scenarios = st.builds(
    scenario,
    st.integers(0, len(PLACES) - 1),
    st.sampled_from((1, 3, 8, 64, 256)),
    st.sampled_from((100, 2000, 16000)),
    st.sampled_from((64, 300, 1000)),
)
maybe_share = st.none() | st.floats(0.05, 0.95)
loads = st.builds(
    Load,
    traffic=st.builds(Traffic, st.none() | st.floats(0.05, 50), st.none() | st.floats(0, 2)),
    prefix=st.builds(
        Prefix,
        shared_tokens=st.none() | st.integers(1, 4000),
        prefixes=st.none() | st.integers(1, 500),
        skew=st.none() | st.floats(0, 1.5),
    ),
    draft=st.builds(
        Draft,
        method=st.sampled_from((None, "ngram", "eagle")),
        drafted_tokens=st.none() | st.integers(1, 8),
        acceptance=maybe_share,
    ),
    offload=st.builds(Offload, reuse_share=maybe_share),
    adapters=st.builds(Adapters, st.none() | st.integers(1, 64), st.none() | st.sampled_from((8, 16, 64))),
    targets=st.builds(Targets, st.none() | st.floats(0.005, 0.2), st.none() | st.floats(0.1, 5)),
    semantic_hit_share=maybe_share,
)
situations = st.builds(Situation, scenarios, loads)
every_technique = pytest.mark.parametrize("id", [t.id for t in techniques()])


def verdict_with(id: str, quantity: Quantity, situation: Situation, value: float) -> Verdict:
    try:
        return judge(technique(id), quantity.set(situation, value)).verdict
    except InfoptError:
        return "impossible"


@every_technique
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(situation=situations)
def test_every_break_even_is_a_root(id: str, situation: Situation) -> None:
    found = bounded(technique(id), situation)
    for quantity in technique(id).quantities:
        own = [flip for flip in found.break_evens if flip.quantity == quantity.name]
        assert own
        for flip in own:
            if flip.value is None:
                assert len(own) == 1
                assert {verdict_with(id, quantity, situation, v) for v in _grid(quantity, situation)} == {flip.below}
                continue
            assert flip.low <= flip.value <= flip.high
            assert flip.below != flip.above
            before = flip.value - 1 if quantity.whole else max(flip.low, flip.value * (1 - BESIDE))
            after = flip.value if quantity.whole else min(flip.high, flip.value * (1 + BESIDE))
            assert verdict_with(id, quantity, situation, before) == flip.below
            assert verdict_with(id, quantity, situation, after) == flip.above


def _grid(quantity: Quantity, situation: Situation) -> list[float]:
    return grid(quantity, quantity.low, max(quantity.low, quantity.high(situation)), quantity.get(situation))


@every_technique
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(situation=situations)
def test_answers_are_whole(id: str, situation: Situation) -> None:
    answer = judge(technique(id), situation)
    assert answer.verdict in VERDICTS
    assert answer.reason
    assert "\n" not in answer.reason
    if answer.gain is not None:
        assert answer.gain.low <= answer.gain.value <= answer.gain.high
        assert answer.gain.low > 0
    for figure in answer.figures:
        assert figure.value is None or not math.isnan(figure.value)
    if answer.verdict == "measure":
        assert answer.settle, answer.reason
    if answer.rule is not None and answer.rule.says not in (None, answer.verdict):
        assert answer.rule.why, f"{answer.rule.text}: {answer.rule.says}, not {answer.verdict}: {answer.reason}"


@every_technique
def test_a_technique_in_use_leaves_a_situation_that_can_be_judged(id: str) -> None:
    of = technique(id)
    if of.apply is None:
        return
    load = Load(
        prefix=Prefix(shared_tokens=1000),
        draft=Draft(method="ngram", drafted_tokens=4, acceptance=0.7),
        traffic=Traffic(rate_per_s=2.0),
    )
    start = Situation(scenario(0, 8, 2000, 300), load)
    after = of.apply(start, "")
    assert of.id in after.used
    for other in techniques():
        assert judge(other, after).verdict in VERDICTS


def test_a_band_has_both_edges() -> None:
    def by_batch(situation: Situation) -> Verdict:
        batch = situation.scenario.batch
        return "skip" if batch < 100 else "limited" if batch < 103 else "use"

    flips = break_evens(by_batch, BATCH, Situation(scenario(0, 8, 2000, 300)))
    assert [(f.value, f.below, f.above) for f in flips] == [(100, "skip", "limited"), (103, "limited", "use")]


def test_none_in_range_is_an_answer() -> None:
    flips = break_evens(lambda _: "use", CONTEXT, Situation(scenario(0, 8, 2000, 300)))
    assert flips == (BreakEven("context", None, "tokens", 2300.0, "use", "use", 2, 131072.0),)


def test_no_root_where_the_verdict_flips_back_at_once() -> None:
    share = Quantity(
        "share", "share", False, 0.0, lambda _: 1.0, lambda _: None, lambda s, v: s.changed(cached_tokens=v)
    )

    def spike(situation: Situation) -> Verdict:
        return "use" if abs(situation.cached_tokens - 0.5) < 1e-4 else "skip"

    flips = break_evens(spike, share, Situation(scenario(0, 8, 2000, 300)))
    assert [f.value for f in flips] == [None]


@settings(max_examples=30)
@given(s=scenarios)
def test_a_step_of_one_token_is_the_estimate(s: Scenario) -> None:
    expected = estimate(s, memory_ledger(s), bandwidth_ledger(s))
    situation = Situation(s)
    if isinstance(expected, Estimate):
        assert situation.steps.basis == "estimate"
        assert situation.tpot_s() == pytest.approx(expected.tpot_s, rel=1e-6)
        short, long = (situation.tpot_s(steps) for steps in variants(situation.steps))
        assert short == pytest.approx(expected.tpot_low_s, rel=1e-6)
        assert long == pytest.approx(expected.tpot_high_s, rel=1e-6)


@settings(max_examples=30)
@given(s=scenarios, tokens=st.integers(1, 16))
def test_more_tokens_never_shorten_a_step(s: Scenario, tokens: int) -> None:
    steps = steps_of(s)
    now, more = (steps.step_s(s.sharing_batch, s.decode_context_tokens, n) for n in (tokens, tokens + 1))
    assert more >= now >= bandwidth_ledger(s).step_floor_s * (1 - 1e-9)


def test_a_measured_curve_stands_for_the_steps() -> None:
    curve = checked_curve([(4, 0.026), (1, 0.025), (2, 0.029), (8, 0.036), (16, 0.0545)])
    steps = steps_of(scenario(0, 8, 2000, 300), curve=curve)
    assert steps.basis == "curve"
    assert steps.step_s(4, 2000) == 0.026
    # 12 tokens of 4 sequences: what 12 sequences take, less the keys and values of the 8 that are not there.
    shared_s = sum(stage.kv_bytes(8, 2000) for stage in steps.stages) / steps.scenario.accelerator.bandwidth_bytes_per_s
    assert 0 < shared_s < 0.01
    assert steps.step_s(4, 2000, 3) == pytest.approx(0.036 + (0.0545 - 0.036) / 2 - shared_s)
    assert interpolated(curve, 24) == pytest.approx(0.0545 + 0.0185)
    assert interpolated(curve, 0.5) == 0.025


@pytest.mark.parametrize("points", [[], [(1, 0.1), (1, 0.2)], [(1, 0.0)], [(0, 0.1)]])
def test_bad_curves_are_refused(points: list[tuple[float, float]]) -> None:
    with pytest.raises(InfoptError, match="step curve"):
        checked_curve(points)


def test_verdicts_by_gain_and_ground() -> None:
    assert [plain_verdict(ratio) for ratio in (1.2, 1.1, 1.05, 1.02, 0.5)] == ["use", "use", "limited", "skip", "skip"]
    wide = Gain(1.2, 1.0, 1.3, "tpot")
    assert by_gain(wide, "estimate") == "use"
    assert by_gain(wide, "assumed") == "measure"
    assert by_gain(wide, "floor") == "measure"
    assert by_gain(Gain(1.01, 1.0, 1.01, "tpot"), "floor") == "skip"


def test_a_conflict_holds_where_everything_it_names_is_so() -> None:
    s = scenario(0, 8, 2000, 300)
    here = Situation(s, Load(draft=Draft(method="ngram")), used=("kv-quantization",))

    def holds(**given: object) -> bool:
        return Conflict.model_validate({"technique": "x", "text": "t", "source": "s"} | given).holds(here)

    assert holds()
    assert holds(engine="vllm", since="0.1", until="99", used="kv-quantization", method="ngram", parallel="tp")
    assert not holds(engine="sglang")
    assert not holds(until="0.1")
    assert not holds(since="99")
    assert not holds(used="speculative")
    assert not holds(method="mtp")
    assert not holds(parallel="pp")
    assert not holds(capability_below=9.0)
    assert holds(capability_below=9.1)
    assert not holds(mixture=True)
    assert not holds(weights=["fp8"])
