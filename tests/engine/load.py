"""A small load generator for completions: prompts as token ids, greedy, answers of a fixed length, streamed.

As many requests are in flight as there are threads, and the next one starts when one ends; or each is sent at its time,
whatever is in flight. Decision 8 says why it is ours.
A chunk is what one step of the engine gave a sequence; the engine's own count of tokens (`continuous_usage_stats`) says
how many tokens it holds, for with speculation there are several.
"""

import http.client
import json
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

ANSWER_S = 180.0
MOST_OTHERS = 0.05  # of all processors; what the kernel does for a load on loopback is less


@dataclass(frozen=True)
class Answer:
    """One request.

    sent_s    when it was sent, on the clock of this process
    chunks    (when it came, tokens so far), one for each chunk that holds tokens
    """

    sent_s: float
    chunks: tuple[tuple[float, int], ...]

    @property
    def tokens(self) -> int:
        return self.chunks[-1][1]

    @property
    def ttft_s(self) -> float:
        """Until the first chunk."""
        return self.chunks[0][0] - self.sent_s

    @property
    def e2e_s(self) -> float:
        return self.chunks[-1][0] - self.sent_s

    @property
    def decode_s(self) -> float:
        """From the first chunk to the last."""
        return self.chunks[-1][0] - self.chunks[0][0]

    @property
    def tpot_s(self) -> float:
        """Per token after the first chunk's first: vLLM's own division (v1/metrics/stats.py)."""
        return self.decode_s / (self.tokens - 1)

    @property
    def itl_s(self) -> list[float]:
        """Between chunks: a step of the engine."""
        return [b[0] - a[0] for a, b in zip(self.chunks, self.chunks[1:], strict=False)]


