"""The figures of one benchmark result, read without trusting it, and what follows from them by Little's law.

A figure is a finite number of at least zero. What is absent is None; what is there and is no such number is an error:
a result with holes is not an observation. A mean of zero is how tools write "not measured" (nothing was streamed, no
answer had a second token) and becomes None.

Little's law (L = rate x time, J. D. C. Little, Operations Research 9(3), 1961) over the time from the first token of a
request to its last gives the sequences a decode step holds:

    effective batch = requests / window x (mean end-to-end time - mean time to the first token)

Where the file has no end-to-end times, output tokens / window x mean time per output token is the nearest: the same but
for the first token of each request and for answers of unequal length. Where nothing was streamed, requests / window x
end-to-end time is all there is: it counts sequences that wait or are in their prompt, and is said to.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.observing.observation import Observation, Spread
from infopt.profiles.files import shown
from infopt.records import read_yaml, validate_record

BACKENDS = Path(__file__).resolve().parent.parent / "data" / "benchmark_backends.yaml"
MOST = 1e15  # no count, and no time in nanoseconds, of a benchmark is larger
LEAST = 1e-12  # what is smaller is 0: nothing of a benchmark is, and quotients stay finite
MS = 1e-3
ONE_TOKEN = 1.05  # outputs of so many tokens are of one: means over requests and over outputs differ that much
ROUNDED = 1.05  # a share of all by two means
APART = 1.5  # times: a time per output token that the end-to-end times contradict
TOGETHER = "of all replicas behind the address together"  # a client cannot tell them apart
SPREAD_NAMES = ("mean", "p50", "p90", "p99")


class Figures:
    """The figures of one object of a result; `where` names the file and the part in every error."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, Mapping):
            raise InfoptError(f"{where}: is no JSON object, a part of the result is missing: save the result again")
        self.data, self.where = data, where

    def error(self, problem: str) -> InfoptError:
        return InfoptError(f"{self.where}: {problem}")

    def part(self, name: str) -> "Figures":
        """An object inside."""
        return Figures(self.data.get(name), f"{self.where}: {name}")

    def optional(self, name: str) -> float | None:
        """A figure that may be absent; there, it must be one."""
        return self._figure(self.data[name], name) if name in self.data else None

    def nullable(self, name: str) -> float | None:
        """A figure the tool itself writes as null where it has none."""
        return None if self.data.get(name) is None else self.optional(name)

    def number(self, name: str) -> float:
        """A figure that must be there."""
        value = self.optional(name)
        if value is None:
            raise self.error(f"{name} is missing: the result is incomplete, save it again")
        return value

    def positive(self, name: str, zero_means: str) -> float:
        """A figure that must be there and above zero."""
        value = self.number(name)
        if value == 0:
            raise self.error(f"{name} is 0: {zero_means}")
        return value

    def text(self, name: str) -> str | None:
        """A name, as it may stand in a message."""
        value = self.data.get(name)
        return shown(value) if isinstance(value, str) and value else None

    def setting(self, name: str) -> str | None:
        """A number among the settings of a run, as it may stand in a note; None for words and for none."""
        value = self.data.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
            return None
        return f"{value:g}"

    def values(self, name: str) -> list[float] | None:
        """A list of figures, None where it is absent or empty."""
        return self._list(self.data.get(name), name)

    def nested(self, name: str) -> list[list[float]] | None:
        """A list of lists of figures, None where it is absent or empty."""
        found = self.data.get(name)
        if not found:
            return None
        if not isinstance(found, list):
            raise self.error(f"{name} is no list")
        return [self._list(item, name) or [] for item in found]

    def _list(self, found: Any, name: str) -> list[float] | None:
        if not found:
            return None
        if not isinstance(found, list):
            raise self.error(f"{name} is no list")
        return [self._figure(value, name) for value in found]

    def _figure(self, value: Any, name: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"{name} is {_said(value)}, not a number: the result is incomplete, save it again")
        if not 0 <= value <= MOST:  # NaN fails too
            what = "negative" if value < 0 else "infinite, or no number" if isinstance(value, float) else "too large"
            raise self.error(f"{name} is {what}: no benchmark measures that")
        return float(value) if value >= LEAST else 0.0


