"""The public files of charts, KServe and NIM: what each states is read as ../shared/facts/deployment_forms.md says."""

from pathlib import Path
from typing import Any

import pytest

from infopt.gate.check import Checked, gate
from infopt.gate.policy import Policy
from infopt.gate.reading import Overrides

CONFIGS = Path(__file__).parents[2] / "shared" / "configs"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not CONFIGS.is_dir(), reason="../shared/configs is not here"),
]

# file: (name of the deployment ending, engine, version, model, devices of a group, what names them, settings)
QWEN32, LLAMA8 = "Qwen/Qwen3-32B", "meta-llama/Llama-3.1-8B-Instruct"
L70 = "neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8"
STATED: list[tuple[str, str, str, str | None, str | None, int | None, str | None, dict[str, Any]]] = [
    ("C29", "llama3", "vllm", None, LLAMA8, 1, None, {"context_tokens": 4096, "utilization": 0.8, "dtype": "bfloat16"}),
    ("C31", "raycluster", "vllm", None, "distilbert/distilgpt2", 2, None, {"tp": 1, "pp": 2}),
    ("C32", "qwen14b", "vllm", "0.8.5", "Qwen/Qwen2.5-14B-Instruct", 4, None,
     {"tp": 4, "dtype": "half", "context_tokens": 8192, "eager": True}),
    ("C33", "prefill", "vllm", None, LLAMA8, 1, None, {"context_tokens": 32000}),
    ("C33", "decode", "vllm", None, LLAMA8, 1, None, {"context_tokens": 32000}),
    ("C34", "llama3", "vllm", None, LLAMA8, 1, None, {"lora": True, "context_tokens": 4096, "utilization": 0.8}),
    ("C35", "decode", "vllm", None, "facebook/opt-125m", 1, None, {"eager": True}),
    ("C36", "prefill", "vllm", None, "facebook/opt-125m", 1, None, {"eager": True}),
    ("C37", "decode", "vllm", None, "facebook/opt-125m", 2, "nvidia", {"tp": 2}),
    ("C37", "prefill", "vllm", None, "facebook/opt-125m", 1, "nvidia", {"eager": True}),
    ("C38", "decode", "vllm", None, "facebook/opt-125m", 1, None, {"eager": True}),
    ("C41", "offloading", "vllm", None, "Qwen/Qwen2.5-7B-Instruct", 1, None, {}),
    ("C42", "gpt-oss-20b", "vllm", None, "RedHatAI/gpt-oss-20b", 1, None, {}),
    ("C42", "prefill", "vllm", None, "RedHatAI/gpt-oss-20b", 1, None, {}),
    ("C43", "multinode", "huggingfaceserver", None, None, None, None, {"tp": 1, "pp": 1}),
    ("C47", "instruct", "nim", "1.3.3", "meta/llama-3.1-8b-instruct", 2, "g5-gpu-karpenter", {}),
    ("C48", "", "nim", None, None, None, "g5-gpu-karpenter", {}),
    ("C52", "11b-vision-instruct-l4", "vllm", None, "neuralmagic/Llama-3.2-11B-Vision-Instruct-FP8-dynamic", 1, "l4",
     {"utilization": 0.99, "eager": True, "context_tokens": 8192, "max_num_seqs": 16}),
    ("C52", "70b-instruct-fp8-l4", "vllm", None, L70, 8, "l4",
     {"pp": 4, "tp": 2, "context_tokens": 32768, "kv": "fp8", "chunked_prefill": False}),
    ("C52", "70b-instruct-fp8-1-h100", "vllm", None, L70, 1, "h100-80gb",
     {"context_tokens": 16384, "kv": "fp8", "utilization": 0.95, "max_num_batched_tokens": 16384}),
    ("C52", "405b-instruct-fp8-h100", "vllm", None, "neuralmagic/Meta-Llama-3.1-405B-Instruct-FP8", 8, "h100-80gb",
     {"tp": 8, "context_tokens": 65536, "max_num_seqs": 1024, "kv": "fp8", "max_num_batched_tokens": 65536}),
    ("C52", "70b-instruct-fp8-mi300x", "vllm", None, "amd/Llama-3.1-70B-Instruct-FP8-KV", 1, "mi300x",
     {"context_tokens": 120000, "kv": "fp8"}),
    ("C54", "gemma2-a", "ollama", None, "ollama:gemma2:2b", None, None, {}),
    ("C66", "decode", "vllm", None, "Qwen/Qwen3-30B-A3B-Thinking-2507", 2, None,
     {"tp": 2, "context_tokens": 262144, "utilization": 0.95}),
    ("C67", "instruct", "nim", "1.0.3", "meta/llama3-8b-instruct", 1, None, {}),
    ("C74", "1.0.0", "nim", "1.0.0", "meta/llama3-70b-instruct", None, None, {}),
    ("C75", "nim-llm", "nim", "1.8.4", "nvidia/llama-3.1-nemotron-nano-8b-v1", 4, None, {}),
    ("C80", "prefill", "vllm", None, QWEN32, 1, None, {"tp": 1, "context_tokens": 16384, "utilization": 0.9}),
    ("C80", "decode", "vllm", None, QWEN32, 2, None, {"tp": 2, "context_tokens": 16384, "utilization": 0.9}),
    ("C81", "decode", "vllm", None, QWEN32, 1, None, {"context_tokens": 16000, "utilization": 0.95}),
    ("C96", "decode", "vllm", None, "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", 4, None,
     {"tp": 4, "context_tokens": 262144, "max_num_seqs": 128}),
    ("C101", "vllm", "vllm", None, "/data/", 1, "TYPE_GPU_USED", {"block_tokens": 16, "dtype": "bfloat16"}),
]  # fmt: skip


