"""The MCP server, driven by the SDK's own client: in process, and as a program over its standard streams."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from infopt import plan
from infopt.mcp_tools import MOST_INPUT_CHARACTERS, answer, tools
from infopt.reports.schemas import schema_text

anyio = pytest.importorskip("anyio", reason="the extra mcp is not installed")
pytest.importorskip("mcp", reason="the extra mcp is not installed")

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = (ROOT / "docs/examples/vllm.yaml").read_text(encoding="utf-8")
MOST_S = 60.0
SMALL = {"model": "8b", "hw": "h100", "ctx": 8192}
# A call of each tool, and what its page says.
CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "plan": (SMALL, "FITS"),
    "choose_hardware": ({"model": "70b", "ctx": "32k", "rows": 2}, "h100-sxm-80gb:4"),
    "boundary": (SMALL | {"technique": "kv-quantization"}, "KV quantization"),
    "search": ({"model": "8b", "tpot": "20ms", "rate": "5/s", "isl": 1024, "osl": 256, "hw": "h200"}, "h200"),
    "simulate": ({"model": "8b", "hw": "h100", "isl": 500, "osl": 50, "rate": "4/s", "requests": 200}, "KEEPS UP"),
    "gate": ({"text": EXAMPLE}, "FAIL"),
    "list_models": ({"pattern": "qwen3"}, "Qwen3"),
    "show_model": ({"model": "8b", "ctx": "32k"}, "Llama-3.1-8B"),
    "list_hardware": ({"pattern": "h100"}, "h100"),
    "show_hardware": ({"hw": "h100"}, "H100"),
    "list_rules": ({"rule": "tight"}, "tight"),
}


def connected(act: Callable[[Any], Awaitable[Any]], root: Path | None = None, most_s: float = MOST_S) -> Any:
    """What `act` returns with a client of a server in this process."""
    from mcp import Client

    from infopt.mcp_server import server

    async def main() -> Any:
        async with Client(server(root, most_s)) as client:
            return await act(client)

    return anyio.run(main)


def over_stdio(act: Callable[[Any], Awaitable[Any]], *options: str) -> Any:
    """The same with a server that is a program of its own."""
    from mcp import Client, StdioServerParameters, stdio_client

    async def main() -> Any:
        program = StdioServerParameters(command=sys.executable, args=["-m", "infopt", "mcp", *options])
        async with Client(stdio_client(program), read_timeout_seconds=MOST_S) as client:
            return await act(client)

    return anyio.run(main)


def test_tools_are_listed_with_schemas_and_as_read_only() -> None:
    async def act(client: Any) -> Any:
        return (await client.list_tools()).tools

    found = connected(act)
    assert [tool.name for tool in found] == list(CALLS)
    for tool in found:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.open_world_hint is False
        assert all(one["description"] for one in tool.input_schema["properties"].values())
    offered = {name for tool in found for name in tool.input_schema["properties"]}
    assert offered.isdisjoint(
        {"online", "scheduler", "workers", "write_baseline", "json", "save", "rows_file", "policy"}
    )
    techniques = next(tool for tool in found if tool.name == "boundary").input_schema["properties"]["technique"]["enum"]
    assert "prefix-caching" in techniques


@pytest.mark.parametrize("name", CALLS)
def test_each_tool_answers_with_an_object_of_its_schema(name: str) -> None:
    given, says = CALLS[name]
    jsonschema.validate(given, tools()[name].input_schema, cls=jsonschema.Draft202012Validator)

    async def act(client: Any) -> Any:
        return await client.call_tool(name, given)

    found = connected(act)
    assert not found.is_error, found.content
    assert says in found.content[0].text
    schema = json.loads(schema_text(tools()[name].schema))
    jsonschema.validate(found.structured_content, schema, cls=jsonschema.Draft202012Validator)
    assert found.structured_content["schema"] == schema["$id"]


def test_a_plan_is_that_of_the_command_line_and_long_lists_are_cut() -> None:
    found = answer("plan", SMALL, None)
    assert found["data"] == plan(**SMALL).to_dict()
    cut = answer("choose_hardware", {"model": "70b", "ctx": "32k", "rows": 2}, None)
    whole = plan(model="70b", ctx="32k")
    assert cut["data"]["choices"] == whole.to_dict()["choices"][:2]
    assert len(whole.choices) > 5
    assert len(answer("choose_hardware", {"model": "70b", "ctx": "32k"}, None)["data"]["choices"]) == 5


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("plan", {"model": "8b"}, "hw is missing"),
    ("plan", SMALL | {"ctxx": 1}, "unknown argument 'ctxx'; nearest: ctx"),
    ("plan", SMALL | {"model": "lama-3.1-8b"}, "nearest: "),
    ("plan", SMALL | {"ctx": [1]}, "ctx=[1]"),
    ("plan", SMALL | {"ctx": None, "batch": {"a": 1}}, "batch={'a': 1}"),
    ("plan", SMALL | {"online": True}, "unknown argument 'online'"),
    ("plan", SMALL | {"hw": "auto"}, "looks at no device"),
    ("plan", SMALL | {"hw": "cpu:20GB/s"}, "looks at no device"),
    ("gate", {"text": EXAMPLE, "gpu": "auto"}, "looks at no device"),
    ("plan", SMALL | {"calibration": "auto"}, "looks for no records"),
    ("plan", SMALL | {"model": "/etc/passwd"}, "reads no files"),
    ("plan", SMALL | {"observed": "~/x.json"}, "reads no files"),
    ("gate", {"files": ["../x.yaml"]}, "reads no files"),
    ("gate", {}, "give text"),
    ("gate", {"text": "a: 1", "files": ["x"]}, "give text"),
    ("gate", {"files": ["-"]}, "a list of files"),
    ("gate", {"text": "x" * MOST_INPUT_CHARACTERS}, "at most 1,000,000 are read"),
    ("boundary", SMALL | {"technique": "magic"}, "unknown technique 'magic'"),
    ("search", {"model": "8b", "tpot": 0.02}, "a unit is needed"),
    ("search", {"model": "8b", "rows": 0}, "rows: 0"),
    ("search", {"model": "8b", "rows": True}, "rows: True"),
    ("list_models", {"pattern": "no such model"}, "unknown"),
    ("list_rules", {"rule": "nope"}, "nope"),
    ("list_rules", {"rule": -1}, "rule: int in place of a text"),
    ("list_models", {"pattern": []}, "pattern: list in place of a text"),
    ("list_hardware", {"pattern": 8}, "pattern: int in place of a text"),
    ("show_model", {"model": 1e308}, "model: float in place of a text"),
    ("show_hardware", {"hw": {"a": 1}}, "hw: dict in place of a text"),
    ("plan", SMALL | {"ctx": ["x" * 500_000]}, "ctx=['xxx"),
]


@pytest.mark.parametrize(("name", "given", "says"), WRONG)
def test_what_cannot_be_answered_is_said_in_one_line(name: str, given: dict[str, Any], says: str) -> None:
    found = answer(name, given, None)
    assert set(found) == {"error"}
    assert says in found["error"]
    assert "\n" not in found["error"]
    assert len(found["error"]) < 2_100


def test_errors_are_tool_errors_and_an_unknown_tool_is_one_of_the_protocol() -> None:
    from mcp import MCPError

    async def act(client: Any) -> Any:
        found = await client.call_tool("plan", SMALL | {"model": "nope"})
        with pytest.raises(MCPError, match="no tool 'shell'; there are plan, "):
            await client.call_tool("shell", {})
        return found

    found = connected(act)
    assert found.is_error
    assert found.structured_content is None
    assert "unknown model 'nope'" in found.content[0].text


def test_a_call_that_takes_too_long_is_stopped_and_the_next_is_answered() -> None:
    async def act(client: Any) -> Any:
        slow = await client.call_tool(
            "simulate", {"model": "8b", "hw": "h100", "isl": 2000, "osl": 2000, "rate": "9/s", "requests": 500_000}
        )
        return slow, await client.call_tool("list_models", {"pattern": "qwen3"})

    slow, after = connected(act, most_s=3.0)
    assert slow.is_error
    assert "not answered within 3 s, so it was stopped" in slow.content[0].text
    assert not after.is_error


def children(pid: int) -> set[int]:
    return {int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")
def test_a_cancelled_call_ends_its_process() -> None:
    async def act(client: Any) -> Any:
        before = children(os.getpid())
        with anyio.move_on_after(2.5) as scope:
            await client.call_tool(
                "simulate", {"model": "8b", "hw": "h100", "isl": 2000, "osl": 2000, "rate": "9/s", "requests": 500_000}
            )
        assert scope.cancelled_caught
        for _ in range(100):
            if children(os.getpid()) <= before:
                return True
            await anyio.sleep(0.05)
        return False

    assert connected(act)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root with a file, and ways out of it; beside it a secret."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.yaml").write_text(EXAMPLE.replace("name: chat", "name: secret"), encoding="utf-8")
    (tmp_path / "rooted").mkdir()
    (tmp_path / "rooted/secret.yaml").write_text(EXAMPLE, encoding="utf-8")
    (root / "chat.yaml").write_text(EXAMPLE, encoding="utf-8")
    (root / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (root / "folder").symlink_to(tmp_path)
    (root / "inside.yaml").symlink_to(root / "chat.yaml")
    return root


@pytest.mark.slow
def test_files_are_read_under_the_root_and_nowhere_else(tree: Path) -> None:
    outside = [
        *("link.yaml", "folder/secret.yaml", "folder", "../secret.yaml", str(tree.parent / "secret.yaml")),
        *(str(tree.parent / "rooted/secret.yaml"), "~/x.yaml", "/etc/hosts", "./folder/../../secret.yaml"),
        *("//etc/hosts", "/proc/self/environ", "/dev/stdin"),
    ]

    async def act(client: Any) -> Any:
        good = [
            await client.call_tool("gate", {"files": [one]})
            for one in ("chat.yaml", "inside.yaml", str(tree / "chat.yaml"))
        ]
        bad = {one: await client.call_tool("gate", {"files": [one]}) for one in outside}
        for name in ("model", "observed", "calibration"):
            for one in ("link.yaml", "/etc/passwd", "folder/secret.yaml"):
                bad[f"{name}={one}"] = await client.call_tool("plan", SMALL | {name: one})
        bad["trace"] = await client.call_tool(
            "simulate", {"model": "8b", "hw": "h100", "isl": 9, "osl": 9, "trace": "folder/secret.yaml"}
        )
        bad["draft"] = await client.call_tool("boundary", SMALL | {"technique": "speculative", "draft": "link.yaml"})
        return good, bad, await client.call_tool("gate", {"files": ["."]})

    good, bad, whole = over_stdio(act, "--root", str(tree))
    assert all(one.structured_content["verdict"] == "fail" for one in good)
    for one, found in bad.items():
        if not found.is_error:  # a gate names what it could not read
            assert found.structured_content["unreadable"], one
            assert not found.structured_content["deployments"], one
        assert "secret" not in json.dumps(found.structured_content or {}).replace("secret.yaml", ""), one
    assert {one["name"] for one in whole.structured_content["deployments"]} == {"chat"}


GUARDED = """
import os, socket, subprocess, sys
from pathlib import Path
from infopt.mcp_guard import confine
root = Path(sys.argv[1]).resolve()
confine(root)
acts = {
    "read": lambda: open("chat.yaml").close(),
    "list": lambda: os.listdir("."),
    "import": lambda: __import__("infopt.studies.search"),
    "read-out": lambda: open("/etc/hosts"),
    "read-link": lambda: open("link.yaml"),
    "read-bytes": lambda: open(b"/etc/hosts"),
    "os-open": lambda: os.open("/etc/hosts", os.O_RDONLY),
    "list-out": lambda: os.listdir(".."),
    "scan-out": lambda: list(os.scandir("folder")),
    "write": lambda: open("new.yaml", "w"),
    "append": lambda: open("chat.yaml", "a"),
    "update": lambda: open("chat.yaml", "r+"),
    "remove": lambda: os.remove("chat.yaml"),
    "rename": lambda: os.rename("chat.yaml", "x"),
    "mkdir": lambda: os.mkdir("x"),
    "symlink": lambda: os.symlink("/etc", "x"),
    "chdir": lambda: os.chdir("/"),
    "run": lambda: subprocess.run(["true"]),
    "system": lambda: os.system("true"),
    "fork": lambda: os.fork() or os._exit(0),
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "connect": lambda: socket.create_connection(("127.0.0.1", 9)),
    "resolve": lambda: socket.getaddrinfo("localhost", 80),
    "bind": lambda: socket.socket().bind(("127.0.0.1", 0)),
    "unix": lambda: socket.socket(socket.AF_UNIX).connect("/tmp/none"),
}
for name, act in acts.items():
    try:
        act()
        print(name, "done")
    except PermissionError as error:
        print(name, "refused")
