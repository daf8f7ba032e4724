"""`experiment compare`: chance, one cause or none, quality, and what is refused."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from experiment_runs import run_with
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.cli import run
from infopt.reports.schemas import schema_text
from infopt.studies.experiment_compare import compare_runs
from infopt.studies.experiment_noise import apart_half, half_width, is_paired, paired_half, quantile_t
from infopt.studies.saved_run import Hardware, Quality, Traffic, parse_quality, write_run

SLOW, FAST = (1.00, 1.10, 0.95, 1.05, 1.02), (0.80, 0.88, 0.76, 0.85, 0.83)
TTFT = "ttft_mean_s"
SMALLER = {"max_num_seqs": 64}


def test_a_difference_of_one_variable_beyond_chance_is_attributed() -> None:
    found = compare_runs(run_with({TTFT: SLOW}), run_with({TTFT: FAST}, SMALLER))
    assert found.verdict == "attributed"
    assert found.variable is not None
    assert found.variable.variable == "max_num_seqs"
    assert [row.metric.id for row in found.better] == [TTFT]
    assert not found.refusals


def test_the_other_way_round_it_is_a_loss() -> None:
    found = compare_runs(run_with({TTFT: FAST}, SMALLER), run_with({TTFT: SLOW}))
    assert found.verdict == "attributed"
    assert [row.metric.id for row in found.worse] == [TTFT]


def test_higher_is_better_for_throughput() -> None:
    found = compare_runs(run_with({"output_tokens_per_s": SLOW}), run_with({"output_tokens_per_s": FAST}, SMALLER))
    assert [row.metric.id for row in found.worse] == ["output_tokens_per_s"]


def test_a_difference_within_chance_is_none() -> None:
    wild = (0.5, 1.6, 0.9, 1.3, 0.8)
    found = compare_runs(run_with({TTFT: SLOW}), run_with({TTFT: wild}, SMALLER))
    assert found.verdict == "none"
    assert found.metrics[0].effect == "within noise"


def test_a_difference_below_one_percent_is_none_however_sure() -> None:
    found = compare_runs(run_with({TTFT: SLOW}), run_with({TTFT: tuple(1.005 * one for one in SLOW)}, SMALLER))
    assert found.verdict == "none"


def refusal(**changed: Any) -> str:
    found = compare_runs(run_with({TTFT: SLOW}), run_with({TTFT: FAST}, **changed))
    assert found.verdict == "refused"
    return found.refusals[0]


def test_two_variables_are_refused_with_the_run_that_is_missing() -> None:
    said = refusal(configuration=SMALLER | {"prefix_caching": False})
    assert said == (
        "2 variables differ (max_num_seqs, prefix_caching): the run that is missing is A with only max_num_seqs=64"
    )


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"hardware": Hardware(device="h200-sxm-141gb")}, "the hardware differs"),
        ({"hardware": Hardware(device="h100-sxm-80gb", driver="550")}, "the driver differs"),
        ({"hardware": Hardware(device="h100-sxm-80gb", points=["batch=1,tpot=9ms"])}, "measured points"),
        ({"traffic": Traffic(description={"rate_per_s": 6.0, "process": "poisson"})}, "rate_per_s 5.0 and 6.0"),
        ({"traffic": Traffic(description={"rate_per_s": 5.0, "process": "poisson"}, left_out=3)}, "leaves 0 requests"),
        ({"traffic": Traffic(trace="mooncake")}, "the traffic differs"),
        ({"kind": "measured"}, "A is simulated, B measured"),
        ({"configuration": SMALLER | {"eager": True}}, r"only one run states eager \(in B\)"),
    ],
)
def test_other_conditions_are_refused(changed: dict[str, Any], says: str) -> None:
    assert says.replace("\\", "") in refusal(**({"configuration": SMALLER} | changed))


def test_other_targets_make_other_shares() -> None:
    a = run_with({"good_share": (0.9, 0.91, 0.89)}, targets={"ttft_s": 1.0})
    b = run_with({"good_share": (0.99, 0.98, 0.99)}, SMALLER, targets={"ttft_s": 2.0})
    assert "the targets differ" in compare_runs(a, b).refusals[0]


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_repetitions_are_refused(count: int) -> None:
    found = compare_runs(run_with({TTFT: SLOW[:count]}), run_with({TTFT: FAST[:count]}, SMALLER))
    assert found.verdict == "refused"
    assert "too few repetitions" in found.refusals[0]


def test_the_same_configuration_differs_by_nothing_it_states() -> None:
    assert compare_runs(run_with({TTFT: SLOW}), run_with({TTFT: SLOW})).verdict == "none"
    found = compare_runs(run_with({TTFT: SLOW}), run_with({TTFT: FAST}))
    assert "a cause that no run states" in found.refusals[0]


def test_measured_lengths_may_differ_a_little() -> None:
    near, far = ({"output_tokens_mean": value, "users": 8} for value in (201.0, 260.0))
    a = run_with({TTFT: SLOW}, kind="measured", traffic=Traffic(description={"output_tokens_mean": 200.0, "users": 8}))
    b = run_with({TTFT: FAST}, SMALLER, kind="measured", traffic=Traffic(description=near))
    assert compare_runs(a, b).verdict == "attributed"
    b = run_with({TTFT: FAST}, SMALLER, kind="measured", traffic=Traffic(description=far))
    assert "output_tokens_mean" in compare_runs(a, b).refusals[0]


def test_that_one_keeps_up_needs_no_times() -> None:
    full = run_with({"tpot_mean_s": (0.1,)}, saturated=True)
    found = compare_runs(full, run_with({"tpot_mean_s": (0.05,)}, SMALLER))
    assert found.keeps_up == "better"
    assert found.verdict == "attributed"


# Quality


def quantized(*quality: Quality) -> Any:
    return run_with({TTFT: FAST}, {"weights": "fp8"}, quality)


def test_fewer_bits_need_a_measured_quality() -> None:
    found = compare_runs(run_with({TTFT: SLOW}), quantized())
    assert found.verdict == "needs-measurement"
    assert "quality needs measurement" in found.missing[0]
    only_b = compare_runs(run_with({TTFT: SLOW}), quantized(parse_quality("mmlu", "71%:1000")))
    assert only_b.verdict == "needs-measurement"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ("71.2%:14042", "71.0%:14042", "attributed"),  # within 1.96 sqrt(2 q (1 - q) / n) = 1.06 points
        ("71.2%:14042", "69.0%:14042", "quality-worse"),
        ("71.2%:14042", "75.0%:14042", "attributed"),
        ("71.2%:100", "69.0%:100", "attributed"),
        ("5.31", "5.40", "needs-measurement"),  # a score without a known chance
        ("5.31", "5.31", "attributed"),
    ],
)
def test_quality_is_judged_by_its_own_chance(before: str, after: str, verdict: str) -> None:
    a = run_with({TTFT: SLOW}, quality=[parse_quality("mmlu", before)])
    assert compare_runs(a, quantized(parse_quality("mmlu", after))).verdict == verdict


def test_a_worse_quality_is_flagged_whatever_changed() -> None:
    a = run_with({TTFT: SLOW}, quality=[parse_quality("tools", "98%:5000")])
    b = run_with({TTFT: FAST}, SMALLER, [parse_quality("tools", "90%:5000")])
    assert compare_runs(a, b).verdict == "quality-worse"


def test_of_some_scores_less_is_better() -> None:
    fine, bad = parse_quality("errors", "1%:10000:lower"), parse_quality("errors", "3%:10000:lower")
    assert compare_runs(run_with({TTFT: SLOW}, quality=[fine]), quantized(bad)).verdict == "quality-worse"
    assert compare_runs(run_with({TTFT: SLOW}, quality=[bad]), quantized(fine)).verdict == "attributed"


# Chance


def test_the_quantiles_are_students() -> None:
    """NIST/SEMATECH e-Handbook, table 1.3.6.7.2, 0.975: 2.776 at 4, 2.262 at 9, 1.960 from there on at least."""
    assert quantile_t(4) == 2.776
    assert quantile_t(9.9) == 2.262
    assert quantile_t(14) == quantile_t(12) == 2.179
    assert quantile_t(10_000) == 1.980
    assert quantile_t(0.5) == 12.706


def test_intervals_hold_what_they_promise() -> None:
    """Of 2,000 pairs of equal means some 95 % of the intervals hold the difference, 0: binomial, 4 sigma."""
    random = np.random.Generator(np.random.PCG64(1))
    a, b, common = random.normal(size=(2000, 5)), random.normal(size=(2000, 5)), 5 * random.normal(size=(2000, 5))
    paired = np.mean(
        [abs(np.mean(y - x)) <= paired_half(list(y - x)) for x, y in zip(a + common, b + common, strict=True)]
    )
    apart = np.mean([abs(np.mean(y) - np.mean(x)) <= apart_half(list(x), list(y)) for x, y in zip(a, b, strict=True)])
    assert abs(paired - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)
    assert 0.95 - 4 * np.sqrt(0.95 * 0.05 / 2000) < apart < 0.99  # Welch with the table's lower degrees is cautious


def test_pairs_need_the_same_requests() -> None:
    a, b = run_with({TTFT: SLOW}), run_with({TTFT: FAST}, SMALLER)
    assert is_paired(a, b)
    half = half_width(a, b, TTFT)
    assert half is not None
    assert half.width == paired_half([new - old for old, new in zip(SLOW, FAST, strict=True)])
    measured = run_with({TTFT: SLOW}, kind="measured"), run_with({TTFT: FAST}, SMALLER, kind="measured")
    assert not is_paired(*measured)
    apart = half_width(*measured, TTFT)
    assert apart is not None
    assert apart.width == pytest.approx(apart_half(SLOW, FAST))
    assert apart.width > half.width


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=12), st.floats(0.5, 2))
@settings(max_examples=50, deadline=None)
def test_a_run_beside_itself_never_differs(values: list[float], factor: float) -> None:
    same = run_with({TTFT: values})
    assert compare_runs(same, same).verdict == "none"
    scaled = run_with({TTFT: [factor * value for value in values]}, SMALLER)
    there, back = compare_runs(same, scaled), compare_runs(scaled, same)
    assert len(there.better) == len(back.worse) or abs(factor - 1) < 0.02
    assert there.metrics[0].half == back.metrics[0].half


# The command


def written(tmp_path: Path, name: str, *arguments: Any, **changed: Any) -> str:
    path = tmp_path / name
    write_run(path, run_with(*arguments, **changed))
    return str(path)


def test_three_files_are_compared_in_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        written(tmp_path, "0.yaml", {TTFT: SLOW}),
        written(tmp_path, "1.json", {TTFT: FAST}, SMALLER),
        written(tmp_path, "2.yaml", {TTFT: SLOW}, {"max_num_seqs": 32, "prefix_caching": False}),
    ]
    assert run(["experiment", "compare", *files, "--json"]) == 1
    printed = capsys.readouterr()
    data = json.loads(printed.out)
    jsonschema.validate(data, json.loads(schema_text("experiment_compare")), cls=jsonschema.Draft202012Validator)
    assert [pair["verdict"] for pair in data["pairs"]] == ["attributed", "refused"]
    assert [pair["variable"] for pair in data["pairs"]] == ["max_num_seqs", None]
    assert printed.err.count("\n") == 1
    assert "2 variables differ" in printed.err


@pytest.mark.parametrize("form", ["table", "md", "csv"])
def test_every_form_says_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    quality = [parse_quality("mmlu", "71.2%:14042")]
    files = [
        written(tmp_path, "a.yaml", {TTFT: SLOW}, quality=quality),
        written(tmp_path, "b.yaml", {TTFT: FAST}, {"weights": "fp8"}, quality),
    ]
    assert run(["experiment", "compare", *files, "--format", form]) == 0
    out = capsys.readouterr().out
    assert "attributed" in out.lower()
    assert all(len(line) <= 80 for line in out.splitlines()) or form != "table"


@pytest.mark.parametrize(
    ("quality", "status"), [((), 4), (("71.2%:14042", "71.1%:14042"), 0), (("71.2%:14042", "60%:14042"), 1)]
)
def test_exit_statuses(tmp_path: Path, quality: tuple[str, ...], status: int) -> None:
    a, b = ([parse_quality("mmlu", text)] for text in quality) if quality else ([], [])
    files = [
        written(tmp_path, "a.yaml", {TTFT: SLOW}, quality=a),
        written(tmp_path, "b.yaml", {TTFT: FAST}, {"weights": "fp8"}, b),
    ]
    assert run(["experiment", "compare", *files]) == status


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no saved run"),
        ("[1, 2]", "is no saved run"),
        ("a: 1", "has no schema"),
        ("schema: infopt/run/9", "is infopt/run/9, not infopt/run/1"),
        ("schema: infopt/run/1", "Field required"),
        ("schema: {", "not readable as YAML"),
    ],
)
def test_what_is_no_saved_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    assert run(["experiment", "compare", str(path), str(path)]) == 2
    printed = capsys.readouterr()
    assert says in printed.err
    assert printed.err.count("\n") == 1
    assert not printed.out


def test_one_file_is_not_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", "compare", written(tmp_path, "a.yaml", {TTFT: SLOW})]) == 2
    assert "at least two" in capsys.readouterr().err
