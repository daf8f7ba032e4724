"""Forms beside Kubernetes: what each says of model, engine, version, devices and options."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from gate_files import checked, only, settings_of, write
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.gate.check import gate
from infopt.gate.policy import Policy

COMPOSE = """
services:
  cache: {image: redis}
  llm:
    image: vllm/vllm-openai:${TAG:-v0.10.0}
    env_file: llm.env
    environment:
      - EXTRA=--enforce-eager
    command: >
      --model ${MODEL}
      --tensor-parallel-size ${RANKS:-2} --max-model-len $$LENGTH $$EXTRA
    shm_size: 16gb
    deploy:
      resources:
        limits: {memory: 64g}
        reservations:
          devices: [{driver: nvidia, device_ids: ["0", "3"], capabilities: [gpu]}]
"""


def test_compose_with_its_env_files(tmp_path: Path) -> None:
    files = {"compose.yml": COMPOSE, ".env": "MODEL='Qwen/Qwen3-8B' # note\n", "llm.env": "export LENGTH=8192\n"}
    (one,) = checked(tmp_path, files, "compose.yml")
    deployment = one.case.deployment
    assert (deployment.engine, deployment.version, deployment.model) == ("vllm", "0.10.0", "Qwen/Qwen3-8B")
    assert settings_of(one) | {"tp": 2, "context_tokens": 8192, "eager": True} == settings_of(one)
    assert (one.case.granted, one.case.needed) == (2, 2)
    assert deployment.found.host.shm_bytes == 16 * 2**30
    assert deployment.found.host.memory_bytes == 64 * 2**30


def test_compose_leaves_open_what_nothing_defines(tmp_path: Path) -> None:
    one = only(tmp_path, "compose.yml", COMPOSE)
    assert one.case.model is None
    assert any("$MODEL" in finding.message for finding in one.findings)


@pytest.mark.parametrize(
    ("devices", "count"),
    [
        ("deploy: {resources: {reservations: {devices: [{count: 4, capabilities: [gpu]}]}}}", 4),
        ("deploy: {resources: {reservations: {devices: [{count: all, capabilities: [gpu]}]}}}", None),
        ("deploy: {resources: {reservations: {devices: [{count: 4, capabilities: [tpu]}]}}}", None),
        ("deploy: {resources: {reservations: {devices: [{device_ids: ['0,1'], capabilities: [gpu]}]}}}", 2),
        ("gpus: all", None),
        ("gpus: [{count: 3}]", 3),
        ("runtime: nvidia\n    environment: {NVIDIA_VISIBLE_DEVICES: '0,1'}", 2),
        ("runtime: nvidia\n    environment: {NVIDIA_VISIBLE_DEVICES: all}", None),
    ],
)
def test_devices_of_compose(tmp_path: Path, devices: str, count: int | None) -> None:
    content = (
        f"services:\n  a:\n    image: vllm/vllm-openai:v0.9.2\n    command: [--model, Qwen/Qwen3-8B]\n    {devices}\n"
    )
    assert only(tmp_path, "compose.yml", content).case.granted == count


def test_a_service_that_extends_others(tmp_path: Path) -> None:
    files = {
        "app/compose.yml": """
x-base: &base {ipc: host}
services:
  llm:
    <<: *base
    extends: {file: base/common.yml, service: engine}
    environment: {LENGTH: "4096"}
""",
        "app/base/common.yml": """
services:
  engine:
    extends: root
    environment: {LENGTH: "1", LEVEL: "5"}
  root:
    image: vllm/vllm-openai:v0.9.2
    command: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "$$LENGTH", "--max-num-seqs", "$$LEVEL"]
""",
    }
    (one,) = checked(tmp_path, files, "app/compose.yml")
    assert settings_of(one) == {"model": "Qwen/Qwen3-8B", "context_tokens": 4096, "max_num_seqs": 5}
    assert one.case.deployment.found.host.shares_ipc


@pytest.mark.parametrize("file", ["../../outside.yml", "/etc/passwd", "loop.yml", "link.yml", "none.yml"])
def test_what_is_extended_stays_in_the_tree_and_ends(tmp_path: Path, file: str) -> None:
    service = "services: {base: {extends: {file: %s, service: base}, image: 'vllm/vllm-openai:v0.9.2'}}"
    write(
        tmp_path,
        {"outside.yml": service % "x", "a/b/compose.yml": service % file, "a/b/loop.yml": service % "loop.yml"},
    )
    (tmp_path / "a/b/link.yml").symlink_to(tmp_path / "outside.yml")
    found = gate([str(tmp_path / "a/b/compose.yml")], Policy())
    assert found.errors == ()
    (one,) = found.checked
    assert any(unknown.fact == "service base" for unknown in one.case.unknown)


SKY = """
name: serve
envs: {MODEL: Qwen/Qwen3-32B}
resources:
  accelerators: %s
