"""Caches in front of the model: whole answers found by meaning, and prompts billed at a provider's cache price.

    cost of a request    (1 - h) + l           h share of answers found, l lookup over the cost of a request
    requests per machine 1 / ((1 - h) + l)
    saving on input      s (1 - (w + (u - 1) r) / u)       s cached share of the prompt, used u times;
                                                           w, r prices of a write and a read over the plain one
A prompt cache saves prefill only, so 1 / (1 - h) is not its gain (boundaries/prefix_caching.py).
Ignored: what a wrong answer costs; storage; keeping the index.
"""

import math


def cost_ratio(hit_share: float, lookup_ratio: float) -> float:
    """Cost of a request with a cache of answers over that without: (1 - h) + l.

    >>> cost_ratio(0.5, 0.25)
    0.75
    """
    return 1 - hit_share + lookup_ratio


def needed_hit_share(gain_ratio: float, lookup_ratio: float) -> float:
    """Share of answers found at which a machine serves `gain_ratio` times the requests: 1 - 1 / gain_ratio + l.

    >>> needed_hit_share(2.0, 0.25)
    0.75
    """
    return 1 - 1 / gain_ratio + lookup_ratio


def api_saved_share(shared_share: float, uses: float, read_price_ratio: float, write_price_ratio: float) -> float:
    """Saving on input tokens where a prefix is written once and read by the other uses, prices as shares of full."""
    return shared_share * (1 - (write_price_ratio + (uses - 1) * read_price_ratio) / uses)


def needed_uses(shared_share: float, saved_share: float, read_price_ratio: float, write_price_ratio: float) -> float:
    """Uses of a prefix at which the saving is reached; infinite where it never is."""
    room = shared_share * (1 - read_price_ratio) - saved_share
    return math.inf if room <= 0 else shared_share * (write_price_ratio - read_price_ratio) / room
