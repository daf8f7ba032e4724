"""infopt beside other tools, in one run: start-up, one plan, the same search, answers, memory; sweep and gate.

    python bench/peers.py --install        each tool into an environment of its own below .peers/; needs a package index
    python bench/peers.py [--rounds 9]     measures and prints; no network: the hub is peers_hub.py, on loopback
    python bench/peers.py --write          and keeps the figures in peers_measured.yaml, and docs/performance.md of them
    python bench/peers.py --page           only the page, of the figures that are kept

peers.yaml says what each is asked and what is read of its answer. Rounds are paired, one of each in turn after one that
is not measured; a figure is a median with its quartiles, a ratio that of the median within a round. infopt is its wheel
in a fresh environment. Exit status 1 where a target is missed, see `targets`.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "trust"))
import startup
from figure import Figure, conclude
from peers_answers import found, number, read
from peers_hub import Hub
from peers_page import page, spread
from peers_runs import HERE, ROOT, Run, Workshop, filled, install, watched

ASKED = HERE / "peers.yaml"
MEASURED = HERE / "peers_measured.yaml"
PAGE = ROOT / "docs" / "performance.md"
FOLDER = ROOT / ".peers"
GPUS, DEVICE_GIB = 4, 80
SEARCH_RATIO = 10.0  # infopt's search is to be this much faster
ROWS, FILES = 100_000, 1_000  # of a sweep, of a gate
MOST_JOBS = 5  # runs of each, of which the longest takes eight seconds

Asked = dict[str, Any]
Measured = dict[str, Any]


def install_all(asked: Asked) -> None:
    """Every tool with a version; what cannot be installed leaves its reason in .peers/NAME.reason."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    for name, tool in asked["tools"].items():
        if "version" in tool:
            reason, kept = install(FOLDER, name, tool["version"]), FOLDER / f"{name}.reason"
            kept.unlink(missing_ok=True)
            if reason:
                kept.write_text(reason, encoding="utf-8")
            print(f"{name} {tool['version']}: {reason or 'installed'}", flush=True)


class Bench:
    """Programs of the tools that are there, and the workshop in which they run."""

    def __init__(self, asked: Asked, workshop: Workshop, infopt: Path) -> None:
        self.asked, self.workshop = asked, workshop
        self.programs, self.missing = {"infopt": infopt}, {}
        for name in set(asked["tools"]) - {"infopt"}:
            reason = FOLDER / f"{name}.reason"
            if reason.exists():
                self.missing[name] = f"does not install: {reason.read_text(encoding='utf-8')}"
            elif (FOLDER / name / "installed.txt").exists():
                self.programs[name] = FOLDER / name / "bin"
            else:
                sys.exit(f"{name} is not installed: run `make peers-install` first")
        self.tools = {name: tool for name, tool in asked["tools"].items() if name in self.programs}

    def command(self, name: str, words: list[Any], gpus: int = GPUS) -> list[str]:
        """The command of a tool for so many devices, its program by its path."""
        model, work = self.asked["question"]["model"], self.workshop.folder
        program, *rest = filled(words, gpus=gpus, gib=gpus * DEVICE_GIB, model=model, work=work)
        return [str(self.programs[name] / program), *rest]

    def rounds(self, commands: dict[str, list[str]], count: int, statuses: dict[str, int]) -> dict[str, list[Run]]:
        """Runs of each command, in turn, the first of them unmeasured; a status that is not expected ends all."""
        runs: dict[str, list[Run]] = {name: [] for name in commands}
        for number_of_round in range(count + 1):
            for name, command in commands.items():
                run = self.workshop.run(command)
                if run.output.status != statuses.get(name, 0):
                    sys.exit(f"{name}: status {run.output.status}: {' '.join(command)}\n{run.output.err[-2000:]}")
                if number_of_round:
                    runs[name].append(run)
            print(f"  round {number_of_round} of {count}", end="\r", file=sys.stderr, flush=True)
        return runs


def summary(runs: list[Run]) -> Measured:
    """Quartiles of time by the clock and of processor time; the most memory of any run."""
    return {
        "wall_s": quartiles([run.wall_s for run in runs]),
        "cpu_s": quartiles([run.cpu_s for run in runs]),
        "peak_bytes": int(max(run.peak_bytes for run in runs)),
    }


def quartiles(values: list[float]) -> list[float]:
    return [float(f"{value:.4g}") for value in statistics.quantiles(values, n=4, method="inclusive")]


def ratios(these: list[Run], those: list[Run]) -> Measured:
    """Quartiles of the ratio within a round, by the clock and in processor time."""
    pairs = list(zip(these, those, strict=True))
    return {
        "wall": quartiles([one.wall_s / other.wall_s for one, other in pairs]),
        "cpu": quartiles([one.cpu_s / other.cpu_s for one, other in pairs]),
    }


