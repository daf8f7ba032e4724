"""What stands beside a simulation: the batch of Little's law, the most that is served, replicas that fail.

    fixed point  B = rate x residence(max(1, B));  with chance  B = rate x residence(1 + B)       (ledgers/queueing.py)
    of users     B = users residence(B) / (residence(B) + think)
    residence(B) = B prompt + (OSL - 1 + steps of the prompt) decode(B, context); where prompts stop answers their
                   steps are in prompt
    saturation   = requests ended / time, between the first tenth of them and the moment the last is let in, where
                   enough of them are present at once that the deployment is never short of work
rate  requests/s of one replica;  prompt  seconds its chunks add to steps, mean over requests;  decode  a step;
context  of resident sequences at a random moment, length-biased.
A request that comes by chance meets B others beside itself; one that comes on time is one of B.
Ignored in the fixed point: that steps between whole numbers of sequences are not straight, waiting, preemptions.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from infopt.arrivals.arrival import Source
from infopt.arrivals.reshaped import AtOnce
from infopt.frozen import dataclass
from infopt.ledgers.queueing import held_tokens
from infopt.simulation.deployment import simulate
from infopt.simulation.outcome import DONE, Outcome
from infopt.simulation.setup import Clock, Loss, Setup, outages
from infopt.simulation.summary import Targets, Times

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Requests that the mean prompt is taken of.
MOST_PROMPTS = 2000
# Of fewer a rate is no mean.
FEW_REQUESTS = 100
# Rounds of a full deployment that its throughput is taken of.
ROUNDS = 5.0
FIRST_SHARE = 0.1
# More requests at once than a deployment needs take memory only.
MOST_AT_ONCE = 100_000
# Of more equal replicas so many are filled; the others serve as much each.
MOST_FILLED = 8
RELATIVE = 1e-6


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Mean sequences in a replica; None above saturation.

    context_tokens  of a resident sequence, on average
    calm    where a request is one of the batch;  chance  where it meets the batch beside itself
    by_chance  which of them this traffic is like
    """

    calm: float | None
    chance: float | None
    by_chance: bool
    context_tokens: float

    @property
    def batch(self) -> float | None:
        return self.chance if self.by_chance else self.calm


@dataclass(frozen=True, slots=True)
class Saturation:
    """The most that is served.

    batch     mean sequences in a replica then
    requests  that were present at once;  ended  of them, in the time that counts
    """

    rate_per_s: float
    output_tokens_per_s: float
    batch: float
    requests: int
    ended: int


@dataclass(frozen=True, slots=True)
class Phase:
    """Some of the requests; of a part of the time also how long it was, and whole answers a second in it."""

    name: str
    requests: int
    good_share: float | None
    ttft_s: Times | None
    tpot_s: Times | None
    time_s: float | None = None
    completed_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Losses:
    """Requests that were answered before a replica failed, that were there when one failed, and that were sent while
    one was away; None where there are none."""

    before: Phase | None
    hit: Phase | None
    during: Phase | None


def fixed_point(
    outcome: Outcome, setup: Setup, by_chance: bool, users: int | None = None, think_s: float = 0.0
) -> FixedPoint | None:
    """The batch that the measured rate, or so many users, keep resident; None where nothing was measured."""
    window = outcome.window
    if window.arrived < FEW_REQUESTS or not window.output_tokens or setup.scheduler.batching == "static":
        return None
    rate_per_s = window.arrived / (window.alive_s or window.time_s)
    residence_s, context_tokens = _residence_s(outcome, setup)
    if users is not None:
        here = users / setup.replicas
        found = _smallest(lambda batch: here * _part_inside(residence_s(max(1.0, batch)), think_s), here)
        return FixedPoint(found, None, False, context_tokens)
    most = float(setup.scheduler.max_num_seqs)
    calm = _smallest(lambda batch: rate_per_s * residence_s(max(1.0, batch)), most)
    chance = _smallest(lambda batch: rate_per_s * residence_s(1.0 + batch), most)
    return FixedPoint(calm, chance, by_chance, context_tokens)


def _part_inside(residence_s: float, think_s: float) -> float:
    """Part of the time that a user waits for an answer."""
    return residence_s / (residence_s + think_s)


