"""What a kind of connection between devices costs: latency and the part of its bandwidth that collectives reach."""

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from infopt.records import Record, load_record, names_in

FOLDER = Path(__file__).resolve().parent / "data" / "links"
OTHER = "other"


class LinkKind(Record):
    """Constants of ledgers/links.py.

    types         words in a link's type, as accelerators' records name them, that mean this kind
    latency_s     of a collective of two devices, or of one message
    device_s      for each further device
    direct_share  of the bandwidth, where each device reads what all others hold
    exchange_s    added where a collective takes two passes
    ring_share    of the bandwidth, in two passes
    bytes_per_s   one direction of one device where an accelerator's record does not say (networks)
    """

    types: list[str] = Field([])
    kind: Literal["measured", "assumed"]
    latency_s: float
    device_s: float
    direct_share: float
    exchange_s: float
    ring_share: float
    bytes_per_s: float | None = None
    source: str


def load_link_kind(name: str) -> LinkKind:
    """The record of a name."""
    return load_record(LinkKind, FOLDER, name, "kind of link", "see hardware/data/links")


@cache
def link_kind(type_text: str) -> LinkKind:
    """The kind a link's type means; `other` where no record names it."""
    text = type_text.lower()
    for name in names_in(FOLDER):
        record = load_link_kind(name)
        if any(word in text for word in record.types):
            return record
    return load_link_kind(OTHER)
