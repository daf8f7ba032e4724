"""Refresh the table of docs/accuracy.md from `validate` on the bundled measurements.

    python tools/docs_accuracy.py [--check]

With --check nothing is written and the status says whether the page is current.
"""

import sys
from pathlib import Path

from infopt.reports.validate_report import markdown_table
from infopt.studies.validate import validate

PAGE = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def refreshed(page: str) -> str:
    """The page with its table computed anew."""
    result = validate()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    scored, total = len(result.scored), len(result.checks)
    lead = f"{scored} of {total} printed figures of {len({c.case_id for c in result.checks})} runs are scored."
    return "\n".join([before + BEGIN, lead, "", *markdown_table(result), END + after])


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    fresh = refreshed(page)
    if "--check" in sys.argv[1:]:
        sys.exit(0 if fresh == page else 1)
    PAGE.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    main()
