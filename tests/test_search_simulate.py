"""`search --simulate`: each row as a simulation of its own says, the first that holds, the rate up to which it does."""

import csv
import io
import json
from dataclasses import replace
from functools import cache
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.arrivals.synthetic import Synthetic
from infopt.cli import run
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.reports.schemas import schema_text
from infopt.studies.scenarios import Request
from infopt.studies.search import Search, Targets, plan_of, search
from infopt.studies.search_simulated import (
    GOOD_SHARE,
    LOWEST_SHARE,
    NEAR,
    Traffic,
    held_per_s,
    simulated_front,
    trial_of,
)
from infopt.studies.simulate import simulated

LOAD = Request(input_tokens=1024, output_tokens=128, weights="bf16", kv="auto")
TIGHT = Targets(ttft_s=0.1, tpot_s=0.02, rate_per_s=24.0, max_gpus=4)
COMMAND = ("search", "--model", "8b", "--isl", "1k", "--osl", "128", "--hw", "h200", "--weights", "bf16")
ASKED = ("--kv", "bf16", "--ttft", "100ms", "--tpot", "20ms", "--rate", "24/s", "--max-gpus", "4")
QUICK = ("--simulate", "--simulate-requests", "600", "--workers", "1")


@cache
def found(burstiness_ratio: float = 1.0) -> Search:
    result = search(resolve_model("8b"), LOAD, [resolve_hardware("h200")], TIGHT)
    return simulated_front(result, Traffic(600, burstiness_ratio), workers=1)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert run(arguments) == status
    return capsys.readouterr().out


def test_each_row_is_what_simulate_says_of_it() -> None:
    """Through the other path: the figures of `simulate`, and the plan of the row, agree."""
    result = found()
    assert len(result.tails) == len(result.front) > 1
    for d, tail in zip(result.front, result.tails, strict=True):
        trial = trial_of(result, d, Traffic(600), to_limit=True)
        s = simulated(trial.job)
        assert s.summary.requests == tail.requests == 600
        assert s.summary.good_share == tail.good_share
        assert s.summary.tpot_s is not None
        assert s.summary.tpot_s.p99 == tail.tpot_p99_s
        assert s.ready.setup.replicas == d.replicas
        assert s.ready.setup.scheduler.max_num_seqs == plan_of(d).scenario.max_num_seqs
        assert s.plan.estimate == plan_of(d).estimate
        assert tail.holds == (not s.summary.saturated and (tail.good_share or 0) >= GOOD_SHARE)
        assert trial.rate_per_s == pytest.approx(s.job.source.rate_per_s)  # type: ignore[attr-defined]


def test_the_rate_that_holds_is_where_it_stops() -> None:
    """A little below it still holds; above, by what the search of it leaves open, it does not."""
    result = found()
    sought = [(d, tail) for d, tail in zip(result.front, result.tails, strict=True) if tail.held_per_s]
    assert sought
    for d, tail in sought:
        assert tail.held_per_s is not None
        assert tail.held_per_s <= d.capacity_per_s
        assert bool(tail.holds) == (tail.held_per_s >= d.rate_per_s)
        job = trial_of(result, d, Traffic(600), to_limit=True).job
        assert isinstance(job.source, Synthetic)
        for rate, holds in ((tail.held_per_s, True), (tail.held_per_s * NEAR, False)):
            if rate <= d.capacity_per_s:
                share = simulated(replace(job, source=replace(job.source, rate_per_s=rate))).summary.good_share
                assert share is not None
                assert (share >= GOOD_SHARE) == holds, (rate, share)


@settings(max_examples=60)
@given(rate=st.floats(0.1, 100), most=st.floats(0.001, 300), limit=st.floats(1.0, 10.0))
def test_the_search_of_a_threshold(rate: float, most: float, limit: float) -> None:
    """Of anything that holds up to `most`: the answer holds, and at most NEAR more does not."""
    asked: list[float] = []

    def holding(at: float) -> bool:
        asked.append(at)
        return at <= most

    got = held_per_s(holding, rate, rate <= most, rate * limit)
    assert len(asked) <= 15
    if not got:
        assert most < rate * LOWEST_SHARE * 2
    else:
        assert got <= most
        assert got == rate * limit or got * NEAR >= min(most, rate * limit) * (1 - 1e-9)


