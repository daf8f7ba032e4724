"""KServe: services with their runtimes in one file or a tree, runtimes alone, LLMInferenceService, addresses."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from infopt.gate.addresses import is_place, model_name, served
from infopt.gate.case import case_of
from infopt.gate.check import Checked, gate
from infopt.gate.deployment import Deployment
from infopt.gate.nodes import at
from infopt.gate.policy import Policy
from infopt.gate.reading import read_file

RUNTIME = """\
apiVersion: serving.kserve.io/v1alpha1
kind: ClusterServingRuntime
metadata: {name: fast-runtime}
spec:
  supportedModelFormats: [{name: fast, autoSelect: true}]
  containers:
  - name: helper
    image: busybox
  - name: kserve-container
    image: vllm/vllm-openai:v0.9.1
    args: [--served-model-name, "{{.Name}}", --max-model-len=4000]
    env: [{name: A, value: b}]
    resources: {limits: {memory: 16Gi, cpu: 4}}
    volumeMounts: [{name: shm, mountPath: /dev/shm}]
  volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]
"""
SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: chat}
spec:
  predictor:
    minReplicas: 2
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
    model:
      modelFormat: {name: fast}
      runtime: fast-runtime
      storageUri: hf://Qwen/Qwen2.5-7B-Instruct
      args: [--max-model-len=6000]
      resources: {limits: {nvidia.com/gpu: 1}}
"""


def deployments(content: str) -> tuple[Deployment, ...]:
    found = read_file("-", dedent(content))
    assert found.error == ""
    return found.deployments


def only(content: str) -> Deployment:
    (one,) = deployments(content)
    return one


def settings(one: Deployment) -> dict[str, Any]:
    return {name: setting.value for name, setting in one.settings.items() if name != "served_name"}


def checked(folder: Path, **files: str) -> tuple[Checked, ...]:
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(content, encoding="utf-8")
    return gate([str(folder)], Policy()).checked


def test_service_is_laid_over_the_runtime_it_names() -> None:
    one = only(f"{SERVICE}---\n{RUNTIME}")
    assert (one.found.name, one.engine, one.version, one.model) == ("chat", "vllm", "0.9.1", "Qwen/Qwen2.5-7B-Instruct")
    assert settings(one) == {"context_tokens": 6000}
    hardware, host = one.found.hardware, one.found.host
    assert (hardware.count, hardware.replicas, hardware.named[0][1]) == (1, 2, "NVIDIA-L40S")
    assert (host.memory_bytes, host.shm_bytes) == (16 * 2**30, 2 * 2**30)


def test_runtime_may_be_chosen_by_the_format() -> None:
    unnamed = SERVICE.replace("      runtime: fast-runtime\n", "")
    assert only(f"{RUNTIME}---\n{unnamed}").version == "0.9.1"


def test_runtime_of_another_file_of_the_tree_is_found_and_is_no_deployment_of_its_own(tmp_path: Path) -> None:
    (one,) = checked(tmp_path, service=SERVICE, runtime=RUNTIME)
    deployment = one.case.deployment
    assert (deployment.version, settings(deployment)) == ("0.9.1", {"context_tokens": 6000})
    assert deployment.file.endswith("service.yaml")
    assert one.verdict == "pass"
    # What the other file says is found where this one refers to it.
    memory = deployment.found.host.memory_at
    assert memory is not None
    assert (memory.line, memory) == (10, "16Gi")


def test_service_whose_runtime_is_nowhere_is_undetermined(tmp_path: Path) -> None:
    (one,) = checked(tmp_path, service=SERVICE)
    assert one.verdict == "undetermined"
    assert [(u.fact, u.settle) for u in one.case.unknown][:1] == [
        ("engine", "the runtime fast-runtime, in the same tree")
    ]
    assert one.findings == ()


def test_formats_that_name_the_engine_need_no_runtime() -> None:
    plain = SERVICE.replace("      runtime: fast-runtime\n", "")
    server = only(plain.replace("{name: fast}", "{name: huggingface}"))
    assert (server.engine, server.version, settings(server)) == ("huggingfaceserver", None, {"context_tokens": 6000})
    assert only(plain.replace("{name: fast}", "{name: vLLM}")).engine == "vllm"


