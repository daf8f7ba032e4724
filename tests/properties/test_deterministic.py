"""The same command says the same, byte for byte: whatever the hash seed, the time zone, the language, the folder.

Nothing of the machine or of the moment is in an answer: no clock, no absolute path, no name of a host.
"""

import datetime
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import reader
from hypothesis import given
from properties.asking import ask, typed, words
from properties.worlds import examples

ROOT = Path(reader.__file__).resolve().parent.parent
LOAD = "--model 8b --hw h100 --isl 1000 --osl 100"
TRAFFIC = f"simulate {LOAD} --rate 4/s --requests 60"
COMMANDS = (
    f"plan {LOAD}",
    f"plan {LOAD} --explain --json",
    f"plan {LOAD} --batch 8 --ladder --format md",
    f"plan {LOAD} --compare --batch=2 --batch=4 --json",
    "plan --model gpt-oss-120b --ctx 8k --format csv",
    "plan --model mixtral-8x7b --hw rtx-4090 --json",
    f"plan {LOAD} --html page.html --json",
    f"boundary {LOAD} --json",
    f"boundary speculative {LOAD} --curves",
    "search --model 8b --tpot 20ms --isl 1k --osl 64 --rate 2/s --hw h100,h200 --json",
    f"{TRAFFIC} --json --rows rows.csv",
    f"{TRAFFIC} --seed 3 --save run.yaml",
    f"{TRAFFIC} --vary chunk=512,1k --workers 1 --json",
    "sweep --model 8b,gpt-oss-20b --hw h100,l4 --tp 1,2 --ctx 8k --json",
    "gate docs --format sarif --gpu h100",
    "gate docs --json",
    "gate docs --format junit",
    f"checklist {LOAD} --json",
    "rules --json",
    "schema plan",
    "models list --json",
    "models show deepseek-v3 --json",
    "hardware list",
    "reproduce --json",
    "validate --json",
    "completion bash",
    f"export prometheus {LOAD}",
    "experiment matrix --model 8b --hw h100 --rate 4/s --cell short-short --requests 20 --json",
    "plan --model nosuch --json",
)
# Two machines as different as one machine can be.
HERE = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LANG": "C", "LC_ALL": "C", "COLUMNS": "80", "PYTHONUTF8": "1"}
THERE = {
    "PYTHONHASHSEED": "4711",
    "TZ": "Pacific/Kiritimati",
    "LANG": "tr_TR.UTF-8",
    "LC_ALL": "tr_TR.UTF-8",
    "COLUMNS": "80",
    "LINES": "7",
    "PYTHONUTF8": "1",
    "PYTHONOPTIMIZE": "1",
}
SCRIPT = """\
import os, shlex, sys
from infopt.cli import run
for number, line in enumerate(sys.stdin.read().splitlines()):
    sys.argv = ["infopt", *shlex.split(line)]
    sys.stdout = open(f"out.{number}", "w", encoding="utf-8")
    sys.stderr = open(f"error.{number}", "w", encoding="utf-8")
    status = run(sys.argv[1:])
    print(f"status {status}")
    sys.stdout.close()
    sys.stderr.close()
"""


def answers(folder: Path, environment: dict[str, str], order: slice) -> dict[str, bytes]:
    """What every command of a process leaves: what it printed, its status and the files it wrote, by name."""
    shutil.copytree(ROOT / "docs" / "examples", folder / "docs")
    lines = "\n".join(COMMANDS[order])
    own = {"PATH": os.environ["PATH"], "HOME": str(folder), **environment}
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=folder, env=own, input=lines, text=True, check=True)
    count, forward = len(COMMANDS), range(len(COMMANDS))[order]
    found = {f"{COMMANDS[forward[number]]} ({kind})": (folder / f"{kind}.{number}").read_bytes()
             for number in range(count) for kind in ("out", "error")}  # fmt: skip
    return found | {name: (folder / name).read_bytes() for name in ("page.html", "rows.csv", "run.yaml")}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The commands in one process, and in another backwards: what was asked before does not count either."""
    one, other = (tmp_path_factory.mktemp(name) for name in ("here", "a longer name of a folder, with ü"))
    return answers(one, HERE, slice(None)), answers(other, THERE, slice(None, None, -1))


@pytest.mark.xdist_group("deterministic")  # the processes are run once for both
def test_every_command_says_the_same_elsewhere_and_later(both: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    one, other = both
    assert one.keys() == other.keys()
    assert [name for name, text in one.items() if other[name] != text] == []
    assert all(one[f"{command} (out)"].strip() for command in COMMANDS)


@pytest.mark.xdist_group("deterministic")
def test_no_answer_names_the_machine_or_the_moment(
    both: tuple[dict[str, bytes], dict[str, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    now = datetime.datetime.now(tz=datetime.UTC)
    folders = (str(tmp_path_factory.getbasetemp()), str(ROOT), str(Path.home()), sys.prefix)
    moment = rf"{now:%Y-%m-%d}[T ]"
    pattern = re.compile("|".join([*map(re.escape, folders), moment]).encode())
    # A page holds a library whose names are as short as those of machines.
    host = re.compile(rf"\b{re.escape(socket.gethostname())}\b".encode())
    found = {
        (name, match[0])
        for text in both
        for name, content in text.items()
        for one in (pattern, *([host] if name != "page.html" else []))
        for match in one.finditer(content)
    }
    assert not found


@examples(0.6)
@given(typed())
def test_any_plan_is_the_same_asked_again(options: dict[str, object]) -> None:
    for form in ("json", "table", "md", "csv"):
        first, second = (ask("plan", *words(options), "--format", form) for _ in range(2))
        assert first == second
