"""Flags of engines by version: what `facts/engine_flags.md` and the engines' sources say, and the parsers' rules."""

import argparse
import csv
import itertools
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError, UndeterminedError
from infopt.profiles.flag_data import FOLDER, FlagTable, engines_with_tables, flag_table, release_key
from infopt.profiles.flag_tables import Answer, answer_at, lookup, parse_engine_int

ENGINES = ("llama.cpp", "sglang", "vllm")
SHARED = Path(__file__).resolve().parents[2] / "shared"

# engine, flag, last version read that has it, first that has not. Sources: facts/engine_flags.md section 1c and 2.
GONE = [
    ("vllm", "--swap-space", "0.17.1", "0.18.1"),
    ("vllm", "--disable-log-requests", "0.16.0", "0.17.1"),
    ("vllm", "--max-seq-len-to-capture", "0.10.2", "0.11.0"),
    ("vllm", "--speculative-model", "0.7.3", "0.8.5"),
    ("vllm", "--num-speculative-tokens", "0.7.3", "0.8.5"),
    ("vllm", "--ngram-prompt-lookup-max", "0.7.3", "0.8.5"),
    ("vllm", "--speculative-disable-by-batch-size", "0.7.3", "0.8.5"),
    ("vllm", "--num-scheduler-steps", "0.9.2", "0.10.2"),
    ("vllm", "--multi-step-stream-outputs", "0.9.2", "0.10.2"),
    ("vllm", "--use-v2-block-manager", "0.9.2", "0.10.2"),
    ("vllm", "--device", "0.9.2", "0.10.2"),
    ("vllm", "--enable-prompt-adapter", "0.9.2", "0.10.2"),
    ("vllm", "--preemption-mode", "0.10.2", "0.11.0"),
    ("vllm", "--scheduler-delay-factor", "0.10.2", "0.11.0"),
    ("vllm", "--disable-async-output-proc", "0.10.2", "0.11.0"),
    ("vllm", "--lora-extra-vocab-size", "0.11.0", "0.12.0"),
    ("vllm", "--enable-lora-bias", "0.11.0", "0.12.0"),
    ("vllm", "--cuda-graph-sizes", "0.12.0", "0.13.0"),
    ("vllm", "--task", "0.12.0", "0.13.0"),
    ("vllm", "--disable-mm-preprocessor-cache", "0.12.0", "0.13.0"),
    ("vllm", "--calculate-kv-scales", "0.27.1", "0.28.0"),
    ("sglang", "--max-num-reqs", "0.2.15", "0.3.6"),
    ("sglang", "--enable-ep-moe", "0.5.2", "0.5.5"),
    ("sglang", "--enable-deepep-moe", "0.5.2", "0.5.5"),
]

# engine, flag, last version read that has it not, first that has it.
SINCE = [
    ("vllm", "--cpu-offload-gb", "0.4.2", "0.5.4"),
    ("vllm", "--enable-expert-parallel", "0.7.3", "0.8.5"),
    ("vllm", "--data-parallel-size", "0.7.3", "0.8.5"),
    ("vllm", "--speculative-config", "0.7.3", "0.8.5"),
    ("vllm", "--long-prefill-token-threshold", "0.6.6", "0.7.3"),
    ("vllm", "--prefix-caching-hash-algo", "0.7.3", "0.8.5"),
    ("vllm", "--kv-cache-memory-bytes", "0.9.2", "0.10.2"),
    ("vllm", "--decode-context-parallel-size", "0.9.2", "0.10.2"),
    ("vllm", "--enable-log-requests", "0.9.2", "0.10.2"),
    ("vllm", "--prefill-context-parallel-size", "0.11.0", "0.12.0"),
    ("vllm", "--cudagraph-capture-sizes", "0.11.0", "0.12.0"),
    ("vllm", "--optimization-level", "0.11.0", "0.12.0"),
    ("vllm", "--kv-offloading-size", "0.11.0", "0.12.0"),
    ("vllm", "--offload-group-size", "0.16.0", "0.17.1"),
    ("vllm", "--max-num-active-seqs", "0.30.0", "0.31.0"),
    ("vllm", "--device-memory-utilization", "0.30.0", "0.31.0"),
    ("sglang", "--moe-a2a-backend", "0.4.9.post6", "0.5.2"),
    ("sglang", "--cuda-graph-max-bs-decode", "0.5.11", "0.5.15"),
    ("llama.cpp", "--fit", "b6110", "b9102"),
    ("llama.cpp", "--kv-unified", "b5897", "b6110"),
]

