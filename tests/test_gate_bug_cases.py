"""Public reports of deployments that failed: each gets its verdict with the cause and the number; its cure passes.

The files are our own (tests/gate/bugs). The report behind each is named in the rule's source or in the row.
"""

from pathlib import Path

import pytest

from infopt.gate.check import Checked, gate
from infopt.gate.policy import Policy

BUGS = Path(__file__).parent / "gate" / "bugs"
# name, verdict, rule, severity, what the finding must say (message, detail and remedy together)
CASES = (
    # QwenLM/Qwen3 issue 295: 32,768 tokens at 524,288 bytes
    ("a01", "fail", "no-full-request", "error", ("32,768 tokens", "16.00 GiB", "524,288 bytes a token")),
    # vllm issue 13061: one device's cache, not the sum of both
    ("a02", "fail", "no-full-request", "error", ("131,072 tokens", "12.00 GiB", "on each device", "98,304 bytes")),
    # vllm issue 16118, pull 16104: 24,576 bytes a token on each of 8 devices
    ("a03", "fail", "no-full-request", "error", ("1,048,576 tokens", "24.00 GiB", "24,576 bytes a token")),
    # SergiioB/intel-arc-pro-b70-inference-cookbook issue 4: 0.01 GiB either way
    ("a04", "pass", "tight", "warning", ("within the error of the ledger", "4.03 GiB", "is safe")),
    # vllm issue 3676; xorbitsai/inference issue 1715
    ("a05", "fail", "context-above-model", "error", ("131,072", "8,192 positions")),
    ("a05-2048", "fail", "context-above-model", "error", ("4,096", "2,048 positions")),
    # QwenLM/Qwen3 issue 67
    ("a06", "fail", "does-not-fit", "error", ("134.65 GiB", "79.15 GiB", "8 devices are granted")),
    ("a06", "fail", "gpus-granted", "warning", ("8 devices are granted", "7 stay idle", "tp is 1")),
    # vllm issue 36861: stages are not alike, the fullest decides
    ("a07", "fail", "no-full-request", "error", ("160,000 tokens", "stage 1 of 4 decides", "the embedding")),
    # vllm issue 14120: 61 layers over 16 stages
    ("a08", "fail", "does-not-fit", "error", ("85.79 GiB", "of 16", "4 layers")),
    ("a08", "fail", "pipeline-uneven", "warning", ("61 layers over pp 16", "13 stages hold 4")),
    # vllm issue 57475
    ("a09", "pass", "utilization-high", "warning", ("0.98 leaves 0.47 GiB of 23.64", "graphs inside the budget")),
    # vllm issue 2856: more devices can fail
    ("a10", "fail", "graphs-outside-budget", "error", ("2.2 GiB are left", "2.5 GiB", "0.9) x 22.06")),
    # vllm issue 14452
    ("a11", "pass", "warmup-logits", "warning", ("1,024 sequences", "0.58 GiB", "1,024 x 152,064 x 4 bytes")),
    # vllm issue 20305
    ("a12", "pass", "free-memory", "note", ("19.85 of 22.06 GiB must be free",)),
    # sglang issue 6875, pull 23862
    ("a13", "fail", "draft-memory", "error", ("16.46 GiB of weights", "of 79.19 GiB", "--mem-fraction-static")),
    # ai-dynamo/dynamo pull 9746
    ("a14", "pass", "utilization-high", "warning", ("0.95 of what is free", "0.85 leaves")),
    # THU-KEG/AdaptThink issue 1, MIV-XJTU/FSDrive issue 21, vllm issues 414 and 1705
    (
        "a15-28",
        "fail",
        "heads-divide",
        "error",
        ("28 query heads", "tp 8", "1, 2, 4, 7, 14, 28", "tp may be 1, 2, 4, 28"),
    ),
    ("a15-12", "fail", "heads-divide", "error", ("12 query heads", "tp 8")),
    ("a15-52", "fail", "heads-divide", "error", ("52 query heads", "tp 3")),
    ("a15-25", "fail", "heads-divide", "error", ("25 query heads", "1, 5, 25")),
    # vllm issue 54178, pull 44763
    ("a16", "fail", "group-divides", "error", ("192", "fp8_block's 128", "768 / 4", "expert parallelism")),
    ("a16-dense", "fail", "group-divides", "error", ("18432 / 32 = 576", "128")),
    # vllm issues 1823, 1941; 946, 1157
    ("a17", "fail", "awq-dtype", "error", ("0.4.2", "float16 only")),
    ("a17-v100", "fail", "dtype-capability", "error", ("capability 8.0", "has 7")),
    # vllm issue 26431, pull 24577; issue 8409
    ("a18", "fail", "engine-refuses", "error", ("0.8 to 0.10 refuse", "8.9")),
    ("a18-e5m2", "fail", "cache-type", "error", ("e5m2", "FP8 checkpoint")),
    # vllm issues 2847, 29049
    ("a19", "fail", "lora-rank", "error", ("rank 64", "is 16")),
    # vllm issues 1710, 789, 1771
    ("shm", "pass", "shm-size", "warning", ("4 ranks", "64 MiB")),
    # kserve pull 6037, dynamo pull 8693; unsloth-zoo issue 1210
    ("dead-flag", "fail", "flags", "error", ("--disable-log-requests", "0.17.1", "--no-enable-log-requests")),
    ("swap-space", "fail", "flags", "error", ("--swap-space", "gone in 0.18.1")),
    # verl pulls 7626 and 7632, vllm issue 28981
    ("batch-budget", "fail", "batch-budget", "error", ("4,096", "16,384", "chunked prefill is off")),
    # llama.cpp issues 28524, 10378; 28455
    ("llama-v-cache", "fail", "cache-type", "error", ("q8_0", "flash attention")),
    ("llama-k-cache", "pass", "cache-type", "warning", ("q5_1", "on the processor")),
    # llama.cpp issue 11681: the context is of all slots; ollama issue 5756: context memory = slots x context
    ("llama-slots", "pass", "spills-to-cpu", "warning", ("2 x 65,536 tokens",)),
    # vllm issue 16570
    ("encoder", "fail", "does-not-fit", "error", ("34.19 GiB", "39.39 GiB")),
    # vllm issue 22692
    ("offload", "pass", "weights-offloaded", "warning", ("16.0 GiB", "fits without")),
    # vllm issue 51454
    ("latent", "pass", "latent-replicated", "note", ("8 ranks", "whole latent cache")),
    # NVIDIA-NeMo/Nemotron pull 338
    ("dp", "fail", "expert-copies", "error", ("8 copies", "512.84 GiB on each", "92.84 GiB")),
    # vllm issue 16916
    ("host-ram", "pass", "host-memory", "warning", ("48.00 GiB", "202.36 GiB")),
    ("swap-host", "fail", "host-memory", "error", ("4 x 16 GiB", "72.00 GiB")),
    # vllm issue 10517: 23,648 tokens are reported
    ("b01", "fail", "no-full-request", "error", ("29,000 tokens", "3.54 GiB", "24,944 tokens fit")),
    # sglang issue 26107
    ("b02", "fail", "group-divides", "error", ("320", "1280 / 4", "fp8_block's 128")),
    # vllm pull 39046, ROCm/ATOM pull 1488
    ("b03", "fail", "group-divides", "error", ("192", "1536 / 8", "expert parallelism")),
    # vllm issue 2419: tp 2 runs, tp 4 does not
    ("b04", "fail", "group-divides", "error", ("2752", "11008 / 4", "tp one of 1, 2")),
    # vllm issues 4202, 1488
    ("b05", "fail", "weights-capability", "error", ("int4_awq", "capability 7.5", "has 7")),
    # vllm issue 4327
    ("b06", "fail", "weights-capability", "error", ("fp8", "capability 9 ", "has 8.6")),
    # vllm issue 14117
    ("b07", "fail", "draft-refused", "error", ("pipeline parallelism", "0.16")),
    # vllm issue 5203
    ("b08", "fail", "draft-refused", "error", ("151,936", "152,064")),
    # vllm issues 13297, 13122
    ("b09", "fail", "model-refused", "error", ("tp 8", "bitsandbytes", "--pipeline-parallel-size")),
    # vllm issues 7211, 6551
    ("b10", "fail", "joined-slices", "error", ("2 ranks", "one MIG slice")),
    # vllm issue 41623
    ("b11", "fail", "context-parallel", "error", ("decode context parallel 4", "4 KV heads over tp 4")),
    # vllm issue 42687, recipes issue 441
    ("b12", "fail", "image-budget", "error", ("2,496 tokens", "2,048", "--max-num-batched-tokens 4096")),
    # vllm issue 48401
    ("b13", "pass", "prefix-block-too-long", "warning", ("blocks of 8,320", "longer than 8,192")),
    # joryirving/home-ops pull 9818, rwlove/home-ops pull 13936
    ("b14", "fail", "host-memory", "error", ("40.00 GiB", "16.00 GiB", "--cache-ram")),
    # aibrix issue 1831
    ("b15", "fail", "lora-limits", "error", ("--max-cpu-loras 4", "--max-loras 8")),
    # vllm issues 9922, 8929, 8189
    ("b16", "fail", "model-refused", "error", ("soft cap", "7.5", "below 8")),
    # vllm issue 47549
    ("b17", "fail", "engine-refuses", "error", ("0.24", "capability 8.0")),
    # sglang issues 3359, 3750
    ("b18", "fail", "attention-replicas", "error", ("tp 8", "3 replicas", "1, 2, 4, 8")),
    # TensorRT-LLM issue 9277
    ("b19", "pass", "batch-budget", "warning", ("above 8,192 tokens", "16,384")),
    # vllm-project/recipes pull 551: 856 blocks are reported
    ("b21", "fail", "state-blocks", "error", ("1,024 sequences", "874 blocks", "--max-num-seqs 512")),
    # TensorRT-LLM issue 4599
    ("b22", "fail", "weights-capability", "error", ("fp8_block", "capability 9 ", "has 8.9")),
    # vllm issues 17581, 18182
    ("b23", "fail", "model-refused", "error", ("experts in FP8", "8.6, below 8.9")),
    # sglang issues 12887, 38291
    ("b24", "fail", "model-refused", "error", ("experts in FP8", "capability 8, below 8.9")),
    # vllm issues 42510, 41339
    ("b25", "fail", "block-size", "error", ("8 tokens", "no multiple of 16")),
    # vllm issues 10861, 7714
    ("b26", "fail", "engine-refuses", "error", ("chunks of prompts", "capability 8.9", "has 8.6")),
    # aiconfigurator pull 613
    ("b27", "fail", "attention-replicas", "error", ("sglang 0.5.10", "1 or none, not 2")),
    # gpustack issue 3991
    ("b20", "fail", "flags", "error", ("--task", "gone in 0.13.0", "--runner")),
)
# Verdicts of the engine against those of memory: it fits, and is refused.
FITS_AND_REFUSED = (
    "a05",
    "a10",
    "a13",
    "a16",
    "a17",
    "a17-v100",
    "a18",
    "a18-e5m2",
    "a19",
    "dead-flag",
    "batch-budget",
    "b03",
    "b05",
    "b07",
    "b09",
    "b11",
    "b12",
    "b15",
    "b17",
    "b20",
)


