"""What each engine calls its figures in `/metrics`, as data: one file an engine in data/metric_names.

A quantity has a list of ways to be read, best first: a server is asked for the first that its text holds, so one file
serves all versions. Counters of speculation are those of probes/data/draft_counters; they are not repeated here.
"""

import math
import re
from fnmatch import translate
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
    "finished_prompt_tokens",  # the same of requests that finished alone
    "requests",  # finished
    "first_tokens",  # answers that began
    "answer_steps",  # steps that gave an answer tokens after its first, summed over answers
    "answer_seconds",  # the time of those steps, summed over answers
    "steps",  # of the engine, a batch counted once
    "preemptions",
    "inference_seconds",  # from a request's first pass to its last token, summed over requests
    "accepted",  # tokens of drafts; this and the next two where draft_counters has no name for them
    "drafted",
    "drafts",
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
    "used_blocks",
    "max_concurrency",
]
Time = Literal["tpot_s", "itl_s", "ttft_s", "e2e_s", "queue_s", "prefill_s"]
ADDED: frozenset[str] = frozenset(
    {
        "running",
        "waiting",
        "kv_pool_tokens",
        "kv_pool_bytes",
        "kv_used_tokens",
        "blocks",
        "used_blocks",
        "max_concurrency",
    }
)


class Way(Record):
    """One way to read a quantity.

    metric  name of the series, or the family of a histogram where a time is read
    where   labels the series must have, each with the values that count
    label   the value stands in this label of an info metric
    count   a time is metric / count, both counters
    rate    gauge: of what a time is of, how many in a second of `metric`, since the look before
    per_request  a time is the growth of `metric` / requests, where those ran alone: the time of a step counts once
    beside  the text must hold these too: without them, the names are of a version that means something else
    said    note for whoever reads a time that was found this way
    plus, less  series that are added to it, and taken from it
    scale   times the value gives the unit of the quantity
    none    values the engine writes where it has none
    """

    metric: str
    where: dict[str, list[str]] = Field({})
    label: str | None = None
    count: str | None = None
    rate: str | None = None
    per_request: bool = False
    beside: list[str] = Field([])
    said: str | None = None
    plus: list[str] = Field([])
    less: list[str] = Field([])
    scale: float = 1.0
    none: list[float] = Field([])

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, data: Any) -> Any:
        return {"metric": data} if isinstance(data, str) else data

    def names(self) -> tuple[str, ...]:
        """The series it reads."""
        return (self.metric, *self.plus, *self.less, *([self.count] if self.count else []))

    def chosen(self, metrics: Metrics, name: str | None = None) -> dict[Labels, float]:
        """The series of one name whose labels are those that count."""
        series = metrics.series.get(name or self.metric, {})
        return {labels: value for labels, value in series.items() if value not in self.none and self.fits(labels)}

    def total(self, metrics: Metrics) -> float | None:
        """The sum over all series, in the unit of the quantity; None where the text has none."""
        chosen = self.chosen(metrics)
        if not chosen:
            return None
        more = sum(sum(self.chosen(metrics, name).values()) for name in self.plus)
        less = sum(sum(self.chosen(metrics, name).values()) for name in self.less)
        return max(0.0, sum(chosen.values()) + more - less) * self.scale

    def fits(self, labels: Labels) -> bool:
        """Whether labels are those that count."""
        said = dict(labels)
        return all(said.get(name) in values for name, values in self.where.items())


class Prefixes(Record):
    """One way to tell what share of prompts was found in the cache: hits / queries, or hits / (hits + misses)."""

    hits: Way
    queries: Way | None = None
    misses: Way | None = None


class Rule(Record):
    """Versions a text comes from if it holds all of `has`, one of `any` and none of `lacks`."""

    versions: str
    has: list[str] = Field([])
    any: list[str] = Field([])
    lacks: list[str] = Field([])


