"""Trace files: every published form is read, every bad line is named, nothing is guessed, length does not matter."""

import gzip
import hashlib
import json
import lzma
import os
import pickle
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.arrivals.arrival import Arrival
from infopt.arrivals.describe import describe
from infopt.arrivals.matrix import matrix_cells
from infopt.arrivals.profiles import load_profile, profile_names
from infopt.arrivals.trace_forms import FORMS
from infopt.arrivals.traces import DATA, Skipped, Trace, open_trace, shipped_traces
from infopt.errors import InfoptError
from infopt.records import read_yaml

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "truth" / "traces"
SHARED_FILES = {
    "azure-conv": "azure_conv.csv",
    "azure-code": "azure_code.csv",
    "mooncake": "mooncake_conversation.jsonl",
}

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(text: str | bytes, name: str = "trace.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return make


def read(path: Path, **options: float | int | None) -> list[Arrival]:
    return list(open_trace(str(path), **options).stream())  # type: ignore[arg-type]


def plain(*rows: str) -> str:
    return "\n".join(["time_s,input_tokens,output_tokens", *rows, ""])


def mooncake(**values: object) -> str:
    return json.dumps({"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]} | values) + "\n"


# One example of each form, its first two requests, and what they are.
EXAMPLES = {
    "plain": (
        "t.csv",
        "time_s,input_tokens,output_tokens,prefix,tenant,priority\n1.5,40,3,7 8,a,0\n2.0,9,1,,b,2\n",
        [Arrival(0.0, 40, 3, (7, 8), 0, 0), Arrival(0.5, 9, 1, (), 1, 2)],
    ),
    "azure 2023": (
        "t.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
        "2023-11-16 18:15:50.9951690,396,109\n",
        [Arrival(0.0, 374, 44), Arrival(4.314579, 396, 109)],
    ),
    "azure 2024": (
        "t.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 23:59:59.500000+00:00,2162,5\n"
        "2024-05-11 00:00:00+00:00,2399,6\n",
        [Arrival(0.0, 2162, 5), Arrival(0.5, 2399, 6)],
    ),
    "vidur": (
        "t.csv",
        "arrived_at,num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n0.0,374.0,44.0,418,8.5\n"
        "4.25,396,109,505,3.6\n",
        [Arrival(0.0, 374, 44), Arrival(4.25, 396, 109)],
    ),
    "mooncake": (
        "t.jsonl",
        mooncake(timestamp=27482, input_length=1025, hash_ids=[46, 47, 5]) + mooncake(timestamp=30535),
        [Arrival(0.0, 1025, 5, (46, 47, 5)), Arrival(30.535 - 27.482, 600, 5, (1, 2))],
    ),
    "qwen": (
        "t.jsonl",
        '{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 33, "output_length": 132, '
        '"type": "text", "turn": 1, "hash_ids": [1089, 1090, 1091]}\n'
        '{"chat_id": 160, "parent_chat_id": 159, "timestamp": 61.614, "input_length": 33, "output_length": 2, '
        '"type": "search", "turn": 2, "hash_ids": [1089, 1090]}\n',
        [Arrival(0.0, 33, 132, (1089, 1090, 1091)), Arrival(0.5, 33, 2, (1089, 1090))],
    ),
    "burstgpt": (
        "t.csv",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
        "7,GPT-4,100,0,100,API log\n45,ChatGPT,1087,230,1317,Conversation log\n",
        [Arrival(0.0, 472, 18), Arrival(40.0, 1087, 230)],
    ),
    "burstgpt with sessions": (
        "t.csv",
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "19440110.0,1722ac82-0a46,43,GPT-4,906,446,1352,Conversation log\n"
        "19440161.0,d598_3bf9,2,ChatGPT,36,29,65,Conversation log\n",
        [Arrival(0.0, 906, 446), Arrival(51.0, 36, 29)],
    ),
}


@pytest.mark.parametrize("form", EXAMPLES)
def test_forms(write: Write, form: str) -> None:
    name, text, expected = EXAMPLES[form]
    found = read(write(text, name))
    assert [round(arrival.time_s, 9) for arrival in found] == [round(arrival.time_s, 9) for arrival in expected]
    assert [Arrival(0.0, *fields(arrival)) for arrival in found] == [
        Arrival(0.0, *fields(arrival)) for arrival in expected
    ]


def fields(arrival: Arrival) -> tuple[int, int, tuple[int, ...], int, int]:
    return arrival.input_tokens, arrival.output_tokens, arrival.prefix, arrival.tenant, arrival.priority


def test_every_form_of_the_data_has_an_example_here(write: Write) -> None:
    data = read_yaml(FORMS)
    known = {form["id"] for form in data["forms"]}
    assert {open_trace(str(write(text, name))).form for name, text, _ in EXAMPLES.values()} == known
    assert all(entry["source"] for entry in data["forms"] + data["refused"])


def test_blocks_and_tenants_of_a_source(write: Write) -> None:
    name, text, _ = EXAMPLES["plain"]
    trace = open_trace(str(write(text, name)))
    assert (trace.prefix_block_tokens, trace.tenants, trace.users, trace.requests) == (16, ("a", "b"), None, None)
    assert open_trace(str(write(plain("0,1,1")))).prefix_block_tokens == 0
    assert open_trace(str(write(mooncake(), "t.jsonl"))).prefix_block_tokens == 512
    assert read(write(mooncake(input_length=65), "t.jsonl"), block_tokens=64)[0].prefix == (1, 2)


def test_plain_rows_as_json_lines(write: Write) -> None:
    rows = '{"time_s": 3, "input_tokens": 40, "output_tokens": 2, "prefix": [4, 5], "tenant": "b", "priority": 1}\n'
    more = '{"tenant": "a", "time_s": 3.5, "input_tokens": 40.0, "output_tokens": 2, "prefix": [], "priority": 0}\n'
    expected = [Arrival(0.0, 40, 2, (4, 5), 0, 1), Arrival(0.5, 40, 2, (), 1, 0)]
    assert read(write(rows + "\n" + more, "t.jsonl")) == expected
    lacking = '{"time_s": 3.5, "input_tokens": 40.0, "output_tokens": 2, "prefix": [], "priority": 0}\n'
    with pytest.raises(InfoptError, match="line 2: tenant '': is missing"):
        read(write(rows + lacking, "t.jsonl"))
    with pytest.raises(InfoptError, match="line 2: tenant 'b': is not in the first line"):
        read(write(lacking + rows, "t.jsonl"))


def test_columns_in_another_order_byte_order_mark_blank_lines_and_spaces(write: Write) -> None:
    text = "﻿output_tokens, time_s ,input_tokens\r\n3,0.5,9\r\n\r\n4,0.5, 8\r\n\r\n"
    assert read(write(text)) == [Arrival(0.0, 9, 3), Arrival(0.0, 8, 4)]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed(write: Write, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    text = plain(*(f"{i},9,3" for i in range(5000)))
    packed = pack(text.encode())
    assert read(write(packed, f"t.csv{suffix}")) == read(write(text))
    for damaged in (packed[: len(packed) // 2], packed[:-8] + bytes(8), b"no archive"):
        with pytest.raises(
            InfoptError, match=r"t\.csv\.\w\w: (the packed file is broken off or damaged|cannot be read)"
        ):
            read(write(damaged, f"t.csv{suffix}"))


def test_part_and_speed(write: Write) -> None:
    path = write(plain(*(f"{100 + i},9,{i + 1}" for i in range(10))))

    def taken(**options: float) -> list[tuple[float, int]]:
        return [(arrival.time_s, arrival.output_tokens) for arrival in read(path, **options)]

    assert taken(speed_ratio=2.0)[:3] == [(0.0, 1), (0.5, 2), (1.0, 3)]
    assert taken(most_requests=2) == [(0.0, 1), (1.0, 2)]
    assert taken(start_s=3, duration_s=2) == [(0.0, 4), (1.0, 5)]
    assert taken(start_s=8, speed_ratio=4.0) == [(0.0, 9), (0.25, 10)]
    with pytest.raises(InfoptError, match="holds no requests in the part asked for"):
        taken(start_s=50)
    for wrong in ({"speed_ratio": 0.0}, {"most_requests": 0}, {"start_s": -1.0}, {"duration_s": float("nan")}):
        with pytest.raises(InfoptError, match=r"it must be (more than 0|0 or more)"):
            taken(**wrong)
    with pytest.raises(InfoptError, match="has no ids of blocks"):
        open_trace(str(path), block_tokens=64)


def test_failed_requests_are_left_out_and_counted(write: Write) -> None:
    name, text, expected = EXAMPLES["burstgpt"]
    trace, skipped = open_trace(str(write(text, name))), Skipped()
    assert len(list(trace.stream(skipped))) == len(expected)
    assert skipped.failed == 1
    assert describe(trace).failed_requests == 1
    header, row = text.splitlines()[0], "7,GPT-4,100,0,100,API log"
    with pytest.raises(InfoptError, match="holds no requests: 2 failed where they were recorded"):
        read(write("\n".join([header, row, row]), name))


BAD_ROWS = {
    "-1,5,5": r"line 3: time_s '-1': is negative",
    "0.4,5,5": r"line 3: time_s '0.4': is before the line above: times must not fall",
    "x,5,5": r"line 3: time_s 'x': is not a number",
    "nan,5,5": r"line 3: time_s 'nan': is not a finite number",
    "inf,5,5": r"line 3: time_s 'inf': is not a finite number",
    "1_0,5,5": r"line 3: time_s '1_0': is not a number",
    "1,0,5": r"line 3: input_tokens '0': is zero",
    "1,-3,5": r"line 3: input_tokens '-3': is negative",
    "1,5,0": r"line 3: output_tokens '0': is zero",
    "1,5,-1": r"line 3: output_tokens '-1': is negative",
    "1,many,5": r"line 3: input_tokens 'many': is not a number",
    "1,374.5,5": r"line 3: input_tokens '374.5': is not a whole number",
    "1,5,1_0": r"line 3: output_tokens '1_0': is not a number",
    "1,5,inf": r"line 3: output_tokens 'inf': is not a finite number",
    "1,5,9e99": r"line 3: output_tokens '9e99': is more than 1000000000",
    "1,5,": r"line 3: output_tokens '': is missing",
    ",5,5": r"line 3: time_s '': is missing",
    "1,5": r"line 3: has 2 cells, the header 3",
    "1,5,5,5": r"line 3: has 4 cells, the header 3",
    '1,5,"5': r"line \d: not readable as CSV",
}


@pytest.mark.parametrize("row", BAD_ROWS)
def test_bad_rows(write: Write, row: str) -> None:
    with pytest.raises(InfoptError, match=BAD_ROWS[row]) as caught:
        read(write(plain("0.5,5,5", row, "9,5,5")))
    assert "trace.csv: line" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 2


BAD_JSON = {
    '{"timestamp": 0, "input_length"': "line 2: not a JSON object",
    "[1, 2]": "line 2: not a JSON object: JSONL has one object",
    mooncake(hash_ids=7): "line 2: hash_ids '7': is not a list of block ids",
    mooncake(hash_ids=[1, -2]): "line 2: hash_ids '-2': is not a block id",
    mooncake(hash_ids=[1, "b"]): "line 2: hash_ids 'b': is not a block id",
    mooncake(hash_ids=[1, True]): "line 2: hash_ids 'True': is not a block id",
    mooncake(hash_ids=[1]): "line 2: hash_ids '1 ids': 600 input tokens are 2 blocks of 512",
    mooncake(hash_ids=[1, 2, 3]): "line 2: hash_ids '3 ids': 600 input tokens are 2 blocks of 512",
    mooncake(hash_ids=None): "line 2: hash_ids '': is missing",
    mooncake(input_length="600"): "line 2: input_length '600': is text, not a number",
    mooncake(input_length=True): "line 2: input_length 'True': is not a number",
    mooncake(input_length=600.5): "line 2: input_length '600.5': is not a whole number",
    mooncake(timestamp=float("nan")): "line 2: timestamp 'nan': is not a finite number",
    mooncake(timestamp=-1): "line 2: timestamp '-1': is negative",
    mooncake(timestamp=10**400): "line 2: timestamp '1000.*': is not a number",
    mooncake(output_length=0): "line 2: output_length '0': is zero",
    mooncake(**{"a\nb": 3}): r"line 2: 'a\\nb' '3': is an unknown column",
    mooncake(delay=3): "line 2: delay '3': is an unknown column",
    json.dumps({"timestamp": 5}): "line 2: input_length '': is missing",
}


@pytest.mark.parametrize("line", BAD_JSON)
def test_bad_json(write: Write, line: str) -> None:
    with pytest.raises(InfoptError, match=BAD_JSON[line]):
        read(write(mooncake() + line, "t.jsonl"))


BAD_FILES = {
    "empty": ("t.csv", b"", "is empty"),
    "only blank lines": ("t.csv", b"\n\n", "is empty"),
    "header only": ("t.csv", plain().encode(), "holds no requests"),
    "not text": ("t.csv", plain("0,5,5").encode() + b"\xff\xfe,5,5\n", "is not UTF-8 text"),
    "utf-16": ("t.csv", plain("0,5,5").encode("utf-16"), "is not UTF-8 text"),
    "no line ends": ("t.csv", b"x" * 1_100_000, "first line is longer"),
    "typo": (
        "t.csv",
        b"time_s,input_tokens,output_tokens,tennant\n",
        "unknown column 'tennant'.*did you mean 'tenant'",
    ),
    "twice": ("t.csv", b"time_s,time_s,input_tokens,output_tokens\n", "column 'time_s' is there twice"),
    "unknown columns": ("t.csv", b"when,in,out\n", r"no trace is known with the columns in, out, when; known: time_s,"),
    "images": ("t.csv", b"TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n", "unknown column 'NumImages'"),
    "another ending": ("t.parquet", b"PAR1", r"a trace is a .csv or .jsonl file"),
    "no ending": ("trace", b"", r"a trace is a .csv or .jsonl file"),
    "array": ("t.jsonl", b"[\n", "line 1: not a JSON object"),
    "milliseconds or seconds": (
        "t.jsonl",
        b'{"timestamp": 1, "input_length": 2, "output_length": 3}\n',
        "milliseconds for some tools and in seconds for others",
    ),
    "sessions": (
        "t.jsonl",
        b'{"session_id": "a", "input_length": 2, "output_length": 3}\n',
        "later turns start after the answer before",
    ),
    "dates with and without offset": (
        "t.csv",
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,1,1\n2024-05-10 00:00:01+00:00,1,1\n",
        "line 3: TIMESTAMP '2024-05-10 00:00:01.00:00': some dates have an offset",
    ),
    "no date": (
        "t.csv",
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n17,1,1\n",
        "line 2: TIMESTAMP '17': is not a date and time",
    ),
    "ids in csv": ("t.csv", b"time_s,input_tokens,output_tokens,prefix\n0,40,1,7 x\n", "prefix 'x': is not a block id"),
    "more ids than tokens": (
        "t.csv",
        b"time_s,input_tokens,output_tokens,prefix\n0,16,1,7 8\n",
        "16 input tokens are 0 to 1 blocks of 16",
    ),
    "negative priority": ("t.csv", b"time_s,input_tokens,output_tokens,priority\n0,16,1,-1\n", "priority '-1': is neg"),
    "no tenant": ("t.csv", b"time_s,input_tokens,output_tokens,tenant\n0,16,1,\n", "tenant '': is not the name"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(write: Write, case: str) -> None:
    name, data, why = BAD_FILES[case]
    with pytest.raises(InfoptError, match=why) as caught:
        read(write(data, name))
    assert "\n" not in str(caught.value)


def test_no_file_folder_pipe_and_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(InfoptError, match=r"no trace that comes with infopt \(.*mooncake.*\); did you mean mooncake\?"):
        open_trace("mooncak")
    with pytest.raises(InfoptError, match="is no file and no trace"):
        open_trace(str(tmp_path / "none.csv"))
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(InfoptError, match="is a folder"):
        open_trace(str(folder))
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with pytest.raises(InfoptError, match="save it to a file"):
        open_trace(str(pipe))
    hidden = tmp_path / "hidden.csv"
    hidden.write_text(plain("0,1,1"))
    hidden.chmod(0)
    if not os.access(hidden, os.R_OK):
        with pytest.raises(InfoptError, match="cannot be read"):
            open_trace(str(hidden))


def test_a_file_that_vanishes_is_said(write: Write) -> None:
    path = write(plain("0,1,1"))
    trace = open_trace(str(path))
    path.unlink()
    with pytest.raises(InfoptError, match="cannot be read: No such file"):
        list(trace.stream())


def test_the_error_comes_where_the_line_is(write: Write) -> None:
    stream = open_trace(str(write(plain("0,5,5", "1,5,5", "2,5,zero")))).stream()
    assert [next(stream).time_s, next(stream).time_s] == [0.0, 1.0]
    with pytest.raises(InfoptError, match="line 4"):
        next(stream)


ROWS = st.lists(
    st.tuples(st.floats(0, 1e6, allow_subnormal=False), st.integers(1, 10**6), st.integers(1, 10**5)),
    min_size=1,
    max_size=20,
)


@given(ROWS)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, int, int]]) -> None:
    rows.sort(key=lambda row: row[0])
    path = tmp_path_factory.mktemp("traces") / "t.csv"
    path.write_text(plain(*(f"{time!r},{inputs},{outputs}" for time, inputs, outputs in rows)))
    first = rows[0][0]
    assert read(path) == [Arrival(time - first, inputs, outputs) for time, inputs, outputs in rows]


PIECES = st.sampled_from(
    [
        *("time_s", "input_tokens", "timestamp", "hash_ids", "1", "-1", "1e400", "nan", "9" * 5000, "1_0", "٣", "1.5"),
        *("[", "]", "{", "}", '"', '"a\\nb"', ":", ",", "\n", "\r", "\0", " ", "true", "null", "é", "\u2028"),
    ]
)


@given(
    st.lists(PIECES, max_size=30).map("".join),
    st.sampled_from([plain(), plain("0,1,1"), mooncake(), ""]),
    st.booleans(),
)
@settings(max_examples=300)
def test_no_text_ends_in_anything_but_requests_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, text: str, head: str, as_json: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / ("fuzz.jsonl" if as_json else "fuzz.csv")
    path.write_bytes((head + text).encode())
    said, found = "", []
    try:
        found = read(path)
    except InfoptError as error:
        said = str(error)
    assert bool(said) != bool(found)
    assert len(said.splitlines()) <= 1
    assert len(said) < 1200
    assert all(arrival.input_tokens >= 1 and arrival.output_tokens >= 1 for arrival in found)


def test_memory_does_not_grow_with_the_file(write: Write) -> None:
    def peak_bytes(requests: int) -> int:
        trace = open_trace(str(write(plain(*(f"{i},{100 + i % 900},{1 + i % 300}" for i in range(requests))))))
        tracemalloc.start()
        assert sum(1 for _ in trace.stream()) == requests
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak_bytes(100)
    assert peak_bytes(60_000) < 1.5 * peak_bytes(2_000) + 100_000


@pytest.mark.parametrize("name", SHARED_FILES)
def test_shipped(name: str) -> None:
    record = shipped_traces()[name]
    text = lzma.decompress((DATA / "traces" / record.file).read_bytes())
    assert hashlib.sha256(text).hexdigest() == record.sha256
    trace = open_trace(name)
    assert sum(1 for _ in trace.stream()) == record.requests == trace.requests
    assert open_trace(name, most_requests=7).requests is None
    assert (record.what, record.licence, record.source) > ("", "", "")


def test_shipped_are_all_tested_here() -> None:
    assert set(shipped_traces()) == set(SHARED_FILES)
    assert {path.name for path in (DATA / "traces").iterdir()} == {trace.file for trace in shipped_traces().values()}


@pytest.mark.shared
@pytest.mark.parametrize("name", SHARED_FILES)
def test_shipped_equal_the_published(name: str) -> None:
    path = SHARED / SHARED_FILES[name]
    if not path.exists():
        pytest.skip(f"{path} is not here")
    assert lzma.decompress((DATA / "traces" / shipped_traces()[name].file).read_bytes()) == path.read_bytes()


def test_published_figures_of_the_shipped() -> None:
    """kvcache-ai/Mooncake FAST25-release/README.md: 12,031 requests, 12,035 in and 343 out in the mean."""
    found = describe(open_trace("mooncake"))
    assert (found.requests, round(found.inputs.mean_tokens), round(found.outputs.mean_tokens)) == (12031, 12035, 343)
    # Counted in ../shared/truth/traces/README.md over the same file.
    assert found.distinct_blocks == 182_790
    assert found.hit_share == pytest.approx(0.3664, abs=5e-5)


def test_a_trace_is_small_and_comes_again_after_pickling() -> None:
    trace = open_trace("azure-code", most_requests=50)
    again = pickle.loads(pickle.dumps(trace))
    assert isinstance(again, Trace)
    assert len(pickle.dumps(trace)) < 1000
    assert list(again.stream()) == list(trace.stream())


# The page.

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "traces.md").read_text(encoding="utf-8")


def rows_of(first: str) -> dict[str, list[str]]:
    """Cells behind the first of each row of the table whose header begins with this word."""
    found: dict[str, list[str]] = {}
    inside = False
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        inside = bool(cells) and (inside or cells[0] == first)
        if inside and cells[0].startswith("`"):
            found[cells[0].strip("`")] = cells[1:]
    return found


def test_page_forms() -> None:
    forms = {form["id"]: form for form in read_yaml(FORMS)["forms"]}
    rows = rows_of("form")
    assert set(rows) == set(forms)
    for name, form in forms.items():
        line = " ".join(rows[name])
        columns = [form["time"]["column"], form["input"], form["output"], *form.get("ignored", ())]
        columns += [form[key] for key in ("tenant", "priority") if key in form]
        columns += [form["prefix"]["column"]] if "prefix" in form else []
        assert all(f"`{column}`" in line for column in columns)
        assert {"s": "seconds", "ms": "milliseconds", "date": "date and time"}[form["time"]["unit"]] in rows[name][0]


def test_page_shipped_traces() -> None:
    rows = rows_of("name")
    assert set(rows) == set(shipped_traces())
    for name, cells in rows.items():
        found = describe(open_trace(name))
        inputs, outputs = found.inputs, found.outputs
        minute = dict(found.peaks_per_s)[60.0]
        assert cells[0] == f"{found.requests:,}"
        assert cells[2] == f"{found.rate_per_s:.2f}, {minute:.1f}"
        assert cells[3] == f"{inputs.mean_tokens:,.0f}, {inputs.p50_tokens:,}, {inputs.p99_tokens:,}"
        assert cells[4] == f"{outputs.mean_tokens:,.0f}, {outputs.p50_tokens:,}, {outputs.p99_tokens:,}"
        assert cells[5] in (f"{found.burstiness_ratio:.2f}", "(3 s steps)")


def test_page_errors(write: Write) -> None:
    shown = re.findall(r"^\|[^|]*\| `((?:line|unknown)[^`]*)` \|$", PAGE, re.MULTILINE)
    said = []
    for row in ("0.4,5,5", "nan,5,5", "1,many,5", "1,5,0", "1,5,", "1,5"):
        with pytest.raises(InfoptError) as caught:
            read(write(plain("0.5,5,5", row)))
        said.append(str(caught.value).split(": ", 1)[1])
    with pytest.raises(InfoptError) as caught:
        read(write("time_s,input_tokens,output_tokens,tennant\n"))
    said.append(re.sub(r"\(.*\)", "(...)", str(caught.value).split(": ", 1)[1]))
    with pytest.raises(InfoptError) as caught:
        read(write(mooncake() + mooncake(hash_ids=[1]), "t.jsonl"))
    said.append(str(caught.value).split(": ", 1)[1])
    assert shown == said


def test_page_profiles_and_cells() -> None:
    rows = rows_of("profile")
    assert set(rows) == set(profile_names())
    for name, cells in rows.items():
        profile = load_profile(name)
        assert cells[0] == f"{profile.input.mean_tokens:,.0f}, {profile.output.mean_tokens:,.0f}"
        assert set(re.findall("measured|assumed", cells[1])) == {profile.input.kind, profile.output.kind}
        targets = profile.targets
        asked = [
            f"TTFT {format_target(targets.ttft_s)}" if targets.ttft_s else "",
            f"TPOT {format_target(targets.tpot_s)}" if targets.tpot_s else "",
            f"all in {format_target(targets.e2e_s)}" if targets.e2e_s else "",
        ]
        assert cells[2] == (", ".join(text for text in asked if text) or "none")
    for cell in matrix_cells():
        assert f"`{cell.id}`" in PAGE


def format_target(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= 1 else f"{1000 * seconds:g} ms"