def checked(name: str) -> Checked:
    (one,) = gate([str(BUGS / f"{name}.yaml")], Policy()).checked
    return one


@pytest.mark.parametrize(
    ("name", "verdict", "rule", "severity", "says"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_the_case_gets_its_cause_and_number(
    name: str, verdict: str, rule: str, severity: str, says: tuple[str, ...]
) -> None:
    one = checked(name)
    found = [f for f in one.findings if f.rule == rule]
    assert found, (name, [(f.rule, f.message) for f in one.findings])
    text = " ".join(f"{f.message} {f.detail} {f.remedy}" for f in found)
    assert one.verdict == verdict
    assert severity in {f.severity for f in found}
    assert all(word in text for word in says), text


@pytest.mark.parametrize("name", sorted({case[0] for case in CASES}))
def test_its_corrected_twin_passes_without_that_finding(name: str) -> None:
    one = checked(f"{name}-fixed")
    rules = {rule for case, _, rule, severity, _ in CASES if case == name and severity != "note"}
    assert one.verdict == "pass"
    assert not rules & {f.rule for f in one.findings if f.severity != "note"}, [
        (f.rule, f.message) for f in one.findings
    ]


@pytest.mark.parametrize("name", FITS_AND_REFUSED)
def test_a_refusal_of_the_engine_leaves_the_memory_verdict(name: str) -> None:
    plan = checked(name).case.plan
    assert plan is not None
    assert plan.fits is True


def test_slots_of_llama_cpp_share_the_context() -> None:
    plan = checked("llama-slots-fixed").case.plan
    assert plan is not None
    assert (plan.scenario.context_tokens, plan.scenario.batch) == (4096, 2)


def test_every_file_is_a_case_or_its_twin() -> None:
    names = {path.stem.removesuffix("-fixed") for path in BUGS.glob("*.yaml")}
    assert names == {case[0] for case in CASES}
