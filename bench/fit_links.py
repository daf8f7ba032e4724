"""Fit the constants of collectives on published all-reduce times, and report their error by link and message size.

    python bench/fit_links.py TRUTH.csv [--write]

Rows: times of one sum inside a CUDA graph (TensorRT-LLM, vLLM, SGLang kernels) and of NCCL for messages of 64 MiB and
more, where engines leave the sum to it (aiconfigurator communication tables, `aicar` and `aicnccl`). NVLink and PCIe
each get one set. Least absolute relative error by random search from a fixed seed. Rows of other sources (`stasnet`)
are predicted, not fitted. --write stores hardware/data/links/{nvlink,pcie}.yaml.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from infopt.hardware.accelerator import Accelerator
from infopt.hardware.links import FOLDER, LinkKind, load_link_kind
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.links import Wire, all_reduce_s, wires_of
from infopt.studies.speed_truth import SpeedRow, read_speed_rows

LEFT_TO_NCCL_BYTES = 2**26
NAMES = ("latency_s", "device_s", "direct_share", "exchange_s", "ring_share")
STARTS = {"nvlink": (4e-6, 1e-7, 0.6, 4e-6, 0.6), "pcie": (1e-6, 4e-6, 0.6, 1e-6, 0.3)}
SIZES = ((0, 2**15), (2**15, 2**20), (2**20, 2**40))
DEVICES = {
    "a100_sxm": "a100-sxm-80gb", "h100_sxm": "h100-sxm-80gb", "h200_sxm": "h200-sxm-141gb",
    "b200_sxm": "b200-sxm-180gb", "gb200": "gb200-186gb", "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-server", "A100 SXM NVLink3": "a100-sxm-80gb",
    "H200 SXM NVLink4": "h200-sxm-141gb", "B200 SXM NVLink5": "b200-sxm-180gb", "MI300X xGMI": "mi300x",
}  # fmt: skip
BINARY = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True)
class Sample:
    """One measured sum."""

    source: str
    kind: str
    label: str
    device: Accelerator
    devices: int
    message_bytes: float
    measured_s: float


def samples(path: Path) -> Iterator[Sample]:
    for row in read_speed_rows(path):
        if (
            row.prefix in ("aicar", "aicnccl", "stasnet")
            and row.model == "all_reduce"
            and row.gpu in DEVICES
            and row.gpus
        ):
            device = resolve_hardware(DEVICES[row.gpu]).accelerator
            kind = "nvlink" if device.vendor == "nvidia" and device.link else "xgmi" if device.link else "pcie"
            size = _bytes(row.load)
            yield Sample(row.prefix, kind, row.gpu, device, row.gpus, size, _seconds(row, size))


def _bytes(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(\w+)", text).groups()
    return float(number) * BINARY[unit]


def _seconds(row: SpeedRow, size: float) -> float:
    """As printed, or from bus bandwidth: 2 (p - 1)/p m / busbw."""
    printed = re.search(r"latency ([\d.]+) us", row.note)
    return float(printed.group(1)) / 1e6 if printed else 2 * (row.gpus - 1) / row.gpus * size / row.value / 1e9


def fitted(sample: Sample) -> bool:
    """Whether an engine runs such a sum so."""
    left_to_nccl = sample.source == "aicnccl" and sample.message_bytes >= LEFT_TO_NCCL_BYTES
    return sample.source == "aicar" or left_to_nccl


def predicted_s(sample: Sample, values: Sequence[float] | None = None) -> float:
    wire = wires_of(sample.device).inside
    if values is not None:
        constants = dict(zip(NAMES, map(float, values), strict=True))
        wire = Wire(LinkKind(kind="measured", source="", **constants), wire.bytes_per_s, wire.peer_bytes_per_s)
    return float(all_reduce_s(wire, sample.devices, sample.message_bytes))


def fit(found: Sequence[Sample], start: Sequence[float]) -> np.ndarray:
    """Random steps that are kept where the mean error falls, ever smaller."""
    random, x, width = np.random.default_rng(0), np.log(np.array(start)), 0.5
    error = _error(found, x)
    for step in range(4000):
        tried = x + random.normal(0, width, len(x)) * (random.random(len(x)) < 0.5)
        tried[[2, 4]] = np.minimum(tried[[2, 4]], 0.0)  # shares of the bandwidth
        other = _error(found, tried)
        if other < error:
            x, error = tried, other
        width *= 0.6 if step % 400 == 399 else 1.0
    return np.exp(x)


def _error(found: Sequence[Sample], x: np.ndarray) -> float:
    return float(np.mean([abs(predicted_s(s, np.exp(x)) / s.measured_s - 1) for s in found]))


def report(found: Sequence[Sample]) -> None:
    for source in sorted({s.source for s in found}):
        for label in sorted({s.label for s in found if s.source == source}):
            mine = [s for s in found if s.source == source and s.label == label]
            parts = []
            for low, high in SIZES:
                errors = [predicted_s(s) / s.measured_s - 1 for s in mine if low <= s.message_bytes < high]
                parts.append(
                    f"{np.mean(np.abs(errors)):5.0%} ({np.median(errors):+.0%}, {len(errors)})" if errors else "-"
                )
            print(f"{source:8} {label:22} " + "  ".join(f"{part:18}" for part in parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = list(samples(given.truth))
    for kind, start in STARTS.items():
        used = [s for s in found if s.kind == kind and fitted(s)]
        if given.write:
            store(kind, fit(used, start), used)
            continue
        record = load_link_kind(kind)
        errors = [abs(predicted_s(s) / s.measured_s - 1) for s in used]
        print(f"{kind}: {np.mean(errors):.1%} mean, {np.median(errors):.1%} median of {len(used)}")
        print("  " + ", ".join(f"{name} {getattr(record, name):.3g}" for name in NAMES))
    if given.write:
        print("stored; run without --write for the errors")
        return
    print("mean error (median signed, rows) up to 32 KiB, up to 1 MiB, above")
    report(found)


def store(kind: str, values: np.ndarray, used: Sequence[Sample]) -> None:
    errors = [abs(predicted_s(s, values) / s.measured_s - 1) for s in used]
    labels = ", ".join(sorted({s.label for s in used}))
    record = {
        "types": [kind],
        "kind": "measured",
        **{name: float(f"{value:.3g}") for name, value in zip(NAMES, values, strict=True)},
        "source": f"bench/fit_links.py on {len(used)} sums of 2 to 8 devices, ai-dynamo/aiconfigurator systems/data/*/"
        f"comm ({labels}); error {np.mean(errors):.0%} mean, {np.median(errors):.0%} median",
    }
    LinkKind.model_validate(record)
    (FOLDER / f"{kind}.yaml").write_text(yaml.safe_dump(record, sort_keys=False, width=120), encoding="utf-8")


if __name__ == "__main__":
    main()
