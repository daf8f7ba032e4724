"""Prompt lookup: what followed the last time the same few tokens stood here. No model; the draft is certain of it."""

from collections.abc import Sequence

from infopt.probes.decoder import Cache
from infopt.probes.drafting.draft import Proposal

SHORTEST = 2  # one token alone recurs everywhere: what followed it says little


class NgramDraft:
    """Looks up the last `longest` tokens, then fewer, and proposes what followed their latest occurrence.

    Source: prompt lookup decoding (apoorvumang/prompt-lookup-decoding), vLLM's `ngram` method.
    """

    reads: tuple[int, ...] = ()

    def __init__(self, longest: int = 3) -> None:
        self.name = "ngram" if longest == 3 else f"ngram:{longest}"
        self.sizes = range(longest, SHORTEST - 1, -1)
        self._ends: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def begin(self, prompt: Sequence[int], cache: Cache) -> None:
        """Forget the text before."""
        self._ends, self._indexed = {}, 0

    def propose(self, ids: Sequence[int], count: int) -> Proposal:
        """What followed, cut at the end of the text; nothing where these tokens are new."""
        self._index(ids)
        for size in self.sizes:
            end = self._ends.get(tuple(ids[-size:])) if len(ids) >= size else None
            if end is not None:
                return Proposal(list(ids[end : end + count]))
        return Proposal([])

    def _index(self, ids: Sequence[int]) -> None:
        """Every run of tokens that something follows."""
        for end in range(self._indexed + 1, len(ids)):
            for size in self.sizes:
                if end >= size:
                    self._ends[tuple(ids[end - size : end])] = end
        self._indexed = max(self._indexed, len(ids) - 1)

    def rewind(self, length: int) -> None:
        """Only tokens the target kept were indexed."""

    def unread(self, ids: Sequence[int]) -> int:
        """No pass reads anything."""
        return 1
