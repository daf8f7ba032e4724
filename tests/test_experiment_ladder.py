"""`experiment ladder`: one variable at a time, what stays, what is not simulated, and the commands it prints."""

import itertools
import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from experiment_runs import run_with

from infopt.arrivals.synthetic import Lengths, SharedPrefix, Synthetic
from infopt.arrivals.traces import open_trace
from infopt.cli import run
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.reports.schemas import schema_text
from infopt.simulation.summary import Targets
from infopt.studies.experiment_commands import save_line, start_of
from infopt.studies.experiment_ladder import Ladder, Trial, chosen, climb, judge, ladder_data, steps
from infopt.studies.experiment_trial import Tried, reseeded, seeded, tried, with_knobs
from infopt.studies.experiment_values import Try, values_of
from infopt.studies.experiment_variables import differences
from infopt.studies.saved_run import SavedRun, read_run
from infopt.studies.scenarios import Request
from infopt.studies.simulate import Choices, Job

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT.parent / "shared" / "documents" / "2-batch-kv-quantization-parallelism.txt"
BENCH = str(ROOT / "tests" / "data" / "benchmarks" / "vllm_serve.json")
MODEL = resolve_model("8b")


def job(hw: str = "h100", rate_per_s: float = 20.0, requests: int = 200, prefix: bool = False, **asked: Any) -> Job:
    source = Synthetic(
        inputs=Lengths(1000, 0.5),
        outputs=Lengths(200, 0.5),
        rate_per_s=rate_per_s,
        requests=requests,
        shared=SharedPrefix(512) if prefix else None,
    )
    request = Request(input_tokens=1000, output_tokens=200, **asked)
    return Job(MODEL, resolve_hardware(hw), request, source, Choices(), Targets(ttft_s=0.2, tpot_s=0.02))


@pytest.fixture(scope="module")
def ladder() -> Ladder:
    return climb(job(), 3, workers=1)


@pytest.fixture(scope="module")
def split_ladder() -> Ladder:
    return climb(job("h100:4", prefix=True), 3, quality_holds=True, workers=1)


def bases(found: Ladder) -> Iterator[tuple[SavedRun, Trial]]:
    """Each trial with figures beside the run it was tried on top of."""
    best = found.baseline
    for climbed in found.rungs:
        for trial in climbed.trials:
            if trial.tried.run is not None:
                yield best.found[0], trial
            if trial.judged.outcome == "kept":
                best = trial.tried


@pytest.mark.parametrize("name", ["ladder", "split_ladder"])
def test_every_value_is_one_variable_away(name: str, request: pytest.FixtureRequest) -> None:
    found = list(bases(request.getfixturevalue(name)))
    assert len(found) > 10
    for before, trial in found:
        run = trial.tried.found[0]
        both = [knob for knob in before.defaulted if knob in run.defaulted]
        changes = differences(before.configuration, run.configuration, both).changes
        assert len(changes) == 1, (trial.variable, trial.value)
        assert trial.variable in [knob for knob, _, _ in changes[0].knobs]


def test_every_value_has_the_same_requests(ladder: Ladder) -> None:
    for _, trial in bases(ladder):
        run = trial.tried.found[0]
        assert run.repetitions is not None
        assert [one.key for one in run.repetitions.runs] == ["seed-0", "seed-1", "seed-2"]
        assert run.traffic == ladder.baseline.found[0].traffic


def test_what_stays_gained_beyond_chance(ladder: Ladder, split_ladder: Ladder) -> None:
    kept = [*chosen(ladder), *chosen(split_ladder)]
    assert kept
    for trial in kept:
        judged = trial.judged
        assert judged.gain_ratio is not None
        assert judged.half_ratio is not None
        assert judged.gain_ratio - 1 > judged.half_ratio or judged.reason == "keeps up"


def test_fewer_bits_wait_for_quality(ladder: Ladder, split_ladder: Ladder) -> None:
    outcomes = {
        (trial.variable, trial.value): trial.judged.outcome for climbed in ladder.rungs for trial in climbed.trials
    }
    assert outcomes["weights", "fp8"] == "needs quality"
    assert ladder.best.found[0].configuration["weights"] == "bf16"
    assert split_ladder.best.found[0].configuration["weights"] == "fp8"


