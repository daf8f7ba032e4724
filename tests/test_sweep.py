"""`sweep`: the same figures as `plan`, whatever is asked; bad input is an error in its row, or one line."""

import csv
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import scenarios as make
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.cli import run
from infopt.errors import InfoptError, MissingExtraError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.estimate import Estimate
from infopt.ledgers.pool import room, stage_memory
from infopt.ledgers.scenario import stages
from infopt.profiles.geometry import LayerRun
from infopt.profiles.resolve import resolve_model
from infopt.reports.schemas import schema_text
from infopt.reports.sweep_files import Typed, row_writer
from infopt.reports.sweep_output import Stopped, Stopping, format_of, output
from infopt.studies import sweep_groups
from infopt.studies.planning import Plan, plan_built
from infopt.studies.scenarios import Request, build, filled_lengths
from infopt.studies.sweep import BLOCK_ROWS, OUTPUT_COLUMNS, Sweep
from infopt.studies.sweep_cases import FIRST_ROWS, case_sweep, open_sweep
from infopt.studies.sweep_groups import Group, Groups, Load
from infopt.studies.sweep_values import KEY_COLUMNS, LARGEST, LOAD_COLUMNS, READ_COLUMNS, numbers
from infopt.units import parse_count, parse_tokens

GROUPS = Groups()
TIMES = ("tpot_s", "ttft_s", "output_tokens_per_s")
VERDICTS = {"true": True, "false": False, "": None}


def rows_of(sweep: Sweep, tmp_path: Path | None = None) -> list[dict[str, str]]:
    """The rows as a reader of the CSV sees them."""
    text = io.StringIO(newline="")
    writer = row_writer("csv")(text, sweep.columns)
    for block in sweep.blocks:
        writer.write(block)
    text.seek(0)
    return list(csv.DictReader(text))


def swept(text: str, **given: str) -> list[dict[str, str]]:
    """Rows of a cases file."""
    return rows_of(case_sweep(io.StringIO(text, newline=""), "cases.csv", given, GROUPS))


def gridded(**options: str) -> list[dict[str, str]]:
    with open_sweep(None, dict.fromkeys(READ_COLUMNS) | options, online=False) as sweep:
        return rows_of(sweep)


def planned(cells: dict[str, str]) -> Plan | None:
    """What `plan` says of a row; None where it refuses."""
    counts = {name: int(cells[name]) for name in ("gpus", "tp", "pp", "dp", "ep") if cells[name]}
    texts = {name: cells[name] for name in ("weights", "kv", "engine", "engine_version") if cells[name]}
    lengths = {"ctx": "context_tokens", "isl": "input_tokens", "osl": "output_tokens", "concurrency": "batch"}
    load = {lengths[name]: LOAD_COLUMNS[name](cells[name], name) for name in LOAD_COLUMNS if cells[name]}
    request = Request(**counts, **texts, **load, utilization=float(cells["util"]) if cells["util"] else None)
    hardware = resolve_hardware(cells["hw"])
    try:
        built = build(resolve_model(cells["model"]), hardware, request)
        return plan_built(built, hardware, request, explain_fit=False)
    except InfoptError:
        return None


def assert_same(row: dict[str, str]) -> None:
    """A row of a sweep holds what `plan` prints."""
    plan = planned({name: row[name] for name in READ_COLUMNS})
    if plan is None:
        assert row["error"]
        assert not any(row[name] for name in OUTPUT_COLUMNS if name != "error")
        return
    memory = plan.memory
    assert VERDICTS[row["fits"]] is plan.fits
    assert int(row["kv_pool_tokens"]) == memory.kv_pool_tokens
    assert int(row["max_sequences"]) == memory.max_sequences
    assert float(row["weights_bytes_per_gpu"]) == memory.weights_bytes_per_gpu
    assert float(row["step_floor_s"]) == pytest.approx(plan.bandwidth.step_floor_s, rel=1e-12)
    if isinstance(plan.estimate, Estimate):
        for name in TIMES:
            assert float(row[name]) == pytest.approx(getattr(plan.estimate, name), rel=1e-12)
        assert float(row["tpot_s"]) >= float(row["step_floor_s"])
    else:
        assert not any(row[name] for name in TIMES)
    assert bool(row["error"]) == (plan.fits is False and memory.max_sequences == 0)


