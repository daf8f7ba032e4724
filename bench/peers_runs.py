"""Environments of the tools that bench/peers.py compares, and single runs of their programs, metered."""

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers_answers import Output

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LOCKS = HERE / "peers_locked"
QUIET = ("--quiet", "--quiet", "--disable-pip-version-check", "--no-input")
WATCHED = ("rich", "typer")


@dataclass(frozen=True)
class Run:
    """What one command took and printed."""

    wall_s: float
    cpu_s: float
    peak_bytes: float
    output: Output


def pip(environment: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(environment / "bin" / "python"), "-m", "pip", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def install(folder: Path, name: str, version: str) -> str | None:
    """The tool in an environment of its own below `folder`; the reason where it cannot be installed.

    What it needs is pinned in LOCKS/NAME.txt; where that file does not exist, it is written with what pip chose.
    """
    environment, lock = folder / name, LOCKS / f"{name}.txt"
    mark = environment / "installed.txt"
    wanted = f"{name}=={version}\n{lock.read_text(encoding='utf-8') if lock.exists() else ''}"
    if mark.exists() and lock.exists() and mark.read_text(encoding="utf-8") == wanted:
        return None
    venv.create(environment, with_pip=True, clear=True)
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    constraints += ["--constraint", str(lock)] if lock.exists() else []
    done = pip(environment, "install", *QUIET, *constraints, f"{name}=={version}")
    if done.returncode != 0:
        return (done.stderr.strip() or done.stdout.strip()).splitlines()[-1]
    if not lock.exists():
        lock.parent.mkdir(exist_ok=True)
        lock.write_text(pip(environment, "freeze").stdout, encoding="utf-8")
        wanted += lock.read_text(encoding="utf-8")
    mark.write_text(wanted, encoding="utf-8")
    return None


def filled(command: list[Any], **values: object) -> list[str]:
    """`command` with its {places} filled; words with braces of their own stay as they are."""
    words = [str(word) for word in command]
    for name, value in values.items():
        words = [word.replace(f"{{{name}}}", str(value)) for word in words]
    return words


class Workshop:
    """A folder for one benchmark: files that tools read, their home, and the environment that they see."""

    def __init__(self, folder: Path, files: dict[str, str], environment: dict[str, str]) -> None:
        self.folder = folder
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "home").mkdir()
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "TMPDIR")}
        settings = {"HOME": str(folder / "home"), "LANG": "C.UTF-8", "NO_COLOR": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        self.environment = {**kept, **settings, **environment}

    def run(self, command: list[str]) -> Run:
        """One metered run of `command`, whose first word is a path."""
        out, err, result = self.folder / "out", self.folder / "err", self.folder / "result"
        meter = [sys.executable, "-I", "-S", str(HERE / "peers_meter.py"), str(result)]
        with out.open("wb") as out_file, err.open("wb") as err_file:
            subprocess.run(
                [*meter, *command],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out_file,
                stderr=err_file,
                check=True,
            )
        wall_s, cpu_s, peak_bytes, status = map(float, result.read_text(encoding="utf-8").split())
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in (out, err))
        return Run(wall_s, cpu_s, peak_bytes, Output(*texts, int(status)))

    def modules(self, command: list[str]) -> list[str] | None:
        """Modules that a Python program imports, as `-X importtime` lists them; None where it is no Python program."""
        program = Path(command[0])
        python = program.with_name("python")
        if program.name != "python" and program.read_bytes()[:2] != b"#!":
            return None
        words = command[1:] if program.name == "python" else command
        traced = self.run([str(python), "-X", "importtime", *words])
        lines = [line for line in traced.output.err.splitlines() if line.startswith("import time:")]
        return [line.rsplit("|", 1)[1].strip() for line in lines[1:]]  # less the heading


def watched(modules: list[str] | None) -> list[str]:
    """Which of WATCHED are among them."""
    packages = {name.split(".")[0] for name in modules or ()}
    return [name for name in WATCHED if name in packages]