def test_what_was_not_measured_has_no_figures(ladder: Ladder) -> None:
    unknown = [trial for climbed in ladder.rungs for trial in climbed.trials if trial.judged.outcome == "no estimate"]
    assert unknown
    assert all(trial.tried.run is None and "not measured" in trial.judged.reason for trial in unknown)


def test_given_devices_are_split_otherwise(split_ladder: Ladder) -> None:
    rung = next(climbed for climbed in split_ladder.rungs if climbed.rung.id == "parallelism")
    placed = [trial.tried.found[0].configuration for trial in rung.trials]
    assert placed
    assert {c["gpus"] for c in placed} == {4}
    assert all(int(c["tp"]) * int(c["pp"]) * int(c["dp"]) == 4 for c in placed)  # type: ignore[arg-type]


def test_the_baseline_is_the_documents_unless_told(ladder: Ladder) -> None:
    assert ladder.departs == ()
    other = climb_only_baseline(job(weights="fp8", max_num_seqs=64, gpus=2, dp=2))
    assert other == ("weights fp8", "max_num_seqs 64", "2 replicas")


def climb_only_baseline(base: Job) -> tuple[str, ...]:
    from infopt.studies.experiment_ladder import _departures

    return tuple(_departures(tried(base, 1, 1)))


def test_what_is_not_simulated_says_so(ladder: Ladder) -> None:
    silent = {climbed.rung.id: climbed for climbed in ladder.rungs if climbed.unknown}
    assert set(silent) == {"speculation", "offload", "prefill-decode"}
    assert all(not climbed.trials for climbed in silent.values())
    assert silent["speculation"].boundary is not None
    assert silent["speculation"].boundary.verdict == "measure"
    assert silent["prefill-decode"].boundary is None


def test_a_prefix_is_tried_where_prompts_share_one(ladder: Ladder, split_ladder: Ladder) -> None:
    without, shared = (
        {climbed.rung.id: climbed for climbed in found.rungs}["prefix"] for found in (ladder, split_ladder)
    )
    assert not without.trials
    assert "begin alike" in without.notes[0]
    assert [trial.value for trial in shared.trials] == [False]
    assert shared.trials[0].judged.outcome in ("worse", "no gain")


@pytest.mark.shared
@pytest.mark.skipif(not DOCUMENT.is_file(), reason="no ../shared here")
def test_the_rungs_are_the_documents() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    section = text[text.index("14. Tuning Experiment Design") : text.index("15. Realistic Workload Matrix")]
    assert ladder_data().baseline in section
    lines = [line.strip().removeprefix("→ ") for line in section.splitlines() if line.strip().startswith("→")]
    english = [line for line in lines if line.isascii()]
    words = (
        "batch/concurrency",
        "KV cache and context",
        "prefix cache",
        "quantization",
        "TP/PP/DP",
        "speculative",
        "offload/P-D",
    )
    assert [word for line, word in zip(english, words, strict=True) if word in line] == list(words)
    gates = text[text.index("16. Performance and Quality Gates") : text.index("17. Common Anti-Optimizations")]
    assert len(gates.split()) == 5, "section 16 has a text after all: take its gates"


# Judging


def trial_of(base: Job, **changed: Any) -> Tried:
    return Tried(base, run_with(**changed), None)


@pytest.fixture(scope="module")
def simulation() -> Any:
    return tried(job(requests=60), 1, 1).simulation


def judged(simulation: Any, before: dict[str, Any], after: dict[str, Any], quality_holds: bool = False) -> Any:
    pair = [Tried(job(), run_with(**given), simulation) for given in (before, after)]
    return judge(*pair, quality_holds)


MORE = {"max_num_seqs": 512}
E2E = (5.0, 5.1, 4.9)


def metrics(share: float, per_s: float, e2e: tuple[float, ...] = E2E) -> dict[str, tuple[float, ...]]:
    wobble = (0.999, 1.0, 1.001)
    return {
        "good_share": tuple(min(1.0, share * w) for w in wobble),
        "goodput_per_s": tuple(per_s * w for w in wobble),
        "output_tokens_per_s": tuple(200 * per_s * w for w in wobble),
        "e2e_mean_s": e2e,
    }


