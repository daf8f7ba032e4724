"""Saved runs: of simulations and measurements, written and read back, and what they refuse."""

import csv
import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import yaml
from experiment_runs import run_with

from infopt.arrivals.clients import Clients, Tenant
from infopt.arrivals.synthetic import Lengths, Synthetic
from infopt.arrivals.traces import open_trace
from infopt.cli import run
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.observing.observation import Observation, Spread
from infopt.profiles.resolve import resolve_model
from infopt.reports.schemas import schema_text
from infopt.simulation.summary import Targets
from infopt.studies.experiment_compare import compare_runs
from infopt.studies.saved_observation import run_from_observation
from infopt.studies.saved_run import Hardware, SavedRun, parse_quality, read_run, run_text, save_run, write_run
from infopt.studies.saved_simulation import described, fingerprint, run_of
from infopt.studies.scenarios import Request
from infopt.studies.simulate import Choices, Job, Simulation, simulated

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "tests" / "data" / "benchmarks"
BENCH = str(BENCHMARKS / "vllm_serve.json")


def job(
    rate_per_s: float = 10.0, requests: int = 1200, seed: int = 1, choices: Choices | None = None, **asked: Any
) -> Job:
    source = Synthetic(
        inputs=Lengths(800, 0.5), outputs=Lengths(100, 0.5), rate_per_s=rate_per_s, requests=requests, seed=seed
    )
    chosen = choices or Choices(keep_rows=True, saturation=False)
    request = Request(input_tokens=800, output_tokens=100, **asked)
    return Job(resolve_model("8b"), resolve_hardware("h100"), request, source, chosen, Targets(ttft_s=0.2, tpot_s=0.02))


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return simulated(job())


@pytest.mark.parametrize("name", ["run.yaml", "run.json"])
def test_a_simulation_is_read_back_as_it_was_saved(tmp_path: Path, simulation: Simulation, name: str) -> None:
    quality = [parse_quality("mmlu", "71.2%:14042")]
    saved = save_run(tmp_path / name, simulation, quality, name="baseline", date="2026-11-30")
    assert read_run(tmp_path / name) == saved
    assert saved.quality[0].value == 0.712
    assert saved.date == "2026-11-30"


def test_the_same_run_gives_the_same_bytes(simulation: Simulation) -> None:
    again = simulated(job())
    assert run_text(run_of(simulation), False) == run_text(run_of(again), False)
    assert run_of(simulation).date is None
    assert str(Path.cwd()) not in run_text(run_of(simulation), False)


def test_a_run_follows_its_schema(simulation: Simulation) -> None:
    schema = json.loads(schema_text("run"))
    jsonschema.Draft202012Validator.check_schema(schema)
    for one in (run_of(simulation), run_with({"ttft_mean_s": (1.0, 2.0, 3.0)}, kind="measured")):
        jsonschema.validate(one.plain(), schema, cls=jsonschema.Draft202012Validator)


def test_the_schema_is_that_of_the_record() -> None:
    """Stale: run `python tools/record_schemas.py`."""
    found = SavedRun.model_json_schema(by_alias=True)
    assert set(json.loads(schema_text("run"))["properties"]) == set(found["properties"])


def test_metrics_are_those_of_the_summary(simulation: Simulation) -> None:
    metrics, figures = run_of(simulation).metrics, simulation.summary
    assert figures.ttft_s is not None
    assert metrics["ttft_p99_s"] == figures.ttft_s.p99
    assert metrics["good_share"] == figures.good_share
    assert metrics["output_tokens_per_s"] == figures.output_tokens_per_s


