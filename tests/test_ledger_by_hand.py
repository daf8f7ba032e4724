"""Ledgers beside sums done by hand: what a sample of mutants (trust/mutation.py) found no test of."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scenarios import DENSE, GIB, MIXTURE, attention, device, model, recurrent, scenario
from test_calibrate_step import placed, point, time_s
from test_device_steps import HUGE, LARGE, MIDDLE, SMALL, flat, step

from infopt.hardware.accelerator import Link
from infopt.hardware.multiprocessors import multiprocessor_cycles_per_s
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.activation import _expert_widths, activation_term, logits_bytes
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.calibrate_step import calibrate
from infopt.ledgers.compute import all_weights_read_bytes, prefill_flop
from infopt.ledgers.device_bands import Asked, kv_share_of_step
from infopt.ledgers.device_fit import fit_steps
from infopt.ledgers.device_steps import device_constants
from infopt.ledgers.estimate import NoEstimate, band_of, prompt_time_s, step_clock
from infopt.ledgers.lora import mixer_width
from infopt.ledgers.max_load import LoadParts, _prompt_s, load_parts, load_terms_s
from infopt.ledgers.measured_memory import _moved, shipped_terms
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.paging import layout
from infopt.ledgers.pool import free_interval, pool_interval, room, stage_memory
from infopt.ledgers.preemption import preemption, replay
from infopt.ledgers.reuse_gaps import reuse_gaps
from infopt.ledgers.shards import rank_widths
from infopt.ledgers.step_time import first_token_s, kernel_cost_s, prompt_work_s, step_shape, step_terms_s
from infopt.ledgers.traced import Tape
from infopt.ledgers.traffic import _sparse
from infopt.ledgers.weights import embedding_rank_bytes, expert_padding_ratio, head_rank_bytes, stage_rank_bytes
from infopt.profiles.catalogue import load_catalogue_model
from infopt.profiles.geometry import LayerRun, Mixer
from infopt.profiles.load_constants import LoadConstants
from infopt.profiles.step_constants import Band
from infopt.studies.scenarios import Request, build

COST = (5e-6, 1e-12, 2e-12, flat)


def test_the_cache_s_share_of_a_step_is_its_time_over_that_of_kernels_weights_and_cache():
    fit = replace(fit_steps((step(SMALL, cost=COST), step(LARGE, cost=COST))), kernel_s=1e-5, curves=())
    fit = replace(fit, weight_s_per_byte=1e-12, kv_s_per_byte=4e-12)
    asked = Asked(kernels=100, weight_bytes=2e9, kv_bytes=5e8, context_tokens=1000, sequences=1)
    # 100 x 10 us + 2e9 x 1 ps + 5e8 x 4 ps = 1 ms + 2 ms + 2 ms
    assert kv_share_of_step(fit, asked) == pytest.approx(2 / 5)


def test_caches_of_two_models_are_not_two_contexts_of_one():
    long, short = step(SMALL, cost=COST, context=131072), step(LARGE, cost=COST, context=256)
    assert not fit_steps((long, short)).kv_is_solved
    assert fit_steps((long, step(SMALL, cost=COST, context=256))).kv_is_solved


@pytest.mark.parametrize(("placement", "share"), [({}, 1), ({"tp": 2}, 1), ({"dp": 2, "ep": 2}, 0.5)])
def test_every_expert_is_read_in_the_end(placement, share):
    """6 of 8 experts of 32 layers are not among the two of one token: 3 x 4096 x 1024 weights of two bytes each."""
    gpus = 2 if placement else 1
    s = scenario(model([LayerRun(32, attention(), MIXTURE, norm_params=8192)]), gpus=gpus, batch=2, **placement)
    read = bandwidth_ledger(s).weight_bytes_per_step
    assert all_weights_read_bytes(s, bandwidth_ledger(s)) - read == share * 32 * 6 * 3 * 4096 * 1024 * 2


@pytest.mark.parametrize("sizes", [("fp16", "q4_k_m"), ("fp16",)])
def test_points_faster_than_the_memory_end_at_its_bandwidth(sizes):
    points = []
    for weights in sizes:
        s, clock = placed(weights)
        points.append(point(s, clock, 0.2 * time_s(s, clock.constants)[0]))
    assert calibrate(clock.constants, points).traffic_ratio == pytest.approx(1)


@pytest.mark.parametrize("measured", [{"prefill_ratio": 2.0}, {"prefill_token_s": 1e-5}])
def test_a_prompt_takes_from_the_others_what_was_measured_of_either_kind(measured):
    s, clock = placed("bf16", "h100", 4, "vllm")
    constants = clock.constants.model_copy(update={"prefill_ratio": 0.0, "prefill_token_s": 0.0} | measured)
    expected = prompt_work_s(clock.shape, constants, s.input_tokens, 0)
    assert prompt_time_s(s, replace(clock, constants=constants)) == expected


def test_without_measured_prompts_a_prompt_takes_its_own_first_token():
    s, clock = placed("bf16", "h100", 4, "vllm")
    constants = clock.constants.model_copy(update={"prefill_ratio": 0.0, "prefill_token_s": 0.0})
    alone_s = first_token_s(clock.shape, constants, 0.0, 1, s.input_tokens, 0)
    assert alone_s < first_token_s(clock.shape, constants, 0.0, 2, s.input_tokens, 0)
    assert prompt_time_s(s, replace(clock, constants=constants)) == alone_s


def test_more_sequences_than_any_band_reaches_have_the_last():
    _, clock = placed("bf16", "h100", 4, "vllm")
    bands = [Band(sequences=n, low=0.9 - n / 100, high=1.1) for n in (1, 4, 16)]
    constants = clock.constants.model_copy(update={"bands": bands})
    assert [band_of(constants, n).sequences for n in (1, 2, 4, 5, 16, 17)] == [1, 4, 4, 16, 16, 16]


def test_each_of_many_layers_reads_its_experts():
    """Experts twice as large: 32 layers read 2 of them for one token, 3 x 4096 x 1024 more weights of 2 bytes each."""
    wider = replace(MIXTURE, expert_params=2 * MIXTURE.expert_params)
    narrow, wide = (
        bandwidth_ledger(scenario(model([LayerRun(32, attention(), ff, norm_params=8192)]))).weight_bytes_per_step
        for ff in (MIXTURE, wider)
    )
    assert wide - narrow == 32 * 2 * 3 * 4096 * 1024 * 2


def test_parts_at_maximal_load_by_hand():
    """2 stages of a dense model on 4 devices, 16 sequences in two groups of 8; 1,000 tokens in, 500 out."""
    s = scenario(
        on=device(link=Link("NVLink", 450e9)),
        gpus=4,
        tp=2,
        pp=2,
        batch=16,
        input_tokens=1000,
        output_tokens=500,
        context_tokens=1500,
    )
    parts, active = load_parts(s), s.model.params_active
    work = 32 * 4096 * (1 + 1000 / 500)
    assert parts.decode_s == pytest.approx(8 * 2 * active / 989e12 / 2)
    assert parts.activation_s_per_byte == pytest.approx(8 * work / 3.35e12)
    assert parts.link_s == pytest.approx(2 * 2 * 8 * work / 450e9)
    assert parts.further_stages == 1
    prompt_s = float(prefill_flop(s.model, 1000)) / 989e12
    assert parts.prefill_s == pytest.approx(8 / 500 * prompt_s / 2, rel=0.01)


def test_terms_at_maximal_load_are_parts_times_constants():
    parts = LoadParts(
        traffic_s=2.0,
        kernels=10,
        decode_s=3.0,
        prefill_s=5.0,
        activation_s_per_byte=7.0,
        link_s=11.0,
        further_stages=2,
        floor_s=0.0,
    )
    c = LoadConstants.model_construct(
        traffic_ratio=1.5,
        kernel_s=0.1,
        mixture_kernel_s=0.2,
        decode_ratio=2.0,
        mixture_decode_ratio=4.0,
        prefill_ratio=3.0,
        activation_bytes=0.5,
        link_ratio=2.0,
        hop_s=0.25,
    )
    same = {"weights and kv": 3.0, "prefill": 15.0, "activations": 3.5, "links": 22.5}
    assert load_terms_s(parts, False, c) == pytest.approx(same | {"kernels": 1.0, "compute": 6.0})
    assert load_terms_s(parts, True, c) == pytest.approx(same | {"kernels": 3.0, "compute": 18.0})


def test_a_full_device_may_run_out_while_the_sampler_warms_up():
    """vLLM's sampler copies the logits of 1,024 sequences of 128,256 tokens; 4 bytes each are 0.49 GiB."""
    s, _ = placed("bf16", "h100", 4, "vllm")
    assert logits_bytes(s) == min(s.max_num_seqs, s.max_num_batched_tokens) * 128256 * 4
    ledgers = {share: memory_ledger(replace(s, utilization=share)) for share in (0.94, 0.999)}
    caveats = {share: [c for c in ledger.caveats if c.id == "warm-up"] for share, ledger in ledgers.items()}
    assert not caveats[0.94]
    (warning,) = caveats[0.999]
    assert f"sampler warm-up may ask {logits_bytes(s) / GIB:.2f} GiB at once" in warning.text
    assert f"{ledgers[0.999].margin_bytes / GIB:.2f} GiB left" in warning.text


