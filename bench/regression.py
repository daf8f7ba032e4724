"""Whether the answers are still those that were accepted: a frozen grid of scenarios, computed anew and compared.

    python bench/regression.py                      compare; exit status 1 where something is to be accepted
    python bench/regression.py --accept "REASON"    keep the new answers, with the reason, in the change that moves them

`regression.csv` holds scenarios and answers as `infopt sweep --cases` reads and prints them, `regression.yaml` the grid
they come from; `regression_boundary.*` the same of `infopt boundary`; `regression_accepted.yaml` why they moved, with
the hash of the tables each time. To be accepted: a scenario that worked and fails, one that failed and works, a figure
off by more than MOVED, another verdict, another grid.
"""

import argparse
import contextlib
import csv
import hashlib
import io
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infopt.cli import run
from infopt.studies.sweep_values import READ_COLUMNS

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "trust"))
sys.path.append(str(HERE))
import regression_boundary as of_boundary  # noqa: E402
from figure import Figure, conclude  # noqa: E402 - of a folder of scripts

GRID, FROZEN, ACCEPTED = (HERE / name for name in ("regression.yaml", "regression.csv", "regression_accepted.yaml"))
MOVED = 0.01  # relative
SHOWN = 20
INPUTS = READ_COLUMNS
FIGURES = (
    "weights_bytes_per_gpu",
    "kv_bytes_per_token_per_gpu",
    "kv_pool_tokens",
    "max_sequences",
    "step_floor_s",
    "tpot_s",
    "ttft_s",
    "output_tokens_per_s",
)
ANSWERS = [*FIGURES, "fits", "error"]
Row = dict[str, str]


@dataclass(frozen=True)
class Change:
    scenario: str
    kind: str  # "worked, fails", "failed, works", "moved"
    what: str
    size: float  # relative; infinite where a figure came or went

    def __str__(self) -> str:
        return f"{self.kind}: {self.scenario}: {self.what}"


def grid() -> list[Row]:
    """Scenarios of regression.yaml, each once."""
    rows = {}
    for block in yaml.safe_load(GRID.read_text(encoding="utf-8")):
        axes = {name: [str(value) for value in values] for name, values in block.items() if name != "what"}
        if unknown := set(axes) - set(INPUTS):
            sys.exit(f"{GRID.name}: {block['what']}: no column of a sweep: {', '.join(sorted(unknown))}")
        for values in itertools.product(*axes.values()):
            row = dict.fromkeys(INPUTS, "") | dict(zip(axes, values, strict=True))
            rows[tuple(row.values())] = row
    return list(rows.values())


def computed(scenarios: list[Row]) -> list[Row]:
    """Answers of today's `infopt sweep`, figures to six digits."""
    if not scenarios:
        return []
    with tempfile.TemporaryDirectory(prefix="infopt-regression-") as folder:
        cases, answers = Path(folder) / "cases.csv", Path(folder) / "answers.csv"
        save(cases, scenarios, INPUTS)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            status = run(["sweep", "--cases", str(cases), "--out", str(answers)])
        if status:
            sys.exit(f"the sweep ended with {status}: {said.getvalue()}")
        rows = read(answers)
    return [{name: short(name, row[name]) for name in [*INPUTS, *ANSWERS]} for row in rows]


def short(name: str, text: str) -> str:
    """A table that a change of the last bit leaves as it is."""
    return f"{float(text):.6g}" if name in FIGURES and text else text


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def save(path: Path, rows: list[Row], columns: Sequence[str]) -> None:
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    beside.replace(path)


def changes(before: list[Row], after: list[Row]) -> Iterator[Change]:
    """What has to be accepted, scenario by scenario."""
    for old, new in zip(before, after, strict=True):
        scenario = " ".join(f"{name} {old[name]}" for name in INPUTS if old[name])
        if works(old) and not works(new):
            yield Change(scenario, "worked, fails", new["error"] or "does not fit", float("inf"))
        elif works(new) and not works(old):
            yield Change(scenario, "failed, works", old["error"] or "did not fit", float("inf"))
        for name in FIGURES:
            size = move(old[name], new[name])
            if size > MOVED and (works(old) == works(new) or (old[name] and new[name])):
                yield Change(scenario, "moved", f"{name} {old[name] or 'none'} -> {new[name] or 'none'}", size)


def boundary_changes(before: dict[of_boundary.Key, str], after: dict[of_boundary.Key, str]) -> Iterator[Change]:
    """The same of the tables of `infopt boundary`."""
    for key, old, new, size in of_boundary.differences(before, after):
        if size > MOVED:
            yield Change(" / ".join(part for part in key[:2] if part), "moved", f"{key[2]} {old} -> {new}", size)


