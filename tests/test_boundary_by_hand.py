"""Boundaries beside sums done by hand: what a sample of mutants (trust/mutation.py) found no test of."""

import math
from dataclasses import replace

import pytest
import scenarios as make
from test_boundary_application_caches import VISION
from test_boundary_chunked_prefill import situation as chunked
from test_boundary_parallelism import situation
from test_boundary_speculative import asked
from test_boundary_speculative import placed as target

from infopt.boundaries import cuda_graphs, kv_offload, lora, paged_kv
from infopt.boundaries.chunked_prefill import judge as judge_chunks
from infopt.boundaries.chunked_prefill import ridge_tokens
from infopt.boundaries.continuous_batching import _ms
from infopt.boundaries.drafting import drafting
from infopt.boundaries.image_tokens import image_figures, with_image_tokens
from infopt.boundaries.kv_offload import REUSE_SHARE
from infopt.boundaries.load import Adapters, Load, Offload, Prefix, Traffic
from infopt.boundaries.paged_kv import room
from infopt.boundaries.parallelism import _costs, measured_spread
from infopt.boundaries.parallelism import _rule as parallelism_rule
from infopt.boundaries.parallelism_steps import context
from infopt.boundaries.parallelism_steps import experts as expert_figures
from infopt.boundaries.placement_links import PlacementLinks, placement_data, wires_here
from infopt.boundaries.placements import _degrees, _may_fit, placed, present
from infopt.boundaries.prefix_caching import _rule as prefix_rule
from infopt.boundaries.prefix_gains import fitting, machine_s, throughput_ratio, with_reuse
from infopt.boundaries.prefix_reuse import _remembered, reuse_of
from infopt.boundaries.quantities import BANDWIDTH, BATCH, CONTEXT, RATE, with_context
from infopt.boundaries.registry import technique, techniques
from infopt.boundaries.situation import Situation
from infopt.boundaries.speculative import _counted
from infopt.boundaries.steps import _scaled, interpolated, variants
from infopt.boundaries.weight_kernels import unpacking
from infopt.boundaries.weight_quantization import _candidate, _place
from infopt.ledgers.links import send_s
from infopt.ledgers.offload import SECONDS_PER_YEAR
from infopt.ledgers.prefix_cache import zipf
from infopt.ledgers.step_time import first_token_s
from infopt.profiles.geometry import LayerRun


def test_image_tokens_take_what_the_prompt_takes_longer_than_its_text() -> None:
    s = target(VISION, "l40s:1")
    here = Situation(with_image_tokens(s, 1200), Load(image_tokens=1200))
    found = {figure.name: figure.value for figure in image_figures(here)}
    assert found["image_prompt_s"] == pytest.approx(here.steps.prompt_s(3200) - here.steps.prompt_s(2000))


def test_stages_of_one_machine_wait_for_its_links_unless_that_wait_is_known() -> None:
    here = placed(situation("70b", "h100:2", batch=64), 1, 1, 2, 1, 1)
    wires, constants = wires_here(here.situation), here.steps.constants
    assert constants is not None
    assert wires.inside is not None
    new, known = (constants.model_copy(update={"hop_s": seconds}) for seconds in (0.0, 1e-4))
    one_hop_s = send_s(wires.inside, 32 * 8192 * 2)  # 32 tokens of a micro-batch, 8192 numbers of two bytes
    assert PlacementLinks(here.situation, new, wires).hops_s(32) == pytest.approx(one_hop_s)
    assert PlacementLinks(here.situation, known, wires).hops_s(32) == 0


def test_tokens_of_a_cycle_share_its_pass_and_its_drafting() -> None:
    """A cycle of 4 tokens with 5 verified for each sequence and 2 ms of drafting: TPOT = (pass + 2 ms) / 4 + stall."""
    here = placed(situation("70b", "h100:4"), 1, 4, 1, 1, 1)
    drafted = placed(here.situation.changed(cycle=(4.0, 5.0, 0.002)), 1, 4, 1, 1, 1)
    steps = drafted.steps
    expected = (drafted.pass_s(steps, 5.0) + 0.002) / 4 + drafted.stall_s(steps)
    assert drafted.tpot_s(steps) == pytest.approx(expected)


def test_two_chunks_are_said_to_delay_the_first_token() -> None:
    costs = {chunk: judge_chunks(chunked("8b", "h100", Load(chunk_tokens=chunk))).costs for chunk in (1000, 2000)}
    assert any("in 2 chunks" in cost for cost in costs[1000])
    assert not any("chunks," in cost for cost in costs[2000])


