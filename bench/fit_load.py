"""Fit the constants of maximal load on published throughput, models and GPU types left out.

    python bench/fit_load.py TRUTH.csv [--write]

Rows: output_tok_s of benchmarks that send all requests at once (batch `max`), with lengths, placement and the number of
requests known. Least absolute relative error of the rate, coefficients not negative, the traffic and the link ratio at
least 1. --write stores profiles/data/max_load.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from least_error import left_out_by_rate, solve_rate

from infopt.errors import InfoptError
from infopt.ledgers.max_load import LoadParts, load_parts
from infopt.ledgers.scenario import Scenario
from infopt.profiles.load_constants import FOLDER, LoadConstants
from infopt.studies.speed_load import is_max_load, load_scenario
from infopt.studies.speed_truth import SpeedRow, read_speed_rows

TERMS = ("traffic_ratio", "kernel_s", "mixture_kernel_s", "prefill_ratio", "decode_ratio", "mixture_decode_ratio",
         "activation_bytes", "link_ratio", "hop_s")  # fmt: skip
AT_LEAST_ONE = ("traffic_ratio", "link_ratio")


@dataclass(frozen=True)
class Sample:
    row: SpeedRow
    scenario: Scenario
    parts: LoadParts

    @property
    def mixture(self) -> bool:
        return self.scenario.model.experts > 0


def samples(path: Path) -> Iterator[Sample]:
    for row in read_speed_rows(path):
        if row.flagged or not is_max_load(row):
            continue
        try:
            s = load_scenario(row)
        except InfoptError:
            continue
        parts = load_parts(s)
        if parts is not None and s.batch / row.value >= parts.floor_s:
            yield Sample(row, s, parts)


def columns(sample: Sample) -> list[float]:
    p, mixture = sample.parts, sample.mixture
    of = {
        "traffic_ratio": p.traffic_s,
        "kernel_s": p.kernels,
        "mixture_kernel_s": p.kernels * mixture,
        "prefill_ratio": p.prefill_s,
        "decode_ratio": p.decode_s,
        "mixture_decode_ratio": p.decode_s * mixture,
        "activation_bytes": p.activation_s_per_byte,
        "link_ratio": p.link_s,
        "hop_s": p.further_stages,
    }
    return [float(of[name]) for name in TERMS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = list(samples(given.truth))
    a = np.array([columns(sample) for sample in found])
    y = np.array([sample.scenario.batch / sample.row.value for sample in found])
    low = np.array([1.0 if name in AT_LEAST_ONE else 0.0 for name in TERMS])
    x = solve_rate(a, y, low)
    by_model = left_out_by_rate(a, y, low, [sample.scenario.model.id for sample in found])
    by_gpu = left_out_by_rate(a, y, low, [sample.scenario.accelerator.id for sample in found])
    errors = {}
    for what, p in (("in sample", a @ x), ("model left out", by_model), ("GPU type left out", by_gpu)):
        errors[what] = float(np.mean(np.abs(y / p - 1)))
        for kind in (False, True):
            mine = np.array([sample.mixture == kind for sample in found])
            print(f"{what}, {'mixtures' if kind else 'dense'}: {np.mean(np.abs(y / p - 1)[mine]):.1%} of {mine.sum()}")
        print(f"{what}: {errors[what]:.1%} of {len(y)}")
    for name, value in zip(TERMS, x, strict=True):
        print(f"  {name:22} {value:.4g}")
    ends = np.quantile(np.concatenate([y / (a @ x), y / by_model, y / by_gpu]), (0.05, 0.95))
    if given.write:
        store(x, float(ends[0]), float(ends[1]), errors, len(y))


def store(x: np.ndarray, low: float, high: float, errors: dict[str, float], n: int) -> None:
    shown = ", ".join(f"{value:.1%} {what}" for what, value in errors.items())
    record = {
        "engines": ["tensorrt-llm"],
        "vendors": ["nvidia"],
        "kind": "measured",
        **{name: float(f"{value:.4g}") for name, value in zip(TERMS, x, strict=True)},
        "low": round(low, 3),
        "high": round(high, 3),
        "source": f"bench/fit_load.py on {n} cells of TensorRT-LLM docs/source/performance/perf-overview.md@00f37686 "
        f"(v1.0; H100 to RTX PRO 6000); error of the rate {shown}",
    }
    LoadConstants.model_validate(record)
    FOLDER.mkdir(exist_ok=True)
    beside = FOLDER / "tensorrt-llm.tmp"
    beside.write_text(yaml.safe_dump(record, sort_keys=False, width=120), encoding="utf-8")
    beside.replace(FOLDER / "tensorrt-llm.yaml")


if __name__ == "__main__":
    main()
