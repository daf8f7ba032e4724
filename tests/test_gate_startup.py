"""What `infopt gate` loads, and that its speed does not hang on anything but the files."""

import json
import time
from pathlib import Path

import pytest
from test_startup_modules import UNUSED_BY_PLAN, run_child

from infopt.gate.check import gate
from infopt.gate.policy import Policy

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: chat}
spec:
  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
  containers:
  - name: server
    image: vllm/vllm-openai:v0.10.0
    args: [--model, meta-llama/Llama-3.1-8B-Instruct, "--max-model-len=LENGTH", --enforce-eager]
    env: [{name: HF_TOKEN, value: hidden}]
    resources: {limits: {nvidia.com/gpu: 1}}
"""
# A shared prefix is left out: the arithmetic of many prefixes (ledgers/prefix_cache.py) is numpy's.
POLICY = """\
workload: {rate: 1/s, input_tokens: 1k, output_tokens: 200, concurrency: 8}
targets: {ttft: 1s, tpot: 80ms, start: 10min, usd_per_million_output_tokens: 9}
"""
FORMS = ("table", "json", "sarif", "junit", "github", "gitlab", "md")


@pytest.mark.parametrize("form", FORMS)
def test_gate_loads_nothing_heavy(tmp_path: Path, form: str) -> None:
    (tmp_path / "pod.yaml").write_text(POD.replace("LENGTH", "8192"))
    (tmp_path / "infopt.yaml").write_text(POLICY)
    finished, modules = run_child(tmp_path, "gate", "pod.yaml", "--format", form, "--allow-undetermined")
    assert finished.stdout
    assert "infopt.gate.policy_file" in modules
    assert modules.isdisjoint(UNUSED_BY_PLAN), modules & set(UNUSED_BY_PLAN)
    if form == "json":
        assert json.loads(finished.stdout)["deployments"][0]["plan"] is not None


def test_a_file_takes_milliseconds(tmp_path: Path) -> None:
    """10 ms a file is the promise (bench/gate.py measures it); here a hundred, by the processor's clock."""
    for number in range(100):
        (tmp_path / f"{number}.yaml").write_text(POD.replace("LENGTH", str(4096 + 16 * number)))
    gate([str(tmp_path / "0.yaml")], Policy())
    started = time.process_time()
    found = gate([str(tmp_path)], Policy())
    assert len(found.checked) == 100
    assert time.process_time() - started < 1.0
