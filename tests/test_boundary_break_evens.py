"""The break-evens that are asked for by name, on one scenario, by other arithmetic than the techniques'.

Llama 3.1 70B in BF16 on 4 H100, 2,000 tokens in, 300 out, 64 at once. By hand: 80 layers x 2 x 8 heads x 128 x 2 bytes
are 327,680 bytes of KV cache a token, 81,920 on each of 4 devices; a token takes 2 x 69.5 billion FLOP.
"""

from dataclasses import replace
from functools import cache

import pytest

from infopt.boundaries.load import Adapters, Draft, Load, Offload, Prefix, Targets, Traffic
from infopt.boundaries.registry import bounded, technique
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build

PROMPT, ANSWER, BATCH = 2000, 300, 64
TOKEN_BYTES = 81_920  # on one device
FLOP = 2 * 69.5e9
NOTHING = Load()


@cache
def plain() -> Situation:
    request = Request(input_tokens=PROMPT, output_tokens=ANSWER, batch=BATCH)
    return Situation(build(resolve_model("70b"), resolve_hardware("h100:4"), request).scenario)


@cache
def answer(name: str, load: Load = NOTHING) -> Judgement:
    return technique(name).judge(plain().changed(load=load))


def figure(name: str, figure: str, load: Load = NOTHING) -> float:
    value = next(row.value for row in answer(name, load).figures if row.name == figure)
    assert value is not None
    return value


def flips(name: str, quantity: str, load: Load = NOTHING) -> list[float]:
    found = bounded(technique(name), plain().changed(load=load)).break_evens
    return [row.value for row in found if row.quantity == quantity and row.value is not None]


def gain(name: str, situation: Situation) -> float:
    found = technique(name).judge(situation).gain
    assert found is not None
    return found.value


def step_s(batch: float) -> float:
    return plain().steps.step_s(batch, plain().scenario.decode_context_tokens)


def served_per_s(batch: float) -> float:
    """A batch that is always full: every request takes one prompt and its part of 300 steps."""
    return batch / (batch * plain().steps.prompt_s(PROMPT) + ANSWER * step_s(batch))


def test_the_rate_at_which_the_batch_reaches_4_and_the_one_that_saturates() -> None:
    load = Load(traffic=Traffic(rate_per_s=3.0))
    assert figure("continuous-batching", "rate_for_batch_4_per_s", load) == pytest.approx(served_per_s(4), rel=1e-3)
    assert served_per_s(4) == pytest.approx(flips("continuous-batching", "rate", load)[-1], rel=0.01)
    most = plain().memory.max_sequences
    assert figure("continuous-batching", "saturation_per_s", load) == pytest.approx(served_per_s(most), rel=1e-3)


def test_the_kv_cache_as_a_tenth_of_memory() -> None:
    tenth = plain().memory.capacity_bytes_per_gpu / 10
    request = TOKEN_BYTES * 2304  # whole blocks of 16
    batch = figure("kv-quantization", "share_limit_batch")
    assert (batch - 1) * request < tenth <= batch * request
    context = figure("kv-quantization", "share_limit_context")
    assert BATCH * TOKEN_BYTES * context == pytest.approx(tenth, rel=0.02)


def test_the_ceiling_of_prefix_caching_and_the_hits_that_pay() -> None:
    """992 of 2,300 tokens are computed once less; attention of late tokens is dearer, so it is a little less."""
    load = Load(prefix=Prefix(shared_tokens=1000))
    assert figure("prefix-caching", "ceiling_flop_share", load) == pytest.approx(992 / 2300, rel=0.03)
    shared, steps = flips("prefix-caching", "shared-prefix", load)[-1], plain().steps
    kept = shared // 16 * 16
    ttft_s = [steps.ttft_s(step_s(64) + steps.stall_s(64, c), 64, PROMPT, c) for c in (0.0, kept, kept - 16)]
    assert ttft_s[0] / ttft_s[1] >= 1.1 > ttft_s[0] / ttft_s[2]
    # A request that hits leaves its own 1,008 tokens and 300 of its answer behind.
    tokens = plain().memory.kv_pool_bytes_per_gpu / TOKEN_BYTES
    assert figure("prefix-caching", "remembered_requests", load) == pytest.approx(tokens / 1308, rel=0.01)


