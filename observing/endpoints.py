"""Where a server says what it does, and one look at it: the paths are data/endpoints.yaml."""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.observing.observation import Observation
from infopt.observing.snapshots import Snapshot
from infopt.probes.metrics_text import Metrics, parse_metrics
from infopt.probes.server import METRICS_S, Reply, Server
from infopt.profiles.files import parse_json
from infopt.records import Record, read_yaml, validate_record

FILE = Path(__file__).resolve().parent / "data" / "endpoints.yaml"
MODELS = "/v1/models"
NAMED = "SOURCE"  # what the user gave the address as
MOST_SLOTS = 100_000
_NAME = re.compile(r"[\w./:@+ -]{1,300}")


class Slots(Record):
    """Where a server without metrics lists what it works on; see the head of the file."""

    owner: str
    path: str
    busy: list[str]
    series: str


class Paths(Record):
    """The record of data/endpoints.yaml."""

    metrics: list[str]
    slots: list[Slots]
    source: str


@cache
def paths() -> Paths:
    """Where to look."""
    return validate_record(Paths, read_yaml(FILE), str(FILE))


def server_at(url: str, environment: Mapping[str, str]) -> Server:
    """The server of an address, with or without the path of its API or of its metrics.

    Errors: InfoptError as Server has them.
    """
    base = url.rstrip("/")
    for path in sorted(paths().metrics, key=len, reverse=True):
        base = base.removesuffix(path)
    return Server(base, environment, NAMED)


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look: the snapshot, and the text it was read from (none of a list of slots)."""

    snapshot: Snapshot
    text: bytes


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What answers.

    slots         where the server has no metrics
    model, owner  as it lists them, None where it does not
    """

    server: Server
    path: str
    slots: Slots | None
    model: str | None
    owner: str | None

    @property
    def address(self) -> str:
        """Where it was read."""
        return self.server.base + self.path

    def scrape(self, answer_s: float = METRICS_S) -> Scrape:
        """A look now; its time is the middle of the exchange. Errors: InfoptError where nothing readable answers."""
        begun = time.monotonic()
        reply = self.server.get(self.path, answer_s)
        at_s = (begun + time.monotonic()) / 2
        if self.slots is not None:
            busy = _busy(self.server, reply, self.slots)
            metrics = Metrics({self.slots.series: {(): float(busy)}}, 0)
            return Scrape(Snapshot(metrics, at_s, now(), busy), b"")
        text = _text(self.server, self.path, reply)
        try:
            metrics = parse_metrics(text, self.address)
        except InfoptError as error:
            raise ElsewhereError(str(error)) from error
        return Scrape(Snapshot(metrics, at_s, now()), text)


def now() -> str:
    """UTC, ISO 8601, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find(server: Server, answer_s: float = METRICS_S) -> tuple[Endpoint, Scrape]:
    """Where this server has metrics, or slots at least, and the first look at them.

    Errors: InfoptError where nothing answers, or the key is wrong, or what answers is neither; the first path's reason
    is given, since that is where metrics are expected.
    """
    problems: list[InfoptError] = []
    for path in paths().metrics:
        endpoint = Endpoint(server, path, None, None, None)
        try:
            scrape = endpoint.scrape(answer_s)
        except RefusedError as error:
            raise InfoptError(str(error)) from error
        except ElsewhereError as error:
            problems.append(error)
            continue
        return Endpoint(server, path, None, *_served(server, answer_s)), scrape
    model, owner = _served(server, answer_s)
    for slots in paths().slots:
        if slots.owner == owner:
            endpoint = Endpoint(server, slots.path, slots, model, owner)
            try:
                return endpoint, endpoint.scrape(answer_s)
            except InfoptError as error:
                problems.append(error)
    raise problems[0]


class RefusedError(InfoptError):
    """The server wants another key, or none from us: no other path helps."""


class ElsewhereError(InfoptError):
    """Something answers here that is no Prometheus text; it may be at another path."""


def _text(server: Server, path: str, reply: Reply) -> bytes:
    """The Prometheus text of an answer."""
    where = server.base + path
    if reply.status in (401, 403):
        raise RefusedError(f"{where}: the server answered {server.meaning(reply)}")
    if reply.status != 200:
        raise ElsewhereError(f"{where}: no metrics: the server answered {server.meaning(reply)}")
    head = reply.body.lstrip()[:1]
    if head == b"<":
        raise ElsewhereError(f"{where}: answered with a web page, not metrics (a login page or a proxy?)")
    if head in (b"{", b"["):
        raise ElsewhereError(f"{where}: answered with JSON, not with a Prometheus text")
    if not head:
        raise ElsewhereError(f"{where}: an empty answer, no metrics")
    return whole_lines(reply.body)


def whole_lines(text: bytes) -> bytes:
    """Without a last line that has no end, as the format wants it: 12 may be the start of 1234."""
    return text[: text.rfind(b"\n") + 1]


def unread(metrics: Metrics) -> tuple[str, ...]:
    """A note on lines that are none of the format, where there are any."""
    lines = metrics.unreadable
    return (f"{lines} {'line' if lines == 1 else 'lines'} of the text could not be read",) if lines else ()


def of_model(o: Observation, served: str | None) -> Observation:
    """The observation, if it is of the model that was asked for. Errors: InfoptError, naming those there are."""
    if served is not None and o.model != served:
        raise InfoptError(f"--served {served}: {o.source} has {o.model or 'no names of models'}")
    return o


def _busy(server: Server, reply: Reply, slots: Slots) -> int:
    """How many slots work."""
    where = server.base + slots.path
    if reply.status != 200:
        raise InfoptError(f"{where}: the server answered {server.meaning(reply)}")
    listed = parse_json(reply.body, where)
    if not isinstance(listed, list) or len(listed) > MOST_SLOTS or not all(isinstance(one, dict) for one in listed):
        raise InfoptError(f"{where}: holds no list of slots")
    said = [next((one[name] for name in slots.busy if name in one), None) for one in listed]
    if any(value is None for value in said):
        raise InfoptError(f"{where}: slots do not say whether they work ({' or '.join(slots.busy)} is expected)")
    return sum(bool(value) for value in said)


def _served(server: Server, answer_s: float) -> tuple[str | None, str | None]:
    """The first model a server lists and who it says owns it; nothing of that where it lists none, as Triton does."""
    try:
        listed: Any = server.object(MODELS, server.get(MODELS, answer_s)).get("data")
    except InfoptError:
        return None, None  # metrics of another port than the API are usual
    first = listed[0] if isinstance(listed, list) and listed else None
    if not isinstance(first, dict):
        return None, None
    model, owner = (
        text if isinstance(text, str) and _NAME.fullmatch(text) else None
        for text in (first.get("id"), first.get("owned_by"))
    )
    return model, owner
