"""RoleBasedGroup: roles of one service; images that say nothing of their engine; options before the first table."""

from pathlib import Path

import pytest

from infopt.hardware.instances import read_instance
from tests.gate_files import checked, only

PATTERNS = """
apiVersion: workloads.x-k8s.io/v1alpha2
kind: RoleBasedGroup
metadata: {name: shop}
spec:
  roleTemplates:
    - name: base
      template:
        spec:
          containers:
            - name: engine
              image: lmsysorg/sglang:v0.5.9
              resources: {limits: {nvidia.com/gpu: 4}}
  roles:
    - name: router
      standalonePattern: {template: {spec: {containers: [{name: r, image: "lmsysorg/sglang-router:v0.2.4"}]}}}
    - name: prefill
      replicas: 3
      standalonePattern:
        templateRef:
          name: base
          patch:
            spec:
              containers:
                - name: engine
                  command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-32B, --tp, "4"]
    - name: decode
      leaderWorkerPattern:
        size: 2
        template:
          spec:
            containers:
              - name: engine
                image: lmsysorg/sglang:v0.5.9
                resources: {limits: {nvidia.com/gpu: 4}}
        leaderTemplatePatch:
          spec:
            containers:
              - name: engine
                command:
                  - sh
                  - -c
                  - python3 -m sglang.launch_server --model-path Qwen/Qwen3-32B --tp 8 --nnodes $(RBG_LWP_GROUP_SIZE)
"""
JOINED = """
apiVersion: workloads.x-k8s.io/v1alpha1
kind: RoleBasedGroup
metadata: {name: two}
spec:
  roles:
    - name: head
      template:
        spec:
          containers:
            - name: a
              image: vllm/vllm-openai:v0.8.4
              command: [sh, -c, "ray start --head; vllm serve Qwen/Qwen2.5-7B-Instruct --pipeline-parallel-size 2"]
              resources: {limits: {nvidia.com/gpu: 1}}
    - name: more
      template:
        spec:
          containers:
            - name: b
              image: vllm/vllm-openai:v0.8.4
              command: [ray, start, --address=head, --block]
              resources: {limits: {nvidia.com/gpu: 1}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  nodeSelector: {node.kubernetes.io/instance-type: VM.GPU.A10.1}
  containers: [{name: c, image: "IMAGE", args: ARGS, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
VLLM = '["--model=Qwen/Qwen2.5-7B-Instruct", "--max-model-len=4096", "--gpu-memory-utilization=0.9"]'


def test_roles_their_templates_and_patches(tmp_path: Path) -> None:
    found = {one.case.deployment.found.name: one.case for one in checked(tmp_path, {"g.yaml": PATTERNS})}
    assert set(found) == {"shop-prefill", "shop-decode"}
    prefill, decode = found["shop-prefill"], found["shop-decode"]
    assert (prefill.granted, prefill.needed, prefill.deployment.found.hardware.replicas) == (4, 4, 3)
    assert (decode.granted, decode.needed, decode.deployment.version) == (8, 8, "0.5.9")
    assert (prefill.deployment.found.role, decode.deployment.found.role) == ("prefill", "decode")


def test_a_set_makes_copies(tmp_path: Path) -> None:
    head, _, roles = PATTERNS.partition("spec:\n")
    nested = "".join(f"    {line}\n" for line in roles.splitlines())
    text = (
        head.replace("RoleBasedGroup", "RoleBasedGroupSet")
        + f"spec:\n  replicas: 2\n  groupTemplate:\n    spec:\n{nested}"
    )
    found = {one.case.deployment.found.name: one.case for one in checked(tmp_path, {"g.yaml": text})}
    assert found["shop-prefill"].deployment.found.hardware.replicas == 6


def test_a_role_that_joins_lends_its_devices(tmp_path: Path) -> None:
    one = only(tmp_path, "g.yaml", JOINED)
    assert (one.case.granted, one.case.needed) == (2, 2)
    assert not [finding for finding in one.findings if finding.severity == "error"]


@pytest.mark.parametrize("image", ["${SERVER_IMAGE}", "registry.example/models/answers:12"])
def test_an_image_that_says_nothing_is_known_by_options(tmp_path: Path, image: str) -> None:
    one = only(tmp_path, "p.yaml", POD.replace("IMAGE", image).replace("ARGS", VLLM))
    assert (one.case.deployment.engine, one.case.deployment.version, one.verdict) == ("vllm", None, "pass")
    assert any("is taken for vllm, by --model" in text for text in one.case.assumed)


def test_options_that_others_have_too_tell_no_engine(tmp_path: Path) -> None:
    words = '["--model=Qwen/Qwen2.5-7B-Instruct", "--max-model-len=4096"]'
    assert checked(tmp_path, {"p.yaml": POD.replace("IMAGE", "${ONE}").replace("ARGS", words)}) == []


def test_values_joined_to_options_older_than_every_table(tmp_path: Path) -> None:
    one = only(tmp_path, "p.yaml", POD.replace("IMAGE", "vllm/vllm-openai:v0.3.3").replace("ARGS", VLLM))
    assert (one.case.deployment.model, one.case.device is not None) == ("Qwen/Qwen2.5-7B-Instruct", True)
    assert one.case.deployment.settings["context_tokens"].value == 4096


def test_a_tag_of_an_image_of_ones_own_that_no_release_has(tmp_path: Path) -> None:
    words = VLLM.replace("]", ', "--max-num-batched-tokens=1024"]')
    one = only(tmp_path, "p.yaml", POD.replace("IMAGE", "quay.example/me/vllm-dev:0.0.19").replace("ARGS", words))
    assert one.case.deployment.version is None
    assert not [finding for finding in one.findings if finding.rule == "batch-budget"]


def test_shapes_of_oracle() -> None:
    row = read_instance("bm.gpu.a10.4")
    assert row is not None
    assert (row.cloud, row.accelerator, row.gpus) == ("oracle", "a10", 4)


VALUES = """
fullnameOverride: chat
runtime:
  image: quay.example/ai/vllm:v0.9.1
  storageUri: oci://registry.example/ai/modelcar-catalog:qwen2.5-7b-instruct
