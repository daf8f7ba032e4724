"""Write the bundled speed truth: rows of a truth file that are scored, of served deployments every `STEP`th.

    python tools/curate_speed.py TRUTH.csv

Served deployments are many and alike, so that a share of them stands for all; TTFT rows stay with their TPOT rows, and
accepted lengths with their speedups. Rows that were added here (`OWN`) stay. The columns and the sources stay as they
are. Written beside and renamed.
"""

import csv
import sys
from pathlib import Path

from infopt.studies.speed_speculation import GROUP, run_key
from infopt.studies.speed_truth import BUNDLED_SPEED, COLUMNS, read_speed_rows
from infopt.studies.validate import validate

STEP = 4
# Sources that the truth file has not: EAGLE runs from threads of vllm-project/vllm.
OWN = ("spec-vl-",)


def main() -> None:
    source = Path(sys.argv[1])
    rows = list(read_speed_rows(source))
    scored = {check.case_id: check.group for check in validate(source).scored}
    served = [name for name, group in scored.items() if group.startswith(("served", "e2e"))]
    kept = set(scored) - set(served) | set(served[::STEP])
    runs = {row.run for row in rows if row.id in kept and scored[row.id].startswith(("served", "e2e"))}
    kept |= {row.id for row in rows if row.metric == "ttft_ms" and row.run in runs}
    drafted = {run_key(row) for row in rows if row.id in kept and scored.get(row.id, "").startswith(GROUP)}
    kept |= {row.id for row in rows if row.metric == "spec_accept_len" and run_key(row) in drafted}
    with source.open(encoding="utf-8", newline="") as handle:
        lines = [row for row in csv.DictReader(handle) if row["id"] in kept]
    with BUNDLED_SPEED.open(encoding="utf-8", newline="") as handle:
        lines += [row for row in csv.DictReader(handle) if row["id"].startswith(OWN)]
    beside = BUNDLED_SPEED.with_suffix(".tmp")
    with beside.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    beside.replace(BUNDLED_SPEED)
    print(f"{len(lines)} rows, {BUNDLED_SPEED.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