def test_an_engine_that_gives_nothing_up_adds_nothing_to_drafting() -> None:
    """EAGLE in vLLM keeps its scheduling: 0.5 ms a cycle, 0 to 2 ms (data/draft_methods.yaml); n-grams lose theirs."""
    eagle, ngram = (drafting(asked(target("8b", "h100"), method=method)) for method in ("eagle", "ngram"))
    assert (eagle.lost, eagle.cycle_s) == ("", (0.0, 0.0005, 0.002))
    assert ngram.lost
    assert ngram.cycle_s == pytest.approx((0.0003, 0.0013, 0.0023))


def test_a_short_context_is_half_answer_and_a_long_one_keeps_its_answer() -> None:
    s = target("8b", "h100", isl=2000, osl=300)
    lengths = {tokens: with_context(s, tokens) for tokens in (2, 100, 601, 8000)}
    assert {tokens: (c.input_tokens, c.output_tokens) for tokens, c in lengths.items()} == {
        2: (1, 1),
        100: (50, 50),
        601: (301, 300),
        8000: (7700, 300),
    }
    assert lengths[8000].decode_context_tokens == 7850


def test_what_the_documents_say_names_the_document() -> None:
    here = situation("8b", "h100", batch=1)
    said = {one.id: one.judge(here).rule for one in techniques()}
    assert {name: rule.document for name, rule in said.items() if rule is not None}.items() >= {
        ("more-bandwidth", 1),
        ("attention-kernels", 3),
        ("cuda-graphs", 2),
        ("kv-offload", 2),
        ("paged-kv", 3),
    }


def test_the_first_document_s_rule_on_the_batch_holds_either_side_of_four() -> None:
    rules = {
        batch: technique("continuous-batching").judge(situation("8b", "h100", batch=batch)).rule for batch in (1, 8)
    }
    assert {batch: (rule.document, rule.says) for batch, rule in rules.items() if rule is not None} == {
        1: (1, "skip"),
        8: (1, "use"),
    }


def test_who_says_how_fast_weights_are_read() -> None:
    said = {
        given: next(figure.text for figure in cuda_graphs.judge(here).figures if figure.name == "load_s")
        for given, here in (
            (True, situation("8b", "h100", Load(storage_bytes_per_s=2e9))),
            (False, situation("8b", "h100")),
        )
    }
    assert "2.00 GB/s (--storage-bandwidth)" in said[True]
    assert "assumed" in said[False]


def test_a_local_engine_s_prompts_hold_up_the_others_for_as_long_as_they_take() -> None:
    """llama.cpp has no measured share of a prompt's work: each of 3 others enters once in 300 tokens."""
    steps = situation("8b", "rtx-4090", engine="llama.cpp", batch=4).steps
    assert steps.stall_s(4) == pytest.approx(3 / 300 * steps.prompt_s(2000))
    assert steps.stall_s(4) > 0


def test_a_buffer_that_does_not_fit_once_counts_as_its_part_of_one() -> None:
    here = situation("8b", "l4:1", batch=1, context_tokens=131072)
    held = room(here)
    assert held.buffers == 0
    gain = paged_kv.judge(here).gain
    assert gain is not None
    assert gain.value == pytest.approx(held.paged * held.reserved_bytes / held.pool_bytes)


def test_requests_of_a_drive_s_life_wear_it_out_as_the_rate_does() -> None:
    load = Load(offload=Offload(tier="nvme", reuse_share=0.5), traffic=Traffic(rate_per_s=2.0))
    found = {figure.name: figure.value for figure in kv_offload.judge(situation("70b", "h100:4", load)).figures}
    years, requests = found["drive_years"], found["requests_per_drive_life"]
    assert years is not None
    assert requests == pytest.approx(years * SECONDS_PER_YEAR * 2.0)


def test_the_fullest_replica_and_the_others_share_the_requests() -> None:
    """4 replicas, the fullest with 1.5 times the mean: the others have (4 - 1.5) / 3 of it each."""
    here = situation("70b", "h100:16", tp=4, dp=4, batch=64)
    reuse = replace(reuse_of(here.changed(load=Load(prefix=Prefix(shared_tokens=1000)))), hot_spot=1.5)
    steps, batch, after = here.steps, fitting(here), with_reuse(here, reuse)
    rates = [1 / machine_s(after, steps, share * batch) for share in (1.5, *3 * [2.5 / 3])]
    assert throughput_ratio(here, reuse, steps) == pytest.approx(machine_s(here, steps, batch) * sum(rates) / 4)