num_nodes: 2
setup: pip install "vllm==0.10.0"
run: |
  export LENGTH=16384
  vllm serve $MODEL --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE \\
    --pipeline-parallel-size $SKYPILOT_NUM_NODES --max-model-len $LENGTH
"""


@pytest.mark.parametrize(
    ("accelerators", "ways"),
    [
        ("H200:4", [("h200-sxm-141gb", 4)]),
        ("{H100: 8}", [("h100-sxm-80gb", 8)]),
        ("L4", [("l4", 1)]),
        ("['H100:8', 'L4:2']", [("h100-sxm-80gb", 8), ("l4", 2)]),
        ("{H100: 8, A100-80GB: 4}", [("h100-sxm-80gb", 8), ("a100-sxm-80gb", 4)]),
        ("{H100:8, A100-80GB:4, L4}", [("h100-sxm-80gb", 8), ("a100-sxm-80gb", 4), ("l4", 1)]),
    ],
)
def test_skypilot(tmp_path: Path, accelerators: str, ways: list[tuple[str, int]]) -> None:
    found = checked(tmp_path, {"task.yaml": SKY % accelerators}, "task.yaml")
    assert [
        (one.case.device.accelerator.id, one.case.deployment.value("tp")) for one in found if one.case.device
    ] == ways
    for one, (_, count) in zip(found, ways, strict=True):
        assert (one.case.deployment.version, one.case.deployment.model) == ("0.10.0", "Qwen/Qwen3-32B")
        assert settings_of(one) | {"pp": 2, "context_tokens": 16384} == settings_of(one)
        assert one.case.granted == 2 * count


DSTACK = """
type: service
name: chat
env: [MODEL=Qwen/Qwen3-8B, HF_TOKEN]
image: rocm/vllm:some
commands:
  - cd /work
  - vllm serve $MODEL --tensor-parallel $DSTACK_GPUS_NUM
resources: {gpu: %s, shm_size: 8GB}
"""


@pytest.mark.parametrize(
    ("gpu", "device", "tp"),
    [
        ("MI300X:8", "mi300x", 8),
        ("A100:40GB:2", "a100-sxm-40gb", 2),
        ("{name: H100, count: 4}", "h100-sxm-80gb", 4),
        ("24GB..80GB", None, None),
        ("H100:2..8", "h100-sxm-80gb", 2),
    ],
)
def test_dstack(tmp_path: Path, gpu: str, device: str | None, tp: int | None) -> None:
    one = only(tmp_path, "chat.dstack.yml", DSTACK % gpu)
    assert (one.case.device.accelerator.id if one.case.device else None) == device
    assert one.case.deployment.value("tp", 1) == (tp or 1)
    assert one.case.deployment.model == "Qwen/Qwen3-8B"
    assert one.case.deployment.found.host.shm_bytes == 8 * 2**30
    if device is None:
        assert any(u.fact == "GPU type" and gpu in u.settle for u in one.case.unknown)


def test_bentoml_arguments(tmp_path: Path) -> None:
    content = """
args:
  name: chat
  gpu_type: nvidia-a100-80gb
  tp: 2
  model_id: Qwen/Qwen3-32B
  max_model_len: 8192
  kv_transfer_config: {kv_connector: Some, size: 5}
  cli_args: ['--max-num-seqs', '64']
"""
    one = only(tmp_path, "chat.yaml", content)
    transfer = {"kv_connector": "Some", "size": 5}
    assert settings_of(one) == {"tp": 2, "context_tokens": 8192, "max_num_seqs": 64, "kv_transfer": transfer}
    assert one.case.deployment.model == "Qwen/Qwen3-32B"
    assert one.case.device is not None
    assert (one.case.device.accelerator.id, one.case.granted, one.case.needed) == ("a100-sxm-80gb", 2, 2)


@pytest.mark.parametrize(
    ("content", "engine", "expected"),
    [
        ("kv-cache-dtype: fp8\nno-enable-prefix-caching: true\n", "vllm", {"kv": "fp8", "prefix_caching": False}),
        ("model: Qwen/Qwen3-8B\nmax_model_len: 4k\n", "vllm", {"model": "Qwen/Qwen3-8B", "context_tokens": 4000}),
        ("model-path: Qwen/Qwen3-8B\ntp-size: 2\n", "sglang", {"model": "Qwen/Qwen3-8B", "tp": 2}),
    ],
)
def test_options_of_an_engine_alone(tmp_path: Path, content: str, engine: str, expected: dict[str, object]) -> None:
    one = only(tmp_path, "options.yaml", content)
    assert (one.case.deployment.engine, settings_of(one)) == (engine, expected)


@pytest.mark.parametrize(
    "content", ["host: x\nport: 5\n", "model: x\nseed: 1\n", "a: 1\nmax-model-len: 5\n", "[1, 2]\n"]
)
def test_keys_that_could_be_anything_are_nothing(tmp_path: Path, content: str) -> None:
    assert checked(tmp_path, {"options.yaml": content}, "options.yaml") == []


def test_variants_of_a_recipe(tmp_path: Path) -> None:
    content = """
