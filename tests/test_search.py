"""Search: the front against brute force through `plan`, Little's law, the binding constraint, the command line."""

import csv
import io
import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.cli import run
from infopt.errors import InfoptError, UndeterminedError
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.estimate import Estimate
from infopt.profiles.resolve import resolve_model
from infopt.reports.schemas import schema_text
from infopt.reports.search_page import folded
from infopt.studies.planning import plan
from infopt.studies.scenarios import Request
from infopt.studies.search import Deployment, Search, Targets, plan_of, row_of, search, within
from infopt.studies.search_neighbours import neighbours
from infopt.studies.search_space import Replica, all_devices, device_at_unit_price, placements

LOAD = Request(input_tokens=2000, output_tokens=300)
TARGETS = Targets(ttft_s=0.5, tpot_s=0.04, rate_per_s=5.0)
COMMAND = ("search", "--model", "70b", "--ttft", "500ms", "--tpot", "40ms", "--rate", "5/s")
LENGTHS = ("--isl", "2000", "--osl", "300")
TWO = ("--hw", "h100,h200")


def devices(*names: str) -> list[HardwareChoice]:
    return [resolve_hardware(name) for name in names]


@cache
def searched(model: str = "70b", targets: Targets = TARGETS, hw: tuple[str, ...] = ("h100", "h200")) -> Search:
    return search(resolve_model(model), LOAD, devices(*hw), targets)


def fits_rate(d: Deployment, rate: float, replicas: int) -> bool:
    """Whether so many replicas serve the rate within the targets."""
    return d.capacity_per_s / d.replicas * replicas >= rate * (1 - 1e-9)


@pytest.mark.parametrize("model", ["70b", "8b", "gpt-oss-120b", "deepseek-v3"])
def test_every_row_is_what_plan_says_of_it(model: str) -> None:
    """Times, memory and targets of each row through the scalar path."""
    for d in searched(model).front:
        found = plan_of(d)
        assert found.fits is True
        assert isinstance(found.estimate, Estimate)
        assert found.estimate.tpot_s == pytest.approx(d.tpot_s, rel=1e-9)
        assert found.estimate.ttft_s == pytest.approx(d.ttft_s, rel=1e-9)
        assert d.ttft_s <= 0.5
        assert d.tpot_s <= 0.04
        assert d.gpus == d.replicas * d.replica.gpus <= 16
        assert d.sequences <= d.limit <= found.memory.max_sequences * found.scenario.dp


def test_littles_law_sets_concurrency_and_replicas() -> None:
    """B = rate (TTFT + OSL TPOT) a replica, rounded up to what is enough; one replica less than the fewest is not."""
    result = searched()
    for d in result.front:
        each = 5.0 / d.replicas
        needed = each * (d.ttft_s + 300 * d.tpot_s)
        assert needed <= d.sequences + 1e-9
        assert d.e2e_s == pytest.approx(d.ttft_s + 300 * d.tpot_s)
        assert fits_rate(d, 5.0, d.replicas)
        times = d.replica.times
        assert times is not None
        if d.sequences > 1:
            assert times.requests_per_s[d.sequences - 2] < each
    fewest = {id(d.replica): d for d in reversed(result.front)}
    assert all(d.replicas == 1 or d.headroom_share >= 0 for d in fewest.values())


