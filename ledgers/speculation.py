"""Speculative decoding: tokens a step yields, what a cycle costs, and what the cost asks of the draft.

    tokens per step = 1 + d sum over draft positions of the share of drafts that accept at least that many
                    = 1 + d (a + a^2 + ... + a^g)       where only a rate a is known
    cycle           = t_verify(B, g) + g t_draft(B) + t_schedule
    speedup         = tokens per step t_target(B) / cycle
g drafted tokens, d share of the steps that have a draft (an n-gram finds none in some), B sequences.
Acceptance falls with the position in a draft model and may rise again along a copied passage: one rate, measured at
the first position, misstates a long draft either way.
Counters of a server count drafts, not steps: 1 + accepted / drafts overstates the tokens of a step by up to 1.8 where
many steps have no draft (vLLM 0.32, n-gram on prose); accepted / sequence steps is right.
Ignored: drafts cut off at the end of an answer (2 % of the tokens at 96 tokens of output).
"""

from collections.abc import Callable, Sequence
from typing import Any

# A rate is found to this much: far below what any measurement tells apart.
RATE_ERROR = 1e-12


def tokens_per_cycle(accepted_shares: Sequence[float], drafting_share: float = 1.0) -> float:
    """Expected tokens of a step from the unconditional acceptance of each position.

    >>> round(tokens_per_cycle((0.543, 0.357, 0.264)), 3), tokens_per_cycle((0.5, 0.25), 0.5)
    (2.164, 1.375)
    """
    return 1.0 + drafting_share * sum(accepted_shares)


def tokens_per_cycle_at_rate(acceptance_ratio: float, drafted_tokens: int, drafting_share: float = 1.0) -> float:
    """Expected tokens where each drafted token is accepted at the same rate, independently.

    >>> tokens_per_cycle_at_rate(0.5, 2), tokens_per_cycle_at_rate(1.0, 3)
    (1.75, 4.0)
    """
    if acceptance_ratio >= 1.0:
        return 1.0 + drafting_share * drafted_tokens
    rest = 1 - acceptance_ratio
    return 1.0 + drafting_share * acceptance_ratio * (1 - acceptance_ratio**drafted_tokens) / rest


def accepted_at_rate(acceptance_ratio: float, drafted_tokens: int) -> tuple[float, ...]:
    """Unconditional acceptance of each position at one rate: a, a^2, ..., a^g.

    >>> accepted_at_rate(0.5, 3)
    (0.5, 0.25, 0.125)
    """
    return tuple(acceptance_ratio**position for position in range(1, drafted_tokens + 1))


def tokens_per_step(accepted_tokens: float, sequence_steps: float) -> float:
    """Tokens of a step from a server's counters; `sequence_steps` counts every step of every sequence, drafted or not.

    >>> tokens_per_step(193, 194) < 1 + 193 / 107  # steps, and drafts in them
    True
    """
    return 1.0 + accepted_tokens / sequence_steps


def cycle_s(verify_s: Any, draft_s: Any, drafted_tokens: Any, schedule_s: Any = 0.0) -> Any:
    """One cycle: a verification, g passes of the draft, and what the engine does between them."""
    return verify_s + drafted_tokens * draft_s + schedule_s


def speedup_ratio(tokens: Any, cycle_ratio: Any) -> Any:
    """Tokens a cycle yields over its duration in plain steps."""
    return tokens / cycle_ratio


def printed_speedup_ratio(draft_s: float, target_s: float, verify_s: float, drafted_tokens: int) -> float:
    """Document 1's formula (N t_draft + t_target) / (t_verify + t_draft): no acceptance stands in it.

    >>> printed_speedup_ratio(1.0, 5.0, 5.0, 5), printed_speedup_ratio(0.0, 5.0, 5.0, 5)
    (1.6666666666666667, 1.0)
    """
    return (drafted_tokens * draft_s + target_s) / (verify_s + draft_s)


def acceptance_for_tokens(tokens: float, drafted_tokens: int, drafting_share: float = 1.0) -> float | None:
    """The one rate at which a step yields `tokens`; None where even acceptance of every token does not.

    >>> round(acceptance_for_tokens(1.75, 2), 9), acceptance_for_tokens(3.5, 2)
    (0.5, None)
    """
    if tokens <= 1.0:
        return 0.0
    if tokens > 1.0 + drafting_share * drafted_tokens:
        return None
    low, high = 0.0, 1.0
    while high - low > RATE_ERROR:
        middle = (low + high) / 2
        if tokens_per_cycle_at_rate(middle, drafted_tokens, drafting_share) < tokens:
            low = middle
        else:
            high = middle
    return high


def best_drafted_tokens(speedup: Callable[[int], float], most_tokens: int) -> int:
    """The draft length of the highest speedup, the shortest of equals.

    >>> best_drafted_tokens(lambda g: -abs(g - 3), 8)
    3
    """
    return max(range(1, most_tokens + 1), key=lambda drafted: (speedup(drafted), -drafted))
