"""A mixture of experts in place of a dense model: what it reads of its weights, and from which batch on it reads all.

    read share of n tokens   q(n) = 1 - (1 - a)^n        a = k / E, uniform routing
    same bytes as half       a W-share whose q(n) W + K = (W + K) / 2:  q = (W - K) / (2 W),  a = 1 - (1 - q)^(1/n)
    all experts read         E q(n) >= E - 1/2:          n = ln(1 / (2 E)) / ln(1 - k / E)
W weights and K cache of a step of the dense model. Experts are taken as all of the weights: attention, which every
token reads, makes the share that is needed smaller still.
"""

import math


def read_share(active_share: float, tokens: float) -> float:
    """Share of the experts that `tokens` tokens of a step read.

    >>> read_share(0.25, 2)
    0.4375
    """
    return 1 - float((1 - active_share) ** tokens)


def halving_active_share(weight_bytes: float, kv_bytes: float, tokens: float) -> float | None:
    """Active share at which a step reads as little as with twice the bandwidth; None where the cache alone is half.

    >>> halving_active_share(100.0, 0.0, 1)
    0.5
    """
    needed = (weight_bytes - kv_bytes) / (2 * weight_bytes)
    if needed <= 0:
        return None
    return 1 - float((1 - needed) ** (1 / max(1.0, tokens)))


def all_experts_batch(experts: int, experts_per_token: int) -> float:
    """Tokens of a step from which all experts but half of one are read on average.

    >>> round(all_experts_batch(8, 2), 1)
    9.6
    """
    if experts_per_token >= experts:
        return 1.0
    return max(1.0, math.log(1 / (2 * experts)) / math.log(1 - experts_per_token / experts))
