"""Boundaries beside sums done by hand: what a sample of mutants (trust/mutation.py) found no test of."""

import pytest
from test_boundary_application_caches import VISION
from test_boundary_chunked_prefill import situation as chunked
from test_boundary_parallelism import situation
from test_boundary_speculative import asked
from test_boundary_speculative import placed as target

from infopt.boundaries.chunked_prefill import judge as judge_chunks
from infopt.boundaries.drafting import drafting
from infopt.boundaries.image_tokens import image_figures, with_image_tokens
from infopt.boundaries.load import Load
from infopt.boundaries.placement_links import PlacementLinks, wires_here
from infopt.boundaries.placements import placed
from infopt.boundaries.quantities import with_context
from infopt.boundaries.situation import Situation
from infopt.ledgers.links import send_s


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
