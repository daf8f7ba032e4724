"""Continuous against static batches on one deployment: simulated with requests that all wait, and in closed form.

    gain         = requests a second of continuous batching / those of static batches, all requests waiting at first
    closed form  = 1 + (1 - q) w (M / L - 1)      q = p / (p + L s(B) / B)      (ledgers/queueing.py continuous_gain)
B  sequences at once;  p  seconds a prompt adds;  L  mean answer, M  mean longest of B answers, tokens;
s  seconds of a decode step at mean context;  q  prompts' share of the time;  w  share of a step that stays when answers
have ended. All are of the same clock and the same requests.
How static batches compute what nobody needs any more:
    shrinking       nothing: steps get shorter as answers end (the least that continuous batching gains); w of s linear
    padded          every step is as long as that of the whole batch, until its longest answer ends: w = 1
    padded-prompts  besides, every prompt is as long as the longest of its batch
Ignored: that requests keep coming (a rate below saturation is served by either); drafts; prefix caches.
Sources of the requests: arrivals/data/traces.yaml.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

from infopt.arrivals.arrival import Arrival
from infopt.arrivals.traces import open_trace
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.estimate import NoEstimate
from infopt.ledgers.queueing import continuous_gain, step_lasting_share
from infopt.profiles.resolve import resolve_model
from infopt.simulation.deployment import simulate
from infopt.simulation.outcome import Outcome
from infopt.simulation.setup import Clock, Setup
from infopt.studies.scenarios import Request, build
from infopt.studies.simulated import Asked, simulated

Kind = Literal["continuous", "shrinking", "padded", "padded-prompts"]
KINDS: tuple[Kind, ...] = ("continuous", "shrinking", "padded", "padded-prompts")


@dataclass(frozen=True, slots=True)
class Place:
    """A model on devices, as `plan` names them; None: as stored, and as many devices as the name says."""

    model: str
    hw: str
    gpus: int | None = None
    weights: str | None = None
    kv: str | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """A source of requests that are there already: all at once, or each at its time."""

    rows: tuple[Arrival, ...]
    users: int | None = None
    tenants: tuple[str, ...] = ("all",)
    prefix_block_tokens: int = 0
    warmup_s: float = 0.0
    warmup_requests: int = 0

    @property
    def requests(self) -> int:
        return len(self.rows)

    def stream(self) -> Iterator[Arrival]:
        return iter(self.rows)


@dataclass(frozen=True, slots=True)
class PaddedClock:
    """A clock whose decode steps are those of the whole batch, however few of it still need a token."""

    clock: Clock
    batch: int

    @property
    def linear(self) -> bool:
        return self.clock.linear

    def decode_s(self, sequences: int, context_tokens: float) -> float:
        return self.clock.decode_s(self.batch, context_tokens)

    def chunk_s(self, new_tokens: int, cached_tokens: int) -> float:
        return self.clock.chunk_s(new_tokens, cached_tokens)

    def prompt_step_s(self, prompts: int) -> float:
        return self.clock.prompt_step_s(prompts)

    def first_token_delay_s(self, input_tokens: int, cached_tokens: int) -> float:
        return self.clock.first_token_delay_s(input_tokens, cached_tokens)


@cache
def waiting(trace: str, requests: int | None = None) -> tuple[Arrival, ...]:
    """So many requests of a trace, evenly over all of it and in its order, that all wait from the start."""
    rows = [replace(one, time_s=0.0, prefix=()) for one in open_trace(trace).stream()]
    if requests is None:
        return tuple(rows)
    if not 0 < requests <= len(rows):
        raise InfoptError(f"{requests} requests of {trace}: it has {len(rows)}")
    return tuple(rows[index * len(rows) // requests] for index in range(requests))


@cache
def setup_of(place: Place, batch: int, kind: Kind = "continuous", static_wait_s: float | None = None) -> Setup:
    """The deployment with so many sequences at once. Errors: InfoptError where it has no estimate."""
    request = Request(max_num_seqs=batch, gpus=place.gpus, weights=place.weights, kv=place.kv)
    s = build(resolve_model(place.model), resolve_hardware(place.hw), request).scenario
    batching: Literal["continuous", "static"] = "continuous" if kind == "continuous" else "static"
    asked = Asked(batching=batching, static_batch=batch, static_wait_s=static_wait_s, prefix_caching=False)
    ready = simulated(s, asked)
    if isinstance(ready, NoEstimate):
        raise InfoptError(f"{place.model} on {place.hw}: {ready.reason}")
    return replace(ready.setup, clock=PaddedClock(ready.clock, batch)) if kind.startswith("padded") else ready.setup


def served(place: Place, rows: tuple[Arrival, ...], batch: int, kind: Kind, wait_s: float | None = None) -> Outcome:
    """The requests through the deployment. Errors: InfoptError where prompts made equally long do not fit."""
    setup = setup_of(place, batch, kind, wait_s)
    if kind == "padded-prompts":
        rows = padded_prompts(rows, batch, setup)
    return simulate(Fixed(rows), setup)


def rate_per_s(place: Place, rows: tuple[Arrival, ...], batch: int, kind: Kind) -> float:
    """Requests a second until all that wait are answered."""
    return len(rows) / served(place, rows, batch, kind).total.time_s


def padded_prompts(rows: Sequence[Arrival], batch: int, setup: Setup) -> tuple[Arrival, ...]:
    """The same in groups of a batch, each prompt as long as the longest of its group."""
    padded: list[Arrival] = []
    for start in range(0, len(rows), batch):
        group = rows[start : start + batch]
        longest_tokens = max(one.input_tokens for one in group)
        units = sum(setup.cache.units(longest_tokens + one.output_tokens - 1) for one in group)
        if units > setup.cache.capacity:
            raise InfoptError(f"{len(group)} prompts made {longest_tokens:,} tokens long do not fit the cache")
        padded += [replace(one, input_tokens=longest_tokens) for one in group]
    return tuple(padded)


# Closed form


def mean_tokens(rows: Sequence[Arrival]) -> tuple[float, float]:
    """Of prompts and of answers."""
    return sum(one.input_tokens for one in rows) / len(rows), sum(one.output_tokens for one in rows) / len(rows)


def output_spread_ratio(rows: Sequence[Arrival]) -> float:
    """Standard deviation of the answers' lengths over their mean."""
    mean = mean_tokens(rows)[1]
    return math.sqrt(sum((one.output_tokens - mean) ** 2 for one in rows) / len(rows)) / mean


