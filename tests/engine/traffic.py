"""What is sent: random tokens, and beginnings of our own texts by kind; and what the server says of it meanwhile."""

import random
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from infopt.arrivals.arrival import Arrival
from infopt.arrivals.traces import open_trace
from tests.engine.load import Load, run_load, run_open
from tests.engine.processor_time import used
from tests.engine.server import MODEL, EngineServer

KINDS = ("json", "code", "prose")
# Tokens of every vocabulary used, special ones left out.
LOWEST, HIGHEST = 100, 49_000
# (shared tokens, own tokens behind them) of prompts that begin alike
PREFIXES = ((512, 64), (100, 64), (512, 0))
PREFIX_OUTPUT = 16
CUT = 8  # tokens by which a text begins later each time it is used again


@dataclass(frozen=True)
class Run:
    """One load and the texts of /metrics before and after it."""

    load: Load
    before: str
    after: str


def random_prompts(count: int, tokens: int, seed: int) -> list[list[int]]:
    """Prompts that share nothing."""
    draw = random.Random(seed)
    return [[draw.randrange(LOWEST, HIGHEST) for _ in range(tokens)] for _ in range(count)]


@cache
def text_prompts(kind: str, count: int, tokens: int, folder: Path) -> Sequence[Sequence[int]]:
    """Texts that come with infopt (probes/data/prompts) in a model's tokens, each followed by others of its kind.

    All are cut at the same length; a text that is used again begins a few tokens later.
    """
    from infopt.probes.drafting.prompts import bundled_prompts
    from infopt.probes.drafting.text import folder_text

    text = folder_text(str(folder))
    found = [list(prompt.tokens(text)) for prompt in bundled_prompts() if prompt.kind == kind]
    prompts = []
    for i in range(count):
        order = [*found[i % len(found) :], *found[: i % len(found)]]
        begins = i // len(found) * CUT
        prompts.append([token for one in order for token in one][begins : begins + tokens])
    return prompts


def send(server: EngineServer, prompts: Sequence[Sequence[int]], concurrency: int, tokens: int) -> Run:
    """One load on a server that runs, and its metrics around it."""
    return _around(server, lambda: run_load(server.port, MODEL, prompts, concurrency, tokens))


def _around(server: EngineServer, run: Callable[[], Load]) -> Run:
    """A load, and metrics and processor time around it."""
    before, began = metrics_of(server), used(server.group)
    load = run()
    load = replace(load, others_share=used(server.group).others_since(began))
    return Run(load, before, metrics_of(server))


def wave(server: EngineServer, concurrency: int, prompt: int, tokens: int, seed: int = 1) -> Run:
    """As many random prompts as run at once: after their prefill every step is of all of them."""
    return send(server, random_prompts(concurrency, prompt, seed), concurrency, tokens)


def prompts_of(arrivals: Sequence[Arrival], block_tokens: int, seed: int) -> list[list[int]]:
    """A prompt for each: the same tokens for the same id of a block, and tokens of its own behind them."""

    def drawn(tokens: int, *key: object) -> list[int]:
        draw = random.Random(repr((seed, *key)))
        return [draw.randrange(LOWEST, HIGHEST) for _ in range(tokens)]

    prompts = []
    for number, one in enumerate(arrivals):
        begin = [token for name in one.prefix for token in drawn(block_tokens, "block", name)]
        prompts.append(begin + drawn(one.input_tokens - len(begin), "own", number))
    return prompts


def write_trace(file: Path, arrivals: Sequence[Arrival]) -> Path:
    """Arrivals as `infopt simulate --trace` reads them, in our own form (docs/traces.md)."""
    lines = ["time_s,input_tokens,output_tokens,prefix"]
    for one in arrivals:
        prefix = " ".join(map(str, one.prefix))
        lines.append(f"{one.time_s:.6f},{one.input_tokens},{one.output_tokens},{prefix}")
    file.write_text("\n".join(lines) + "\n")
    return file


def send_trace(server: EngineServer, file: Path, seed: int) -> Run:
    """The requests of a trace file, each at its time."""
    trace = open_trace(str(file))
    arrivals = list(trace.stream())
    prompts = prompts_of(arrivals, trace.prefix_block_tokens, seed)
    timed = [(one.time_s, prompt, one.output_tokens) for one, prompt in zip(arrivals, prompts, strict=True)]
    return _around(server, lambda: run_open(server.port, MODEL, timed))


def metrics_of(server: EngineServer) -> str:
    """The text of its /metrics."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def prefix_runs(server: EngineServer) -> dict[tuple[int, int], tuple[Run, Run]]:
    """By prefix: a prompt nobody sent before, and one that begins like it."""
    found = {}
    for seed, (shared, own) in enumerate(PREFIXES, 100):
        (start,) = random_prompts(1, shared, seed)
        first, second = random_prompts(2, own, seed + 1000)
        cold, warm = (send(server, [start + end], 1, PREFIX_OUTPUT) for end in (first, second))
        found[shared, own] = cold, warm
    return found