def test_experts_of_a_mixture_are_split_or_whole_in_every_width() -> None:
    mixture, dense = (situation(name, "h100:4").scenario for name in ("gpt-oss-120b", "8b"))
    without_stages = {(tp, ep) for _, tp, pp, dp, ep in _degrees(mixture, 4) if pp == dp == 1}
    assert without_stages == {(1, 1), (2, 1), (2, 2), (4, 1), (4, 4)}
    assert {ep for *_, ep in _degrees(dense, 4)} == {1}


def test_steps_that_take_less_lose_their_overhead_first_then_bytes_down_to_the_floor() -> None:
    here = situation("8b", "h100")
    s, steps = here.scenario, here.steps
    terms = steps.terms_s(s.sharing_batch, s.decode_context_tokens)
    total_s, bytes_s = sum(terms.values()), terms["weights"] + terms["kv"]
    floor_s = here.bandwidth.step_floor_s
    assert floor_s < bytes_s < total_s
    less = _scaled(steps, (bytes_s + floor_s) / 2 / total_s)
    assert (less.overhead, less.stall) == (0.0, 0.0)
    assert less.traffic == pytest.approx((bytes_s + floor_s) / 2 / bytes_s)
    assert _scaled(steps, 0.01).traffic == pytest.approx(floor_s / bytes_s)


def test_a_first_token_is_what_was_measured_where_it_was() -> None:
    """Else the work of the prompt and a step."""
    steps = situation("8b", "h100").steps
    assert steps.shape is not None
    assert steps.constants is not None
    assert steps.constants.first_token is not None
    measured_s = first_token_s(steps.shape, steps.constants, 0.01, 8, 1500, 500)
    assert steps.ttft_s(0.01, 8, 2000, 500) == pytest.approx(measured_s)
    plain = replace(steps, constants=steps.constants.model_copy(update={"first_token": None}))
    assert plain.ttft_s(0.01, 8, 2000, 500) == pytest.approx(plain.prompt_s(2000, 500) + 0.01)


def test_weights_may_fit_in_exactly_as_much_memory() -> None:
    s = make.scenario()
    weights_bytes = 2 * sum(s.model.params_by_part.values())
    exact, short = (
        replace(s, accelerator=replace(s.accelerator, usable_memory_bytes=weights_bytes - less)) for less in (0, 1)
    )
    assert _may_fit(exact)
    assert not _may_fit(short)


def test_a_gain_between_placements_of_one_width_was_off_either_way() -> None:
    low, high = placement_data("gain_spread")["value"]["dense"]
    here = placed(situation("70b", "h100:8"), 2, 4, 1, 1, 1)
    assert measured_spread(here, here) == (min(low, 1 / high), max(high, 1 / low))
    wide = placed(here.situation, 1, 8, 1, 1, 1)
    assert measured_spread(wide, here) == (low, high)
    assert measured_spread(here, wide) == (1 / high, 1 / low)


def test_those_that_do_not_fit_at_once_wait_for_their_turn() -> None:
    """2 groups hold 4 sequences each: of 12 each waits 12 / 8 times as long for a token."""
    here = placed(situation("70b", "h100:4", batch=12), 2, 2, 1, 1, 1)
    assert here.resident == here.held_by_replica == 4
    assert here.waited_s(here.steps) == pytest.approx(here.tpot_s(here.steps) * 12 / 8)
    assert here.name == "2 x tp 2"


def test_a_share_is_searched_up_to_all() -> None:
    assert (REUSE_SHARE.low, REUSE_SHARE.high(situation("8b", "h100"))) == (0, 1)


def test_degrees_of_a_placement_multiply_to_its_devices() -> None:
    """Without a link also pipelines, of no more stages than layers."""
    few = replace(situation("8b", "l40s:6").scenario, model=make.model([LayerRun(2, make.attention(), make.DENSE)]))
    found = [math.prod((groups, tp, pp, dp)) for groups, tp, pp, dp, _ in _degrees(few, 6)]
    assert set(found) == {6}
    assert {pp for _, _, pp, _, _ in _degrees(few, 6)} == {1, 2}


