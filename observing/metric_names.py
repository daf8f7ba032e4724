"""What each engine calls its figures in `/metrics`, as data: one file an engine in data/metric_names.

A quantity has a list of ways to be read, best first: a server is asked for the first that its text holds, so one file
serves all versions. Counters of speculation are those of probes/data/draft_counters; they are not repeated here.
"""

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from infopt.probes import draft_counters
from infopt.probes.draft_counters import CounterNames
from infopt.probes.metrics_text import Labels, Metrics
from infopt.records import Record, load_record, names_in

FOLDER = Path(__file__).resolve().parent / "data" / "metric_names"

Counter = Literal[
    "output_tokens",  # generated
    "prompt_tokens",  # of prompts, those found in a cache too
    "requests",  # finished
    "first_tokens",  # answers that began
    "answer_steps",  # steps that gave an answer tokens after its first, summed over answers
    "answer_seconds",  # the time of those steps, summed over answers
    "steps",  # of the engine, a batch counted once
    "preemptions",
    "prefix_hits",  # tokens (or blocks, as in queries) of prompts found in the cache
    "prefix_queries",  # that were looked for
    "prefix_misses",  # looked for and not found, where queries are not counted
    "accepted",  # tokens of drafts, where draft_counters has no name for them
    "read_bytes",  # by one device
    "flop",  # of one device
]
Gauge = Literal[
    "running",  # sequences in the batch
    "waiting",
    "batch_mean",  # sequences in a step, mean since the server's start
    "accept_length",  # tokens a sequence gets of a step, the last interval's mean
    "kv_use_share",
    "prefix_hit_share",
    "kv_pool_tokens",
    "kv_pool_bytes",
    "kv_used_tokens",
    "block_tokens",
    "blocks",
    "max_concurrency",
    "bandwidth_read",
]
Time = Literal["tpot_s", "itl_s", "ttft_s", "e2e_s", "queue_s", "prefill_s"]
ADDED: frozenset[str] = frozenset(
    {"running", "waiting", "kv_pool_tokens", "kv_pool_bytes", "kv_used_tokens", "blocks", "max_concurrency"}
)


class Way(Record):
    """One way to read a quantity.

    metric  name of the series, or the family of a histogram where a time is read
    where   labels the series must have, each with the values that count
    label   the value stands in this label of an info metric
    count   a time is metric / count, both counters
    scale   times the value gives the unit of the quantity
    """

    metric: str
    where: dict[str, list[str]] = Field({})
    label: str | None = None
    count: str | None = None
    scale: float = 1.0

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, data: Any) -> Any:
        return {"metric": data} if isinstance(data, str) else data

    def names(self) -> tuple[str, ...]:
        """The series it reads."""
        return (self.metric,) if self.count is None else (self.metric, self.count)

    def chosen(self, metrics: Metrics, name: str | None = None) -> dict[Labels, float]:
        """The series of one name whose labels are those that count."""
        series = metrics.series.get(name or self.metric, {})
        return {labels: value for labels, value in series.items() if self.fits(labels)}

    def fits(self, labels: Labels) -> bool:
        """Whether labels are those that count."""
        said = dict(labels)
        return all(said.get(name) in values for name, values in self.where.items())


class Rule(Record):
    """Versions a text comes from if it holds all of `has` and none of `lacks`."""

    versions: str
    has: list[str]
    lacks: list[str] = Field([])


class MetricNames(Record):
    """One engine's names.

    engine         as engine_names() has it
    owner          what /v1/models says
    prefixes       of its metrics
    marks          any of these makes it this engine: a prefix alone may be a router's
    in_front       it stands in front of an engine, whose own metrics say more where they are there too
    speculation    record of probes/data/draft_counters
    model_label    label of the model's name
    model_of       metric whose models count: others are steps before and behind it
    ranks          labels that tell engines apart which share the load: their figures add up
    copies         labels that tell apart ranks which do the same work: the first counts
    counters, gauges, times  ways to read each quantity, best first
    caching        label that says whether prefixes are kept
    versions       first rule that holds
    said           notes for whoever reads figures of this engine
    unread         names (with * at will) that say nothing more
    """

    engine: str
    owner: str | None = None
    prefixes: list[str]
    marks: list[str]
    in_front: bool = False
    speculation: str | None = None
    model_label: str | None = None
    model_of: str | None = None
    ranks: list[str] = Field([])
    copies: list[str] = Field([])
    counters: dict[Counter, list[Way]] = Field({})
    gauges: dict[Gauge, list[Way]] = Field({})
    times: dict[Time, list[Way]] = Field({})
    caching: Way | None = None
    versions: list[Rule] = Field([])
    said: list[str] = Field([])
    unread: list[str] = Field([])
    source: str

    def draft_names(self) -> CounterNames | None:
        """Its counters of speculation."""
        if self.speculation is None:
            return None
        return load_record(CounterNames, draft_counters.FOLDER, self.speculation, "engine", "see data/draft_counters")

    def version_guess(self, metrics: Metrics) -> str | None:
        """Versions whose names these are."""
        for rule in self.versions:
            if all(n in metrics.series for n in rule.has) and not any(n in metrics.series for n in rule.lacks):
                return rule.versions
        return None

    def growing(self) -> frozenset[str]:
        """Every name that only a restart can make smaller."""
        names = {name for ways in self.counters.values() for way in ways for name in way.names()}
        for way in (way for ways in self.times.values() for way in ways):
            names |= set(way.names()) if way.count else {way.metric + end for end in ("_bucket", "_sum", "_count")}
        drafts = self.draft_names()
        if drafts is not None:
            read = (drafts.generated, drafts.accepted, drafts.drafted, drafts.drafts, drafts.accepted_per_position)
            names |= {drafts.prefix + name for name in (*read, drafts.emitted, drafts.steps) if name}
        return frozenset(names)

    def unknown(self, metrics: Metrics) -> list[str]:
        """Families of this engine nobody has looked at yet: a newer version, perhaps."""
        ways = (*self.counters.values(), *self.gauges.values(), *self.times.values())
        read = self.growing() | {way.metric for found in ways for way in found}
        read |= {self.caching.metric} if self.caching else set()
        families = {_stem(name) for name in metrics.series if name.startswith(tuple(self.prefixes))}
        known = {_stem(name) for name in read}
        drafts = self.draft_names()
        looked_at = [*self.unread, *([drafts.prefix + name for name in drafts.unread] if drafts else [])]
        return sorted(
            family
            for family in families
            if family not in known and not any(fnmatchcase(family, pattern) for pattern in looked_at)
        )


def _stem(name: str) -> str:
    """A name without what a client library puts behind it."""
    for end in ("_bucket", "_sum", "_count", "_created", "_total"):
        name = name.removesuffix(end)
    return name


@cache
def known_engines() -> tuple[MetricNames, ...]:
    """All engines, those that answer themselves before those in front of others."""
    found = [load_record(MetricNames, FOLDER, name, "engine", "see data/metric_names") for name in names_in(FOLDER)]
    return tuple(sorted(found, key=lambda names: names.in_front))


def engines_of(metrics: Metrics) -> tuple[MetricNames, ...]:
    """Whose text this is; several where one is in front of another."""
    return tuple(names for names in known_engines() if any(mark in metrics.series for mark in names.marks))