"""


def test_a_runtime_of_ones_own_chart(tmp_path: Path) -> None:
    one = only(tmp_path, "values.yaml", VALUES)
    assert (one.case.deployment.engine, one.case.deployment.version) == ("vllm", "0.9.1")
    assert one.case.model is not None
    assert one.case.model.id == "Qwen/Qwen2.5-7B-Instruct"


@pytest.mark.parametrize(
    ("version", "model", "refused"),
    [
        ("v0.6.6", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", True),
        ("v0.6.3", "deepseek-ai/DeepSeek-R1", True),
        ("v0.6.6", "deepseek-ai/DeepSeek-R1", False),
        ("v0.6.6", "Qwen/Qwen2.5-7B-Instruct", False),
        ("v0.8.5", "Qwen/Qwen3-8B", False),
    ],
)
def test_a_version_older_than_the_model(tmp_path: Path, version: str, model: str, refused: bool) -> None:
    words = VLLM.replace("Qwen/Qwen2.5-7B-Instruct", model)
    text = POD.replace("IMAGE", f"vllm/vllm-openai:{version}").replace("ARGS", words)
    one = only(tmp_path, "p.yaml", text.replace("VM.GPU.A10.1", "BM.GPU.H100.8"))
    assert [finding.severity for finding in one.findings if finding.rule == "model-refused"] == ["error"] * refused


def test_a_small_pod_of_ollama(tmp_path: Path) -> None:
    text = POD.replace("IMAGE", "ollama/ollama:0.11.4").replace("ARGS", "[serve]")
    one = only(tmp_path, "p.yaml", text.replace("nvidia.com/gpu: 1", "memory: 1Gi"))
    assert not [finding for finding in one.findings if finding.rule == "host-memory"]