def test_a_format_that_makes_it_fit_is_judged_by_its_time() -> None:
    tight, roomy = situation("70b", "h100:1", batch=1), situation("8b", "h100:1", batch=1)
    assert not tight.fits
    for before in (tight, roomy):
        fp8 = _candidate(before, "fp8")
        int4 = _candidate(before, "int4")
        assert int4.situation.fits
        assert _place(before, int4)[0] is False
        assert _place(before, fp8)[0] is not (before.fits or fp8.situation.fits)


def test_without_shared_tokens_a_pool_remembers_as_many_requests_as_it_holds() -> None:
    assert _remembered(zipf(3, 0.0), 1000.0, 0.0, 50.0) == 20
    assert _remembered(zipf(3, 0.0), 1000.0, 10.0, 0.0) == math.inf


def test_pools_of_replicas_add_up() -> None:
    one, four = (
        next(f.value for f in kv_offload.judge(here).figures if f.name == "pool_tokens")
        for here in (situation("8b", "h100:1"), situation("8b", "h100:4", tp=1, dp=4, batch=32))
    )
    assert one is not None
    assert four == 4 * one


def test_requests_need_routing_only_to_more_groups() -> None:
    here = situation("8b", "h100:4")
    one, four = placed(here, 1, 4, 1, 1, 1), placed(here, 4, 1, 1, 1, 1)
    assert any("routed" in cost for cost in _costs(one, four))
    assert not any("routed" in cost for cost in _costs(four, one))
    assert not any("routed" in cost for cost in _costs(four, four))


def test_below_the_first_point_of_a_curve_it_holds() -> None:
    curve = ((4.0, 0.5), (8.0, 1.0), (16.0, 3.0))
    assert [interpolated(curve, tokens) for tokens in (1, 4, 6, 8, 12, 20)] == [0.5, 0.5, 0.75, 1.0, 2.0, 4.0]
    assert interpolated(((4.0, 0.5),), 100) == 0.5


def test_a_rule_says_why_only_where_it_differs() -> None:
    """Of prefix caching: 90 % fewer FLOP are `use`, none are `skip`."""
    assert (prefix_rule(0.9, "use").says, prefix_rule(0.0, "skip").says) == ("use", "skip")
    assert prefix_rule(0.9, "use").why == prefix_rule(0.0, "skip").why == ""
    assert prefix_rule(0.9, "limited").why
    assert prefix_rule(0.0, "use").why


def test_a_lone_request_waits_for_links_as_one_token_does() -> None:
    here = placed(situation("deepseek-v3", "h100:16", batch=1), 1, 8, 2, 1, 1)
    assert here.linked_s(here.links) == pytest.approx(here.links.pass_s(1))


def test_the_second_document_s_rule_follows_the_placement() -> None:
    """Where one GPU is not enough: TP inside the fast links is what it wants, a pipeline inside a machine is not."""
    here = {(tp, pp): situation("70b", "h100:4", tp=tp, pp=pp) for tp, pp in ((4, 1), (2, 2))}
    said = {degrees: parallelism_rule(one, present(one), "skip").says for degrees, one in here.items()}
    assert said == {(4, 1): "skip", (2, 2): "use"}


def test_prefill_is_shown_for_the_present_placement() -> None:
    here = situation("70b", "h100:4")
    found = {figure.name: figure.value for figure in context(here, present(here))}
    assert found["prompt_s"] == present(here).prompt_s(here.steps)


def test_names_of_placements_are_their_degrees() -> None:
    mixture = situation("gpt-oss-120b", "h100:4")
    degrees = ((2, 2, 1, 1, 2), (1, 4, 1, 1, 1), (1, 1, 1, 4, 4), (4, 1, 1, 1, 1))
    assert [placed(mixture, *each).name for each in degrees] == ["2 x tp 2 ep 2", "tp 4", "dp 4 ep 4", "4 x tp 1"]


def test_a_token_waits_for_its_step_and_for_the_prompts_of_others() -> None:
    steps = situation("70b", "h100:4").steps
    assert steps.tpot_s(8, 2150) == pytest.approx(steps.step_s(8, 2150) + steps.stall_s(8))


