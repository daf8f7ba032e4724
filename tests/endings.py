"""Commands whose output or life is taken from them: run as programs, looked at afterwards."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = str(ROOT / "docs" / "examples" / "vllm.yaml")
PROGRAM = (sys.executable, "-m", "infopt")
MOST_S = 60.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FILES = "{files}"  # in the words of a command: a folder for what it writes

# Commands that print something, and the status they have.
PRINTING: dict[str, tuple[int, tuple[str, ...]]] = {
    "help": (0, ("--help",)),
    "help of a command": (0, ("plan", "--help")),
    "no command": (2, ()),
    "plan": (0, ("plan", "--model", "8b", "--hw", "h100", "--ctx", "8k", "--explain")),
    "plan that does not fit": (1, ("plan", "--model", "70b", "--hw", "l4", "--ctx", "8k", "--json")),
    "choice": (0, ("plan", "--model", "8b", "--ctx", "8k")),
    "boundary": (0, ("boundary", "--model", "8b", "--hw", "h100", "--isl", "2k", "--osl", "300")),
    "sweep": (0, ("sweep", "--model", "8b", "--hw", "h100", "--batch", "1:9000")),
    "sweep --json": (0, ("sweep", "--model", "8b", "--hw", "h100", "--batch", "1:3000", "--json")),
    "gate": (1, ("gate", EXAMPLE, "--gpu", "l4")),
    "gate --format sarif": (1, ("gate", EXAMPLE, "--gpu", "l4", "--format", "sarif")),
    "schema": (0, ("schema", "plan")),
    "rules": (0, ("rules",)),
    "models": (0, ("models", "list")),
    "hardware": (0, ("hardware", "list", "--json")),
    "completion": (0, ("completion", "bash")),
    "wrong usage": (2, ("plan", "--nope")),
    "wrong usage with --json": (2, ("plan", "--model", "nope", "--json")),
}
# Commands that take long, and write files where they are let.
LONG: dict[str, tuple[str, ...]] = {
    "simulate": (
        *("simulate", "--model", "8b", "--hw", "h100", "--isl", "1k", "--osl", "100", "--rate", "8/s"),
        *("--requests", "1m", "--rows", f"{FILES}/old.txt", "--save", f"{FILES}/run.json", "--html", f"{FILES}/a.html"),
    ),
    "simulate in processes": (
        *("simulate", "--model", "8b", "--hw", "h100", "--isl", "1k", "--osl", "100", "--rate", "8/s"),
        *("--requests", "1m", "--vary", "chunk=512,1k", "--workers", "2", "--html", f"{FILES}/old.txt"),
    ),
    "search": (
        *("search", "--model", "8b", "--hw", "h100,h200,l40s,a100", "--isl", "1k", "--osl", "100", "--rate", "30/s"),
        *("--ttft", "1s", "--tpot", "50ms", "--simulate", "--html", f"{FILES}/old.txt"),
    ),
    "gate": ("gate", *[EXAMPLE] * 900, "--write-baseline", f"{FILES}/old.txt", "--html", f"{FILES}/a.html"),
}


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str
    left: tuple[int, ...] = ()  # processes that it started and that live on

    @property
    def lines(self) -> int:
        return self.err.count("\n")


def program(
    words: Sequence[str],
    out: int | None = subprocess.PIPE,
    err: int | None = subprocess.PIPE,
    env: Mapping[str, str | None] | None = None,
    before: Callable[[], object] | None = None,
    cwd: Path | None = None,
) -> "subprocess.Popen[str]":
    """A command started; `env` changes the environment (None takes a name away), `before` is done in the process."""
    changed = {name: value for name, value in (os.environ | (env or {})).items() if value is not None}
    return subprocess.Popen(
        [*PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True, env=changed, cwd=cwd,
        preexec_fn=before,
    )  # fmt: skip


def ran(words: Sequence[str], **options: object) -> Ended:
    """The same, run to its end."""
    with program(words, **options) as process:  # type: ignore[arg-type]
        out, err = process.communicate(timeout=MOST_S)
    return Ended(process.returncode, out or "", err or "")


def signalled(words: Sequence[str], files: Path, number: signal.Signals, after_s: float = 0.9) -> Ended:
    """A command that gets a signal once it has worked so long, in seconds of the processor."""
    with program([word.replace(FILES, str(files)) for word in words], before=_interruptible) as process:
        start = time.monotonic()
        while worked_s(process.pid) < after_s:
            if process.poll() is not None or time.monotonic() - start > MOST_S:
                raise AssertionError(f"{words[0]} did not take {after_s} s: {process.communicate()}")
            time.sleep(0.02)
        started = children(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=MOST_S)
    return Ended(process.returncode, out, err, living(started))


def _interruptible() -> None:
    """Whoever starts the tests in the background has Ctrl-C ignored, and so would the command."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def worked_s(pid: int) -> float:
    """Time of the processor that a process and those it started took."""
    total = 0.0
    for one in [pid, *children(pid)]:
        with suppress(OSError):  # it has ended meanwhile
            fields = Path(f"/proc/{one}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return total


def children(pid: int) -> list[int]:
    """Processes that a process started, and those that they did."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:  # it has ended
        return []
    own = [int(child) for child in text.split()]
    return own + [below for child in own for below in children(child)]


def living(pids: Sequence[int], within_s: float = 5.0) -> tuple[int, ...]:
    """Those that are still there after a while."""
    end = time.monotonic() + within_s
    while (left := tuple(pid for pid in pids if Path(f"/proc/{pid}").exists())) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def broken_pipe() -> int:
    """A pipe whose reader has left."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing
