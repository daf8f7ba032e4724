"""The cost ladder: each step against `plan`, its bounds, what is skipped, and every form."""

import csv
import io
import json
import re
from dataclasses import replace
from functools import cache

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.cli import run
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.estimate import Estimate, NoEstimate
from infopt.profiles.resolve import resolve_model
from infopt.reports.schemas import schema_text
from infopt.studies.ladder import Knobs, Ladder, Step, document, ladder
from infopt.studies.ladder_steps import Rung, Served, fewest_sequences, most_sequences, served
from infopt.studies.planning import plan
from infopt.studies.reproduce import reproduce
from infopt.studies.scenarios import Request, build

LOAD = Request(input_tokens=2000, output_tokens=300)
COMMAND = ("plan", "--model", "70b", "--isl", "2000", "--osl", "300", "--hw", "h100:4", "--ladder")


@cache
def climbed(model: str = "70b", hw: str = "h100:4", load: Request = LOAD, knobs: Knobs | None = None) -> Ladder:
    return ladder(resolve_model(model), resolve_hardware(hw), load, knobs or Knobs())


def step_of(found: Ladder, id: str) -> Step:
    return next(step for step in found.steps if step.id == id)


def served_of(step: Step) -> Served:
    assert step.served is not None, step.reason
    return step.served


def rung_of(step: Step) -> Rung:
    assert step.rung is not None, step.reason
    return step.rung


@pytest.mark.parametrize("load", [LOAD, replace(LOAD, dp=2, gpus=4, tp=2)], ids=["tp 4", "dp 2"])
@pytest.mark.parametrize("model", ["70b", "gpt-oss-120b"])
def test_steps_without_cache_or_drafts_are_what_plan_says(model: str, load: Request) -> None:
    for id in ("single", "batching", "weights"):
        step = step_of(climbed(model, "h100:4", load), id)
        if step.served is None:
            continue
        rung = rung_of(step)
        request = replace(load, batch=rung.scenario.batch, weights=rung.request.weights)
        found = plan(resolve_model(model), resolve_hardware("h100:4"), request)
        assert isinstance(found.estimate, Estimate)
        assert step.served.tokens_per_s == pytest.approx(found.estimate.output_tokens_per_s, rel=1e-9)
        assert step.served.tpot_s == pytest.approx(found.estimate.tpot_s, rel=1e-9)
        assert found.cost is not None
        assert step.usd_per_million_output_tokens == pytest.approx(found.cost.usd_per_million_output_tokens, rel=1e-9)
        assert found.fits is True


def test_the_batch_is_the_largest_that_fits() -> None:
    rung = rung_of(step_of(climbed(), "batching"))
    assert isinstance(served(rung), Served)
    assert isinstance(served(replace(rung, sequences=rung.sequences + 1)), NoEstimate)


@settings(max_examples=20, deadline=None)
@given(target_ms=st.floats(17.5, 80))
def test_the_batch_is_the_largest_within_a_target(target_ms: float) -> None:
    rung = rung_of(step_of(climbed(), "single"))
    most = most_sequences(rung, target_ms / 1e3)
    assert isinstance(most, Rung)
    assert served_within(most, target_ms)
    above = replace(most, sequences=most.sequences + 1)
    assert not served_within(above, target_ms)


def served_within(rung: Rung, target_ms: float) -> bool:
    found = served(rung)
    return isinstance(found, Served) and found.tpot_s <= target_ms / 1e3


def test_a_target_that_a_single_sequence_misses_leaves_no_batch() -> None:
    found = climbed(knobs=Knobs(tpot_s=0.001))
    assert "more than the target" in (step_of(found, "batching").reason or "")
    assert "already misses" in step_of(found, "single").note