"""


def test_the_process_of_a_call_reads_its_root_and_does_nothing_else(tree: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", GUARDED, tree], capture_output=True, text=True, check=True)
    found = dict(line.split() for line in ran.stdout.splitlines())
    done = {name for name, what in found.items() if what == "done"}
    assert done == {"read", "list", "import"}
    assert len(found) > 20
    assert (tree / "chat.yaml").read_text(encoding="utf-8") == EXAMPLE
    assert not (tree / "new.yaml").exists()


@pytest.mark.slow
def test_over_standard_streams_each_tool_answers() -> None:
    async def act(client: Any) -> Any:
        return {name: await client.call_tool(name, given) for name, (given, _) in CALLS.items()}

    for name, found in over_stdio(act).items():
        assert not found.is_error, (name, found.content)
        assert CALLS[name][1] in found.content[0].text


class Raw:
    """The program with its streams in our hands."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "infopt", "mcp", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # What waits for a line that never comes finds the end of the stream.
        self.clock = threading.Timer(MOST_S, self.process.kill)
        self.clock.start()

    def send(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def ask(self, number: int, method: str, **parameters: Any) -> dict[str, Any]:
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}))
        return self.read()

    def call(self, number: int, name: str, arguments: dict[str, Any]) -> None:
        """A call whose answer is not waited for."""
        called = {"name": name, "arguments": arguments}
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": called}))

    def read(self) -> dict[str, Any]:
        assert self.process.stdout
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def initialize(self) -> dict[str, Any]:
        client = {"name": "test", "version": "0"}
        found = self.ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return found

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=30)
        self.clock.cancel()
        return self.process.returncode, out, err