# engine, version, flag, default.
DEFAULTS = [
    ("vllm", "0.19.1", "--gpu-memory-utilization", 0.9),
    ("vllm", "0.20.2", "--gpu-memory-utilization", 0.92),
    ("vllm", "0.5.4", "--max-num-seqs", 256),
    ("vllm", "0.33.0", "--max-num-seqs", None),
    ("vllm", "0.6.6", "--swap-space", 4),
    ("vllm", "0.8.5", "--prefix-caching-hash-algo", "builtin"),
    ("vllm", "0.33.0", "--prefix-caching-hash-algo", "sha256"),
    ("vllm", "0.6.6", "--enable-prefix-caching", None),
    ("vllm", "0.5.4", "--enable-prefix-caching", False),
    ("vllm", "0.33.0", "--mm-processor-cache-gb", 4),
    ("vllm", "0.33.0", "--scheduler-reserve-full-isl", True),
    ("vllm", "0.16.0", "--disable-log-requests", True),
    ("sglang", "0.4.3", "--schedule-policy", "lpm"),
    ("sglang", "0.4.9.post6", "--schedule-policy", "fcfs"),
    ("sglang", "0.5.23", "--max-prefill-tokens", 16384),
    ("sglang", "0.5.23", "--hicache-host-memory-fraction", 0.8),
    ("llama.cpp", "b11312", "--ctx-size", 0),
    ("llama.cpp", "b4094", "--ctx-size", 4096),
    ("llama.cpp", "b11312", "--parallel", -1),
    ("llama.cpp", "b6110", "--parallel", 1),
    ("llama.cpp", "b11312", "--batch-size", 2048),
    ("llama.cpp", "b11312", "--ubatch-size", 512),
    ("llama.cpp", "b11312", "--cache-ram", 8192),
]

# engine, version, word, canonical name: abbreviations seen in public deployment files, short names, spellings.
WORDS = [
    ("vllm", "0.9.2", "--max-num-batched-token", "--max-num-batched-tokens"),
    ("vllm", "0.9.2", "--max-num-seq", "--max-num-seqs"),
    ("vllm", "0.10.2", "--tensor-parallel", "--tensor-parallel-size"),
    ("vllm", "0.10.2", "-tp", "--tensor-parallel-size"),
    ("vllm", "0.33.0", "-pp", "--pipeline-parallel-size"),
    ("vllm", "0.33.0", "-dp", "--data-parallel-size"),
    ("vllm", "0.33.0", "-q", "--quantization"),
    ("vllm", "0.9.2", "-qfp8", "--quantization"),
    ("vllm", "0.7.3", "--pipeline_parallel_size", "--pipeline-parallel-size"),
    ("vllm", "0.33.0", "--gpu_memory_utilization=0.9", "--gpu-memory-utilization"),
    ("vllm", "0.33.0", "--device-memory-utilization", "--gpu-memory-utilization"),
    ("vllm", "0.33.0", "--speculative-config.method", "--speculative-config"),
    ("vllm", "0.10.2", "-O3", "--compilation-config"),
    ("vllm", "0.12.0", "-O3", "--optimization-level"),
    ("sglang", "0.5.23", "--mem-frac", "--mem-fraction-static"),
    ("sglang", "0.5.23", "--tp", "--tp-size"),
    ("sglang", "0.4.3", "--tensor-parallel-size", "--tp-size"),
    ("sglang", "0.5.23", "--model", "--model-path"),
    ("llama.cpp", "b9102", "-c", "--ctx-size"),
    ("llama.cpp", "b9102", "--n_gpu_layers", "--gpu-layers"),
    ("llama.cpp", "b9102", "LLAMA_ARG_CTX_SIZE", "--ctx-size"),
]