def test_parts_are_of_the_measured_requests(simulation: Simulation) -> None:
    saved, figures = run_of(simulation), simulation.summary
    assert saved.repetitions is not None
    parts = saved.repetitions.runs
    assert sum(part.requests for part in parts) == figures.measured_requests
    means = [part.metrics["ttft_mean_s"] or 0.0 for part in parts]
    assert figures.ttft_s is not None
    weights = [part.requests for part in parts]
    assert np.average(means, weights=weights) == pytest.approx(figures.ttft_s.mean, rel=1e-9)
    shares = [part.metrics["good_share"] or 0.0 for part in parts]
    assert np.average(shares, weights=weights) == pytest.approx(figures.good_share or 0.0, rel=1e-9)
    assert "ttft_p99_s" not in parts[0].metrics  # a hundred requests have no 99th percentile worth its name


def test_few_requests_or_no_rows_have_no_parts() -> None:
    assert run_of(simulated(job(requests=90))).repetitions is None
    assert run_of(simulated(job(choices=Choices(saturation=False)))).repetitions is None


def test_of_a_saturated_system_only_throughput_and_tpot_are_told() -> None:
    saved = run_of(simulated(job(rate_per_s=200.0)))
    assert saved.saturated
    assert saved.metrics["ttft_mean_s"] is None
    assert saved.repetitions is not None
    assert {name.split("_")[0] for name in saved.repetitions.runs[0].metrics} == {"output", "tpot"}


def test_raw_requests_are_kept_beside(tmp_path: Path, simulation: Simulation) -> None:
    saved = save_run(tmp_path / "a.yaml", simulation, keep_rows=True)
    assert saved.requests.file == "a.requests.csv"
    rows = list(csv.DictReader(StringIO((tmp_path / "a.requests.csv").read_text())))
    assert len(rows) == saved.requests.count == 1200
    assert {row["end"] for row in rows} == {"done"}
    assert all(float(row["ttft_s"]) > 0 for row in rows)


def test_what_was_set_is_told_from_defaults() -> None:
    saved = run_of(simulated(job(max_num_seqs=64, choices=Choices(prefix_caching=False, saturation=False))))
    assert saved.configuration["max_num_seqs"] == 64
    assert saved.configuration["prefix_caching"] is False
    assert "max_num_seqs" not in saved.defaulted
    assert "prefix_caching" not in saved.defaulted
    assert {"weights", "max_num_batched_tokens", "tp"} <= set(saved.defaulted)


def test_two_simulations_of_one_change_are_attributed() -> None:
    a, b = (run_of(simulated(job(max_num_batched_tokens=tokens))) for tokens in (None, 1024))
    found = compare_runs(a, b)
    assert found.verdict == "attributed"
    assert found.metrics[0].paired or any(row.paired for row in found.metrics)
    assert "ttft_mean_s" in {row.metric.id for row in found.worse}


def test_another_seed_is_another_traffic() -> None:
    a, b = run_of(simulated(job(seed=1))), run_of(simulated(job(seed=2, max_num_seqs=64)))
    assert "seed 1 and 2" in compare_runs(a, b).refusals[0]


def test_two_simulated_changes_are_refused() -> None:
    a, b = run_of(simulated(job())), run_of(simulated(job(max_num_seqs=64, tp=2)))
    assert [change.variable for change in compare_runs(a, b).differences.changes] == ["tp", "max_num_seqs"]
    assert compare_runs(a, b).verdict == "refused"


# Traffic


def test_the_fingerprint_is_of_the_requests() -> None:
    source = job().source
    assert fingerprint(source) == fingerprint(job().source)
    assert fingerprint(source) != fingerprint(job(seed=2).source)
    assert fingerprint(source) != fingerprint(Clients(source, cancel_share=0.5))
    assert fingerprint(source) != fingerprint(job(rate_per_s=10.1).source)


def test_traffic_is_described_flat() -> None:
    told = described(Clients(job().source, senders=(Tenant("paid", 0.2, 0), Tenant("free", 0.8, 1))))
    assert told["inputs.mean_tokens"] == 800
    assert told["rate_per_s"] == 10.0
    assert told["senders.1.name"] == "free"
    assert "seed" not in told