def loss_ratio(rows: Sequence[Arrival], batch: int) -> float:
    """E[longest of B answers] / E[answer], B drawn from those of the rows: sum of x_k ((k/n)^B - ((k-1)/n)^B) / L."""
    lengths, n = sorted(one.output_tokens for one in rows), len(rows)
    longest = sum(((k / n) ** batch - ((k - 1) / n) ** batch) * length for k, length in enumerate(lengths, 1))
    return longest / mean_tokens(rows)[1]


def held_context_tokens(rows: Sequence[Arrival]) -> float:
    """Mean context of resident sequences: prompt and half the answer, longer answers met more often."""
    return sum(one.output_tokens * (one.input_tokens + one.output_tokens / 2) for one in rows) / sum(
        one.output_tokens for one in rows
    )


def prompt_s(rows: Sequence[Arrival], clock: Clock) -> float:
    """Machine seconds of a mean prompt."""
    return sum(clock.chunk_s(one.input_tokens, 0) for one in rows) / len(rows)


def decode_s(rows: Sequence[Arrival], clock: Clock, batch: int, context_tokens: float | None = None) -> float:
    """Machine seconds of a mean answer in steps that a full batch shares."""
    context = held_context_tokens(rows) if context_tokens is None else context_tokens
    return mean_tokens(rows)[1] * clock.decode_s(batch, context) / batch


def closed_gain_ratio(place: Place, rows: Sequence[Arrival], batch: int, kind: Kind = "padded") -> float:
    """Gain over static batches of the same size, with the lengths of the rows themselves."""
    clock, context = setup_of(place, batch).clock, held_context_tokens(rows)
    stays = (
        1.0
        if kind == "padded"
        else step_lasting_share(batch, clock.decode_s(1, context), clock.decode_s(batch, context))
    )
    answers_s = decode_s(rows, clock, batch)
    return float(continuous_gain(loss_ratio(rows, batch), answers_s, prompt_s(rows, clock), stays))


def fitting(place: Place, reserved_tokens: int) -> int:
    """Sequences of a static batch that reserves so many tokens of cache for each."""
    cache_pool = setup_of(place, 1).cache
    return cache_pool.capacity // cache_pool.units(reserved_tokens)