@pytest.mark.parametrize(
    ("before", "after", "outcome", "metric"),
    [
        ((0.5, 10), (0.95, 19), "kept", "good_share"),  # reaches the share that is asked for
        ((0.95, 19), (0.5, 10), "worse", "good_share"),
        ((0.5, 10), (0.7, 14), "kept", "goodput_per_s"),  # both miss: more goodput
        ((0.95, 19), (0.95, 19), "no gain", "e2e_mean_s"),
        ((0.95, 19), (0.95, 19, (4.0, 4.1, 3.9)), "kept", "e2e_mean_s"),  # as much, sooner
        ((0.95, 19), (0.95, 19, (6.0, 6.1, 5.9)), "worse", "e2e_mean_s"),
    ],
)
def test_values_stay_by_the_rules(simulation: Any, before: Any, after: Any, outcome: str, metric: str) -> None:
    found = judged(simulation, {"metrics": metrics(*before)}, {"metrics": metrics(*after), "configuration": MORE})
    assert (found.outcome, found.metric) == (outcome, metric)


def test_more_devices_count_per_device(simulation: Any) -> None:
    two = {"gpus": 2, "tp": 2}
    same = judged(simulation, {"metrics": metrics(0.95, 19)}, {"metrics": metrics(0.96, 19.2), "configuration": two})
    assert same.outcome == "worse"
    assert same.gain_ratio == pytest.approx(0.505, rel=0.01)
    needed = judged(simulation, {"metrics": metrics(0.5, 10)}, {"metrics": metrics(0.95, 19), "configuration": two})
    assert needed.outcome == "kept"


def test_keeping_up_comes_first(simulation: Any) -> None:
    full = {"metrics": {"output_tokens_per_s": (9.0, 9.1, 9.2)}, "saturated": True}
    found = judged(simulation, full, {"metrics": metrics(0.5, 10), "configuration": MORE})
    assert (found.outcome, found.reason) == ("kept", "keeps up")
    back = judged(simulation, {"metrics": metrics(0.95, 19)}, full | {"configuration": MORE})
    assert (back.outcome, back.reason) == ("worse", "saturated")


def test_quality_is_asked_only_of_gains(simulation: Any) -> None:
    few = {"weights": "fp8"}
    gain = {"metrics": metrics(0.95, 19), "configuration": few}
    assert judged(simulation, {"metrics": metrics(0.5, 10)}, gain).outcome == "needs quality"
    assert judged(simulation, {"metrics": metrics(0.5, 10)}, gain, quality_holds=True).outcome == "kept"
    loss = {"metrics": metrics(0.5, 10), "configuration": few}
    assert judged(simulation, {"metrics": metrics(0.95, 19)}, loss).outcome == "worse"


def test_two_variables_at_once_are_never_tried(simulation: Any) -> None:
    with pytest.raises(AssertionError, match="one variable at a time"):
        judged(
            simulation,
            {"metrics": metrics(0.5, 10)},
            {"metrics": metrics(0.95, 19), "configuration": MORE | {"prefix_caching": False}},
        )


# Values, seeds


def test_values_go_down_and_up_from_the_present_one(ladder: Ladder) -> None:
    asked = values_of(Try(knob="max_num_batched_tokens", values=[2048, 4096, 8192, 16384]), ladder.baseline, 3)
    ways = [[values["max_num_batched_tokens"] for values in way] for way in asked.ways]
    assert ways == [[4096, 2048], [16384]]


def test_the_longest_request_of_all_seeds_fits(ladder: Ladder) -> None:
    asked = values_of(Try(knob="context_tokens", rule="longest"), ladder.baseline, 3)
    longest = max(
        one.input_tokens + one.output_tokens for each in seeded(ladder.baseline.job, 3) for one in each.source.stream()
    )
    value = asked.ways[0][0]["context_tokens"]
    assert isinstance(value, int)
    assert longest <= value < longest + 256


def test_seeds_change_the_draw_and_nothing_else() -> None:
    source = job().source
    one, same, other = (list(itertools.islice(reseeded(source, seed).stream(), 20)) for seed in (1, 1, 2))
    assert one == same != other
    trace = open_trace("azure-conv", most_requests=10)
    assert reseeded(trace, 7) is trace


