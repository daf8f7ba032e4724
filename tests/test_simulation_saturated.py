"""Whether a simulation says that more arrives than is served: not of a burst, not by chance, and not too late."""

from typing import Any

import pytest
from simulations import LineClock, Listed, even

from infopt.arrivals.arrival import Arrival, Source
from infopt.arrivals.synthetic import Lengths, Synthetic
from infopt.simulation.clock import FixedClock
from infopt.simulation.deployment import simulate
from infopt.simulation.setup import Cache, Scheduler, Setup
from infopt.simulation.summary import saturated, summary


def says(source: Source, seats: int = 16) -> bool:
    """A server of so many seats, each of which serves a request of 100 tokens a second."""
    return saturated(simulate(source, Setup(FixedClock(0.01), Scheduler(seats, 10**6), Cache(even(16), 10**6), 10**6)))


def traffic(load: float, requests: int, seed: int = 0, spread: float = 0.0, seats: int = 16, **more: Any) -> Synthetic:
    outputs = Lengths(100.0, spread)
    return Synthetic(Lengths(1.0), outputs, rate_per_s=load * seats, requests=requests, seed=seed, **more)


@pytest.mark.parametrize("requests", [200, 1000, 5000])
@pytest.mark.parametrize("load", [0.3, 0.8, 0.95, 1.2, 1.5, 3.0, 100.0])
def test_without_chance_it_is_the_load_that_decides(requests: int, load: float) -> None:
    assert says(traffic(load, requests, process="steady")) == (load > 1)


def test_chance_makes_few_mistakes_at_a_thousand_requests() -> None:
    """Poisson, lengths by chance: shares of the table in `saturated`."""
    for load, least, most in ((0.5, 0, 0), (0.8, 0, 1), (0.9, 0, 3), (1.2, 18, 20), (1.5, 20, 20)):
        found = sum(says(traffic(load, 1000, seed, spread=1.0)) for seed in range(20))
        assert least <= found <= most, load


def test_waves_and_bursts_that_are_worked_off_are_no_saturation() -> None:
    for seed in range(5):
        waves = traffic(0.8, 3000, seed, process="periodic", period_s=3000 / 0.8 / 16 / 5, peak_ratio=1.8)
        assert not says(waves)
    burst = [Arrival(10.0 + i * 1e-3, 1, 100) for i in range(300)]
    calm = [Arrival(i * 0.5, 1, 100) for i in range(400)]
    assert not says(Listed(tuple(sorted(burst + calm, key=lambda one: one.time_s))))


def test_a_growing_queue_has_no_percentiles() -> None:
    setup = Setup(LineClock(), Scheduler(4, 512), Cache(even(16), 1000), 1000)
    lengths = Lengths(100.0), Lengths(50.0)
    calm, full = (summary(simulate(Synthetic(*lengths, rate_per_s=rate, requests=500), setup)) for rate in (1.0, 20.0))
    assert (calm.saturated, full.saturated) == (False, True)
    assert calm.ttft_s is not None
    assert full.ttft_s is full.e2e_s is None
    assert full.tpot_s is not None
    users = Synthetic(*lengths, users=50, requests=500)
    assert not summary(simulate(users, setup)).saturated