MODELS = (
    "70b", "8b", "deepseek-v3", "gpt-oss-120b", "gemma-3-27b-it", "qwen3-30b-a3b", "qwen3-next-80b-a3b-instruct",
    "llama-4-scout-17b-16e-instruct",
)  # fmt: skip
ENGINES = (
    ("", ""), ("vllm", "0.2.7"), ("vllm", "0.8.5"), ("vllm", "0.20.0"), ("vllm", "0.21.0"), ("vllm", "0.33.0"),
    ("sglang", ""), ("tensorrt-llm", ""), ("llama.cpp", ""),
)  # fmt: skip
one_of = st.sampled_from
placements = st.builds(
    lambda model, hw, tp, pp, dp, shared, weights, kv, engine, util: dict(
        zip(
            KEY_COLUMNS,
            (model, hw, "", tp, pp, dp, tp if shared else "", weights, kv, *engine, util),
            strict=True,
        )
    ),
    one_of(MODELS),
    one_of(("h100", "h200", "a100", "l4", "rtx 4090", "mi300x", "b200", "h100:8")),
    one_of(("", "1", "2", "3", "4", "8")),
    one_of(("", "", "1", "2", "3")),
    one_of(("", "", "2")),
    st.booleans(),
    one_of(("", "fp8", "int4")),
    one_of(("", "fp8")),
    one_of(ENGINES),
    one_of(("", "0.5", "0.93")),
)
length = st.one_of(st.just(""), st.integers(1, 150_000).map(str))
loads = st.fixed_dictionaries(
    {"ctx": length, "isl": length, "osl": length, "concurrency": st.one_of(st.just(""), st.integers(1, 600).map(str))}
)


@settings(max_examples=60, deadline=None)
@given(st.lists(placements, min_size=1, max_size=3), st.lists(loads, min_size=1, max_size=12), st.data())
def test_a_row_is_the_plan_of_its_scenario(some, of_loads, data):
    cases = [{**data.draw(one_of(some)), **load} for load in of_loads]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, READ_COLUMNS)
    writer.writeheader()
    writer.writerows(cases)
    rows = swept(text.getvalue())
    assert [{name: row[name] for name in READ_COLUMNS} for row in rows] == cases
    for row in rows:
        assert_same(row)


@settings(max_examples=25, deadline=None)
@given(placements, st.integers(1, 5000), st.integers(1, 9000))
def test_a_grid_is_the_plan_of_its_scenarios(placement, batch, ctx):
    rows = gridded(**placement, ctx=f"{ctx},{ctx + 7}", concurrency=f"{batch},{batch + 1}")
    assert [(row["ctx"], row["concurrency"]) for row in rows] == [
        (str(c), str(b)) for c in (ctx, ctx + 7) for b in (batch, batch + 1)
    ]
    for row in rows:
        assert_same(row)


WINDOWED = make.model(
    [LayerRun(5, make.attention(window=1024), make.DENSE), LayerRun(1, make.attention(), make.DENSE)] * 4
)
HYBRID = make.model([LayerRun(3, make.recurrent(), make.DENSE), LayerRun(1, make.attention(), make.DENSE)] * 8)
STATE_ONLY = make.model([LayerRun(24, make.recurrent(), make.DENSE)])