def brute_force(hardware: HardwareChoice, tps: Sequence[int], weights: str | None) -> list[tuple[float, int, int]]:
    """(price, replicas, tp) of every feasible deployment, one scalar plan after the other."""
    found = []
    price = hardware.accelerator.usd_per_hour or math.nan
    for tp in tps:
        served = 0.0
        for batch in range(1, 257):
            one = plan(resolve_model("70b"), hardware, replace(LOAD, gpus=tp, tp=tp, batch=batch, weights=weights))
            e = one.estimate
            if not one.fits or not isinstance(e, Estimate) or e.ttft_s > 0.5 or e.tpot_s > 0.04:
                break
            served = max(served, batch / (e.ttft_s + 300 * e.tpot_s))
        if served:
            replicas = math.ceil(5.0 / served)
            found += [(r * tp * price, r, tp) for r in range(replicas, 16 // tp + 1)]
    return found


@pytest.mark.parametrize(("name", "weights"), [("h200", None), ("h100", "fp8")])
def test_the_cheapest_is_that_of_brute_force(name: str, weights: str | None) -> None:
    hardware = resolve_hardware(name)
    by_hand = brute_force(hardware, (1, 2, 4, 8), weights)
    request = replace(LOAD, weights=weights, kv="auto")
    result = search(resolve_model("70b"), request, [hardware], TARGETS)
    single = [d for d in result.front if d.replica.scenario.pp == 1]
    stored = [d for d in single if d.replica.scenario.weight_format == single[0].replica.scenario.weight_format]
    assert stored[0].usd_per_hour == pytest.approx(min(by_hand)[0])
    assert {(d.replicas, d.replica.scenario.tp) for d in stored} <= {(r, tp) for _, r, tp in by_hand}


def objectives(d: Deployment) -> tuple[float, ...]:
    s = d.replica.scenario
    return (
        d.usd_per_million_output_tokens or math.inf,
        -d.output_tokens_per_s_per_gpu,
        d.e2e_s,
        -(d.tokens_per_joule or 0.0),
        -sum(n * s.weight_bits[part] for part, n in s.model.params_by_part.items()),
        -s.kv.bits_per_element,
    )


@pytest.mark.parametrize("model", ["70b", "gpt-oss-120b"])
def test_nothing_on_the_front_is_beaten_in_everything(model: str) -> None:
    costs = [objectives(d) for d in searched(model, hw=("h100", "h200", "b200", "gb200")).front]
    assert len(costs) > 5
    for one in costs:
        for other in costs:
            beats = all(a <= b for a, b in zip(other, one, strict=True)) and other != one
            assert not beats, (one, other)


@settings(max_examples=15)
@given(tpot_ms=st.integers(12, 80), rate=st.floats(0.2, 30), wider=st.floats(1.0, 3.0))
def test_a_looser_target_never_costs_more(tpot_ms: int, rate: float, wider: float) -> None:
    def cheapest(targets: Targets) -> float:
        prices = [d.usd_per_hour or math.inf for d in searched("8b", targets, ("h200",)).front]
        return min(prices, default=math.inf)

    tight = Targets(tpot_s=tpot_ms / 1e3, rate_per_s=rate)
    assert cheapest(replace(tight, tpot_s=tpot_ms / 1e3 * wider)) <= cheapest(tight)
    assert cheapest(replace(tight, rate_per_s=rate / wider)) <= cheapest(tight)


def test_replicas_beat_tensor_parallel_where_they_serve_more() -> None:
    """Document 2: not TP 8 because there are eight devices."""
    result = search(
        resolve_model("8b"), replace(LOAD, weights="bf16"), devices("h100"), Targets(tpot_s=0.06, rate_per_s=40.0)
    )
    assert result.chosen.replicas > 1
    assert result.chosen.replica.scenario.tp == 1
    wide = {n.change: n for n in neighbours(result, result.chosen)}["tp 8"]
    assert wide.deployment is not None
    assert wide.deployment.gpus > result.chosen.gpus
    assert f"{wide.deployment.gpus / result.chosen.gpus:.3g}x the cards" in wide.verdict


BINDING = [
    ("ttft", Targets(ttft_s=0.03, tpot_s=0.04, rate_per_s=5.0)),
    ("tpot", Targets(ttft_s=0.5, tpot_s=0.004, rate_per_s=5.0)),
    ("rate", Targets(ttft_s=0.5, tpot_s=0.04, rate_per_s=500.0)),
    ("budget", Targets(ttft_s=0.5, tpot_s=0.04, rate_per_s=1.0, usd_per_hour=6.0)),
    ("gpus", Targets(ttft_s=0.3, tpot_s=0.0135, rate_per_s=2.0, max_gpus=2)),
    ("latency", Targets(ttft_s=0.01, tpot_s=0.001, rate_per_s=5.0)),
]
LOOSENED = {"ttft": "ttft_s", "tpot": "tpot_s", "rate": "rate_per_s", "budget": "usd_per_hour", "gpus": "max_gpus"}


@pytest.mark.parametrize(("constraint", "targets"), BINDING, ids=[name for name, _ in BINDING])
def test_the_binding_constraint_and_its_relaxation(constraint: str, targets: Targets) -> None:
    """The value named is enough, and a little less is not."""
    result = searched("70b", targets)
    assert not result.front
    b = result.binding
    assert b is not None
    if constraint == "latency":
        assert b.constraint == "latency"
        assert "TTFT" in b.text
        assert "TPOT" in b.text
        return
    assert any(text.startswith(f"{constraint}:") for text in (b.text, *b.others)), b
    needed = b.needed
    assert needed is not None
    field = LOOSENED[b.constraint]
    enough = int(needed) if field == "max_gpus" else needed * (0.9999 if field == "rate_per_s" else 1.0001)
    short = int(needed) - 1 if field == "max_gpus" else needed * (1.01 if field == "rate_per_s" else 0.99)
    assert searched("70b", replace(targets, **{field: enough})).front
    assert not searched("70b", replace(targets, **{field: short})).front


def test_memory_can_bind() -> None:
    result = searched("405b", replace(TARGETS, max_gpus=2), ("h100",))
    assert result.binding is not None
    assert result.binding.constraint == "memory"
    assert result.binding.needed is not None
    assert result.binding.needed > 2
    assert "h100-sxm-80gb" in result.binding.text


def test_a_budget_needs_prices() -> None:
    result = searched("8b", replace(TARGETS, usd_per_hour=50.0), ("gb200",))
    assert result.binding is not None
    assert "--price" in result.binding.text
    assert all(
        d.usd_per_hour is not None and d.usd_per_hour <= 20
        for d in searched("8b", replace(TARGETS, usd_per_hour=20.0), ("h200", "gb200")).front
    )


def test_what_was_not_measured_is_counted_and_never_guessed() -> None:
    result = searched("8b", hw=("h100", "mi300x", "tpu-v5e"))
    assert result.space.no_estimate == ("mi300x", "tpu-v5e")
    assert {d.replica.scenario.accelerator.id for d in result.front} == {"h100-sxm-80gb"}
    with pytest.raises(UndeterminedError, match="MI300X"):
        searched("8b", hw=("mi300x",))


def test_without_a_rate_one_replica_at_rising_loads() -> None:
    result = searched("8b", Targets(tpot_s=0.02), ("h200",))
    assert {d.replicas for d in result.front} == {1}
    assert len({d.sequences for d in result.front}) > 3
    assert all(d.rate_per_s == pytest.approx(d.sequences / d.e2e_s) for d in result.front)


def test_several_machines_only_as_a_last_resort() -> None:
    small = searched("70b", hw=("h100",))
    assert {d.machines for d in small.front} == {1}
    large = searched("405b", Targets(tpot_s=0.2, rate_per_s=0.5), ("h100",))
    stored = [d for d in large.front if d.replica.scenario.weight_format == "bf16"]
    assert {d.machines for d in stored} == {2}
    # The format with the most bits comes first even so.
    assert large.chosen is stored[0]


def test_pipelines_come_after_what_was_measured() -> None:
    front = searched("70b", hw=("h100", "h200")).front
    for weights in ("bf16", "fp8"):
        unmeasured = [d.beyond_measured for d in front if d.replica.scenario.weight_format == weights]
        assert unmeasured == sorted(unmeasured)


def test_placements_of_dense_models_and_mixtures() -> None:
    h100 = devices("h100")[0].accelerator
    dense = placements(resolve_model("70b"), h100, 16)
    assert set(dense) >= {(1, 1, 1, 1), (8, 1, 1, 1), (8, 2, 1, 1), (2, 4, 1, 1)}
    assert all(dp == ep == 1 for _, _, dp, ep in dense)
    mixture = placements(resolve_model("deepseek-v3"), h100, 16)
    assert set(mixture) >= {(8, 1, 1, 8), (8, 1, 1, 1), (1, 1, 8, 8), (1, 1, 16, 16), (4, 1, 2, 8), (8, 1, 2, 16)}
    assert all(tp * pp * dp <= 16 and tp <= 8 for tp, pp, dp, _ in mixture)
    assert {tp for tp, *_ in placements(resolve_model("70b"), devices("gh200")[0].accelerator, 16)} == {1}


def test_formats_follow_the_device() -> None:
    """No fp8 where there is no fp8 peak; the cap of --hw NAME:N; an instance's price shared by its devices."""
    result = searched("8b", Targets(rate_per_s=1.0), ("h100:2",))
    assert max(d.gpus for d in result.front) == 2
    assert {r.scenario.weight_format for r in result.space.replicas} - {"int4"} == {"bf16", "fp8"}
    assert {r.scenario.kv_format for r in result.space.replicas} == {"bf16", "fp8"}
    blackwell = searched("8b", Targets(rate_per_s=1.0), ("b200",))
    assert {r.scenario.weight_format for r in blackwell.space.replicas} == {"bf16", "fp8", "nvfp4"}
    refused = set(result.space.no_estimate_formats)
    assert refused.isdisjoint({r.scenario.weight_format for r in result.space.replicas})
    instance = device_at_unit_price(resolve_hardware("p5.48xlarge"))
    assert instance.usd_per_hour is None
    assert instance.gpus == 8
    whole = resolve_hardware("p5.48xlarge").usd_per_hour
    assert whole is not None
    assert instance.accelerator.usd_per_hour == pytest.approx(whole / 8)


def test_times_rise_with_concurrency() -> None:
    """What `within` rests on."""
    for model in ("70b", "deepseek-v3"):
        for replica in searched(model).space.replicas:
            if replica.times is not None:
                for values in (replica.times.ttft_s, replica.times.tpot_s):
                    assert (values[1:] >= values[:-1]).all(), model
                assert within(replica, Targets()) == len(replica.times.sequences)


def test_rows_are_named_from_1() -> None:
    result = searched()
    assert row_of(result, 1) is result.chosen
    for number in (0, len(result.front) + 1):
        with pytest.raises(InfoptError, match="rows 1 to"):
            row_of(result, number)


def verdicts(result: Search) -> dict[str, str]:
    return {n.change: n.verdict for n in neighbours(result, result.chosen)}


def test_neighbours_say_why_they_lost() -> None:
    told = verdicts(search(resolve_model("70b"), LOAD, devices("h200"), replace(TARGETS, ttft_s=None)))
    assert "not hold the weights" in told["tp 1"]
    assert any(change.startswith("fp8 weights") for change in told)
    assert "fp8 cache" in told
    slow = searched("70b", Targets(tpot_s=0.0146, rate_per_s=0.5), ("h200",))
    assert any("TPOT" in verdict and "one sequence" in verdict for verdict in verdicts(slow).values())
    several = searched("70b", Targets(ttft_s=0.5, tpot_s=0.04, rate_per_s=12.0), ("h200",))
    assert several.chosen.replicas > 1
    fewer = [verdict for change, verdict in verdicts(several).items() if change in ("one replica", "2 replicas")]
    assert any(verdict.startswith("only ") for verdict in fewer)


def test_70b_over_all_accelerators_is_fast() -> None:
    """Under 3 s on one core (measured: about 1)."""
    started = time.process_time()
    result = search(resolve_model("70b"), LOAD, all_devices(), TARGETS)
    assert time.process_time() - started < 3
    assert result.space.looked_at > 300_000
    assert result.space.accelerators + len(result.space.no_estimate) == len(all_devices())


# The command line


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert run([*COMMAND, *LENGTHS, *arguments]) == status
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_json_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, *TWO, "--json"))
    jsonschema.validate(data, json.loads(schema_text("search")), cls=jsonschema.Draft202012Validator)
    assert data["schema"] == "infopt/search/1"
    assert data["binding"] is None
    plan_schema = json.loads(schema_text("plan"))
    for rank, row in enumerate(data["front"], start=1):
        jsonschema.validate(row, plan_schema, cls=jsonschema.Draft202012Validator)
        assert row["rank"] == rank
        assert row["estimate"]["tpot_s"] <= 0.04
        assert row["replicas"] * row["estimate"]["output_tokens_per_s"] >= 1500 * (1 - 1e-9)
        assert row["usd_per_million_output_tokens"] == pytest.approx(row["usd_per_hour"] / 1500 / 3600 * 1e6)
        assert row["command"].startswith("vllm serve ")
        assert row["neighbours"]


