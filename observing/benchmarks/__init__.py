"""Results of load generators and benchmarks, read into observations: one file a tool.

A tool's file has `claims(result)`, by what only that tool writes about a run (never by its figures, so that a result
whose figures are missing is refused by name), and `observe(result, where)`. The first that claims a result reads it.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from infopt.errors import InfoptError

if TYPE_CHECKING:
    from infopt.observing.observation import Observation

# Figures by which a result is known to somebody who reads it -> whose they are, and what tells the tool.
FIGURES = {
    "mean_ttft_ms": ("vllm bench serve and SGLang's bench_serving", "backend, model_id, tokenizer_id, request_rate"),
    "median_tpot_ms": ("vllm bench serve and SGLang's bench_serving", "backend, model_id, tokenizer_id, request_rate"),
    "time_to_first_token": ("aiperf and genai-perf", "input_config, and the unit of each metric"),
    "avg_ts": ("llama-bench", "build_commit, model_filename"),
}
MOST_RESULTS = 10_000  # lines of one file
MOST_ITEMS = 4_000_000  # JSON values: --save-detailed keeps one for each token


def read_benchmark(data: Any, source: str) -> "list[Observation] | None":
    """The observations of a benchmark's file, parsed: a JSON object, an array or the objects of its lines.

    None if it is no result of a tool that is known. Errors: InfoptError for a known tool's result with figures that are
    missing, negative or no numbers, in which nothing ran, or that stands beside things that are no results.
    """
    results = data if isinstance(data, list) else [data]
    readers = [_reader(result) for result in results[: MOST_RESULTS + 1]]
    if not any(readers):
        return None
    if len(results) > MOST_RESULTS:
        raise InfoptError(f"{source}: holds {len(results)} results, more than {MOST_RESULTS}: split the file")
    found: list[Observation] = []
    for number, (result, reader) in enumerate(zip(results, readers, strict=True), 1):
        where = source if len(results) == 1 else f"{source}: result {number}"
        if reader is None:
            raise InfoptError(f"{where}: is no benchmark result that is known, though others of the file are")
        found += reader.observe(result, where)
    return found


def read_benchmark_text(data: bytes, source: str) -> "list[Observation] | None":
    """The same from the bytes of a file: one JSON value, or one a line as append modes write.

    None if it is no JSON or no known result. Errors: as above, and InfoptError for JSON that breaks off.
    """
    from infopt.profiles.files import parse_json

    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    lines = [line for line in data.splitlines() if line.strip()]
    if len(lines) == 1 or not _is_json(lines[0]):
        return read_benchmark(parse_json(data, source, MOST_ITEMS), source)
    if len(lines) > MOST_RESULTS:
        raise InfoptError(f"{source}: holds {len(lines)} lines, more than {MOST_RESULTS}: split the file")
    items = MOST_ITEMS // len(lines)
    parsed = [parse_json(line, f"{source}: line {number}", items) for number, line in enumerate(lines, 1)]
    return read_benchmark(parsed, source)


def resembles(data: bytes) -> str | None:
    """What the bytes of a result that no tool claims have in common with one; None where that is nothing."""
    from infopt.profiles.files import parse_json, shown

    line = data.split(b"\n", 1)[0]
    parsed = parse_json(line if line.strip() and _is_json(line) else data, "", MOST_ITEMS)
    whole = _first(parsed)
    inside = {str(key): _first(value) for key, value in whole.items()} if isinstance(whole, Mapping) else {}
    within = next((key for key, part in inside.items() if _reader(part)), None)
    if within is not None:
        return f"one stands inside of it: give what is under {shown(within)!r} alone"
    for part in (whole, *inside.values()):
        known = next((told for name, told in FIGURES.items() if isinstance(part, Mapping) and name in part), None)
        if known is not None:
            return f"its figures are those of {known[0]}, but what these say of the run is not there: {known[1]}"
    return None


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _is_json(line: bytes) -> bool:
    """Whether a line is a JSON value by itself, and not the first of one."""
    from infopt.profiles.files import parse_json

    try:
        parse_json(line, "", MOST_ITEMS)
    except InfoptError:
        return False
    return True


def _reader(result: Any) -> ModuleType | None:
    if not isinstance(result, Mapping):
        return None
    return next((tool for tool in _tools() if tool.claims(result)), None)


def _tools() -> tuple[ModuleType, ...]:
    """Each tool's file; SGLang's before vLLM's, whose results it once took the shape of."""
    from infopt.observing.benchmarks import (
        aiperf,
        guidellm,
        inference_perf,
        llama_bench,
        sglang_bench,
        vllm_bench,
        vllm_offline,
    )

    return (sglang_bench, vllm_bench, vllm_offline, guidellm, aiperf, llama_bench, inference_perf)
