"""Write the bundled memory truth: independent cases of a truth file with at least one scored figure.

    python tools/curate_truth.py TRUTH.csv

Cases whose shape was inferred from their own figures, or of which nothing can be scored, stay out; the columns
and the sources stay as they are. Written beside and renamed.
"""

import csv
import sys
from pathlib import Path

from infopt.studies.truth import BUNDLED_MEMORY, COLUMNS, INFERRED
from infopt.studies.validate import validate


def main() -> None:
    source = Path(sys.argv[1])
    scored = {check.case_id for check in validate(source).scored}
    with source.open(encoding="utf-8", newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if row["id"] in scored and INFERRED not in row["other_flags"]]
    beside = BUNDLED_MEMORY.with_suffix(".tmp")
    with beside.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    beside.replace(BUNDLED_MEMORY)
    print(f"{len(rows)} rows of {len({row['id'] for row in rows})} cases")


if __name__ == "__main__":
    main()
