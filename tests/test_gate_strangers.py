"""Deployment files unlike the public ones: forms mixed, odd spellings, rare devices.

What must come out was worked out by hand: weights of a rank (parameters x bytes / ranks), cache of one request
(2 x layers x KV heads x width x bytes x tokens), memory times the engine's share.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from infopt.gate.check import Checked, gate
from infopt.gate.policy import Policy
from infopt.gate.reading import Overrides

GIB = 2**30


class Pod(NamedTuple):
    """A server in a pod, and what must come out."""

    image: str
    label: str
    arguments: str
    gpus: str
    verdict: str
    rules: tuple[str, ...] = ()
    weights_gib: tuple[float, float] | None = None
    request_gib: float | None = None
    env: str = ""


PODS = {
    # 235B in FP8: 219 GiB and attention over 4; experts whole by ranks
    "moe-ep-h200": Pod(
        "vllm-openai:v0.11.2",
        "nvidia.com/gpu.product: NVIDIA-H200",
        "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8 --tensor_parallel_size=4 --enable_expert_parallel --max_model_len 64k",
        "nvidia.com/gpu: 4",
        "pass",
        (),
        (54.5, 56),
        64000 * 2 * 94 * 1 * 128 * 2 / GIB,
    ),
    # 37 GiB of 0.9 x 44.4: 1.5 GiB are left for 8192 x 320 KiB
    "awq-70b-l40s": Pod(
        "vllm-openai:v0.8.5.post1",
        "gpu.nvidia.com/model: L40S",
        "--model=hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4 --max-model-len=8192 --quantization=awq_marlin",
        "nvidia.com/gpu: 1",
        "fail",
        ("no-full-request",),
        (36, 38),
        2.5,
    ),
    "slice-of-a-named-device": Pod(
        "vllm-openai:v0.10.1",
        "nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3-MIG-3g.40gb",
        "--model meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192",
        "nvidia.com/mig-3g.40gb: 1",
        "pass",
        (),
        (14.9, 15.1),
        1.0,
    ),
    "slice-too-small": Pod(
        "vllm-openai:v0.10.1",
        "nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB",
        "--model Qwen/Qwen2.5-7B-Instruct --max-model-len 4096",
        "nvidia.com/mig-1g.10gb: 1",
        "fail",
        ("does-not-fit",),
        (14.1, 14.3),
    ),
    # A scheduler that shares devices gives 10,000 MiB of 80 GB.
    "part-of-a-device": Pod(
        "vllm-openai:v0.10.0",
        "nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB",
        "--model Qwen/Qwen2.5-7B-Instruct --max-model-len 4096",
        "nvidia.com/gpu: 1, nvidia.com/gpumem: 10000",
        "fail",
        ("does-not-fit",),
    ),
    "share-of-a-device": Pod(
        "vllm-openai:v0.10.0",
        "nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB",
        "--model Qwen/Qwen2.5-7B-Instruct --max-model-len 4096",
        "nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 50",
        "pass",
        (),
        (14.1, 14.3),
    ),
    # 40 or 80 GB: 33.9 GiB of weights leave nothing of 0.9 x 39.4 and enough of 0.9 x 79.2
    "two-sizes-that-differ": Pod(
        "vllm-openai:v0.10.0",
        "accelerator: nvidia-a100",
        "--model neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8 -tp 2 --max-model-len 8192",
        "nvidia.com/gpu: 2",
        "fail",
        ("does-not-fit",),
    ),
    "two-sizes-that-agree": Pod(
        "vllm-openai:v0.10.0",
        "accelerator: nvidia-a100",
        "--model meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192",
        "nvidia.com/gpu: 1",
        "pass",
        (),
        (14.9, 15.1),
        1.0,
    ),
    "neither-of-two-sizes": Pod(
        "vllm-openai:v0.10.0",
        "accelerator: nvidia-a100",
        "--model meta-llama/Llama-3.3-70B-Instruct --max-model-len 8192",
        "nvidia.com/gpu: 1",
        "fail",
        ("does-not-fit",),
        (131, 132),
    ),
    # Qwen2.5-72B: 29,568 / 2 = 14,784 is no multiple of 128; its AWQ checkpoints are padded to 29,696
    "padded-checkpoint": Pod(
        "vllm-openai:v0.9.2",
        "gpu.nvidia.com/model: L40S",
        "--model Qwen/Qwen2.5-72B-Instruct-AWQ --tensor-parallel-size 2 --max-model-len 16384",
        "nvidia.com/gpu: 2",
        "pass",
        (),
        (19, 20),
        2.5,
    ),
    # 30 experts' columns of 1536 / 8 = 192 are no blocks of 128: known of the checkpoint itself
    "blocks-of-the-checkpoint": Pod(
        "vllm-openai:v0.10.0",
        "nvidia.com/gpu.product: NVIDIA-H200",
        "--model Qwen/Qwen3-235B-A22B-FP8 -tp 8 --max-model-len 8192",
        "nvidia.com/gpu: 8",
        "fail",
        ("group-divides",),
    ),
    "ten-kv-heads": Pod(
        "vllm-openai:v0.10.0",
        "nvidia.com/gpu.product: NVIDIA-L4",
        "--model microsoft/phi-4 -tp 4 --max-model-len 8192",
        "nvidia.com/gpu: 4",
        "fail",
        ("kv-heads-divide",),
    ),
    "bnb-by-name": Pod(
        "vllm-openai:v0.10.0",
        "nvidia.com/gpu.product: NVIDIA-A10G",
        "--model unsloth/phi-4-bnb-4bit --max-model-len 8192 --quantization bitsandbytes --load-format bitsandbytes",
        "nvidia.com/gpu: 1",
        "pass",
        (),
        (8, 10),
        8192 * 2 * 40 * 10 * 128 * 2 / GIB,
    ),
    "no-bf16-in-that-version": Pod(
        "vllm-openai:v0.6.3",
        "cloud.google.com/gke-accelerator: nvidia-tesla-t4",
        "--model Qwen/Qwen2.5-3B-Instruct --max-model-len 8192",
        "nvidia.com/gpu: 1",
        "fail",
        ("dtype-capability",),
        (5.7, 5.8),
    ),
    "awq-on-t4": Pod(
        "vllm-openai:v0.9.2",
        "cloud.google.com/gke-accelerator: nvidia-tesla-t4",
        "--model Qwen/Qwen2.5-7B-Instruct-AWQ --dtype half --max-model-len 8192",
        "nvidia.com/gpu: 1",
        "pass",
        (),
        (5, 5.5),
    ),
    "fp8-on-v100": Pod(
        "vllm-openai:v0.8.5",
        "nvidia.com/gpu.product: Tesla-V100-SXM2-32GB",
        "--model neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8 --max-model-len 4096",
        "nvidia.com/gpu: 1",
        "fail",
        ("weights-capability", "dtype-capability"),
    ),
    # vLLM loads AWQ on ROCm, though its table of devices has none: no reason to stop.
    "awq-on-mi300x": Pod(
        "vllm-openai-rocm:v0.14.0",
        "amd.com/gpu.product-name: AMD_Instinct_MI300X_OAM",
        "--model Qwen/Qwen2.5-72B-Instruct-AWQ --max-model-len 32768",
        "amd.com/gpu: 1",
        "pass",
        ("weights-capability",),
        (38, 39.5),
        10.0,
    ),
    "mxfp4-on-mi300x": Pod(
        "vllm-openai-rocm:v0.14.0",
        "amd.com/gpu.product-name: AMD_Instinct_MI300X_OAM",
        "--model openai/gpt-oss-120b -tp 1",
        "amd.com/gpu: 1",
        "pass",
        (),
        (58, 68),
    ),
    "fp8-cache-below-8.9-in-0.10": Pod(
        "vllm-openai:v0.10.0",
        "nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB",
        "--model meta-llama/Llama-3.1-8B-Instruct --kv-cache-dtype fp8_e5m2 --max-model-len 131072",
        "nvidia.com/gpu: 1",
        "pass",
        ("engine-refuses",),
        (14.9, 15.1),
        8.0,
    ),
    # 8 slots of rank 64: widths of all seven matrices, 81,920 x 64 x 32 layers x 2 bytes = 2.5 GiB beside 15.0
    "adapters-leave-one-request": Pod(
        "vllm-openai:v0.9.1",
        "nvidia.com/gpu.product: NVIDIA-A10G",
        "--model meta-llama/Llama-3.1-8B-Instruct --enable-lora --max-loras 8 --max-lora-rank 64 --max-model-len 8192",
        "nvidia.com/gpu: 1",
        "pass",
        ("tight",),
        (14.9, 15.1),
        1.0,
    ),
    # 1,026B in FP8 over 8: 120 GiB of 0.9 x 139.8
    "kimi-k2-one-node": Pod(
        "vllm-openai:v0.10.0",
        "nvidia.com/gpu.product: NVIDIA-H200",
        "--model moonshotai/Kimi-K2-Instruct -tp 8 --max-model-len 32768",
        "nvidia.com/gpu: 8",
        "fail",
        ("does-not-fit",),
        (119, 122),
    ),
    "more-ranks-than-devices": Pod(
        "vllm-openai:v0.8.5",
        "nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB",
        "--model meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 4",
        "nvidia.com/gpu: 2",
        "fail",
        ("gpus-granted",),
    ),
    # 64.4 GB over 4, attention in 4 of 40 layers
    "hybrid-a10g": Pod(
        "vllm-openai:v0.11.0",
        "node.kubernetes.io/instance-type: g5.12xlarge",
        "--model ibm-granite/granite-4.0-h-small --tensor-parallel-size 4 --max-model-len 131072",
        "nvidia.com/gpu: 4",
        "pass",
        (),
        (14.9, 15.2),
    ),
    "nvfp4-on-b200": Pod(
        "vllm-openai:v0.12.0",
        "nvidia.com/gpu.product: NVIDIA-B200",
        "--model nvidia/DeepSeek-R1-NVFP4 -tp 8 --kv-cache-dtype=fp8 --max-model-len 131072",
        "nvidia.com/gpu: 8",
        "pass",
        (),
        (46, 50),
        131072 * 61 * 576 / GIB,
    ),
    # 60 of 135.4 GiB stay in the host
    "weights-in-the-host": Pod(
        "vllm-openai:v0.8.5",
        "nvidia.com/gpu.product: NVIDIA-GH200-480GB",
        "--model Qwen/Qwen2.5-72B-Instruct --max-model-len 8192 --cpu-offload-gb 60",
        "nvidia.com/gpu: 1",
        "pass",
        ("tight", "weights-offloaded"),
        (135, 136),
        2.5,
    ),
}
TEXT = """\
apiVersion: v1
kind: Pod
metadata: {{name: server}}
spec:
  nodeSelector: {{{label}}}
  containers:
    - name: engine
      image: vllm/{image}
      args: [{words}]
      resources: {{limits: {{{gpus}}}}}
