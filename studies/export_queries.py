"""PromQL for an engine's figures, in the names `observing` knows and by the arithmetic of observing/figures.py.

Where an engine has renamed a figure, the old names follow after `or`, so one query serves all versions. A quotient of
counters is absent, not NaN, where the lower one did not grow. Left to `observe`: what needs the texts of two looks side
by side (rates since somebody's last look, means since the start), and gauges with values that mean "none".
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.observing.metric_names import ADDED, FOLDER, Counter, Gauge, MetricNames, Time, Way, known_engines
from infopt.records import load_record, names_in

TARGET_LABELS = ("job", "instance")  # that Prometheus gives every series it scrapes
Quantile = float | Literal["mean"]


def named_metrics(text: str | None, engine: str) -> MetricNames:
    """The names of `--metrics`, else of the engine itself.

    Errors: InfoptError for an engine whose names nobody has looked at, listing those that are known.
    """
    known = ", ".join(names_in(FOLDER))
    if text is not None:
        return load_record(MetricNames, FOLDER, text, "metrics", f"--metrics takes {known}")
    own = [names for names in known_engines() if names.engine == engine and names.owner]
    if not own:
        raise InfoptError(f"no names of metrics are known of {engine}: --metrics says whose they are, one of {known}")
    return own[0]


def quoted(text: str) -> str:
    """A string of PromQL.

    >>> print(quoted('a "b" {c}'))
    "a \\"b\\" {c}"
    """
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which series a query is of.

    matchers  as between braces: model_name="a",namespace="b"
    window    of rates and means: 5m
    prefix    of the names, where a collector has written another one
    replicas  behind one address, where the engine stands in front of others and does not say; else None
    """

    matchers: str
    window: str
    prefix: str
    replicas: int | None = None