def test_adapters_on_one_base_pay_also_where_only_the_floor_is_known() -> None:
    """Eight models for one at a ratio that is sure whatever a step takes: nothing need be measured."""
    here = Situation(make.scenario(on=make.device(peak_flop_per_s={}), batch=8), Load(adapters=Adapters(8, 16, 8)))
    assert here.steps.basis == "floor"
    assert lora.judge(here).verdict == "use"


def test_what_is_counted_is_whole_and_what_is_measured_is_not() -> None:
    assert {q.name: q.whole for q in (BATCH, CONTEXT, RATE, BANDWIDTH)} == {
        "batch": True,
        "context": True,
        "rate": False,
        "bandwidth": False,
    }


def test_a_batch_that_fills_the_units_alone_needs_chunks_of_one_token() -> None:
    here = chunked("8b", "h100", batch=1000, input_tokens=100, output_tokens=20)
    ridge = ridge_tokens(here)
    assert ridge is not None
    assert ridge < 999
    found = {figure.name: figure.value for figure in judge_chunks(here).figures}
    assert found["smallest_chunk_tokens"] == 1


def test_eight_bits_are_unpacked_as_those_below_sixteen() -> None:
    """An A100 has no FP8: int8_wo was read up to 1.16 times as long as its bytes, int4_wo up to 1.72 (kernels data)."""
    found = {name: unpacking(situation("8b", "a100", weights=name).scenario) for name in ("int8", "fp8", "int4_awq")}
    assert {name: each.traffic_ratio[2] for name, each in found.items() if each is not None} == {
        "fp8": 1.16,
        "int4_awq": 1.72,
    }


def test_experts_have_slots_from_the_version_that_brought_them() -> None:
    """vLLM 0.11.1 (data/lora.yaml)."""
    held = {
        v: lora.slots_of(situation("gpt-oss-120b", "h100:2", engine_version=v)).experts for v in ("0.11.0", "0.11.1")
    }
    assert held == {"0.11.0": False, "0.11.1": True}


def test_times_are_told_in_milliseconds() -> None:
    assert [_ms(seconds) for seconds in (0.0125, 1.5)] == ["12.5 ms", "1.5e+03 ms"]


def test_one_token_is_not_tokens() -> None:
    assert [_counted(tokens) for tokens in (1, 2, 5)] == ["1 token", "2 tokens", "5 tokens"]


def test_all_prefixes_together_are_as_large_as_one_times_their_number() -> None:
    here = Situation(target("70b", "h100:4"), Load(prefix=Prefix(1024, 50), traffic=Traffic(1.0)))
    found = {figure.name: figure.value for figure in technique("prefix-caching").judge(here).figures}
    assert found["prefix_bytes"] is not None
    assert found["held_bytes"] == pytest.approx(50 * found["prefix_bytes"])


def test_a_rank_reads_the_experts_that_are_hit() -> None:
    """gpt-oss-120b at tp 4: 128 experts of which 4, 36 layers; a rank holds a quarter of each."""
    here = situation("gpt-oss-120b", "h100:4", batch=8)
    found = {figure.name: figure.value for figure in expert_figures(here, present(here))}
    blocks = [block for stage in present(here).steps.shape.stages for block in stage.experts]
    hit = 128 * (1 - (1 - 4 / 128) ** 8)
    assert found["expert_bytes_per_step"] == pytest.approx(sum(block.expert_bytes for block in blocks) * hit)


def test_steps_of_a_lender_are_at_best_the_bandwidth_and_nothing_else() -> None:
    steps = Situation(make.scenario()).steps
    assert steps.basis == "assumed"
    assert steps.constants is not None
    short, long = variants(steps)
    assert (short.overhead, short.traffic) == (0.0, 1 / steps.constants.traffic_ratio)
    assert long.overhead > 1


def test_speedups_are_shown_at_four_batches_four_times_apart() -> None:
    here = asked(target("8b", "h100"), method="ngram", acceptance=0.7)
    found = [figure.name for figure in technique("speculative").judge(here).figures]
    shown = [name.removeprefix("speedup_ratio_batch_") for name in found if name.startswith("speedup_ratio_batch_")]
    assert shown == ["1", "4", "16", "64"]


def test_techniques_stand_in_the_third_document_s_order_of_trying() -> None:
    steps = {1: "attention-kernels continuous-batching paged-kv", 3: "speculative", 4: "prefix-caching"}
    steps |= {5: "application-caches", 6: "parallelism"}
    found = {step: " ".join(sorted(one.id for one in techniques() if one.order == step)) for step in steps}
    assert found == steps
