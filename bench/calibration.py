"""What a calibration with one or two measured points is worth, on a published sweep of one engine over many devices.

    python bench/calibration.py TRUTH.csv

For each GPU type of the sweep (prefix `xj`, llama.cpp) the class is fitted without it, then calibrated with a small
model in 4 bits (one point) and in 16 bits (two), and asked for the other models, formats, depths and device counts.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from fit_local import FAMILIES, Family, Sample, columns, fitted_constants, gpu_type, names_of, samples
from least_error import best

from infopt.ledgers.calibrate_step import Point, calibrate
from infopt.ledgers.step_time import step_shape, step_terms_s
from infopt.profiles.step_constants import StepConstants

SWEEP = "xj"
SMALL = "8B"
FORMATS = ("Q4_K_M", "F16")


def predicted_s(sample: Sample, constants: StepConstants) -> float:
    s, shape = sample.scenario, step_shape(sample.scenario, constants)
    if shape is None:
        raise SystemExit(f"{s.accelerator.id}: peaks are not known")
    terms = step_terms_s(shape, constants, 1, s.decode_context_tokens, s.input_tokens, s.output_tokens)
    return float(sum(terms.values()))


def point(sample: Sample, constants: StepConstants) -> Point:
    s, shape = sample.scenario, step_shape(sample.scenario, constants)
    if shape is None:
        raise SystemExit(f"{s.accelerator.id}: peaks are not known")
    return Point(shape, 1, s.decode_context_tokens, s.input_tokens, s.output_tokens, sample.step_s)


def probes(found: Sequence[Sample]) -> list[Sample]:
    """The small model at the least depth on the fewest devices, in both formats."""
    chosen = []
    for name in FORMATS:
        of = [x for x in found if SMALL in x.row.model and x.row.weight_format == name]
        if of:
            chosen.append(min(of, key=lambda x: (x.row.gpus or 1, x.scenario.decode_context_tokens)))
    return chosen


def ratios(found: list[Sample], family: Family) -> dict[int, list[float]]:
    """Measured over predicted by number of points, each GPU type left out of the class."""
    y = np.array([x.step_s for x in found])
    low = np.array([1.0 if name == "traffic_ratio" else 0.0 for _, name in names_of(family)])
    grid = [np.array([columns(x, family, value) for x in found]) for value in family.grid]
    types = np.array([gpu_type(x) for x in found])
    out: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for label in sorted(set(types)):
        mine = [x for x in found if gpu_type(x) == label and x.row.prefix == SWEEP]
        chosen = probes(mine)
        if len(chosen) < len(FORMATS):
            continue
        at, x = best(grid, y, low, types != label)
        constants = fitted_constants(family, chosen[0].release, family.grid[at], x)
        for n, values in out.items():
            used = calibrate(constants, [point(p, constants) for p in chosen[:n]]) if n else constants
            values += [target.step_s / predicted_s(target, used) for target in mine if target not in chosen]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    truth = parser.parse_args().truth
    together: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for family in FAMILIES:
        found = list(samples(truth, family))
        if any(x.row.prefix == SWEEP for x in found):
            for n, values in ratios(found, family).items():
                together[n] += values
    for n, values in together.items():
        ratio = np.array(values)
        error = np.abs(1 / ratio - 1)
        low, high = np.quantile(ratio, (0.05, 0.95))
        print(f"{n} points: n {len(ratio)}, mean error {error.mean():.1%}, median {np.median(error):.1%}, "
              f"measured / predicted {low:.2f} to {high:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