def test_the_last_stage_alone_says_that_it_holds_logits():
    s, _ = placed("bf16", "h100", 4, "vllm")
    said = {last: activation_term(s.model.runs, s, last).formula for last in (True, False)}
    assert f"{logits_bytes(s) / 2**30:.3f} GiB logits" in said[True]
    assert "0.000 GiB logits" in said[False]


def test_verified_tokens_fill_in_where_no_batch_of_so_many_was_measured():
    """2 x 2, 4 x 2 and 1 x 4 verified tokens: n = 4 and 8; a batch of 8 decoded makes the 4 x 2 superfluous."""
    verified = [step(SMALL, cost=COST, batch=batch, tokens=tokens) for batch, tokens in ((2, 2), (4, 2), (1, 4))]
    alone, decoded = step(SMALL, cost=COST), step(SMALL, cost=(5e-6, 1e-12, 2e-12, lambda n: 3.0), batch=8)
    assert [n for n, _ in fit_steps((alone, *verified)).curves[0][1]] == [1, 4, 8]
    curve = dict(fit_steps((alone, decoded, *verified)).curves[0][1])
    assert curve[8] > 2 * curve[4]


def test_a_device_s_own_steps_hold_from_one_sequence_to_the_most_that_were_measured():
    points = [
        step(SMALL, cost=COST),
        step(LARGE, cost=COST),
        step(SMALL, cost=COST, batch=8),
        step(LARGE, cost=COST, batch=4),
    ]
    constants = device_constants(scenario(SMALL, device(measured_steps=tuple(points))))
    assert constants.measured.sequences == [1, 8]