def start_ups(bench: Bench, count: int) -> Measured:
    """Start-up and one plan of every tool, with their answers and what they say on one device."""
    python = str(bench.programs["infopt"] / "python")
    commands = {"pass": [python, "-c", "pass"], "floor": [python, str(HERE / "floor.py")]}
    for name, tool in bench.tools.items():
        commands |= {
            f"{name} help": bench.command(name, tool["help"]),
            f"{name} plan": bench.command(name, tool["plan"]),
        }
    runs = bench.rounds(
        commands, count, {f"{name} plan": tool["status"] for name, tool in bench.tools.items() if "status" in tool}
    )
    ours = runs["infopt plan"]
    result: Measured = {name: summary(runs[name]) for name in ("pass", "floor")}
    result["plan_to_floor"] = ratios(ours, runs["floor"])
    result["tools"] = {}
    for name, tool in bench.tools.items():
        modules = bench.workshop.modules(commands[f"{name} plan"])
        result["tools"][name] = {
            "help": summary(runs[f"{name} help"]),
            "plan": summary(runs[f"{name} plan"]),
            "ours_to_its_help": ratios(ours, runs[f"{name} help"]),
            "modules": None if modules is None else len(modules),
            "watched": watched(modules),
            "answer": read(tool["answer"], runs[f"{name} plan"][0].output, GPUS),
            "too_small": too_small(bench, name, tool),
        }
    return result


def too_small(bench: Bench, name: str, tool: Asked) -> Measured:
    """The plan asked of one device, which cannot hold it: what it says, its exit status, whether a traceback came.

    A tool that takes no hardware was asked of this machine, if of any, and its `status` says what came of it.
    """
    if not any("{gpus}" in str(word) or "{gib}" in str(word) for word in tool["plan"]):
        return {"fits": None, "status": tool.get("status"), "traceback": False}
    output = bench.workshop.run(bench.command(name, tool["plan"], gpus=1)).output
    fits = read({"fits": tool["answer"]["fits"]}, output, 1)["fits"]
    return {"fits": fits, "status": output.status, "traceback": output.traceback}


def searches(bench: Bench, count: int) -> Measured:
    """The same search: time, how many scenarios were looked at, the best answer; what counts them is not timed."""
    asked = bench.asked["search"]
    ways = {name: way for name, way in asked["ways"].items() if way["tool"] in bench.programs}
    commands = {name: bench.command(way["tool"], way["ask"]) for name, way in ways.items()}
    runs = bench.rounds(commands, count, {})
    result: Measured = {}
    for name, way in ways.items():
        output = runs[name][0].output
        counted = output
        if "count_with" in way:
            script, (_, *words) = bench.workshop.folder / way["count_with"], way["ask"]
            counted = bench.workshop.run(bench.command(way["tool"], ["python", str(script), *words])).output
        result[name] = {
            **summary(runs[name]),
            "scenarios": int(number(way["scenarios"], counted)),
            "best": {key: round(float(found(spec, output)), 1) for key, spec in way["best"].items()},
            "times_infopt": ratios(runs[name], runs["infopt"]),
        }
    return result


def work(bench: Bench, count: int) -> Measured:
    """Sweeps and gates of the installed wheel: things per second, processor time, memory."""
    from sweep import cases

    import gate  # noqa: TID251  # of this folder

    folder, infopt = bench.workshop.folder, str(bench.programs["infopt"] / "infopt")
    cases(folder / "cases.csv", ROWS, 500)
    (folder / "deployments").mkdir()
    gate.write(folder / "deployments", FILES)
    (folder / "policy.yaml").write_text(gate.POLICY, encoding="utf-8")
    grid = ["--model", "70b", "--hw", "h100,h200", "--tp", "4,8", "--ctx", "8k,32k", "--batch", f"1:{ROWS // 8}"]
    jobs = {
        f"sweep, a grid of {ROWS:,} rows": (ROWS, ["sweep", *grid, "--out", "grid.csv"]),
        f"sweep, {ROWS:,} cases of 500 placements": (ROWS, ["sweep", "--cases", "cases.csv", "--out", "rows.csv"]),
        f"gate, {FILES:,} files": (FILES, ["gate", "deployments", "--json"]),
        f"gate, {FILES:,} files and a policy": (FILES, ["gate", "deployments", "--json", "--policy", "policy.yaml"]),
    }
    runs = min(count, MOST_JOBS)
    return {name: job(bench, things, [infopt, *words], runs) for name, (things, words) in jobs.items()}


def job(bench: Bench, things: int, command: list[str], count: int) -> Measured:
    """Runs of one job; that it did the work is known by its output: rows of a sweep, deployments of a gate."""
    runs = [bench.workshop.run(command) for _ in range(count)]
    for run in runs:
        gated = "gate" in command
        done = len(json.loads(run.output.out)["deployments"]) if gated else rows_of(bench.workshop.folder / command[-1])
        if done < things or run.output.status not in (0, 1, 4):
            sys.exit(
                f"{done} of {things} done, status {run.output.status}: {' '.join(command)}\n{run.output.err[-2000:]}"
            )
    return {"things": things, "status": runs[0].output.status, **summary(runs)}