def known(engine: str, version: str | None, word: str) -> Answer:
    answer = lookup(engine, version, word)
    assert answer.status == "known", answer
    assert answer.flag is not None
    return answer


def test_the_engines_with_tables():
    assert engines_with_tables() == ENGINES


@pytest.mark.parametrize(("engine", "flag", "last", "gone"), GONE)
def test_a_flag_that_went(engine: str, flag: str, last: str, gone: str):
    before, after = known(engine, last, flag), lookup(engine, gone, flag)
    assert (before.last_with, before.gone) == (last, gone)
    assert (after.status, after.name, after.last_with, after.gone) == ("removed", flag, last, gone)


@pytest.mark.parametrize(("engine", "flag", "before", "since"), SINCE)
def test_a_flag_that_came(engine: str, flag: str, before: str, since: str):
    early, there = lookup(engine, before, flag), known(engine, since, flag)
    assert (early.status, early.last_without, early.since) == ("not_yet", before, since)
    assert (there.last_without, there.since) == (before, since)


@pytest.mark.parametrize(("engine", "version", "flag", "default"), DEFAULTS)
def test_a_default(engine: str, version: str, flag: str, default: object):
    answer = known(engine, version, flag)
    assert answer.flag is not None
    assert json.loads(answer.flag.default) == default


@pytest.mark.parametrize(("engine", "version", "word", "name"), WORDS)
def test_a_word_means_a_flag(engine: str, version: str, word: str, name: str):
    assert known(engine, version, word).name == name


def test_replacements_carry_a_source():
    answer = lookup("vllm", "0.17.1", "--disable-log-requests")
    assert answer.replaced_by == "--no-enable-log-requests"
    assert answer.source
    assert lookup("vllm", "0.13.0", "--cuda-graph-sizes").replaced_by == "--cudagraph-capture-sizes"
    assert "--ep-size" in lookup("sglang", "0.5.5", "--enable-ep-moe").replaced_by
    deprecated = known("sglang", "0.5.15", "--cuda-graph-max-bs")
    assert deprecated.flag is not None
    assert (deprecated.flag.status, deprecated.replaced_by) == ("deprecated", "--cuda-graph-max-bs-decode")