meta: {slug: some}
model: {model_id: Qwen/Qwen3-32B, min_vllm_version: "0.12.0", base_args: [--max-model-len, "8192"]}
variants:
  default: {precision: bf16, vram_minimum_gb: 80}
  small: {model_id: Qwen/Qwen3-32B-FP8, vram_minimum_gb: 40, extra_args: [--kv-cache-dtype, fp8]}
"""
    plain, small = checked(tmp_path, {"recipe.yaml": content}, "recipe.yaml")
    assert (plain.case.deployment.model, plain.case.deployment.version) == ("Qwen/Qwen3-32B", "0.12.0")
    assert settings_of(small) == {"context_tokens": 8192, "kv": "fp8"}
    assert small.case.deployment.model == "Qwen/Qwen3-32B-FP8"
    assert any("40 GB" in unknown.settle for unknown in small.case.unknown)


KEYS = [
    "services",
    "image",
    "command",
    "entrypoint",
    "environment",
    "env_file",
    "extends",
    "file",
    "service",
    "deploy",
    "resources",
    "reservations",
    "devices",
    "count",
    "device_ids",
    "capabilities",
    "gpus",
    "runtime",
    "shm_size",
    "ipc",
    "limits",
    "memory",
    "run",
    "setup",
    "envs",
    "accelerators",
    "any_of",
    "num_nodes",
    "image_id",
    "instance_type",
    "replicas",
    "replica_policy",
    "type",
    "name",
    "commands",
    "env",
    "gpu",
    "nodes",
    "model",
    "args",
    "model_id",
    "gpu_type",
    "tp",
    "cli_args",
    "kv_transfer_config",
    "variants",
    "extra_args",
    "vram_minimum_gb",
    "meta",
    "base_args",
    "max-model-len",
    "kv-cache-dtype",
]
SCALARS = st.sampled_from(
    [
        "vllm serve a/b --tp 2",
        "H100:8",
        "24GB..80GB",
        "all",
        "0,1",
        "service",
        "${A:-b}",
        "$$A",
        "A=b",
        "-1",
        "",
        "16g",
        "x",
    ]
) | st.text(max_size=8)
TREES = st.recursive(
    SCALARS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)
FORMS: dict[str, Callable[[object], dict[str, object]]] = {
    "compose": lambda tree: {"services": {"a": {"image": "vllm/vllm-openai:v0.9.2", "x": tree} | as_mapping(tree)}},
    "skypilot": lambda tree: {"run": "vllm serve a/b", "resources": tree} | as_mapping(tree),
    "dstack": lambda tree: {"type": "service", "commands": tree, "resources": tree} | as_mapping(tree),
    "bentoml": lambda tree: {"args": {"model_id": "a/b", "tp": tree} | as_mapping(tree)},
    "recipe": lambda tree: {"model": {"model_id": "a/b"}, "variants": {"a": as_mapping(tree)}} | as_mapping(tree),
    "options": lambda tree: {"max-model-len": tree, "kv-cache-dtype": tree},
}


def as_mapping(tree: object) -> dict[str, object]:
    return tree if isinstance(tree, dict) else {}


@settings(max_examples=60, deadline=3000)
@given(st.sampled_from(sorted(FORMS)), TREES)
def test_any_tree_in_the_place_of_a_value_is_read(form: str, tree: object) -> None:
    """Keys may hold anything: nothing is raised, and what is checked has a verdict."""
    found = gate(["-"], Policy(), None, json.dumps(FORMS[form](tree)))
    assert not [error for error in found.errors if "not readable as YAML" not in error]
    assert {one.verdict for one in found.checked} <= {"pass", "fail", "undetermined"}