class MetricNames(Record):
    """One engine's names.

    engine         as engine_names() has it
    owner          what /v1/models says
    prefixes       of its metrics
    also           other prefixes, which collectors, proxies and Ray write for the first
    marks          any of these makes it this engine: a prefix alone may be a router's
    in_front       it stands in front of an engine, whose own metrics say more where they are there too
    speculation    record of probes/data/draft_counters
    model_label    labels of the model's name, newest first: the first that is anywhere in the text
    model_of       metric whose models count: others are steps before and behind it
    ranks          labels that tell engines apart which share the load: their figures add up
    copies         labels that tell apart ranks which do the same work: the first counts
    digits         of a number, more are rounded away; None: all are written
    at_end         tokens and requests are counted when a request ends, steps as they are taken
    counters, gauges, times  ways to read each quantity, best first
    found          ways to tell the share of prompts that was found in the cache, best first
    positions      counter of accepted tokens with a label of their position, where draft_counters has none
    caching        label that says whether prefixes are kept
    versions       first rule that holds
    said           notes for whoever reads figures of this engine
    unread         names (with * at will) that say nothing more
    """

    engine: str
    owner: str | None = None
    prefixes: list[str]
    also: list[str] = Field([])
    marks: list[str]
    in_front: bool = False
    speculation: str | None = None
    model_label: list[str] = Field([])
    model_of: str | None = None
    ranks: list[str] = Field([])
    copies: list[str] = Field([])
    digits: int | None = None
    at_end: bool = False
    counters: dict[Counter, list[Way]] = Field({})
    gauges: dict[Gauge, list[Way]] = Field({})
    times: dict[Time, list[Way]] = Field({})
    found: list[Prefixes] = Field([])
    positions: Way | None = None
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

    def rounding(self, value: float) -> float:
        """Most that a number of this engine may be off by what is not written of it."""
        return 0.0 if self.digits is None or value <= 0 else 10.0 ** (math.floor(math.log10(value)) + 1 - self.digits)

    def version_guess(self, metrics: Metrics) -> str | None:
        """Versions whose names these are."""
        for rule in self.versions:
            one = not rule.any or any(name in metrics.series for name in rule.any)
            if one and metrics.series.keys() >= set(rule.has) and metrics.series.keys().isdisjoint(rule.lacks):
                return rule.versions
        return None

    def growing(self) -> frozenset[str]:
        """Every name that only a restart can make smaller."""
        prefixes = [way for found in self.found for way in (found.hits, found.queries, found.misses)]
        counted = [*(way for ways in self.counters.values() for way in ways), *prefixes, self.positions]
        names = {name for way in counted if way is not None for name in way.names()}
        for way in (way for ways in self.times.values() for way in ways):
            one = way.count is not None or way.rate is not None or way.per_request
            names |= set(way.names()) if one else {way.metric + end for end in ("_bucket", "_sum", "_count")}
        drafts = self.draft_names()
        if drafts is not None:
            read = (drafts.generated, drafts.accepted, drafts.drafted, drafts.drafts, drafts.accepted_per_position)
            names |= {drafts.prefix + name for name in (*read, drafts.emitted, drafts.steps) if name}
        return frozenset(names)

    def reads(self) -> frozenset[str]:
        """Every name it reads."""
        ways = (*self.counters.values(), *self.gauges.values(), *self.times.values())
        named = {name for found in ways for way in found for name in way.names()}
        rates = {way.rate for ways in self.times.values() for way in ways if way.rate}
        return self.growing() | named | rates | ({self.caching.metric} if self.caching else set())

    def reads_of_its_own(self, metrics: Metrics) -> bool:
        """Whether it reads a name that stands under a prefix no one else has."""
        own = tuple(prefix for prefix in self.prefixes if prefix.endswith(":"))
        return any(name.startswith(own) for name in self.reads() & set(metrics.series)) if own else False

    def nones(self) -> dict[str, frozenset[float]]:
        """By name, the values of gauges that say nothing."""
        return {way.metric: frozenset(way.none) for ways in self.gauges.values() for way in ways if way.none}

    def unknown(self, metrics: Metrics) -> list[str]:
        """Families of this engine nobody has looked at yet: a newer version, perhaps."""
        read, drafts = self.reads(), self.draft_names()
        unread = [*self.unread, *([drafts.prefix + name for name in drafts.unread] if drafts else [])]
        looked_at = re.compile("|".join(translate(pattern) for pattern in (*unread, *map(_stem, read))))
        own = [name for name in metrics.series if name.startswith(tuple(self.prefixes)) and name not in read]
        families = {_family(name, metrics) for name in own if not looked_at.fullmatch(_stem(name))}
        return sorted(family for family in families - read if not looked_at.fullmatch(family))


def _stem(name: str) -> str:
    """A name without what a client library puts behind it."""
    for end in ("_bucket", "_sum", "_count", "_created", "_total"):
        name = name.removesuffix(end)
    return name


def _family(name: str, metrics: Metrics) -> str:
    """The name under which a series was made: parts of a histogram count as one, as do a counter and its birth."""
    for end in ("_bucket", "_sum", "_count"):
        family = name.removesuffix(end)
        if family != name and (f"{family}_sum" in metrics.series and f"{family}_count" in metrics.series):
            return family.removesuffix("_total")
    return name.removesuffix("_created").removesuffix("_total")


@cache
def known_engines() -> tuple[MetricNames, ...]:
    """All engines, those that answer themselves before those in front of others."""
    found = [load_record(MetricNames, FOLDER, name, "engine", "see data/metric_names") for name in names_in(FOLDER)]
    return tuple(sorted(found, key=lambda names: names.in_front))


def engines_of(metrics: Metrics) -> tuple[MetricNames, ...]:
    """Whose text this is; several where one is in front of another.

    Lines cut out of a text may hold no mark: names under a prefix like `vllm:` are then enough, where one is read.
    """
    marked = tuple(names for names in known_engines() if any(mark in metrics.series for mark in names.marks))
    return marked or tuple(names for names in known_engines() if names.reads_of_its_own(metrics))


def spelled(metrics: Metrics) -> Metrics:
    """The same text under the names of the engines themselves, where a collector has written another prefix."""
    others = {also: names.prefixes[0] for names in known_engines() for also in names.also}
    renamed = {}
    for name, series in metrics.series.items():
        prefix = next((prefix for prefix in others if name.startswith(prefix)), None)
        own = name if prefix is None else others[prefix] + name.removeprefix(prefix)
        renamed[name if own in metrics.series else own] = series
    return Metrics(renamed, metrics.unreadable)
