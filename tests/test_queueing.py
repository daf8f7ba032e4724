"""Little's law as a fixed point, and what static batches lose: by hand, against birth and death, against a server."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.ledgers.queueing import (
    continuous_gain,
    effective_batch,
    fill_wait_s,
    held_tokens,
    largest_batch,
    places,
    saturation_per_s,
    spread_for_loss_ratio,
    static_loss_ratio,
)

FIXED = st.floats(0.01, 10.0)
EACH = st.floats(1e-4, 1.0)


def birth_and_death_mean(rate_per_s: float, first_s: float, each_s: float) -> float:
    """Mean number in the system of random arrivals where n together stay first + each n seconds: exact."""
    weight, total, mean = 1.0, 1.0, 0.0
    for n in range(1, 4000):
        weight *= rate_per_s * (first_s + each_s * n) / n
        total += weight
        mean += n * weight
    return mean / total


@given(FIXED, EACH, st.floats(0.01, 0.95))
def test_affine_residence_by_hand(first_s: float, each_s: float, load: float) -> None:
    """B = r (a + b B) gives B = r a / (1 - r b); below one sequence B = r (a + b)."""
    most = 500.0
    rate = load * most / (first_s + each_s * most)
    by_hand = rate * first_s / (1 - rate * each_s)
    found = effective_batch(rate, lambda batch: first_s + each_s * batch, most)
    alone = rate * (first_s + each_s)
    assert found == pytest.approx(by_hand if alone > 1 else alone, rel=1e-6)


@given(FIXED, EACH, st.floats(0.05, 1.5))
def test_solution_is_littles_law_or_above_saturation(first_s: float, each_s: float, load: float) -> None:
    def stay_s(batch: float) -> float:
        return first_s + each_s * batch

    most = saturation_per_s(stay_s, 64)
    found = effective_batch(load * most, stay_s, 64)
    if load > 1 + 1e-9:
        assert found is None
    elif load < 1 - 1e-9:
        assert found is not None
        assert load * most * stay_s(max(1.0, found)) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize(("first_s", "each_s"), [(2.0, 0.02), (3.0, 0.3)])
@pytest.mark.parametrize("load", [0.25, 0.5, 0.75])
def test_random_arrivals(first_s: float, each_s: float, load: float) -> None:
    """The law for one more than the others met is exact; ours is below it by (a + b) / a at most."""
    rate = load / each_s
    exact = birth_and_death_mean(rate, first_s, each_s)
    met = effective_batch(rate, lambda batch: first_s + each_s * (1 + batch), 4000)
    ours = effective_batch(rate, lambda batch: first_s + each_s * batch, 4000)
    assert met == pytest.approx(exact, rel=1e-6)
    assert ours is not None
    assert ours <= exact <= ours * (first_s + each_s) / first_s * (1 + 1e-6)


def test_smallest_solution_where_the_step_gets_shorter() -> None:
    """Capacity B / R(B) with R(1..2) = 1, 4 to 2 s at 4, 2 s at 8: rate 1.5 is reached before the dip at 3."""
    curve = ((1.0, 1.0), (2.0, 1.0), (3.0, 4.0), (4.0, 2.0), (8.0, 2.0))

    def stay_s(batch: float) -> float:
        return float(np.interp(batch, [b for b, _ in curve], [s for _, s in curve]))

    marks = [b for b, _ in curve]
    assert effective_batch(1.5, stay_s, 8, marks) == pytest.approx(1.5)
    assert effective_batch(3.0, stay_s, 8, marks) == pytest.approx(6.0)
    assert saturation_per_s(stay_s, 8, marks) == 4.0
    assert saturation_per_s(stay_s, 3, marks) == 2.0  # at two: more get less done
    assert effective_batch(2.1, stay_s, 3, marks) is None


def test_measured_server() -> None:
    """vLLM 0.32 on a CPU, prompts of 256 (0.33 s), 64 tokens: ITL and output rate at 1, 2, 4, 8, 16 clients.

    A batch of B takes B prompts and 64 steps; C clients keep C resident, so the rate is that of Little's law.
    """
    itl_s = {1: 0.0251, 2: 0.0288, 4: 0.0264, 8: 0.0359, 16: 0.0545}
    measured = {1: 33.1, 2: 51.1, 4: 85.8, 8: 104.0, 16: 119.0}

    def stay_s(batch: float) -> float:
        step_s = float(np.interp(batch, list(itl_s), list(itl_s.values())))
        return batch * 0.33 + 64 * step_s

    for clients, rate in measured.items():
        assert clients / stay_s(clients) * 64 == pytest.approx(rate, rel=0.03)
        if clients > 1:
            per_s = clients / stay_s(clients)
            assert effective_batch(per_s * (1 - 1e-9), stay_s, 16, itl_s) == pytest.approx(clients, rel=1e-3)
    assert saturation_per_s(stay_s, 16, itl_s) * 64 == pytest.approx(119, rel=0.03)


def test_largest_batch_under_a_target() -> None:
    assert largest_batch(lambda b: 0.010 + 0.001 * b, 0.050, 1000) == 40
    assert largest_batch(lambda b: 0.010 + 0.001 * b, 0.0109, 1000) == 0
    assert largest_batch(lambda b: 0.010 + 0.001 * b, 10.0, 77) == 77
    # A dip behind the first crossing does not count: the batch passes through what misses the target.
    assert largest_batch(lambda b: 0.03 if 3 <= b < 8 else 0.01, 0.02, 64, (3, 8)) == 2


def test_places_hold_both_ends_and_the_marks() -> None:
    assert places(0.5) == []
    assert places(1) == [1.0]
    assert places(10, (5, 200)) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
    assert len(places(1e9)) < 70


def test_fill_wait_is_the_mean_of_what_each_waits() -> None:
    """At 2 a second the five of a batch come 0.5 s apart: they wait 2, 1.5, 1, 0.5 and 0 s."""
    assert fill_wait_s(5, 2.0) == (2 + 1.5 + 1 + 0.5 + 0) / 5
    assert fill_wait_s(np.array([1.0, 3.0]), 1.0).tolist() == [0.0, 1.0]


def test_gain_shrinks_with_prompts() -> None:
    assert continuous_gain(3.0, 1.0, 0.0) == 3.0
    assert continuous_gain(3.0, 1.0, 3.0) == 1.5
    assert continuous_gain(np.array([1.0, 2.0]), 1.0, 1.0).tolist() == [1.0, 1.5]


def test_held_tokens_of_long_answers() -> None:
    """Answers of 10 and 30 in equal numbers (spread 0.5): met 1:3, half done: (5 + 3 x 15) / 4 = 12.5."""
    assert held_tokens(100, 20, 0.5) == 112.5


@pytest.mark.parametrize("batch", [1, 2, 8, 64, 200])
def test_exponential_lengths_lose_a_harmonic_number(batch: int) -> None:
    assert static_loss_ratio(batch, 1.0) == pytest.approx(sum(1 / k for k in range(1, batch + 1)), rel=1e-4)


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.5, 0.77, 2.0])
def test_loss_against_draws(spread: float) -> None:
    random = np.random.default_rng(7)
    shape = 1 / spread**2
    drawn = random.gamma(shape, 1 / shape, (20000, 16)).max(axis=1).mean()
    assert static_loss_ratio(16, spread) == pytest.approx(drawn, rel=0.03)


@given(st.floats(1.0, 300.0), st.floats(0.0, 2.5), st.floats(1.01, 2.0))
@settings(max_examples=30)
def test_loss_grows_with_batch_and_spread(batch: float, spread: float, factor: float) -> None:
    loss = static_loss_ratio(batch, spread)
    assert 1 - 1e-3 <= loss <= batch * (1 + 1e-3)
    assert static_loss_ratio(batch * factor, spread) >= loss - 1e-9
    assert static_loss_ratio(batch, spread * factor) >= loss - 1e-3


def test_spread_for_a_loss() -> None:
    """Document 3 claims 5 to 10 times: 64 slots take a spread of 1.05 and 1.95 for that, 4 slots never lose 5."""
    five, ten = spread_for_loss_ratio(64, 5.0), spread_for_loss_ratio(64, 10.0)
    assert five == pytest.approx(1.0517, rel=1e-3)
    assert ten == pytest.approx(1.9487, rel=1e-3)
    assert static_loss_ratio(64, five or 0.0) == pytest.approx(5.0, rel=1e-4)
    assert spread_for_loss_ratio(4, 5.0) is None
    assert spread_for_loss_ratio(64, 1.0) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("rate", [0.0, -2.0])
def test_rate_must_be_above_zero(rate: float) -> None:
    with pytest.raises(InfoptError, match="above 0"):
        effective_batch(rate, lambda batch: 1.0, 8)


def test_spread_must_not_be_negative() -> None:
    with pytest.raises(InfoptError, match="at least 0"):
        static_loss_ratio(8, -0.5)


def test_nothing_fits() -> None:
    assert effective_batch(1.0, lambda batch: 1.0, 0) is None
    assert saturation_per_s(lambda batch: 1.0, 0) == 0.0
    assert math.isclose(saturation_per_s(lambda batch: 2.0, 1), 0.5)
