"""Curves of a trace through caches: they pass through the sizes of the tables, and rise."""

from functools import cache

import pytest

from infopt.arrivals.traces import open_trace
from infopt.boundaries.load import Load
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.studies.boundary import situated
from infopt.studies.prefix_curve import found_shares, hit_curve
from infopt.studies.prefix_trace import PrefixTrace, hits_by_capacity, prefix_trace
from infopt.studies.scenarios import Request


@cache
def trace(dp: int = 1, caches: int = 1) -> PrefixTrace:
    model, request = resolve_model("8b"), Request(input_tokens=12035, output_tokens=343, batch=16, dp=dp)
    situation, _ = situated(model, resolve_hardware(f"h100:{dp}"), request, Load())
    found = prefix_trace(situation, hits_by_capacity(open_trace("mooncake"), "mooncake", caches))
    assert found is not None
    return found


@pytest.mark.parametrize(("dp", "caches"), [(1, 1), (2, 1), (2, 2)])
def test_the_curve_rises_through_the_sizes_of_the_tables(dp: int, caches: int) -> None:
    found = trace(dp, caches)
    curve = hit_curve(found)
    assert curve is not None
    for values in (curve.device_bytes, curve.hit_share, curve.shuffled_hit_share):
        assert list(values) == sorted(values)
    for room in found.rooms:
        below = [
            hit for size, hit in zip(curve.device_bytes, curve.hit_share, strict=True) if size <= room.device_bytes
        ]
        above = [
            hit for size, hit in zip(curve.device_bytes, curve.hit_share, strict=True) if size >= room.device_bytes
        ]
        assert max(below, default=0.0) <= room.hit_share <= min(above, default=1.0)
    assert curve.hit_share[-1] == pytest.approx(found.rooms[-1].hit_share, abs=1e-3)


@pytest.mark.parametrize(("dp", "caches"), [(1, 1), (2, 2)])
def test_distributions_of_found_shares_are_counts_of_requests(dp: int, caches: int) -> None:
    found = trace(dp, caches)
    small, large = (found_shares(found, room) for room in (found.beside, found.rooms[-1]))
    assert small[-1] == large[-1] == (1.0, 1.0)
    for points in (small, large):
        parts = [part for _, part in points]
        assert parts == sorted(parts)
        assert all(0.0 <= part <= 1.0 for part in parts)
    # More memory finds more: fewer requests find at most so much.
    assert all(more <= less for (_, less), (_, more) in zip(small, large, strict=True))
