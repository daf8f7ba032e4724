"""A real vLLM server as a process of its own: started on loopback, waited for, paused, and stopped with all it started.

A server is three processes or more (API, engine core, one worker per rank) in one process group. A paused group
(SIGSTOP) takes no processor time, so several servers can be started together and measured one after the other.
"""

import contextlib
import ctypes
import http.client
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

MODULE = "vllm.entrypoints.openai.api_server"
MODEL = "served"  # the name all servers give their model
START_S = 240.0  # several times what a start takes on two shared cores
POOL_LINE = "KV cache size: "
STOP_S = 8.0
# Nothing leaves the machine: no hub, no usage statistics, and ranks meet on loopback.
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_HOST_IP": "127.0.0.1",
}
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR")
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, prctl(2)


class EngineError(AssertionError):
    """A server that did not do what the test needs; the message ends with its log."""


@dataclass(frozen=True)
class Setup:
    """How to start one server.

    name         of its log
    folder       of the model
    options      of the command line
    environment  beside QUIET
    goal         when its start is over: it serves; it has said what its pool holds; it has refused
    """

    name: str
    folder: Path
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    goal: Literal["serves", "pool", "refuses"] = "serves"


class EngineServer:
    """One server. Use as a context manager, or call stop()."""

    def __init__(self, setup: Setup, python: Path, logs: Path) -> None:
        self.setup, self.port = setup, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_file = logs / f"{setup.name}.log"
        self.started_s = time.monotonic()
        self.start_took_s: float | None = None
        given = ["--model", str(setup.folder), "--served-model-name", MODEL, "--host", "127.0.0.1"]
        command = [str(python), "-m", MODULE, *given, "--port", str(self.port), *setup.options]
        kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**kept, **QUIET, **setup.environment},
                cwd=logs,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def __enter__(self) -> "EngineServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def group(self) -> int:
        """Its process group."""
        return self._process.pid

    @property
    def log(self) -> str:
        """All it has said so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def reached(self) -> bool:
        """Whether its start is over. Errors: EngineError where it ended otherwise, or is too late."""
        ended = self._process.poll() is not None
        goal = self.setup.goal
        if goal == "refuses":
            done = ended
        elif goal == "pool":
            done = POOL_LINE in self.log
        else:
            done = not ended and self._healthy()
        if not done and ended:
            raise EngineError(f"{self.setup.name}: ended before its goal: {goal}{self._tail()}")
        if not done and time.monotonic() > self.started_s + START_S:
            raise EngineError(f"{self.setup.name}: after {START_S:g} s still without its goal: {goal}{self._tail()}")
        if done and self.start_took_s is None:
            self.start_took_s = time.monotonic() - self.started_s
        return done

    def _healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            with connection.getresponse() as response:
                return response.status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _tail(self, lines: int = 25) -> str:
        return "\n" + "\n".join(self.log.splitlines()[-lines:])

    @contextlib.contextmanager
    def running(self) -> Iterator["EngineServer"]:
        """A paused server goes on for a while."""
        self.resume()
        try:
            yield self
        finally:
            self.pause()

    def pause(self) -> None:
        """Take all its processes off the processors."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it and all processes it started; twice is once."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._signal(signal.SIGKILL)  # the API may be gone while a worker still is not
        self._process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # all of the group are gone
            os.killpg(self._process.pid, number)


def start_all(setups: Sequence[Setup], python: Path, logs: Path, at_once: int) -> dict[str, EngineServer]:
    """Bring all to their goals, `at_once` starting at a time; then those that serve are paused and others are stopped.

    All are stopped where one does not reach its goal. Servers are forked from the thread that calls, which must live
    as long as they shall (see _die_with_parent).
    """
    waiting, starting = list(setups), []
    stops: list[threading.Thread] = []
    started: dict[str, EngineServer] = {}
    try:
        while waiting or starting:
            while waiting and len(starting) < at_once:
                server = EngineServer(waiting.pop(0), python, logs)
                started[server.setup.name] = server
                starting.append(server)
            for server in [server for server in starting if server.reached()]:
                starting.remove(server)
                if server.setup.goal == "serves":
                    server.pause()
                else:  # it takes seconds in which the next may start
                    stops.append(threading.Thread(target=server.stop))
                    stops[-1].start()
            time.sleep(0.2)
    except BaseException:
        for server in started.values():
            server.stop()
        raise
    finally:
        for stop in stops:
            stop.join()
    return started


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _die_with_parent() -> None:
    """A test run that is killed cannot stop its servers; the kernel then ends them (with the thread that forked)."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)
