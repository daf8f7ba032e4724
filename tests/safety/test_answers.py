"""What servers can do to those who ask them: every way in (observe, probe draft --endpoint, --online) ends in time.

Each asks with the same limits made small; the limits that hold in use are compared at the end.
"""

import gzip
import itertools
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from metric_servers import Replay, connected, serving

from infopt import exchange
from infopt.cli import run
from infopt.errors import InfoptError
from infopt.exchange import MOST_REDIRECTS
from infopt.observing.endpoints import find, server_at
from infopt.probes import server as http_server
from infopt.probes.server import Server
from infopt.profiles import hub
from infopt.profiles.hub import Hub

LIMIT_S = 0.5
SLACK_S = 3.0  # of a busy machine
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
Ask = Callable[[str], object]
Act = Callable[[socket.socket, threading.Event], None]


def observe(url: str) -> object:
    return find(server_at(url, {}), LIMIT_S)


def complete(url: str) -> object:
    server = Server(url, {})
    return server.object("/v1/completions", server.post("/v1/completions", {"prompt": "x"}, LIMIT_S))


def online(url: str) -> object:
    return Hub({"HF_ENDPOINT": url, "HF_HOME": "/nowhere"}).json("org/name/resolve/main/config.json", 10_000_000)


ASKED: dict[str, Ask] = {"observe": observe, "probe draft": complete, "--online": online}


