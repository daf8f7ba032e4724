"""The arithmetic of one way of drafting in one situation: cycles, speedups, and the acceptance that pays.

    cycle   = t_verify(B, g) + g t_draft(B) + overhead
    speedup = (step + stall) / (cycle / tokens + stall)
B sequences, g drafted tokens. Of B sequences d B have a draft: a step lies between those of the whole numbers beside
d B, for one sequence has a draft or has none. The stall is what prompts of others take from each output token; with
drafts or without, every other sequence prefills once while one decodes its answer.
"""

import math
from collections.abc import Callable

from infopt.boundaries.drafting import Drafting
from infopt.boundaries.load import Draft
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import BASES, Basis, Steps, variants
from infopt.boundaries.technique import Gain
from infopt.ledgers.speculation import acceptance_for_tokens, cycle_s

# Ends of an overhead: low, best, high.
LOW, BEST, HIGH = 0, 1, 2


class Case:
    """Drafts of one kind in one situation, at any batch and draft length; what does not depend on the length is kept.

    situation  without speculation in use; its steps and their variants live as long as the case does
    """

    def __init__(self, situation: Situation, draft: Draft, drafting: Drafting) -> None:
        self.situation, self.draft, self.drafting = situation, draft, drafting
        self._every = (situation.steps, *variants(situation.steps))
        self._known: dict[tuple[str, int, float, int], float] = {}

    @property
    def basis(self) -> Basis:
        """What the cycle rests on: a measured cycle, or the poorer of the target's steps and the draft's."""
        if self.draft.cycle_ratio is not None:
            return "curve"
        own = self.drafting.steps.basis if self.drafting.steps is not None else "curve"
        return max(self.situation.steps.basis, own, key=BASES.index)

    def cycle_s(self, drafted: int, steps: Steps, batch: float, end: int = BEST) -> float:
        """Verification, passes of the draft and overhead."""
        if self.draft.cycle_ratio is not None:
            return self.draft.cycle_ratio * self.step_s(steps, batch)
        draft_s, schedule_s = self.draft_s(steps, batch, end), self.drafting.cycle_s[end]
        return float(cycle_s(self.verify_s(drafted, steps, batch), draft_s, drafted, schedule_s))

    def verify_s(self, drafted: int, steps: Steps, batch: float) -> float:
        """A step in which d B sequences bring `drafted` tokens more: between the whole numbers beside d B."""
        context, drafting = self.situation.scenario.decode_context_tokens, self.draft.drafting_share * batch
        fewer = math.floor(drafting)
        seconds = [steps.step_s(batch, context, 1 + drafted * n / batch) for n in (fewer, math.ceil(drafting))]
        return seconds[0] + (drafting - fewer) * (seconds[-1] - seconds[0])

    def step_s(self, steps: Steps, batch: float) -> float:
        """A step without drafts."""
        context = self.situation.scenario.decode_context_tokens
        return self._kept(("step", id(steps), batch, BEST), lambda: steps.step_s(batch, context))

    def draft_s(self, steps: Steps, batch: float, end: int = BEST) -> float:
        """One drafted token of every sequence."""
        context = self.situation.scenario.decode_context_tokens
        key = ("draft", id(steps), batch, end)
        return self._kept(key, lambda: self.drafting.draft_s(steps, batch, context, end))

    def stall_s(self, steps: Steps, batch: float) -> float:
        """Prompts of others, in every output token."""
        key = ("stall", id(steps), batch, BEST)
        return self._kept(key, lambda: steps.stall_s(batch, self.situation.cached_tokens))

    def _kept(self, key: tuple[str, int, float, int], seconds: Callable[[], float]) -> float:
        if key not in self._known:
            self._known[key] = seconds()
        return self._known[key]

    def plain_s(self, steps: Steps, batch: float) -> float:
        """Time per output token without drafts."""
        return self.step_s(steps, batch) + self.stall_s(steps, batch)

    def speedup(self, drafted: int, tokens: float, batch: float | None = None, end: int = BEST) -> float:
        """TPOT without drafts over TPOT with them, on the best that is known of the steps."""
        here = self.situation.batch if batch is None else batch
        return self._speedup(drafted, tokens, self.situation.steps, here, end)

    def _speedup(self, drafted: int, tokens: float, steps: Steps, batch: float, end: int) -> float:
        spent_s = self.cycle_s(drafted, steps, batch, end) / tokens + self.stall_s(steps, batch)
        return self.plain_s(steps, batch) / spent_s

    def gain(self, drafted: int, tokens: float) -> Gain:
        """The speedup with the interval of steps and overheads."""
        overheads, batch = (LOW, BEST, HIGH), self.situation.batch
        ends = [self._speedup(drafted, tokens, steps, batch, end) for steps in self._every for end in overheads]
        return Gain(self.speedup(drafted, tokens), min(ends), max(ends), "tpot")

    def tokens_for(self, drafted: int, ratio: float) -> float | None:
        """Tokens a cycle must yield to gain `ratio`; None where the stall alone is too long."""
        steps, batch = self.situation.steps, self.situation.batch
        left_s = self.plain_s(steps, batch) / ratio - self.stall_s(steps, batch)
        return self.cycle_s(drafted, steps, batch) / left_s if left_s > 0 else None

    def acceptance_for(self, drafted: int, ratio: float) -> float | None:
        """The rate at which drafts of this length gain `ratio`; None where no rate does."""
        tokens = self.tokens_for(drafted, ratio)
        return None if tokens is None else acceptance_for_tokens(tokens, drafted, self.draft.drafting_share)
