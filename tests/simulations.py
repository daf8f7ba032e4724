"""Traffic, clocks, caches and a limit of time for tests of simulations."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from infopt.arrivals.arrival import Arrival
from infopt.frozen import dataclass
from infopt.ledgers.paging import LayerKind, Layout
from infopt.simulation.setup import Cache


@dataclass(frozen=True, slots=True)
class Listed:
    """Requests one by one."""

    arrivals: tuple[Arrival, ...]
    users: int | None = None
    prefix_block_tokens: int = 0
    tenants: tuple[str, ...] = ("all",)
    warmup_s: float = 0.0
    warmup_requests: int = 0

    @property
    def requests(self) -> int | None:
        return len(self.arrivals)

    def stream(self) -> Iterator[Arrival]:
        return iter(self.arrivals)


@dataclass(frozen=True, slots=True)
class LineClock:
    """A step of B sequences takes a + B (b + c context); a prompt token d and e for each token before it."""

    step_s: float = 0.02
    sequence_s: float = 0.0003
    context_s: float = 2e-6
    token_s: float = 1e-4
    pair_s: float = 1e-7
    delay_s: float = 0.0
    linear: bool = True

    def decode_s(self, sequences: int, context_tokens: float) -> float:
        return self.step_s + sequences * (self.sequence_s + self.context_s * context_tokens)

    def chunk_s(self, new_tokens: int, cached_tokens: int) -> float:
        return new_tokens * (self.token_s + self.pair_s * (cached_tokens + new_tokens / 2))

    def prompt_step_s(self, prompts: int) -> float:
        return self.step_s * 0.7

    def first_token_delay_s(self, input_tokens: int, cached_tokens: int) -> float:
        return self.delay_s * (input_tokens - cached_tokens)


def even(block_tokens: int, groups: int = 1) -> Layout:
    """Every block of tokens takes as many units."""
    return Layout(1, groups, 1.0, block_tokens, ((LayerKind(groups, 1.0, block_tokens), groups),), 0)


def windows(block_tokens: int, window_tokens: int, in_flight_tokens: int) -> Layout:
    """Layers that keep everything beside twice as many that keep a window."""
    kinds = ((LayerKind(1, 1.0, block_tokens), 1), (LayerKind(2, 1.0, block_tokens, window_tokens), 2))
    return Layout(1, 3, 1.0, block_tokens, kinds, in_flight_tokens)


def states(block_tokens: int, slots: int) -> Layout:
    """Layers that keep everything beside layers with a state."""
    kinds = ((LayerKind(1, 1.0, block_tokens), 1), (LayerKind(3, 1.0, block_tokens, state_slots=slots), 3))
    return Layout(1, 4, 1.0, block_tokens, kinds, 0)


def separate(block_tokens: int, window_tokens: int) -> Layout:
    """A pool for each kind of layer, in bytes that are not whole."""
    kinds = ((LayerKind(3, 10.7, block_tokens), 1), (LayerKind(5, 3.3, block_tokens, window_tokens), 1))
    return Layout(1, 2, 1.0, block_tokens, kinds, 64, separate=True)


def cache_of(layout: Layout, longest_tokens: int, spare_ratio: float) -> Cache:
    """A pool that holds the longest request and so much more, in its own lengths."""
    one = Cache(layout, 1).units(longest_tokens)
    return Cache(layout, int(one * (1 + spare_ratio)) + 1)


@contextmanager
def at_most_s(seconds: int) -> Iterator[None]:
    """Fail where something takes longer: a simulation that stands still would go on for ever."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"a simulation has not ended after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
