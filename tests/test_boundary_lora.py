"""LoRA: slots by hand and as an engine printed them, what they take from the cache, what they save."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import DENSE, GIB, attention, latent, recurrent

from infopt.boundaries import lora
from infopt.boundaries.load import Adapters, Load
from infopt.boundaries.registry import judge, technique
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers import lora as ledger
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build


def situation(name: str, hardware: str, load: Load | None = None, **request: Any) -> Situation:
    request = {"input_tokens": 1000, "output_tokens": 300} | request
    return Situation(build(resolve_model(name), resolve_hardware(hardware), Request(**request)).scenario, load)


def asked(slots: int | None = None, rank: int | None = None, models: int | None = None) -> Load:
    return Load(adapters=Adapters(slots, rank, models))


def figure(judgement: Judgement, name: str) -> float:
    value = next(f.value for f in judgement.figures if f.name == name)
    assert value is not None
    return value


EIGHT = situation("8b", "h100:1", batch=16)


def test_an_adapter_of_8b_by_hand() -> None:
    # q 4096+4096, k and v 4096+1024, o 4096+4096, gate, up and down 4096+14336 each; 32 layers
    width = 32 * (2 * 8192 + 2 * 5120 + 3 * 18432)
    assert ledger.adapter_width(EIGHT.scenario, False) == width == ledger.rank_width(EIGHT.scenario, False)
    found = lora.judge(EIGHT.changed(load=asked(8, 16)))
    assert figure(found, "adapter_bytes") == 16 * width * 2
    assert figure(found, "slots_bytes") == 8 * 16 * width * 2


def test_halves_that_tensor_parallelism_does_not_split() -> None:
    # tp 4: A of q, k, v, gate, up whole (5 x 4096), B split; A of o, down split, B whole (2 x 4096)
    split = (4096 + 1024 + 1024 + 2 * 14336) / 4 + (4096 + 14336) / 4
    layer = ledger.mixer_width(attention(), 4096, 4) + ledger.feed_forward_width(DENSE, 4096, 4, False)
    assert layer.rank_elements == 7 * 4096 + split


def test_keys_are_split_no_further_than_their_heads() -> None:
    eight, sixteen = (ledger.mixer_width(attention(kv_heads=4, q_heads=32), 4096, tp).rank_elements for tp in (4, 16))
    # q: B 4096 / tp; k, v: B 512 / 4 whatever tp is; o: A 4096 / tp
    assert eight - sixteen == pytest.approx(2 * 4096 * (1 / 4 - 1 / 16))


def test_slots_as_vllm_printed_them() -> None:
    # vllm pull 28761: Qwen3-30B-A3B at tp 4, 16 slots of rank 32, not fully sharded: 53.9761 GiB loaded a rank
    s = situation("qwen3-30b-a3b", "h100:4", tp=4)
    slots = ledger.slots_bytes(ledger.rank_width(s.scenario, True), 16, 32)
    assert (slots + s.memory.weights_bytes_per_gpu) / GIB == pytest.approx(53.9761, rel=0.005)


def test_latent_attention_by_hand() -> None:
    s = situation("deepseek-v3", "h200:8").scenario
    mixer = s.model.groups[0].mixer
    down = (7168 + 1536) + (7168 + 576)
    up = (1536 + 128 * 192) + (512 + 128 * 256)
    out = 128 * 128 + 7168
    assert ledger.mixer_width(mixer, 7168, 1).whole_elements == down + up + out
    # without a query projection of low rank there is one of full width
    small = latent(q_heads=16)
    assert ledger.mixer_width(small, 4096, 2).rank_elements > 0


def test_recurrent_layers_have_a_way_in_and_out() -> None:
    width = ledger.mixer_width(recurrent(), 4096, 1)
    assert width.whole_elements == 2 * 4096 + 20_000_000 / 4096


def test_no_adapters_no_gain() -> None:
    found = lora.judge(EIGHT)
    assert found.verdict == "skip"
    assert "--adapters" in found.reason
    assert figure(found, "largest_slots") > 100


def test_one_adapter_is_merged() -> None:
    assert lora.judge(EIGHT.changed(load=asked(1, 16))).verdict == "skip"


def test_eight_models_on_one_base() -> None:
    found = lora.judge(EIGHT.changed(load=asked(8, 16)))
    assert found.verdict == "use"
    assert figure(found, "separate_gpus") == 8
    assert figure(found, "weights_saved_bytes") == 7 * EIGHT.memory.stored_weights_bytes
    assert found.gain is not None
    assert found.gain.low <= found.gain.value <= found.gain.high < 8


def test_slowdown_lies_in_what_was_measured() -> None:
    # vllm pull 15655: Llama-3.1-8B loses 8 to 24 % with adapters
    found = lora.judge(situation("8b", "h100:1", asked(8, 16), batch=1))
    assert 0.76 < figure(found, "tpot_s") / figure(found, "tpot_after_s") < 0.92


def test_slots_take_the_pool() -> None:
    found = lora.judge(EIGHT.changed(load=asked(8, 16)))
    lost = figure(found, "kv_tokens_lost")
    assert lost == pytest.approx(figure(found, "slots_bytes") / 131072, abs=16)
    crowded = EIGHT.changed(load=asked(600, 16), batch=100)
    assert lora.judge(crowded).verdict == "limited"
    assert lora.judge(EIGHT.changed(load=asked(2000, 16))).verdict == "impossible"


def test_largest_slots_is_where_the_batch_loses_its_cache() -> None:
    most = int(figure(lora.judge(EIGHT.changed(load=asked(8, 16))), "largest_slots"))
    assert lora.judge(EIGHT.changed(load=asked(most, 16))).verdict == "use"
    assert lora.judge(EIGHT.changed(load=asked(most + 1, 16))).verdict == "limited"


def test_a_rank_between_takes_the_next_one() -> None:
    found = lora.judge(EIGHT.changed(load=asked(4, 48)))
    assert figure(found, "reserved_rank") == 64
    # vllm issue 2847: rank 64 at the default limit of 16 is refused
    assert any("default of 16" in cost for cost in found.costs)
    assert not any("default of 16" in cost for cost in lora.judge(EIGHT.changed(load=asked(4, 16))).costs)


def test_routed_experts_have_slots_of_their_own() -> None:
    found = lora.judge(situation("gpt-oss-120b", "h100:1", asked(8, 16)))
    assert found.verdict == "impossible"
    assert "experts" in found.reason
    newer = lora.judge(situation("gpt-oss-120b", "h100:1", asked(8, 16), engine_version="0.32.0"))
    assert newer.verdict == "limited"
    assert "without (target modules)" in newer.reason
    # before 0.11.1 experts were not adapted
    old = lora.judge(situation("gpt-oss-120b", "h100:1", asked(8, 16), engine_version="0.10.2"))
    assert figure(old, "slots_bytes") < figure(found, "slots_bytes") / 20
    assert any("not adapted" in cost for cost in old.costs)


def test_expert_parallelism_blocks_adapters() -> None:
    spread = situation("deepseek-v3", "h200:8", asked(2, 16), ep=8)
    assert judge(technique("lora"), spread).verdict == "impossible"


def test_waiting_adapters_are_copied() -> None:
    found = lora.judge(EIGHT.changed(load=asked(8, 16, 40)))
    assert figure(found, "separate_gpus") == 40
    assert figure(found, "swap_s") == pytest.approx(figure(found, "adapter_bytes") / (0.83 * 63.015e9))


def test_llama_cpp_holds_every_adapter() -> None:
    request = {"engine": "llama.cpp", "weights": "q4_k_m"}
    found = lora.judge(situation("8b", "rtx-4090:1", asked(4, 16, 20), **request))
    assert figure(found, "slots") == 20
    assert any("batch splits" in cost for cost in found.costs)


def test_break_evens_are_roots() -> None:
    here = EIGHT.changed(load=asked(8, 16))

    def verdict(other: Situation) -> Any:
        return lora.judge(other).verdict

    for quantity in (lora.ADAPTERS, *lora.TECHNIQUE.quantities[2:]):
        flips = break_evens(verdict, quantity, here)
        assert [f.value for f in flips] != [None], quantity.name
        for flip in flips:
            assert flip.value is not None
            assert verdict(quantity.set(here, flip.value - 1)) == flip.below != flip.above
            assert verdict(quantity.set(here, flip.value)) == flip.above


@settings(max_examples=20)
@given(st.integers(2, 300), st.integers(1, 512))
def test_more_slots_or_rank_never_leave_more_sequences(slots: int, rank: int) -> None:
    one = lora.judge(EIGHT.changed(load=asked(slots, rank)))
    more = lora.judge(EIGHT.changed(load=asked(slots + 1, min(512, rank + 16))))
    assert figure(more, "max_sequences_after") <= figure(one, "max_sequences_after")


def test_what_does_not_fit() -> None:
    assert lora.judge(situation("70b", "h100:1", asked(4, 16))).verdict == "impossible"


@pytest.mark.parametrize("hardware", ["a100-sxm-80gb:1", "mi300x:1"])
def test_lent_constants_still_tell(hardware: str) -> None:
    assert lora.judge(situation("8b", hardware, asked(8, 16))).verdict == "use"


@pytest.mark.parametrize(
    ("load", "option"),
    [
        (asked(0, 16), "--adapters"),
        (asked(4, -1), "--rank"),
        (asked(4, 16, 0), "--adapters-total"),
        (asked(8, 16, 4), "--adapters-total"),
        (asked(4, 1024), "--rank"),
    ],
)
def test_bad_input_names_the_option(load: Load, option: str) -> None:
    with pytest.raises(InfoptError, match=option):
        lora.judge(EIGHT.changed(load=load))


def test_in_use_slots_lie_beside_the_weights() -> None:
    used = lora.apply(EIGHT.changed(load=asked(None, 16)), "8")
    assert used.memory.max_sequences == figure(lora.judge(EIGHT.changed(load=asked(8, 16))), "max_sequences_after")
    assert used.used == ("lora",)
    assert lora.apply(EIGHT, "").scenario.extra_bytes_per_gpu == 16 * ledger.rank_width(EIGHT.scenario, False) * 2
    with pytest.raises(InfoptError, match="number"):
        lora.apply(EIGHT, "many")