"""
FORMS = {
    # ROCm's image says the engine's version in its tag; 131.4 GiB of 0.9 x 192
    "compose-rocm": ("compose.yaml", "mi300x", """\
services:
  amd:
    image: rocm/vllm:rocm6.4.1_vllm_0.9.1_20250715
    devices: [/dev/kfd, /dev/dri]
    ipc: host
    command: vllm serve deepseek-ai/DeepSeek-R1-Distill-Llama-70B --max-model-len 32768 --dtype bfloat16
""", "0.9.1", "pass", (131, 132)),
    # `-hf` came between two versions that were read: what it means is known; 40.2 GiB of layers told to lie on 24 GB
    "compose-llama": ("compose.yaml", "rtx 3090", """\
services:
  llama:
    image: ghcr.io/ggml-org/llama.cpp:server-cuda-b5000
    command: -hf bartowski/Llama-3.3-70B-Instruct-GGUF:Q4_K_M -ngl 99 -c 8192
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}
""", "b5000", "fail", (40, 41)),
    # The draft's 15.0 GiB and 4 GiB of cache lie on each rank beside a quarter of 131.4
    "script-draft": ("serve.sh", "h100", """\
#!/usr/bin/env bash
export MODEL=${MODEL:-meta-llama/Llama-3.3-70B-Instruct}
TP=4
vllm serve "$MODEL" --tensor-parallel-size $TP --max-model-len 32768 \\
  --speculative-config '{"model":"meta-llama/Llama-3.1-8B-Instruct","num_speculative_tokens":4}' &