@dataclass(frozen=True)
class Load:
    """Answers of one run at one concurrency, or at their times (concurrency: all of them).

    others_share  of the processors that neither the server nor this process used
    """

    concurrency: int
    answers: tuple[Answer, ...]
    wall_s: float
    others_share: float = 0.0

    @property
    def disturbed(self) -> str | None:
        """Why its times say little; None where they do not."""
        if self.others_share <= MOST_OTHERS:
            return None
        return f"others used {self.others_share:.0%} of the processors"

    def ttft_s(self) -> float:
        return statistics.fmean(a.ttft_s for a in self.answers)

    def tpot_s(self) -> float:
        """Mean over requests, as the engine's histogram has it."""
        return statistics.fmean(a.tpot_s for a in self.answers)

    def calm_tpot_s(self) -> float:
        """Time over tokens of all answers, from when none of the others waits for its first token on."""
        spans = [_calm(answer, self.answers) for answer in self.answers]
        return sum(seconds for seconds, _ in spans) / sum(tokens for _, tokens in spans)

    def steps_s(self) -> list[float]:
        """All times between two chunks of one answer, sorted."""
        return sorted(step for a in self.answers for step in a.itl_s)

    def step_s(self) -> float:
        """Their median, which holds no prefill of others while those are the fewer steps."""
        return statistics.median(self.steps_s())

    def tail_ratio(self) -> float:
        """90th percentile of the steps over their median: how quiet the machine was."""
        steps = self.steps_s()
        return steps[len(steps) * 9 // 10] / statistics.median(steps)

    def tokens(self) -> int:
        return sum(a.tokens for a in self.answers)

    def tokens_per_step(self) -> float:
        """Tokens after the first of an answer per step after its first, drafted or not."""
        return sum(a.tokens - 1 for a in self.answers) / sum(len(a.chunks) - 1 for a in self.answers)

    def bench_result(self, model: str, prompt_tokens: int) -> dict[str, Any]:
        """The same in the form of `vllm bench serve --save-result`, which `infopt observe` reads."""
        times_s = {
            "ttft": [a.ttft_s for a in self.answers],
            "tpot": [a.tpot_s for a in self.answers],
            "itl": self.steps_s(),
            "e2el": [a.e2e_s for a in self.answers],
        }
        count = len(self.answers)
        return {
            "backend": "vllm",
            "model_id": model,
            "tokenizer_id": model,
            "request_rate": "inf",
            "max_concurrency": self.concurrency,
            "num_prompts": count,
            "completed": count,
            "failed": 0,
            "duration": self.wall_s,
            "total_input_tokens": count * prompt_tokens,
            "total_output_tokens": self.tokens(),
            "request_throughput": count / self.wall_s,
            "output_throughput": self.tokens() / self.wall_s,
            **{key: value for name, held in times_s.items() for key, value in _milliseconds(name, held).items()},
        }


def _calm(answer: Answer, others: Sequence[Answer]) -> tuple[float, int]:
    """Time and tokens of an answer behind the last first token of those that were sent before it ended."""
    end = answer.chunks[-1][0]
    begin = max(other.chunks[0][0] for other in others if other.sent_s < end and other.chunks[0][0] >= answer.sent_s)
    kept = [chunk for chunk in answer.chunks if chunk[0] >= begin]
    return (kept[-1][0] - kept[0][0], kept[-1][1] - kept[0][1]) if kept else (0.0, 0)


def _milliseconds(name: str, values_s: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles of times, by vLLM's names."""
    ordered = sorted(values_s)
    found = {"mean": statistics.fmean(ordered), "median": statistics.median(ordered)}
    found |= {f"p{share}": ordered[round(share / 100 * (len(ordered) - 1))] for share in (90, 99)}
    return {f"{key}_{name}_ms": 1e3 * value for key, value in found.items()}


def run_load(port: int, model: str, prompts: Sequence[Sequence[int]], concurrency: int, tokens: int) -> Load:
    """Send all prompts, `concurrency` at a time. Errors: what the first request that failed raised."""
    waiting = iter(list(enumerate(prompts)))
    lock = threading.Lock()
    answers: dict[int, Answer] = {}
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                with lock:
                    index, prompt = next(waiting, (None, ()))
                if index is None or failures:
                    return
                answers[index] = ask(port, model, prompt, tokens)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(concurrency)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return Load(concurrency, tuple(answers[i] for i in sorted(answers)), time.perf_counter() - started)


def run_open(port: int, model: str, timed: Sequence[tuple[float, Sequence[int], int]]) -> Load:
    """Send prompts of (seconds since the first, prompt, tokens) when they are due. Errors: as of `run_load`."""
    started = time.perf_counter()

    def send(due_s: float, prompt: Sequence[int], tokens: int) -> Answer:
        time.sleep(max(0.0, started + due_s - time.perf_counter()))
        return ask(port, model, prompt, tokens)

    with ThreadPoolExecutor(len(timed)) as threads:
        answers = tuple(threads.map(send, *zip(*timed, strict=True)))
    return Load(len(timed), answers, time.perf_counter() - started)


def ask(port: int, model: str, prompt: Sequence[int], tokens: int) -> Answer:
    """One completion. Errors: AssertionError with what the server said where it is not a whole answer."""
    body = {
        "model": model,
        "prompt": list(prompt),
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    data = json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        sent = time.perf_counter()
        connection.request("POST", "/v1/completions", data, {"Content-Type": "application/json"})
        chunks: list[tuple[float, int]] = []
        with connection.getresponse() as response:
            if response.status != 200:
                raise AssertionError(f"the server answered {response.status}: {response.read(500)!r}")
            for at, event in events(response):
                count = (event.get("usage") or {}).get("completion_tokens", 0)
                if event.get("choices") and count > (chunks[-1][1] if chunks else 0):
                    chunks.append((at, count))
    finally:
        connection.close()
    if not chunks or chunks[-1][1] != tokens:
        raise AssertionError(f"an answer of {chunks[-1][1] if chunks else 0} tokens instead of {tokens}")
    return Answer(sent, tuple(chunks))


def events(response: http.client.HTTPResponse) -> Iterator[tuple[float, dict[str, Any]]]:
    """Server-sent events with the time each came. Errors: AssertionError for an error in the stream."""
    for line in response:
        at = time.perf_counter()
        text = line.decode().strip()
        if text.startswith("data:") and text != "data: [DONE]":
            event = json.loads(text[5:])
            if "error" in event:
                raise AssertionError(f"the server broke off: {event['error']}")
            yield at, event