def _residence_s(outcome: Outcome, setup: Setup) -> tuple[Callable[[float], float], float]:
    """Seconds that a mean request of this run stays in a replica with so many, and their mean context."""
    import numpy as np

    rows, clock = outcome.rows, setup.clock
    outputs = np.asarray(rows.output_tokens, dtype=float)
    inputs, found = (np.asarray(column, dtype=np.int64) for column in (rows.input_tokens, rows.found_tokens))
    chosen = np.linspace(0, len(inputs) - 1, min(len(inputs), MOST_PROMPTS)).astype(int)
    most = setup.scheduler.max_num_batched_tokens if setup.scheduler.chunked else 2**62
    step_tokens = min(setup.scheduler.chunk_tokens or most, most)
    prompts = [_prompt(clock, int(inputs[at]), int(found[at]), step_tokens) for at in chosen]
    prompt_s = sum(seconds for seconds, _ in prompts) / len(prompts)
    steps = sum(pieces for _, pieces in prompts) / len(prompts)
    answer = float(outputs.mean())
    spread_ratio = float(outputs.std()) / answer if answer else 0.0
    context_tokens = held_tokens(float(np.average(inputs, weights=outputs)), answer, spread_ratio)
    if setup.scheduler.prefill_first:  # prompts have steps of their own
        prompt_s, steps = prompt_s + steps * clock.prompt_step_s(1), 0.0

    def residence_s(batch: float) -> float:
        return batch * prompt_s + (max(0.0, answer - 1) + steps) * _decode_s(clock, batch, context_tokens)

    return residence_s, context_tokens


def _decode_s(clock: Clock, batch: float, context_tokens: float) -> float:
    """A step between whole numbers of sequences."""
    low = max(1, math.floor(batch))
    part = max(0.0, batch - low)
    low_s, high_s = clock.decode_s(low, context_tokens), clock.decode_s(low + 1, context_tokens)
    return low_s + part * (high_s - low_s)


def _prompt(clock: Clock, input_tokens: int, found_tokens: int, step_tokens: int) -> tuple[float, int]:
    """Seconds that a prompt adds to steps, and in how many."""
    starts = range(found_tokens, input_tokens, step_tokens)
    return sum(clock.chunk_s(min(step_tokens, input_tokens - at), at) for at in starts), len(starts)


def _smallest(wanted: Callable[[float], float], most: float) -> float | None:
    """The smallest B with wanted(B) <= B, up to `most`."""
    before = 0.0
    places: list[float] = [min(most, 0.5 * 1.25**at) for at in range(200)]
    for place in places:
        if wanted(place) <= place:
            low, high = before, place
            while high - low > RELATIVE * high:
                middle = (low + high) / 2
                low, high = (low, middle) if wanted(middle) <= middle else (middle, high)
            return high
        if place == most:
            return None
        before = place
    return None


def saturation(source: Source, setup: Setup) -> Saturation | None:
    """The most requests a second that this setup serves of such requests, with nobody short of work and none lost."""
    rules = setup.scheduler
    calm = replace(rules, by_priority=False, admission_wait_s=None, most_waiting=None, static_wait_s=None)
    filled = min(setup.replicas, MOST_FILLED)
    times = setup.replicas / filled
    whole = replace(setup, scheduler=calm, losses=(), replicas=filled)
    seats = rules.static_batch if rules.batching == "static" else rules.max_num_seqs
    resident = filled * min(seats, _sequences(source, setup))
    least = math.ceil(ROUNDS * resident)
    flood = AtOnce(source, least, max(least, MOST_AT_ONCE))
    outcome = simulate(flood, whole)
    samples = outcome.samples
    waiting = [at for at, number in enumerate(samples.waiting) if number > 0]
    if not waiting:
        return None
    last = min(waiting[-1] + 1, len(samples.time_s) - 1)  # when the last is let in, others have ended
    total = len(outcome.rows)
    first = next((at for at, ended in enumerate(samples.ended) if ended >= FIRST_SHARE * total), last)
    if first >= last:
        first = 0
    time_s = samples.time_s[last] - samples.time_s[first]
    ended = samples.ended[last] - samples.ended[first]
    if ended <= 0 or time_s <= 0:
        return None
    between = samples.running[first : last + 1]
    tokens = samples.output_tokens[last] - samples.output_tokens[first]
    return Saturation(
        rate_per_s=times * ended / time_s,
        output_tokens_per_s=times * tokens / time_s,
        batch=sum(between) / len(between) / filled,
        requests=total,
        ended=ended,
    )


