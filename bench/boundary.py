"""How long the table of `infopt boundary` takes beside `infopt plan` of the same scenario.

Both commands run as a user runs them, one of each in turn, so that a busy moment hits both; the figure is the median of
the ratios within a pair. The table judges 14 techniques and finds where each verdict flips, some 1,500 judgements.

    python bench/boundary.py [--runs 7] [--only 70b]

Exit status 1 where the fastest run of a table took more than TARGET_S seconds of one core.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET_S = 2.0
LOAD = ("--isl", "2000", "--osl", "300", "--batch", "64")
ARRIVES = ("--rate", "3/s", "--shared-prefix", "1000", "--alpha", "0.6")
# (model, hardware, how it drafts)
SCENARIOS = {
    "70b": ("70b", "h100:4", "ngram"),
    "deepseek-v3": ("deepseek-v3", "h200:8", "mtp"),
    "gpt-oss-120b": ("gpt-oss-120b", "h100:2", "eagle"),
    "qwen3-next": ("qwen3-next", "h100:4", "mtp"),
    "jamba": ("jamba", "h100:8", "ngram"),
}


def used_s(command: list[str]) -> tuple[float, float]:
    """Wall-clock and processor seconds of a command; a verdict is no failure."""
    before, started = os.times(), time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    after = os.times()
    if done.returncode not in (0, 1, 4):
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, spent


def pairs(name: str, runs: int) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """(plan, boundary) of each run, in turn; one unmeasured round first fills the caches."""
    model, hardware, method = SCENARIOS[name]
    program = [sys.executable, "-m", "infopt"]
    scenario = ["--model", model, "--hw", hardware, *LOAD, "--json"]
    plan, table = [*program, "plan", *scenario], [*program, "boundary", *scenario, *ARRIVES, "--method", method]
    return [(used_s(plan), used_s(table)) for _ in range(runs + 1)][1:]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of a table of boundaries beside that of a plan.")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", choices=list(SCENARIOS), default=None)
    options = parser.parse_args()
    print(f"{options.runs} paired runs; median wall-clock and fastest processor time, s")
    print(f"{'':14}{'plan':>8}{'table':>8}{'ratio':>8}{'least CPU':>11}")
    slow = False
    for name in SCENARIOS if options.only is None else [options.only]:
        found = pairs(name, options.runs)
        plan_s, table_s = (statistics.median(run[side][0] for run in found) for side in (0, 1))
        ratio = statistics.median(table[0] / plan[0] for plan, table in found)
        least_s = min(table[1] for _, table in found)
        slow = slow or least_s > TARGET_S
        print(f"{name:14}{plan_s:8.2f}{table_s:8.2f}{ratio:8.1f}{least_s:11.2f}")
    print(f"target: at most {TARGET_S:g} s of one core for a table")
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