def test_what_vllm_leaves_out_of_its_share_less_what_lies_outside_anyway_is_margin():
    s, _ = placed("bf16", "h100", 4, "vllm")
    found = memory_ledger(s)
    outside = found.engine_bytes - s.engine.non_torch_bytes.single.value
    outside += 0.0 if s.engine.graphs_in_budget else found.graph_bytes
    capacity = s.accelerator.usable_memory_bytes
    assert found.margin_bytes == pytest.approx((1 - s.utilization) * capacity - outside)
    assert found.margin_bytes > 0


def test_a_pool_of_exactly_what_is_free_is_placed():
    s = scenario()
    part = stage_memory(s, s.model.runs, 0)
    free, _, _ = free_interval(replace(s, kv_pool_bytes=1), part)
    assert room(replace(s, kv_pool_bytes=free), part).holds
    assert not room(replace(s, kv_pool_bytes=free + 1), part).holds


def test_a_vocabulary_is_padded_to_64_rows_before_it_is_split():
    """1,001 tokens are 1,024 rows; 4096 numbers of two bytes each, a half on each of two ranks."""
    s = scenario(model(vocab=1001, embed_params=1001 * 4096, head_params=1001 * 4096), gpus=2, tp=2)
    assert embedding_rank_bytes(s) == pytest.approx(1024 * 4096 * 2 / 2)
    assert head_rank_bytes(s) == pytest.approx(1024 * 4096 * 2 / 2)


