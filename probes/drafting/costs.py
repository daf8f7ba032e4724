"""Times of the pieces of a cycle, taken apart from any run, and the speedup they predict with a run's acceptance.

t_verify(n)  the target over n + 1 tokens, choosing included;  t = t_verify(0), a plain step
t_pass(m)    the draft over m tokens, m = 2 after a draft that was kept whole
draft_s      mean over cycles of t_pass(unread) + (n - 1) t_pass(1),  the lookup's time for one without passes
verify_s     mean over cycles of t_verify(n)                  n: tokens really drafted, often fewer than asked for
predicted    E t / (draft_s + verify_s)                       E: tokens per step
printed      (g t_draft + t) / (verify_s + t_draft)           document 1's; t_draft: of one drafted token
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from infopt.frozen import dataclass
from infopt.probes.drafting.decoding import Target
from infopt.probes.drafting.draft import Draft, Proposal
from infopt.probes.sampling import Operation, Sampling, Timing, Told, measure, quiet

LOOKUPS = 50  # timed together: one takes microseconds


@dataclass(frozen=True, slots=True)
class Costs:
    """Timings by piece.

    verify  by tokens drafted, 0: a plain step
    passes  by draft and tokens read in one pass; 0 for a lookup
    """

    verify: dict[int, Timing]
    passes: dict[tuple[str, int], Timing]

    @property
    def step_s(self) -> float:
        return self.verify[0].median_s

    def contended(self, draft: str) -> bool:
        """Whether a time that a draft's prediction rests on is untrustworthy; a lookup's microseconds do not."""
        passes = [timing for (name, unread), timing in self.passes.items() if name == draft and unread]
        return any(timing.contended for timing in (*self.verify.values(), *passes))


@dataclass(frozen=True, slots=True)
class Predicted:
    """Seconds of the pieces of a mean cycle, and the speedups they give."""

    step_s: float
    verify_s: float
    draft_s: float
    speedup_predicted: float
    speedup_printed: float


def measure_costs(
    target: Target,
    drafts: Sequence[Draft],
    context: Sequence[int],
    most_drafted: int,
    sampling: Sampling,
    tell: Told = quiet,
) -> Costs:
    """Time every piece at one context, interleaved.

    context  tokens, all of which target and drafts are made to read
    """
    target.begin(context)
    for draft in drafts:
        draft.begin(context, target.cache)
    keys: list[tuple[str, int] | int] = []
    operations = []
    for key, operation in _operations(target, drafts, context, most_drafted):
        keys.append(key)
        operations.append(operation)
    timings = dict(zip(keys, measure(target.decoder.runtime, operations, sampling, tell), strict=True))
    return Costs(
        {key: timing for key, timing in timings.items() if isinstance(key, int)},
        {key: timing for key, timing in timings.items() if not isinstance(key, int)},
    )


def _operations(
    target: Target, drafts: Sequence[Draft], context: Sequence[int], most_drafted: int
) -> Iterator[tuple[tuple[str, int] | int, Operation]]:
    """Pieces by key. Where a draft is certain, q costs nothing; the target's share of a drawn choice is in."""
    yield 0, Operation("plain step", lambda _: target.step(context), 1, "tokens")
    for n in range(1, most_drafted + 1):
        proposal = Proposal(list(context[:1]) * n)
        yield n, Operation(f"verify {n + 1}", partial(_verify, target, context, proposal), n + 1, "tokens")
    for draft in drafts:
        if not draft.reads:
            yield (draft.name, 0), Operation(draft.name, partial(_propose, draft, context, 0), 1, "tokens", LOOKUPS)
            continue
        for unread in draft.reads:
            run = partial(_propose, draft, context, unread)
            yield (draft.name, unread), Operation(f"{draft.name} pass {unread}", run, unread, "tokens")


def _verify(target: Target, context: Sequence[int], proposal: Proposal, number: int) -> None:
    target.verify(context, proposal)


def _propose(draft: Draft, context: Sequence[int], unread: int, number: int) -> None:
    draft.rewind(len(context) - unread)
    draft.propose(context, 1)


def predict(costs: Costs, draft: str, cycles: Counter[tuple[int, int]], tokens_per_step: float) -> Predicted:
    """Speedup of a draft from the pieces' times, its cycles' shapes and what they yielded.

    cycles  how many had how many unread and drafted tokens
    """
    count = cycles.total()
    drafted = sum(n * times for (_, n), times in cycles.items())
    verify_s = sum(costs.verify[n].median_s * times for (_, n), times in cycles.items()) / count
    draft_s = sum(_drafting_s(costs, draft, *shape) * times for shape, times in cycles.items()) / count
    step_s = costs.step_s
    per_token_s = draft_s * count / drafted if drafted else 0.0
    mean_drafted = drafted / count
    return Predicted(
        step_s,
        verify_s,
        draft_s,
        tokens_per_step * step_s / (draft_s + verify_s),
        (mean_drafted * per_token_s + step_s) / (verify_s + per_token_s),
    )


def _drafting_s(costs: Costs, draft: str, unread: int, drafted: int) -> float:
    """Seconds of one cycle's drafting."""
    lookup = costs.passes.get((draft, 0))
    if lookup is not None:
        return lookup.median_s
    passes = costs.passes
    return passes[draft, unread].median_s + (drafted - 1) * passes[draft, 1].median_s
