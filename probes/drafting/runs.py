"""Plain and speculative decoding of one prompt, back to back, and the speedup many such pairs show."""

from collections.abc import Sequence

from infopt.frozen import dataclass
from infopt.probes.drafting.decoding import Cycle, Limits, Target, plain, speculative
from infopt.probes.drafting.draft import Draft
from infopt.probes.runtime import Kind
from infopt.probes.sampling import OURS_SHARE, WIDEST_QUARTILES, Operation, percentile, sample


@dataclass(frozen=True, slots=True)
class Run:
    """One decoding: the tokens, its seconds, and how much of them the processor was ours."""

    tokens: tuple[int, ...]
    seconds: float
    ours: float

    @property
    def s_per_token(self) -> float:
        return self.seconds / len(self.tokens)


@dataclass(frozen=True, slots=True)
class Pair:
    """A plain and a speculative run of the same prompt, one after the other, and the latter's cycles."""

    draft: str
    most_drafted: int
    text: int
    round: int
    plain: Run
    drafted: Run
    cycles: tuple[Cycle, ...]

    @property
    def ratio(self) -> float:
        """Seconds a token, plain over drafted."""
        return self.plain.s_per_token / self.drafted.s_per_token


def pair_of(
    target: Target,
    draft: Draft,
    prompt: Sequence[int],
    most_drafted: int,
    plain_limits: Limits,
    limits: Limits,
    place: tuple[int, int],
) -> Pair:
    """Run both; which comes first alternates. `place`: number of the text, of the round."""
    text, round_ = place
    cycles: list[Cycle] = []
    written: dict[str, list[int]] = {}

    def plainly(_: int) -> None:
        written["plain"] = plain(target, prompt, plain_limits)

    def with_draft(_: int) -> None:
        written["drafted"], done = speculative(target, draft, prompt, most_drafted, limits)
        cycles.extend(done)

    work, runs = {"plain": plainly, "drafted": with_draft}, {}
    for name in ("plain", "drafted") if (text + round_) % 2 == 0 else ("drafted", "plain"):
        target.choice.reseed(1_000 * text + round_)
        target.begin(prompt)
        draft.begin(prompt, target.cache)
        taken = sample(target.decoder.runtime, Operation(name, work[name], 1, "tokens"), 0)
        runs[name] = Run(tuple(written[name]), taken.seconds, taken.ours)
    return Pair(draft.name, most_drafted, text, round_, runs["plain"], runs["drafted"], tuple(cycles))


def by_text(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Pairs of each text."""
    return [[pair for pair in pairs if pair.text == text] for text in sorted({pair.text for pair in pairs})]


def texts_of(pairs: Sequence[Pair], greedy: bool) -> list[list[Cycle]]:
    """Cycles of each text. Greedy rounds are repetitions of the same cycles: one of them counts."""
    return [[cycle for pair in (group[:1] if greedy else group) for cycle in pair.cycles] for group in by_text(pairs)]


def speedup(pairs: Sequence[Pair]) -> float:
    """Time of all texts' tokens, plain over drafted; each text's ratio is the median of its pairs."""
    plain_s = drafted_s = 0.0
    for group in by_text(pairs):
        tokens = sum(len(pair.drafted.tokens) for pair in group) / len(group)
        seconds = tokens * _median([pair.plain.s_per_token for pair in group])
        plain_s += seconds
        drafted_s += seconds / _median([pair.ratio for pair in group])
    return plain_s / drafted_s


def contended(kind: Kind, pairs: Sequence[Pair]) -> bool:
    """Whether others had too much of the machine, or the pairs of one text disagree."""
    if _median([run.ours for pair in pairs for run in (pair.plain, pair.drafted)]) < OURS_SHARE:
        return True
    groups = ([pair.ratio for pair in group] for group in by_text(pairs))
    off = sorted(ratio / _median(group) for group in groups for ratio in group)
    return percentile(off, 0.75) - percentile(off, 0.25) > WIDEST_QUARTILES[kind]


def _median(values: Sequence[float]) -> float:
    return percentile(sorted(values), 0.5)