def test_models_without_devices_are_nobody_s_business() -> None:
    plain = SERVICE.replace("      runtime: fast-runtime\n", "").replace("{name: fast}", "{name: sklearn}")
    assert deployments(plain.replace("      resources: {limits: {nvidia.com/gpu: 1}}\n", "")) == ()


def test_runtime_alone_misses_its_model() -> None:
    one = only(RUNTIME)
    case = case_of(one, Policy(hardware="l40s"))
    assert one.model is None
    assert [u.settle for u in case.unknown if u.fact == "model"] == [
        "the InferenceService that uses this runtime, or --model"
    ]


def test_service_with_containers_of_its_own() -> None:
    one = only(
        """\
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {name: own}
        spec:
          predictor:
            containers:
            - name: kserve-container
              image: vllm/vllm-openai:v0.9.1
              args: [--model, org/m, --tensor-parallel-size, "2"]
              resources: {limits: {nvidia.com/gpu: 2}}
        """
    )
    assert (one.model, settings(one)["tp"], one.found.hardware.count) == ("org/m", 2, 2)


SCRIPTED = """\
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: nodes}
spec:
  supportedModelFormats: [{name: huggingface, autoSelect: true}]
  containers:
  - name: kserve-container
    image: huggingfaceserver-gpu:1
    command:
    - bash
    - -c
    - |
      python -m huggingfaceserver --model_dir=${MODEL_DIR} --tensor-parallel-size=${TENSOR_PARALLEL_SIZE} \\
        --pipeline-parallel-size=${PIPELINE_PARALLEL_SIZE} $0 $@
    args: [--model_name=x]
  workerSpec:
    pipelineParallelSize: 2
    tensorParallelSize: 4
    containers: [{name: w, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]
"""


def test_workers_are_stages_and_a_script_hands_arguments_on() -> None:
    service = SERVICE.replace("fast-runtime", "nodes").replace("nvidia.com/gpu: 1", "cpu: 8")
    one = only(f"{SCRIPTED}---\n{service}")
    assert one.engine == "huggingfaceserver"
    assert settings(one) == {"model": "/mnt/models", "tp": 4, "pp": 2, "context_tokens": 6000}
    assert (one.model, one.found.hardware.count, one.found.hardware.pods) == ("Qwen/Qwen2.5-7B-Instruct", 4, 2)


@pytest.mark.parametrize(("each", "count", "pods"), [(1, 1, 8), (2, 2, 4), (8, 8, 1)])
def test_pods_bring_what_both_sizes_need(each: int, count: int, pods: int) -> None:
    service = SERVICE.replace("fast-runtime", "nodes").replace("nvidia.com/gpu: 1", "cpu: 8")
    one = only(f"{SCRIPTED}---\n{service}".replace("nvidia.com/gpu: 4", f"nvidia.com/gpu: {each}"))
    assert (one.found.hardware.count, one.found.hardware.pods) == (count, pods)


@pytest.mark.parametrize(("script", "length"), [("vllm serve org/m $@", 2), ('exec vllm serve org/m "$@"', 2)])
def test_arguments_behind_a_script(script: str, length: int) -> None:
    one = only(
        f"""\
        apiVersion: v1
        kind: Pod
        metadata: {{name: p}}
        spec:
          containers:
          - name: c
            image: vllm/vllm-openai:v0.9.1
            command: [sh, -c, '{script}', --]
            args: [--tensor-parallel-size, "2"]
        """
    )
    assert (one.model, settings(one)["tp"]) == ("org/m", length)


LLM = """\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: m}
spec:
  model:
    uri: hf://Qwen/Qwen3-32B
    name: big
    lora: {maxRank: 32, adapters: [{name: a, uri: "hf://o/a"}, {name: b, uri: "hf://o/b"}]}
  replicas: 3
  parallelism: {tensor: 4, data: 4, dataLocal: 2, expert: true}
  template:
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
    containers:
    - name: sidecar
      image: x
    - name: main
      env: [{name: VLLM_ADDITIONAL_ARGS, value: "--max-model-len 9000 --max-num-seqs=32"}]
      args: [--max-num-seqs=16]
      resources: {limits: {nvidia.com/gpu: 8, memory: 100Gi}}
  worker: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}
  kvCacheOffloading: {cpu: 20Gi, secondary: [{fileSystem: {emptyDir: {size: 900Gi}}}]}
  prefill:
    replicas: 2
    parallelism: {tensor: 2}
    template: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]}
"""


