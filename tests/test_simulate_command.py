"""`infopt simulate`: agreement with plans, saturation, what arrives, exit statuses, files, and what is refused."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from infopt.cli import run
from infopt.cli_overlay import overlaid
from infopt.cli_serving import ServingOptions, parse_loss
from infopt.cli_traffic import TrafficOptions, parse_tenant
from infopt.errors import InfoptError
from infopt.reports.schemas import schema_text

BASE = ("simulate", "--model", "8b", "--hw", "h100", "--isl", "1k", "--osl", "200")


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    return as_json(capsys, *BASE, *arguments, status=status)


def test_alone_a_request_takes_what_a_plan_says(capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(capsys, "--rate", "0.02/s", "--requests", "300")
    expected = found["plan"]["estimate"]
    # Waits for other clients, which are in a plan's TTFT of a dense model, are not there (ledgers/mixed_step.py).
    assert expected["tpot_s"] < found["ttft_s"]["mean"] < 0.8 * expected["ttft_s"]
    assert found["tpot_s"]["mean"] == pytest.approx(expected["tpot_s"], rel=0.02)


@pytest.mark.parametrize("users", [8, 64])
def test_users_out_of_step_have_the_tpot_of_a_plan_at_their_batch(
    capsys: pytest.CaptureFixture[str], users: int
) -> None:
    found = simulated(capsys, "--users", str(users), "--output-spread", "0.5", "--requests", "3000")
    plan = as_json(capsys, "plan", *BASE[1:], "--batch", str(round(found["effective_batch"])))
    assert found["plan_tpot_s"] == plan["estimate"]["tpot_s"]
    assert found["tpot_s"]["p50"] == pytest.approx(plan["estimate"]["tpot_s"], rel=0.04)
    assert found["effective_batch"] == pytest.approx(found["fixed_point_batch"], rel=0.05)


@pytest.mark.parametrize(
    "arguments", [("--rate", "5/s"), ("--rate", "12/s"), ("--rate", "12/s", "--arrivals", "steady")]
)
def test_the_batch_is_that_of_littles_law(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> None:
    found = simulated(capsys, *arguments, "--requests", "4000")
    assert found["effective_batch"] == pytest.approx(found["fixed_point_batch"], rel=0.05)
    assert found["little_ratio"] == pytest.approx(1.0, abs=1e-9)
    assert found["fixed_point_calm_batch"] < found["fixed_point_chance_batch"]


def test_overload_serves_what_saturation_says_and_tells_no_waits(capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(capsys, "--rate", "60/s", "--requests", "4000", status=1)
    assert found["saturated"]
    assert not found["keeps_up"]
    assert found["ttft_s"] is None
    assert found["e2e_s"] is None
    assert found["tpot_s"] is not None
    assert found["served_per_s"] == pytest.approx(found["saturation"]["rate_per_s"], rel=0.06)
    below = simulated(capsys, "--rate", f"{0.9 * found['saturation']['rate_per_s']:.3f}/s", "--requests", "4000")
    assert not below["saturated"]


def test_a_short_run_above_saturation_is_saturated_before_its_queue_shows(capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(capsys, "--rate", "25/s", "--requests", "400", status=1)
    assert found["saturated"]
    assert found["verdict"]["word"] == "saturated"


def test_two_replicas_serve_twice_as_much_and_cost_twice_as_much(capsys: pytest.CaptureFixture[str]) -> None:
    one = simulated(capsys, "--rate", "5/s", "--requests", "1500")
    two = simulated(capsys, "--rate", "5/s", "--requests", "1500", "--replicas", "2")
    assert two["saturation"]["rate_per_s"] == pytest.approx(2 * one["saturation"]["rate_per_s"], rel=0.05)
    assert two["usd_per_hour"] == 2 * one["usd_per_hour"]
    assert two["gpus"] == 2
    assert two["effective_batch"] < 0.6 * one["effective_batch"]


def test_the_same_seed_gives_the_same_figures_another_seed_others(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--rate", "8/s", "--requests", "300", "--output-spread", "1", "--cancel", "10%")
    first, again = simulated(capsys, *arguments), simulated(capsys, *arguments)
    other = simulated(capsys, *arguments, "--seed", "1")
    assert first == again
    assert other["ttft_s"] != first["ttft_s"]


def test_longer_steps_give_longer_waits(capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(capsys, "--rate", "12/s", "--requests", "600", "--interval")
    low, high = found["interval"]["low"], found["interval"]["high"]
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        assert low[name]["p50"] < found[name]["p50"] < high[name]["p50"]
    assert low["effective_batch"] < found["effective_batch"] < high["effective_batch"]


# What arrives


def test_a_trace_is_replayed_at_a_rate_and_its_long_requests_are_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = [f"{at * 0.5},100,20" for at in range(200)]
    lines[7] = "3.5,200000,20"
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,input_tokens,output_tokens\n" + "\n".join(lines) + "\n", encoding="utf-8")
    arguments = ("simulate", "--model", "8b", "--hw", "h100", "--trace", str(trace))
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert "request 8 at 3.5 s" in said
    assert "200,000 + 20 tokens" in said
    assert "131,072" in said
    assert "--leave-out-long" in said
    found = as_json(capsys, *arguments, "--leave-out-long", "--rate", "10/s")
    assert found["left_out_requests"] == 1
    assert found["requests"] == 199
    assert found["arrive_per_s"] == pytest.approx(10, rel=0.02)
    fast = as_json(capsys, *arguments, "--leave-out-long", "--speedup", "5")
    assert fast["e2e_s"] == pytest.approx(found["e2e_s"], rel=1e-3)


def test_prefix_ids_of_a_trace_find_what_the_cache_holds(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "simulate",
        "--model",
        "70b",
        "--hw",
        "h100:8",
        "--trace",
        "mooncake",
        "--limit",
        "400",
        "--rate",
        "1/s",
    )
    found = as_json(capsys, *arguments)
    without = as_json(capsys, *arguments, "--no-prefix-caching")
    assert found["prefix_hit_share"] > 0
    assert without["prefix_hit_share"] == 0
    assert found["ttft_s"]["mean"] < without["ttft_s"]["mean"]
    assert found["prefix"]["trace"] == "mooncake"
    assert without["prefix"] is None


def test_a_workload_brings_lengths_and_targets_and_options_replace_them(capsys: pytest.CaptureFixture[str]) -> None:
    common = (
        "simulate",
        "--model",
        "8b",
        "--hw",
        "h100",
        "--workload",
        "interactive",
        "--rate",
        "3/s",
        "--requests",
        "300",
    )
    found = as_json(capsys, *common)
    assert found["targets"] == {"ttft_s": 0.45, "tpot_s": 0.04, "e2e_s": None}
    assert found["good_share_asked"] == 0.99
    assert found["plan"]["workload"]["input_tokens"] == 1155
    changed = as_json(capsys, *common, "--osl", "50", "--ttft", "2s", "--output-spread", "0")
    assert changed["targets"]["ttft_s"] == 2
    assert changed["good_share_asked"] == 0.9
    assert changed["plan"]["workload"]["output_tokens"] == 50
    assert found["plan"]["workload"]["output_tokens"] == 211


def test_tenants_share_machine_and_price_and_priority_goes_first(capsys: pytest.CaptureFixture[str]) -> None:
    tenants = ("--tenant", "paid=30%:0", "--tenant", "free=70%:1", "--ttft", "1s", "--good", "0")
    common = ("--rate", "10.5/s", "--max-num-seqs", "24", "--requests", "3000", *tenants)
    first = simulated(capsys, *common, "--by-priority")["tenants"]
    plain = simulated(capsys, *common)["tenants"]
    for figures in (first, plain):
        assert sum(one["machine_share"] for one in figures) == pytest.approx(1.0)
        assert sum(one["usd_per_hour"] for one in figures) == pytest.approx(3.99)
    paid = [one for figures in (first, plain) for one in figures if one["name"] == "paid"]
    assert paid[0]["requests"] == paid[1]["requests"]
    assert paid[0]["ttft_s"]["p99"] < paid[1]["ttft_s"]["p99"]


def test_clients_that_leave_by_themselves_are_no_failure_those_that_lose_patience_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = simulated(capsys, "--rate", "5/s", "--requests", "500", "--cancel", "50%", "--ttft", "1s")
    assert gone["ended"]["cancelled"] > 200
    assert gone["good_share"] == 1.0
    hasty = simulated(capsys, "--rate", "5/s", "--requests", "500", "--patience", "1500ms", status=1)
    assert hasty["ended"]["timed_out"] > 400
    assert hasty["verdict"]["word"] == "loses requests"
    deaf = simulated(capsys, "--rate", "5/s", "--requests", "500", "--cancel", "50%", "--no-abort")
    assert deaf["wasted_share"] > gone["wasted_share"]
    assert deaf["effective_batch"] > gone["effective_batch"]


def test_a_lost_replica_shows_before_and_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--rate", "35/s", "--requests", "4000", "--replicas", "2", "--ttft", "1s", "--lose", "0@40s+40s")
    found = simulated(capsys, *common, status=1)
    before, during = found["losses"]["before"], found["losses"]["during"]
    assert during["ttft_s"]["p50"] > 3 * before["ttft_s"]["p50"]
    assert during["good_share"] < before["good_share"]
    assert before["good_share"] == 1.0
    assert found["losses"]["hit"]["requests"] > 0
    assert during["time_s"] == 40
    lost = simulated(capsys, "--rate", "5/s", "--requests", "300", "--lose", "0@1s", status=1)
    assert lost["ended"]["lost"] + lost["completed"] == 300
    assert lost["ended"]["lost"] > 290


def test_nobody_waits_longer_than_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(
        capsys, "--rate", "60/s", "--requests", "2000", "--max-wait", "500ms", "--good", "0", "--e2e", "9min"
    )
    assert found["ended"]["refused"] > 0
    assert not found["saturated"]
    few = simulated(
        capsys,
        "--rate",
        "60/s",
        "--requests",
        "2000",
        "--max-waiting",
        "5",
        "--max-num-seqs",
        "64",
        "--good",
        "0",
        "--e2e",
        "9min",
    )
    assert max(few["samples"]["waiting"]) <= 5
    assert few["ended"]["refused"] > 0


def test_static_batches_serve_less(capsys: pytest.CaptureFixture[str]) -> None:
    static = ("--batching static --static-batch 32 --static-wait 5s --output-spread 1", "--output-spread 1")
    found = simulated(capsys, "--rate", "4/s", "--requests", "600", "--compare", *static)
    assert found["same_traffic"]
    rates = next(term for term in found["terms"] if term["name"] == "saturation")
    assert rates["b"] > 1.5 * rates["a"]
    assert rates["better"] == "b"
    assert found["a"]["fixed_point_batch"] is None


# Two beside each other


def test_a_comparison_has_the_same_requests_unless_options_change_them(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--rate", "10/s", "--requests", "300")
    same = simulated(capsys, *common, "--compare", "--chunk 512", "--chunk 512")
    assert same["same_traffic"]
    assert all(term["a"] == term["b"] for term in same["terms"])
    assert not any(term["better"] for term in same["terms"])
    other = simulated(capsys, *common, "--compare", "", "--rate 12/s")
    assert not other["same_traffic"]
    jsonschema.validate(other, json.loads(schema_text("simulate_comparison")), cls=jsonschema.Draft202012Validator)


def test_a_trace_longer_than_the_context_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """--ctx counts as the model's positions do: an error that names the trace, or longer requests left out."""
    asked = ("simulate", "--model", "8b", "--hw", "h100", "--trace", "mooncake", "--limit", "300", "--ctx", "8k")
    assert run(list(asked)) == 2
    said = capsys.readouterr().err
    assert "mooncake: its mean request" in said
    assert "--leave-out-long" in said
    assert "--isl" not in said
    found = as_json(capsys, *asked, "--leave-out-long", "--rate", "1/s")
    assert 0 < found["requests"] < 300


