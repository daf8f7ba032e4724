"""KV offload: restore against recompute, links, drives; numbers by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import GIB, device, model, scenario

from infopt.boundaries import kv_offload
from infopt.boundaries.load import Load, Offload, Prefix, Traffic
from infopt.boundaries.roots import break_evens
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement
from infopt.errors import InfoptError
from infopt.hardware.accelerator import Link
from infopt.hardware.names import resolve_hardware
from infopt.ledgers import offload as ledger
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build


def situation(name: str, hardware: str, load: Load | None = None, **request: Any) -> Situation:
    request = {"input_tokens": 8000, "output_tokens": 300} | request
    return Situation(build(resolve_model(name), resolve_hardware(hardware), Request(**request)).scenario, load)


def asked(tier: str = "dram", rate: float | None = None, **offload: Any) -> Load:
    return Load(offload=Offload(tier=tier, **offload), traffic=Traffic(rate_per_s=rate))  # type: ignore[arg-type]


def figure(judgement: Judgement, name: str) -> float:
    value = next(f.value for f in judgement.figures if f.name == name)
    assert value is not None
    return value


SEVENTY = situation("70b", "h100:4", batch=8)


def test_bytes_of_a_rank_and_of_all() -> None:
    # 80 layers x 2 of 8 KV heads x 256 elements x 2 bytes at tp 4
    assert ledger.rank_bytes(SEVENTY.scenario, 1000) == 80 * 2 * 256 * 2 * 1000
    assert ledger.replica_bytes(SEVENTY.scenario, 1000) == 4 * 80 * 2 * 256 * 2 * 1000


def test_a_latent_is_stored_by_every_rank() -> None:
    s = situation("deepseek-v3", "h200:8").scenario
    assert ledger.rank_bytes(s, 1) == 61 * 576 * 2
    assert ledger.replica_bytes(s, 1) == 8 * 61 * 576 * 2


def test_windows_hold_their_last_tokens_only() -> None:
    s = situation("gpt-oss-120b", "h100:1").scenario
    grown = ledger.rank_bytes(s, 2000) - ledger.rank_bytes(s, 1000)
    assert grown == 18 * 8 * 128 * 2 * 1000  # 18 of 36 layers keep everything: 8 heads of 64 + 64 elements


def test_restore_by_hand() -> None:
    assert ledger.restore_s(5e9, 50e9, 0.01) == pytest.approx(0.11)
    assert ledger.restore_s(5e9, 50e9, 0.01, 0.8) == pytest.approx(0.01 + 0.1 * 3)
    assert ledger.restore_s(5e9, 50e9, 0.01, 1.0) == math.inf


def test_restores_measured_on_an_h20() -> None:
    # gahow/agentic-kvc: 65,536 tokens of Qwen3-30B-A3B, vLLM 0.18.1: 272 ms from host memory where a hit takes 111
    s = situation("qwen3-30b-a3b", "h20-96gb:1", input_tokens=65536, output_tokens=16).scenario
    stored = ledger.rank_bytes(s, 65536)
    assert stored == 65536 * 98304
    host = kv_offload.tier_of(s, Offload(), 0.0)
    assert ledger.restore_s(stored, host.bytes_per_s, host.latency_s) == pytest.approx(0.272 - 0.111, rel=0.2)
    remote = kv_offload.tier_of(s, Offload(tier="remote"), 0.0)
    assert ledger.restore_s(stored, remote.bytes_per_s, remote.latency_s) == pytest.approx(0.97 - 0.111, rel=0.2)


def test_weights_in_the_host() -> None:
    # vllm issue 22692: 16 GiB read every step at 25 GB/s
    assert ledger.weights_step_s(16 * GIB, 25e9) == pytest.approx(0.687, abs=1e-3)


def test_break_even_prefix_is_a_root() -> None:
    shortest = int(figure(kv_offload.judge(SEVENTY), "break_even_prefix_tokens"))
    tier = kv_offload.tier_of(SEVENTY.scenario, Offload(), SEVENTY.memory.kv_pool_bytes_per_gpu)

    def sooner(tokens: int) -> bool:
        stored = float(ledger.rank_bytes(SEVENTY.scenario, tokens))
        return ledger.restore_s(stored, tier.bytes_per_s, tier.latency_s) < SEVENTY.steps.prompt_s(tokens)

    assert sooner(shortest)
    assert not sooner(shortest - 1)


@given(st.floats(0, 0.2), st.floats(1e-6, 1e-3), st.floats(1e-7, 1e-3), st.floats(0, 1e-7))
def test_break_even_prefix_of_any_machine(latency: float, move: float, linear: float, square: float) -> None:
    def restore(n: int) -> float:
        return latency + move * n

    def recompute(n: int) -> float:
        return linear * n + square * n * n

    found = ledger.break_even_tokens(restore, recompute, 100_000)
    if found is None:
        assert restore(100_000) >= recompute(100_000)
    else:
        assert restore(found) < recompute(found)
        assert found == 1 or restore(found - 1) >= recompute(found - 1)


def test_bandwidth_that_restores_as_fast_as_computing() -> None:
    found = figure(kv_offload.judge(SEVENTY), "break_even_bytes_per_s")
    stored = float(ledger.rank_bytes(SEVENTY.scenario, 8000))
    assert ledger.restore_s(stored, found, 0.013) == pytest.approx(SEVENTY.steps.prompt_s(8000))


def test_without_a_reuse_share_it_has_to_be_measured() -> None:
    found = kv_offload.judge(SEVENTY)
    assert found.verdict == "measure"
    assert "--reuse-share" in found.settle
    assert found.gain is not None
    assert found.gain.low <= found.gain.value <= found.gain.high


def test_a_tier_too_slow_is_skipped_even_at_full_reuse() -> None:
    assert kv_offload.judge(SEVENTY.changed(load=asked(bytes_per_s=2e8))).verdict == "skip"


def test_prefixes_that_fit_into_the_pool_need_no_second_home() -> None:
    few = replace(asked(), prefix=Prefix(shared_tokens=2000, prefixes=10))
    many = replace(asked(), prefix=Prefix(shared_tokens=2000, prefixes=1000))
    assert kv_offload.judge(SEVENTY.changed(load=few)).verdict == "skip"
    assert kv_offload.judge(SEVENTY.changed(load=many)).verdict == "measure"


def test_half_of_long_prompts_reused_pays() -> None:
    found = kv_offload.judge(SEVENTY.changed(load=asked(reuse_share=0.5, rate=1.0)))
    assert found.verdict == "use"
    # 4,000 tokens x 327,680 bytes, a quarter on each rank
    moved = 4000 * 327680 / 4
    assert figure(found, "link_share") == pytest.approx(moved / figure(found, "offload_bytes_per_s"))
    assert figure(found, "written_bytes_per_request") == 4000 * 327680


def test_a_link_asked_for_more_than_it_moves() -> None:
    found = kv_offload.judge(SEVENTY.changed(load=asked(reuse_share=0.5, rate=500.0)))
    assert found.verdict == "skip"
    assert "times what" in found.reason


def test_drives_wear() -> None:
    load = asked("nvme", reuse_share=0.5, rate=1.0)
    found = kv_offload.judge(SEVENTY.changed(load=load))
    written = 4000 * 327680
    assert figure(found, "drive_years") == pytest.approx(4 * 7.008e15 / written / ledger.SECONDS_PER_YEAR)
    assert found.verdict == "limited"
    assert "years" in found.reason
    tough = asked("nvme", reuse_share=0.5, rate=1.0, endurance_bytes=1e18)
    assert kv_offload.judge(SEVENTY.changed(load=tough)).verdict == "use"
    assert "persistent" in " ".join(found.costs)


def test_host_memory_of_each_rank() -> None:
    found = kv_offload.judge(SEVENTY.changed(load=asked(capacity_bytes=400e9)))
    assert figure(found, "host_bytes_per_rank") == 100e9
    assert figure(found, "offload_tokens") == pytest.approx(400e9 / 327680)


def test_break_evens_are_roots_and_bracket_the_present() -> None:
    here = SEVENTY.changed(load=asked(reuse_share=0.5, rate=1.0))

    def verdict(other: Situation) -> Any:
        return kv_offload.judge(other).verdict

    for quantity in kv_offload.TECHNIQUE.quantities:
        flips = [f for f in break_evens(verdict, quantity, here) if f.value is not None]
        assert flips, quantity.name
        for flip in flips:
            assert flip.value is not None
            below = flip.value - 1 if quantity.whole else flip.value * 0.99
            above = flip.value if quantity.whole else flip.value * 1.01
            assert verdict(quantity.set(here, below)) == flip.below != flip.above == verdict(quantity.set(here, above))


@settings(max_examples=15)
@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_more_reuse_is_never_worse(one: float, other: float) -> None:
    """Once a block is restored at all: the first one costs its latency."""
    few, many = sorted((one, other))
    gains = [kv_offload.judge(SEVENTY.changed(load=asked(reuse_share=share))).gain for share in (few, many)]
    assert gains[0] is not None
    assert gains[1] is not None
    assert gains[0].value <= gains[1].value + 1e-9


@settings(max_examples=15)
@given(st.floats(1e9, 1e12), st.floats(1.0, 10.0))
def test_a_faster_tier_is_never_worse(bandwidth: float, factor: float) -> None:
    gains = [
        kv_offload.judge(SEVENTY.changed(load=asked(reuse_share=0.7, bytes_per_s=value))).gain
        for value in (bandwidth, bandwidth * factor)
    ]
    assert gains[0] is not None
    assert gains[1] is not None
    assert gains[0].value <= gains[1].value + 1e-9


def test_a_state_is_no_prefix() -> None:
    assert kv_offload.judge(situation("mamba-2.8b", "h100:1")).verdict == "skip"


def test_what_does_not_fit() -> None:
    found = kv_offload.judge(situation("70b", "h100:1"))
    assert found.verdict == "impossible"
    assert "weights" in found.reason


def test_more_sequences_than_fit_still_get_an_answer() -> None:
    assert kv_offload.judge(situation("8b", "h100:1", batch=4000)).verdict == "measure"


def test_memory_shared_with_the_host() -> None:
    assert kv_offload.judge(situation("8b", "gb10:1")).verdict == "skip"
    assert kv_offload.judge(situation("8b", "gb10:1", asked("nvme"))).verdict != "skip"


@pytest.mark.parametrize(
    ("name", "hardware", "request_"),
    [
        ("8b", "a100-sxm-80gb:1", {}),
        ("8b", "mi300x:1", {}),
        ("gpt-oss-120b", "h100:1", {}),
        ("8b", "rtx-4090:1", {"engine": "llama.cpp", "weights": "q4_k_m"}),
    ],
)
def test_other_machines_get_an_answer(name: str, hardware: str, request_: dict[str, Any]) -> None:
    found = kv_offload.judge(situation(name, hardware, **request_))
    assert found.verdict == "measure"
    assert figure(found, "break_even_prefix_tokens") > 1


def test_an_unknown_machine_cannot_tell_what_a_prompt_costs() -> None:
    bare = device(peak_flop_per_s={})
    found = kv_offload.judge(Situation(scenario(model(), bare)))
    assert found.verdict == "measure"
    assert found.settle


def test_link_of_the_device() -> None:
    s = scenario(model(), device(pcie=Link("PCIe 5.0 x16", 63e9)))
    assert kv_offload.link_bytes_per_s(s) == pytest.approx(0.83 * 63e9)
    assert kv_offload.link_bytes_per_s(scenario()) == 25e9


@pytest.mark.parametrize(
    ("load", "option"),
    [
        (asked(reuse_share=1.5), "--reuse-share"),
        (asked(reuse_share=-0.1), "--reuse-share"),
        (asked(bytes_per_s=0.0), "--offload-bandwidth"),
        (asked(capacity_bytes=-1.0), "--offload-capacity"),
        (asked(endurance_bytes=0.0), "--endurance"),
        (asked(rate=-1.0), "--rate"),
    ],
)
def test_bad_input_names_the_option(load: Load, option: str) -> None:
    with pytest.raises(InfoptError, match=option):
        kv_offload.judge(SEVENTY.changed(load=load))


def test_in_use_it_takes_prompts_off_the_others() -> None:
    used = kv_offload.apply(SEVENTY.changed(load=asked(reuse_share=0.5)), "")
    assert used.cached_tokens == 4000
    assert used.used == ("kv-offload",)
    assert used.tpot_s() < SEVENTY.tpot_s()
    assert kv_offload.apply(SEVENTY, "").cached_tokens == 0
    with pytest.raises(InfoptError, match="nvme"):
        kv_offload.apply(SEVENTY, "tape")