wait
""", None, "pass", (32.5, 33.5)),
    "skypilot-ep": ("task.yaml", None, """\
resources: {accelerators: "A100-80GB:4"}
envs: {MODEL_NAME: mistralai/Mixtral-8x7B-Instruct-v0.1}
setup: pip install vllm==0.10.0
run: |
  vllm serve $MODEL_NAME --data-parallel-size 2 --tensor-parallel-size 2 --enable-expert-parallel --max-model-len 32768
""", "0.10.0", "pass", (22, 23)),
    "two-documents-in-a-list": ("list.yaml", None, """\
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: front}
  spec: {template: {spec: {containers: [{name: n, image: "nginx:1.27"}]}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: coder}
  spec:
    template:
      spec:
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40}
        containers:
        - name: n
          image: vllm/vllm-openai:v0.10.0
          args: ["--model", "Qwen/Qwen2.5-Coder-32B-Instruct-AWQ", "--max-model-len", "32768"]
          resources: {limits: {nvidia.com/gpu: 1}}
""", "0.10.0", "pass", (17.5, 18.5)),
}  # fmt: skip


GRAPH = """\
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: agg}
spec:
  services:
    Frontend:
      componentType: frontend
      extraPodSpec: {mainContainer: {image: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.5.0"}}
    Worker:
      componentType: worker
      resources: {limits: {gpu: "2"}}
      extraPodSpec:
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.5.0
          command: [python3, -m, dynamo.vllm]
          args: [--model, Qwen/Qwen2.5-32B-Instruct, --tensor-parallel-size, "2", --max-model-len, "32768"]
"""


def test_a_front_end_with_the_engine_s_image_serves_nothing(tmp_path: Path) -> None:
    one = one_of(tmp_path, "graph.yaml", GRAPH)
    assert (one.case.deployment.found.name, one.verdict) == ("agg-Worker", "pass")


def test_a_name_of_ollama_s_library_is_a_quantized_file(tmp_path: Path) -> None:
    """8.03B at 4.9 bits, not at 16: 4.6 GiB."""
    one = one_of(tmp_path, "Modelfile", "FROM llama3.1:8b\nPARAMETER num_ctx 8192\n", "rtx 3060 12gb:1")
    assert one.verdict == "pass"
    assert one.case.plan is not None
    assert one.case.plan.memory.weights_bytes_per_gpu / GIB == pytest.approx(4.6, abs=0.2)
    assert not any(finding.rule == "spills-to-cpu" for finding in one.findings)


def one_of(folder: Path, name: str, text: str, gpu: str | None = None) -> Checked:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    (one,) = gate([str(path)], Policy(), Overrides(gpu=gpu)).checked
    return one


@pytest.mark.parametrize("name", PODS)
def test_pods(tmp_path: Path, name: str) -> None:
    pod = PODS[name]
    words = ", ".join(f"'{word}'" for word in pod.arguments.split())
    one = one_of(tmp_path, "pod.yaml", TEXT.format(image=pod.image, label=pod.label, words=words, gpus=pod.gpus))
    assert one.verdict == pod.verdict
    errors = {finding.rule for finding in one.findings if finding.severity == "error"}
    assert errors <= set(pod.rules), "an error that is not certain"
    assert set(pod.rules) <= {finding.rule for finding in one.findings}
    if pod.weights_gib is not None or pod.request_gib is not None:
        assert one.case.plan is not None
        memory, s = one.case.plan.memory, one.case.plan.scenario
        low, high = pod.weights_gib or (0.0, float("inf"))
        assert low <= memory.weights_bytes_per_gpu / GIB <= high
        request = memory.layout.request_bytes(s.context_tokens) / GIB
        assert request == pytest.approx(pod.request_gib or request, rel=0.01)


def test_a_name_of_two_sizes_is_the_smaller_and_says_what_the_larger_does(tmp_path: Path) -> None:
    def of(name: str) -> tuple[str, bool]:
        pod = PODS[name]
        words = ", ".join(f"'{word}'" for word in pod.arguments.split())
        one = one_of(tmp_path, "pod.yaml", TEXT.format(image=pod.image, label=pod.label, words=words, gpus=pod.gpus))
        (finding,) = [finding for finding in one.findings if finding.rule == "does-not-fit"]
        return finding.confidence, any("A100 SXM4 80GB" in text and "would" in text for text in one.case.assumed)

    assert of("two-sizes-that-differ") == ("likely", True)
    assert of("neither-of-two-sizes") == ("likely", False)


def test_a_slice_is_cut_from_the_device_a_selector_names(tmp_path: Path) -> None:
    pod = PODS["slice-of-a-named-device"]
    words = ", ".join(f"'{word}'" for word in pod.arguments.split())
    for label in (pod.label, "nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3"):
        one = one_of(tmp_path, "pod.yaml", TEXT.format(image=pod.image, label=label, words=words, gpus=pod.gpus))
        assert one.case.device is not None
        assert one.case.device.accelerator.id == "h100-sxm-80gb-mig-3g.40gb"


@pytest.mark.parametrize("form", FORMS)
def test_other_forms(tmp_path: Path, form: str) -> None:
    name, gpu, text, version, verdict, (low, high) = FORMS[form]
    one = one_of(tmp_path, name, text, gpu)
    assert (one.verdict, one.case.deployment.version) == (verdict, version)
    assert one.case.plan is not None
    assert low <= one.case.plan.memory.weights_bytes_per_gpu / GIB <= high
