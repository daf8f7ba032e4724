"""What a scenario costs.

usd_per_million = usd_per_hour / (tokens_per_s x 3600) x 1e6
"""


def usd_per_million_tokens(usd_per_hour: float, tokens_per_s: float) -> float:
    """Price of a million tokens at a throughput.

    >>> round(usd_per_million_tokens(0.864, 48), 2)
    5.0
    """
    return usd_per_hour / (tokens_per_s * 3600) * 1e6
