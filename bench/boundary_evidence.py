"""Gains that boundaries predict beside gains that were measured: pairs of runs that differ in one thing.

    python bench/boundary_evidence.py TRUTH.csv [--runs RUNS.tsv] [--pairs FILE.csv]

TRUTH.csv has the columns of studies/data/speed_truth.csv. Rows that are flagged, and batches that the predicted cache
does not hold, are left out. Of each group of pairs: how many, the range of measured gains, median error of the gain,
median of measured over predicted, how many measured gains lie in the printed interval, the verdicts (use, limited,
skip: deciding.py) that agree where the measured gain is more than 5 % from every threshold, how often `use` stands for
`skip` or the other way round, and how many say `measure`, which are counted apart.
"""

import argparse
import csv
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from boundary_runs import live, run_pairs, worth
from boundary_served import Pair, served_pairs

from infopt.boundaries.deciding import plain_verdict, threshold
from infopt.boundaries.technique import Verdict
from infopt.studies.speed_truth import read_speed_rows

NEAR = 0.05
COLUMNS = (
    "technique", "pairs", "n", "measured", "median error", "measured over predicted", "in interval", "verdict right",
    "use for skip", "measure",
)  # fmt: skip


def evidence(truth: Path, runs: Path | None = None) -> list[Pair]:
    """Every pair of the files."""
    rows = list(read_speed_rows(truth))
    return [*served_pairs(rows), *run_pairs(rows), *(live(runs) if runs is not None else ())]


def clear(measured: float, technique: str) -> bool:
    """Whether a measured gain is more than 5 % from the thresholds of its technique."""
    limits = [threshold("worth_ratio")] + ([] if technique == "speculation" else [threshold("limited_ratio")])
    return all(abs(measured / limit - 1) > NEAR for limit in limits)


def measured_verdict(one: Pair) -> Verdict:
    return worth(one.measured) if one.technique == "speculation" else plain_verdict(one.measured)


def line(name: tuple[str, str], found: Sequence[Pair]) -> str:
    errors = [abs(one.gain.value / one.measured - 1) for one in found]
    off = statistics.median(one.measured / one.gain.value for one in found)
    inside = sum(one.gain.low <= one.measured <= one.gain.high for one in found) / len(found)
    # The gain of a batch over one sequence is printed without an interval.
    covered = "-" if name[0] == "batch" else f"{inside:.0%}"
    sure = [one for one in found if clear(one.measured, one.technique) and one.verdict != "measure"]
    same = sum(one.verdict == measured_verdict(one) for one in sure)
    across = sum({one.verdict, measured_verdict(one)} == {"use", "skip"} for one in sure)
    unsure = sum(one.verdict == "measure" for one in found)
    range_ = f"{min(one.measured for one in found):.2f}-{max(one.measured for one in found):.2f}"
    return (
        f"| {name[0]} | {name[1]} | {len(found)} | {range_} | {statistics.median(errors):.1%} | {off:.2f} | "
        f"{covered} | {same} of {len(sure)} | {across} | {unsure} |"
    )


def write(path: Path, found: Sequence[Pair]) -> None:
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(("technique", "group", "what", "measured", "predicted", "low", "high", "verdict", "basis"))
        for one in found:
            gain = [f"{value:.4f}" for value in (one.measured, one.gain.value, one.gain.low, one.gain.high)]
            writer.writerow((one.technique, one.group, one.what, *gain, one.verdict, one.basis))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--runs", type=Path, help="table of live runs")
    parser.add_argument("--pairs", type=Path, help="write every pair to this file")
    given = parser.parse_args()
    found = evidence(given.truth, given.runs)
    groups: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for one in found:
        groups[one.technique, one.group].append(one)
    print(f"| {' | '.join(COLUMNS)} |\n|---|---|---:|---|---:|---:|---:|---:|---:|---:|")
    for name, mine in sorted(groups.items()):
        print(line(name, mine))
    if given.pairs:
        write(given.pairs, found)


if __name__ == "__main__":
    main()
