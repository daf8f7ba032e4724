"""Where engines are not monotonic the answer is not either: a longer context that starts again, devices that break it.

Public reports of the same kinds, with their files and causes, are in tests/test_gate_bug_cases.py.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from properties.worlds import World, catalogue_model, examples, named, worlds

from infopt.errors import InfoptError
from infopt.gate.check import gate
from infopt.gate.policy import Policy
from infopt.ledgers.activation import CHUNKS_ABOVE_TOKENS
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import stages
from infopt.studies.planning import Plan, plan
from infopt.studies.scenarios import Request

QWEN, HYBRID = "Qwen/Qwen2.5-7B-Instruct", "ibm-granite/granite-4.0-h-small"


def planned(model: str, hardware: str, **request: Any) -> Plan:
    return plan(catalogue_model(model), named(hardware), Request(**request))


def test_a_longer_context_fails_starts_again_and_fails() -> None:
    """vLLM 0.5 to 0.7 ran a whole prompt to measure memory, and cut prompts of lengths above 32,768 tokens."""
    verdicts = {
        context: planned(QWEN, "l4", context_tokens=context, engine_version="0.6.3").fits
        for context in (16_384, CHUNKS_ABOVE_TOKENS, CHUNKS_ABOVE_TOKENS + 1, 40_000, 100_000)
    }
    assert list(verdicts.values()) == [True, False, True, True, False]
    today = [planned(QWEN, "l4", context_tokens=context).fits for context in verdicts]
    assert today == sorted(today, reverse=True)


def test_a_shorter_context_that_is_offered_fits() -> None:
    """What the pool of a long context would hold is too long: planned, it leaves a smaller pool."""
    load: dict[str, Any] = {"engine_version": "0.6.3", "utilization": 0.9}
    long = planned("meta-llama/Llama-3.1-8B", "a10g", context_tokens=40_000, **load)
    held = long.memory.max_context_tokens
    assert planned("meta-llama/Llama-3.1-8B", "a10g", context_tokens=held, **load).fits is False
    (offered,) = [remedy.text for remedy in long.remedies if remedy.id == "context"]
    tokens = int(offered.split()[-2])
    assert 16_384 < tokens < held
    assert planned("meta-llama/Llama-3.1-8B", "a10g", context_tokens=tokens, **load).fits
    assert planned("meta-llama/Llama-3.1-8B", "a10g", context_tokens=tokens + 1, **load).fits is False
    line = "docker run --gpus 1 vllm/vllm-openai:v0.6.3 --model meta-llama/Llama-3.1-8B --max-model-len 40000"
    (one,) = gate(["-"], Policy(hardware="a10g"), standard_input=f"#!/bin/bash\n{line}\n").checked
    (finding,) = [finding for finding in one.findings if finding.rule == "no-full-request"]
    assert finding.remedy == f"a length limit of at most {tokens:,} tokens"


@examples()
@given(worlds())
def test_only_engines_that_measure_whole_prompts_give_room_back_to_a_longer_context(world: World) -> None:
    at, above = (replace(world.scenario, context_tokens=CHUNKS_ABOVE_TOKENS + more) for more in (0, 1))
    short, long = memory_ledger(at).activation_bytes, memory_ledger(above).activation_bytes
    if long < short:
        assert world.scenario.engine.unchunked_profile
    else:
        assert not world.scenario.engine.unchunked_profile or long == short


def test_devices_that_do_not_divide_the_heads_are_refused_and_more_of_them_run() -> None:
    """28 query and 4 KV heads: 3, 7, 8, 14 and 16 devices are refused, 28 run."""
    for tp in (1, 2, 4, 28):
        assert planned(QWEN, "h200", context_tokens=4096, tp=tp).fits
    for tp in (3, 7, 8, 14, 16):
        with pytest.raises(InfoptError, match=f"tp {tp} does not divide .*28 query and 4 KV heads"):
            planned(QWEN, "h200", context_tokens=4096, tp=tp)


def test_the_last_stage_of_a_pipeline_can_be_the_one_that_fails() -> None:
    """vllm issue 36861: the stage with embedding or head is fuller than a quarter; tp 4 on the same devices starts."""
    load: dict[str, Any] = {"context_tokens": 160_000, "max_num_seqs": 32, "engine_version": "0.17.1"}
    model, hardware = "Qwen/Qwen3.5-35B-A3B", "nvidia a10:4"
    piped = planned(model, hardware, **load, tp=1, pp=4, utilization=0.925)
    spread = planned(model, hardware, **load, tp=4, pp=1, utilization=0.93)
    assert piped.fits is False
    assert piped.memory.stage in (0, 3)
    assert spread.memory.max_sequences >= 1


def test_one_device_more_in_a_pipeline_may_hold_no_more() -> None:
    """61 layers: the fullest of 16 stages has 4 of them, like the fullest of 20."""
    model = catalogue_model("deepseek-ai/DeepSeek-R1")
    sizes = {pp: max(sum(run.layers for run in stage) for stage in stages(model, pp)) for pp in (15, 16, 20, 21)}
    assert sizes == {15: 5, 16: 4, 20: 4, 21: 3}


def test_kv_heads_and_latents_are_copied_so_that_more_devices_hold_no_longer_contexts() -> None:
    """Two KV heads at tp 4 and 8, and a latent at any tp, take the same of each device; stages do divide them."""
    copied = [planned("Qwen/Qwen2.5-3B-Instruct", "h200", context_tokens=8192, tp=tp) for tp in (2, 4, 8)]
    assert len({one.memory.kv_bytes_per_gpu for one in copied}) == 1
    latent = [planned("deepseek-ai/DeepSeek-R1", "h200", context_tokens=8192, tp=tp, pp=16 // tp) for tp in (16, 8, 4)]
    held = [one.memory.max_sequences for one in latent]
    assert held[0] * 1.9 < held[1] < held[2] / 1.8
    assert all(one.scenario.gpus == 16 for one in latent)


POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: server}}
spec:
  nodeSelector: {{nvidia.com/gpu.product: NVIDIA-A10G}}
  containers:
    - name: engine
      image: vllm/vllm-openai:v{version}
      args: [--model, TheBloke/Llama-2-70B-AWQ, --quantization, awq, --dtype, half, --tensor-parallel-size, "{tp}"]
      resources: {{limits: {{nvidia.com/gpu: {tp}}}}}
"""