@pytest.mark.parametrize(
    "profile", [make.model(), WINDOWED, HYBRID, STATE_ONLY], ids=["full", "window", "hybrid", "state"]
)
@pytest.mark.parametrize("engine", ENGINES, ids=" ".join)
def test_a_pool_of_arrays_equals_scalars(profile, engine):
    name, version = engine[0] or "vllm", engine[1] or None
    contexts, batches = np.array([1, 16, 17, 1024, 5000, 131_072]), np.array([1, 3, 64, 500, 1, 2])
    s = make.scenario(profile, engine=name, engine_version=version)
    part = stage_memory(s, stages(s.model, 1)[0], 0)
    found = room(make.replace(s, context_tokens=contexts, batch=batches), part)
    for row, (context, batch) in enumerate(zip(contexts.tolist(), batches.tolist(), strict=True)):
        one = make.scenario(profile, engine=name, engine_version=version, context_tokens=context, batch=batch)
        alone = room(one, stage_memory(one, stages(s.model, 1)[0], 0))
        for field in type(found).__match_args__:
            many = np.broadcast_to(np.asarray(getattr(found, field)), contexts.shape)
            assert many[row] == getattr(alone, field), field


@given(length, length, length)
def test_lengths_of_arrays_equal_scalars(ctx, isl, osl):
    texts = (ctx or ("" if isl else "8192"), isl, osl)
    scalars = filled_lengths(*(int(text) if text else None for text in texts))
    arrays = filled_lengths(*(np.array([int(text)]) if text else None for text in texts))
    assert [float(np.asarray(value).ravel()[0]) for value in arrays] == [float(value) for value in scalars]


def test_decode_context_of_each_way_to_give_lengths():
    assert filled_lengths(8192, None, None) == (8192, 7680, 512, 8192.0)
    assert filled_lengths(None, 1000, 200) == (1200, 1000, 200, 1100.0)
    assert filled_lengths(1500, 1000, 200) == (1500, 1000, 200, 1100.0)
    assert filled_lengths(None, 1000, None) == (1512, 1000, 512, 1256.0)


# Grids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2,4", [1, 2, 4]),
        ("1:5", [1, 2, 3, 4, 5]),
        ("1:10:4", [1, 5, 9]),
        ("1:100:x10", [1, 10, 100]),
        ("3:20:x2, 7", [3, 6, 12, 7]),
        ("4:4", [4]),
        ("2,1:3", [2, 1, 3]),
    ],
)
def test_lists_and_ranges(text, expected):
    assert numbers(text, "--batch", parse_count) == expected


def test_ranges_of_tokens():
    assert numbers("8k,1k:4k:x2,1k:3k:1k", "--ctx", parse_tokens) == [8192, 1024, 2048, 4096, 3072]


@pytest.mark.parametrize(
    "text",
    ["", "1,,2", "5:1", "1:2:3:4", "1:8:x1", "1:8:x", "0", "-1", "a", "1:b", "1:8:0", "1:2000000", f"{LARGEST + 1}"],
)
def test_bad_lists_are_refused_and_name_the_option(text):
    with pytest.raises(InfoptError, match="--batch"):
        numbers(text, "--batch", parse_count)


def test_the_last_axis_varies_fastest():
    rows = gridded(model="8b", hw="h100,h200", tp="1,2", isl="10,20", osl="5", concurrency="1:3")
    assert len(rows) == 2 * 2 * 2 * 3
    assert [(row["hw"], row["tp"], row["isl"], row["concurrency"]) for row in rows[:4]] == [
        ("h100", "1", "10", "1"),
        ("h100", "1", "10", "2"),
        ("h100", "1", "10", "3"),
        ("h100", "1", "20", "1"),
    ]


def test_a_grid_of_several_blocks_is_whole():
    last = BLOCK_ROWS + 5
    rows = gridded(model="8b", hw="h100", ctx="8k", concurrency=f"1:{last}")
    assert [int(row["concurrency"]) for row in rows] == list(range(1, last + 1))


def test_a_combination_that_cannot_be_is_a_row_with_an_error():
    good, bad = gridded(model="8b", hw="h100", tp="1,3", ctx="8k")
    assert not good["error"]
    assert "tp 3 does not divide" in bad["error"]


def test_a_grid_swept_again_is_the_same():
    options = {"model": "8b,70b", "hw": "h100:4,l4", "tp": "1,3,4", "ctx": "1000,8k", "concurrency": "1,40"}
    first = gridded(**options)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, first[0])
    writer.writeheader()
    writer.writerows(first)
    assert swept(text.getvalue()) == first


