"""Figures for claims about money: what a rate costs at a dated price, and what rent a price implies."""

from infopt.errors import InfoptError
from infopt.ledgers.cost import usd_per_million_tokens
from infopt.studies.claim_figures import device_of, fewest_devices, figure, model_of

HOURS_PER_MONTH = 8760 / 12


@figure("usd_per_million_tokens")
def price_per_million(model: str, hw: str, weights: str, kv: str, tokens: int, rate: float) -> float:
    """Price at `rate` tokens per second of the fewest devices that hold the model."""
    hourly = _usd_per_hour(hw) * fewest_devices(model, hw, weights, kv, tokens)
    return usd_per_million_tokens(hourly, rate)


@figure("usd_per_hour")
def rent_per_hour(model: str, hw: str, weights: str, kv: str, tokens: int) -> float:
    return _usd_per_hour(hw) * fewest_devices(model, hw, weights, kv, tokens)


@figure("usd_per_hour")
def implied_rent(price: float, rate: float) -> float:
    """Dollars per hour behind a price of a million tokens at a rate."""
    return price * rate * 3600 / 1e6


@figure("ratio")
def quotient(over: float, under: float) -> float:
    """Quotient of two figures of the same table."""
    return over / under


@figure("usd")
def rent_per_month(hw: str, gpus: int) -> float:
    return _usd_per_hour(hw) * gpus * HOURS_PER_MONTH


@figure("gpus")
def gpus_for_rent(hw: str, usd: float) -> float:
    """Devices that a sum rents for a month."""
    return usd / rent_per_month(hw, 1)


@figure("usd")
def spend_for_saving(saving: float, usd: float) -> float:
    """Monthly spend of which `saving` is `usd` a year."""
    return usd / (12 * saving)


@figure("usd")
def training_cost(model: str, hw: str, training_tokens: float, flop_share: float) -> float:
    """6 P D / (share of peak) at the device's price per hour."""
    device = device_of(hw).accelerator
    seconds = 6 * model_of(model).params_total * training_tokens / (flop_share * device.peak_flop_per_s["bf16"])
    return seconds / 3600 * _usd_per_hour(hw)


@figure("tokens")
def training_tokens_for(model: str, hw: str, usd: float, flop_share: float) -> float:
    """Training tokens that a sum buys."""
    return usd / training_cost(model, hw, 1.0, flop_share)


def _usd_per_hour(hw: str) -> float:
    price = device_of(hw).accelerator.usd_per_hour
    if price is None:
        raise InfoptError(f"claims: no price with a date is known for {hw}")
    return price