class Queries:
    """Queries of one engine; each is None where the engine has no name for the figure."""

    def __init__(self, names: MetricNames, scope: Scope) -> None:
        self.names, self.scope = names, scope
        self.by = (*TARGET_LABELS, *names.model_label[:1])

    def rate(self, name: Counter) -> str | None:
        """Growth of a counter in a second, over everything behind one address."""
        return self._first(self._total(way, self._rate) for way in self.names.counters.get(name, ()))

    def gauge(self, name: Gauge, over: str = "avg_over_time") -> str | None:
        """The mean of a gauge over the window: the sum over ranks of what adds up, the mean of what does not."""
        join = "sum" if name in ADDED else "avg"
        ways = (way for way in self.names.gauges.get(name, ()) if way.label is None and not way.none)
        return self._first(self._total(way, self._over(over), join) for way in ways)

    def replicas(self) -> str | None:
        """Engines behind one address that share the load."""
        ways = self.names.gauges.get("running", ())
        counted = self._first(self._summed(way.metric, way, self._over("avg_over_time"), "count") for way in ways)
        if counted is None or self.scope.replicas is None:
            return counted
        return f"0 * ({counted}) + {self.scope.replicas}"

    def present(self) -> str | None:
        """Series that a server of this engine has, as they are: any of them shows that it is scraped."""
        ways = (*self.names.gauges.get("running", ()), *self.names.counters.get("requests", ()))
        return self._first(self._selected(way.metric, way) for way in ways)

    def selector(self, matchers: Sequence[str]) -> str:
        """Those series under one selector, by other matchers."""
        names = sorted({self._spelled(way.metric) for way in self.names.gauges.get("running", ())})
        if len(names) == 1:
            return f"{names[0]}{{{','.join(matchers)}}}"
        named = f"__name__=~{quoted('|'.join(names))}"
        return f"{{{','.join([named, *matchers])}}}"

    def time(self, name: Time, quantile: Quantile = "mean") -> str | None:
        """A time, from its histogram or from two counters."""
        ways = (way for way in self.names.times.get(name, ()) if way.rate is None and not way.per_request)
        return self._first(self._time(way, quantile) for way in ways)

    def tpot(self, quantile: Quantile = "mean") -> str | None:
        """Per output token after a request's first: the histogram's, else its mean from the time of steps."""
        found = self.time("tpot_s", quantile)
        if quantile != "mean":
            return found
        decoded, seconds, inference = self.decoded(), self.rate("answer_seconds"), self.rate("inference_seconds")
        if decoded is None:
            return found
        prefill, requests = self.time("prefill_s"), self.rate("requests")
        if seconds is None and inference and prefill and requests:
            seconds = f"clamp_min({inference} - {_wrapped(prefill)} * {_wrapped(requests)}, 0)"
        return self._first((found, self._ratio(seconds, decoded)))

    def decoded(self) -> str | None:
        """Output tokens in a second but for the first of each answer."""
        found = _difference(self.rate("output_tokens"), self.rate("first_tokens"))
        return None if found is None else f"clamp_min({found}, 0)"

    def tokens_per_step(self) -> str | None:
        """Tokens a step gives a sequence: 1 without speculation."""
        steps, own, decoded = self.rate("answer_steps"), self.rate("accepted"), self.decoded()
        counted = self._ratio(decoded if own is None else own, steps)
        itl, tpot = self.time("itl_s"), self.time("tpot_s")
        emitted, accepted = decoded or self.rate("output_tokens"), self._drafting("accepted")
        length = self.gauge("accept_length")
        return self._first(
            (
                counted if own is None or counted is None else f"1 + {counted}",
                self._ratio(itl, tpot),
                self._ratio(emitted, _difference(emitted, accepted)),
                None if length is None else f"clamp_min({length}, 1)",
            )
        )

    def step(self) -> str | None:
        """Time of one decode step: counted by steps, else of tokens and the tokens a step gives, else one each."""
        counted, tpot, tokens = self.time("itl_s"), self.tpot(), self.tokens_per_step()
        if counted is not None or tpot is None:
            return counted
        return tpot if tokens is None else f"{_wrapped(tpot)} * {_wrapped(tokens)} or {_wrapped(tpot)}"

    def batch(self) -> str | None:
        """Sequences in a step of one replica: counted over steps, else by the gauge."""
        steps, answers, first = (self.rate(name) for name in ("steps", "answer_steps", "first_tokens"))
        gauge = self._ratio(self.gauge("running"), self.replicas())
        if steps is not None and answers is not None and not self.names.at_end:
            outputs = answers if first is None else f"{_wrapped(answers)} + {_wrapped(first)}"
            return self._first((self._ratio(outputs, steps), gauge))
        return gauge

    def kv_use(self) -> str | None:
        """Share of the cache pool in use."""
        return self.gauge("kv_use_share") or self._ratio(self.gauge("used_blocks"), self.gauge("blocks"))

    def prefix_hits(self) -> str | None:
        """Share of prompt tokens found in the cache."""
        found = []
        for way in self.names.found:
            hits = self._total(way.hits, self._rate)
            queries = None if way.queries is None else self._total(way.queries, self._rate)
            if way.misses is not None:
                queries = f"{_wrapped(hits)} + {_wrapped(self._total(way.misses, self._rate))}"
            found.append(self._ratio(hits, queries))
        return self._first((*found, self.gauge("prefix_hit_share")))

    def accepted_per_draft(self) -> str | None:
        """Tokens of a draft that were accepted."""
        accepted, drafts, emitted = (self._drafting(name) for name in ("accepted", "drafts", "emitted"))
        ways = [self._ratio(accepted, drafts), self._ratio(accepted, _difference(emitted, accepted))]
        if self.names.speculation is not None and self._drafting("accepted") is None:
            # It verifies a draft in every step that it counts.
            verified = self._ratio(self.decoded(), self.rate("answer_steps"))
            ways.append(None if verified is None else f"{verified} - 1")
        return self._first(ways)

    def arrivals(self) -> str | None:
        """Requests that arrive in a second: those that end, and what waiting and running ones grow by."""
        ended, waiting, running = self.rate("requests"), self.gauge("waiting", "deriv"), self.gauge("running", "deriv")
        if ended is None or waiting is None or running is None:
            return ended
        grown = f"clamp_min({_wrapped(ended)} + {_wrapped(waiting)} + {_wrapped(running)}, 0)"
        return self._first((grown, ended))

    def _drafting(self, name: Literal["accepted", "drafts", "emitted"]) -> str | None:
        """A counter of speculation."""
        drafts = self.names.draft_names()
        if drafts is None or drafts.accepted is None:
            return None if name == "emitted" else self.rate(name)
        own = getattr(drafts, name)
        return None if own is None else self._total(Way(metric=drafts.prefix + own), self._rate)

    def _time(self, way: Way, quantile: Quantile) -> str | None:
        if quantile != "mean":
            if way.count is not None:
                return None
            buckets = self._summed(f"{way.metric}_bucket", way, self._rate, "sum", ("le",))
            return _scaled(f"histogram_quantile({quantile:g}, {buckets})", way.scale)
        spent, over = (way.metric, way.count) if way.count else (f"{way.metric}_sum", f"{way.metric}_count")
        whole = self._ratio(self._summed(spent, way, self._rate), self._summed(over, way, self._rate))
        return None if whole is None else _scaled(whole, way.scale)

    def _total(self, way: Way, over: Callable[[str], str], join: str = "sum") -> str:
        """The sum of a way's series, those beside the first only where they are there."""
        own = self._summed(way.metric, way, over, join)
        changed = own
        for sign, names in (("+", way.plus), ("-", way.less)):
            for name in names:
                changed = f"{changed} {sign} {self._summed(name, way, over, join)}"
        if changed == own:
            return _scaled(own, way.scale)
        return _scaled(f"(clamp_min({changed}, 0) or {own})", way.scale)

    def _summed(
        self, name: str, way: Way, over: Callable[[str], str], join: str = "sum", more: Sequence[str] = ()
    ) -> str:
        """One aggregate of a name's series; of ranks that do the same work one counts."""
        inner = over(self._selected(name, way))
        if self.names.copies:
            inner = f"max without ({', '.join(self.names.copies)}) ({inner})"
        return f"{join} by ({', '.join((*self.by, *more))}) ({inner})"

    def _selected(self, name: str, way: Way) -> str:
        own = [f"{label}=~{quoted('|'.join(map(re.escape, values)))}" for label, values in way.where.items()]
        matchers = ",".join([part for part in (self.scope.matchers, *own) if part])
        return f"{self._spelled(name)}{{{matchers}}}"

    def _spelled(self, name: str) -> str:
        first = self.names.prefixes[0]
        return self.scope.prefix + name.removeprefix(first) if name.startswith(first) else name

    def _rate(self, series: str) -> str:
        return f"rate({series}[{self.scope.window}])"

    def _over(self, function: str) -> Callable[[str], str]:
        return lambda series: f"{function}({series}[{self.scope.window}])"

    def _ratio(self, above: str | None, below: str | None) -> str | None:
        return None if above is None or below is None else f"{_wrapped(above)} / ({_wrapped(below)} > 0)"

    def _first(self, found: Iterable[str | None]) -> str | None:
        """The first of several that gives anything."""
        return " or ".join(dict.fromkeys(one for one in found if one is not None)) or None


def _difference(above: str | None, below: str | None) -> str | None:
    return None if above is None or below is None else f"{_wrapped(above)} - {_wrapped(below)}"


def _wrapped(query: str) -> str:
    """In brackets, where an operator beside it could part it."""
    return f"({query})" if any(f" {sign} " in query for sign in ("or", "+", "-", "*", "/")) else query


def _scaled(query: str, scale: float) -> str:
    return query if scale == 1.0 else f"{_wrapped(query)} * {scale:g}"
