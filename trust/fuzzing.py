"""Foreign bytes into every reader of the package: `make fuzz SECONDS=600`, `make fuzz-smoke`.

    python trust/fuzzing.py --seconds 600 --seed 7            every target, an equal share of the time each
    python trust/fuzzing.py --only gate-yaml,metrics          some of them
    python trust/fuzzing.py --smoke                           60 s, seed 1, without atheris
    python trust/fuzzing.py --seeds                           every kept input once: what tests/test_corpus.py does

What breaks the rule is made smaller and left in build/fuzz/findings; it belongs into tests/corpus with its mending.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from figure import ROOT, Figure, conclude
from fuzz.engines import Run, has_atheris, run_atheris, run_own
from fuzz.table import TARGETS
from fuzz.target import Target
from fuzz.watch import MOST_BYTES, MOST_SECONDS

FOLDER = ROOT / "build" / "fuzz"
GRACE_S = 60.0
SMOKE_S, SMOKE_SEED = 50.0, 1


def main() -> None:
    options = parsed()
    targets = [TARGETS[name] for name in options.only.split(",")] if options.only else list(TARGETS.values())
    if options.child:
        child(targets, options)
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "findings").mkdir(parents=True)
    engine = "ours" if options.smoke or not has_atheris() else "atheris"
    print(f"seed {options.seed}, engine {engine}, {len(targets)} targets, {options.seconds:g} s", flush=True)
    groups = [targets] if engine == "ours" else [[target] for target in targets]
    reports = [watched_child(group, engine, options) for group in groups]
    told(reports, engine, options)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="targets, separated by commas: no record is kept")
    parser.add_argument("--smoke", action="store_true", help=f"{SMOKE_S:g} s of our own engine, seed {SMOKE_SEED}")
    parser.add_argument("--child", choices=("ours", "atheris"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := sorted(set(filter(None, options.only.split(","))) - set(TARGETS)):
        parser.error(f"no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    if not options.seconds > 0:
        parser.error("--seconds is a number above 0")
    if options.smoke:
        options.seconds, options.seed = SMOKE_S, SMOKE_SEED
    return options


def child(targets: list[Target], options: argparse.Namespace) -> None:
    """What the process that reads the inputs does."""
    run = Run(targets, report_of(targets))
    if options.child == "ours":
        run_own(run, options.seconds, options.seed)
        return
    folder = FOLDER / "corpus" / targets[0].name
    folder.mkdir(parents=True, exist_ok=True)
    run_atheris(run, options.seconds, options.seed, folder)


def report_of(targets: list[Target]) -> Path:
    return FOLDER / (targets[0].name if len(targets) == 1 else "all")


def watched_child(targets: list[Target], engine: str, options: argparse.Namespace) -> dict[str, Any]:
    """The report of a process of its own, which is ended where an input holds it where no clock of its own reaches."""
    share_s = (
        options.seconds
        if engine == "ours"
        else options.seconds / len(TARGETS if not options.only else options.only.split(","))
    )
    words = ["--child", engine, "--seconds", str(share_s), "--seed", str(options.seed)]
    words += ["--only", ",".join(target.name for target in targets)]
    log = report_of(targets).with_suffix(".log")
    with log.open("wb") as said:
        process = subprocess.Popen([sys.executable, __file__, *words], stdout=said, stderr=said)
        try:
            status: int | str = process.wait(share_s + GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = f"held for {GRACE_S:g} s"
    report: dict[str, Any] = json.loads(report_of(targets).read_text(encoding="utf-8"))
    if status != 0:
        name = f"{targets[0].name}: the process ended with {status}"
        last = report_of(targets).with_suffix(".input").read_bytes().decode("latin-1")
        tally = report["targets"][targets[0].name]
        tally["broken"][name] = {"trace": log.read_text(errors="replace")[-2000:], "input": last}
    return report


def told(reports: list[dict[str, Any]], engine: str, options: argparse.Namespace) -> None:
    """The table, the inputs that broke the rule, and the figure."""
    tallies = {name: tally for report in reports for name, tally in report["targets"].items()}
    for name, tally in tallies.items():
        print(
            f"{name:20} {tally['inputs']:9,} inputs {tally['outcomes']:5} outcomes {tally['longest_s']:7.3f} s "
            f"{tally['most_bytes'] / 1e6:6.1f} MB"
        )
    broken = [(name, what, found) for name, tally in tallies.items() for what, found in tally["broken"].items()]
    for number, (name, what, found) in enumerate(broken):
        place = FOLDER / "findings" / name / f"{number:03}"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(found["input"].encode("latin-1"))
        place.with_suffix(".txt").write_text(f"{what}\n{found['trace']}\n", encoding="utf-8", errors="backslashreplace")
        print(f"BROKEN {what} ({place.relative_to(ROOT)})")
    longest_s = max(tally["longest_s"] for tally in tallies.values())
    inputs = sum(tally["inputs"] for tally in tallies.values())
    most_mb = max(tally["most_bytes"] for tally in tallies.values()) / 1e6
    name = "fuzz-smoke" if options.smoke else "fuzz"
    command = "make fuzz-smoke" if options.smoke else f"make fuzz SECONDS={options.seconds:g} SEED={options.seed}"
    empty = [target for target, tally in tallies.items() if not tally["inputs"]]
    ended = conclude if not options.only else part_told
    ended(
        Figure(
            name=name,
            claim=(
                "foreign bytes give a result or an InfoptError of one line: no other exception, no warning, never more "
                f"than {MOST_SECONDS:g} s or {MOST_BYTES / 1e6:.0f} MB for an input"
            ),
            figure=(
                f"{inputs:,} inputs to {len(tallies)} targets, {len(broken)} findings, longest {longest_s:.2f} s, "
                f"most memory {most_mb:.0f} MB, seed {options.seed}, engine {engine}"
            ),
            holds=not broken and not empty,
            command=command,
            seed=options.seed,
            limits=[*limits(engine), *(f"{target} was given no input" for target in empty)],
            table=[["target", "inputs", "outcomes", "longest s", "most MB"]]
            + [
                [n, f"{t['inputs']:,}", str(t["outcomes"]), f"{t['longest_s']:.3f}", f"{t['most_bytes'] / 1e6:.1f}"]
                for n, t in tallies.items()
            ],
        )
    )


def part_told(figure: Figure) -> None:
    """Of some targets: the line and the status, and the record of all of them stays."""
    print(figure.line)
    sys.exit(0 if figure.holds else 1)


def limits(engine: str) -> list[str]:
    """What the figure does not show."""
    said = ["memory is counted over what the process held before an input: modules that it loads count once"]
    if engine == "ours":
        said.append("inputs were guided by new answers, not by lines reached: atheris was not used")
    return said


if __name__ == "__main__":
    main()
