"""Quantities along which a verdict may flip: how each is read from a situation, set in it, and how far it may go.

Those that several techniques share are here; one that a single technique needs stands in its file.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from infopt.boundaries.situation import Situation
from infopt.frozen import dataclass
from infopt.ledgers.scenario import Scenario

LONGEST_CONTEXT_TOKENS = 131072


@dataclass(frozen=True, slots=True)
class Quantity:
    """One of them.

    whole      integers only: its neighbours are one apart, not 1 %
    low, high  the range that is searched for flips; `high` may depend on the situation (the model's positions)
    get        its value here, None where it is not given
    set        the situation with another value; InfoptError where no engine runs it
    share      it lies between 0 and 1 and is searched in even, not in equal relative, steps
    """

    name: str
    unit: str
    whole: bool
    low: float
    high: Callable[[Situation], float]
    get: Callable[[Situation], float | None]
    set: Callable[[Situation, float], Situation]
    share: bool = False


def of_load(part: str, field: str, **fixed: Any) -> Callable[[Situation, float], Situation]:
    """A setter of a field of a part of the load (`of_load("traffic", "rate_per_s")`)."""

    def set_(situation: Situation, value: float) -> Situation:
        changed = replace(getattr(situation.load, part), **{field: value}, **fixed)
        return situation.changed(load=replace(situation.load, **{part: changed}))

    return set_


def with_context(s: Scenario, context_tokens: int) -> Scenario:
    """The scenario at another context: the answer stays as long as it is (half the context at most), the prompt takes
    the rest."""
    output = min(s.output_tokens, max(1, context_tokens // 2))
    entered = max(1, context_tokens - output)
    return replace(
        s,
        context_tokens=context_tokens,
        input_tokens=entered,
        output_tokens=output,
        decode_context_tokens=entered + output / 2,
    )


def _most_context(situation: Situation) -> float:
    s = situation.scenario
    return float(max(s.model.max_position_tokens or LONGEST_CONTEXT_TOKENS, s.context_tokens))


def _with_context(situation: Situation, context_tokens: float) -> Situation:
    """Another context; a prompt cache in use finds no more of a prompt than the prompt has."""
    s = with_context(situation.scenario, int(context_tokens))
    return situation.changed(scenario=s, cached_tokens=min(situation.cached_tokens, s.input_tokens - 1.0))


def _with_bandwidth(situation: Situation, bytes_per_s: float) -> Situation:
    return situation.changed(accelerator=situation.scenario.accelerator.at_bandwidth(bytes_per_s))


BATCH = Quantity(
    name="batch",
    unit="sequences",
    whole=True,
    low=1,
    high=lambda _: 4096.0,
    get=lambda situation: float(situation.scenario.batch),
    set=lambda situation, value: situation.changed(batch=int(value)),
)
CONTEXT = Quantity(
    name="context",
    unit="tokens",
    whole=True,
    low=2,
    high=_most_context,
    get=lambda situation: float(situation.scenario.context_tokens),
    set=_with_context,
)
RATE = Quantity(
    name="rate",
    unit="requests/s",
    whole=False,
    low=1e-3,
    high=lambda _: 1e4,
    get=lambda situation: situation.load.traffic.rate_per_s,
    set=of_load("traffic", "rate_per_s"),
)
BANDWIDTH = Quantity(
    name="bandwidth",
    unit="bytes/s",
    whole=False,
    low=1e10,
    high=lambda _: 1e14,
    get=lambda situation: situation.scenario.accelerator.bandwidth_bytes_per_s,
    set=_with_bandwidth,
)