@pytest.mark.parametrize(("version", "verdicts"), [("0.2.7", ("pass", "fail")), ("0.20.0", ("pass", "pass"))])
def test_graphs_outside_the_budget_break_more_devices(version: str, verdicts: tuple[str, str]) -> None:
    """vllm issue 2856: more devices give more to the cache, and graphs take theirs afterwards; not since 0.20."""
    found = [gate(["-"], Policy(), standard_input=POD.format(version=version, tp=tp)) for tp in (4, 8)]
    rules = [{finding.rule for finding in one.checked[0].findings if finding.severity == "error"} for one in found]
    outside = [("graphs-outside-budget" in rule) for rule in rules]
    assert outside == [verdict == "fail" for verdict in verdicts]


def test_fewer_bits_of_the_cache_hold_no_more_short_sequences_of_a_hybrid() -> None:
    """A block holds a recurrent state whatever the cache's format: fp8 makes it longer, not smaller."""
    formats = ("bf16", "fp8")
    short, long = (
        [planned(HYBRID, "h200", context_tokens=context, kv=kv).memory for kv in formats] for context in (300, 100_000)
    )
    assert [memory.layout.block_tokens for memory in short] == [528, 1056]
    assert short[0].max_sequences == short[1].max_sequences
    assert short[0].kv_bytes_per_gpu == short[1].kv_bytes_per_gpu
    assert short[1].kv_bytes_per_token == short[0].kv_bytes_per_token / 2
    assert long[1].max_sequences > 1.5 * long[0].max_sequences


def test_a_longer_limit_can_print_more_tokens_of_cache() -> None:
    """An engine that prints concurrency times length counts windows once: more tokens, and not one sequence more."""
    found = [
        planned("google/gemma-3-27b-it", "h100", context_tokens=context, engine_version="0.21.0").memory
        for context in (8192, 32_768)
    ]
    older, newer = found
    assert newer.kv_pool_tokens > 2 * older.kv_pool_tokens
    assert newer.max_sequences <= older.max_sequences
    assert newer.kv_pool_bytes_per_gpu == older.kv_pool_bytes_per_gpu
