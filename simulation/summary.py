"""Figures of a simulation: percentiles, goodput under targets, how full it was, whether it keeps up.

    goodput        requests that were answered whole within every target, over the measured time
    effective batch  sequences that run in a replica, mean over the measured time
    hit share      prompt tokens found in the cache when a request was let in, over all prompt tokens
    saturated      the number in the system grows: from the first to the last tenth of the arrivals, by more than
                   GROWING_SHARE of what arrived and CHANCE sqrt(arrived); LATE_SHARE of that after their middle; and
                   somebody waits throughout the last fifth
Requests that arrived in the measured time count, whenever they ended. Percentiles are of requests answered whole;
of a saturated system they depend on how long one looks, so there are none.
"""

import math
from typing import TYPE_CHECKING

from infopt.frozen import dataclass
from infopt.simulation.outcome import DONE, ENDS, Outcome

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

GROWING_SHARE, CHANCE, LATE_SHARE = 0.04, 0.8, 0.2
TENTH = 0.1
# Moments at which a tenth of the time is looked at.
PLACES = 21


@dataclass(frozen=True, slots=True)
class Targets:
    """What users were promised; None: nothing."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    @property
    def given(self) -> bool:
        return any(target is not None for target in (self.ttft_s, self.tpot_s, self.e2e_s))


@dataclass(frozen=True, slots=True)
class Times:
    """A distribution of seconds."""

    mean: float
    p50: float
    p90: float
    p99: float
    most: float


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """One tenant's part.

    machine_share  of the replicas' busy time that its requests took;  requests_share  of all requests
    """

    name: str
    requests: int
    completed: int
    requests_share: float
    machine_share: float
    output_tokens: int
    good_share: float | None
    ttft_s: Times | None
    tpot_s: Times | None


@dataclass(frozen=True, slots=True)
class Summary:
    """requests, and how they ended, count the whole run; rates, shares and times the measured part.

    requests_per_s     that arrived
    good_share         of the requests that arrived, answered whole within the targets; None without targets
    tpot_s, ttft_s, e2e_s  None where nothing was answered, or the system is saturated (but TPOT)
    effective_batch    sequences that run in a replica;  step_batch  that decode in one decode step
    steps, preemptions  of all replicas in the whole run
    waiting            requests that wait, all replicas
    kv_share           of the cache that running requests hold;  busy_share  of the time that replicas compute
    wasted_share       output tokens that nobody read, of all
    little_ratio       stays over requests in the system times time, of the whole run: 1
    """

    requests: int
    ended: dict[str, int]
    measured_requests: int
    measured_s: float
    requests_per_s: float
    output_tokens_per_s: float
    prompt_tokens_per_s: float
    goodput_per_s: float | None
    good_share: float | None
    ttft_s: Times | None
    tpot_s: Times | None
    e2e_s: Times | None
    effective_batch: float
    step_batch: float
    waiting: float
    kv_share: float
    busy_share: float
    steps: int
    preemptions: int
    prefix_hit_share: float
    wasted_share: float
    saturated: bool
    little_ratio: float
    tenants: tuple[TenantFigures, ...]

    @property
    def completed(self) -> int:
        return self.ended[ENDS[DONE]]


def summary(outcome: Outcome, targets: Targets | None = None) -> Summary:
    """The figures of an outcome."""
    import numpy as np

    targets = targets or Targets()
    rows, window = outcome.rows, outcome.window
    columns = _Columns(outcome, targets)
    full = saturated(outcome)
    counts = np.bincount(np.asarray(rows.end, dtype=int), minlength=len(ENDS)).tolist()
    time_s = window.time_s or math.nan
    good = int(columns.good.sum())
    alive_s = window.alive_s or math.nan
    return Summary(
        requests=len(rows),
        ended=dict(zip(ENDS, counts, strict=True)),
        measured_requests=len(columns.sent_s),
        measured_s=window.time_s,
        requests_per_s=window.arrived / time_s,
        output_tokens_per_s=window.output_tokens / time_s,
        prompt_tokens_per_s=window.prompt_tokens / time_s,
        goodput_per_s=good / time_s if targets.given else None,
        good_share=good / max(1, len(columns.sent_s)) if targets.given else None,
        ttft_s=None if full else columns.times(columns.ttft_s),
        tpot_s=columns.times(columns.tpot_s),
        e2e_s=None if full else columns.times(columns.e2e_s),
        effective_batch=window.running_s / alive_s,
        step_batch=window.decoded_tokens / max(1, window.decode_steps),
        waiting=window.waiting_s / time_s,
        kv_share=window.used_units_s / (alive_s * outcome.capacity) if outcome.capacity else 0.0,
        busy_share=window.busy_s / alive_s,
        steps=outcome.total.steps,
        preemptions=outcome.total.preemptions,
        prefix_hit_share=columns.found_share(),
        wasted_share=outcome.total.wasted_tokens / max(1, outcome.total.output_tokens),
        saturated=full,
        little_ratio=outcome.little_ratio,
        tenants=tuple(columns.tenant(number, name) for number, name in enumerate(outcome.tenants))
        if len(outcome.tenants) > 1
        else (),
    )


class _Columns:
    """Rows of the requests that arrived in the measured time."""

    def __init__(self, outcome: Outcome, targets: Targets) -> None:
        import numpy as np

        rows = outcome.rows
        sent = np.frombuffer(rows.sent_s) if len(rows) else np.empty(0)
        kept = sent >= outcome.from_s
        self.sent_s = sent[kept]
        self.ttft_s, self.tpot_s, self.e2e_s, self.machine_s = (
            np.asarray(column, dtype=float)[kept] for column in (rows.ttft_s, rows.tpot_s, rows.e2e_s, rows.machine_s)
        )
        self.input_tokens, self.output_tokens, self.found_tokens, self.tenants, end = (
            np.asarray(column, dtype=np.int64)[kept]
            for column in (rows.input_tokens, rows.output_tokens, rows.found_tokens, rows.tenant, rows.end)
        )
        self.done = end == DONE
        self.targets_given = targets.given
        self.good = self.done.copy()
        for column, target_s in zip(
            (self.ttft_s, self.tpot_s, self.e2e_s), (targets.ttft_s, targets.tpot_s, targets.e2e_s), strict=True
        ):
            if target_s is not None:  # one token has no TPOT and misses none
                self.good &= ~(column > target_s)

    def times(self, column: "Floats", chosen: "NDArray[np.bool_] | None" = None) -> Times | None:
        import numpy as np

        kept = column[self.done if chosen is None else self.done & chosen]
        kept = kept[~np.isnan(kept)]
        if not len(kept):
            return None
        p50, p90, p99 = np.percentile(kept, (50, 90, 99)).tolist()
        return Times(float(kept.mean()), p50, p90, p99, float(kept.max()))

    def found_share(self) -> float:
        asked = int(self.input_tokens.sum())
        return int(self.found_tokens.sum()) / asked if asked else 0.0

    def tenant(self, number: int, name: str) -> TenantFigures:
        mine = self.tenants == number
        requests = int(mine.sum())
        machine_s = float(self.machine_s.sum())
        return TenantFigures(
            name=name,
            requests=requests,
            completed=int((mine & self.done).sum()),
            requests_share=requests / max(1, len(mine)),
            machine_share=float(self.machine_s[mine].sum()) / machine_s if machine_s else 0.0,
            output_tokens=int(self.output_tokens[mine].sum()),
            good_share=int((self.good & mine).sum()) / max(1, requests) if self.targets_given else None,
            ttft_s=self.times(self.ttft_s, mine),
            tpot_s=self.times(self.tpot_s, mine),
        )


def saturated(outcome: Outcome) -> bool:
    """Whether more arrives than is served; a closed loop never is: who waits sends nothing.

    How often it says so, in % of runs with 1 to 64 seats and random lengths (bench/simulate.py --saturation):

        load           0.8   0.9  0.95   1.0   1.1   1.2   1.5
        200 Poisson      1     6    15    21    49    68    95
        1,000            0     0     1    20    73    95   100
        5,000            0     0     0     0   100   100   100
        1,000 gamma 4    4    16    28    45    57    84    95
    Few requests cannot tell: of 200 that come by chance the load is off by a tenth either way. A burst that is worked
    off is no saturation, nor is the crest of a wave, nor are fewer requests than there are seats.
    """
    first, last = outcome.from_s, outcome.arrivals_end_s
    if outcome.closed or last <= first or min(_waiting(outcome, first, last)) <= 0:
        return False
    import numpy as np

    sent = np.sort(np.frombuffer(outcome.rows.sent_s))
    ended = np.sort(np.frombuffer(outcome.rows.sent_s) + np.frombuffer(outcome.rows.e2e_s))

    def inside(from_share: float) -> float:
        times_s = first + (last - first) * np.linspace(from_share, from_share + TENTH, PLACES)
        count = np.searchsorted(sent, times_s, side="right") - np.searchsorted(ended, times_s, side="right")
        return float(count.mean())

    arrived = len(sent) - int(np.searchsorted(sent, first))
    begin, middle, end = inside(0.0), inside(0.5 - TENTH / 2), inside(1 - TENTH)
    grown = end - begin
    return grown > max(GROWING_SHARE * arrived, CHANCE * math.sqrt(arrived)) and end - middle > LATE_SHARE * grown


def _waiting(outcome: Outcome, first_s: float, last_s: float) -> list[int]:
    """Who waited in the last fifth of the arrivals; where that is shorter than samples are apart, the next one."""
    samples, from_s = outcome.samples, last_s - 2 * TENTH * (last_s - first_s)
    pairs = list(zip(samples.time_s, samples.waiting, strict=True))
    found = [waiting for time_s, waiting in pairs if from_s <= time_s <= last_s]
    later = (waiting for time_s, waiting in pairs if time_s > last_s)
    return found or [next(later, 0)]
