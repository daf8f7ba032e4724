"""One scenario has one answer: plan, sweep, search, boundary, the choice of hardware, pages, the Python API."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from html_page import at, read_page
from hypothesis import assume, given
from hypothesis import strategies as st
from properties.asking import SAME, ask, assert_same_figures, planned, same, typed, without, words
from properties.worlds import examples

import infopt
from infopt.errors import InfoptError
from infopt.ledgers.arrays import ceil_div
from infopt.studies.sweep import OUTPUT_COLUMNS

# Columns of a sweep by where a plan has them.
COLUMNS = {
    "weights_bytes_per_gpu": "memory.weights_bytes_per_gpu",
    "kv_pool_tokens": "memory.kv_pool_tokens",
    "max_sequences": "memory.max_sequences",
    "fits": "memory.fits",
    "step_floor_s": "bandwidth.step_floor_s",
    "tpot_s": "estimate.tpot_s",
    "ttft_s": "estimate.ttft_s",
    "output_tokens_per_s": "estimate.output_tokens_per_s",
}


@examples(0.6)
@given(typed())
def test_the_api_says_what_the_command_prints(options: dict[str, Any]) -> None:
    told = ask("plan", *words(options), "--json")
    if "error" in told.json:
        with pytest.raises(InfoptError) as raised:
            infopt.plan(**options)
        assert raised.value.exit_status == told.status
        return
    found = infopt.plan(**options)
    assert found.to_json() + "\n" == told.out
    assert found.exit_status == told.status


@examples(0.6)
@given(typed(limits=False))
def test_a_row_of_a_sweep_is_its_plan(options: dict[str, Any]) -> None:
    row = ask("sweep", *words(options), "--json").json
    told = ask("plan", *words(options), "--json").json
    if "error" in told:
        assert row["error"]
        assert not any(row[name] for name in OUTPUT_COLUMNS if name != "error")
        return
    for column, place in COLUMNS.items():
        expected = at(told, place)
        assert row[column] == (pytest.approx(expected, rel=SAME) if isinstance(expected, float) else expected), column


@examples(0.15)
@given(typed())
def test_a_page_holds_the_plan(options: dict[str, Any]) -> None:
    found = planned(options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        told = ask("plan", *words(options), "--json", "--html", str(path))
        page = read_page(path)
    assert told.json == found
    assert page.result == found
    assert [(key, value) for key, value, _ in page.figures if value != at(found, key)] == []


@examples(0.4)
@given(typed())
def test_a_boundary_starts_from_the_plan(options: dict[str, Any]) -> None:
    found = planned(options)
    told = ask("boundary", "weight-quantization", *words(options), "--json").json
    for section in ("workload", "hardware"):
        assert {name: at(found, f"{section}.{name}") for name in told[section] if name in found[section]} == {
            name: value for name, value in told[section].items() if name in found[section]
        }
    assert told["fits"] is (found["memory"]["max_sequences"] >= ceil_div(options["batch"], options["dp"]))
    if told["basis"] == "estimate" and found["estimate"]["tpot_s"] is not None:
        assert told["tpot_s"] == same(found["estimate"]["tpot_s"])
    figures = {figure["name"]: figure["value"] for figure in told["techniques"][0]["figures"]}
    for name in ("weights_bytes_per_gpu", "max_sequences"):
        if name in figures:
            assert figures[name] == found["memory"][name]


@examples(0.15)
@given(typed(), st.integers(1, 64))
def test_two_plans_beside_each_other_are_those_plans(options: dict[str, Any], batch: int) -> None:
    found = [planned(options), planned(options | {"batch": batch})]
    kept = without(options, {"batch"})
    told = ask("plan", *words(kept), "--compare", f"--batch {options['batch']}", f"--batch {batch}", "--json").json
    assert [told["a"], told["b"]] == found


@examples(0.1)
@given(typed())
def test_the_choice_of_hardware_is_made_of_plans(options: dict[str, Any]) -> None:
    placed = {"hw", "gpus", "tp", "pp", "dp", "ep"}
    told = ask("plan", *words(without(options, placed)), "--json").json
    assume("error" not in told)
    assert told["choices"] or told["too_small"]
    for choice in told["choices"][::7]:
        h, m = choice["hardware"], choice["model"]
        alone = {"hw": h["id"], "weights": m["weight_format"], "kv": m["kv_format"]}
        alone |= {name: h[name] for name in ("gpus", "tp", "pp", "dp")}
        assert_same_figures(choice, planned(without(options, {"ep"}) | alone))


@examples(0.15)
@given(typed(), st.sampled_from(("h100", "h200", "a100", "b200", "mi300x")), st.integers(5, 200))
def test_a_row_of_a_search_is_the_plan_of_its_placement(options: dict[str, Any], hardware: str, tpot_ms: int) -> None:
    load = {"model": options["model"], "isl": 1 + options["batch"] * 3, "osl": 200}
    told = ask("search", *words(load), "--hw", hardware, "--tpot", f"{tpot_ms}ms", "--json").json
    assume(told.get("front"))
    for row in told["front"][:3]:
        h, w = row["hardware"], row["model"]
        placed = {name: h[name] for name in ("gpus", "tp", "pp", "dp", "ep")}
        if h["ep"] == 1:
            placed.pop("ep")
        formats = {"weights": w["weight_format"], "kv": w["kv_format"], "batch": row["workload"]["batch"]}
        # The engine is told how many sequences it may run: a replica's share of them.
        formats["max_num_seqs"] = -(-row["sequences_limit"] // h["dp"])
        assert_same_figures(row, planned(load | {"hw": h["id"], **placed, **formats}))