def test_nothing_feasible_is_status_1_with_the_constraint(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, *TWO, "--tpot", "4ms", "--json", status=1))
    jsonschema.validate(data, json.loads(schema_text("search")), cls=jsonschema.Draft202012Validator)
    assert data["front"] == []
    assert data["binding_constraint"] == "tpot"
    assert data["binding_needed"] > 0.004
    page = printed(capsys, *TWO, "--tpot", "4ms", status=1)
    assert "NOTHING MEETS THE TARGETS" in page
    assert "nearest" in page
    assert "Nothing meets" in printed(capsys, *TWO, "--tpot", "4ms", "--format", "md", status=1)


def test_the_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        page = printed(capsys, *TWO)
        assert max(len(line) for line in page.splitlines()) <= width
        for words in (
            "bf16 weights  as stored",
            "ROW 1  the cheapest, weights as stored",
            "NEIGHBOURS",
            "head-room",
            "vllm serve",
        ):
            assert words in page
    assert "scenarios:" in page
    assert "1 accelerators have no estimate" not in page


def test_other_forms(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *TWO, "--format", "csv"))))
    data = json.loads(printed(capsys, *TWO, "--json"))
    assert len(rows) == len(data["front"])
    assert float(rows[0]["tpot_s"]) == data["front"][0]["estimate"]["tpot_s"]
    text = printed(capsys, *TWO, "--format", "md")
    assert "**Row 1**" in text
    assert "| neighbour | against row 1 |" in text