def _sequences(source: Source, setup: Setup) -> float:
    """Mean requests that the cache of a replica holds."""
    total = number = 0
    for one in source.stream():
        total += setup.cache.decoding_units(one.input_tokens + one.output_tokens - 1)
        number += 1
        if number >= MOST_PROMPTS:
            break
    return max(1.0, setup.cache.capacity * number / total) if total else math.inf


def loss_figures(outcome: Outcome, losses: tuple[Loss, ...], targets: Targets) -> Losses:
    """Requests before, at and during the losses."""
    import numpy as np

    rows, end_s = outcome.rows, outcome.arrivals_end_s
    sent_s = np.asarray(rows.sent_s)
    done_s = sent_s + np.asarray(rows.e2e_s)
    downs = [
        (one.time_s, end_s if one.down_s is None else min(end_s, one.time_s + one.down_s)) for one in outages(losses)
    ]
    hit, during = np.zeros(len(sent_s), dtype=bool), np.zeros(len(sent_s), dtype=bool)
    for from_s, to_s in downs:
        hit |= (sent_s < from_s) & (done_s > from_s)
        during |= (sent_s >= from_s) & (sent_s <= to_s)
    first_s = min(from_s for from_s, _ in downs)
    before = (sent_s >= outcome.from_s) & (sent_s < first_s) & ~hit
    figures = _Phases(outcome, targets)
    return Losses(
        before=figures.phase("before", before, [(outcome.from_s, first_s)]),
        hit=figures.phase("hit", hit & ~during, []),
        during=figures.phase("during", during, downs),
    )


class _Phases:
    """Figures of some of the requests."""

    def __init__(self, outcome: Outcome, targets: Targets) -> None:
        import numpy as np

        rows = outcome.rows
        self.targets = targets
        self.done = np.asarray(rows.end, dtype=int) == DONE
        self.ends_s = np.asarray(rows.sent_s) + np.asarray(rows.e2e_s)
        self.ttft_s, self.tpot_s, e2e_s = (np.asarray(column) for column in (rows.ttft_s, rows.tpot_s, rows.e2e_s))
        self.good = self.done.copy()
        promised = (targets.ttft_s, targets.tpot_s, targets.e2e_s)
        for seconds, target_s in zip((self.ttft_s, self.tpot_s, e2e_s), promised, strict=True):
            if target_s is not None:
                self.good &= ~(seconds > target_s)

    def phase(self, name: str, chosen: "NDArray[np.bool_]", spans: list[tuple[float, float]]) -> Phase | None:
        """The chosen requests, and what was answered in these spans of time."""
        requests = int(chosen.sum())
        if not requests:
            return None
        time_s = _covered_s(spans)
        answered = sum(int((self.done & (self.ends_s >= low) & (self.ends_s < high)).sum()) for low, high in spans)
        return Phase(
            name=name,
            requests=requests,
            good_share=int((self.good & chosen).sum()) / requests if self.targets.given else None,
            ttft_s=_times(self.ttft_s[self.done & chosen]),
            tpot_s=_times(self.tpot_s[self.done & chosen]),
            time_s=time_s or None,
            completed_per_s=answered / time_s if time_s else None,
        )


def _covered_s(spans: list[tuple[float, float]]) -> float:
    """Seconds that lie in any of the spans."""
    covered, reached = 0.0, -math.inf
    for from_s, to_s in sorted(spans):
        covered += max(0.0, to_s - max(from_s, reached))
        reached = max(reached, to_s)
    return covered


def _times(seconds: "NDArray[np.float64]") -> Times | None:
    import numpy as np

    kept = seconds[~np.isnan(seconds)]
    if not len(kept):
        return None
    p50, p90, p99 = np.percentile(kept, (50, 90, 99)).tolist()
    return Times(float(kept.mean()), p50, p90, p99, float(kept.max()))