def boundaries() -> dict[of_boundary.Key, str]:
    """Today's tables of all scenarios."""
    return {key: value for name in of_boundary.scenarios() for key, value in of_boundary.answered(name).items()}


def works(row: Row) -> bool:
    return row["fits"] == "true"


def move(old: str, new: str) -> float:
    """Relative distance; infinite where one is missing or grew from nothing."""
    if old == new:
        return 0.0
    if not (old and new) or not float(old):
        return float("inf")
    return abs(float(new) / float(old) - 1)


def digest() -> str:
    """Of both tables."""
    return hashlib.sha256(FROZEN.read_bytes() + of_boundary.FROZEN.read_bytes()).hexdigest()


def accepted() -> list[dict[str, Any]]:
    """Every acceptance, oldest first: date, reason, changes by kind, rows, sha256 of the table it left."""
    return yaml.safe_load(ACCEPTED.read_text(encoding="utf-8")) if ACCEPTED.exists() else []


def accept(reason: str, found: list[Change], rows: list[Row], tables: dict[of_boundary.Key, str]) -> None:
    save(FROZEN, rows, [*INPUTS, *ANSWERS])
    of_boundary.save(tables)
    entry: dict[str, Any] = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "reason": reason, "rows": len(rows)}
    entry["boundary_figures"] = len(tables)
    entry |= {"changes": dict(Counter(change.kind for change in found)), "sha256": digest()}
    text = yaml.safe_dump([*accepted(), entry], sort_keys=False, allow_unicode=True, width=110)
    beside = ACCEPTED.with_name(f".{ACCEPTED.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(ACCEPTED)
    print(f"accepted {len(rows):,} rows with {len(found):,} changes: {reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Today's answers beside the accepted ones.")
    parser.add_argument("--accept", metavar="REASON", help="keep today's answers, and why they moved")
    reason = parser.parse_args().accept
    if reason is not None and len(reason.split()) < 3:
        sys.exit('--accept: say why in a sentence, e.g. --accept "vLLM 0.31 measured: CUDA graphs take 0.4 GiB more"')
    before = read(FROZEN) if FROZEN.exists() else []
    tables = boundaries()
    found = [*changes(before, computed(before)), *boundary_changes(of_boundary.frozen(), tables)]
    if reason is not None:
        accept(reason, found, computed(grid()), tables)
    else:
        conclude(compared(before, found, [*of_the_grid(before), *of_the_reasons()]))


def of_the_grid(before: list[Row]) -> Iterator[str]:
    """Whether the table has the scenarios of the grid."""
    scenarios, kept = ({tuple(row[name] for name in INPUTS) for row in rows} for rows in (grid(), before))
    if scenarios != kept:
        new, gone = len(scenarios - kept), len(kept - scenarios)
        yield f"another grid: {new:,} scenarios of {GRID.name} are new, {gone:,} are no longer in it"


def of_the_reasons() -> Iterator[str]:
    """Whether the table is the one that was accepted last."""
    if not accepted() or accepted()[-1]["sha256"] != digest():
        yield f"{FROZEN.name} is not the table that {ACCEPTED.name} names: it was changed without a reason"


def compared(before: list[Row], found: list[Change], troubles: list[str]) -> Figure:
    """Print what has to be accepted, largest first."""
    for change in sorted(found, key=lambda one: -one.size)[:SHOWN]:
        print(change)
    if len(found) > SHOWN:
        print(f"... and {len(found) - SHOWN:,} more")
    for trouble in troubles:
        print(trouble)
    if found or troubles:
        print('if this is meant: python bench/regression.py --accept "why", in the same change')
    kinds, fit = Counter(change.kind for change in found), sum(map(works, before))
    return Figure(
        name="regression",
        claim=f"of a frozen grid nothing that worked fails, and no figure moves by over {MOVED:.0%} without a reason",
        figure=f"{len(before):,} scenarios ({fit:,} fit) and {len(of_boundary.frozen()):,} figures of "
        f"{len(of_boundary.scenarios())} boundary tables: {kinds['worked, fails']} worked and fail, "
        f"{kinds['failed, works']} failed and work, {kinds['moved']} figures moved; accepted {len(accepted())} times",
        holds=not (found or troubles),
        command="make regression",
        limits=["Neither the gate nor simulations are in it."],
    )


if __name__ == "__main__":
    main()