def checked(*ids: str, policy: Policy | None = None, **given: str) -> tuple[Checked, ...]:
    files = [str(path) for one in ids for path in sorted(CONFIGS.glob(f"{one}_*"))]
    assert len(files) == len(ids)
    return gate(files, policy or Policy(), Overrides(**given)).checked


@pytest.mark.parametrize("row", STATED, ids=lambda row: f"{row[0]}-{row[1]}")
def test_what_a_file_states(
    row: tuple[str, str, str, str | None, str | None, int | None, str | None, dict[str, Any]],
) -> None:
    id, name, engine, version, model, devices, named, settings = row
    one = next(c.case.deployment for c in checked(id) if c.case.deployment.found.name.endswith(name))
    hardware = one.found.hardware
    assert (one.engine, one.version, one.model) == (engine, version, model)
    assert (None if hardware.count is None else hardware.count * hardware.pods) == devices
    assert (hardware.named[0][1] if hardware.named else None) == named
    assert {key: one.value(key) for key in settings} == settings


def test_values_and_their_rendered_output_agree() -> None:
    def facts(one: Checked) -> tuple[Any, ...]:
        d, hardware = one.case.deployment, one.case.deployment.found.hardware
        kept = {key: setting.value for key, setting in d.settings.items() if key not in ("model", "served_name")}
        return d.engine, d.version, d.model, kept, hardware.count, hardware.replicas, d.found.role, d.found.host

    before, after = ([facts(one) for one in checked(id)] for id in ("C35", "C38"))
    assert len(before) == 2
    assert before == after


def test_service_and_runtime_of_two_files_are_one_deployment() -> None:
    (one,) = checked("C73", "C74")
    d = one.case.deployment
    assert (d.engine, d.version, d.model, one.case.granted) == ("nim", "1.0.0", "meta/llama3-70b-instruct", 4)
    assert one.case.device is not None
    assert one.case.device.accelerator.id == "a100-sxm-80gb"
    assert one.verdict == "pass"
    assert any("32.00 GiB" in finding.message for finding in one.findings)


def test_controller_template_is_refused() -> None:
    (path,) = CONFIGS.glob("C44_*")
    found = gate([str(path)], Policy())
    assert found.checked == ()
    assert "is a template that the KServe controller fills in" in found.errors[0]


def test_v100_needs_half_precision(tmp_path: Path) -> None:
    (path,) = CONFIGS.glob("C32_*")
    (stated,) = checked("C32", gpu="v100-sxm2-16gb")
    assert stated.verdict == "pass"
    without = tmp_path / "values.yaml"
    without.write_text(path.read_text(encoding="utf-8").replace('      dtype: "half"\n', ""), encoding="utf-8")
    (other,) = gate([str(without)], Policy(), Overrides(gpu="v100-sxm2-16gb")).checked
    assert other.verdict == "fail"


@pytest.mark.parametrize(
    ("id", "gpu", "verdicts"),
    [
        ("C29", "l4", {"pass"}),
        ("C34", "l4", {"pass"}),
        ("C33", "a100-40gb", {"pass"}),
        ("C35", "l4", {"pass"}),
        ("C66", "h100", {"pass"}),
        ("C80", "h100", {"pass"}),
        ("C81", "h100", {"pass"}),
        ("C42", "h100", {"pass"}),
        ("C41", "l4", {"pass"}),
        ("C96", "h100", {"pass"}),
        ("C101", "l4", {"undetermined"}),
        ("C48", "l4", {"undetermined"}),
        ("C54", "l4", {"undetermined"}),
    ],
)
def test_verdicts_on_devices_that_files_do_not_name(id: str, gpu: str, verdicts: set[str]) -> None:
    assert {one.verdict for one in checked(id, policy=Policy(hardware=gpu))} == verdicts
