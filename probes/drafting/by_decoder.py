"""Drafts of another model of the same vocabulary, with a cache of its own; low-bit copies are such models."""

from collections.abc import Sequence
from typing import Any

from infopt.probes.decoder import Cache, Decoder
from infopt.probes.drafting.choosing import Choice
from infopt.probes.drafting.draft import Proposal


class DecoderDraft:
    """A decoder that proposes token by token.

    vocab   of the target: what the draft's head has beyond it is cut, what it lacks is impossible
    layers  only the first of them, None: all
    """

    reads: tuple[int, ...] = (1, 2)

    def __init__(self, name: str, decoder: Decoder, choice: Choice, vocab: int, layers: int | None = None) -> None:
        self.name, self.decoder, self.choice, self.vocab, self.layers = name, decoder, choice, vocab, layers
        self.cache = decoder.cache(1, 0)
        self.cached = 0
        self._read: list[int] = []

    def begin(self, prompt: Sequence[int], cache: Cache) -> None:
        """Read the prompt but its last token into a cache as long as the target's, unless it is there."""
        if self.cache.length < cache.length:
            self.cache, self._read = self.decoder.cache(1, cache.length), []
        if len(prompt) > 1 and self._read != list(prompt):
            self.cached = 0
            self._pass(prompt[:-1])
        self._read, self.cached = list(prompt), len(prompt) - 1

    def propose(self, ids: Sequence[int], count: int) -> Proposal:
        """Exactly `count` tokens."""
        tokens: list[int] = []
        rows: list[Any] = []
        fresh = ids[self.cached :]
        for _ in range(count):
            token, row = self.choice.one(self._fit(self._pass(fresh)))
            tokens.append(token)
            rows.append(row)
            fresh = [token]
        return Proposal(tokens, self.decoder.runtime.torch.stack(rows) if rows and rows[0] is not None else None)

    def rewind(self, length: int) -> None:
        """Later passes write over what lies beyond."""
        self.cached = min(self.cached, length)

    def unread(self, ids: Sequence[int]) -> int:
        """The token the target added, and the last draft where all were kept: that one was never read."""
        return len(ids) - self.cached

    def _pass(self, tokens: Sequence[int]) -> Any:
        """Logits behind tokens, which are cached."""
        torch = self.decoder.runtime.torch
        batch = torch.tensor([list(tokens)], device=self.decoder.runtime.device)
        logits = self.decoder.forward(batch, self.cache, self.cached, self.layers, last=True)[0, -1]
        self.cached += len(tokens)
        return logits

    def _fit(self, logits: Any) -> Any:
        """Logits over the target's vocabulary: two sizes of a family may be padded differently."""
        missing = self.vocab - logits.shape[-1]
        if missing <= 0:
            return logits[: self.vocab]
        return self.decoder.runtime.torch.nn.functional.pad(logits, (0, missing), value=float("-inf"))
