"""`infopt observe URL`: look at a server again and again, and say what it did meanwhile.

Times are taken by a clock that only runs forward; what the wall clock says is written beside. A look that fails is
noted and the next one is taken at its time; three in a row end the watch. Whatever ends it, what was seen is kept:
figures of a window are differences of counters, so the first and the last look say most of it, and those between are
for gauges and for restarts. Their number is bounded, whatever the duration.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.observing.endpoints import Endpoint, Scrape, find, of_model, unread
from infopt.observing.observation import Observation
from infopt.observing.saved import check_pair, seconds_between
from infopt.observing.snapshots import Snapshot, observation_of
from infopt.probes.metrics_text import Labels, Metrics
from infopt.probes.server import METRICS_S, Server

INTERVAL_S, DURATION_S, ANSWER_S = 10.0, 60.0, METRICS_S  # where nothing else is asked for
LEAST_INTERVAL_S, MOST_DURATION_S, MOST_ANSWER_S = 0.1, 86_400.0, 600.0
FAILURES_IN_A_ROW = 3
MOST_SNAPSHOTS = 240  # kept of a window; a text of a server has about 1,000 series of 130 bytes
MOST_SERIES = 1_000_000  # kept of all snapshots together


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often, for how long; a duration of 0 is one look. `answer_s` is the longest wait for one answer."""

    interval_s: float
    duration_s: float
    answer_s: float

    @classmethod
    def of(cls, interval_s: float, duration_s: float, answer_s: float = ANSWER_S) -> "Schedule":
        """One whose times go together. Errors: InfoptError for one out of bounds, naming its option."""
        if interval_s < LEAST_INTERVAL_S:
            raise InfoptError(f"--interval {interval_s:g}s: at least {LEAST_INTERVAL_S:g} s lie between two looks")
        if duration_s > MOST_DURATION_S:
            raise InfoptError(f"--duration {duration_s:g}s: a watch lasts at most 24 h; run it again for more")
        if 0 < duration_s < interval_s:
            raise InfoptError(f"--duration {duration_s:g}s is less than --interval {interval_s:g}s; 0s looks once")
        if not 0 < answer_s <= MOST_ANSWER_S:
            raise InfoptError(f"--timeout {answer_s:g}s: more than 0 and at most {MOST_ANSWER_S:g} s is expected")
        return cls(interval_s, duration_s, answer_s)


@dataclass(frozen=True, slots=True)
class Progress:
    """How a watch goes.

    begun_s   monotonic seconds
    looks     that worked;  failed  that did not, and why the last one did not, None where the last one worked
    last      what happened between the last two looks, None before the second
    """

    begun_s: float
    duration_s: float
    looks: int
    failed: int
    trouble: str | None
    last: Observation | None