# Cases


def test_every_column_is_kept_as_it_stands():
    row = swept('id,model,hw,note,ctx\n7,8b,h100,"a, ""b""\nc",8k\n')[0]
    assert (row["id"], row["note"], row["ctx"]) == ("7", 'a, "b"\nc', "8k")
    assert list(row) == ["id", "model", "hw", "note", "ctx", *OUTPUT_COLUMNS]


def test_blank_lines_crlf_spaces_and_case_of_headings():
    rows = swept("Model, HW ,TP,batch\r\n\r\n8b,h100,1,2\r\n\r\n 8b , h100 ,,3\r\n")
    assert [row["batch"] for row in rows] == ["2", "3"]
    assert not any(row["error"] for row in rows)


def test_numbers_as_spreadsheets_write_them():
    row = swept("model,hw,tp,ctx,concurrency\n70b,h100,4.0,8192.0,8.0\n")[0]
    assert row["max_sequences"] == swept("model,hw,tp,ctx,concurrency\n70b,h100,4,8k,8\n")[0]["max_sequences"]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("8b,h100,1,abc,1", "ctx 'abc' is not a number of tokens"),
        ("8b,h100,1,-5,1", "negative"),
        ("8b,h100,1,8k,0", "concurrency '0' is not a count"),
        ("8b,h100,1,8k,99999999999999999999", "is more than"),
        ("8b,h100,x,8k,1", "tp 'x' is not a count"),
        ("8b,h100,3,8k,1", "does not divide"),
        ("8b,nope,1,8k,1", "unknown hardware 'nope'"),
        (",h100,1,8k,1", "no model is given"),
        ("8b,,1,8k,1", "no hw is given"),
        ("nope,h100,1,8k,1", "unknown model 'nope'"),
        ("70b,l4,1,8k,1", "not one sequence fits"),
        ("8b,h100,1", "3 cells, but the header names 5"),
        ("8b,h100,1,8k,1,9", "6 cells"),
        ('8b,"h100"x,1,8k,1', "not readable as CSV"),
    ],
)
def test_a_bad_row_has_an_error_and_the_others_are_computed(cells, words):
    rows = swept(f"model,hw,tp,ctx,concurrency\n8b,h100,1,8k,1\n{cells}\n8b,h200,1,8k,1\n")
    assert len(rows) == 3
    assert words in rows[1]["error"]
    assert all(row["fits"] == "true" and row["tpot_s"] and not row["error"] for row in (rows[0], rows[2]))


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (",,200", "say how long the prompt is"),
        ("100,50,51", "is more than --ctx 100"),
        ("100,100,", "both must be at least 1"),
        ("100,,100", "both must be at least 1"),
    ],
)
def test_lengths_that_contradict_each_other(cells, words):
    rows = swept(f"model,hw,ctx,isl,osl\n8b,h100,8k,,\n8b,h100,{cells}\n8b,h100,{cells}\n8b,h100,900,50,51\n")
    assert [words in row["error"] for row in rows] == [False, True, True, False]
    assert [bool(row["fits"]) for row in rows] == [True, False, False, True]


def test_a_batch_that_does_not_fit_is_an_answer_and_no_error():
    row = swept("model,hw,ctx,batch\n8b,h100,8k,5000\n")[0]
    assert (row["fits"], row["error"], row["tpot_s"]) == ("false", "", "")
    assert 0 < int(row["max_sequences"]) < 5000


def test_where_nothing_was_measured_there_is_a_floor_and_no_error():
    row = swept("model,hw,ctx\n8b,custom:80GB:3TB/s,8k\n")[0]
    assert float(row["step_floor_s"]) > 0
    assert [row[name] for name in (*TIMES, "error")] == ["", "", "", ""]


