"""What physics makes monotonic is so in every world: memory in context, batch, bits; floors in what they wait for."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from properties.worlds import KV, WEIGHTS, World, examples, roomy_worlds, whole, worlds

from infopt.ledgers.bandwidth import BandwidthLedger, bandwidth_ledger
from infopt.ledgers.cache import model_cache
from infopt.ledgers.compute import compute_ledger, decode_flop_per_token, prefill_flop
from infopt.ledgers.estimate import Estimate, estimate
from infopt.ledgers.memory import MemoryLedger, memory_ledger
from infopt.ledgers.paging import layout
from infopt.ledgers.pool import Room, room, stage_memory
from infopt.ledgers.scenario import Scenario, stages
from infopt.ledgers.weights import stage_rank_bytes
from infopt.profiles.formats import load_kv_format, weight_bits_by_part

# Verdicts from bad to good.
RANK = {False: 0, None: 1, True: 2}
NEAR = 1 + 1e-12  # sums of floats in another order


def rooms(s: Scenario) -> list[Room]:
    return [room(s, stage_memory(s, stage, index)) for index, stage in enumerate(stages(s.model, s.pp))]


def no_better(some: MemoryLedger, than: MemoryLedger) -> None:
    assert RANK[some.fits] <= RANK[than.fits]
    assert some.max_sequences <= than.max_sequences


def floor(s: Scenario) -> BandwidthLedger:
    return bandwidth_ledger(s)


@examples()
@given(worlds(), whole(1, 500_000))
def test_a_longer_context_needs_no_less_memory_on_any_rank(world: World, more: int) -> None:
    """But for engines that run a whole prompt to measure memory, and cut long ones (test_not_monotonic.py)."""
    assume(not world.scenario.engine.unchunked_profile)
    near, far = world.scenario, replace(world.scenario, context_tokens=world.scenario.context_tokens + more)
    for short, long in zip(rooms(near), rooms(far), strict=True):
        assert long.need_bytes >= short.need_bytes
        assert long.sequences <= short.sequences
    assert memory_ledger(far).kv_bytes_per_sequence >= memory_ledger(near).kv_bytes_per_sequence
    no_better(memory_ledger(far), than=memory_ledger(near))


@examples()
@given(worlds(), whole(1, 4096))
def test_more_sequences_need_more_memory_and_fit_no_better(world: World, more: int) -> None:
    few, many = world.scenario, replace(world.scenario, batch=world.scenario.batch + more)
    for small, large in zip(rooms(few), rooms(many), strict=True):
        assert large.need_bytes >= small.need_bytes
        assert large.sequences == small.sequences
    no_better(memory_ledger(many), than=memory_ledger(few))


@examples()
@given(worlds(), st.sampled_from(KV), st.sampled_from(KV))
def test_fewer_bits_of_the_cache_need_no_more_bytes(world: World, one: str, other: str) -> None:
    """Logical bytes always; what is reserved only where no recurrent state sizes the blocks (test_not_monotonic.py)."""
    small, large = sorted((load_kv_format(one), load_kv_format(other)), key=lambda kv: kv.bits_per_element)
    context = world.scenario.context_tokens
    sizes = [model_cache(world.model, kv) for kv in (small, large)]
    assert sizes[0].full_bytes_per_token <= sizes[1].full_bytes_per_token
    assert sizes[0].kv_bytes_per_sequence(context) <= sizes[1].kv_bytes_per_sequence(context)
    less, more = (replace(world.scenario, kv=kv) for kv in (small, large))
    assert floor(less).kv_bytes_per_step <= floor(more).kv_bytes_per_step * NEAR
    assert floor(less).step_floor_s <= floor(more).step_floor_s * NEAR
    if all(group.mixer.kind in ("full", "window", "chunked") for group in world.model.groups):
        for stage in stages(world.model, less.pp):
            assert layout(stage, less).request_bytes(context) <= layout(stage, more).request_bytes(context) * NEAR


@examples()
@given(worlds(), st.sampled_from(WEIGHTS), st.sampled_from(WEIGHTS))
def test_fewer_bits_of_the_weights_take_no_more_room_and_no_more_time(world: World, one: str, other: str) -> None:
    """Where no part of the model has more bits: formats differ in the parts they cover."""
    s = world.scenario
    bits = [weight_bits_by_part(world.model, name)[1] for name in (one, other)]
    small, large = sorted(bits, key=lambda found: sum(found.values()))
    assume(all(small[part] <= large[part] for part in small))
    less, more = replace(s, weight_bits=small), replace(s, weight_bits=large)
    for index, stage in enumerate(stages(world.model, s.pp)):
        ends = (index == 0, index == s.pp - 1)
        assert stage_rank_bytes(stage, less, *ends) <= stage_rank_bytes(stage, more, *ends) * NEAR
    assert floor(less).step_floor_s <= floor(more).step_floor_s * NEAR


@examples()
@given(worlds(), st.floats(1.0, 100.0))
def test_a_step_waits_for_bandwidth_alone_by_its_floor(world: World, times: float) -> None:
    device = world.scenario.accelerator
    fast = replace(world.scenario, accelerator=device.at_bandwidth(device.bandwidth_bytes_per_s * times))
    assert floor(fast).step_floor_s == pytest.approx(floor(world.scenario).step_floor_s / times, rel=1e-9)
    assert floor(fast).kv_share_of_step == floor(world.scenario).kv_share_of_step


@examples()
@given(worlds(), whole(1, 500_000), whole(1, 4096))
def test_a_step_takes_no_less_with_more_to_read(world: World, tokens: int, sequences: int) -> None:
    s = world.scenario
    longer = replace(s, decode_context_tokens=s.decode_context_tokens + tokens)
    more = replace(s, batch=s.batch + sequences)
    assert floor(longer).step_floor_s >= floor(s).step_floor_s
    assert floor(more).step_floor_s >= floor(s).step_floor_s
    assert floor(more).weight_bytes_per_step == floor(s).weight_bytes_per_step
    assert floor(s).weight_bytes_per_step <= floor(s).weight_bytes_per_step_expected * NEAR
    assert floor(s).weight_bytes_per_step_expected <= floor(more).weight_bytes_per_step_expected * NEAR


@examples()
@given(worlds(), st.floats(1.0, 100.0))
def test_products_wait_for_the_peak_alone(world: World, times: float) -> None:
    s = world.scenario
    peaks = {name: peak * times for name, peak in s.accelerator.peak_flop_per_s.items()}
    fast = replace(s, accelerator=replace(s.accelerator, peak_flop_per_s=peaks))
    slow, quick = (compute_ledger(one, floor(one)) for one in (s, fast))
    assert (quick.prefill_flop, quick.decode_flop_per_token) == (slow.prefill_flop, slow.decode_flop_per_token)
    if slow.ttft_floor_s is None or slow.decode_compute_s is None:
        assert quick.ttft_floor_s is None
        return
    assert quick.ttft_floor_s == pytest.approx(slow.ttft_floor_s / times, rel=1e-9)
    assert quick.decode_compute_s == pytest.approx(slow.decode_compute_s / times, rel=1e-9)


@examples()
@given(worlds(), st.lists(whole(1, 1_000_000), min_size=2, max_size=8))
def test_more_tokens_take_more_products(world: World, lengths: list[int]) -> None:
    for formula in (prefill_flop, decode_flop_per_token):
        made = [formula(world.model, tokens) for tokens in sorted(lengths)]
        assert all(a <= b for a, b in pairwise(made))


@examples()
@given(worlds(), st.floats(1.0, 8.0))
def test_more_memory_at_the_same_budget_never_ends_a_fit(world: World, times: float) -> None:
    """The same fraction and the same limits: an engine's own defaults follow the device's size and are fixed here."""
    s = world.scenario
    grown = round(s.accelerator.usable_memory_bytes * times)
    whole_bytes = round(s.accelerator.memory_bytes * times)
    larger = replace(s.accelerator, usable_memory_bytes=grown, memory_bytes=whole_bytes)
    no_better(memory_ledger(s), than=memory_ledger(replace(s, accelerator=larger)))


@examples()
@given(roomy_worlds(), whole(1, 100_000), whole(1, 512))
def test_an_estimate_is_no_shorter_with_more_to_do(world: World, tokens: int, sequences: int) -> None:
    s = world.scenario
    longer = replace(s, decode_context_tokens=s.decode_context_tokens + tokens)
    more = replace(s, batch=s.batch + sequences)
    least, *others = (estimate(one, memory_ledger(one), floor(one)) for one in (s, longer, more))
    for found in others:
        if isinstance(least, Estimate) and isinstance(found, Estimate):
            assert least.tpot_s <= found.tpot_s * NEAR
            assert least.ttft_s <= found.ttft_s * NEAR
