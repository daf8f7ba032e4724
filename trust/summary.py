"""The page docs/trust.md: what every check of this folder measured last, and what none of them shows.

    python trust/summary.py --run     every check anew (`make trust`; hours), then the page
    python trust/summary.py           the page from the records in build/trust/

Checks are the make targets in CHECKS, in this order. A check that fails does not stop the others; exit status 1 where
one does not hold or left no record.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from figure import RECORDS, ROOT

CHECKS = ("regression", "properties", "fuzz", "mutation", "coverage", "safety", "dependencies")
CHECKS += ("advisories", "endings", "long-runs", "startup", "peers")
PAGE = ROOT / "docs" / "trust.md"
LIMITS = Path(__file__).resolve().parent / "limits.yaml"
HOLDS = {True: "holds", False: "**does not hold**", None: "not measured"}
Record = dict[str, Any]


def run(check: str) -> None:
    """One target, on the screen; its record says how it ended."""
    print(f"== make {check}", flush=True)
    (RECORDS / f"{check}.json").unlink(missing_ok=True)
    subprocess.run(["make", "--no-print-directory", check], cwd=ROOT, check=False)


def records() -> list[Record]:
    """Of every check that left one, in the order of CHECKS."""
    kept = [RECORDS / f"{check}.json" for check in CHECKS]
    return [json.loads(path.read_text(encoding="utf-8")) for path in kept if path.exists()]


def page(found: list[Record], limits: list[Record]) -> str:
    """Markdown of the page."""
    return "\n".join(
        [*INTRODUCTION, *overview(found), *(line for one in found for line in section(one)), *known(limits)]
    )


INTRODUCTION = (
    "# Trust",
    "",
    "What was checked of infopt itself, each by a command that anyone can run, with the figure it printed last. The",
    "page is written by `make trust` (`trust/summary.py`); every check also runs alone. Small forms of most of them",
    "are part of `make test`. How near predictions are to measurements is on another page: [accuracy](accuracy.md).",
    "",
)


def overview(found: list[Record]) -> list[str]:
    heading = ["check", "what must be true", "measured", ""]
    rows = [[f"[{one['name']}](#{one['name']})", one["claim"], one["figure"], HOLDS[one["holds"]]] for one in found]
    return [row(heading), row(["---"] * len(heading)), *map(row, rows), ""]


def section(one: Record) -> list[str]:
    seed = f", seed {one['seed']}" if one["seed"] is not None else ""
    lines = [
        f"## {one['name']}",
        "",
        f"`{one['command']}`, {one['date']}, {took(one['seconds'])}{seed}; {one['machine']}.",
        "",
    ]
    if one["table"]:
        heading, *rows = one["table"]
        lines += [row(heading), row(["---"] * len(heading)), *map(row, rows), ""]
    return [*lines, *(f"- {limit}" for limit in one["limits"]), *([""] if one["limits"] else [])]


def known(limits: list[Record]) -> list[str]:
    """What no check shows."""
    lines = ["## Known limits", "", "What none of these checks shows:", ""]
    return [*lines, *(f"- **{one['of']}**: {one['limit']}" for one in limits), ""]


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cell(text) for text in cells) + " |"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def took(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def main() -> None:
    parser = argparse.ArgumentParser(description="What was checked of infopt itself, as a page.")
    parser.add_argument("--run", action="store_true", help="run every check first")
    if parser.parse_args().run:
        for check in CHECKS:
            run(check)
    found = records()
    beside = PAGE.with_name(".trust.md.new")
    beside.write_text(page(found, yaml.safe_load(LIMITS.read_text(encoding="utf-8"))), encoding="utf-8")
    beside.replace(PAGE)
    missing = sorted(set(CHECKS) - {one["name"] for one in found})
    failed = [one["name"] for one in found if one["holds"] is False]
    unmeasured = [one["name"] for one in found if one["holds"] is None]
    for one in found:
        print(f"{one['name']}: {one['figure']}: {HOLDS[one['holds']].strip('*')}")
    told = {"do not hold": failed, "were not measured": unmeasured, "left no record": missing}
    said = "; ".join(f"{', '.join(names)} {what}" for what, names in told.items() if names)
    print(
        f"trust: {len(found) - len(failed) - len(unmeasured)} of {len(CHECKS)} checks hold"
        + (f"; {said}" if said else "")
    )
    sys.exit(1 if failed or missing else 0)


if __name__ == "__main__":
    main()
