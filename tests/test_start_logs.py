"""Start-up logs: every line kind, every engine, real logs, hostile files, and the ledger beside them."""

import itertools
import json
import random
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from calibrations import calibration, device, measurement
from calibrations import written as record_at
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.cli import run
from infopt.errors import InfoptError
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.calibrate import resolve_calibrated
from infopt.hardware.calibration import MemoryTerm, load_calibration
from infopt.hardware.names import resolve_hardware
from infopt.observing.start_logs import StartLog, read_start_log, read_start_log_file
from infopt.observing.start_logs.patterns import COMMON, compiled, log_lines_of, logged_engines
from infopt.observing.start_logs.text import HEAD_BYTES, MAX_LINE_CHARS, TAIL_BYTES, log_lines
from infopt.profiles.engines import engine_names
from infopt.profiles.resolve import resolve_model
from infopt.reports.start_log_report import start_log_json, start_log_lines, start_log_markdown
from infopt.studies.planning import plan
from infopt.studies.scenarios import Request
from infopt.studies.start_log import StartLogPage, start_log_page
from infopt.studies.start_log_memory import calibrate_memory, memory_terms

LOGS = Path(__file__).parent / "data" / "start_logs"
LIVE = Path(__file__).parents[2] / "shared" / "live"
GIB = 2**30
H100 = resolve_hardware("h100")


def log_of(name: str) -> StartLog:
    return read_start_log_file(next(LOGS.glob(f"{name}.*")))


def page_of(name: str, model: str, hardware: str | None, **request: object) -> StartLogPage:
    choice = resolve_hardware(hardware) if hardware else None
    return start_log_page(log_of(name), resolve_model(model), choice, Request(**request))  # type: ignore[arg-type]


def row(page: StartLogPage, name: str) -> object:
    return next(row for row in page.rows if row.name == name)


# ---- what is read

FIGURES = {
    "vllm_v1_colours": {
        "engine": "vllm", "engine_version": "0.19.1", "model": "meta-llama/Llama-3.1-8B-Instruct", "tp": 1,
        "context_tokens": 16384, "utilization_share": 0.87, "max_num_batched_tokens": 8192, "dtype": "bf16",
        "prefix_caching": False, "eager": False, "kv_pool_tokens": 424096, "max_concurrency": 25.88, "started": True,
        "weights_bytes": 14.99, "activation_bytes": 1.89, "non_torch_bytes": 0.25, "graphs_taken_bytes": 0.94,
        "kv_pool_bytes": 51.77, "total_bytes": 79.19, "free_at_start_bytes": 78.61, "load_s": 3.412877, "init_s": 21.47,
    },
    "vllm_v1_tp2": {
        "engine": "vllm", "engine_version": "0.32.1", "tp": 2, "context_tokens": 32768, "max_num_seqs": 512,
        "weights_bytes": 7.52, "consumed_bytes": 9.63, "activation_bytes": 1.47, "graphs_estimated_bytes": 0.38,
        "graphs_taken_bytes": 0.29, "kv_pool_bytes": 61.37, "kv_pool_tokens": 1005472, "max_concurrency": 30.68,
        "prefix_caching": True, "started": True,
    },
    "vllm_v0": {
        "engine": "vllm", "engine_version": "0.6.6", "model": "Qwen/Qwen2.5-7B-Instruct", "eager": True,
        "utilization_share": 0.95, "max_num_seqs": 256, "total_bytes": 23.64, "weights_bytes": 14.25,
        "non_torch_bytes": 0.21, "activation_bytes": 1.51, "kv_pool_bytes": 6.49, "kv_blocks": 7595,
        "max_concurrency": 14.83, "context_tokens": 8192,
    },
    "vllm_cpu": {
        "engine": "vllm", "engine_version": "0.32.0", "processor": True, "kv_pool_bytes": 3.0, "total_bytes": 62.71,
        "kv_pool_tokens": 262144, "max_concurrency": 64.0, "context_tokens": 4096, "load_s": 0.92,
    },
    "sglang_tp2": {
        "engine": "sglang", "tp": 2, "utilization_share": 0.85, "block_tokens": 1, "weights_bytes": 7.71,
        "free_at_load_bytes": 77.9, "kv_pool_bytes": 58.5, "kv_pool_tokens": 852113, "graphs_taken_bytes": 1.21,
        "max_num_batched_tokens": 8192, "max_num_seqs": 2048, "context_tokens": 40960, "started": True, "eager": False,
    },
    "trtllm_engine": {
        "engine": "tensorrt-llm", "engine_version": "0.17.0", "weights_bytes": 15330 / 1024,
        "activation_bytes": (612.5 + 51.25 + 96.25) / 1024, "free_at_load_bytes": 61.02, "total_bytes": 79.19,
        "kv_blocks": 7029, "block_tokens": 64, "kv_pool_tokens": 449856, "kv_pool_bytes": 54.91, "max_num_seqs": 48,
        "context_tokens": 16384, "max_num_batched_tokens": 4096,
    },
    "llamacpp_two_gpus": {
        "engine": "llama.cpp", "engine_version": "6123", "device": "NVIDIA GeForce RTX 3090", "context_tokens": 16384,
        "max_num_seqs": 2, "kv_format": "f16", "kv_pool_tokens": 16384, "kv_pool_bytes": 2.0,
        "weights_bytes": (7072.53 + 7242.51) / 1024, "activation_bytes": 2 * 358.75 / 1024, "started": True,
    },
}  # fmt: skip
REFUSALS = {
    "vllm_refused_length": {
        "kind": "kv_too_small", "context_tokens": 131072, "needed_bytes": 16.0, "available_bytes": 4.31,
        "estimated_context_tokens": 35296,
    },
    "vllm_refused_free": {
        "kind": "free_below_utilization", "free_bytes": 28.4, "total_bytes": 44.39, "wanted_bytes": 39.95,
        "utilization_share": 0.9,
    },
    "vllm_cpu_numa": {"kind": "numa", "workers": 4},
    "sglang_refused": {"kind": "no_kv", "utilization_share": 0.6},
    "trtllm_oom": {"kind": "out_of_memory", "tried_bytes": 2.38, "total_bytes": 15.77, "free_bytes": 137.12 / 1024},
    "llamacpp_oom": {"kind": "out_of_memory", "tried_bytes": 40232 / 1024},
}  # fmt: skip


