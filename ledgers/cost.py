"""What a scenario costs, and which part of it prompts and answers take.

    usd per million   = usd_per_hour / (tokens_per_s x 3600) x 1e6
    machine time      = OSL / output_tokens_per_s = (TTFT + OSL TPOT) / B        of one request
    prefill share     = min(1, W / machine time)
    usd per input token   = usd_per_s x machine time x share / ISL
    usd per output token  = usd_per_s x machine time x (1 - share) / OSL
W  what one prompt takes of the deployment's time (the stall of ledgers/step_time.py), B sequences at once
The two attributed prices times their tokens are the price of the request. Waiting in between is counted to decoding.
"""

from typing import Any

from infopt.frozen import dataclass
from infopt.ledgers.arrays import smaller


@dataclass(frozen=True, slots=True)
class AttributedPrices:
    """US dollars of a million tokens, the machine's time divided between prompts and answers."""

    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float


def usd_per_million_tokens(usd_per_hour: float, tokens_per_s: float) -> float:
    """Price of a million tokens at a throughput.

    >>> round(usd_per_million_tokens(0.864, 48), 2)
    5.0
    """
    return usd_per_hour / (tokens_per_s * 3600) * 1e6


def prefill_share(prompt_s: Any, request_s: Any) -> Any:
    """Part of a request's machine time that its prompt takes.

    >>> prefill_share(0.1, 0.4)
    0.25
    """
    return smaller(1.0, prompt_s / request_s)


def attributed_prices(
    usd_per_hour: float, output_tokens_per_s: float, share: float, input_tokens: int, output_tokens: int
) -> AttributedPrices:
    """The price of a request divided by what its time went to; `share` is that of the prompt.

    >>> attributed_prices(3.6, 100.0, 0.25, 1000, 100)
    AttributedPrices(usd_per_million_input_tokens=0.25, usd_per_million_output_tokens=7.5)
    """
    usd = usd_per_hour / 3600 * output_tokens / output_tokens_per_s
    return AttributedPrices(usd * share / input_tokens * 1e6, usd * (1 - share) / output_tokens * 1e6)