def test_llm_service_is_two_workloads() -> None:
    decode, prefill = deployments(LLM)
    assert (decode.engine, decode.model, decode.found.role) == ("vllm", "Qwen/Qwen3-32B", "decode")
    offload = settings(decode)["kv_transfer"]["kv_connector_extra_config"]
    assert offload == {"cpu_bytes_to_use": 20 * 2**30}
    assert {k: v for k, v in settings(decode).items() if k != "kv_transfer"} == {
        "tp": 4, "dp": 4, "dp_local": 2, "expert_parallel": True, "context_tokens": 9000, "max_num_seqs": 16,
        "lora": True, "lora_rank": 32, "lora_slots": 2, "lora_host_slots": 2,
    }  # fmt: skip
    hardware = decode.found.hardware
    assert (hardware.count, hardware.pods, hardware.replicas) == (8, 2, 3)
    assert (prefill.found.role, prefill.found.hardware.count, prefill.found.hardware.replicas) == ("prefill", 2, 2)
    assert settings(prefill)["tp"] == 2


def test_llm_service_of_a_place_is_known_by_its_served_name() -> None:
    decode, _ = deployments(
        LLM.replace("hf://Qwen/Qwen3-32B", "pvc://claim/q").replace("name: big", "name: Qwen/Qwen3-32B")
    )
    assert decode.model == "Qwen/Qwen3-32B"
    assert decode.found.assumed == ("pvc://claim/q holds Qwen/Qwen3-32B, by the name it is served as",)
    nameless, _ = deployments(LLM.replace("hf://Qwen/Qwen3-32B", "s3://bucket/what"))
    assert nameless.model == "s3://bucket/what"


def test_llm_service_with_a_command_of_its_own() -> None:
    own = LLM.replace("      args: [--max-num-seqs=16]", "      command: [vllm, serve, org/other, --max-num-seqs=8]")
    decode, _ = deployments(own)
    assert settings(decode) == {"model": "org/other", "max_num_seqs": 8}


def test_controller_templates_are_refused() -> None:
    found = read_file(
        "-",
        LLM.replace("LLMInferenceService", "LLMInferenceServiceConfig").replace(
            "name: big", 'name: "{{ .Spec.Model.Name }}"'
        ),
    )
    assert found.error == (
        "-:7:12: is a template that the KServe controller fills in: check the LLMInferenceService that uses it"
    )


PATCH = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: decode}
spec:
  template:
    spec:
      containers:
      - name: server
        command: [vllm, serve]
        args: [Qwen/Qwen3-32B, --tensor-parallel-size=2]
        resources: {limits: {nvidia.com/gpu: 2}}
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]
"""


def test_patches_say_what_they_say() -> None:
    one = only(PATCH)
    assert (one.model, settings(one)["tp"], one.found.host.shm_bytes) == ("Qwen/Qwen3-32B", 2, 8 * 2**30)
    assert one.found.host.stated is False
    case = case_of(one, Policy())
    assert {u.fact for u in case.unknown} == {"engine version", "GPU type"}


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("hf://org/name", "org/name"),
        ("hf://org/name:main", "org/name"),
        ("huggingface://org/name@v1", "org/name"),
        ("https://huggingface.co/org/name/tree/main", "org/name"),
        ("https://example.com/org/name", "https://example.com/org/name"),
        ("/cache/hub/models--org--name/snapshots/0a", "org/name"),
        ("pvc+hf://claim/path/org/name", "org/name"),
        ("ollama://gemma2:2b", "ollama:gemma2:2b"),
        ("ngc://nim/name:1", "nim/name:1"),
        ("pvc://claim/path", "pvc://claim/path"),
        ("s3://bucket/path", "s3://bucket/path"),
        (' "org/name" ', "org/name"),
        ("x" * 5000, "x" * 5000),
    ],
)
def test_addresses(said: str, means: str) -> None:
    assert model_name(said) == means


def test_addresses_of_places() -> None:
    assert [is_place(text) for text in ("pvc://a", "/a", "./a", "~/a", "", "a/b", "a")] == [True] * 5 + [False] * 2
    address, name = at("s3://b/c", 3, 4), at("org/name", 5, 6)
    assert served(address, name)[0] is name
    assert served(address, at("short", 1, 1)) == (address, ())
    assert served(None, name) == (name, ())