def assert_figures(found: object, expected: dict[str, object], worst: StartLog | None = None) -> None:
    for name, value in expected.items():
        got = getattr(found, name, None)
        if got is None and worst is not None:
            got = worst.worst(name)
        wanted = value * GIB if name.endswith("_bytes") else value  # type: ignore[operator]
        assert got == (pytest.approx(wanted, rel=1e-6) if isinstance(wanted, float) else wanted), name


@pytest.mark.parametrize("name", FIGURES)
def test_what_a_start_says_is_read(name: str) -> None:
    log = log_of(name)
    assert log.refusal is None
    assert_figures(log, FIGURES[name], log)


@pytest.mark.parametrize("name", REFUSALS)
def test_why_a_start_was_refused_is_read(name: str) -> None:
    log = log_of(name)
    assert log.refusal is not None
    assert log.started is False
    assert_figures(log.refusal, REFUSALS[name])


def test_every_fixture_is_expected_and_every_engine_has_two() -> None:
    assert {path.stem for path in LOGS.iterdir()} == {*FIGURES, *REFUSALS}
    engines = [log_of(name).engine for name in (*FIGURES, *REFUSALS)]
    assert {engine: engines.count(engine) >= 2 for engine in logged_engines()} == dict.fromkeys(logged_engines(), True)
    assert set(logged_engines()) <= set(engine_names())


def example_lines() -> list[tuple[str, str, object]]:
    found = []
    for engine in (*logged_engines(), COMMON):
        lines = log_lines_of(engine)
        found += [(engine, line.example, line) for line in (*lines.lines, *lines.refusals)]
    return found


@pytest.mark.parametrize(("engine", "example", "line"), example_lines())
def test_every_line_reads_its_own_example(engine: str, example: str, line: object) -> None:
    assert line.find in example  # type: ignore[attr-defined]
    pattern = line.pattern  # type: ignore[attr-defined]
    if pattern is None:
        return
    match = compiled(pattern).search(example)
    assert match is not None
    assert any(match.groupdict().values())


