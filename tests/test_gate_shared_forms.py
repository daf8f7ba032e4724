"""The public files beside Kubernetes: what each states is read as ../shared/facts/deployment_forms.md says."""

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

H100, H200 = "h100-sxm-80gb", "h200-sxm-141gb"
EAGLE = {
    "model": "nvidia/gpt-oss-120b-Eagle3-v3",
    "num_speculative_tokens": 7,
    "method": "eagle3",
    "draft_tensor_parallel_size": 1,
}
# file: engine, version, model, devices granted, kind of device, settings, verdict
STATED: dict[str, tuple[str, str | None, str | None, int | None, str | None, dict[str, Any], str]] = {
    "C50": ("tgi", "2.3.1", None, None, None, {"context_tokens": 4096, "input_tokens": 2048}, "undetermined"),
    "C51": ("tgi", "2.3.1", None, None, None, {"context_tokens": 8192, "sharded": "true"}, "undetermined"),
    "C55": ("vllm", None, "openai/gpt-oss-120b", 8, "mi300x", {"tp": 8, "prefix_caching": False}, "pass"),
    "C56": ("vllm", None, None, None, None, {"kv": "fp8", "prefix_caching": False}, "undetermined"),
    "C57": ("vllm", None, None, None, None, {"prefix_caching": False, "speculative": EAGLE}, "undetermined"),
    "C68": ("vllm", None, "meta-llama/Llama-3.3-70B-Instruct", 4, H100, {"tp": 4}, "pass"),
    "C69": ("vllm", None, "deepseek-ai/DeepSeek-R1-0528", 8, H200, {"tp": 8}, "pass"),
    "C70": ("vllm", None, "meta-llama/Llama-4-Scout-17B-16E-Instruct", 8, H100,
            {"tp": 8, "context_tokens": 1_000_000}, "pass"),
    "C71": ("vllm", None, "meta-llama/Meta-Llama-3.1-8B-Instruct", 1, H100,
            {"tp": 1, "context_tokens": 16384, "max_num_batched_tokens": 16384}, "pass"),
    "C90": ("vllm", None, "moonshotai/Kimi-K2-Thinking", 8, H200, {"tp": 8, "dcp": 8}, "pass"),
    "C92": ("sglang", None, "meta-llama/Meta-Llama-3.1-8B-Instruct", 1, None, {}, "undetermined"),
    "C98": ("vllm", None, "meta-llama/Llama-3.1-8B-Instruct", 1, None,
            {"context_tokens": 8192, "utilization": 0.9, "prefix_caching": True}, "undetermined"),
}  # fmt: skip
# What is not known has to be named, and nothing else.
UNKNOWN = {
    "C50": {"model", "GPU type", "tensor parallel"},
    "C51": {"model", "GPU type", "tensor parallel"},
    "C56": {"model", "GPU type", "engine version"},
    "C57": {"model", "GPU type", "engine version"},
    "C92": {"GPU type", "engine version"},
    "C98": {"GPU type", "engine version"},
}


def checked(name: str, overrides: Overrides | None = None) -> list[Checked]:
    (path,) = CONFIGS.glob(f"{name}__*")
    found = gate([str(path)], Policy(), overrides)
    assert found.errors == ()
    return list(found.checked)


@pytest.mark.parametrize("name", STATED)
def test_what_a_file_states(name: str) -> None:
    engine, version, model, granted, device, settings, verdict = STATED[name]
    (one,) = checked(name)
    deployment = one.case.deployment
    assert (deployment.engine, deployment.version, deployment.model) == (engine, version, model)
    assert one.case.granted == granted
    assert (one.case.device.accelerator.id if one.case.device else None) == device
    assert {key: deployment.value(key) for key in settings} == settings
    assert one.verdict == verdict
    if name in UNKNOWN:
        assert {unknown.fact for unknown in one.case.unknown} == UNKNOWN[name]
    assert not [finding for finding in one.findings if finding.severity == "error"]


def test_shared_memory_of_compose() -> None:
    (shares,), (own,) = checked("C92"), checked("C98")
    assert shares.case.deployment.found.host.shares_ipc
    assert (own.case.deployment.found.host.shares_ipc, own.case.deployment.found.host.shm_bytes) == (False, None)


@pytest.mark.parametrize(("name", "verdict"), [("C92", "pass"), ("C98", "pass"), ("C56", "undetermined")])
def test_a_kind_of_device_settles_what_is_missing(name: str, verdict: str) -> None:
    (one,) = checked(name, Overrides(gpu="l40s"))
    assert one.verdict == verdict


def test_weights_of_a_recipe_are_within_the_memory_it_asks_for() -> None:
    """170, 84 and 42 GB are what the recipe asks for together; NVFP4 with its 16-bit embeddings is 2 % above."""
    claims = {"default": 170, "fp8": 84, "nvfp4": 42}
    for one in checked("C82", Overrides(gpu="mi355x")):
        assert one.case.plan is not None
        claim = claims[one.case.deployment.found.name.rpartition("/")[2]]
        weights = one.case.plan.memory.weights_bytes_per_gpu / 1e9
        assert 0.75 * claim < weights < 1.05 * claim, one.case.deployment.found.name
        assert one.case.deployment.version == "0.12.0"