@pytest.mark.slow
def test_nothing_but_the_protocol_is_printed_and_the_end_of_input_is_the_end() -> None:
    raw = Raw()
    assert raw.initialize()["result"]["serverInfo"]["name"] == "infopt"
    assert len(raw.ask(2, "tools/list")["result"]["tools"]) == len(CALLS)
    called = raw.ask(3, "tools/call", name="plan", arguments=SMALL)["result"]
    assert called["structuredContent"]["memory"]["fits"] is True
    wrong = raw.ask(4, "tools/call", name="plan", arguments={"model": "nope", "hw": "h100"})["result"]
    assert wrong["isError"] is True
    assert "error" in raw.ask(5, "tools/call", name="shell", arguments={})
    assert "error" in raw.ask(6, "no/such/method")
    assert "error" in raw.ask(7, "tools/call", name="plan", arguments="text")
    raw.send("this is no message")
    raw.send("")
    raw.send('{"jsonrpc": "2.0"}')
    assert raw.ask(8, "ping")["result"] == {}
    status, out, err = raw.end()
    assert status == 0, err
    assert "Traceback" not in err
    for line in out.splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"


@pytest.mark.slow
def test_the_end_of_input_ends_a_call_that_is_under_way() -> None:
    raw = Raw()
    raw.initialize()
    slow = {"model": "8b", "hw": "h100", "isl": 2000, "osl": 2000, "rate": "9/s", "requests": 500_000}
    raw.send(
        json.dumps(
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "simulate", "arguments": slow}}
        )
    )
    time.sleep(1.5)
    started = time.monotonic()
    status, _, err = raw.end()
    assert status == 0, err
    assert time.monotonic() - started < 10
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it(number: signal.Signals) -> None:
    raw = Raw()
    raw.initialize()
    slow = {"model": "8b", "hw": "h100", "isl": 2000, "osl": 2000, "rate": "9/s", "requests": 500_000}
    raw.call(2, "simulate", slow)
    time.sleep(1.5)
    under_way = children(raw.process.pid)
    raw.process.send_signal(number)
    raw.process.wait(timeout=20)
    status, _, err = raw.end()
    assert status == 130
    assert "Traceback" not in err
    assert under_way
    assert not [pid for pid in under_way if Path(f"/proc/{pid}/cmdline").exists()]


def run_mcp(*options: str, code: str = "") -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", f"{code}\nimport sys; sys.argv = ['infopt', 'mcp', *sys.argv[1:]]\n"
               "from infopt.__main__ import main; main()", *options]  # fmt: skip
    return subprocess.run(program, capture_output=True, text=True, input="", check=False, timeout=60)


def test_a_root_that_is_no_folder_and_no_time_are_refused(tmp_path: Path) -> None:
    for options in (("--root", str(tmp_path / "none")), ("--root", __file__), ("--timeout", "0s"), ("--timeout", "9")):
        ran = run_mcp(*options)
        assert ran.returncode == 2
        assert re.fullmatch(r"infopt: [^\n]+\n", ran.stderr)
        assert ran.stdout == ""


def test_without_the_extra_it_says_how_to_install_it() -> None:
    ran = run_mcp(code="import sys; sys.modules['mcp'] = None")
    assert ran.returncode == 2
    assert ran.stderr == "infopt: infopt mcp needs an extra that is not installed: pip install 'infopt[mcp]'\n"
