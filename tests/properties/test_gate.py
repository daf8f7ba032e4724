"""What a file asks for, in any of its main forms, gets the plan that its options get, and the verdict of that plan."""

import shlex
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from properties.asking import LEDGERS, ask, assert_same_figures, words
from properties.worlds import catalogue_model, examples, whole

from infopt import gate_text
from infopt.ledgers.scenario import allowed_tensor_parallel

MODELS = (
    *("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-30B-A3B"),
    *("Qwen/Qwen3-32B", "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V2-Lite", "google/gemma-3-27b-it"),
    *("openai/gpt-oss-20b", "ibm-granite/granite-4.0-h-small", "mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-0.6B"),
)
DEVICES = ("l4", "l40s", "a100-40gb", "a100-80gb", "h100", "h200", "b200")
OF_MEMORY = {"does-not-fit", "no-full-request"}
# Flags of a start line by our own options.
VLLM = {
    "model": "--model",
    "ctx": "--max-model-len",
    "tp": "--tensor-parallel-size",
    "pp": "--pipeline-parallel-size",
    "util": "--gpu-memory-utilization",
    "kv": "--kv-cache-dtype",
    "max_num_seqs": "--max-num-seqs",
    "max_num_batched_tokens": "--max-num-batched-tokens",
}
SGLANG = {
    "model": "--model-path",
    "ctx": "--context-length",
    "tp": "--tp-size",
    "pp": "--pp-size",
    "util": "--mem-fraction-static",
    "max_num_seqs": "--max-running-requests",
}
IMAGES = {"vllm": "vllm/vllm-openai:v{version}", "sglang": "lmsysorg/sglang:v{version}"}
FLAGS = {"vllm": VLLM, "sglang": SGLANG}
PROGRAMS = {"vllm": [], "sglang": ["python3", "-m", "sglang.launch_server"]}


def container(image: str, line: list[str], devices: int) -> dict[str, Any]:
    return {"name": "engine", "image": image, "args": line, "resources": {"limits": {"nvidia.com/gpu": devices}}}


def pod(image: str, line: list[str], devices: int) -> str:
    spec = {"containers": [container(image, line, devices)]}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "server"}, "spec": spec})


def deployment(image: str, line: list[str], devices: int) -> str:
    spec = {"replicas": 1, "template": {"spec": {"containers": [container(image, line, devices)]}}}
    return yaml.safe_dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "server"}, "spec": spec})


def compose(image: str, line: list[str], devices: int) -> str:
    reserved = {"devices": [{"driver": "nvidia", "count": devices, "capabilities": ["gpu"]}]}
    service = {"image": image, "ipc": "host", "command": line, "deploy": {"resources": {"reservations": reserved}}}
    return yaml.safe_dump({"services": {"server": service}})


def docker(image: str, line: list[str], devices: int) -> str:
    return f"#!/bin/bash\nset -e\ndocker run --ipc=host --gpus {devices} -p 8000:8000 {image} {shlex.join(line)}\n"


FORMS: dict[str, Callable[[str, list[str], int], str]] = {
    one.__name__: one for one in (pod, deployment, compose, docker)
}


@st.composite
def deployments(draw: Any) -> tuple[str, dict[str, Any]]:
    """A version of an engine, and options that its start line can say."""
    engine, version = draw(
        st.sampled_from(
            (("vllm", "0.8.5"), ("vllm", "0.10.2"), ("vllm", "0.19.1"), ("vllm", "0.21.0"), ("sglang", "0.4.6"))
        )
    )
    model = draw(st.sampled_from(MODELS))
    found: dict[str, Any] = {"model": model, "ctx": 2 ** draw(st.integers(9, 16))}
    found["tp"] = draw(st.sampled_from([tp for tp in allowed_tensor_parallel(catalogue_model(model)) if tp <= 8]))
    found["pp"] = draw(st.sampled_from((1, 1, 2)))
    optional = {
        "util": st.sampled_from((0.5, 0.8, 0.95)),
        "kv": st.just("fp8"),
        "max_num_seqs": whole(1, 512),
        "max_num_batched_tokens": whole(2048, 32768),
    }
    flags = FLAGS[engine]
    for name, values in optional.items():
        if name in flags and draw(st.booleans()):
            found[name] = draw(values)
    return version, found | {"engine": engine}


@pytest.mark.parametrize("form", FORMS)
@examples(0.6)
@given(asked=deployments(), gpu=st.sampled_from(DEVICES))
def test_a_file_gets_the_plan_of_its_options(form: str, asked: tuple[str, dict[str, Any]], gpu: str) -> None:
    version, options = asked
    engine, flags = options["engine"], FLAGS[options["engine"]]
    line = [
        *PROGRAMS[engine],
        *(word for name, flag in flags.items() if name in options for word in (flag, str(options[name]))),
    ]
    text = FORMS[form](IMAGES[engine].format(version=version), line, options["tp"] * options["pp"])
    (one,) = gate_text(text, gpu=gpu).to_dict()["deployments"]
    told = ask("plan", *words(options | {"hw": gpu, "engine_version": version}), "--json").json
    if "error" in told:
        assert one["plan"] is None
        return
    assume(one["plan"] is not None or not one["unknown"])
    assert one["plan"] is not None, one
    assert_same_figures(one["plan"], told, LEDGERS[:3])
    found = gate_text(text, gpu=gpu).to_dict()
    errors = {finding["rule"] for finding in found["findings"] if finding["severity"] == "error"}
    fits = told["memory"]["fits"] if not told["memory"]["unknown"] else None
    assert bool(errors & OF_MEMORY) is (told["memory"]["fits"] is False)
    assert found["verdict"] == ("fail" if errors else "pass" if fits else "undetermined")
