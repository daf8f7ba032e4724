"""What every check of `make trust` leaves: one line on the screen, last, and one record that the page is made of.

A script of this folder (or of bench/) measures, then calls `conclude(Figure(...))`; `summary.py` reads the records.
"""

import json
import os
import platform
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "build" / "trust"
STARTED_S = time.monotonic()


@dataclass(frozen=True)
class Figure:
    """One claim and what was measured of it. `holds` is None where it could not be measured here: `figure` says why."""

    name: str  # of the make target
    claim: str  # what must be true, with its limit
    figure: str  # what was measured, with units
    holds: bool | None
    command: str  # reproduces it
    seed: int | None = None
    limits: list[str] = field(default_factory=list)  # what it does not show, what survived, what is not done
    table: list[list[str]] = field(default_factory=list)  # heading first; for the page

    @property
    def line(self) -> str:
        verdict = {True: "holds", False: "DOES NOT HOLD", None: "not measured"}[self.holds]
        return f"{self.name}: {self.figure}: {verdict}"


def conclude(figure: Figure) -> NoReturn:
    """Keep the record, print the line, exit 0 if it holds, 1 if it does not, 3 if it could not be measured."""
    write(figure)
    print(figure.line, flush=True)
    sys.exit({True: 0, False: 1, None: 3}[figure.holds])


def write(figure: Figure) -> None:
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    record = {
        **asdict(figure),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "seconds": round(time.monotonic() - STARTED_S),
        "machine": system,
    }
    RECORDS.mkdir(parents=True, exist_ok=True)
    beside = RECORDS / f".{figure.name}.{os.getpid()}"
    beside.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(RECORDS / f"{figure.name}.json")