def _said(value: Any) -> str:
    if value is None:
        return "null (or NaN)"
    return f"the text {shown(value[:60])!r}" if isinstance(value, str) else f"a {type(value).__name__}"


def spread(figures: Figures, names: Mapping[str, str], scale: float = 1.0, count: float | None = None) -> Spread | None:
    """A time from a mean and percentiles under `names`, in seconds after `scale`; None if absent or never measured.

    Errors: InfoptError for percentiles that fall, or percentiles without a mean.
    """
    found = {key: figures.optional(name) for key, name in names.items()}
    given = {key: value for key, value in found.items() if value is not None}
    if not given:
        return None
    mean = figures.number(names["mean"])
    if mean == 0:
        return None
    steps = [given[key] for key in SPREAD_NAMES[1:] if key in given]
    if any(later < earlier * (1 - 1e-9) for earlier, later in itertools.pairwise(steps)):
        raise figures.error(f"the percentiles of {names['mean']} fall: {', '.join(f'{step:g}' for step in steps)}")
    return Spread.model_validate({**{key: value * scale for key, value in given.items()}, "count": count})


def spread_of(values: Sequence[float]) -> Spread | None:
    """A time from its values, seconds; percentiles between values are linear, as numpy.percentile has them."""
    if not values or not any(values):
        return None
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    mean = math.fsum(ordered) / len(ordered)
    return Spread(mean=mean, p50=at(0.5), p90=at(0.9), p99=at(0.99), count=float(len(ordered)))


@dataclass(frozen=True, slots=True)
class Counted:
    """What Little's law needs of a run: counts over a window, and mean times of a request; None where not known."""

    window_s: float
    requests: float
    output_tokens: float | None
    tpot_s: Spread | None
    ttft_s: Spread | None
    e2e_s: Spread | None

    @property
    def by_tokens(self) -> float | None:
        """Output tokens/s x time per output token."""
        if self.output_tokens is None or self.tpot_s is None or self.tpot_s.mean is None:
            return None
        return self.output_tokens / self.window_s * self.tpot_s.mean

    @property
    def by_requests(self) -> float | None:
        """Requests/s x end-to-end time."""
        mean = None if self.e2e_s is None else self.e2e_s.mean
        return None if mean is None else self.requests / self.window_s * mean

    def fields(self) -> dict[str, Any]:
        """The fields of an observation that hold all this, with the batch; see the module."""
        contradicted = self._contradicted()
        if contradicted is not None:
            tpot, said = contradicted
            found = replace(self, tpot_s=tpot).fields()
            return {**found, "notes": (*found["notes"], said)}
        batch, how = self._batch()
        by_law = self.by_tokens if self.by_tokens is not None else self.by_requests
        return {
            "window_s": self.window_s,
            "requests": self.requests,
            "output_tokens": self.output_tokens,
            "tpot_s": self.tpot_s,
            "ttft_s": self.ttft_s,
            "e2e_s": self.e2e_s,
            "effective_batch": batch,
            "effective_batch_by_littles_law": by_law,
            "notes": (how,) if how else (),
        }

    def _contradicted(self) -> tuple[Spread, str] | None:
        """(End-to-end - first token) / (tokens - 1) of all requests, where the time per token stated is another.

        Both are of the same requests, the one a mean of quotients and the other a quotient of means: they differ by
        lengths that go with speed, by some per cent. A client that takes chunks for tokens is wrong by a factor.
        """
        means = [None if time is None else time.mean for time in (self.tpot_s, self.ttft_s, self.e2e_s)]
        stated, first, whole = means
        if not stated or first is None or whole is None or self.output_tokens is None:
            return None
        decoded, decoding_s = self.output_tokens / self.requests - 1, whole - first
        if decoded < 1 or decoding_s <= 1e-6 * whole:
            return None
        derived = decoding_s / decoded
        if 1 / APART <= derived / stated <= APART:
            return None
        said = f"time per output token: {derived * 1000:.3g} ms by end-to-end times and tokens, which counts here"
        return Spread(mean=derived), f"{said}; the file states {stated * 1000:.3g} ms: of chunks, or of other requests"

    def _batch(self) -> tuple[float | None, str | None]:
        if self.e2e_s and self.ttft_s and self.e2e_s.mean is not None and self.ttft_s.mean is not None:
            decoding_s = self.e2e_s.mean - self.ttft_s.mean
            # A client that does not stream writes its whole answer time as the time to the first token.
            if decoding_s > 1e-6 * self.e2e_s.mean:
                said = f"effective batch: requests/s x time from first to last token, {TOGETHER}"
                return self.requests / self.window_s * decoding_s, said
        elif self.by_tokens is not None:
            return self.by_tokens, f"effective batch: output tokens/s x time per output token, {TOGETHER}"
        if self.by_requests is None:
            return None, None
        said = "effective batch: requests/s x end-to-end time, with those that wait or are prefilled"
        return self.by_requests, f"{said}, {TOGETHER}"