def test_the_fewest_sequences_for_a_gain_are_found() -> None:
    many = rung_of(step_of(climbed(), "batching"))
    goal = 8 * served_of(step_of(climbed(), "single")).tokens_per_s
    count = fewest_sequences(many, goal)
    assert count is not None
    enough, less = (served(replace(many, sequences=n)) for n in (count, count - 1))
    assert isinstance(enough, Served)
    assert isinstance(less, Served)
    assert less.tokens_per_s < goal <= enough.tokens_per_s
    assert fewest_sequences(many, 1e9) is None


def test_formats_that_were_not_measured_are_named_and_never_guessed() -> None:
    step = step_of(climbed(), "weights")
    assert rung_of(step).scenario.weight_format == "fp8"
    assert "int4, nvfp4 weights were not measured" in step.note
    newest = step_of(climbed("70b", "b200:2"), "weights")
    assert rung_of(newest).scenario.weight_format == "nvfp4"
    skipped = step_of(climbed("gpt-oss-120b", "h100:4"), "weights")
    assert skipped.rung is None
    assert skipped.reason


@settings(max_examples=30, deadline=None)
@given(
    hit=st.floats(0, 1),
    isl=st.integers(1, 8000),
    osl=st.integers(1, 2000),
    model=st.sampled_from(["8b", "70b", "gpt-oss-120b"]),
)
def test_a_prompt_cache_gains_at_most_the_prompts_share(hit: float, isl: int, osl: int, model: str) -> None:
    load = Request(input_tokens=isl, output_tokens=osl)
    found = ladder(resolve_model(model), resolve_hardware("h200:4"), load, Knobs(cached_share=hit))
    step = step_of(found, "prompt-cache")
    assert step.gain_ratio is not None
    assert step.most_ratio is not None
    assert 1 - 1e-9 <= step.gain_ratio <= step.most_ratio * (1 + 1e-9)


def test_a_prompt_cache_pays_more_for_long_prompts_and_never_what_the_document_has() -> None:
    """Its 3.33x at 70 % hits is 1 / (1 - 0.7): requests that are all prefill."""
    gains = [
        step_of(climbed(load=Request(input_tokens=isl, output_tokens=300)), "prompt-cache").gain_ratio
        for isl in (100, 1000, 4000)
    ]
    assert gains == sorted(gains, key=lambda gain: gain or 0)
    step = step_of(climbed(), "prompt-cache")
    assert step.theirs.gain_ratio == pytest.approx(1 / (1 - 0.7))
    assert step.holds is False
    assert "all prefill" in step.note


def test_the_first_rung_without_a_cache_hit_is_unchanged() -> None:
    step = step_of(climbed(knobs=Knobs(cached_share=0.0)), "prompt-cache")
    assert step.gain_ratio == pytest.approx(1)


def test_speculation_is_skipped_where_its_cycle_was_not_measured_and_bounded_all_the_same() -> None:
    step = step_of(climbed(), "speculation")
    assert step.rung is None
    assert step.most_ratio is not None
    assert 1 < step.most_ratio < 2
    assert step.holds is False
    assert "one sequence only" in (step.reason or "")
    sglang = step_of(climbed(load=replace(LOAD, engine="sglang")), "speculation")
    assert sglang.reason == "no cycle was measured on sglang"


def test_speculation_at_one_sequence_is_tokens_over_the_measured_cycle() -> None:
    """A target that leaves a single sequence: EAGLE3 cycles of 1.17 steps on vLLM, (1 - a^6) / (1 - a) tokens."""
    one = served_of(step_of(climbed(), "single"))
    load = replace(LOAD, weights="fp8")
    first = served_of(step_of(climbed(load=load), "single"))
    found = climbed(load=load, knobs=Knobs(tpot_s=first.tpot_s * 1.0001, acceptance_ratio=0.5, drafted_tokens=3))
    step = step_of(found, "speculation")
    assert rung_of(step).sequences == 1
    tokens = 1.875
    assert served_of(step).tpot_s == pytest.approx(first.tpot_s * 1.17 / tokens)
    assert step.gain_ratio is not None
    assert step.most_ratio is not None
    assert 1 < step.gain_ratio <= step.most_ratio
    assert first.tokens_per_s > one.tokens_per_s


