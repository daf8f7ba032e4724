"""Decoding one sequence, plainly and with a draft.

    plain  [last] -> one token a step
    cycle  draft proposes n <= g;  the target reads [last, d_1 .. d_n] at once;  k of them stay, one token more
The caches are never copied: what was written for tokens that did not stay lies beyond the length and is written over.
"""

from collections.abc import Sequence
from typing import Any

from infopt.frozen import dataclass
from infopt.probes.decoder import Cache, Decoder
from infopt.probes.drafting.choosing import Choice
from infopt.probes.drafting.draft import Draft, Proposal


@dataclass(frozen=True, slots=True)
class Cycle:
    """One verification: tokens drafted, how many of them stayed, and what the draft's first pass had to read."""

    drafted: int
    kept: int
    unread: int = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Where decoding stops: tokens, cycles, or a token that ends the answer."""

    tokens: int
    cycles: int
    ends: frozenset[int] = frozenset()


class Target:
    """The model whose tokens are wanted, with its cache."""

    def __init__(self, decoder: Decoder, choice: Choice, length: int) -> None:
        self.decoder, self.choice = decoder, choice
        self.cache: Cache = decoder.cache(1, length)
        self._read: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        """Read all of a prompt but its last token; the prompt read last is still there."""
        if len(prompt) > 1 and self._read != list(prompt):
            self._logits(prompt[:-1], 0, last=True)
        self._read = list(prompt)

    def step(self, ids: Sequence[int]) -> int:
        """The token behind `ids`, all but the last of which are cached."""
        return self.choice.one(self._logits(ids[-1:], len(ids) - 1)[0])[0]

    def verify(self, ids: Sequence[int], proposal: Proposal) -> tuple[int, int]:
        """How many proposed tokens stay behind `ids`, and the token behind those."""
        logits = self._logits([ids[-1], *proposal.tokens], len(ids) - 1)
        return self.choice.keep(logits, proposal.tokens, proposal.q)

    def _logits(self, tokens: Sequence[int], start: int, last: bool = False) -> Any:
        batch = self.decoder.runtime.torch.tensor([list(tokens)], device=self.decoder.runtime.device)
        return self.decoder.forward(batch, self.cache, start, last=last)[0]


def plain(target: Target, prompt: Sequence[int], limits: Limits) -> list[int]:
    """Tokens behind a prompt that the target has begun, one a step."""
    ids = list(prompt)
    while len(ids) - len(prompt) < limits.tokens:
        ids.append(target.step(ids))
        if ids[-1] in limits.ends:
            break
    return ids[len(prompt) :]


def speculative(
    target: Target, draft: Draft, prompt: Sequence[int], most_drafted: int, limits: Limits
) -> tuple[list[int], list[Cycle]]:
    """Tokens behind a prompt that target and draft have begun, and the cycles they came from.

    The last cycle is not cut: with it there may be more tokens than asked for, or some behind the end of the answer.
    """
    ids, cycles = list(prompt), list[Cycle]()
    while len(ids) - len(prompt) < limits.tokens and len(cycles) < limits.cycles:
        unread = draft.unread(ids)
        proposal = draft.propose(ids, most_drafted)
        kept, token = target.verify(ids, proposal)
        fresh = [*proposal.tokens[:kept], token]
        ids.extend(fresh)
        draft.rewind(len(ids) - 1)
        cycles.append(Cycle(len(proposal.tokens), kept, unread))
        if not limits.ends.isdisjoint(fresh):
            break
    return ids[len(prompt) :], cycles