@pytest.fixture(params=ASKED)
def ask(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost,many.invalid,slow.invalid")
    monkeypatch.setattr(hub, "TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(hub, "DEADLINE_S", LIMIT_S)
    return ASKED[request.param]


def refused(ask: Ask, url: str, within_s: float = LIMIT_S + SLACK_S) -> str:
    """The one line that is said, in time."""
    begun = time.monotonic()
    with pytest.raises(InfoptError) as raised:
        ask(url)
    assert time.monotonic() - begun < within_s
    assert "\n" not in str(raised.value)
    return str(raised.value)


def asked_of(connection: socket.socket) -> bytes:
    asked = b""
    while b"\r\n\r\n" not in asked:
        asked += (piece := connection.recv(4096))
        if not piece:
            break
    return asked


def trickling(first: bytes, pieces: tuple[bytes, ...], pause_s: float) -> Act:
    """Something after the other, for ever."""

    def act(connection: socket.socket, over: threading.Event) -> None:
        asked_of(connection)
        connection.sendall(first)
        for piece in itertools.cycle(pieces):
            connection.sendall(piece)
            if pause_s and over.wait(pause_s):
                return

    return act


SLOW: dict[str, Act] = {
    "a status line a byte at a time": trickling(b"HTTP/1.1 2", (b"0",), 0.05),
    "a header a byte at a time": trickling(HEAD + b"X-Long: ", (b"x",), 0.05),
    "a body a byte at a time": trickling(HEAD + b"Content-Length: 1000000\r\n\r\n", (b" ",), 0.05),
    "a chunk a byte at a time": trickling(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", (b"1\r\n \r\n",), 0.05),
    "the size of a chunk without end": trickling(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", (b"0",), 0.05),
    "trailers without end": trickling(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", (b"A: b\r\n",), 0),
    "go on, go on": trickling(b"", (b"HTTP/1.1 100 Continue\r\n\r\n",), 0),
    "a redirect whose body drips": trickling(
        b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 1000000\r\n\r\n", (b" ",), 0.05
    ),
    "a refusal whose body drips": trickling(b"HTTP/1.1 500 No\r\nContent-Length: 1000000\r\n\r\n", (b" ",), 0.05),
}
ENDLESS: dict[str, Act] = {
    "headers": trickling(HEAD, (b"X-More: yes\r\n",), 0),
    "one header": trickling(HEAD + b"X-Long: ", (b"x" * 65536,), 0),
    "a status line": trickling(b"HTTP/1.1 ", (b"2" * 65536,), 0),
    "a body": trickling(HEAD + b"\r\n", (b"x" * 65536,), 0),
    "chunks": trickling(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", (b"10000\r\n" + b"x" * 65536 + b"\r\n",), 0),
}


@pytest.mark.parametrize("way", SLOW)
def test_an_answer_that_takes_its_time_is_cut(way: str, ask: Ask) -> None:
    with connected(SLOW[way]) as url:
        refused(ask, url)


@pytest.mark.parametrize("what", ENDLESS)
def test_an_answer_without_end_is_cut(what: str, ask: Ask) -> None:
    with connected(ENDLESS[what]) as url:
        refused(ask, url)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_a_compressed_answer_is_never_unpacked(encoding: str, ask: Ask) -> None:
    bomb = gzip.compress(b"0" * 20_000_000)
    act = trickling(
        HEAD + b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (encoding.encode(), len(bomb)), (bomb,), 1
    )
    with connected(act) as url:
        refused(ask, url)


def test_a_redirect_in_a_circle_is_followed_a_few_times(ask: Ask) -> None:
    around = Replay({})
    with serving(around) as url:
        around.routes = dict.fromkeys(
            ("/metrics", "/org/name/resolve/main/config.json", "/a", "/b"),
            lambda handler: handler.say(b"", 302, Location="/b" if handler.path == "/a" else "/a"),
        )
        refused(ask, url)
    counted = {path: around.asked.count(path) for path in around.asked}
    assert counted.get("/a", 0) + counted.get("/b", 0) <= MOST_REDIRECTS


@pytest.mark.parametrize(
    "scheme", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:text/plain,x", "gopher://127.0.0.1/"]
)
def test_a_redirect_out_of_the_web_is_not_followed(scheme: str, ask: Ask) -> None:
    away = Replay({})
    with serving(away) as url:
        away.routes = dict.fromkeys(
            ("/metrics", "/v1/completions", "/org/name/resolve/main/config.json"),
            lambda handler: handler.say(b"", 302, Location=scheme),
        )
        refused(ask, url)


def full_port() -> tuple[socket.socket, list[socket.socket]]:
    """A port that answers no greeting: its queue is full."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    waiting = []
    for _ in range(3):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(listening.getsockname())
        waiting.append(one)
    return listening, waiting


@pytest.mark.skipif(sys.platform != "linux", reason="a full queue answers nothing on Linux alone")
def test_all_addresses_of_a_name_share_the_time(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a name with twenty addresses that do not answer would take twenty times the limit."""
    listening, waiting = full_port()
    place = (socket.AF_INET, socket.SOCK_STREAM, 6, "", listening.getsockname())
    monkeypatch.setattr(exchange.socket, "getaddrinfo", lambda *_, **__: [place] * 20)
    try:
        refused(ask, f"http://many.invalid:{listening.getsockname()[1]}")
    finally:
        for one in (listening, *waiting):
            one.close()


def test_a_look_up_that_hangs_is_left(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(exchange.socket, "getaddrinfo", lambda *_, **__: over.wait(30) and [])
    try:
        refused(ask, "http://slow.invalid:8000")
    finally:
        over.set()


def test_a_proxy_that_drips_is_cut(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer to CONNECT comes before there is a connection."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with connected(trickling(b"HTTP/1.1 200 OK\r\nX: ", (b"x",), 0.05)) as proxy:
        monkeypatch.setenv("https_proxy", proxy)
        refused(ask, "https://host.invalid")


FLOOD = """
import resource, sys, time
from infopt.cli import run
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begun = time.monotonic()
status = run(sys.argv[1:])
print(status, time.monotonic() - begun, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.parametrize("redirected", [False, True], ids=["an answer", "a redirect's body"])
def test_a_flood_takes_bounded_memory(redirected: bool) -> None:
    """urllib reads a redirect's body to its end: gigabytes a second on this machine."""
    head = b"HTTP/1.1 302 Found\r\nLocation: /metrics\r\n\r\n" if redirected else HEAD + b"\r\n"
    with connected(trickling(head, (b"x" * (1 << 20),), 0)) as url:
        ran = subprocess.run(
            [sys.executable, "-c", FLOOD, "observe", url, "--duration", "0s", "--timeout", "3s"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={**os.environ, "no_proxy": "127.0.0.1"},
        )
    status, took_s, grown_bytes = (float(word) for word in ran.stdout.split())
    assert status == 2
    assert took_s < 3.3 + SLACK_S
    assert grown_bytes < 5 * http_server.MAX_BYTES


# What is no address of a server.


@pytest.mark.parametrize(
    "source",
    [
        "file:///etc/passwd", "ftp://127.0.0.1/metrics", "gopher://127.0.0.1:70/", "data:text/plain,vllm:x%201",
        "unix:/var/run/docker.sock", "http+unix://%2Fvar%2Frun%2Fdocker.sock/x", "ws://127.0.0.1", "jar:http://x!/y",
        "http://127.0.0.1:99999", "http://", "http:///metrics", "http://127.0.0.1:80:80", "https://[::1", "http://a b/",
        "http://127.0.0.1\r\nHost: evil", "http://127.0.0.1/\x00", "FILE:///etc/passwd", "javascript:alert(1)",
    ],
)  # fmt: skip
def test_observe_asks_nothing_but_http(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["observe", source]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert re.search("no such file|cannot be read|expected http|an address begins with http", said.err), said.err


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1", "unix:/x.sock", "data:,x", "127.0.0.1:80"])
def test_probe_asks_nothing_but_http(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "draft", "--endpoint", url]) == 2
    assert "expected http://HOST:PORT or https://HOST" in capsys.readouterr().err


def test_nothing_else_can_be_opened() -> None:
    """Whatever passed the checks above: there is nothing that opens a file, FTP or data."""
    made = exchange.opener(exchange.Deadline(), exchange.Redirects(lambda before, after: True))
    assert set(made.handle_open) == {"http", "https", "unknown"}
    with pytest.raises(OSError, match="unknown url type"):
        made.open("file:///etc/passwd")


def test_the_limits_in_use_are_those_of_the_pages() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    assert (http_server.METRICS_S, http_server.MAX_BYTES) == (10.0, 20_000_000)
    assert "ten seconds (`--timeout`) and 20 MB" in (docs / "observe.md").read_text(encoding="utf-8")
    assert "10 s and 20 MB" in (docs / "safety.md").read_text(encoding="utf-8")
    assert f"{hub.DEADLINE_S:g} s" in (docs / "safety.md").read_text(encoding="utf-8")
