"""Real files of Ray, Dynamo, AIBrix, KAITO, OME and TensorRT-LLM: what facts/deployment_forms.md says of them."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from infopt.gate.check import Checked, Gate, gate
from infopt.gate.policy import Policy
from infopt.gate.reading import Overrides

CONFIGS = Path(__file__).resolve().parents[2] / "shared" / "configs"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not CONFIGS.is_dir(), reason="no ../shared/configs beside this checkout"),
]


class Row(NamedTuple):
    """What the table says of one deployment; `granted` devices of one group, `kind` None where the file names none."""

    role: str
    engine: str
    version: str | None
    model: str | None
    granted: int | None
    kind: str | None
    replicas: int
    settings: dict[str, Any]
    verdict: str


R1 = "deepseek-ai/DeepSeek-R1"
TABLE: dict[str, tuple[Row, ...]] = {
    "C10": (Row("", "tensorrt-llm", None, None, 16, "h100-sxm-80gb", 1, {"tp": 2, "pp": 8}, "undetermined"),),
    "C11": (Row("", "vllm", "0.4.3", "meta-llama/Meta-Llama-3-8B-Instruct", 2, "l4", 1, {"tp": 2}, "pass"),),
    "C12": (),
    "C15": (Row("", "tensorrt-llm", None, None, 16, None, 1, {"tp": 2, "pp": 8}, "undetermined"),),
    "C16": (Row("", "llama.cpp", None, None, None, None, 1, {"gpu_layers": "99"}, "undetermined"),),
    "C18": tuple(
        # The image's tag is Dynamo's release 1.2.0, which holds vLLM 0.20.1; the comment's 0.21.0 is of no release.
        Row(role, "vllm", "0.20.1", "/models/Qwen3-32B", 4, None, replicas,
            {"tp": 4, "context_tokens": 40960, "utilization": 0.9}, "undetermined")
        for role, replicas in (("decode", 8), ("prefill", 4))
    ),
    "C19": (Row("", "vllm", "0.7.3", R1, 16, None, 1, {"tp": 16}, "undetermined"),),
    "C22": tuple(
        Row(role, "sglang", "0.4.9.post3", "/models/Qwen3-8B", 2, None, 1, {"tp": 2, "utilization": 0.8},
            "undetermined")
        for role in ("prefill", "decode")
    ),
    "C23": tuple(
        Row(role, "vllm", "0.10.0", "/models/Qwen3-8B", 1, None, 1,
            {"kv_transfer": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}, "undetermined")
        for role in ("prefill", "decode")
    ),
    "C27": (Row("", "vllm", "0.7.1", "Qwen/Qwen2.5-Coder-7B-Instruct", 2, None, 1, {"tp": 2}, "undetermined"),),
    "C45": (Row("", "vllm", None, "mistralai/Mistral-7B-Instruct-v0.2", 1, "a10g", 1,
                {"context_tokens": 8192, "max_num_seqs": 4, "max_num_batched_tokens": 32768}, "pass"),),
    "C46": (Row("", "vllm", "0.7.0", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B", 1, "a10g", 1,
                {"block_tokens": 4096, "context_tokens": 8192, "max_num_seqs": 4, "tp": 1}, "pass"),),
    "C63": (Row("", "vllm", "0.9.0.1", "/llama-3-2-90b-vision-instruct", 8, None, 1,
                {"tp": 8, "eager": True, "images": "image=1", "context_tokens": 131072}, "undetermined"),),
    "C64": (Row("", "vllm", None, "deepseek-ai/DeepSeek-R1-Distill-Llama-8B", None, None, 1,
                {"context_tokens": 4096}, "undetermined"),),
    "C77": (Row("", "vllm", None, "meta-llama/Llama-3.3-70B-Instruct", 4, "a100-pcie-80gb", 1,
                {"context_tokens": 16384, "utilization": 0.95, "tp": 2, "pp": 2}, "pass"),),
    "C78": tuple(
        Row(role, "vllm", None, "deepseek-ai/DeepSeek-V3", 1, "a100-pcie-80gb", 1, {}, "fail")
        for role in ("prefill", "decode")
    ),
    "C83": (Row("", "sglang", "0.5.5.post3", "/deepseek-llm-7b-chat", 1, None, 1,
                {"tp": 1, "utilization": 0.9}, "undetermined"),),
    "C87": (Row("", "tensorrt-llm", "1.3.0rc11", "/model-cache/deepseek-r1-fp4", 8, None, 1,
                {"tp": 8, "ep": 8, "max_num_seqs": 8192, "utilization": 0.8, "attention_dp_in_tp": True, "kv": "fp8"},
                "undetermined"),),
    "C95": (Row("", "tensorrt-llm", None, None, None, None, 1,
                {"tp": 8, "ep": 8, "max_num_batched_tokens": 2048, "utilization": 0.75, "context_tokens": 2068},
                "undetermined"),),
}  # fmt: skip


def gated(id: str, **overrides: str) -> Gate:
    (file,) = CONFIGS.glob(f"{id}__*")
    found = gate([str(file)], Policy(), Overrides(**overrides))
    assert not found.errors
    return found


def row(checked: Checked, wanted: Row) -> Row:
    case = checked.case
    d = case.deployment
    return Row(
        d.found.role,
        d.engine,
        d.version,
        d.model,
        case.granted,
        case.device.accelerator.id if case.device is not None else None,
        d.found.hardware.replicas,
        {name: d.value(name) for name in wanted.settings},
        checked.verdict,
    )


@pytest.mark.parametrize("id", sorted(TABLE))
def test_what_the_table_says(id: str) -> None:
    found = gated(id)
    assert len(found.checked) == len(TABLE[id])
    for checked, wanted in zip(found.checked, TABLE[id], strict=True):
        assert row(checked, wanted) == wanted


@pytest.mark.parametrize(
    ("id", "gpu", "verdict"),
    [
        ("C18", "l40s", "pass"),  # "OK on >= 48 GB"
        ("C19", "h100", "pass"),
        ("C22", "l4", "pass"),
        ("C23", "l40s", "pass"),
        ("C27", "l4", "pass"),
        ("C87", "b200", "pass"),
    ],
)
def test_with_a_device_given(id: str, gpu: str, verdict: str) -> None:
    assert {checked.verdict for checked in gated(id, gpu=gpu).checked} == {verdict}


def test_options_alone_with_model_and_device() -> None:
    (checked,) = gated("C95", model="deepseek-ai/DeepSeek-R1-0528", gpu="h200").checked
    assert checked.verdict == "pass"


@pytest.mark.parametrize(
    ("id", "rule", "number"),
    [
        ("C19", "tp-over-nodes", "16"),
        ("C22", "tp-over-nodes", "2"),
        ("C46", "choices", "4096"),
        ("C63", "json-values", "image=1"),
        ("C78", "does-not-fit", "GiB"),
        ("C12", "program-not-read", "transformers"),
    ],
)
def test_findings(id: str, rule: str, number: str) -> None:
    messages = [finding.message for finding in gated(id).findings if finding.rule == rule]
    assert messages
    assert all(number in message for message in messages)


def test_the_worlds_of_servers_of_their_own_match() -> None:
    for id in ("C10", "C15"):
        (checked,) = gated(id).checked
        assert (checked.case.needed, checked.case.granted) == (16, 16)


def test_what_a_controller_may_do_itself_is_said() -> None:
    assert all(any("KAITO may add nodes" in text for text in one.case.assumed) for one in gated("C78").checked)
