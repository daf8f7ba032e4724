"""Prices the user names: `--price h100=2.49`."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from infopt.errors import InfoptError
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.catalogue import override
from infopt.hardware.instances import read_instance
from infopt.hardware.names import fitting_rows, resolve_hardware, split_name
from infopt.units import parse_usd


def parse_prices(texts: Iterable[str]) -> dict[str, float]:
    """US dollars per device-hour by accelerator id, from texts such as `h100=2.49` (the last of one name counts).

    A name that covers several accelerators (`a100`) prices them all; an instance type's price (`p5.48xlarge=98.32`)
    is shared by its devices; `custom=1.50` prices hardware described with custom:.
    Errors: no `=`, an unknown name, a price that is not a positive number.
    """
    prices: dict[str, float] = {}
    for text in texts:
        name, equals, amount = (part.strip() for part in text.rpartition("="))
        if not equals or not name:
            raise InfoptError(f"--price {text}: a name and a price per hour are expected, such as h100=2.49")
        usd = parse_usd(amount, "--price")
        if usd <= 0:
            raise InfoptError(f"--price {text}: the price must be more than 0")
        gpus, ids = _priced_by(name)
        prices |= dict.fromkeys(ids, usd / gpus)
    return prices


def apply_prices(choice: HardwareChoice, prices: Mapping[str, float]) -> HardwareChoice:
    """`choice` at the user's price, where `prices` has one for it (an instance then costs its devices together)."""
    accelerator = choice.accelerator
    id = accelerator.id
    usd = prices.get(id)
    if usd is None:
        usd = next((price for key, price in prices.items() if _covers(key, id)), None)
    if usd is None:
        return choice
    priced = replace(override(accelerator, {"usd_per_hour": usd}), price_date=None)
    whole = usd * choice.gpus if choice.usd_per_hour is not None and choice.gpus else choice.usd_per_hour
    return replace(choice, accelerator=priced, usd_per_hour=whole)


def _priced_by(name: str) -> tuple[int, list[str]]:
    """How many devices share the price of `name`, and the ids it prices."""
    if name.lower() == "custom":
        return 1, ["custom"]
    rows = fitting_rows(split_name(name.lower()))
    if rows:
        return 1, [row.accelerator for row in rows]
    choice = resolve_hardware(name)
    return (choice.gpus or 1) if read_instance(name) else 1, [choice.accelerator.id]


def _covers(key: str, id: str) -> bool:
    """Whether a price named `key` is also meant for `id`: a size of the same chip, or any custom hardware."""
    size = id.removeprefix(f"{key}-")
    return (size != id and size.endswith("gb") and size[:-2].isdigit()) or (
        key == "custom" and id.startswith("custom:")
    )
