"""What a draft is: something that proposes the next tokens, cheaply."""

from collections.abc import Sequence
from typing import Any, Protocol

from infopt.frozen import dataclass
from infopt.probes.decoder import Cache


@dataclass(frozen=True, slots=True)
class Proposal:
    """Tokens proposed, and the distributions they were drawn from, [n, vocab]; None: each was certain."""

    tokens: list[int]
    q: Any = None


class Draft(Protocol):
    """A source of proposals.

    name   as the user asked for it
    reads  how many tokens the first pass of a proposal may have to read; none where it runs no decoder
    """

    @property
    def name(self) -> str: ...

    @property
    def reads(self) -> tuple[int, ...]: ...

    def begin(self, prompt: Sequence[int], cache: Cache) -> None:
        """Read a prompt; `cache` is the target's, which has read all of it but the last token."""
        ...

    def propose(self, ids: Sequence[int], count: int) -> Proposal:
        """Up to `count` tokens behind `ids`, which begin with the prompt and have only grown since."""
        ...

    def rewind(self, length: int) -> None:
        """Forget what was read beyond the first `length` tokens: the target kept no more of them."""
        ...

    def unread(self, ids: Sequence[int]) -> int:
        """Tokens of `ids` that the first pass of a proposal reads: one, two after a draft that was kept whole."""
        ...