def test_bursts_make_it_worse_and_even_gaps_better() -> None:
    shares = [found(ratio).tails[0].good_share for ratio in (0.0, 1.0, 4.0)]
    assert shares == sorted(shares, key=lambda share: -(share or 0))
    assert shares[0] == 1.0
    assert shares[0] != shares[2]


def test_the_first_row_that_holds_is_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, *COMMAND, *ASKED, *QUICK, "--json")
    result: dict[str, Any] = json.loads(text)
    jsonschema.validate(result, json.loads(schema_text("search")))
    tails = [row["simulated"] for row in result["front"]]
    holding = [rank for rank, tail in enumerate(tails, start=1) if tail["holds"]]
    assert result["simulated"] == {"good_share_asked": GOOD_SHARE, "holding": holding, "chosen": holding[0]}
    assert holding[0] > 1  # the means of the first row are within the targets, its tail is not
    page = printed(capsys, *COMMAND, *ASKED, *QUICK)
    assert f"ROW {holding[0]}  the first that holds" in page
    assert "means say" in page
    assert "misses TTFT" in page
    assert all(len(line) <= 80 for line in page.splitlines())
    emitted = printed(capsys, *COMMAND, *ASKED, *QUICK, "--emit", "k8s")
    assert emitted == printed(capsys, *COMMAND, *ASKED, *QUICK, "--emit", "k8s", "--row", str(holding[0]))
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *COMMAND, *ASKED, *QUICK, "--format", "csv"))))
    assert [row["simulated_holds"] for row in rows] == [str(tail["holds"]).lower() for tail in tails]
    markdown = printed(capsys, *COMMAND, *ASKED, *QUICK, "--format", "md")
    assert f"**Row {holding[0]}**" in markdown
    assert "- simulated: holds at 24/s" in markdown


def test_status_1_where_none_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """Bursts that no deployment of the front answers in time, though all their means do."""
    bursts = ("--simulate", "--simulate-requests", "300", "--simulate-burstiness", "30", "--workers", "1")
    result = json.loads(printed(capsys, *COMMAND, *ASKED, *bursts, "--json", status=1))
    assert result["binding"] is None
    assert result["front"]
    assert result["simulated"]["holding"] == []
    assert result["simulated"]["chosen"] is None
    assert "no row of the front keeps the targets" in printed(capsys, *COMMAND, *ASKED, *bursts, status=1)
    assert run((*COMMAND, *ASKED, *bursts, "--emit", "k8s")) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "nothing is emitted" in captured.err


def test_without_it_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads(printed(capsys, *COMMAND, *ASKED, "--json"))
    assert result["simulated"] is None
    assert {row["simulated"] for row in result["front"]} == {None}
    assert "SIMULATED" not in printed(capsys, *COMMAND, *ASKED)
    nothing = (*COMMAND, *ASKED[:-4], "--rate", "5000/s", *QUICK)
    assert json.loads(printed(capsys, *nothing, "--json", status=1))["simulated"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--simulate-requests", "100"), "add --simulate"),
        (("--simulate-burstiness", "2"), "add --simulate"),
        (("--workers", "2"), "add --simulate"),
        (("--simulate", "--simulate-burstiness", "-1"), "0 to 100"),
        (("--simulate", "--simulate-burstiness", "nan"), "0 to 100"),
        (("--simulate", "--simulate-burstiness", "x"), "not a number"),
        (("--simulate", "--simulate-requests", "0"), "--simulate-requests"),
        (("--simulate", "--workers", "2", "--scheduler", "tcp://127.0.0.1:1"), "give one of them"),
    ],
)
def test_options_that_make_no_sense(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str) -> None:
    assert run((*COMMAND, *ASKED, *arguments)) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