def test_option_strings_are_laid_over_every_record() -> None:
    traffic, serving = overlaid((TrafficOptions(rate=5.0, requests=9), ServingOptions()), "--rate 7/s --chunk 1k")
    assert (traffic.rate, traffic.requests, serving.chunk) == (7.0, 9, 1024)
    with pytest.raises(InfoptError, match="--compare '--nonsense': No such option"):
        overlaid((TrafficOptions(),), "--nonsense")
    with pytest.raises(InfoptError, match="No closing quotation"):
        overlaid((TrafficOptions(),), "--rate '")


# Statuses, files, refusals


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--model", "70b", "--hw", "h100", "--isl", "1k", "--osl", "200", "--rate", "1/s"), 1, "does not fit"),
        (("--model", "8b", "--hw", "l40s", "--isl", "1k", "--osl", "200", "--rate", "1/s"), 4, "no step time"),
        (("--model", "8b", "--isl", "1k", "--osl", "200", "--rate", "1/s"), 2, "--hw is missing"),
        (("--model", "nonsense", "--hw", "h100", "--rate", "1/s"), 2, "unknown model"),
    ],
)
def test_exit_statuses(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], status: int, said: str) -> None:
    assert run(["simulate", *arguments]) == status
    out, error = capsys.readouterr()
    assert said in error
    assert error.count("\n") == 1
    assert not out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "what arrives is not said"),
        (("--rate", "-3/s"), "negative"),
        (("--rate", "0/s"), "more than 0"),
        (("--rate", "5"), "a unit is needed"),
        (("--rate", "5/s", "--users", "4"), "give one of them"),
        (("--rate", "5/s", "--think", "1s"), "add --users"),
        (("--rate", "5/s", "--speedup", "2"), "add --trace"),
        (("--rate", "5/s", "--batch", "8"), "--users 8"),
        (("--rate", "5/s", "--requests", "0"), "at least 1"),
        (("--rate", "5/s", "--seed", "-1"), "negative"),
        (("--rate", "5/s", "--burstiness", "2", "--arrivals", "poisson"), "--burstiness is of gamma"),
        (("--rate", "5/s", "--burstiness", "2", "--period", "60s"), "choose"),
        (("--rate", "5/s", "--arrivals", "periodic"), "--period 10min and --peak 1.8"),
        (("--rate", "5/s", "--period", "60s", "--peak", "3"), "1 to 2"),
        (("--rate", "5/s", "--period", "60s", "--arrivals", "steady"), "--period and --peak are of periodic"),
        (("--rate", "5/s", "--prefixes", "5"), "--shared-prefix TOKENS"),
        (("--rate", "5/s", "--shared-prefix", "2k"), "more than the 1024 tokens"),
        (("--rate", "5/s", "--cancel", "150%"), "more than the whole"),
        (("--rate", "5/s", "--patience", "0s"), "more than 0"),
        (("--rate", "5/s", "--tenant", "paid"), "NAME=SHARE[:PRIORITY]"),
        (("--rate", "5/s", "--tenant", "a=1", "--tenant", "a=1"), "twice"),
        (("--rate", "5/s", "--workload", "chat"), "unknown workload profile"),
        (("--rate", "5/s", "--lose", "0@10"), "a unit is needed"),
        (("--rate", "5/s", "--lose", "ten"), "REPLICA@TIME[+DOWN]"),
        (("--rate", "5/s", "--lose", "1@10s"), "replica 1 cannot fail"),
        (("--rate", "5/s", "--static-batch", "8"), "--batching static"),
        (("--users", "5", "--batching", "static", "--static-batch", "8"), "--static-wait"),
        (("--users", "5", "--duration", "10s"), "--requests"),
        (("--users", "5", "--requests", "9", "--duration", "10s"), "--requests"),
        (("--rate", "5/s", "--chunk", "0"), "more than 0"),
        (("--rate", "5/s", "--chunk", "half"), "not a number of tokens"),
        (("--rate", "5/s", "--max-waiting", "0"), "at least 1"),
        (("--rate", "5/s", "--ctx", "1k"), "more than --ctx"),
        (("--rate", "5/s", "--ctx", "2k", "--output-spread", "2"), "--ctx 2048: raise it"),
        (("--trace", "azure-conv"), "--isl, --osl with --trace"),
        (("--rate", "5/s", "--plot", "curves.gif"), "must end in"),
        (("--rate", "5/s", "--rows", "nowhere/rows.csv"), "no folder nowhere"),
        (("--rate", "5/s", "--save", "nowhere/run.yaml"), "no folder nowhere"),
        (("--rate", "5/s", "--compare", "--chunk 512", "--bad 1"), "No such option"),
        (("--rate", "5/s", "--compare", "--chunk 512", "--chunk 1k", "--curves"), "leave --compare out"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: Sequence[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*BASE, *arguments]) == 2
    out, error = capsys.readouterr()
    assert said in error
    assert error.count("\n") == 1
    assert error.startswith("infopt: ")
    assert not out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("time_s,input_tokens,output_tokens\n", "holds no requests"),
        ("time_s,input_tokens,output_tokens\n1,100,5\n0,100,5\n", "line 3"),
        ("time_s,input_tokens,output_tokens\n0,abc,5\n", "line 2"),
        ("time_s,input_tokens,output_tokens\n0,100,0\n", "line 2"),
        ("time_s,input_tokens,output_tokens,colour\n0,100,5,red\n", "colour"),
    ],
)
def test_a_bad_trace_names_its_line_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    trace, rows = tmp_path / "trace.csv", tmp_path / "rows.csv"
    trace.write_text(text, encoding="utf-8")
    assert run(["simulate", "--model", "8b", "--hw", "h100", "--trace", str(trace), "--rows", str(rows)]) == 2
    out, error = capsys.readouterr()
    assert str(trace) in error
    assert said in error
    assert error.count("\n") == 1
    assert not out
    assert sorted(tmp_path.iterdir()) == [trace]