def test_the_acceptance_the_batch_and_the_draft_length_of_speculation() -> None:
    load = Load(draft=Draft(method="ngram", acceptance=0.6, drafted_tokens=4))
    rate = figure("speculative", "break_even_acceptance", load)
    tokens = sum(rate**n for n in range(5))
    cycle = figure("speculative", "cycle_ratio", load) * step_s(BATCH)
    stall = plain().steps.stall_s(BATCH)
    assert (step_s(BATCH) + stall) / (cycle / tokens + stall) == pytest.approx(1.1, rel=1e-3)
    assert flips("speculative", "acceptance", load)[0] == pytest.approx(rate, rel=0.01)
    free = Load(draft=Draft(method="ngram", acceptance=0.6))
    best = figure("speculative", "best_drafted_tokens", free)
    gains = {}
    for g in (best - 1, best, best + 1):
        given = Load(draft=replace(free.draft, drafted_tokens=int(g)))
        gains[g] = gain("speculative", plain().changed(load=given))
    assert max(gains, key=gains.get) == best  # type: ignore[arg-type]


def test_the_batch_at_which_smaller_weights_gain_no_more() -> None:
    """4-bit weights are multiplied in 16 bit on H100: at this batch the gain in TPOT falls below 1.10x."""
    end = int(figure("weight-quantization", "gain_int4_ends_batch"))
    load = Load(weight_format="int4")
    gains = [gain("weight-quantization", plain().changed(load=load, batch=batch)) for batch in (end - 1, end)]
    assert gains[0] >= 1.1 > gains[1]


def test_the_largest_chunk_under_a_target_and_the_smallest_that_makes_sense() -> None:
    load = Load(targets=Targets(tpot_s=0.060))
    most, least = (figure("chunked-prefill", name, load) for name in ("largest_chunk_tokens", "needed_chunk_tokens"))
    # 64 answers end every 300 steps: so many prompts must enter, 64 x 2,000 / 300 tokens a step.
    assert least == pytest.approx(BATCH * PROMPT / ANSWER)
    worst_s = figure("chunked-prefill", "itl_chunk_s", load)
    assert 0.0595 < worst_s <= 0.060
    assert step_s(BATCH) + most * FLOP / 4 / 989e12 < 0.060


def test_offload_by_hand() -> None:
    """NVMe at 6.5 GB/s a device: a token comes in 12.6 us and is computed in about 60."""
    tier = Offload(tier="nvme", bytes_per_s=6.5e9, reuse_share=0.3, endurance_bytes=7e15)
    load = Load(offload=tier, traffic=Traffic(rate_per_s=3.0))
    written = 4 * TOKEN_BYTES * 0.7 * PROMPT
    years = 4 * 7e15 / written / 3.0 / (365.25 * 86400)
    assert figure("kv-offload", "drive_years", load) == pytest.approx(years, rel=0.02)
    assert figure("kv-offload", "link_share", load) == pytest.approx(3.0 * 0.3 * PROMPT * TOKEN_BYTES / 6.5e9, rel=0.03)
    # One restore waits 15 ms before its first byte: that is what a prefix must be long enough for.
    tokens, steps = figure("kv-offload", "break_even_prefix_tokens", load), plain().steps
    late_s = [steps.prompt_s(n) - n * TOKEN_BYTES / 6.5e9 for n in (tokens - 16, tokens)]
    assert late_s[0] < 0.015 <= late_s[1] * 1.001


def test_hits_of_an_answer_cache_by_hand() -> None:
    lookup = figure("application-caches", "lookup_ratio")
    assert figure("application-caches", "hits_to_pay") == pytest.approx(1 - 1 / 1.1 + lookup, rel=1e-6)


def test_adapters_and_paging_by_hand() -> None:
    load = Load(adapters=Adapters(slots=8, rank=16, models=100))
    assert figure("lora", "separate_gpus", load) == 400
    slot = figure("lora", "slots_bytes", load) / 8
    spare = plain().memory.kv_pool_bytes_per_gpu - BATCH * 2304 * TOKEN_BYTES
    assert figure("lora", "largest_slots", load) == pytest.approx(spare / slot, abs=2)
    assert figure("paged-kv", "reserved_waste_share") == pytest.approx(1 - 2150 / 2300, rel=0.01)


def test_attention_s_part_of_a_prompt_by_hand() -> None:
    """80 layers x 64 heads x 128 x 4 FLOP for each of 2,000 x 2,000 / 2 pairs, beside 2,000 tokens of matrices."""
    attention = 80 * 64 * 128 * 4 * PROMPT**2 / 2
    share = attention / (attention + PROMPT * FLOP)
    assert figure("attention-kernels", "attention_share_of_prefill") == pytest.approx(share, rel=0.05)
