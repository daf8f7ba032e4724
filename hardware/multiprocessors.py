"""How many multiprocessor cycles a device has in a second: what bounds a reader that keeps few loads in flight.

    multiprocessors x clock = fp32 peak / (2 x lanes)
lanes: fp32 multiply-adds a multiprocessor issues per cycle, by compute capability (`data/fp32_lanes.yaml`).
"""

from functools import cache
from typing import Any

from infopt.hardware.accelerator import Accelerator
from infopt.hardware.catalogue import DATA
from infopt.records import read_yaml


def multiprocessor_cycles_per_s(device: Accelerator) -> float | None:
    """Multiprocessors times clock; None where the fp32 peak or the lanes are not known."""
    peak = device.peak_flop_per_s.get("fp32")
    lanes = _lanes()["compute_capability"].get(device.compute_capability) or _lanes()["vendor"].get(device.vendor)
    return peak / (2 * lanes) if peak and lanes else None


@cache
def _lanes() -> dict[str, Any]:
    data: dict[str, Any] = read_yaml(DATA / "fp32_lanes.yaml")
    return data