def test_links_of_a_step_are_two_collectives_a_layer_and_a_hop_for_each_further_stage():
    s, clock = placed("bf16", "h100:4", 4, "vllm")
    constants = clock.constants.model_copy(update={"collective_s": 1e-5, "hop_s": 1e-3})
    waits = {
        (tp, pp): step_shape(replace(s, tp=tp, pp=pp, gpus=tp * pp), constants).links_s
        for tp, pp in ((1, 1), (2, 1), (1, 2), (2, 2))
    }
    assert waits == pytest.approx({(1, 1): 0, (2, 1): 64e-5, (1, 2): 1e-3, (2, 2): 64e-5 + 1e-3})


def test_one_request_at_a_time_is_also_a_pool_that_preempts():
    s, _ = placed("bf16", "h100", 4, "vllm")
    s = replace(s, kv_pool_bytes=450 * 131072, batch=4, input_tokens=200, output_tokens=200, context_tokens=400)
    found = memory_ledger(s)
    assert found.max_sequences == 1
    assert preemption(s, found) is not None


def test_attention_takes_its_own_time_where_query_heads_that_share_a_cache_were_measured():
    """4 query heads share a cached one: bytes x 4 / (10 bytes a cycle x cycles a second), beside their reading."""
    s, clock = placed("q4_k_m", "rtx 4090", 1, "llama.cpp")
    measured = clock.constants.model_copy(update={"head_bytes_per_cycle": 10.0})
    cycles_per_s = multiprocessor_cycles_per_s(s.accelerator)
    plain, own = (
        step_terms_s(step_shape(s, constants), constants, 1, 1000.0, 100, 200)
        for constants in (clock.constants.model_copy(update={"head_bytes_per_cycle": None}), measured)
    )
    assert own["attention"] == pytest.approx(1000 * 131072 * 4 / (10 * cycles_per_s))
    assert "attention" not in plain


