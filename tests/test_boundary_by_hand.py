"""Boundaries beside sums done by hand: what a sample of mutants (trust/mutation.py) found no test of."""

from dataclasses import replace

import pytest
from test_boundary_application_caches import VISION
from test_boundary_chunked_prefill import situation as chunked
from test_boundary_parallelism import situation
from test_boundary_speculative import asked
from test_boundary_speculative import placed as target

from infopt.boundaries import cuda_graphs, kv_offload, paged_kv
from infopt.boundaries.chunked_prefill import judge as judge_chunks
from infopt.boundaries.drafting import drafting
from infopt.boundaries.image_tokens import image_figures, with_image_tokens
from infopt.boundaries.load import Load, Offload, Prefix, Traffic
from infopt.boundaries.paged_kv import room
from infopt.boundaries.placement_links import PlacementLinks, wires_here
from infopt.boundaries.placements import placed
from infopt.boundaries.prefix_gains import fitting, machine_s, throughput_ratio, with_reuse
from infopt.boundaries.prefix_reuse import reuse_of
from infopt.boundaries.quantities import with_context
from infopt.boundaries.registry import techniques
from infopt.boundaries.situation import Situation
from infopt.ledgers.links import send_s
from infopt.ledgers.offload import SECONDS_PER_YEAR


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
