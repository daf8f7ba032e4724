"""Servers of metrics for tests: one that answers by path, and one that does with its connections what it likes."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TEXTS = Path(__file__).resolve().parent / "data" / "metrics"
Answer = Callable[["Handler"], None]
Routes = Mapping[str, "Sequence[bytes] | Answer"]


class Replay:
    """What a server answers by path: texts one after the other, the last one again and again, or what a function does.

    asked, keys  paths and Authorization headers, in order
    """

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.asked: list[str] = []
        self.keys: list[str | None] = []
        self.lock = threading.Lock()

    def answer(self, handler: "Handler") -> None:
        with self.lock:
            self.asked.append(handler.path)
            self.keys.append(handler.headers["Authorization"])
            times = self.asked.count(handler.path)
        found = self.routes.get(handler.path)
        if found is None:
            handler.say(b'{"detail": "Not Found"}', 404)
        elif callable(found):
            found(handler)
        else:
            handler.say(found[min(times, len(found)) - 1])


class Handler(BaseHTTPRequestHandler):
    """Passes every GET to the replay."""

    replay: Replay

    def do_GET(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client has seen enough
            self.replay.answer(self)

    def say(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content_Length": str(len(data))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing on stderr."""


class SixServer(ThreadingHTTPServer):
    address_family = socket.AF_INET6


@contextlib.contextmanager
def serving(replay: Replay, six: bool = False) -> Iterator[str]:
    """The address of a server of these answers, until the block ends."""
    handler = type("One", (Handler,), {"replay": replay})
    server = SixServer(("::1", 0), handler) if six else ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://{'[::1]' if six else '127.0.0.1'}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def connected(act: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """The address of a port where `act` does what it likes with each connection, until its event is set."""
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def one(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            act(connection, over)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        listening.close()


def text_of(name: str) -> bytes:
    """One recorded text."""
    return (TEXTS / f"{name}.txt").read_bytes()


def pairs() -> list[str]:
    """Texts of which there is one before and one after a window."""
    return sorted(path.name.removesuffix("_before.txt") for path in TEXTS.glob("*_before.txt"))


def models(name: str = "example-8b", owner: str = "vllm") -> list[bytes]:
    """What /v1/models answers."""
    return [b'{"data": [{"id": "%s", "owned_by": "%s"}]}' % (name.encode(), owner.encode())]
