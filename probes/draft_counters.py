"""What a server counts about its drafts, under one set of names; and what follows from the counts.

A verification step emits what it accepted and one token more, and so does a step without a draft (none and one):

    decoded tokens = accepted + steps
    =>  steps = decoded tokens - accepted,   tokens per step = 1 + accepted / steps

Decoded are all generated tokens but the first of each answer, which the prompt's own pass gives. This counts steps that
had no draft, which 1 + accepted / drafts forgets, and needs neither the number of drafts nor their length. accepted /
drafted is not used: it falls with the length of the draft at the same rate of acceptance. An answer that is cut at its
end has accepted tokens it does not show, up to a draft's length: this leaves out as many steps, unless the server
counts the steps that gave an answer tokens. Drafts, where they are counted, are the fewest steps there were.

The interval takes the steps as the sample. E[k^2] = sum_i (2 i - 1) P(k >= i) for k accepted in a step, exactly, where
positions are counted; where they are not, k is taken to be geometric (variance m (1 + m) at mean m, what a constant
chance of acceptance without a limit gives), and no larger than m (g - m), which nothing between 0 and g exceeds. Where
all of n steps did the same, the interval is sampling.nothing_else_seen.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.probes.metrics_text import Metrics
from infopt.probes.sampling import nothing_else_seen
from infopt.records import Record, load_record, names_in

FOLDER = Path(__file__).resolve().parent / "data" / "draft_counters"
MOST_POSITIONS = 256  # no draft is longer; a label beyond is not believed
Z = 1.96  # of a 95 % interval


class CounterNames(Record):
    """How one engine calls its counts.

    owner                  what /v1/models says
    prefix                 of every metric
    generated, accepted, drafted  counters of tokens
    drafts                 counter of steps that had a draft
    accepted_per_position  counter with a label `position`
    emitted                counter of tokens of steps that had a draft
    steps                  counter of all steps of verification
    answer_steps           counter of steps that gave an answer tokens after its first, with or without a draft
    accept_length          gauge of tokens per step
    reply_part             field of an answer (or of its first choice) that holds the following
    reply_steps, reply_accepted, reply_drafted, reply_histogram  names there, whichever is found
    request                field that asks for it
    unread                 metrics of speculation that say nothing more
    only_when_enabled      the counters exist only where speculation is configured; elsewhere they may stay at 0
    """

    engine: str
    owner: str
    prefix: str
    generated: str
    accepted: str | None = None
    drafted: str | None = None
    drafts: str | None = None
    accepted_per_position: str | None = None
    emitted: str | None = None
    steps: str | None = None
    answer_steps: str | None = None
    accept_length: str | None = None
    reply_part: str | None = None
    reply_steps: list[str] = Field([])
    reply_accepted: list[str] = Field([])
    reply_drafted: list[str] = Field([])
    reply_histogram: list[str] = Field([])
    request: str | None = None
    unread: list[str] = Field([])
    only_when_enabled: bool = False
    source: str

    def unknown(self, metrics: Metrics) -> list[str]:
        """Metrics of speculation, by their name, that nobody has looked at yet: a newer version, perhaps."""
        read = (self.generated, self.accepted, self.drafted, self.drafts, self.accepted_per_position, self.emitted)
        known = {self.prefix + name for name in (*read, self.steps, self.accept_length, *self.unread) if name}
        named = (name for name in metrics.series if name.startswith(f"{self.prefix}spec"))
        return sorted(name for name in named if name not in known and not name.endswith("_created"))


@cache
def engines() -> tuple[CounterNames, ...]:
    """All engines that are known."""
    return tuple(
        load_record(CounterNames, FOLDER, name, "engine", "see probes/data/draft_counters") for name in names_in(FOLDER)
    )


def engine_of(owner: str | None, metrics: Metrics | None) -> CounterNames | None:
    """Whose server it is, by what it says of its models, else by the names of its metrics."""
    for names in engines():
        if owner == names.owner:
            return names
    found = () if metrics is None else metrics.series
    return next((names for names in engines() if any(name.startswith(names.prefix) for name in found)), None)


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals, None where a server does not say.

    tokens, requests  generated, and answers they are of
    accepted, drafted  tokens of drafts
    drafts             steps that had a draft
    steps              all steps after the first token
    per_position       steps that accepted at least i + 1 tokens, by i
    accept_length      tokens per step by the server's own average
    answer_steps       steps as outputs after the first of an answer, which a server counts that does not speculate too
    """

    tokens: float | None = None
    requests: float = 0.0
    accepted: float | None = None
    drafted: float | None = None
    drafts: float | None = None
    steps: float | None = None
    per_position: tuple[float, ...] = ()
    accept_length: float | None = None
    answer_steps: float | None = None