def test_a_trace_is_told_by_its_name() -> None:
    base = job(choices=Choices(saturation=False, leave_out=True))
    saved = run_of(simulated(replace(base, source=open_trace("azure-conv", most_requests=300))))
    assert saved.traffic.trace == "azure-conv"
    assert saved.seed is None
    assert "path" not in saved.traffic.description


# Measurements


def saved_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["experiment", "save", *arguments]) == 0
    found: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return found


OPTIONS = ("--model", "qwen3-8b", "--hw", "h100")


def test_a_benchmark_becomes_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    found = saved_by(
        capsys, "--observed", BENCH, *OPTIONS, "--max-num-seqs", "64", "--set", "prefix_caching=no", "--traffic",
        "users=8", "--quality", "mmlu=71.2%:14042", "--quality", "perplexity=5.31:lower", "--driver", "550.54",
        "--date", "2026-11-30", "--name", "first",
    )  # fmt: skip
    raw = json.loads(Path(BENCH).read_text())
    assert found["kind"] == "measured"
    assert found["metrics"]["ttft_mean_s"] == pytest.approx(raw["mean_ttft_ms"] / 1000)
    assert found["metrics"]["tpot_p99_s"] == pytest.approx(raw["p99_tpot_ms"] / 1000)
    assert found["configuration"]["max_num_seqs"] == 64
    assert found["configuration"]["prefix_caching"] is False
    assert "engine_version" not in found["configuration"]  # the file does not say it, and nobody did
    assert found["traffic"]["description"]["users"] == 8
    assert found["quality"][1] == {
        "name": "perplexity", "value": 5.31, "unit": "", "higher_is_better": False, "n": None, "source": "",
    }  # fmt: skip
    assert (found["hardware"]["driver"], found["date"], found["name"]) == ("550.54", "2026-11-30", "first")
    assert found["repetitions"] is None


def measured_three_times(tmp_path: Path, name: str, factor: float, *options: str) -> str:
    files = []
    for number, wobble in enumerate((0.99, 1.0, 1.02)):
        data = json.loads(Path(BENCH).read_text())
        for key in ("mean_ttft_ms", "median_ttft_ms", "p90_ttft_ms", "p99_ttft_ms"):
            data[key] *= factor * wobble
        path = tmp_path / f"{name}-{number}.json"
        path.write_text(json.dumps(data))
        files += ["--observed", str(path)]
    out = str(tmp_path / f"{name}.yaml")
    assert run(["experiment", "save", *files, *OPTIONS, *options, "--out", out]) == 0
    return out


def test_measurements_repeated_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = measured_three_times(tmp_path, "a", 1.0)
    b = measured_three_times(tmp_path, "b", 0.8, "--max-num-seqs", "64")
    capsys.readouterr()
    assert run(["experiment", "compare", a, b, "--json"]) == 0
    pair = json.loads(capsys.readouterr().out)["pairs"][0]
    assert (pair["verdict"], pair["variable"]) == ("attributed", "max_num_seqs")
    effects = {row["metric"]: row["effect"] for row in pair["metrics"]}
    assert effects["ttft_mean_s"] == "better"
    assert effects["tpot_mean_s"] == "same"


def test_quality_is_added_to_a_saved_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = measured_three_times(tmp_path, "a", 1.0)
    assert run(["experiment", "save", "--run", path, "--quality", "mmlu=70%:100", "--out", path]) == 0
    assert run(["experiment", "save", "--run", path, "--quality", "mmlu=71%:100", "--out", path]) == 0
    assert [(one.name, one.value) for one in read_run(Path(path)).quality] == [("mmlu", 0.71)]
    capsys.readouterr()


