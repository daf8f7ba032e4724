"""Refresh the tables of docs/accuracy.md from `validate` on the bundled measurements, and from kept steps of a device.

    python tools/docs_accuracy.py [--check]

With --check nothing is written and the status says whether the page is current.
"""

import sys
from pathlib import Path

from infopt.reports.validate_report import markdown_table
from infopt.studies.step_evidence import markdown, read_evidence, rows
from infopt.studies.validate import SPEED_GROUPS, Validation, validate

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "accuracy.md"
EVIDENCE = ROOT / "tests" / "data" / "calibrated_ledger.json"


def refreshed(page: str) -> str:
    """The page with its tables computed anew."""
    result = validate()
    tables = {
        "table": _lines(result, speed=False),
        "speed": _lines(result, speed=True),
        "calibrated": markdown(rows(read_evidence(EVIDENCE).runs)),
    }
    for name, lines in tables.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = page.split(begin)
        page = "\n".join([before + begin, *lines, end + rest.split(end)[1]])
    return page


def _lines(result: Validation, speed: bool) -> list[str]:
    checks = [check for check in result.checks if (check.group in SPEED_GROUPS) == speed]
    scored = sum(not check.reason for check in checks)
    runs = len({check.case_id for check in checks})
    kind = "published figures" if speed else "printed figures"
    return [f"{scored} of {len(checks)} {kind} of {runs} runs are scored.", "", *markdown_table(result, speed)]


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    fresh = refreshed(page)
    if "--check" in sys.argv[1:]:
        sys.exit(0 if fresh == page else 1)
    PAGE.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    main()