def counts_of(metrics: Metrics, names: CounterNames) -> Counts:
    """The counters of one moment."""

    def total(name: str | None) -> float | None:
        value = None if name is None else metrics.total(names.prefix + name)
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise InfoptError(f"the server's {names.prefix}{name} is {value}, which counts nothing")
        return value

    accepted, drafts, tokens = total(names.accepted), total(names.drafts), total(names.generated)
    emitted = total(names.emitted)
    if drafts is None and accepted is not None and emitted is not None:
        # Before vLLM V1. A step with a draft emits one token it did not accept. These counts lag behind generated
        # tokens by seconds, so the two do not go together.
        drafts, tokens = max(0.0, emitted - accepted), None
    return Counts(
        tokens=tokens,
        accepted=accepted,
        drafted=total(names.drafted),
        drafts=drafts,
        steps=total(names.steps),
        answer_steps=total(names.answer_steps),
        per_position=_positions(metrics, names),
        accept_length=total(names.accept_length),
    )


def _positions(metrics: Metrics, names: CounterNames) -> tuple[float, ...]:
    """Counts by position, if they are 0, 1, ... without a gap."""
    if names.accepted_per_position is None:
        return ()
    by_label = metrics.by(names.prefix + names.accepted_per_position, "position")
    if len(by_label) > MOST_POSITIONS or set(by_label) != {str(i) for i in range(len(by_label))}:
        return ()
    values = tuple(by_label[str(i)] for i in range(len(by_label)))
    return values if all(math.isfinite(value) and value >= 0 for value in values) else ()


def difference(before: Counts, after: Counts, engine: str) -> Counts:
    """What was counted in between; a counter that first appears began at 0.

    Errors: InfoptError where one fell: the server was started anew.
    """
    grown: dict[str, Any] = {}
    for name in ("tokens", "accepted", "drafted", "drafts", "steps", "answer_steps"):
        end, begin = getattr(after, name), getattr(before, name) or 0.0
        if end is not None and end < begin and name != "drafts":
            raise _restarted(engine, name, begin, end)
        grown[name] = None if end is None else max(0.0, end - begin)
    begins = (*before.per_position, *[0.0] * len(after.per_position))
    positions = [end - begin for end, begin in zip(after.per_position, begins, strict=False)]
    if any(value < 0 for value in positions):
        raise _restarted(engine, "accepted by position", max(begins), max(after.per_position))
    return Counts(**grown, per_position=tuple(positions), accept_length=after.accept_length)


def _restarted(engine: str, name: str, begin: float, end: float) -> InfoptError:
    return InfoptError(
        f"{engine}'s count of {name} fell from {begin:.0f} to {end:.0f}: the server was restarted, or another one "
        "answered; measure again"
    )


def counts_of_replies(replies: Sequence[Mapping[str, Any]], names: CounterNames | None) -> Counts:
    """What the answers themselves say, added up; what one of them does not say of its steps is not known."""
    tokens = [_whole(_part(reply, "usage").get("completion_tokens")) for reply in replies]
    parts = [_part(reply, names.reply_part) if names else {} for reply in replies]

    def added(keys: Sequence[str]) -> float | None:
        found = [next((value for key in keys if (value := _whole(part.get(key))) is not None), None) for part in parts]
        said = [value for value in found if value is not None]
        return float(sum(said)) if said else None

    return Counts(
        tokens=float(sum(n for n in tokens if n is not None)) if None not in tokens else None,
        requests=float(sum(n != 0 for n in tokens)),
        accepted=added(names.reply_accepted) if names else None,
        drafted=added(names.reply_drafted) if names else None,
        steps=added(names.reply_steps) if names else None,
        per_position=_of_histograms(parts, names.reply_histogram) if names else (),
    )


