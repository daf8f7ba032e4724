"""What is particular about llama.cpp's metrics: a rate since the last look, means since the start, six digits."""

import pytest

from infopt.observing.observation import Observation
from infopt.observing.snapshots import observation_of
from infopt.observing.windows import Snapshot
from infopt.probes.metrics_text import parse_metrics


def text(
    tokens: float, seconds: float, rate: float, decodes: float = 100, busy: float = 2, is_new: bool = True
) -> Snapshot:
    lines = {
        "prompt_tokens_total": 1000,
        "prompt_seconds_total": decodes / 100,
        "tokens_predicted_total": tokens,
        "tokens_predicted_seconds_total": seconds,
        "n_decode_total": decodes,
        "predicted_tokens_seconds": rate,
        "requests_processing": 3,
        "requests_deferred": 0,
        "n_busy_slots_per_decode": busy,
    }
    lines |= {"prompt_tokens_cached_total": 0} if is_new else {}
    written = "\n".join(f"llamacpp:{name} {value:.6g}" for name, value in lines.items())
    return Snapshot(parse_metrics(written.encode(), "text"), at_s=decodes)


def seen(*snapshots: Snapshot) -> Observation:
    return observation_of(snapshots, "text")


def test_the_rate_leaves_out_first_tokens() -> None:
    """Two answers of 51 tokens, 50 steps of 20 ms each: 102 tokens in 2 s."""
    found = seen(text(0, 0, 0), text(102, 2, 50, 202))
    assert found.mean_s("tpot_s") == pytest.approx(0.020)
    assert found.requests == 2
    assert found.output_tokens_mean == 51
    assert found.mean_s("prefill_s") == pytest.approx(0.51)  # 1.02 s of prompts


def test_prompts_that_shared_steps_have_no_time_of_their_own() -> None:
    """102 tokens in 60 steps: two at once, and the time of a step with both prompts is counted once."""
    assert seen(text(0, 0, 0), text(102, 2, 50, 160)).prefill_s is None


def test_each_look_has_the_rate_of_its_own_time() -> None:
    """1 s at 100 tokens/s and 3 s at 20: 160 tokens in 4 s."""
    found = seen(text(0, 0, 0), text(101, 1, 100, 200), text(162, 4, 20, 300))
    assert found.mean_s("tpot_s") == pytest.approx(4 / 160)
    assert found.requests == 2


def test_a_rate_that_another_scraper_took_does_not_count() -> None:
    found = seen(text(0, 0, 0), text(101, 1, 0, 200), text(202, 3, 50, 300))
    assert found.mean_s("tpot_s") == pytest.approx(1 / 50)


def test_an_older_build_counts_all_tokens_and_says_so() -> None:
    found = seen(text(0, 0, 0, is_new=False), text(102, 2, 51, 200, is_new=False))
    assert found.mean_s("tpot_s") == pytest.approx(2 / 102)
    assert found.requests is None
    assert found.prefill_s is None
    assert any("first token" in note for note in found.notes)


def test_totals_have_no_rate_of_their_time() -> None:
    found = seen(text(102, 2, 0))
    assert found.mean_s("tpot_s") == pytest.approx(2 / 102)


def test_a_mean_since_the_start_makes_the_batch_of_the_window() -> None:
    """100 decodes of 2, then 100 of 4."""
    assert seen(text(0, 0, 0), text(300, 4, 50, 200, 3)).effective_batch == pytest.approx(4)


def test_after_millions_of_decodes_the_gauge_says_the_batch() -> None:
    """2.00001 of 10,000,000 decodes is known to 100 slots: not enough for a window of 100 decodes."""
    found = seen(text(0, 0, 0, 1e7, 2), text(300, 4, 50, 1e7 + 100, 2.00001))
    assert found.effective_batch == 3
    assert any("too few digits" in note for note in found.notes)


def test_requests_hidden_by_rounding_are_unknown() -> None:
    """After 500,000 s seconds are written in whole ones: 2 s are 1 to 3, so 2 first tokens of 102 cannot be seen."""
    found = seen(text(0, 500_000, 0), text(102, 500_002, 50, 200))
    assert found.requests is None
    assert found.mean_s("tpot_s") == pytest.approx(0.020)


def test_drafts_of_a_real_server() -> None:
    """Build 11549 with n-grams of 4 tokens (ngram_simple), three answers of 60 tokens, each with 3 drafts of which 6 of
    12 tokens were accepted: 59 tokens after the first in 53 steps, as many as it decoded besides the prompt."""
    lines = (
        "prompt_tokens_total 219",
        "prompt_tokens_cached_total 0",
        "tokens_predicted_total 180",
        "tokens_predicted_seconds_total 11.5948",
        "n_decode_total 162",
        "spec_decode_num_draft_tokens_total 36",
        "spec_decode_num_accepted_tokens_total 18",
        "spec_decode_num_drafts_total 9",
        "predicted_tokens_seconds 15.2655",
        "requests_processing 0",
        "n_busy_slots_per_decode 1",
        *(f'spec_decode_num_accepted_tokens_per_pos_total{{position="{i}"}} {n}' for i, n in enumerate((6, 6, 3, 3))),
    )
    after = "\n".join(f"llamacpp:{line}" for line in lines)
    before = Snapshot(parse_metrics(b"llamacpp:tokens_predicted_total 0", "text"), at_s=1.0)
    found = seen(before, Snapshot(parse_metrics(after.encode(), "text"), at_s=12.0))
    assert found.tokens_per_step == pytest.approx(59 / 53, rel=1e-4)
    assert found.draft_share == pytest.approx(9 / (3 * 53), rel=1e-3)
    assert found.drafted_tokens == 4
    assert found.acceptance_per_position == pytest.approx((6 / 9, 6 / 9, 3 / 9, 3 / 9))
    assert found.requests == 3
    assert found.mean_s("tpot_s") == pytest.approx(11.5948 / 177, rel=1e-4)