def test_options_fill_missing_columns_and_blank_means_the_default():
    row = swept("model,tp\n8b,\n", hw="h100", ctx="8k", concurrency="4")[0]
    assert row["max_sequences"] == swept("model,hw,ctx,batch\n8b,h100,8k,4\n")[0]["max_sequences"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no header"),
        ("\n8b,h100\n", "no header"),
        ("model,ctx\n8b,8k\n", "no column 'hw'"),
        ("hw,ctx\nh100,8k\n", "no column 'model'"),
        ("model,hw,hw\n", "stands twice"),
        ("model,hw,batch,concurrency\n", "stands twice"),
        ("m\0o\0d\0e\0l\0\n", "not UTF-8"),
    ],
)
def test_bad_headers_are_one_line(text, words):
    with pytest.raises(InfoptError, match=words):
        swept(text)


def test_commas_at_the_end_of_every_line_do_no_harm():
    row = swept("model,hw,,\n8b,h100,,\n")[0]
    assert (row["fits"], row["error"]) == ("true", "")


def test_columns_that_are_not_read_are_named():
    sweep = case_sweep(iter(["model,hw,contxt,fits\n"]), "cases.csv", {}, GROUPS)
    assert sweep.notes == (
        "cases.csv: column 'contxt' is kept but not read; did you mean ctx?",
        "cases.csv: computed anew: fits",
    )
    assert sweep.columns == ("model", "hw", "contxt")


def test_line_of_a_row_counts_blank_lines_and_lines_in_cells():
    text = 'model,hw,note\n8b,h100,"two\nlines"\n\n8b,nope,\n8b,"h100"x,\n8b,nope,\n'
    block = next(case_sweep(io.StringIO(text, newline=""), "cases.csv", {}, GROUPS).blocks)
    assert block.line is not None
    assert [block.line(row) for row in sorted(block.results.errors)] == [5, 6, 7]


def test_rows_are_read_as_they_are_needed():
    """A file without end: only what is asked for is read, and kept."""
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        yield "model,hw,ctx,batch\n"
        while True:
            read += 1
            yield f"8b,h100,8k,{read % 1000 + 1}\n"

    blocks = list(islice(case_sweep(lines(), "endless", {}, GROUPS).blocks, 2))
    assert [block.rows for block in blocks] == [FIRST_ROWS, BLOCK_ROWS]
    assert read == FIRST_ROWS + BLOCK_ROWS


def test_groups_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(sweep_groups, "MAX_KEPT", 10)
    groups = Groups()
    key = dict.fromkeys(KEY_COLUMNS, "") | {"model": "8b", "hw": "h100"}
    for share in range(13):
        groups.group(tuple({**key, "util": f"0.9{share:02}"}.values()))
    assert len(groups._compiled) == 3


def test_a_stage_that_decides_may_change_with_the_context():
    """Weights and pool are those of the rank that `plan` shows, row by row."""
    group = GROUPS.group(("deepseek-v3", "h200", "", "8", "2", "", "", "", "", "", "", ""))
    assert isinstance(group, Group)
    assert len(group.parts) == 2
    load = Load(np.array([1000, 100_000]), None, None, np.array([1, 64]))
    columns = group.columns(load)
    for row, (context, batch) in enumerate(((1000, 1), (100_000, 64))):
        cells = dict.fromkeys(READ_COLUMNS, "") | {"model": "deepseek-v3", "hw": "h200", "tp": "8", "pp": "2"}
        plan = planned(cells | {"ctx": str(context), "concurrency": str(batch)})
        assert plan is not None
        assert columns["weights_bytes_per_gpu"][row] == plan.memory.weights_bytes_per_gpu
        assert columns["kv_pool_tokens"][row] == plan.memory.kv_pool_tokens


# Outputs