def _of_histograms(parts: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> tuple[float, ...]:
    """Steps by tokens accepted, as steps that accepted at least 1, 2, ...; empty where an answer does not say."""
    found = [next((part[key] for key in keys if isinstance(part.get(key), list)), None) for part in parts]
    histograms: list[list[int]] = []
    for histogram in found:
        whole = [] if histogram is None or len(histogram) > MOST_POSITIONS else [_whole(n) for n in histogram]
        known = [n for n in whole if n is not None]
        if not known or len(known) < len(whole):
            return ()
        histograms.append(known)
    longest = max((len(h) for h in histograms), default=0)
    return tuple(float(sum(sum(h[i:]) for h in histograms)) for i in range(1, longest))


def _part(reply: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    """An object of an answer, or of its first choice."""
    choices = reply.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    for holder in (reply, first):
        if name is not None and isinstance(holder.get(name), dict):
            return holder[name]  # type: ignore[no-any-return]
    return {}


def _whole(value: object) -> int | None:
    """A count, which is no truth value."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What counts say: see the fields of hardware.calibration.Acceptance."""

    drafted: int | None
    per_position: tuple[float, ...]
    share_with_draft: float | None
    tokens_per_step: float
    low: float
    high: float
    tokens: int
    steps: float
    how: str


def estimate(counts: Counts) -> Estimate:
    """Tokens per step and acceptance by position.

    Errors: InfoptError where no token was decoded after the first of an answer, or counts contradict one another.
    """
    if counts.accepted is not None and counts.drafted is not None and counts.accepted > counts.drafted:
        raise InfoptError(
            f"the server counts {counts.accepted:.0f} accepted of {counts.drafted:.0f} drafted tokens, "
            "which cannot be; measure while nobody else uses it"
        )
    decoded = None if counts.tokens is None else counts.tokens - counts.requests
    if decoded is not None and decoded <= 0:
        raise InfoptError("no answer has a second token, so no draft was verified; ask for more (--osl) or other texts")
    steps, emitted, how = _steps(counts, decoded)
    most = _most_drafted(counts)
    mean = max(0.0, emitted / steps - 1)
    low, high = _interval(counts.per_position, mean, steps, most)
    drafts = counts.drafts if counts.drafts is not None else steps if counts.steps is not None else None
    return Estimate(
        drafted=most,
        per_position=tuple(min(1.0, n / drafts) for n in counts.per_position) if drafts else (),
        share_with_draft=None if counts.drafts is None or counts.tokens is None else min(1.0, counts.drafts / steps),
        tokens_per_step=1 + mean,
        low=low,
        high=high,
        tokens=round(emitted if counts.tokens is None else counts.tokens),
        steps=steps,
        how=how,
    )


def _steps(counts: Counts, decoded: float | None) -> tuple[float, float, str]:
    """Steps, tokens they emitted, and how that is known; best knowledge first."""
    if counts.steps and decoded is not None:
        return counts.steps, decoded, "tokens after the first / steps of verification"
    if counts.accepted is not None and decoded is not None:
        fewest = max(decoded - counts.accepted, counts.drafts or 0.0)
        # Each answer may hide what its last draft had beyond the end; a count outside of that counts something else.
        cut = (_most_drafted(counts) or 0) * counts.requests
        if counts.answer_steps and fewest <= counts.answer_steps <= fewest + cut:
            steps = counts.answer_steps
            return steps, steps + counts.accepted, "1 + accepted / steps, steps = outputs after the first"
        if fewest > 0:
            return fewest, fewest + counts.accepted, "1 + accepted / steps, steps = tokens after the first - accepted"
    if counts.accepted is not None and counts.drafts:
        how = "1 + accepted / drafts: steps are not known, so those without a draft are left out"
        return counts.drafts, counts.drafts + counts.accepted, how
    if counts.accept_length and decoded is not None:
        length = max(1.0, counts.accept_length)
        return decoded / length, decoded, "the server's own average of its last interval"
    raise InfoptError("the server's counts do not say how many steps were taken")


def _most_drafted(counts: Counts) -> int | None:
    """Tokens of the longest draft: positions that are counted, else the average length rounded up."""
    if counts.per_position:
        return len(counts.per_position)
    steps = counts.drafts or counts.steps
    return math.ceil(counts.drafted / steps) if counts.drafted and steps else None


def _interval(positions: Sequence[float], mean: float, steps: float, most: int | None) -> tuple[float, float]:
    """Of tokens per step, 95 %."""
    longest = math.inf if most is None else float(most)
    variance = _variance(positions, mean, steps, most)
    if variance > 0:
        half = Z * math.sqrt(variance / steps)
        return max(1.0, 1 + mean - half), 1 + min(longest, mean + half)
    low, high = nothing_else_seen(mean, float(most or 1), steps)
    return 1 + low, 1 + high


def _variance(positions: Sequence[float], mean: float, steps: float, most: int | None) -> float:
    """Of the tokens accepted in a step; see the head of this file."""
    if positions:
        square = math.fsum((2 * i - 1) * n for i, n in enumerate(positions, 1)) / steps
        return max(0.0, square - mean * mean)
    geometric = mean * (1 + mean)
    return geometric if most is None else max(0.0, min(geometric, mean * (most - mean)))