def test_rows_have_every_request_in_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    arguments = ("--rate", "10/s", "--requests", "200", "--tenant", "a=50%", "--tenant", "b=50%", "--cancel", "20%")
    found = simulated(capsys, *arguments, "--rows", str(path))
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    names = header.split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines]
    assert len(rows) == found["requests"] == 200
    assert [float(row["sent_s"]) for row in rows] == sorted(float(row["sent_s"]) for row in rows)
    assert sum(row["end"] == "cancelled" for row in rows) == found["ended"]["cancelled"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rate", "10/s", "--requests", "200", "--interval", "--ttft", "1s"),
        (
            "--rate",
            "90/s",
            "--requests",
            "400",
            "--replicas",
            "2",
            "--lose",
            "1@1s+1s",
            "--tenant",
            "a=1",
            "--tenant",
            "b=1",
        ),
        ("--users", "4", "--requests", "60", "--no-streaming", "--batching", "static", "--static-wait", "1s"),
        ("--rate", "5/s", "--requests", "1"),
        ("--rate", "5/s", "--requests", "50", "--lose", "0@0s"),
    ],
    ids=" ".join,
)
def test_json_is_the_contract(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> None:
    assert run([*BASE, *arguments, "--json"]) in (0, 1)
    text = capsys.readouterr().out
    assert "NaN" not in text
    assert "Infinity" not in text
    found = json.loads(text)
    jsonschema.validate(found, json.loads(schema_text("simulate")), cls=jsonschema.Draft202012Validator)
    contract = {"requests", "completed", "output_tokens_per_s", "goodput_per_s", "effective_batch", "preemptions"}
    assert contract | {"prefix_hit_share", "saturated", "ttft_s", "tpot_s", "e2e_s"} <= set(found)


def test_parsers() -> None:
    assert parse_loss("2@1min").down_s is None
    assert parse_loss("2@1min").time_s == 60
    paid = parse_tenant("paid = 0.25 : 3")
    assert (paid.name, paid.share, paid.priority) == ("paid", 0.25, 3)


def test_plans_load_nothing_of_simulations() -> None:
    code = (
        "import sys; from infopt.cli import run; run(['plan','--model','8b','--hw','h100','--json']);"
        "bad = [m for m in sys.modules if 'simulat' in m or m in ('simpy', 'numpy', 'infopt.cli_traffic')];"
        "sys.exit(str(bad) if bad else 0)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
