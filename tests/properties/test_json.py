"""Whatever is typed, `--json` prints one object that fulfils the schema it names; an error is such an object too."""

import json
from functools import cache
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st
from properties.asking import ask, typed, without, words
from properties.worlds import examples, whole

from infopt.reports.schemas import schema_text

LENGTHS = {"ctx", "isl", "osl", "batch", "kv_pool"}
STATUSES = (0, 1, 2, 3, 4)
# What no option takes, and what some do.
WRONG = (
    "",
    "0",
    "-1",
    "1.5",
    "32k",
    "many",
    "fp9",
    "h100:0",
    "nan",
    "1e400",
    "ü",
    "'",
    "--",
    "8b",
    "9" * 40,
    "100%",
    "5ms",
)
ANY_OPTION = (
    *("--model", "--hw", "--gpus", "--tp", "--pp", "--dp", "--ep", "--engine", "--engine-version", "--weights", "--kv"),
    *("--ctx", "--isl", "--osl", "--batch", "--util", "--price", "--point", "--watts", "--rate", "--tpot", "--ttft"),
    *("--kv-pool", "--block-size", "--monthly", "--users", "--requests", "--seed", "--unheard-of"),
)
TECHNIQUES = (
    "",
    "kv",
    "weights",
    "speculative",
    "prefix",
    "parallelism",
    "lora",
    "chunked-prefill",
    "kv-offload",
    "nothing",
)


@cache
def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(json.loads(schema_text(name)))


@st.composite
def lines(draw: Any) -> list[str]:
    """A command line with `--json`: a scenario asked of some command, with something wrong in every third."""
    options = draw(typed())
    load = ["--rate", f"{draw(whole(1, 50))}/s", "--requests", "30", "--seed", str(draw(st.integers(0, 9)))]
    batch = str(draw(whole(1, 64)))
    target = f"{draw(st.integers(2, 200))}ms"
    made = {
        "plan": ["plan", *words(options)],
        "explained": ["plan", *words(options), "--explain"],
        "month": ["plan", *words(options), "--monthly", "3/s"],
        "choices": ["plan", *words(without(options, {"hw", "gpus", "tp", "pp", "dp", "ep"}))],
        "comparison": ["plan", *words(without(options, {"batch"})), "--compare", "--batch 1", f"--batch {batch}"],
        "ladder": ["plan", *words(options), "--ladder"],
        "boundary": ["boundary", *filter(None, [draw(st.sampled_from(TECHNIQUES))]), *words(options)],
        "curve": ["boundary", "kv", *words(options), "--vary", "batch=1:64"],
        "checklist": ["checklist", *words(options)],
        "simulate": ["simulate", *words(without(options, {"batch", "dp", "gpus", "kv_pool"})), *load],
        "search": [
            "search",
            "--model",
            options["model"],
            "--hw",
            "h100,l4",
            "--tpot",
            target,
            "--isl",
            batch,
            "--osl",
            "64",
        ],
        "model": ["models", "show", options["model"]],
        "models": ["models", "list", options["model"][:3]],
        "accelerator": ["hardware", "show", options["hw"]],
        "hardware": ["hardware", "list", options["hw"][:1]],
        "rules": ["rules", *draw(st.sampled_from(([], ["tight"], ["no-such-rule"])))],
        "matrix": [
            "experiment",
            "matrix",
            *words(options),
            "--rate",
            "4/s",
            "--cell",
            "short-short",
            "--requests",
            "20",
        ],
        "gate": ["gate", *draw(st.sampled_from((["/no/such/file"], ["-"])))],
    }
    line = made[draw(st.sampled_from(sorted(made)))]
    if draw(st.integers(0, 2)) == 0:
        place = draw(st.integers(1, len(line)))
        line[place:place] = [draw(st.sampled_from(ANY_OPTION)), draw(st.sampled_from(WRONG))]
    return [*line, "--json"]


@examples(2)
@given(lines())
def test_an_answer_fulfils_the_schema_it_names(line: list[str]) -> None:
    told = ask(*line)
    assert told.status in STATUSES
    found = told.json
    kind, name, _ = found["schema"].split("/")
    assert kind == "infopt"
    validator(name).validate(found)
    if name == "error":
        assert told.status in (2, 4)
        assert found["error"]["exit_status"] == told.status
        assert told.error == f"infopt: {found['error']['message']}\n"
        assert len(told.error.splitlines()) == 1


@examples(0.6)
@given(typed(limits=False), st.sampled_from(ANY_OPTION), st.sampled_from(WRONG))
def test_rows_of_a_sweep_fulfil_their_schema(options: dict[str, Any], option: str, wrong: str) -> None:
    told = ask("sweep", *words(options), "--json")
    assert told.status == 0
    for row in told.out.splitlines():
        validator("sweep").validate(json.loads(row))
    refused = ask("sweep", *words(options), option, wrong, "--json")
    assert refused.status in STATUSES
    for row in refused.out.splitlines() if "infopt/error" not in refused.out else [refused.out]:
        found = json.loads(row)
        validator("error" if "error" in found and isinstance(found["error"], dict) else "sweep").validate(found)