def test_a_trace_has_parts_in_the_place_of_seeds() -> None:
    found = tried(replace(job(), source=open_trace("azure-conv", most_requests=400)), 5, 1)
    run = found.found[0]
    assert run.repetitions is not None
    assert run.repetitions.kind == "parts"


def test_a_knob_that_no_job_has_is_refused() -> None:
    with pytest.raises(InfoptError, match="no knob that a simulation can try"):
        with_knobs(job(), {"offload": "dram"})


def test_chance_needs_three_draws() -> None:
    with pytest.raises(InfoptError, match="at least 3"):
        climb(job(), 2)


# Commands


def test_start_lines_say_what_was_set() -> None:
    made = with_knobs(job(requests=60), {"max_num_batched_tokens": 2048, "prefix_caching": False, "tp": 2})
    start = start_of(tried(made, 1, 1))
    words = shlex.split(start.text)
    assert words[:3] == ["vllm", "serve", MODEL.id]
    for pair in (("--max-num-batched-tokens", "2048"), ("--tensor-parallel-size", "2"), ("--max-model-len", "131072")):
        assert words[words.index(pair[0]) + 1] == pair[1]
    assert "--no-enable-prefix-caching" in words


def test_a_measurement_is_saved_under_the_same_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed command, run on a benchmark's result, gives the knobs of the step that it belongs to."""
    knobs = {"max_num_batched_tokens": 2048, "prefix_caching": False, "tp": 2, "weights": "fp8", "utilization": 0.95}
    found = tried(with_knobs(job(requests=60), knobs), 1, 1)
    out = tmp_path / "run.yaml"
    assert run(shlex.split(save_line(found, BENCH, str(out)))[1:]) == 0
    capsys.readouterr()
    saved, simulated = read_run(out).configuration, found.found[0].configuration
    for name in (*knobs, "gpus", "kv", "engine", "max_num_seqs"):
        assert saved[name] == simulated[name], name


def test_steps_are_saved_in_order(split_ladder: Ladder) -> None:
    names = [name for name, _ in steps(split_ladder)]
    assert names[0] == "0-baseline.yaml"
    assert [int(name.partition("-")[0]) for name in names] == list(range(len(names)))
    assert len(names) == 1 + len(chosen(split_ladder))


BASE = (
    *("experiment", "ladder", "--model", "8b", "--hw", "h100", "--isl", "1000", "--osl", "200", "--rate", "20/s"),
    *("--requests", "120", "--seeds", "3", "--workers", "1"),
)
TARGETS = ("--ttft", "200ms", "--tpot", "12ms")


def test_json_follows_its_schema_and_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for _ in range(2):
        assert run([*BASE, *TARGETS, "--json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    schema = json.loads(schema_text("experiment_ladder"))
    jsonschema.validate(json.loads(texts[0]), schema, cls=jsonschema.Draft202012Validator)


def test_the_page_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*BASE, *TARGETS, "--save", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert max(map(len, printed.out.splitlines())) <= 80
    assert "TARGETS MET" in printed.out
    saved = sorted(tmp_path.iterdir())
    assert len(saved) >= 2
    assert run(["experiment", "compare", *map(str, saved)]) in (0, 4)


@pytest.mark.parametrize("form", ["md", "csv"])
def test_other_forms(capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert run([*BASE, "--format", form]) == 0
    assert "max_num_batched_tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--model", "70b", "--hw", "h100", "--rate", "1/s"), 1, "it does not fit"),
        (("--model", "8b", "--hw", "l4", "--rate", "1/s"), 4, "no step time"),
        (("--model", "8b", "--rate", "1/s"), 2, "--hw is missing"),
        (("--model", "8b", "--hw", "h100"), 2, "what arrives is not said"),
        (("--model", "8b", "--hw", "h100", "--rate", "1/s", "--seeds", "2"), 2, "at least 3"),
        (("--model", "8b", "--hw", "h100", "--rate", "1/s", "--save", "/none"), 2, "is no folder"),
    ],
)
def test_exit_statuses(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, says: str) -> None:
    assert run(["experiment", "ladder", "--isl", "1000", "--osl", "200", *arguments]) == status
    printed = capsys.readouterr()
    assert says in printed.err
    assert not printed.out


def test_targets_that_nothing_reaches_end_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*BASE, "--ttft", "1ms"]) == 1
    assert "NOT YET" in capsys.readouterr().out
