"""Nothing is connected to, and no name is looked up, unless --online or an address is given.

Every command runs where no connection can be made (sealed/sitecustomize.py), with tokens and proxies in its
environment: it works, or says why not.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import reader
from sealed_runs import MARK, environment, infopt, leaked, run_sealed, tried
from thorough import thorough

from infopt.cli import MODULES

LOAD = "--model 8b --hw h100 --isl 1000 --osl 200"
# What is typed, and the statuses it may end with: the judgements of the command, never 2 (it could not work).
COMMANDS: dict[str, tuple[int, ...]] = {
    "--version": (0,),
    "--help": (0,),
    "plan --model 70b --ctx 32k": (0,),
    f"plan {LOAD} --explain": (0,),
    f"plan {LOAD} --json": (0,),
    "plan --model 8b --hw auto --ctx 8k": (1, 2, 4),  # what the machine has, or that it has none
    "plan --model ./config.json --hw l4 --ctx 8k": (0,),
    f"plan {LOAD} --batch 8 --curves --plot plan.svg --html plan.html --tpot 20ms": (0,),
    f"plan {LOAD} --ladder": (0,),
    f"plan {LOAD} --calibration auto": (2,),  # none here: said
    f"plan {LOAD} --monthly 5/s --price h100=2.49": (0,),
    "plan --model 8b --hw l40s --observed observed.json": (0, 1),
    f"boundary {LOAD} --batch 32": (0,),
    f"boundary kv {LOAD} --batch 32 --vary batch=1:64": (0,),
    f"boundary kv {LOAD} --batch 32 --html boundary.html": (0,),
    "boundary prefix --model 70b --hw h100:8 --batch 16 --trace mooncake": (0,),
    f"checklist {LOAD} --batch 32 --tpot 40ms --html checklist.html": (0, 1, 4),
    "checklist --deployment k8s/chat.yaml --isl 2k --osl 300 --batch 32": (0, 1, 4),
    "completion bash": (0,),
    "completion zsh": (0,),
    "completion fish": (0,),
    "gate k8s deployment.yaml": (0, 1, 4),
    "gate docs/examples/vllm.yaml --format sarif --html gate.html": (1,),
    "hardware list": (0,),
    "hardware show h100": (0,),
    "models list": (0,),
    "models show 70b": (0,),
    "models show ./config.json": (0,),
    "models import ./config.json --id me/mine": (0,),
    f"experiment ladder {LOAD} --rate 20/s --ttft 200ms --tpot 20ms --requests 50 --seeds 3": (0,),
    "experiment matrix --model 8b --hw h100 --rate 8/s --requests 50 --cell short-short": (0, 1),
    "experiment compare baseline.yaml fp8.yaml": (0, 1, 4),
    "experiment save --observed bench.json --model 8b --hw h100 --max-num-seqs 256 --out saved.yaml": (0,),
    f"export prometheus {LOAD} --batch 32": (0,),
    f"export grafana {LOAD} --batch 32": (0,),
    "observe after.txt --since before.txt --apart 5m --model 8b --hw h100 --advise": (0, 1, 4),
    "observe bench.json --model 8b --hw h100": (0, 1, 4),
    "observe --log server.log --model 8b --hw h100": (0,),
    "probe compare monday.yaml friday.yaml": (0,),
    "probe bandwidth --quick --device cpu --threads 1": (0, 4),
    "reproduce": (0, 1),
    "rules": (0,),
    "rules does-not-fit": (0,),
    "schema plan": (0,),
    f"search {LOAD.replace('--hw h100', '--hw h100,h200')} --ttft 500ms --tpot 40ms --rate 5/s --html search.html": (
        0,
    ),
    f"search {LOAD} --ttft 500ms --tpot 40ms --rate 5/s --emit k8s --out deployment2.yaml": (0,),
    f"simulate {LOAD} --rate 8/s --requests 100 --html simulate.html --curves": (0,),
    f"simulate {LOAD} --rate 8/s --requests 50 --vary chunk=512,2k --workers 2": (0,),
    "simulate --model 8b --hw h100 --trace azure-conv --limit 100": (0, 1),
    "sweep --model 70b --hw h100,h200 --tp 4,8 --batch 1:8 --ctx 8k --out grid.csv": (0,),
    "sweep --cases cases.csv --json": (0,),
    "validate": (0, 1),
    "validate --truth mine.csv --predictions rows.csv": (0, 1),
}
# What would need a network and is not asked to use one: one line that says how.
ABSENT = {
    "plan --model nobody/nothing-9b --hw h100 --ctx 8k": "--online",
    "models show nobody/nothing-9b": "--online",
    "boundary --model nobody/nothing-9b --hw h100 --ctx 8k": "--online",
    "search --model nobody/nothing-9b --tpot 20ms --rate 5/s --isl 1k --osl 256": "--online",
}
PYTHON = """
import infopt
infopt.plan(model="8b", hw="h100", ctx="8k").to_dict()
infopt.boundary(model="8b", hw="h100", ctx="8k")
infopt.search(model="8b", tpot="20ms", rate="5/s", isl=1024, osl=256, hw="h200")
infopt.simulate(model="8b", hw="h100", isl=500, osl=50, rate="4/s", requests=100)
print(infopt.gate_files("docs/examples/vllm.yaml").to_dict()["verdict"])
"""
COMPLETED = "from infopt.cli_completion import proposed; print(len(list(proposed('infopt plan --model 70'))))"


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reader.furnished(tmp_path_factory.mktemp("reader"))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home folder in which nothing was tried, and from which nothing leaked."""
    yield tmp_path
    assert tried(tmp_path) == ""
    assert leaked(tmp_path) == []