def test_prediction_layers_are_needed_where_they_were_measured() -> None:
    load = replace(LOAD, engine="tensorrt-llm")
    assert "has not" in (step_of(climbed(load=load), "speculation").reason or "")
    assert "one sequence only" in (step_of(climbed("deepseek-v3", "h200:8", load), "speculation").reason or "")


def test_where_nothing_was_measured_there_is_no_ladder_but_reasons() -> None:
    found = climbed("8b", "l4")
    assert found.gain_ratio is None
    assert all(step.served is None and step.reason for step in found.steps)


def test_the_documents_figures_are_those_of_its_claims() -> None:
    claims = {item.id: item for item in reproduce() if item.id.startswith("d3-cost-")}
    names = ("naive", "vllm", "int4", "speculation", "prompt-cache")
    for row, name in zip(document()["steps"], names, strict=True):
        item = claims[f"d3-cost-{name}"]
        assert item.theirs is not None
        assert (item.theirs.low, item.theirs.high) == (row["usd_per_million"], row["usd_per_million"])
        assert f"{row['tokens_per_s']:,} tok/s" in item.statement


def test_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {}
    for form in ("table", "json", "csv", "md"):
        assert run([*COMMAND, "--format", form]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        texts[form] = captured.out
    data = json.loads(texts["json"])
    jsonschema.validate(data, json.loads(schema_text("ladder")))
    rows = list(csv.DictReader(io.StringIO(texts["csv"])))
    assert [row["step"] for row in rows] == [step["step"] for step in data["steps"]]
    assert float(rows[1]["gain_ratio"]) == pytest.approx(data["steps"][1]["gain_ratio"])
    for text in (texts["table"], texts["md"]):
        assert "doc tok/s" in text
        assert "does not hold here" in text
    assert data["gain_ratio"] == pytest.approx(
        data["steps"][-1]["output_tokens_per_s"] / data["steps"][0]["output_tokens_per_s"]
    )


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(list(COMMAND)) == 0
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= width


def test_without_a_price_there_is_throughput_and_a_way_to_add_the_money(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--model", "8b", "--hw", "gh200", "--ladder"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    if "none is known" in text:
        assert "--price gh200" in text
    assert run(["plan", "--model", "8b", "--hw", "gh200", "--ladder", "--price", "gh200=3"]) == 0
    assert re.search(r"\$3\.00 an hour", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--tpot", "40ms"), 2, "--tpot is a target of --ladder"),
        (("--ladder", "--explain"), 2, "a page of its own"),
        (("--ladder", "--monthly", "5/s"), 2, "a page of its own"),
        (("--ladder", "--tpot", "0ms"), 2, "more than 0"),
        (("--ladder", "--acceptance", "120%"), 2, "more than the whole"),
        (("--ladder", "--drafted", "0"), 2, "at least 1"),
    ],
)
def test_what_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, says: str
) -> None:
    assert run(["plan", "--model", "8b", "--hw", "h100", *arguments]) == status
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def test_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--model", "8b", "--ladder"]) == 2
    assert "--hw" in capsys.readouterr().err
    assert run(["plan", "--model", "8b", "--hw", "l4", "--ladder"]) == 4
    assert run(["plan", "--model", "405b", "--hw", "h100:1", "--ladder"]) == 1


def test_calibrated_points_move_the_ladder() -> None:
    built = build(resolve_model("70b"), resolve_hardware("h100:4"), LOAD)
    pointed = replace(LOAD, points=("batch=1,tpot=34ms,isl=2000,osl=300",))
    plain = served(Rung(built, LOAD, 1))
    slow = served(Rung(built, pointed, 1))
    assert isinstance(plain, Served)
    assert isinstance(slow, Served)
    assert slow.tpot_s == pytest.approx(0.034, rel=1e-6)
    assert slow.tpot_s > plain.tpot_s