def steps(tokens: float | None, gap: Spread | None, speculates: bool) -> dict[str, Any]:
    """Tokens per step and the time of one, from the tokens of a streamed chunk of a sequence and the gap between two.

    A chunk holds at least one step, so a step gives no more tokens than a chunk. Chunks of one token are steps of one
    token; chunks of more are steps only where the file shows that the engine speculates, and otherwise may be several
    steps in one chunk: then neither figure is known.
    """
    if tokens is None:
        return {"tokens_per_step": None, "itl_s": gap, "notes": ()}
    if speculates or tokens <= ONE_TOKEN:
        return {"tokens_per_step": max(1.0, tokens) if speculates else 1.0, "itl_s": gap, "notes": ()}
    between = "" if gap is None or gap.mean is None else f", {gap.mean * 1000:.3g} ms apart"
    said = f"streamed chunks hold {tokens:.3g} tokens{between}: speculation, or steps bundled on the way"
    return {"tokens_per_step": None, "itl_s": None, "notes": (f"{said}; not told apart here",)}


def ratio(first: Spread | None, second: Spread | None) -> float | None:
    """Of two mean times."""
    if first is None or second is None or first.mean is None or not second.mean:
        return None
    return first.mean / second.mean


def draft_share(drafts: float, tokens_per_step: float, decoded: float) -> float | None:
    """Steps with a draft / steps: drafts x tokens of a step / decoded tokens.

    Both come of means, so that all steps may be a little more than all; None where it is more than that.
    """
    return min(1.0, drafts * tokens_per_step / decoded) if drafts * tokens_per_step <= ROUNDED * decoded else None


def agree(figures: Figures, name: str, count: str, duration: str) -> None:
    """A rate the file states must be its count over its duration, within 1 %: else its parts are of different runs."""
    stated = figures.nullable(name)
    if stated is None:
        return
    rate = figures.number(count) / figures.number(duration)
    if not math.isclose(stated, rate, rel_tol=0.01):
        raise figures.error(f"{name} is {stated:g}, but {count} / {duration} is {rate:g}: not figures of one run")


def engine_of(backend: str | None) -> str | None:
    """The engine a client's word for its server names, None for a protocol's word."""
    return None if backend is None else _backends().get(backend)


@cache
def _backends() -> dict[str, str]:
    found: dict[str, str] = read_yaml(BACKENDS)
    return {word: engine for word, engine in found.items() if word != "source"}


def failures(failed: float | None, requests: float) -> tuple[str, ...]:
    """The note on requests that failed."""
    if not failed:
        return ()
    return (f"{failed:.0f} of {failed + requests:.0f} requests failed: the figures are of the others",)


def load(figures: Figures, most: str, rate: str, *others: str | None) -> tuple[str, ...]:
    """The note on the load: what was asked for, which is not what ran, under the names `most` and `rate`."""
    asked, per_s = figures.setting(most), figures.setting(rate)
    said = [f"at most {asked} at once asked for" if asked else None, f"{per_s} requests/s asked for" if per_s else None]
    words = [word for word in (*said, *others) if word]
    return (f"load: {', '.join(words)}",) if words else ()


def observation(where: str, fields: Mapping[str, Any]) -> Observation:
    """The record; a figure no observation can hold is a one-line error."""
    return validate_record(Observation, {"kind": "benchmark", "source": where, **fields}, where)
