"""Requests of a source in another shape."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.arrivals.reshaped import AtOnce, Shorter
from infopt.arrivals.synthetic import Lengths, SharedPrefix, Synthetic
from infopt.errors import InfoptError


def source(requests: int = 20, spread_ratio: float = 0.5) -> Synthetic:
    shared = SharedPrefix(64, 3)
    return Synthetic(Lengths(200, spread_ratio), Lengths(50), rate_per_s=5.0, requests=requests, shared=shared)


@given(st.integers(1, 30), st.integers(1, 100), st.integers(1, 100))
def test_all_at_once_are_whole_rounds_up_to_a_limit(requests: int, least: int, room: int) -> None:
    plain = list(source(requests).stream())
    found = list(AtOnce(source(requests), least, least + room).stream())
    assert least <= len(found) <= least + room
    assert len(found) == min(least + room, -(-least // requests) * requests)
    assert {one.time_s for one in found} == {0.0}
    for at, one in enumerate(found):
        assert (one.input_tokens, one.output_tokens) == (
            plain[at % requests].input_tokens,
            plain[at % requests].output_tokens,
        )


def test_rounds_share_no_blocks_and_a_round_shares_its_own() -> None:
    found = list(AtOnce(source(), 40, 100).stream())
    rounds = [{name for one in found[at : at + 20] for name in one.prefix} for at in (0, 20)]
    assert not rounds[0] & rounds[1]
    assert len(rounds[0]) == len(rounds[1]) == 3 * 4


def test_too_long_requests_are_left_out_or_refused() -> None:
    kept = Shorter(source(), 250, True, "the limit")
    assert all(one.input_tokens + one.output_tokens <= 250 for one in kept.stream())
    assert len(list(kept.stream())) + kept.left_out() == 20
    assert kept.left_out() > 0
    with pytest.raises(InfoptError, match=r"request \d+ at .* are more than the limit; --leave-out-long"):
        list(Shorter(source(), 250, False, "the limit").stream())
    with pytest.raises(InfoptError, match="every request is longer than the limit"):
        list(Shorter(source(), 10, True, "the limit").stream())
