"""Whatever takes output or life from a command: the right status, one line at most, nothing half written or left.

    python trust/endings.py

Every command that prints (tests/endings.py) with its reader gone, its disk full and its streams closed; every command
that takes long, with SIGINT, SIGTERM and SIGHUP in its midst; and, where this is root, files on a disk that fills up
and in a folder that is mounted read-only. `tests/test_endings.py` tries the same and more, without root.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from figure import ROOT, Figure, conclude

sys.path.insert(0, str(ROOT / "tests"))
from endings import FILES, LONG, PRINTING, Ended, broken_pipe, ran, signalled

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM, signal.SIGHUP: -signal.SIGHUP}
OLD = "old"
# What is kept of them is kept by these commands' own rule: finished parts are written, and the status is 130.
PARTS = {"probe": ("probe", "bandwidth", "--device", "cpu", "--quick", "--out", f"{FILES}/record.yaml")}
WRITING = {
    "sweep --out": ("sweep", "--model", "8b", "--hw", "h100", "--batch", "1:9000", "--out", f"{FILES}/old.txt"),
    "plan --html": ("plan", "--model", "8b", "--hw", "h100", "--ctx", "8k", "--html", f"{FILES}/old.txt"),
    "gate --write-baseline": ("gate", *PRINTING["gate"][1][1:], "--write-baseline", f"{FILES}/old.txt"),
}


def outputs() -> Iterator[tuple[str, str, str]]:
    """Kind, command, and what is wrong: outputs that are taken away."""
    for name, (status, words) in PRINTING.items():
        pipe = broken_pipe()
        yield "reader gone", name, unlike(ran(words, out=pipe), status)
        yield "readers gone", name, unlike(ran(words, out=pipe, err=pipe), status)
        os.close(pipe)
        with open("/dev/full", "w", encoding="utf-8") as full:
            # What is refused prints nothing on standard output, but with --json.
            yield "disk full", name, unlike(ran(words, out=full.fileno()), 2)
            yield "disks full", name, unlike(ran(words, out=full.fileno(), err=full.fileno()), 2)
        closed = ran(words, before=lambda: [os.close(number) for number in (0, 1, 2)])
        yield "streams closed", name, unlike(closed, status)


def signals() -> Iterator[tuple[str, str, str]]:
    for name, words in LONG.items():
        for number, status in SIGNALS.items():
            with folder() as files:
                ended = signalled(words, files, number)
                yield number.name, name, unlike(ended, status) or changed(files)
    for name, words in PARTS.items():
        for number in SIGNALS:
            with folder() as files:
                ended = signalled(words, files, number, after_s=3.0)
                accepted = {130, SIGNALS[number]}  # the second where it came before anything was measured
                wrong = "" if ended.status in accepted else f"status {ended.status}"
                yield number.name, name, wrong or ("traceback" if "Traceback" in ended.err else "")


def places() -> Iterator[tuple[str, str, str]]:
    """Disks that fill up, and folders that take nothing: only root can mount them."""
    for name, words in WRITING.items():
        for kind in ("tmpfs of 4 KB", "read-only"):
            with folder() as files:
                # One page, which the old file takes.
                mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(files)]
                subprocess.run(mount, check=True)
                try:
                    (files / "old.txt").write_text(OLD, encoding="utf-8")
                    if kind == "read-only":
                        subprocess.run(["mount", "-o", "remount,ro", str(files)], check=True)
                    ended = ran([word.replace(FILES, str(files)) for word in words])
                    yield kind, name, unlike(ended, 2, lines=1) or changed(files)
                finally:
                    subprocess.run(["umount", str(files)], check=True)


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "old.txt").write_text(OLD, encoding="utf-8")
        yield Path(name)


def unlike(ended: Ended, status: int, lines: int | None = None) -> str:
    """What is not as it must be: the status, more than a line, a traceback, a process left; nothing where all is."""
    if ended.status != status:
        return f"status {ended.status}, not {status}: {ended.err[-200:]}"
    if "Traceback" in ended.err or ended.lines > 1 or (lines is not None and ended.lines != lines):
        return f"says {ended.err[-200:]!r}"
    return f"leaves processes {ended.left}" if ended.left else ""


def changed(files: Path) -> str:
    names = sorted(path.name for path in files.iterdir())
    text = (files / "old.txt").read_text(encoding="utf-8")
    return "" if (names, text) == (["old.txt"], OLD) else f"leaves {names}"


def main() -> None:
    root = os.geteuid() == 0
    tried: Counter[str] = Counter()
    wrong: list[str] = []
    for found in (outputs(), signals(), places() if root else iter(())):
        for kind, name, trouble in found:
            tried[kind] += 1
            if trouble:
                wrong.append(f"{kind}, {name}: {trouble}")
                print(wrong[-1], flush=True)
    limits = [*wrong, "a signal comes once, after 0.9 s of work; SIGKILL may leave a temporary file beside the other"]
    if not root:
        limits.append("not root: no disk that fills up and no read-only folder were mounted")
    conclude(
        Figure(
            name="endings",
            claim="a closed pipe, a full disk, closed streams, SIGINT, SIGTERM and SIGHUP end every command with the "
            "right status, at most one line, no traceback, no half-written file and no process left",
            figure=f"{tried.total() - len(wrong)} of {tried.total()} endings as they must be",
            holds=not wrong,
            command="make endings",
            limits=limits,
            table=[["ending", "commands"], *([kind, str(count)] for kind, count in tried.items())],
        )
    )


if __name__ == "__main__":
    main()
