"""Constants of throughput at maximal load: how far an engine stays below bytes, products and links if nothing waits."""

from functools import cache
from pathlib import Path
from typing import Literal

from infopt.records import Record, load_record, names_in

FOLDER = Path(__file__).resolve().parent / "data" / "max_load"


class LoadConstants(Record):
    """Coefficients of ledgers/max_load.py.

    engines, vendors      where they hold
    traffic_ratio         1 / efficiency of weight and KV reads (at least 1)
    kernel_s              fixed cost of one kernel; mixture_kernel_s is added in mixtures
    prefill_ratio         1 / MFU of prompts
    decode_ratio          1 / MFU of decode products; mixture_decode_ratio is added in mixtures
    activation_bytes      moved per token, layer and hidden unit on a rank
    link_ratio            1 / efficiency of collectives
    hop_s                 per further pipeline stage and step
    low, high             measured over predicted time, 5th to 95th percentile, the model or the GPU type left out
    """

    engines: list[str]
    vendors: list[str]
    kind: Literal["measured", "assumed"]
    traffic_ratio: float
    kernel_s: float
    mixture_kernel_s: float
    prefill_ratio: float
    decode_ratio: float
    mixture_decode_ratio: float
    activation_bytes: float
    link_ratio: float
    hop_s: float
    low: float
    high: float
    source: str


@cache
def load_constants(engine: str, vendor: str) -> LoadConstants | None:
    """The record of an engine, None where no maximal load was measured."""
    for name in names_in(FOLDER):
        record = load_record(LoadConstants, FOLDER, name, "maximal-load class", "see profiles/data/max_load")
        if engine in record.engines and vendor in record.vendors:
            return record
    return None
