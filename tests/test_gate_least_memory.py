"""Where a file does not say on what it runs, the gate says how much memory each device must have."""

from pathlib import Path

import pytest

from infopt.gate.check import Checked, gate
from infopt.gate.policy import Policy
from infopt.gate.reading import Overrides
from infopt.reports.gate_json import as_dict
from infopt.reports.gate_terminal import page

GIB = 2**30
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: server}}
spec:
  containers:
    - name: engine
      image: vllm/vllm-openai:v0.19.1
      args: [--model, {model}, --max-model-len, "{context}", --tensor-parallel-size, "{tp}"]
      resources: {{limits: {{nvidia.com/gpu: "{tp}"}}}}
"""
LLAMA_CPP = """\
apiVersion: v1
kind: Pod
metadata: {name: server}
spec:
  containers:
    - name: engine
      image: ghcr.io/ggml-org/llama.cpp:server-cuda-b8500
      args: [-hf, bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M, -c, "8192"]
      resources: {limits: {nvidia.com/gpu: "1"}}
"""


def checked(folder: Path, text: str, gpu: str | None = None) -> Checked:
    file = folder / "file.yaml"
    file.write_text(text, encoding="utf-8")
    (one,) = gate([str(file)], Policy(), Overrides(gpu=gpu)).checked
    return one


@pytest.mark.parametrize(
    ("model", "context", "tp"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 8192, 1),
        ("meta-llama/Llama-3.3-70B-Instruct", 32768, 4),
        ("deepseek-ai/DeepSeek-V3", 16384, 8),
        ("Qwen/Qwen3-30B-A3B", 262144 // 8, 1),
    ],
)
def test_the_number_is_where_it_begins_to_fit(tmp_path: Path, model: str, context: int, tp: int) -> None:
    """A device with so much memory holds one request, one with half a GiB less does not."""
    text = POD.format(model=model, context=context, tp=tp)
    needs = checked(tmp_path, text).case.needs_bytes_per_gpu
    assert needs is not None
    for memory, holds in ((needs, True), (needs - GIB // 2, False)):
        plan = checked(tmp_path, text, gpu=f"custom:{memory / GIB:.6f}GiB:3.35TB/s").case.plan
        assert plan is not None
        assert (plan.memory.max_sequences >= 1) is holds


def test_the_sum_by_hand(tmp_path: Path) -> None:
    """8.03B weights of two bytes and a request of 8,192 tokens at 128 KiB, over the share of 0.9."""
    one = checked(tmp_path, POD.format(model="meta-llama/Llama-3.1-8B-Instruct", context=8192, tp=1))
    assert one.case.needs_bytes_per_gpu is not None
    weights_and_cache = 8_030_261_248 * 2 + 8192 * 2 * 32 * 8 * 128 * 2
    assert weights_and_cache / 0.9 < one.case.needs_bytes_per_gpu < (weights_and_cache + 3 * GIB) / 0.9


def test_longer_requests_and_fewer_ranks_need_more(tmp_path: Path) -> None:
    def needs(context: int, tp: int) -> int:
        one = checked(tmp_path, POD.format(model="meta-llama/Llama-3.3-70B-Instruct", context=context, tp=tp))
        return one.case.needs_bytes_per_gpu or 0

    assert 0 < needs(8192, 4) < needs(65536, 4) < needs(65536, 2) < needs(65536, 1)


def test_it_is_told_with_the_missing_fact(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD.format(model="meta-llama/Llama-3.1-8B-Instruct", context=8192, tp=1), encoding="utf-8")
    found = gate([str(file)], Policy())
    assert "needs at least" in " ".join(page(found).split())
    (deployment,) = as_dict(found)["deployments"]
    (unknown,) = deployment["unknown"]
    assert unknown["fact"] == "GPU type"
    told = f"needs at least {deployment['needs_bytes_per_gpu'] / GIB:.2f} GiB of memory on each device"
    assert unknown["settle"].endswith(told)


@pytest.mark.parametrize(
    "text",
    [
        POD.format(model="acme/private-model", context=8192, tp=1),  # nobody knows its size
        LLAMA_CPP,  # leaves in host memory what does not fit
        POD.format(model="meta-llama/Llama-3.1-8B-Instruct", context=8192, tp=7),  # no engine runs it
    ],
)
def test_no_number_where_none_can_be_told(tmp_path: Path, text: str) -> None:
    one = checked(tmp_path, text)
    assert one.case.device is None
    assert one.case.needs_bytes_per_gpu is None


def test_no_number_where_the_device_is_known(tmp_path: Path) -> None:
    text = POD.format(model="meta-llama/Llama-3.1-8B-Instruct", context=8192, tp=1)
    assert checked(tmp_path, text, gpu="l4").case.needs_bytes_per_gpu is None


def test_more_than_any_device_has(tmp_path: Path) -> None:
    def findings(words: str) -> list[str]:
        command = f"docker run --gpus all vllm/vllm-openai:v0.19.1 --max-model-len 8192 {words}"
        (one,) = gate(["-"], Policy(), None, command).checked
        return [finding.message for finding in one.findings if finding.rule == "does-not-fit"]

    (message,) = findings("--model deepseek-ai/DeepSeek-V3")
    assert "the largest known has 432.00 GiB" in message
    assert not findings("--model deepseek-ai/DeepSeek-V3 --tensor-parallel-size 8")
    assert not findings("--model meta-llama/Llama-3.3-70B-Instruct")
    assert not findings("--model deepseek-ai/DeepSeek-V3 --tensor-parallel-size $RANKS")
    assert not findings('--model deepseek-ai/DeepSeek-V3 "$@"')
    assert not findings("--model deepseek-ai/DeepSeek-V3 $MORE")
