"""How near predicted gains of tensor parallelism are to measured ones, and whether times are off by placement.

    python bench/placements.py TRUTH.csv

Rows: tpot_ms of prefix `aic` (served deployments), not flagged, above the floor and within the predicted KV capacity.
First: measured over predicted by placement, as the step model has it and as boundaries/placements.py has it (links,
busiest expert rank). Then pairs of deployments that differ in tensor parallelism alone: TPOT(narrow) / TPOT(wide).
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

from infopt.boundaries.placements import Placed, present
from infopt.boundaries.situation import Situation
from infopt.errors import InfoptError
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.estimate import NoEstimate, estimate
from infopt.ledgers.memory import memory_ledger
from infopt.studies.speed_truth import SpeedRow, read_speed_rows, served_scenario

Timed = tuple[SpeedRow, Placed, float, float]  # measured, and predicted by the step model alone


def timed(path: Path) -> Iterator[Timed]:
    for row in read_speed_rows(path):
        if row.prefix != "aic" or row.flagged or row.metric != "tpot_ms":
            continue
        try:
            s = served_scenario(row)
            bandwidth = bandwidth_ledger(s)
            found = estimate(s, memory_ledger(s), bandwidth)
        except InfoptError:
            continue
        if not isinstance(found, NoEstimate) and row.value / 1e3 >= bandwidth.tpot_floor_s:
            # A benchmark lets its clients run at once, whatever the engine's default.
            s = replace(s, max_num_seqs=max(s.max_num_seqs, s.batch))
            yield row, present(Situation(s)), row.value / 1e3, found.tpot_s


def plain(row: Timed) -> float:
    return row[3]


def with_links(row: Timed) -> float:
    return row[1].tpot_s(row[1].steps)


def by_placement(rows: list[Timed]) -> None:
    groups: dict[tuple[str, str], list[Timed]] = defaultdict(list)
    for row in rows:
        s = row[1].scenario
        groups["mixture" if s.model.experts else "dense", f"tp {s.tp} dp {s.dp} ep {s.ep}"].append(row)
    print("measured over predicted, median: step model alone, with links and the busiest rank")
    for (kind, name), mine in sorted(groups.items()):
        shown = [median(row[2] / how(row) for row in mine) for how in (plain, with_links)]
        print(f"  {kind:8} {name:18} {len(mine):4}  {shown[0]:.3f}  {shown[1]:.3f}")
    for kind in ("dense", "mixture"):
        mine = [row for row in rows if bool(row[1].scenario.model.experts) == (kind == "mixture")]
        shown = [mean(abs(how(row) / row[2] - 1) for row in mine) for how in (plain, with_links)]
        print(f"  {kind}: mean error {shown[0]:.1%} alone, {shown[1]:.1%} with links, of {len(mine)}")


def pairs(rows: list[Timed], how: Callable[[Timed], float]) -> None:
    same: dict[tuple[object, ...], dict[int, Timed]] = defaultdict(dict)
    for row in rows:
        s = row[1].scenario
        if s.dp == 1 and s.ep == 1:
            key = (
                s.model.id,
                s.accelerator.id,
                row[0].engine,
                s.weight_format,
                s.input_tokens,
                s.output_tokens,
                s.batch,
            )
            same[key].setdefault(s.tp, row)
    ratios: dict[tuple[bool, int, int], list[tuple[float, float]]] = defaultdict(list)
    for by_width in same.values():
        for narrow in by_width:
            for wide in (width for width in by_width if width > narrow):
                one, other = by_width[narrow], by_width[wide]
                mixture = one[1].scenario.model.experts > 0
                ratios[mixture, narrow, wide].append((one[2] / other[2], how(one) / how(other)))
    for (mixture, narrow, wide), found in sorted(ratios.items()):
        error = [predicted / measured - 1 for measured, predicted in found]
        print(
            f"  {'mixture' if mixture else 'dense':8} tp {narrow} -> {wide}: "
            f"measured {median(m for m, _ in found):.2f}, "
            f"predicted {median(p for _, p in found):.2f}, median off {median(error):+.1%}, mean error "
            f"{mean(map(abs, error)):.1%} of {len(found)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    rows = list(timed(parser.parse_args().truth))
    by_placement(rows)
    for name, how in (("the step model alone", plain), ("with links", with_links)):
        print(f"TPOT(narrow) / TPOT(wide), {name}")
        pairs(rows, how)


if __name__ == "__main__":
    main()