def rows_of(path: Path) -> int:
    """Rows of a CSV file, without its heading."""
    with path.open("rb") as file:
        return sum(1 for _ in file) - 1


def targets(measured: Measured) -> Iterator[tuple[str, bool]]:
    """What is to be true, in words with its figure; times must hold by the clock and in processor time."""
    ratio = measured["start"]["plan_to_floor"]["wall"]
    yield f"plan {spread(ratio)} times the floor (at most {startup.TARGET_RATIO})", ratio[1] <= startup.TARGET_RATIO
    tools = measured["start"]["tools"]
    slow = {name: tool["ours_to_its_help"] for name, tool in tools.items() if tool["watched"] and name != "infopt"}
    worst = {name: max(one["wall"][1], one["cpu"][1]) for name, one in slow.items()}
    told = ", ".join(f"{name} {value:.2f}" for name, value in worst.items()) or "none was there to compare"
    yield (
        f"plan against --help of what imports rich or typer: {told} (below 1)",
        bool(worst) and max(worst.values()) < 1,
    )
    found_by = measured["search"]
    if "aiconfigurator" not in found_by:
        yield "aiconfigurator was not there to compare", False
        return
    theirs = found_by["aiconfigurator"]
    faster, larger = theirs["times_infopt"], found_by["infopt"]["scenarios"] / theirs["scenarios"]
    least = min(faster["wall"][1], faster["cpu"][1])
    yield f"search {least:.0f} times as fast as aiconfigurator (at least {SEARCH_RATIO:.0f})", least >= SEARCH_RATIO
    yield f"over {larger:.1f} times the scenarios (at least 1)", larger >= 1


def measure(asked: Asked, wheel: Path, count: int) -> Measured:
    record = yaml.safe_load((ROOT / asked["question"]["record"]).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="infopt-peers-") as name:
        folder = Path(name)
        infopt = startup.install(wheel, folder / "env")
        with Hub(folder, record["config"], asked["question"]["model"]) as hub:
            bench = Bench(asked, Workshop(folder, asked["files"], hub.environment), infopt)
            steps: dict[str, Callable[[Bench, int], Measured]] = {"start": start_ups, "search": searches, "work": work}
            done = {step: measuring(bench, count) for step, measuring in steps.items()}
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{platform.system()} {platform.machine()}, {processor()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "wheel": wheel.name,
        "rounds": count,
        "load": round(os.getloadavg()[0], 2),
        "missing": bench.missing,
        **done,
    }


def processor() -> str:
    from infopt.hardware.host import processor_name

    return processor_name()


def current_wheel() -> Path:
    """The newest wheel of dist/, whose modules are those of the checkout."""
    wheel = startup.newest_wheel()
    with zipfile.ZipFile(wheel) as packed:
        modules = [name for name in packed.namelist() if name.startswith("infopt/") and name.endswith(".py")]
        here = {name: ROOT / name.removeprefix("infopt/") for name in modules}
        old = [name for name, path in here.items() if not path.exists() or packed.read(name) != path.read_bytes()]
    if old:
        sys.exit(f"{wheel.name} is not of this checkout ({old[0]} differs): run `make wheel` first")
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(description="infopt beside other tools.")
    parser.add_argument("--install", action="store_true", help="install the tools and leave")
    parser.add_argument("--page", action="store_true", help="write the page of the kept figures and leave")
    parser.add_argument("--write", action="store_true", help="keep the figures and write the page")
    parser.add_argument("--rounds", type=int, choices=range(2, 100), metavar="N", default=9)
    parser.add_argument("--wheel", type=Path, default=None)
    options = parser.parse_args()
    asked = yaml.safe_load(ASKED.read_text(encoding="utf-8"))
    if options.install:
        install_all(asked)
        return
    if options.page:
        PAGE.write_text(page(asked, yaml.safe_load(MEASURED.read_text(encoding="utf-8"))), encoding="utf-8")
        return
    measured = measure(asked, (options.wheel or current_wheel()).resolve(), options.rounds)
    reached = list(targets(measured))
    measured["targets"] = [{"words": words, "holds": holds} for words, holds in reached]
    if options.write:
        MEASURED.write_text(yaml.safe_dump(measured, sort_keys=False, width=120), encoding="utf-8")
        PAGE.write_text(page(asked, measured), encoding="utf-8")
    print(page(asked, measured))
    conclude(
        Figure(
            name="peers",
            claim="a plan takes at most 1.35 times the floor of its libraries and less than the --help of every peer "
            "that imports rich or typer; a search is 10 times as fast as aiconfigurator's over as many scenarios",
            figure="; ".join(words for words, _ in reached),
            holds=all(holds for _, holds in reached),
            command="make peers",
            limits=["times are of one machine; what carries over is the ratio within a round", *missing(measured)],
        )
    )


def missing(measured: Measured) -> list[str]:
    return [f"{name} was not compared: {reason}" for name, reason in measured["missing"].items()]


if __name__ == "__main__":
    main()