Told = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen.

    interrupted  by the user
    lost         why the watch ended early, None where it did not
    text         the last look's, empty where it is no text;  taken, address  when and where it was read
    """

    observation: Observation
    interrupted: bool
    lost: str | None
    text: bytes
    taken: str
    address: str


class Kept:
    """Snapshots in bounded memory: the first, the last, and every 2nd, 4th, .. of those between as they grow.

    A server that restarts between two that are kept and counts beyond where it was goes unnoticed, as it does between
    two looks.
    """

    def __init__(self, most: int = MOST_SNAPSHOTS, most_series: int = MOST_SERIES) -> None:
        self._most, self._most_series = most, most_series
        self._spaced: list[Snapshot] = []
        self._last: Snapshot | None = None
        self._stride, self._index = 1, 0  # of the last one among all that were added
        self._labels: dict[Labels, Labels] = {}

    def add(self, snapshot: Snapshot) -> None:
        """The newest one."""
        newest = Snapshot(self._shared(snapshot.metrics), snapshot.at_s, snapshot.taken, snapshot.slots)
        series = sum(len(found) for found in snapshot.metrics.series.values())
        spaced, stride = self._spaced, self._stride
        if self._last is not None and self._index % stride == 0:
            spaced = [*spaced, self._last]
        while len(spaced) > max(1, min(self._most, self._most_series // max(series, 1))):
            spaced, stride = spaced[::2], 2 * stride
        index = self._index + 1 if self._last is not None else 0
        # All at once: the user may end the watch between any two lines.
        self._spaced, self._stride, self._index, self._last = spaced, stride, index, newest

    def _shared(self, metrics: Metrics) -> Metrics:
        """The same with labels that all snapshots share."""
        if len(self._labels) > self._most_series:
            self._labels.clear()  # labels that change with every look
        kept = self._labels
        series = {
            name: {kept.setdefault(labels, labels): value for labels, value in found.items()}
            for name, found in metrics.series.items()
        }
        return Metrics(series, metrics.unreadable)

    def all(self) -> list[Snapshot]:
        """In order of time."""
        return [*self._spaced, *([self._last] if self._last is not None else [])]

    def newest(self, count: int) -> list[Snapshot]:
        """The last ones that are kept."""
        return self.all()[-count:]


def watch(
    server: Server,
    schedule: Schedule,
    told: Told | None = None,
    since: Snapshot | None = None,
    apart_s: float | None = None,
    served: str | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> Watched:
    """Look at a server until the duration is over, the user ends it, or it no longer answers.

    since    an earlier look at the same server, from which the window then starts
    apart_s  how long before the first look that was, where it does not say when it was taken
    served   the model that counts alone, where the address has several
    Errors: InfoptError where the first look fails or is of no engine that is known.
    """
    endpoint, first = find(server, schedule.answer_s)
    run = _Run(endpoint, schedule, told, served)
    run.observed([first.snapshot])  # an engine nobody knows is said now, not in an hour
    if since is not None:
        run.kept.add(earlier(since, first.snapshot, apart_s))
    run.saw(first)
    interrupted = False
    try:
        run.go_on(wait)
    except KeyboardInterrupt:
        interrupted = True
    last = run.last
    return Watched(
        run.observation(interrupted), interrupted, run.lost, last.text, last.snapshot.taken or "", endpoint.address
    )


def earlier(since: Snapshot, first: Snapshot, apart_s: float | None) -> Snapshot:
    """An earlier look on the clock of the first one. Errors: InfoptError where nobody knows how long ago it was."""
    check_pair(since, first, apart_s)
    ago_s = apart_s if apart_s is not None else seconds_between(since, first)
    if ago_s is None:
        raise InfoptError("--since: the text does not say when it was taken (--save does): give the time with --apart")
    return replace(since, at_s=first.at_s - ago_s)


def observed(snapshots: Sequence[Snapshot], endpoint: Endpoint, served: str | None = None) -> Observation:
    """What snapshots of one endpoint say; the model as its API lists it, where metrics do not name it."""
    found = of_model(observation_of(snapshots, endpoint.address, endpoint.owner, served), served)
    return found if found.model is not None else found.model_copy(update={"model": endpoint.model})


class _Run:
    """One watch: what it has seen so far."""

    def __init__(self, endpoint: Endpoint, schedule: Schedule, told: Told | None, served: str | None) -> None:
        self.endpoint, self.schedule, self.told, self.served = endpoint, schedule, told, served
        self.kept = Kept()
        self.begun_s = 0.0
        self.looks = self.failed = self.in_a_row = 0
        self.trouble: str | None = None
        self.lost: str | None = None
        self.last: Scrape

    def observed(self, snapshots: Sequence[Snapshot]) -> Observation:
        return observed(snapshots, self.endpoint, self.served)

    def saw(self, scrape: Scrape) -> None:
        """One look that worked."""
        before = self.last.snapshot if self.looks else None
        self.begun_s = self.begun_s if self.looks else scrape.snapshot.at_s
        self.kept.add(scrape.snapshot)
        self.last = scrape
        self.looks += 1
        self.in_a_row = 0
        self._tell(None, before)

    def missed(self, error: InfoptError) -> None:
        """One look that did not."""
        self.failed += 1
        self.in_a_row += 1
        self.trouble = str(error)
        if self.in_a_row >= FAILURES_IN_A_ROW:
            self.lost = f"{self.in_a_row} looks in a row failed, the last one: {error}"
        self._tell(self.trouble, None)

    def _tell(self, trouble: str | None, before: Snapshot | None) -> None:
        if self.told is None:
            return
        last = None if before is None else self.observed([before, self.last.snapshot])
        self.told(Progress(self.begun_s, self.schedule.duration_s, self.looks, self.failed, trouble, last))

    def go_on(self, wait: Callable[[float], None]) -> None:
        """Look at every interval and at the end; looks that a slow answer has passed over are left out."""
        begun_s, interval_s = self.begun_s, self.schedule.interval_s
        end_s = begun_s + self.schedule.duration_s
        step, due_s = 0, begun_s
        while self.lost is None and due_s < end_s:
            step = max(step + 1, int((time.monotonic() - begun_s) / interval_s))
            due_s = min(begun_s + step * interval_s, end_s)
            wait(max(0.0, due_s - time.monotonic()))
            try:
                self.saw(self.endpoint.scrape(self.schedule.answer_s))
            except InfoptError as error:
                self.missed(error)

    def observation(self, interrupted: bool) -> Observation:
        """What the kept snapshots say, with what went wrong."""
        seen = self.observed(self.kept.all())
        notes = list(unread(self.last.snapshot.metrics))
        if interrupted:
            notes.append(f"interrupted after {self.looks} looks; {self.schedule.duration_s:g} s were asked for")
        if self.lost is not None:
            notes.append(self.lost)
        elif self.failed:
            notes.append(f"{self.failed} of {self.looks + self.failed} looks failed, the last one: {self.trouble}")
        return seen.model_copy(update={"notes": (*seen.notes, *notes)})
