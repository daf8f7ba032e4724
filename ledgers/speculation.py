"""Speculative decoding: tokens a cycle yields, and what a cycle costs.

    tokens per cycle = 1 + sum over draft positions of the share of cycles that accept at least that many
                     = (1 - a^(g+1)) / (1 - a)        where only a rate a is known, g drafted tokens
    speedup          = tokens per cycle / (cycle time / time of a plain step)
Acceptance falls with the position: a rate measured at the first overstates a long draft.
"""

from collections.abc import Sequence
from typing import Any


def tokens_per_cycle(accepted_shares: Sequence[float]) -> float:
    """Expected tokens from the unconditional acceptance of each position.

    >>> round(tokens_per_cycle((0.543, 0.357, 0.264)), 3)
    2.164
    """
    return 1.0 + sum(accepted_shares)


def tokens_per_cycle_at_rate(acceptance_ratio: float, drafted_tokens: int) -> float:
    """Expected tokens where each drafted token is accepted at the same rate, independently.

    >>> tokens_per_cycle_at_rate(0.5, 2), tokens_per_cycle_at_rate(1.0, 3)
    (1.75, 4.0)
    """
    if acceptance_ratio >= 1.0:
        return drafted_tokens + 1.0
    return (1 - acceptance_ratio ** (drafted_tokens + 1)) / (1 - acceptance_ratio)


def speedup_ratio(tokens: Any, cycle_ratio: Any) -> Any:
    """Tokens a cycle yields over its duration in plain steps."""
    return tokens / cycle_ratio