@pytest.mark.parametrize("engine", logged_engines())
def test_option_lines_fill_fields(engine: str) -> None:
    for line in log_lines_of(engine).option_lines:
        log = read_start_log(line.example, "here")
        assert log.engine == engine
        assert log.tp or log.context_tokens or log.max_num_seqs


@pytest.mark.parametrize(("engine", "example", "line"), example_lines())
def test_no_pattern_is_slow_on_what_it_was_not_made_for(engine: str, example: str, line: object) -> None:
    """A pattern that backtracks needs seconds for lines of this length."""
    pattern = line.pattern  # type: ignore[attr-defined]
    if pattern is None:
        return
    rng = random.Random(3)
    pieces = re.findall(r"[\d.,]+|\w+|\W", example)
    lines = [
        example.replace("GiB", "") * 40, line.find * 2000, line.find + "9" * MAX_LINE_CHARS,  # type: ignore[attr-defined]
        line.find + " " * MAX_LINE_CHARS, line.find + "a=1, " * 6000, line.find + "(" * MAX_LINE_CHARS,  # type: ignore[attr-defined]
        "".join(rng.choice(pieces) for _ in range(9000)),
    ]  # fmt: skip
    started = time.process_time()
    for text in lines:
        compiled(pattern).search(text[:MAX_LINE_CHARS])
    assert time.process_time() - started < 1.0


# ---- prefixes must not matter

PREFIXES = (
    lambda line: line,
    lambda line: f"2026-03-04T10:00:00.123456789Z stderr F {line}",
    lambda line: f"vllm-0  | {line}",
    lambda line: json.dumps({"log": line + "\n", "stream": "stderr"}),
    lambda line: json.dumps({"level": "INFO", "message": line}),
    lambda line: f"\x1b[32m{line}\x1b[0m",
    lambda line: line + "\r",
)


@pytest.mark.parametrize("prefix", range(len(PREFIXES)))
@pytest.mark.parametrize("name", [*FIGURES, *REFUSALS])
def test_what_stands_before_a_line_does_not_matter(name: str, prefix: int) -> None:
    """Colours, containers, JSON: the same figures."""
    path = next(LOGS.glob(f"{name}.*"))
    lines = [line for line in log_lines(path.read_text(encoding="utf-8")) if line]
    text = "\n".join(PREFIXES[prefix](line) for line in lines)
    plain = read_start_log("\n".join(lines), "here")
    assert read_start_log(text, "here").model_copy(update={"refusal": None}) == plain.model_copy(
        update={"refusal": None}
    )
    found, expected = read_start_log(text, "here").refusal, plain.refusal
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.model_copy(update={"text": ""}) == expected.model_copy(update={"text": ""})


def test_the_last_of_several_starts_is_read() -> None:
    """A container that restarts: refused, then given less."""
    refused = "\n".join(log_lines((LOGS / "vllm_refused_length.jsonl").read_text()))
    log = read_start_log(refused + "\n" + (LOGS / "vllm_v1_colours.log").read_text(), "here")
    assert log.starts == 2
    assert log.refusal is None
    assert log.kv_pool_tokens == 424096
    assert any("2 starts" in note for note in log.notes)


def test_memory_that_runs_out_later_is_no_refusal() -> None:
    later = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."
    log = read_start_log((LOGS / "vllm_v1_colours.log").read_text() + later, "here")
    assert log.started is True
    assert log.refusal is None
    assert any("after the start" in note for note in log.notes)


def test_the_worst_rank_counts() -> None:
    lines = [
        "non-default args: {'model': 'm', 'tensor_parallel_size': 2}",
        "(Worker_TP0 pid=1) INFO Model loading took 7.51 GiB memory and 2.0 seconds",
        "(Worker_TP1 pid=2) INFO Model loading took 7.93 GiB memory and 1.0 seconds",
        "(Worker_TP0 pid=1) INFO Available KV cache memory: 21.40 GiB",
        "(Worker_TP1 pid=2) INFO Available KV cache memory: 20.90 GiB",
    ]
    log = read_start_log("\n".join(lines), "here")
    assert len(log.ranks) == 2
    assert log.worst("weights_bytes") == pytest.approx(7.93 * GIB)
    assert log.kv_pool_bytes == pytest.approx(20.90 * GIB)
    assert log.worst("load_s") == 2.0