def test_raw_requests_tell_the_traffic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requests = tmp_path / "requests.jsonl"
    requests.write_text('{"prompt": "hello"}\n')
    found = saved_by(capsys, "--observed", BENCH, *OPTIONS, "--requests", str(requests))
    assert found["requests"]["file"] == "requests.jsonl"
    assert found["traffic"]["sha256"] == found["requests"]["sha256"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "nothing to save"),
        (("--observed", BENCH), "--model and --hw are missing"),
        (("--observed", BENCH, *OPTIONS, "--set", "tp"), "NAME=VALUE is expected"),
        (("--observed", BENCH, *OPTIONS, "--set", "nope=1"), "unknown knob"),
        (("--observed", BENCH, *OPTIONS, "--set", "flag.password=1"), "is not written into a saved run"),
        (("--observed", BENCH, *OPTIONS, "--set", "eager=1", "--set", "eager=0"), "given twice"),
        (("--observed", BENCH, *OPTIONS, "--quality", "mmlu=high"), "a number is expected"),
        (("--observed", BENCH, *OPTIONS, "--quality", "mmlu=120%"), "is no share from 0 to 1"),
        (("--observed", BENCH, *OPTIONS, "--quality", "mmlu=70%:0"), "neither a number of samples"),
        (("--observed", BENCH, *OPTIONS, "--date", "yesterday"), "a day as 2026-11-30"),
        (("--observed", BENCH, *OPTIONS, "--row", "2"), "holds 1"),
        (
            ("--observed", str(BENCHMARKS / "vllm_serve_ngram.json"), *OPTIONS, "--engine", "sglang"),
            "is of vllm, not of",
        ),
        (("--observed", BENCH, *OPTIONS, "--requests", "/none"), "cannot be opened"),
        (("--observed", BENCH, *OPTIONS, "--out", "/none/a.yaml"), "cannot be written"),
        (("--observed", str(BENCHMARKS / "vllm_serve_append.jsonl"), *OPTIONS), "choose one with --row"),
        (("--run", BENCH, "--quality", "a=1"), "is no saved run"),
        (("--run", BENCH), "nothing is to be added"),
        (("--run", BENCH, "--observed", BENCH, "--quality", "a=1"), "saved already"),
    ],
)
def test_what_cannot_be_saved_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert run(["experiment", "save", *arguments]) == 2
    printed = capsys.readouterr()
    assert says in printed.err
    assert printed.err.count("\n") == 1
    assert not printed.out


def test_a_measurement_of_another_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(json.loads(Path(BENCH).read_text()) | {"model_id": "Qwen/Qwen3-8B"}))
    assert run(["experiment", "save", "--observed", str(path), "--model", "8b", "--hw", "h100"]) == 2
    assert "name it with --model" in capsys.readouterr().err
    assert run(["experiment", "save", "--observed", str(path), *OPTIONS]) == 0
    capsys.readouterr()


def test_observations_of_one_run_are_of_one_engine() -> None:
    one, other = (Observation(engine=name, ttft_s=Spread(mean=1.0), source=name) for name in ("vllm", "sglang"))
    hardware = Hardware(device="h100-sxm-80gb")
    with pytest.raises(InfoptError, match="one run is of one configuration"):
        run_from_observation([one, other], {}, hardware)
    with pytest.raises(InfoptError, match="holds no figure"):
        run_from_observation(Observation(engine="vllm", source="x"), {}, hardware)
    assert run_from_observation(one, {"tp": 1}, hardware).metrics == {"ttft_mean_s": 1.0}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"configuration": {"nope": 1}}, "unknown knob"),
        ({"metrics": {"speed": 1.0}}, "is no metric that is known"),
        ({"metrics": {"ttft_mean_s": float("nan")}}, "finite"),
        ({"kind": "guessed"}, "kind"),
        ({"surprise": 1}, "surprise"),
        ({"quality": [{"name": "a", "value": 1.0}, {"name": "a", "value": 2.0}]}, "stands twice"),
    ],
)
def test_a_file_with_something_strange_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    path = tmp_path / "a.yaml"
    write_run(path, run_with({"ttft_mean_s": (1.0, 2.0, 3.0)}))
    data = yaml.safe_load(path.read_text()) | change
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(InfoptError, match=says):
        read_run(path)
