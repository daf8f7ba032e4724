"""Engine command lines: flags of the engine's version, formats, placements, what is left to be done by hand."""

import shlex
from dataclasses import replace
from typing import Any

import pytest
from scenarios import MIXTURE, attention, device, model, scenario

from infopt.ledgers.scenario import Scenario
from infopt.profiles.engine_flags import engine_flags
from infopt.profiles.engines import engine_names
from infopt.profiles.geometry import LayerRun
from infopt.profiles.resolve import resolve_model
from infopt.studies.commands import CONFIG_FILE, facts, serve_command

MIXED = model([LayerRun(32, attention(), MIXTURE, norm_params=8192)], id="test/mixture")


def words(s: Scenario) -> list[str]:
    return shlex.split(serve_command(s).text)


def options(s: Scenario) -> dict[str, str | None]:
    """Flags with the value behind each."""
    found = words(s)
    return {
        word: (found[i + 1] if i + 1 < len(found) and not found[i + 1].startswith("-") else None)
        for i, word in enumerate(found)
        if word.startswith("-")
    }


def placed(**request: Any) -> Scenario:
    request.setdefault("context_tokens", 4096)
    profile = request.pop("profile", None)
    return replace(scenario(profile, device(devices_per_node=8), **request), max_num_seqs=64)


def test_a_plain_vllm_server() -> None:
    assert words(placed()) == [
        "vllm", "serve", "test/model",
        "--max-model-len", "4096", "--max-num-seqs", "64", "--gpu-memory-utilization", "0.9",
    ]  # fmt: skip


def test_parallel_degrees_and_cache_of_vllm() -> None:
    told = options(placed(gpus=8, tp=4, pp=2, kv="fp8"))
    assert told["--tensor-parallel-size"] == "4"
    assert told["--pipeline-parallel-size"] == "2"
    assert told["--kv-cache-dtype"] == "fp8"
    assert "--data-parallel-size" not in told


def test_shared_experts() -> None:
    request: dict[str, Any] = {"profile": MIXED, "gpus": 8, "tp": 4, "dp": 2, "ep": 8, "batch": 2}
    vllm = options(placed(**request))
    assert vllm["--tensor-parallel-size"] == "4"
    assert vllm["--data-parallel-size"] == "2"
    assert vllm["--enable-expert-parallel"] is None
    sliced = options(placed(**{**request, "ep": 1}))
    assert "--enable-expert-parallel" not in sliced
    sglang = options(placed(**request, engine="sglang"))
    assert (sglang["--tp-size"], sglang["--attn-dp-size"], sglang["--ep-size"]) == ("8", "2", "8")
    assert sglang["--max-running-requests"] == "128"
    older = options(placed(**request, engine="sglang", engine_version="0.4.6"))
    assert (older["--dp-size"], older["--enable-dp-attention"]) == ("2", None)
    assert "--attn-dp-size" not in older


def test_flags_of_older_versions() -> None:
    """vLLM takes the parallel flags of experts and replicas from 0.8.5 on."""
    old = options(placed(profile=MIXED, gpus=4, tp=4, ep=4, engine_version="0.6.0"))
    assert "--enable-expert-parallel" not in old
    assert old["--tensor-parallel-size"] == "4"


def test_tensorrt_llm_has_its_cache_type_in_a_file() -> None:
    command = serve_command(placed(gpus=2, tp=2, kv="fp8", engine="tensorrt-llm"))
    assert command.parts[0] == f"printf 'kv_cache_config:\\n  dtype: fp8\\n' > {CONFIG_FILE} &&"
    told = options(placed(gpus=2, tp=2, kv="fp8", engine="tensorrt-llm"))
    assert told["--extra_llm_api_options"] == CONFIG_FILE
    assert told["--tp_size"] == "2"
    assert told["--max_seq_len"] == "4096"
    plain = serve_command(placed(engine="tensorrt-llm"))
    assert plain.text.startswith("trtllm-serve test/model ")
    assert "printf" not in plain.text


def test_llama_cpp_counts_context_over_all_slots() -> None:
    told = options(placed(weights="q4_k_m", kv="q8_0", engine="llama.cpp"))
    assert told["-c"] == str(64 * 4096)
    assert told["-np"] == "64"
    assert (told["-ctk"], told["-ctv"]) == ("q8_0", "q8_0")
    assert told["-m"] == "MODEL-q4_k_m.gguf"


def test_formats_an_engine_makes_itself_and_those_it_does_not() -> None:
    made = serve_command(placed(weights="fp8"))
    assert "--quantization fp8" in made.text
    assert "test/model" in made.text
    assert made.notes
    foreign = serve_command(placed(weights="int4"))
    assert "CHECKPOINT-INT4" in foreign.text
    assert "--quantization" not in foreign.text
    assert any("test/model" in note for note in foreign.notes)
    assert "CHECKPOINT-FP8" in serve_command(placed(weights="fp8", engine="tensorrt-llm")).text


def test_a_stored_format_needs_no_flag() -> None:
    stored = serve_command(placed(profile=resolve_model("deepseek-v3"), gpus=8, tp=8))
    assert "--quantization" not in stored.text
    assert "deepseek-ai/DeepSeek-V3" in stored.text


def test_several_machines_are_said() -> None:
    spread = serve_command(replace(placed(gpus=16, tp=8, pp=2), accelerator=device(devices_per_node=8)))
    assert any("2 machines" in note for note in spread.notes)
    assert not serve_command(placed(gpus=8, tp=8)).notes


def test_an_unusual_cache_is_said() -> None:
    assert any("int8" in note for note in serve_command(placed(kv="int8")).notes)


def test_names_are_quoted() -> None:
    odd = serve_command(placed(profile=model(id="org/name; rm -rf x")))
    assert shlex.split(odd.text)[2] == "org/name; rm -rf x"


@pytest.mark.parametrize("engine", engine_names())
def test_every_engine_has_a_start_line_and_knows_its_facts(engine: str) -> None:
    known = engine_flags(engine)
    told = facts(placed(engine=engine), known)
    assert known.engine == engine
    assert known.source
    for flag in known.flags:
        assert flag.fact in told, flag.fact
        assert bool(flag.flag) != bool(flag.config_key)
    assert any(flag.fact.endswith("context_tokens") for flag in known.flags)
    assert known.small_kv in known.kv_formats