def test_a_prompt_in_two_pieces_is_answered_after_the_second():
    """3,000 tokens at 2,048 a step take two steps, the second gives the first of 10 tokens: 11 steps."""
    found = replay(1000, lambda tokens: -(-tokens // 16), 16, 1, 3000, 10, 256, 2048)
    assert found is not None
    assert (found.steps, found.preemptions) == (11, 0)


def test_array_functions_with_options_cannot_be_written_down():
    x = Tape().input("x")
    with pytest.raises(TypeError):
        np.add(x, 1, dtype="float32")
    with pytest.raises(TypeError):
        np.add.reduce(x)
    with pytest.raises(TypeError):
        np.cosh(x)


def test_widths_of_columns_are_asked_for():
    profile = model()
    assert rank_widths(profile, 2) == rank_widths(profile, 2, columns=False) != rank_widths(profile, 2, columns=True)


def test_without_batches_a_device_s_intervals_start_at_one_sequence_and_double():
    points = (step(SMALL, cost=COST), step(LARGE, cost=COST))
    constants = device_constants(scenario(SMALL, device(measured_steps=points)))
    assert [band.sequences for band in constants.bands[:4]] == [1, 2, 4, 8]
    assert constants.bands[0].high < constants.bands[1].high < constants.bands[2].high


@pytest.mark.parametrize(
    ("where", "weights", "added"), [("b200", "fp8", "fp8"), ("b200", "bf16", ""), ("h100", "fp8", "before")]
)
def test_a_kernel_costs_more_before_capability_10_and_with_8_bit_weights_from_10_on(where, weights, added):
    s, clock = placed(weights, where, 4, "vllm")
    constants = clock.constants.model_copy(
        update={"kernel_s": 1e-6, "kernel_before_cc10_s": 2e-6, "kernel_fp8_cc10_s": 4e-6}
    )
    assert kernel_cost_s(s, constants) == pytest.approx({"": 1e-6, "before": 3e-6, "fp8": 5e-6}[added])


def test_what_sglang_leaves_of_its_static_share_less_activations_and_graphs_is_margin():
    s, _ = placed("bf16", "h100", 4, "sglang")
    assert s.engine.budget == "static_share"
    s = replace(s, utilization=0.5)
    found, capacity = memory_ledger(s), s.accelerator.usable_memory_bytes
    held = 0.5 * (capacity - s.engine.non_torch_bytes.single.value - found.communication_bytes)
    assert found.margin_bytes == pytest.approx(held - found.activation_bytes - found.graph_bytes)
    assert found.margin_bytes > 0


def test_gaps_of_no_replica_are_of_no_request():
    assert (reuse_gaps([]).requests, reuse_gaps([]).asked_blocks) == (0, 0)


def test_layers_without_a_cache_take_no_block():
    nothing = LayerRun(2, Mixer(kind="none"), DENSE, norm_params=8192)
    found = layout([nothing], scenario())
    assert (found.groups, found.block_bytes, found.kinds, found.request_bytes(8192)) == (0, 0.0, (), 0.0)


def test_what_was_not_measured_names_the_device_as_people_do():
    for name, said in (("Test 80GB", "on Test 80GB are"), ("", "on test-80gb are")):
        found = step_clock(scenario(on=device(name=name)))
        assert isinstance(found, NoEstimate)
        assert said in found.reason


def test_a_measured_term_at_its_own_limits_is_off_by_its_rounding_and_by_how_starts_repeat():
    """Two starts agree to 0.02 GiB at worst; printed to 0.015 GiB: 0.025 GiB together (3, 4 and 5)."""
    term = SimpleNamespace(value_bytes=1.0 * GIB, rounding_bytes=0.015 * GIB)
    same = (5.0, 4.0, 6.0)
    assert _moved(term, same, same) == pytest.approx((GIB, 0.975 * GIB, 1.025 * GIB))


@pytest.mark.parametrize(("ep", "width"), [(1, 512), (2, 1024)])
def test_the_workspace_of_experts_is_as_wide_as_what_a_rank_holds_of_one(ep, width):
    """2 experts a token: gate and up, or the hidden size where that is more, and the width again."""
    s = scenario(model([LayerRun(32, attention(), MIXTURE, norm_params=8192)]), gpus=2, tp=2, ep=ep)
    assert _expert_widths(MIXTURE, s) == 2 * (max(2 * width, 4096) + width)
    assert _expert_widths(replace(MIXTURE, intermediate=8192), s) == 2 * 3 * 8 * width


def test_between_measured_sizes_a_first_token_is_as_sure_as_at_them():
    prompts = [step(profile, tokens=512, seconds=0.01 * profile.layers, context=0) for profile in (SMALL, LARGE)]
    points = (step(SMALL, cost=COST), step(LARGE, cost=COST), *prompts)
    where, lengths = device(measured_steps=points), {"input_tokens": 512, "output_tokens": 10, "context_tokens": 522}
    first = [device_constants(scenario(profile, where, **lengths)).first_token for profile in (SMALL, MIDDLE, HUGE)]
    low, inside, beyond = first
    assert (inside.low, inside.high) == (low.low, low.high)
    assert beyond.high > inside.high
    tiny = model(runs=[LayerRun(1, attention(), DENSE, norm_params=8192)], id="test/1", embed_params=0, head_params=0)
    assert device_constants(scenario(tiny, where, **lengths)).first_token.high > inside.high


def test_a_pool_that_may_be_nothing_is_unsure_where_constants_are_carried_over():
    s = scenario(batch=4096)
    part = stage_memory(s, s.model.runs, 0)
    pool, _, _ = pool_interval(s, part)
    nothing = replace(s.accelerator, usable_memory_bytes=s.accelerator.usable_memory_bytes - pool / s.utilization)
    unknown = replace(s, accelerator=nothing, engine=s.engine.model_copy(update={"known": False}))
    found = room(unknown, stage_memory(unknown, s.model.runs, 0))
    assert found.low_bytes < 0 < found.high_bytes < found.need_bytes
    assert found.unsure
    assert not room(replace(s, accelerator=nothing), part).unsure


def test_matrices_of_a_prompt_run_at_their_own_peak_and_attention_at_that_of_16_bits():
    """1,000 tokens of 32 layers: 32 heads of 128, a query meets half of the keys, 2 FLOP for scores, 2 for values."""
    s = scenario(input_tokens=1000, output_tokens=500, context_tokens=1500)
    linear = 2 * (s.model.params_active - s.model.head_params) * 1000
    attention = 32 * 4 * 32 * 128 * 1000 * 1000 / 2
    assert _prompt_s(s, 2e15, 1e15) == pytest.approx(linear / 2e15 + attention / 1e15, rel=1e-3)


def test_what_is_free_is_as_unsure_as_what_is_taken():
    s = scenario()
    part = stage_memory(s, s.model.runs, 0)
    free, least, most = free_interval(s, part)
    assert most - free == pytest.approx(sum((term.value - term.low) ** 2 for term in part.terms) ** 0.5)
    assert free - least == pytest.approx(sum((term.high - term.value) ** 2 for term in part.terms) ** 0.5)


def test_collectives_take_what_two_devices_take_more_than_one():
    s = scenario(gpus=2, tp=2)
    held = s.engine.non_torch_bytes
    assert memory_ledger(s).communication_bytes == held.at(2).value - held.single.value > 0
    assert shipped_terms(s, s.model.runs, True)["communication"][0] == held.at(2).value - held.single.value


def test_adapters_of_a_state_layer_split_their_inner_half():
    """20 million weights beside a hidden size of 4096: 4,882.8 inner units; A of both matrices is whole on a rank."""
    found = mixer_width(recurrent(), 4096, 4)
    assert found.rank_elements == pytest.approx(2 * 4096 + 20e6 / 4096 / 4)
    assert found.whole_elements == pytest.approx(2 * 4096 + 20e6 / 4096)


def test_the_line_of_the_margin_says_whose_rule_it_is():
    for given, said in (
        ({}, "left out of reach at utilization 0.9"),
        ({"kv_pool_bytes": 2**30}, "neither used nor given"),
    ):
        s = replace(placed("bf16", "h100", 4, "vllm")[0], **given)
        (margin,) = [term for term in memory_ledger(s).terms if term.name == "margin"]
        assert margin.formula.startswith(said)


def test_a_prediction_layer_is_held_where_it_is_loaded():
    """A gigaparameter in bf16, half on each of two ranks: 1e9 bytes more."""
    s = scenario(model(extra_params={"mtp": 10**9}), gpus=2, tp=2)
    held = [stage_rank_bytes(s.model.runs, replace(s, mtp_loaded=loaded), True, True) for loaded in (False, True)]
    assert held[1] - held[0] == 10**9


def test_a_pool_smaller_than_a_block_or_below_nothing_holds_none():
    found = layout(model().runs, scenario())
    assert [found.blocks(found.block_bytes * share) for share in (-2.0, 0.0, 0.9, 1.0, 2.5)] == [0, 0, 0, 1, 2]


def test_a_pool_is_as_unsure_as_what_is_taken_from_the_budget():
    """Root of the sum of squares of what each term may be off; the memory itself was measured."""
    s = scenario()
    part = stage_memory(s, s.model.runs, 0)
    pool, least, most = pool_interval(s, part)
    terms = [part.term(name) for name in ("weights", "activation", "communication")]
    terms += [s.engine.non_torch_bytes.single, *[part.term("graphs")] * s.engine.graphs_in_budget]
    assert most - pool == pytest.approx(sum((term.value - term.low) ** 2 for term in terms) ** 0.5)
    assert pool - least == pytest.approx(sum((term.high - term.value) ** 2 for term in terms) ** 0.5)


def test_expert_matrices_grow_to_whole_tiles():
    """1,000 wide in tiles of 128 is 1,024, 4096 is whole tiles of 256; 500 on each of two ranks is 512."""
    s = scenario(model([LayerRun(32, attention(), MIXTURE, norm_params=8192)]), gpus=2, tp=2)
    s = replace(s, engine=s.engine.model_copy(update={"expert_padding": {s.weight_format: (256, 128)}}))
    narrow = replace(MIXTURE, intermediate=1000)
    assert expert_padding_ratio(narrow, s) == pytest.approx(512 / 500)
    assert expert_padding_ratio(narrow, replace(s, tp=1)) == pytest.approx(1024 / 1000)
    assert expert_padding_ratio(narrow, replace(s, weight_format="other")) == 1
    assert expert_padding_ratio(replace(MIXTURE, intermediate=0), s) == 1


def test_a_sparse_layer_reads_the_latents_of_the_tokens_it_selects():
    """DeepSeek-V3.2: 61 layers select 2,048 tokens, each a latent of 512 and 64 rotated numbers of two bytes."""
    choice, request = resolve_hardware("h200:8"), Request(input_tokens=1000, output_tokens=100, kv="bf16")
    s = build(load_catalogue_model("deepseek-ai/DeepSeek-V3.2"), choice, request).scenario
    assert _sparse(s.model.runs, s) == ((61 * 576 * 2, 2048),)