def test_one_row_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, *TWO, "--row", "2")
    assert shown.startswith("ROW 2")
    assert "against row 2" in shown
    assert "explained" not in shown
    assert "BANDWIDTH, explained" in printed(capsys, *TWO, "--row", "2", "--explain")
    assert printed(capsys, *TWO, "--explain").startswith("ROW 1")
    row = json.loads(printed(capsys, *TWO, "--row", "2", "--explain", "--json"))
    jsonschema.validate(row, json.loads(schema_text("plan")), cls=jsonschema.Draft202012Validator)
    assert row["rank"] == 2
    assert row["terms"]
    assert "**Row 2**" in printed(capsys, *TWO, "--row", "2", "--format", "md")
    assert len(printed(capsys, *TWO, "--row", "2", "--format", "csv").splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--ttft", "0"), 2),
        (("--ttft", "0ms"), 2),
        (("--tpot", "fast"), 2),
        (("--rate", "-5/s"), 2),
        (("--rate", "0/s"), 2),
        (("--rate", "5"), 2),
        (("--budget", "0/h"), 2),
        (("--budget", "20/day"), 2),
        (("--max-gpus", "0"), 2),
        (("--hw", "h1000"), 2),
        (("--hw", "h100,"), 2),
        (("--hw", "mi300x"), 4),
        (("--weights", "fp9"), 2),
        (("--kv", "int2"), 2),
        (("--engine", "vlm"), 2),
        (("--row", "9999"), 2),
        (("--row", "0"), 2),
        (("--plot", "no/such/folder/front.svg"), 2),
        (("--plot", "front.gif"), 2),
        (("--price", "h100"), 2),
        (("--ctx", "1k"), 2),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else " ".join(value),
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int) -> None:
    hardware = () if "--hw" in arguments else TWO
    assert run([*COMMAND, *LENGTHS, *hardware, *arguments]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("infopt: ")
    assert err.count("\n") == 1


def test_units_of_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    first = printed(capsys, *TWO, "--budget", "30/h", "--json")
    assert first == printed(capsys, *TWO, "--budget", "$30", "--rate", "300/min", "--ttft", "0.5s", "--json")
    assert all(row["usd_per_hour"] <= 30 for row in json.loads(first)["front"])


def test_a_price_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, *TWO, "--price", "h100=0.10", "--json"))
    best = data["front"][0]
    assert best["hardware"]["id"] == "h100-sxm-80gb"
    assert best["usd_per_hour"] == pytest.approx(0.1 * best["gpus"])


def test_a_plot(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "front.svg"
    status = run([*COMMAND, *LENGTHS, *TWO, "--plot", str(target)])
    assert status == 0, capsys.readouterr().err
    assert "<svg" in target.read_text(encoding="utf-8")


def test_a_folded_command_is_the_same_command() -> None:
    parts = ("vllm serve org/model", "--one 1", "--two 'a b'", "--three 333333333333")
    assert "".join(folded(parts, 30)).replace("\\", "").split() == " ".join(parts).split()
    assert max(len(line) for line in folded(parts, 30)) <= 30


def test_replicas_keep_their_request() -> None:
    """A row of the front can be asked of `plan` again."""
    replica: Replica = searched().chosen.replica
    again = plan(resolve_model("70b"), replica.hardware, replace(replica.request, batch=searched().chosen.sequences))
    assert isinstance(again.estimate, Estimate)
    assert again.estimate.tpot_s == pytest.approx(searched().chosen.tpot_s)