def test_every_curated_replacement_names_a_flag_of_the_table():
    with (FOLDER / "replaced.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) > 20
    for row in rows:
        names = {flag.name for flag, _, _ in flag_table(row["engine"]).rows}
        assert row["flag"] in names
        assert row["source"]
        target = row["replaced_by"].split()[0]
        options = {option for release in flag_table(row["engine"]).options for option in release}
        assert target in options, row


def test_the_dead_log_flag_lives_again():
    """vLLM 0.33 pairs every yes-or-no option: --enable-log-requests brings --disable-log-requests back."""
    answer = known("vllm", "0.33.0", "--disable-log-requests")
    assert (answer.name, answer.negated, answer.since) == ("--enable-log-requests", True, "0.33.0")
    assert lookup("vllm", "0.32.0", "--disable-log-requests").status == "removed"


def test_booleans_by_version():
    word = "--enable-chunked-prefill=false"
    assert known("vllm", "0.6.6", word).problem == ""
    problem = known("vllm", "0.8.5", word).problem
    assert "--no-enable-chunked-prefill" in problem
    no = known("vllm", "0.8.5", "--no-enable-chunked-prefill")
    assert (no.name, no.negated) == ("--enable-chunked-prefill", True)
    assert lookup("vllm", "0.6.6", "--no-enable-chunked-prefill").status == "not_yet"
    assert "alone" in known("vllm", "0.33.0", "--enforce-eager=true").problem
    assert known("llama.cpp", "b11312", "--no-cont-batching").negated


def test_a_withdrawn_flag_stops_the_engine():
    answer = known("llama.cpp", "b11312", "--draft-max")
    assert answer.problem
    assert answer.replaced_by == "--spec-draft-n-max"
    assert known("llama.cpp", "b6110", "--draft-max").problem == ""
    assert known("sglang", "0.4.6.post5", "--enable-flashmla").problem


def test_an_abbreviation_of_several():
    answer = lookup("vllm", "0.9.2", "--max-num")
    assert answer.status == "ambiguous"
    assert "--max-num-seqs" in answer.candidates
    old = lookup("sglang", "0.5.23", "--cuda-graph-max-bs")  # the name of a flag until 0.5.19
    assert (old.status, len(old.candidates)) == ("ambiguous", 2)


def test_parsers_differ():
    assert lookup("vllm", "0.4.2", "--tensor_parallel_size").status != "known"  # plain argparse until 0.5
    assert lookup("sglang", "0.5.23", "--tp_size").status == "unknown"
    assert lookup("llama.cpp", "b9102", "--ctx").status == "unknown"  # no abbreviations
    assert lookup("vllm", "0.8.5", "--speculative-config.method").status == "not_yet"  # dotted keys since 0.9.2
    dotted = known("vllm", "0.9.2", "--speculative_config.num_speculative_tokens=3")
    assert (dotted.key, dotted.value) == ("num_speculative_tokens", "3")


def test_an_unknown_name_gets_the_nearest():
    answer = lookup("vllm", "0.9.2", "--gpu-mem-utilisation")
    assert answer.status == "unknown"
    assert "--gpu-memory-utilization" in answer.candidates


def test_between_two_versions_only_what_both_say():
    assert lookup("vllm", "0.18.0", "--swap-space").status == "undetermined"
    around = lookup("vllm", "0.18.0", "--swap-space").around
    assert [(version, answer.status) for version, answer in around] == [("0.17.1", "known"), ("0.18.1", "removed")]
    same = known("vllm", "0.20.0", "--gpu-memory-utilization")
    assert same.uncertain == ("default",)
    assert lookup("vllm", "0.18.2", "--swap-space").status == "removed"
    assert known("vllm", "0.8.5.post1", "--max-model-len").uncertain == ()


def test_outside_the_versions_read():
    newer = lookup("vllm", "9.9.9", "--swap-space")
    assert newer.status == "undetermined"
    assert [answer.status for _, answer in newer.around] == ["removed"]
    assert lookup("vllm", "0.3.0", "--swap-space").status == "undetermined"


def test_without_a_version_what_all_say():
    assert known("vllm", None, "-tp").uncertain == ()
    assert known("vllm", "latest", "--tensor-parallel-size").name == "--tensor-parallel-size"
    assert "default" in known("vllm", None, "--gpu-memory-utilization").uncertain
    around = lookup("vllm", None, "--disable-log-requests").around
    turns = [("0.4.2", "known"), ("0.17.1", "removed"), ("0.33.0", "known")]
    assert [(version, answer.status) for version, answer in around] == turns
    assert lookup("vllm", None, "--model_dir").status == "unknown"
    assert lookup("llama.cpp", "0.5.0", "-ngl").status == "known"  # a version beside the build numbers has no place


def test_an_engine_without_a_table():
    with pytest.raises(InfoptError, match="vllm"):
        lookup("ollama", None, "--x")


@pytest.mark.parametrize(
    ("engine", "version", "text", "value"),
    [
        ("vllm", "0.33.0", "32k", 32_000),
        ("vllm", "0.33.0", "32K", 32_768),
        ("vllm", "0.33.0", "1M", 1_048_576),
        ("vllm", "0.33.0", "25.6k", 25_600),
        ("vllm", "0.33.0", "auto", -1),
        ("vllm", "0.4.2", "4096", 4096),
        ("vllm", "0.8.0", "4096", 4096),
        ("sglang", "0.5.23", "1M", 1_000_000),
        ("sglang", "0.5.23", "32Ki", 32_768),
        ("llama.cpp", "b9102", "8192", 8192),
        ("ollama", None, "4096", 4096),
    ],
)
def test_numbers(engine: str, version: str | None, text: str, value: int):
    assert parse_engine_int(engine, version, text) == value


@pytest.mark.parametrize(
    ("engine", "version", "text"),
    [
        ("vllm", "0.33.0", "1.5K"),
        ("vllm", "0.7.3", "32k"),
        ("vllm", "0.13.0", "auto"),
        ("sglang", "0.5.23", "32K"),
        ("sglang", "0.5.8", "32k"),
        ("llama.cpp", "b9102", "8k"),
        ("tensorrt-llm", None, "8k"),
    ],
)
def test_numbers_the_engine_refuses(engine: str, version: str | None, text: str):
    with pytest.raises(InfoptError):
        parse_engine_int(engine, version, text)


def test_a_number_nobody_can_read_yet():
    with pytest.raises(UndeterminedError):
        parse_engine_int("vllm", "0.8.0", "32k")


def test_which_options_take_suffixes():
    """facts/engine_flags.md section 0: not max-num-seqs."""
    assert parse_engine_int("vllm", "0.33.0", "8k", "--max-num-batched-tokens") == 8000
    with pytest.raises(InfoptError):
        parse_engine_int("vllm", "0.33.0", "1k", "--max-num-seqs")


@given(st.data())
def test_every_flag_is_found_where_it_is(data: st.DataObject):
    table = flag_table(data.draw(st.sampled_from(ENGINES)))
    flag, first, last = data.draw(st.sampled_from(table.rows))
    at = data.draw(st.integers(first, last))
    for option in (flag.name, *flag.aliases, *flag.negations):
        answer = answer_at(table, at, option)
        assert (answer.status, answer.name) == ("known", flag.name)
        assert answer.negated == (option in flag.negations)


class _Refuses(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ValueError(message)


def _stdlib(table: FlagTable, at: int) -> argparse.ArgumentParser:
    """The standard parser with the options of a release."""
    parser = _Refuses(add_help=False)
    for option in sorted(table.options[at]):
        if option.startswith("-"):
            parser.add_argument(option, dest=option, nargs="?", const="given")
    return parser


@given(st.data())
def test_abbreviations_are_those_of_the_standard_parser(data: st.DataObject):
    table = flag_table(data.draw(st.sampled_from(("sglang", "vllm"))))
    at = data.draw(st.integers(0, len(table.releases) - 1))
    long = sorted(option for option in table.options[at] if option.startswith("--"))
    option = data.draw(st.sampled_from(long))
    word = option[: data.draw(st.integers(3, len(option)))].rstrip("-") or option
    answer = answer_at(table, at, word)
    if answer.status == "ambiguous":
        with pytest.raises(ValueError, match="ambiguous"):
            _stdlib(table, at).parse_args([word])
        return
    given_options = [name for name, value in vars(_stdlib(table, at).parse_args([word])).items() if value]
    assert answer.status == "known"
    assert table.options[at][given_options[0]].flag.name == answer.name


@given(st.text(max_size=40))
def test_any_text_gets_an_answer(word: str):
    for engine in ENGINES:
        assert lookup(engine, flag_table(engine).releases[-1].version, word).status


def test_versions_are_in_order():
    for engine in ENGINES:
        keys = [release_key(release.version) for release in flag_table(engine).releases]
        assert keys == sorted(set(keys), key=keys.index)
        assert all(earlier < later for earlier, later in itertools.pairwise(keys) if earlier and later)
        assert all(len(release.sha256) == 64 for release in flag_table(engine).releases)


def test_tables_load_fast():
    """The gate reads 1,000 files in 10 s: the tables may take a small part of one second."""
    started = time.process_time()
    for engine in ENGINES:
        flag_table.__wrapped__(engine)
    assert time.process_time() - started < 0.5


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is absent")
def test_versions_the_facts_were_read_from_are_here():
    text = (SHARED / "facts" / "engine_flags.md").read_text(encoding="utf-8")
    versions = text.split("PyPI sdists ")[1].split("**")[0].strip(" ,").split(", ")
    assert len(versions) > 20
    assert set(versions) <= {release.version for release in flag_table("vllm").releases}