# ---- hostile files


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "engine.log"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"\x7fELF" + bytes(5000), "not text"),
        (b"INFO: hello\n" * 50, "none of the lines known was found"),
        (b"INFO:     Application startup complete.\n", "none of the lines known was found"),
        (b"<html><body>502</body></html>", "Available KV cache memory"),
    ],
)
def test_what_is_no_log_is_one_clear_line(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(InfoptError, match=re.escape(says)) as caught:
        read_start_log_file(written(tmp_path, data))
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders_are_said(tmp_path: Path) -> None:
    for path in (tmp_path / "none.log", tmp_path):
        with pytest.raises(InfoptError, match="cannot be read"):
            read_start_log_file(path)


def test_a_line_of_ten_megabytes_hides_nothing(tmp_path: Path) -> None:
    text = (LOGS / "vllm_v0.log").read_bytes()
    path = written(tmp_path, b"x" * 10_000_000 + b"\n{" + b'"a":' * 1000 + b"\n" + text)
    started = time.process_time()
    assert read_start_log_file(path).kv_blocks == 7595
    assert time.process_time() - started < 5


def test_a_large_file_is_read_at_both_ends(tmp_path: Path) -> None:
    """A gigabyte of requests after the start: sparse, so that the test costs no disk."""
    path = written(tmp_path, (LOGS / "vllm_v1_colours.log").read_bytes())
    with path.open("r+b") as handle:
        handle.seek(HEAD_BYTES)
        handle.truncate(2**30)
        handle.seek(2**30 - 200)
        handle.write(b"\n" + b"INFO: 10.0.0.7 POST 200\n" * 8)
    with pytest.raises(InfoptError, match="not text"):  # the hole is NUL bytes
        read_start_log_file(path)
    filler = b"INFO: 10.0.0.7:1 - POST /v1/completions 200 OK\n"
    head = (LOGS / "vllm_v1_colours.log").read_bytes()
    size = HEAD_BYTES + TAIL_BYTES + 5_000_000
    path.write_bytes(head + filler * ((size - len(head)) // len(filler) + 1))
    log = read_start_log_file(path)
    assert log.kv_pool_tokens == 424096
    assert any("were not read" in note for note in log.notes)


def test_utf16_of_a_redirect_is_read(tmp_path: Path) -> None:
    text = (LOGS / "vllm_v0.log").read_text()
    assert read_start_log_file(written(tmp_path, text.encode("utf-16"))).kv_blocks == 7595


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_cut_and_shuffled_logs_never_end_in_a_traceback(data: st.DataObject) -> None:
    text = next(LOGS.glob(f"{data.draw(st.sampled_from([*FIGURES, *REFUSALS]))}.*")).read_text(encoding="utf-8")
    lines = text.splitlines()
    kept = data.draw(st.lists(st.sampled_from(lines), max_size=12))
    cut = "\n".join(line[: data.draw(st.integers(0, len(line)))] for line in kept)
    try:
        log = read_start_log(cut, "here")
    except InfoptError:
        return
    page = start_log_page(log, None, None)
    assert start_log_lines(page)
    json.dumps(start_log_json(page))


# ---- beside the ledger


def test_tokens_and_concurrency_in_the_engines_pool_are_exact() -> None:
    pages = [
        page_of("vllm_v1_colours", "llama-3.1-8b", "h100"),
        page_of("vllm_v1_tp2", "llama-3.1-8b", "h100"),
        page_of("vllm_v0", "qwen2.5-7b", "rtx-4090"),
        page_of("vllm_cpu", "qwen2.5-0.5b", None),
        page_of("trtllm_engine", "llama-3.1-8b", "h100"),
        page_of("sglang_tp2", "qwen3-8b", "h100"),
    ]
    for page in pages:
        exact = [row for row in page.rows if row.name.endswith(" in it")]
        assert exact, page.log.source
        for one in exact:
            assert one.inside, (page.log.source, one)


def test_a_pool_is_predicted_blind() -> None:
    page = page_of("vllm_v1_colours", "llama-3.1-8b", "h100")
    pool = row(page, "KV pool")
    assert pool.inside  # type: ignore[attr-defined]
    assert abs(pool.difference) < 0.005  # type: ignore[attr-defined]
    assert page.scenario is not None
    assert (page.scenario.context_tokens, page.scenario.utilization) == (16384, 0.87)


def test_buffers_of_exact_size_add_up_over_devices() -> None:
    page = page_of("llamacpp_two_gpus", "llama-3.1-8b", "rtx-3090:2")
    assert row(page, "KV cache").difference == pytest.approx(0, abs=1e-9)  # type: ignore[attr-defined]
    assert row(page, "weights").inside  # type: ignore[attr-defined]


VERDICTS = [
    ("vllm_refused_length", "llama-3.1-8b", "rtx-3090", True, "35,296"),
    ("vllm_refused_free", "qwen3-8b", "l40s", True, "39.95 GiB"),
    ("vllm_cpu_numa", "llama-3.1-8b", None, None, "workers"),
    ("sglang_refused", "qwen3-8b", "l4", True, "utilization 0.6"),
    ("trtllm_oom", "qwen3-8b", "t4", True, "does not fit"),
    ("llamacpp_oom", "llama-3.3-70b:q4_k_m", "rtx-3090:2", False, "47.16 GiB"),
    ("llamacpp_oom", "llama-3.3-70b:q4_k_m", None, None, "--hw"),
]


@pytest.mark.parametrize(("name", "model", "hardware", "predicted", "says"), VERDICTS)
def test_refusals_are_held_against_the_ledger(
    name: str, model: str, hardware: str | None, predicted: bool | None, says: str
) -> None:
    found = page_of(name, model, hardware).verdict
    assert found is not None
    assert found.predicted is predicted
    assert says in found.text


def test_options_that_contradict_the_log_are_refused() -> None:
    with pytest.raises(InfoptError, match="--tp 4 contradicts"):
        page_of("vllm_v1_tp2", "llama-3.1-8b", "h100", tp=4)
    assert page_of("vllm_v1_tp2", "llama-3.1-8b", "h100", tp=2).rows


def test_without_a_model_the_log_stands_alone() -> None:
    page = start_log_page(log_of("vllm_v1_colours"), None, None)
    text = start_log_lines(page)
    assert "51.77 GiB" in text
    assert "--model" in text


@pytest.mark.parametrize("name", [*FIGURES, *REFUSALS])
def test_pages_fit_a_narrow_terminal_and_are_json(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = page_of(name, "llama-3.1-8b", "h100:4" if log_of(name).together else "h100")
    assert max(map(len, start_log_lines(page).splitlines())) <= 80
    assert start_log_markdown(page).startswith("### ")
    again = json.loads(json.dumps(start_log_json(page), allow_nan=False))
    assert again["schema"] == "infopt/start-log/1"
    assert len(again["terms"]) == len(page.rows)


# ---- calibration


def calibrated(terms: tuple[MemoryTerm, ...], hardware: str = "h100") -> HardwareChoice:
    choice = resolve_hardware(hardware)
    return replace(choice, accelerator=replace(choice.accelerator, measured_memory=terms))


def test_a_log_calibrates_another_start_of_its_engine(tmp_path: Path) -> None:
    """Constants of 0.32 are carried over: one start makes the pool of the next certain."""
    page = page_of("vllm_v1_tp2", "llama-3.1-8b", "h100")
    path = tmp_path / "h100.yaml"
    written_terms = calibrate_memory(page, resolve_hardware("h100"), path)
    assert {term.name for term in written_terms} == {"non_torch", "activation", "graphs", "total"}
    assert load_calibration(path).memory == list(written_terms)
    model, own = resolve_model("llama-3.1-8b"), resolve_calibrated("h100", str(path))
    request = Request(tp=2, context_tokens=8192, utilization=0.8, engine_version="0.32.1", max_num_seqs=512, kv="fp8")
    before, after = (plan(model, hardware, request).memory for hardware in (resolve_hardware("h100"), own))
    expected = (0.8 * 79.19 - 7.52 - 2.11 - 1.47 - 0.38) * GIB
    assert after.kv_pool_bytes_per_gpu == pytest.approx(expected, abs=0.01 * GIB)
    widths = [m.kv_pool_high_bytes - m.kv_pool_low_bytes for m in (before, after)]
    assert widths[1] < widths[0] / 5
    measured = {
        term.name: term for term in after.terms if term.kind == "measured" and str(page.log.source) == term.source
    }
    assert set(measured) == {"activation", "communication", "engine", "graphs"}
    assert "carried over" not in " ".join(c.text for c in after.caveats)


def test_other_limits_move_by_the_shipped_constants() -> None:
    page = page_of("vllm_v1_tp2", "llama-3.1-8b", "h100")
    assert page.scenario is not None
    choice = calibrated(memory_terms(page.log, page.scenario))
    model = resolve_model("llama-3.1-8b")

    def activation(hardware: HardwareChoice, sequences: int) -> float:
        request = Request(tp=2, context_tokens=8192, engine_version="0.32.1", max_num_seqs=sequences)
        return plan(model, hardware, request).memory.activation_bytes

    shipped = [activation(resolve_hardware("h100"), n) for n in (512, 1024)]
    moved = [activation(choice, n) for n in (512, 1024)]
    assert moved[1] - moved[0] == pytest.approx(shipped[1] - shipped[0])
    assert moved[0] == pytest.approx(1.47 * GIB)


def test_only_its_own_engine_version_and_placement_count() -> None:
    page = page_of("vllm_v1_tp2", "llama-3.1-8b", "h100")
    assert page.scenario is not None
    choice = calibrated(memory_terms(page.log, page.scenario))
    model, plain = resolve_model("llama-3.1-8b"), resolve_hardware("h100")
    for changed in ({"engine_version": "0.31.0"}, {"tp": 4}, {"engine": "sglang", "engine_version": None}):
        request = replace(Request(tp=2, context_tokens=8192, engine_version="0.32.1"), **changed)
        assert plan(model, choice, request).memory == plan(model, plain, request).memory


def test_another_model_learns_where_constants_are_not_known() -> None:
    page = page_of("vllm_v1_tp2", "llama-3.1-8b", "h100")
    assert page.scenario is not None
    choice = calibrated(memory_terms(page.log, page.scenario))
    other, plain = resolve_model("qwen3-8b"), resolve_hardware("h100")
    request = Request(tp=2, context_tokens=8192, engine_version="0.32.1")
    found, shipped = plan(other, choice, request).memory, plan(other, plain, request).memory
    ratio = 1.47 * GIB / page.memory.activation_bytes  # type: ignore[union-attr]
    assert found.activation_bytes == pytest.approx(shipped.activation_bytes * ratio)
    known = replace(request, engine_version="0.19.1")
    old = page_of("vllm_v1_colours", "llama-3.1-8b", "h100")
    assert old.scenario is not None
    learned = calibrated(memory_terms(old.log, old.scenario))
    assert plan(other, learned, replace(known, tp=1)).memory == plan(other, plain, replace(known, tp=1)).memory


def test_where_only_the_pool_is_printed_the_rest_is_derived() -> None:
    page = page_of("vllm_refused_length", "llama-3.1-8b", "rtx-3090")
    assert page.scenario is not None
    terms = {term.name: term for term in memory_terms(page.log, page.scenario)}
    total = page.scenario.accelerator.usable_memory_bytes
    assert terms["rest"].value_bytes == pytest.approx(0.9 * total - (14.99 + 4.31) * GIB, abs=1e6)
    choice = calibrated(tuple(terms.values()), "rtx-3090")
    request = Request(context_tokens=16384, utilization=0.95, engine_version="0.9.2")
    pool = plan(resolve_model("llama-3.1-8b"), choice, request).memory.kv_pool_bytes_per_gpu
    assert pool == pytest.approx((4.31 * GIB) + 0.05 * total, abs=0.2 * GIB)


def test_a_static_share_learns_what_was_gone_before_the_weights() -> None:
    page = page_of("sglang_tp2", "qwen3-8b", "h100")
    assert page.scenario is not None
    terms = {term.name: term for term in memory_terms(page.log, page.scenario)}
    assert terms["non_torch"].value_bytes == pytest.approx((79.19 - 77.9) * GIB, rel=1e-3)


def test_records_without_memory_load_and_stay_as_they_were(tmp_path: Path) -> None:
    """Their checksum is over what they hold: no key may come in."""
    path = record_at(tmp_path / "old.yaml", calibration(measurement()))
    text = path.read_text()
    assert "memory:" not in text
    assert load_calibration(path).memory == []


def test_a_log_is_added_to_a_record_of_probe(tmp_path: Path) -> None:
    old = calibration(measurement(), device=device(name="NVIDIA H100", accelerator=H100.accelerator.id))
    path = record_at(tmp_path / "old.yaml", old)
    before = load_calibration(path)
    page = page_of("vllm_v1_tp2", "llama-3.1-8b", "h100")
    calibrate_memory(page, resolve_hardware("h100"), path)
    calibrate_memory(page, resolve_hardware("h100"), path)  # the same start replaces itself
    after = load_calibration(path)
    assert (after.measurements, after.device, after.state) == (before.measurements, before.device, before.state)
    assert len(after.memory) == 4


def test_what_cannot_be_learned_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.yaml"
    h100 = resolve_hardware("h100")
    with pytest.raises(InfoptError, match="nothing in it"):
        calibrate_memory(page_of("vllm_cpu", "qwen2.5-0.5b", None), h100, path)
    with pytest.raises(InfoptError, match="--model"):
        calibrate_memory(start_log_page(log_of("vllm_v0"), None, None), h100, path)
    with pytest.raises(InfoptError, match="--hw"):
        calibrate_memory(page_of("vllm_v1_tp2", "llama-3.1-8b", None), None, path)
    with pytest.raises(InfoptError, match="--engine-version"):
        calibrate_memory(page_of("sglang_tp2", "qwen3-8b", "h100"), h100, path)
    wrong = resolve_hardware("h200")
    with pytest.raises(InfoptError, match="its device has 79"):
        calibrate_memory(page_of("vllm_v1_tp2", "llama-3.1-8b", "h200"), wrong, path)
    assert not path.exists()


def test_a_processor_that_sized_its_pool_itself_is_learned() -> None:
    """It prints all it uses beside the pool; one that was given its pool teaches nothing."""
    text = (LOGS / "vllm_cpu.log").read_text()
    auto = (
        "Auto set (54.31/62.71) GiB for KV cache on node 0, with 57.69 GiB requested memory for the worker. "
        "3.38 GiB memory was consumed by non-kv usages."
    )
    log = read_start_log(text.replace("Explicitly set (3.0/62.71) GiB for KV cache on node 0.", auto), "here")
    page = start_log_page(log, resolve_model("qwen2.5-0.5b"), None)
    assert page.scenario is not None
    assert page.memory is not None
    assert page.scenario.kv_pool_bytes is None
    (term,) = memory_terms(log, page.scenario)
    assert term.name == "rest"
    assert term.value_bytes == pytest.approx(3.38 * GIB - page.memory.weights_bytes_per_gpu)
    device = replace(page.scenario.accelerator, measured_memory=(term,))
    learned = start_log_page(log, resolve_model("qwen2.5-0.5b"), HardwareChoice(device, None, "here"))
    assert row(learned, "KV pool").difference == pytest.approx(0, abs=2e-4)  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", [".", "1.2.3", "9" * 12, "0", "-.", "1e9"])
def test_figures_that_are_no_numbers_are_no_figures(number: str) -> None:
    for name in (*FIGURES, *REFUSALS):
        text = next(LOGS.glob(f"{name}.*")).read_text(encoding="utf-8")
        changed = re.sub(r"(?<=[ (=])\d+\.\d+(?=[ )]|GiB|x)", number, text)
        log = read_start_log(changed, "here")
        assert start_log_lines(start_log_page(log, None, None))


@pytest.mark.parametrize("name", sorted(path.name for path in LOGS.iterdir()))
def test_figures_nobody_can_mean_are_not_said(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In places all over a log, beside a ledger: a page or one line, and JSON without NaN."""
    text = (LOGS / name).read_text(encoding="utf-8")
    path = tmp_path / "start.log"
    wrong = itertools.cycle(["-5", "nan", "0", "1e308", "9" * 23])
    for there, number in zip(list(re.finditer(r"(?<=[ (=:'])\d+(\.\d+)?", text))[::3], wrong, strict=False):
        path.write_text(text[: there.start()] + number + text[there.end() :], encoding="utf-8")
        assert run(["observe", "--log", str(path), "--json", "--model", "qwen3-8b", "--hw", "h100"]) in (0, 1, 2)
        json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_what_is_not_set_is_not_zero() -> None:
    """SGLang's and vLLM's -1 and 0 are "the engine's own choice"; a total of 0 divides nothing."""
    text = (LOGS / "sglang_refused.log").read_text(encoding="utf-8")
    for size in ("-1", "0"):
        log = read_start_log(text.replace("page_size=1)", f"page_size={size})"), "here")
        assert log.block_tokens is None
        assert start_log_page(log, resolve_model("qwen3-8b"), None).verdict is not None


# ---- real logs

REAL = {
    "start_eager": ("smollm2-135m", 46592, 11.38), "start_compile": ("smollm2-135m", 46592, 11.38),
    "start_prefix": ("smollm2-135m", 46592, 11.38), "start_ngram4": ("smollm2-135m", 46592, 11.38),
    "start_kv2gib": ("smollm2-135m", 93184, 45.50), "start_kvfp8": ("smollm2-135m", 93184, 45.50),
    "start_f32": ("smollm2-135m", 23296, 11.38), "preempt": ("smollm2-135m", 4224, 2.06),
    "start_0p5b_dummy": ("qwen2.5-0.5b", 87296, 42.62), "start_1p1b_dummy": ("tinyllama-1.1b", 47616, 23.25),
    "start_tp2": ("tinyllama-1.1b", 95232, 46.50),
}  # fmt: skip
REAL_REFUSALS = {
    "fail_maxlen_kv": ("kv_too_small", True, "at most 4,096 tokens (the engine: 4,096)"),
    "fail_ram_utilization": ("free_below_utilization", True, "19.70 GiB"),
    "fail_block16": ("block_size", True, "multiple of 32"),
    "fail_tp2_numa": ("numa", None, "workers"),
}
live = pytest.mark.skipif(not LIVE.is_dir(), reason="../shared/live is not there")


@live
@pytest.mark.shared
@pytest.mark.parametrize("name", REAL)
def test_real_starts_are_met_exactly(name: str) -> None:
    model, tokens, concurrency = REAL[name]
    log = read_start_log_file(LIVE / f"{name}_log.txt")
    assert (log.engine_version, log.kv_pool_tokens, log.max_concurrency) == ("0.32.0", tokens, concurrency)
    page = start_log_page(log, resolve_model(model), None)
    assert row(page, "KV tokens in it").expected == tokens  # type: ignore[attr-defined]
    assert row(page, "concurrency in it").inside  # type: ignore[attr-defined]


@live
@pytest.mark.shared
@pytest.mark.parametrize("name", REAL_REFUSALS)
def test_real_refusals_are_predicted(name: str) -> None:
    kind, predicted, says = REAL_REFUSALS[name]
    log = read_start_log_file(LIVE / f"{name}_log.txt")
    assert log.refusal is not None
    assert log.refusal.kind == kind
    model = "tinyllama-1.1b" if name == "fail_tp2_numa" else "smollm2-135m"
    found = start_log_page(log, resolve_model(model), None).verdict
    assert found is not None
    assert found.predicted is predicted
    assert says in found.text


@live
@pytest.mark.shared
def test_every_real_log_is_expected() -> None:
    names = {path.name.removesuffix("_log.txt") for path in LIVE.glob("*_log.txt")}
    assert names == {*REAL, *REAL_REFUSALS}
