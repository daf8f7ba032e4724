"""Paged KV: waste by hand, hybrids' large blocks, shared prefixes, document 3's claim; flips that are roots."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.boundaries.load import Load, Prefix, Traffic
from infopt.boundaries.paged_kv import RESERVED, TECHNIQUE, judge, room, whole_blocks
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement, Verdict
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.paging import LayerKind
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build


def situation(model: str, hw: str, load: Load | None = None, **request: object) -> Situation:
    given = {"input_tokens": 2000, "output_tokens": 300, "context_tokens": 8192, "batch": 64, **request}
    scenario = build(resolve_model(model), resolve_hardware(hw), Request(**given)).scenario  # type: ignore[arg-type]
    return Situation(scenario, load)


def figures(judgement: Judgement) -> dict[str, float | None]:
    return {figure.name: figure.value for figure in judgement.figures}


def verdict(situation: Situation) -> Verdict:
    return judge(situation).verdict


@given(st.integers(1, 300), st.integers(1, 64), st.one_of(st.none(), st.integers(1, 200)))
def test_mean_pages_against_a_count(context: int, block: int, window: int | None) -> None:
    """Lengths of one block's range from `context` on, windows ending anywhere: the mean of what each holds."""
    kind = LayerKind(1, 1.0, block, window)
    held = []
    for end in range(context, context + block):
        first = 0 if window is None else max(0, end - window)
        held.append((end - 1) // block - first // block + 1)
    mean = sum(held) / block
    found = kind.mean_pages(context + (block - 1) / 2)
    if window is None or context >= window:
        assert found >= mean - 1e-9
    if window is None:
        assert found == pytest.approx(mean)
    elif context >= window:
        assert found == pytest.approx(mean, abs=(block - 1) / 2 / block + 1e-9)


def test_sequences_by_hand() -> None:
    """Llama 70B: 327,680 bytes a token over 4 devices; 8,192 reserved against 2,150 and 7.5 of rounding held."""
    here = situation("70b", "h100:4")
    per_token, pool = 327680 / 4, here.memory.kv_pool_bytes_per_gpu
    found = judge(here)
    assert figures(found)["sequences_reserved"] == pool // (8192 * per_token)
    held = (2150 + 7.5) * per_token
    null = here.memory.layout.null_blocks * 16 * per_token
    assert figures(found)["sequences_paged"] == (pool - null) // held
    assert found.verdict == "use"
    assert found.gain is not None
    assert found.gain.value == pytest.approx(((pool - null) // held) / (pool // (8192 * per_token)))
    assert found.gain.metric == "sequences"
    assert figures(found)["reserved_waste_share"] == pytest.approx(1 - 2150 / 8192)
    assert figures(found)["rounding_share"] == pytest.approx(7.5 / 2157.5)


def test_claim_of_document_3() -> None:
    """The Azure trace in 4,096 tokens: 1,366 used at the end of a request is 3x, as in the claims; 1,260 on average."""
    here = situation("70b", "h100:4", input_tokens=1155, output_tokens=211, context_tokens=4096, batch=128)
    found = judge(here)
    assert found.gain is not None
    assert found.gain.low == pytest.approx(3.0, rel=0.02)
    assert found.gain.value == pytest.approx(4096 / (1260.5 + 7.5), rel=0.02)
    assert figures(found)["reserved_for_2x_tokens"] == pytest.approx(2 * (1260.5 + 7.5), abs=1)
    assert figures(found)["reserved_for_4x_tokens"] == pytest.approx(4 * (1260.5 + 7.5), abs=1)
    assert found.rule is not None
    assert (found.rule.document, found.rule.says) == (3, "use")


def test_buffers_that_are_no_longer_than_the_requests() -> None:
    found = judge(situation("70b", "h100:4", context_tokens=2300, batch=256))
    assert found.verdict == "limited"
    assert found.gain is not None
    assert 1.03 < found.gain.value < 1.1
    assert "3 in buffers of all 131,072 positions" in found.reason


def test_batch_that_fits_either_way() -> None:
    found = judge(situation("70b", "h100:4", batch=8))
    assert found.verdict == "limited"
    assert "fits either way" in found.reason


def test_blocks_of_a_hybrid_round_up() -> None:
    """Qwen3-Next: blocks of 1,056 tokens, so that short requests hold more than buffers would."""
    short = judge(situation("qwen3-next-80b-a3b", "h200:2", context_tokens=2300, batch=1024))
    assert figures(short)["block_tokens"] == 1056
    assert (figures(short)["rounding_share"] or 0) > 0.05
    assert short.gain is not None
    assert short.gain.value < 1
    assert short.verdict == "skip"
    assert "round up more than they save" in short.reason
    dense = judge(situation("70b", "h100:4"))
    assert (figures(dense)["rounding_share"] or 0) < 0.01


def test_windows_cap_what_buffers_waste() -> None:
    """gpt-oss: half of its layers keep 128 tokens, so buffers must be longer for the same gain."""
    here, dense = room(situation("gpt-oss-120b", "h100:1")), room(situation("70b", "h100:4"))
    assert here.reserved_bytes / here.logical_bytes < dense.reserved_bytes / dense.logical_bytes


def test_shared_prefixes_are_held_once() -> None:
    """1,500 tokens are 93 blocks of 16; ten prefixes held once leave the rest to what is not shared."""
    load = Load(prefix=Prefix(shared_tokens=1500, prefixes=10))
    here = situation("70b", "h100:4", load, batch=512)
    per_token = 327680 / 4
    usable = here.memory.kv_pool_bytes_per_gpu - here.memory.layout.null_blocks * 16 * per_token
    common = 93 * 16 * per_token
    by_hand = (usable - 10 * common) // ((2150 + 7.5) * per_token - common)
    assert figures(judge(here))["sequences_shared"] == by_hand
    assert whole_blocks(1500, 16) == 1488
    without = judge(situation("70b", "h100:4", batch=512)).gain
    shared = judge(here).gain
    assert without is not None
    assert shared is not None
    assert shared.value > 2 * without.value


def test_prefix_shorter_than_a_block_is_not_shared() -> None:
    load = Load(prefix=Prefix(shared_tokens=1000))
    found = judge(situation("qwen3-next-80b-a3b", "h200:2", load))
    assert figures(found)["shared_bytes"] == 0
    assert figures(found)["sequences_shared"] == figures(found)["sequences_paged"]


@given(st.integers(0, 2000), st.integers(1, 400))
@settings(max_examples=20)
def test_more_sharing_never_holds_fewer(shared: int, more: int) -> None:
    def sequences(tokens: int) -> float:
        prefix = Prefix(shared_tokens=min(2000, tokens), prefixes=3)
        return room(situation("8b", "h100:1", Load(prefix=prefix))).shared

    assert sequences(shared + more) >= sequences(shared)


def test_spread_answers_hold_more() -> None:
    """Long answers are met more often: ISL + OSL (1 + 1) / 2 with a spread of one."""
    found = judge(situation("70b", "h100:4", Load(traffic=Traffic(output_spread=1.0))))
    assert figures(found)["held_tokens"] == 2300
    assert figures(judge(situation("70b", "h100:4")))["held_tokens"] == 2150


def test_llama_cpp_splits_its_context() -> None:
    found = judge(situation("8b", "rtx-4090:1", engine="llama.cpp", weights="q4_k_m", batch=2))
    assert found.verdict == "impossible"
    assert "-np" in found.reason
    assert any("--kv-unified" in cost for cost in found.costs)


def test_model_without_keys_and_values() -> None:
    found = judge(situation("state-spaces/mamba-2.8b-hf", "h100:1"))
    assert found.verdict == "skip"
    assert "only a state" in found.reason


def test_does_not_fit() -> None:
    found = judge(situation("70b", "h100:1"))
    assert (found.verdict, found.gain) == ("skip", None)
    assert figures(found)["sequences_paged"] == 0


@pytest.mark.parametrize(
    ("model", "hw"), [("8b", "a100-sxm-80gb"), ("70b", "mi300x"), ("deepseek-v3", "h200:8"), ("gpt-oss-120b", "h100:1")]
)
def test_other_models_and_devices(model: str, hw: str) -> None:
    found = judge(situation(model, hw, batch=512))
    assert found.verdict == "use"
    assert found.gain is not None
    assert 1 < found.gain.low <= found.gain.value <= 4.5


def test_what_it_does_not_solve_is_said() -> None:
    assert sum(cost.startswith("not solved by it") for cost in judge(situation("70b", "h100:4")).costs) == 3


@given(st.integers(2400, 100000), st.floats(1.01, 2.0))
@settings(max_examples=20)
def test_gain_grows_with_what_is_reserved(reserved: int, factor: float) -> None:
    here = situation("8b", "h100:1", batch=4096)
    less, more = (judge(RESERVED.set(here, value)).gain for value in (reserved, min(131072, reserved * factor)))
    assert less is not None
    assert more is not None
    assert more.value >= less.value


@pytest.mark.parametrize("quantity", TECHNIQUE.quantities, ids=lambda quantity: quantity.name)
@pytest.mark.parametrize(("model", "hw", "context"), [("70b", "h100:4", 2300), ("gpt-oss-120b", "h100:1", 8192)])
def test_flips_are_roots(quantity: object, model: str, hw: str, context: int) -> None:
    here = situation(model, hw, context_tokens=context, batch=256)
    found = break_evens(verdict, quantity, here)  # type: ignore[arg-type]
    assert found
    for flip in found:
        if flip.value is not None:
            assert verdict(quantity.set(here, flip.value - 1)) == flip.below  # type: ignore[attr-defined]
            assert verdict(quantity.set(here, flip.value)) == flip.above  # type: ignore[attr-defined]


def test_prefix_longer_than_the_prompt_is_the_prompt() -> None:
    longer, whole = (room(situation("8b", "h100:1", Load(prefix=Prefix(shared_tokens=n)))) for n in (4000, 2000))
    assert longer.shared == whole.shared


def test_bad_input() -> None:
    with pytest.raises(InfoptError, match="--shared-prefix"):
        judge(situation("8b", "h100:1", Load(prefix=Prefix(shared_tokens=-1))))
