"""The rule that keeps the target's distribution: which drafted tokens stay, and what comes after them.

    token i stays with probability min(1, p_i(x_i) / q_i(x_i))
    at the first that does not:  x ~ norm(max(p_i - q_i, 0));   where all stay, one more:  x ~ p_n

p target's and q draft's distribution at each position. A draft that is certain of its token (n-gram lookup) has q = 1
there: the token stays with probability p, else x ~ p without it. Greedy: what the target would choose itself stays.
Source: Leviathan et al. 2023 (arXiv 2211.17192), algorithm 1; Chen et al. 2023 (arXiv 2302.01318).
"""

from collections.abc import Sequence
from typing import Any


def keep_greedy(best: Sequence[int], drafted: Sequence[int]) -> tuple[int, int]:
    """How many drafted tokens stay, and the token behind them.

    best  the target's choice at each position, one more than drafted

    >>> keep_greedy([5, 6, 7], [5, 9]), keep_greedy([5, 6, 7], [5, 6]), keep_greedy([4], [])
    ((1, 6), (2, 7), (0, 4))
    """
    kept = 0
    while kept < len(drafted) and best[kept] == drafted[kept]:
        kept += 1
    return kept, best[kept]


def keep_sampled(p: Any, drafted: Sequence[int], q: Any, chances: Sequence[float]) -> tuple[int, int]:
    """How many drafted tokens stay, and the token behind them.

    p        target's distributions, [n + 1, vocab]
    q        draft's, [n, vocab], that the drafted tokens were drawn from; None: each was certain
    chances  n + 1 independent numbers in [0, 1): one for each drafted token, the last for the token behind them
    """
    for i, token in enumerate(drafted):
        chance_of_draft = 1.0 if q is None else float(q[i, token])
        if chances[i] * chance_of_draft >= float(p[i, token]):
            return i, pick(_remaining(p[i], token, None if q is None else q[i]), chances[-1])
    return len(drafted), pick(p[len(drafted)], chances[-1])


def _remaining(p: Any, token: int, q: Any) -> Any:
    """max(p - q, 0), not normalized."""
    if q is not None:
        rest = (p - q).clamp(min=0)
        # Both add up to one: where rounding leaves nothing, they are the same distribution.
        return rest if float(rest.sum()) > 0 else p
    rest = p.clone()
    rest[token] = 0
    return rest


def pick(weights: Any, chance: float) -> int:
    """The entry at `chance` of the sum of weights, [vocab]: entries are met in proportion to their weight."""
    sums = weights.double().cumsum(0)
    return int((sums > chance * float(sums[-1])).double().argmax())