def command(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(["sweep", *arguments])
    captured = capfd.readouterr()
    return status, captured.out, captured.err


SMALL = ("--model", "8b", "--hw", "h100", "--ctx", "8k", "--batch", "1,2")


def test_csv_json_and_file_hold_the_same(capfd, tmp_path):
    status, text, _ = command(capfd, *SMALL)
    assert status == 0
    rows = list(csv.DictReader(text.splitlines()))
    objects = [json.loads(line) for line in command(capfd, *SMALL, "--json")[1].splitlines()]
    assert command(capfd, *SMALL, "--out", str(tmp_path / "rows.csv"))[1] == ""
    assert (tmp_path / "rows.csv").read_text() == text
    assert command(capfd, *SMALL, "--out", str(tmp_path / "rows.jsonl"))[0] == 0
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == objects
    for row, found in zip(rows, objects, strict=True):
        assert list(row) == list(found)
        assert found["ctx"] == 8192
        assert found["fits"] is True
        assert found["kv"] is None
        assert float(row["tpot_s"]) == found["tpot_s"]
        assert int(row["kv_pool_tokens"]) == found["kv_pool_tokens"]
    assert sorted(os.listdir(tmp_path)) == ["rows.csv", "rows.jsonl"]


def test_every_line_of_json_is_as_the_schema_says(capfd):
    schema = json.loads(schema_text("sweep"))
    lines = command(capfd, "--model", "8b", "--hw", "h100,mi300x", "--tp", "1,3", "--batch", "1,900", "--json")[1]
    for line in lines.splitlines():
        jsonschema.validate(json.loads(line), schema)
    assert set(schema["properties"]) == {*READ_COLUMNS, *OUTPUT_COLUMNS}
    assert set(schema["required"]) == set(OUTPUT_COLUMNS)


def test_standard_output_is_utf8_whatever_the_terminal(tmp_path):
    (tmp_path / "cases.csv").write_text("model,hw,note\n8b,h100,café\n", encoding="utf-8")
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    line = [sys.executable, "-m", "infopt", "sweep", "--cases", "cases.csv"]
    finished = subprocess.run(line, capture_output=True, check=True, cwd=tmp_path, env=ascii_only)
    assert "café" in finished.stdout.decode()


def test_parquet_has_typed_columns_with_nulls(capfd, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra `tables` is not installed")
    cases, out = tmp_path / "cases.csv", tmp_path / "rows.parquet"
    cases.write_bytes(b"model,hw,ctx,batch,note\n70b,h100:4,32k,8,caf\xe9\n70b,h100:4,8k,x,\n")
    assert command(capfd, "--cases", str(cases), "--out", str(out))[0] == 0
    good, bad = parquet.read_table(out).to_pylist()
    assert (good["ctx"], good["batch"], good["fits"], good["error"]) == (32768, 8, True, "")
    assert (bad["batch"], bad["fits"], bad["tpot_s"]) == (None, None, None)


def test_parquet_without_its_extra_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match="tables"):
        row_writer("parquet")


def test_cells_as_values():
    assert Typed("batch")["8"] == 8
    assert Typed("ctx")["32k"] == 32768
    assert Typed("util")["90%"] == 0.9
    assert Typed("kv")[""] is None
    assert Typed("note")[""] == ""
    assert Typed("tp")["many"] == "many"
    assert Typed("tp", strict=True)["many"] is None


def test_bytes_that_are_no_utf8_and_a_byte_order_mark(capfd, tmp_path):
    cases, out = tmp_path / "cases.csv", tmp_path / "rows.csv"
    cases.write_bytes(b"\xef\xbb\xbfmodel,hw,note\r\n8b,h100,caf\xe9\r\n")
    assert command(capfd, "--cases", str(cases), "--out", str(out))[0] == 0
    assert out.read_bytes().startswith(b"model,hw,note,weights_bytes_per_gpu")
    assert b"8b,h100,caf\xe9,16094076928," in out.read_bytes()


def test_the_sum_of_errors_names_the_first_line(capfd, tmp_path):
    cases = tmp_path / "cases.csv"
    cases.write_text("model,hw,batch\n8b,h100,1\n8b,h100,x\n8b,h100,y\n")
    status, _, said = command(capfd, "--cases", str(cases))
    assert status == 0
    assert said == (
        "infopt: 2 of 3 rows have an error; the first: line 3: batch 'x' is not a count; write for example 8 or 256\n"
    )


def test_no_rows(capfd, tmp_path):
    cases = tmp_path / "cases.csv"
    cases.write_text("model,hw\n")
    status, text, said = command(capfd, "--cases", str(cases))
    assert status == 3
    assert text.count("\n") == 1
    assert "no rows" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give --model and --hw, or --cases"),
        (("--model", "8b"), "no --hw"),
        (("--model", "8b", "--hw", "h1000"), "unknown hardware 'h1000'"),
        (("--model", "8b,nope", "--hw", "h100"), "unknown model 'nope'"),
        (("--cases", "nofile.csv"), "nofile.csv: cannot be read"),
        (("--cases", "."), "cannot be read"),
        (("--cases", "nofile.csv", "--tp", "1,2"), "give one value"),
        ((*SMALL, "--out", "no/such/folder.csv"), "cannot be written"),
        ((*SMALL, "--out", "/dev/full"), "No space left"),
    ],
)
def test_wrong_usage_is_one_line(capfd, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    status, _, said = command(capfd, *arguments)
    assert status == 2
    assert words in said
    assert said.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_format_follows_the_name():
    named = {name: format_of(Path(name)) for name in ("a.csv", "a.JSONL", "a.parquet", "a.txt")}
    assert named == {"a.csv": "csv", "a.JSONL": "json", "a.parquet": "parquet", "a.txt": "csv"}
    assert format_of(None) == "csv"


def test_a_file_takes_its_place_only_when_whole(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("old")

    def write(error: type[BaseException]) -> None:
        with output(path, "csv") as stream:
            stream.write("what was done")
            raise error

    with pytest.raises(ZeroDivisionError):
        write(ZeroDivisionError)
    assert path.read_text() == "old"
    with pytest.raises(Stopped):
        write(Stopped)
    assert path.read_text() == "what was done"
    assert os.listdir(tmp_path) == ["rows.csv"]


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "rows.csv", tmp_path / "latest.csv"
    target.write_text("old")
    link.symlink_to(target)
    with output(link, "csv") as stream:
        stream.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_signal_waits_for_the_end_of_a_write():
    done = []

    def write() -> None:
        with stopping, stopping.held():
            signal.raise_signal(signal.SIGTERM)
            done.append("written")

    stopping = Stopping()
    with pytest.raises(Stopped):
        write()
    assert done == ["written"]
    assert stopping.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


LONG = ("--model", "70b", "--hw", "h100,h200", "--tp", "4,8", "--ctx", "1k:100k:1k", "--batch", "1:1000000")


def started(*arguments: str, **options: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "infopt", "sweep", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_leaves_the_rows_done_so_far(tmp_path, number, status):
    out = tmp_path / "rows.csv"
    process = started(*LONG, "--out", str(out))
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size > 1_000_000 for path in tmp_path.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == status
    assert b"stopped; " in said
    assert b"Traceback" not in said
    assert os.listdir(tmp_path) == ["rows.csv"]
    with out.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert rows
    assert {len(row) for row in rows} == {len(header)}
    assert [int(row[header.index("concurrency")]) for row in rows[:3]] == [1, 2, 3]


def test_a_reader_who_leaves_early_is_no_failure():
    process = started(*LONG, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"model,hw,")
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_long_sweeps_show_how_far_they_are():
    process = started(*LONG, stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    line = process.stderr.readline().decode()
    process.terminate()
    process.communicate(timeout=60)
    assert " rows, " in line
    assert "s left" in line


def test_libraries_of_other_formats_are_not_loaded(tmp_path):
    code = "import sys; from infopt.cli import run; run(sys.argv[1:]); print(sorted(sys.modules))"
    finished = subprocess.run(
        [sys.executable, "-c", code, "sweep", *SMALL], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    loaded = set(finished.stdout.splitlines()[-1].strip("[]").replace("'", "").split(", "))
    assert "numpy" in loaded
    assert loaded.isdisjoint({"pandas", "pyarrow", "torch", "matplotlib", "rich"})


def test_no_column_is_nan_in_text():
    for row in gridded(model="8b", hw="h100,mi300x", ctx="8k", concurrency="1,900"):
        assert not any(cell in ("nan", "inf", "-1") for cell in row.values())
        assert all(math.isfinite(float(row[name])) for name in TIMES if row[name])