@pytest.fixture
def folder(furnished: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the reader's folder, in which no secret is left."""
    copy = tmp_path_factory.mktemp("work") / "here"
    shutil.copytree(furnished, copy)
    yield copy
    assert leaked(copy) == []


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=thorough) if line.startswith("probe bandwidth") else line for line in COMMANDS]
)
def test_a_command_works_without_a_network(line: str, folder: Path, home: Path) -> None:
    ran = run_sealed(infopt(line), folder, home)
    assert ran.returncode in COMMANDS[line], ran.stderr
    assert "Traceback" not in ran.stderr
    assert MARK not in ran.stdout + ran.stderr


@pytest.mark.parametrize("line", ABSENT)
def test_what_a_network_would_give_is_said_and_not_fetched(line: str, folder: Path, home: Path) -> None:
    ran = run_sealed(infopt(line), folder, home)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1
    assert ABSENT[line] in ran.stderr


def test_every_command_is_among_those_that_ran() -> None:
    named = {line.split()[0] for line in COMMANDS}
    assert named >= {"plan", "schema", *MODULES} - {"mcp"}  # which has a test of its own


def test_python_works_without_a_network(folder: Path, home: Path) -> None:
    ran = run_sealed([sys.executable, "-c", PYTHON], folder, home)
    assert ran.stdout == "fail\n", ran.stderr


def test_completion_proposes_without_a_network(folder: Path, home: Path) -> None:
    ran = run_sealed([sys.executable, "-c", COMPLETED], folder, home)
    assert int(ran.stdout) > 0, ran.stderr


def test_the_server_for_assistants_answers_without_a_network(folder: Path, home: Path) -> None:
    anyio = pytest.importorskip("anyio", reason="the extra mcp is not installed")
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    from mcp import Client, StdioServerParameters, stdio_client

    async def main() -> Any:
        command = [*infopt("mcp"), "--root", str(folder)]
        program = StdioServerParameters(command=command[0], args=command[1:], env=environment(home))
        async with Client(stdio_client(program), read_timeout_seconds=60) as client:
            planned = await client.call_tool("plan", {"model": "8b", "hw": "h100", "ctx": 8192})
            gated = await client.call_tool("gate", {"files": ["docs/examples/vllm.yaml"]})
            return planned, gated

    for answer in anyio.run(main):
        assert not answer.is_error
        assert MARK not in answer.content[0].text


# That the seal holds: or every test above would pass for nothing.


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import socket; socket.getaddrinfo('huggingface.co', 443)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')",
        "import http.client; http.client.HTTPConnection('127.0.0.1', 9).request('GET', '/')",
    ],
)
def test_a_connection_that_is_tried_is_seen_and_fails(code: str, tmp_path: Path) -> None:
    ran = run_sealed([sys.executable, "-c", code], tmp_path, tmp_path)
    assert ran.returncode != 0
    assert tried(tmp_path) or ran.returncode == -31  # SIGSYS: the kernel was first


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process at its system call")
def test_code_that_is_not_pythons_gets_no_socket_either(tmp_path: Path) -> None:
    native = "import ctypes; print(ctypes.CDLL(None).socket(2, 1, 0))"
    ran = run_sealed([sys.executable, "-c", native], tmp_path, tmp_path)
    assert ran.returncode == -31
    child = f"import subprocess, sys; print(subprocess.run([sys.executable, '-S', '-c', {native!r}]).returncode)"
    assert run_sealed([sys.executable, "-c", child], tmp_path, tmp_path).stdout == "-31\n"


def test_online_is_what_it_takes(folder: Path, tmp_path: Path) -> None:
    ran = run_sealed(infopt("plan --model nobody/nothing-9b --hw h100 --ctx 8k --online"), folder, tmp_path)
    assert tried(tmp_path) or ran.returncode == -31
    assert MARK not in ran.stdout + ran.stderr
