"""How long `infopt plan --json` takes to start, beside the floor its libraries set.

Builds nothing and measures nothing in the checkout: the wheel in dist/ is installed into an environment of its own,
because an editable install adds its import hook to every start. Runs are paired (one of each in turn), so that a busy
moment hits both; the figure is the median of the ratios within a pair.

    python bench/startup.py [--runs 15] [--wheel dist/infopt-*.whl]

Exit status 1 when plan takes more than TARGET_RATIO times the floor.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.append(str(ROOT / "trust"))
from figure import Figure, conclude  # noqa: E402 - of a folder of scripts

TARGET_RATIO = 1.35
PLAN = ("plan", "--model", "70b", "--hw", "h100:4", "--ctx", "32k", "--json")


def newest_wheel() -> Path:
    wheels = sorted((ROOT / "dist").glob("infopt-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        sys.exit("no wheel in dist/: run `make wheel` first")
    return wheels[-1]


def install(wheel: Path, folder: Path) -> Path:
    """A fresh environment in `folder` that holds the wheel and what it needs; returns its bin folder."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    quiet = ("--quiet", "--quiet", "--disable-pip-version-check", "--no-input")
    constraints = ("--constraint", str(ROOT / "constraints.txt"))
    subprocess.run([programs / "python", "-m", "pip", "install", *quiet, *constraints, wheel], check=True)
    return programs


def duration_s(command: list[str], folder: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def modules(command: list[str], folder: Path) -> int:
    """Modules that the Python program `command` imports, from what `-X importtime` lists."""
    traced = [command[0], "-X", "importtime", *command[1:]]
    listed = subprocess.run(
        traced, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, text=True
    )
    return sum(line.startswith("import time:") for line in listed.stderr.splitlines()) - 1  # less the heading


def measure(commands: dict[str, list[str]], runs: int, folder: Path) -> dict[str, list[float]]:
    """Durations of each command, run in turn; one unmeasured round first fills the caches."""
    durations: dict[str, list[float]] = {name: [] for name in commands}
    for round_number in range(runs + 1):
        for name, command in commands.items():
            took = duration_s(command, folder)
            if round_number:
                durations[name].append(took)
    return durations


def main() -> None:
    parser = argparse.ArgumentParser(description="Start-up time of infopt beside the floor its libraries set.")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--wheel", type=Path, default=None)
    options = parser.parse_args()
    wheel = (options.wheel or newest_wheel()).resolve()
    with tempfile.TemporaryDirectory(prefix="infopt-startup-") as name:
        folder = Path(name)
        programs = install(wheel, folder / "env")
        python, infopt, floor = str(programs / "python"), str(programs / "infopt"), str(HERE / "floor.py")
        commands = {
            "python -c pass": [python, "-c", "pass"],
            "floor": [python, floor],
            "infopt plan": [python, infopt, *PLAN],
        }
        durations = measure(commands, options.runs, folder)
        counts = {command: modules(argv, folder) for command, argv in commands.items()}

    print(f"{wheel.name}, {options.runs} paired runs, wall-clock ms")
    print(f"{'':16}{'median':>8}{'min':>8}{'max':>8}{'modules':>9}")
    for command, took in durations.items():
        ms = [statistics.median(took) * 1e3, min(took) * 1e3, max(took) * 1e3]
        print(f"{command:16}{ms[0]:8.1f}{ms[1]:8.1f}{ms[2]:8.1f}{counts[command]:9d}")
    medians = statistics.median(durations["infopt plan"]) / statistics.median(durations["floor"])
    paired = sorted(plan / base for plan, base in zip(durations["infopt plan"], durations["floor"], strict=True))
    ratio, tenth = statistics.median(paired), len(paired) // 10
    print(f"plan / floor = {ratio:.2f}, target at most {TARGET_RATIO} (median of the paired ratios,")
    print(f"p10 {paired[tenth]:.2f}, p90 {paired[-1 - tenth]:.2f}; ratio of the medians {medians:.2f})")
    milliseconds = statistics.median(durations["infopt plan"]) * 1e3
    conclude(
        Figure(
            name="startup",
            claim=f"`infopt plan --json` takes at most {TARGET_RATIO} times the start of the libraries it is made of",
            figure=f"{milliseconds:.0f} ms, {ratio:.2f} times the floor "
            f"(80% of {options.runs} pairs {paired[tenth]:.2f} to {paired[-1 - tenth]:.2f})",
            holds=ratio <= TARGET_RATIO,
            command="make startup",
        )
    )


if __name__ == "__main__":
    main()
