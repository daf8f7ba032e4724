"""What smaller weights gained on one deployment, beside what the step model gives them: the spread of a format's own.

    python bench/weight_formats.py TRUTH.csv [FORMAT]

Pairs: TPOT of one deployment (model, devices, engine, lengths, concurrency) in FP8 and in FORMAT (nvfp4), at most 8
devices, the batch in memory. Printed for dense models and mixtures: pairs, 95th percentile, median and 5th of measured
over predicted gain (`own_units` of boundaries/data/weight_kernels.yaml, there entered by hand), then the median error
and the agreement of verdicts without and with the median.
"""

import argparse
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from infopt.boundaries.deciding import plain_verdict
from infopt.boundaries.situation import Situation
from infopt.boundaries.weight_quantization import in_format
from infopt.errors import InfoptError
from infopt.ledgers.memory import memory_ledger
from infopt.studies.speed_truth import SpeedRow, read_speed_rows, served_scenario

PERCENTILES = (95, 50, 5)


def deployment(row: SpeedRow) -> tuple[Any, ...]:
    """What two rows of a pair share."""
    lengths = (row.input_tokens, row.output_tokens, row.concurrency)
    return (row.model, row.gpu, row.gpus, row.tp, row.pp, row.ep, row.engine.split(" ")[0], *lengths, "mtp" in row.note)


def pairs(path: Path, name: str) -> Iterator[tuple[SpeedRow, float]]:
    """(a row in FP8, measured gain of the format over it)."""
    found: dict[tuple[Any, ...], dict[str, list[SpeedRow]]] = defaultdict(lambda: defaultdict(list))
    for row in read_speed_rows(path):
        if row.metric == "tpot_ms" and not row.flagged:
            kind = name if name in row.weight_format else "fp8" if "fp8" in row.weight_format else ""
            found[deployment(row)][kind].append(row)
    for kinds in found.values():
        if kinds["fp8"] and kinds[name]:
            before, after = (statistics.median(row.value for row in kinds[kind]) for kind in ("fp8", name))
            yield kinds["fp8"][0], before / after


def compared(path: Path, name: str) -> Iterator[tuple[str, float, float]]:
    """(kind of model, predicted, measured) of every pair that the step model covers."""
    for row, measured in pairs(path, name):
        try:
            s = served_scenario(row)
        except InfoptError:
            continue
        if memory_ledger(s).max_sequences < s.batch_per_replica:
            continue
        before = Situation(s)
        predicted = before.tpot_s() / in_format(before, name).tpot_s()
        yield "mixture" if s.model.experts else "dense", predicted, measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("format", nargs="?", default="nvfp4")
    given = parser.parse_args()
    by_kind: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for kind, predicted, measured in compared(given.truth, given.format):
        by_kind[kind].append((predicted, measured))
    for kind, found in sorted(by_kind.items()):
        ratios = np.array([measured / predicted for predicted, measured in found])
        spread = np.percentile(ratios, PERCENTILES)
        print(f"{kind}: {len(found)} pairs, gain_share {[round(float(value), 2) for value in spread]}")
        for share in (1.0, float(spread[1])):
            off = statistics.median(abs(share * p / m - 1) for p, m in found)
            same = sum((share * p >= 1.1) == (m >= 1.1) for p, m in found)
            across = sum({plain_verdict(share * p), plain_verdict(m)} == {"use", "skip"} for p, m in found)
            print(f"  times {share:.2f}: median error {off:.1%}, worth it or not right {same}, use for skip {across}")


if __name__ == "__main__":
    main()
