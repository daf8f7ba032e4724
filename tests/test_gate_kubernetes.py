"""Kubernetes objects beyond the plain ones: images of one's own, groups whose leader leads only, claims, templates."""

import json
from pathlib import Path

import pytest

from infopt.errors import InfoptError
from infopt.gate.check import Checked, gate
from infopt.gate.environment import expanded
from infopt.gate.models import model_named
from infopt.gate.policy import Policy

SCRIPT = "          - |\n            {}\n"


def checked(folder: Path, content: str) -> tuple[Checked, ...]:
    file = folder / "deployment.yaml"
    file.write_text(content, encoding="utf-8")
    result = gate([str(file)], Policy())
    assert not result.errors
    return result.checked


def pod(image: str, words: str, resources: str = "{limits: {nvidia.com/gpu: 2}}") -> str:
    container = f"{{name: c, image: '{image}', {words}, resources: {resources}}}"
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{container}]}}\n"


@pytest.mark.parametrize(
    ("image", "words", "engine", "version"),
    [
        ("me/vllm-mine:local", "args: [--model, Qwen/Qwen3-8B]", "vllm", None),
        ("me/vllm-cpu-builds:v0.9.1", "args: ['--model=Qwen/Qwen3-8B']", "vllm", "0.9.1"),
        ("me/vllm-cuda-rhel9:3.2.1", "args: ['--model=Qwen/Qwen3-8B']", "vllm", None),
        ("me/my-sglang:0.5.1-cu12", "args: [--model-path, Qwen/Qwen3-8B]", "sglang", "0.5.1"),
        ("me/vllm-router:1", "args: [--port, '80']", None, None),
        ("me/vllm-mine:1", "args: [tool, --model, Qwen/Qwen3-8B]", None, None),
        ("me/other:1", "args: [--model, Qwen/Qwen3-8B]", None, None),
    ],
)
def test_an_image_called_after_an_engine(
    tmp_path: Path, image: str, words: str, engine: str | None, version: str | None
) -> None:
    found = checked(tmp_path, pod(image, words))
    assert [(one.case.deployment.engine, one.case.deployment.version) for one in found] == (
        [(engine, version)] if engine else []
    )
    assert all(any(image in why for why in one.case.assumed) for one in found)


def test_without_devices_it_is_no_server(tmp_path: Path) -> None:
    assert checked(tmp_path, pod("me/vllm-mine:1", "args: [--model, Qwen/Qwen3-8B]", "{}")) == ()


def test_a_shell_is_no_model(tmp_path: Path) -> None:
    proxy = "command: [/bin/bash, -c], args: ['python3 /opt/proxy.py --port 9000']"
    assert checked(tmp_path, pod("vllm/vllm-openai:v0.9.0", proxy)) == ()


GROUP = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: pair}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 3
    leaderTemplate:
      spec:
        containers:
        - {name: proxy, image: "lmcache/vllm-openai:v1", command: [sh, -c], args: ["python3 proxy.py"]}
    workerTemplate:
      spec:
        containers:
        - name: engine
          image: vllm/vllm-openai:v0.9.0
          args: [--model, Qwen/Qwen3-8B]
          resources: {limits: {nvidia.com/gpu: 1}}
"""


def test_workers_of_a_leader_that_serves_nothing(tmp_path: Path) -> None:
    (one,) = checked(tmp_path, GROUP)
    assert (one.case.deployment.model, one.case.granted) == ("Qwen/Qwen3-8B", 1)
    assert one.case.deployment.found.hardware.replicas == 4
    assert not [finding for finding in one.findings if finding.rule == "gpus-granted"]


def test_sizes_of_a_group_in_arithmetic(tmp_path: Path) -> None:
    script = "vllm serve Qwen/Qwen3-30B-A3B --data-parallel-size $((LWS_GROUP_SIZE * $LOCAL)) -tp $((LOCAL / NOBODY))"
    engine = f'{{name: e, image: "v:1.2", env: [{{name: LOCAL, value: "4"}}], command: [sh, -c], args: ["{script}"]}}'
    group = f"{{leaderWorkerTemplate: {{size: 2, workerTemplate: {{spec: {{containers: [{engine}]}}}}}}}}"
    (one,) = checked(tmp_path, f"apiVersion: x/v1\nkind: LeaderWorkerSet\nmetadata: {{name: g}}\nspec: {group}\n")
    assert one.case.value("dp") == 8
    assert [(finding.rule, "((LOCAL / NOBODY))" in finding.message) for finding in one.findings] == [("flags", True)]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("$((2 + 3 * 4))", "14"),
        ("$(( (A+1)*(A-1) ))", "63"),
        ("$((A / 3))-$((A % 3))", "2-2"),
        ("$((1 / 0))", "$((1 / 0))"),
        ("$((A ** 9))", "$((A ** 9))"),
        ("$((9 * B))", "$((9 * B))"),
        ("$((1 - 2))", "$((1 - 2))"),
        ("$((999999999999 * 9))", "$((999999999999 * 9))"),
        ("$((A > 2 ? 1 : 0))", "$((A > 2 ? 1 : 0))"),
    ],
)
def test_arithmetic_of_whole_numbers(text: str, made: str) -> None:
    assert expanded(text, {"A": "8"}) == made


def test_objects_of_a_template(tmp_path: Path) -> None:
    inner = pod("$(image)", "command: [vllm, serve, Qwen/Qwen3-8B]").replace("\n", "\n  ").strip()
    content = f"apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {{name: t}}\nobjects:\n- {inner}\n"
    (one,) = checked(tmp_path, content)
    assert (one.case.deployment.model, one.case.deployment.found.name) == ("Qwen/Qwen3-8B", "p")


@pytest.mark.parametrize(
    ("tag", "moves"),
    [("20260119-dev", False), ("nightly-0a1b2c3d", False), ("dev", True), ("latest-cu12", True), ("v1", True)],
)
def test_a_build_is_pinned(tmp_path: Path, tag: str, moves: bool) -> None:
    (one,) = checked(tmp_path, pod(f"me/engine:{tag}", "command: [vllm, serve, Qwen/Qwen3-8B]"))
    assert [finding.rule for finding in one.findings if finding.rule == "unpinned-image"] == ["unpinned-image"] * moves


def claims(request: str, kind: str = "ResourceClaimTemplate") -> str:
    inner = f"{{devices: {{requests: [{request}]}}}}"
    spec = f"{{spec: {inner}}}" if kind == "ResourceClaimTemplate" else inner
    return f"---\napiVersion: resource.k8s.io/v1\nkind: {kind}\nmetadata: {{name: two}}\nspec: {spec}\n"


@pytest.mark.parametrize(
    ("request_", "granted"),
    [
        ("{name: g, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}", 2),
        ("{name: g, deviceClassName: gpu.amd.com}", 1),
        ("{name: g, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: All}}", None),
        ("{name: g, exactly: {deviceClassName: nic.example.com}}", None),
    ],
)
@pytest.mark.parametrize("kind", ["ResourceClaimTemplate", "ResourceClaim"])
def test_devices_that_a_pod_claims(tmp_path: Path, request_: str, granted: int | None, kind: str) -> None:
    content = pod("v:1.2", "command: [vllm, serve, Qwen/Qwen3-8B]", "{claims: [{name: mine}]}")
    reference = "resourceClaimTemplateName" if kind == "ResourceClaimTemplate" else "resourceClaimName"
    content = content.replace("spec: {", f"spec: {{resourceClaims: [{{name: mine, {reference}: two}}], ")
    (one,) = checked(tmp_path, content + claims(request_, kind))
    assert one.case.granted == granted


def test_a_claim_names_the_product(tmp_path: Path) -> None:
    cel = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA L40S'"
    request = (
        f'{{name: g, exactly: {{deviceClassName: gpu.nvidia.com, selectors: [{{cel: {{expression: "{cel}"}}}}]}}}}'
    )
    content = pod("v:1.2", "command: [vllm, serve, Qwen/Qwen3-8B]", "{claims: [{name: mine}]}")
    content = content.replace("spec: {", "spec: {resourceClaims: [{name: mine, resourceClaimTemplateName: two}], ")
    (one,) = checked(tmp_path, content + claims(request))
    assert one.case.device is not None
    assert one.case.device.accelerator.id == "l40s"


PIPELINE = """
apiVersion: apps.nvidia.com/v1alpha1
kind: NIMPipeline
metadata: {name: p}
spec:
  services:
  - name: chat
    spec: {image: {repository: nvcr.io/nim/meta/llama-3.1-8b-instruct, tag: "1.8"}, RESOURCES}
  - {name: none, enabled: false, spec: {image: {repository: nvcr.io/nim/a/b, tag: "1.8"}}}
"""


@pytest.mark.parametrize(
    ("resources", "granted"),
    [
        ("resources: {limits: {nvidia.com/gpu: 2}}", 2),
        ("draResources: [{resourceClaimTemplateName: two}]", 3),
    ],
)
def test_a_pipeline_of_nims(tmp_path: Path, resources: str, granted: int) -> None:
    content = PIPELINE.replace("RESOURCES", resources) + claims("{deviceClassName: gpu.nvidia.com, count: 3}")
    (one,) = checked(tmp_path, content)
    assert (one.case.deployment.found.name, one.case.deployment.version) == ("chat", "1.8")
    assert one.case.granted == granted


@pytest.mark.parametrize(
    ("label", "device"),
    [
        ("gpuspecs: A100_40GB", "a100-sxm-40gb"),
        ("example.com/gpu.class: l40s", "l40s"),
        ("gpu: 'true'", None),
        ("pool: t4", None),
        ("nvidia.com/gpu.product: NVIDIA-H200, gpu-name: l4", "h200-sxm-141gb"),
    ],
)
def test_labels_of_ones_own(tmp_path: Path, label: str, device: str | None) -> None:
    content = pod("v:1.2", "command: [vllm, serve, Qwen/Qwen3-8B]").replace(
        "spec: {", f"spec: {{nodeSelector: {{{label}}}, "
    )
    (one,) = checked(tmp_path, content)
    assert (one.case.device and one.case.device.accelerator.id) == device


MOUNTED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data:
  go.sh: |
    : "${SIZE:=2}"
    if [[ "$DRAFT" == "true" ]]; then
      vllm serve Qwen/Qwen3-8B --max-num-seqs 1
    elif [ "$SIZE" -ge 4 ]; then
      vllm serve Qwen/Qwen3-14B --max-num-seqs 2
    else
      vllm serve Qwen/Qwen3-32B --tensor-parallel-size "${SIZE}"
    fi
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  volumes: [{name: v, configMap: {name: scripts}}]
  containers:
  - name: c
    image: v:1.2
    COMMAND
    env: [{name: DRAFT, value: "DRAFTED"}]
    volumeMounts: [{name: v, mountPath: /opt/scripts}]
    resources: {limits: {nvidia.com/gpu: 2}}
"""


@pytest.mark.parametrize(
    "command",
    [
        "command: [/opt/scripts/go.sh]",
        "command: [bash, /opt/scripts/go.sh]",
        "command: [/bin/sh, -c]\n    args: ['exec /opt/scripts/go.sh']",
        'command: [bash, -lc, "set -e\\nexec /opt/scripts/go.sh\\n"]',
    ],
)
@pytest.mark.parametrize(("drafted", "model"), [("false", "Qwen/Qwen3-32B"), ("true", "Qwen/Qwen3-8B")])
def test_a_script_of_a_config_map(tmp_path: Path, command: str, drafted: str, model: str) -> None:
    content = MOUNTED.replace("COMMAND", command).replace("DRAFTED", drafted)
    (one,) = checked(tmp_path, content)
    assert one.case.deployment.model == model
    assert one.case.value("tp", 1) == (2 if model == "Qwen/Qwen3-32B" else 1)
    said = one.case.deployment.said_at("tp")
    assert said is None or content.splitlines()[said.line - 1].strip().startswith("vllm serve Qwen/Qwen3-32B")


def test_conditions_that_nobody_knows_leave_both_branches(tmp_path: Path) -> None:
    script = "if [ -f /x ]; then vllm serve Qwen/Qwen3-8B; else vllm serve Qwen/Qwen3-14B; fi"
    (one,) = checked(tmp_path, pod("v:1.2", f"command: [sh, -c], args: ['{script}']"))
    assert one.case.deployment.model == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("condition", "model"),
    [
        ("[ a = b ]", "Qwen/Qwen3-14B"),
        ("[ a = a ]", "Qwen/Qwen3-8B"),
        ("[ a = a ] && [ -f /x ]", "Qwen/Qwen3-8B"),
        ("[ a = b ] || [ -f /x ]", "Qwen/Qwen3-8B"),
        ("! [ a = b ]", "Qwen/Qwen3-8B"),
        ("[[ $X == b ]]", "Qwen/Qwen3-8B"),
        ("[[ ab != a* ]]", "Qwen/Qwen3-8B"),
        ("[ 3 -lt 2 ]", "Qwen/Qwen3-14B"),
        ("false", "Qwen/Qwen3-14B"),
        (
            "true; then if [ 1 -eq 2 ]; then ollama serve; elif [ -z a ]; then ollama serve; fi; if true",
            "Qwen/Qwen3-8B",
        ),
    ],
)
def test_conditions(tmp_path: Path, condition: str, model: str) -> None:
    script = f"if {condition}; then vllm serve Qwen/Qwen3-8B; else vllm serve Qwen/Qwen3-14B; fi"
    (one,) = checked(tmp_path, pod("v:1.2", f"command: [sh, -c], args: ['{script}']"))
    assert one.case.deployment.model == model


def test_cores_are_parts_of_chips(tmp_path: Path) -> None:
    content = pod("v:1.2", "command: [vllm, serve, Qwen/Qwen3-8B]", "{limits: {aws.amazon.com/neuroncore: 4}}")
    content = content.replace("spec: {", "spec: {nodeSelector: {node.kubernetes.io/instance-type: trn1.32xlarge}, ")
    (one,) = checked(tmp_path, content)
    assert (one.case.device, one.case.granted) == (None, 4)


@pytest.mark.parametrize(("resource", "rules"), [("nvidia.com/gpu", ["shm-size"]), ("google.com/tpu", [])])
def test_chips_that_share_no_memory_of_the_host(tmp_path: Path, resource: str, rules: list[str]) -> None:
    words = "command: [vllm, serve, Qwen/Qwen3-8B, --tensor-parallel-size, '4']"
    (one,) = checked(tmp_path, pod("v:1.2", words, f"{{limits: {{{resource}: 4}}}}"))
    assert [finding.rule for finding in one.findings if finding.rule == "shm-size"] == rules


SERVING = """
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: ModelServing
metadata: {name: chat}
spec:
  replicas: 2
  template:
    roles:
    - name: decode
      replicas: 3
      workerReplicas: 1
      entryTemplate:
        spec:
          containers:
          - name: e
            image: vllm/vllm-openai:v0.10.0
            args: [--model, Qwen/Qwen3-32B, -tp, "4", -pp, "2"]
            resources: {limits: {nvidia.com/gpu: 4}}
      workerTemplate: {spec: {containers: [{name: w, image: i, command: [ray, start]}]}}
    - {name: router, entryTemplate: {spec: {containers: [{name: r, image: router:1}]}}}
"""


def test_roles_of_kthena(tmp_path: Path) -> None:
    (one,) = checked(tmp_path, SERVING)
    hardware = one.case.deployment.found.hardware
    assert (one.case.deployment.found.name, one.case.deployment.found.role) == ("chat-decode", "decode")
    assert (one.case.granted, one.case.needed, hardware.replicas) == (8, 8, 6)


SPECULATING = """
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: s}
spec:
  model: {uri: "hf://Qwen/Qwen3-32B", name: q}
  speculator: SAID
  template: {containers: [{name: main, image: "vllm/vllm-openai:v0.11.0", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


@pytest.mark.parametrize(
    ("said", "draft"),
    [
        (
            '{model: {uri: "hf://a/draft"}, config: {method: eagle3, num_speculative_tokens: "3"}}',
            {"model": "a/draft", "method": "eagle3", "num_speculative_tokens": 3},
        ),
        ("{config: {method: ngram, num_speculative_tokens: 4}}", {"method": "ngram", "num_speculative_tokens": 4}),
    ],
)
def test_a_speculator_is_an_option(tmp_path: Path, said: str, draft: dict[str, object]) -> None:
    (one,) = checked(tmp_path, SPECULATING.replace("SAID", said))
    (option,) = [word.text for word in one.case.deployment.found.added if word.text.startswith("--speculative-config")]
    assert json.loads(option.partition("=")[2]) == draft
    assert not [finding for finding in one.findings if finding.rule == "flags"]


@pytest.mark.parametrize(
    ("address", "model"),
    [
        ("oci://registry.example/ai/modelcar-llama-3-1-8b-instruct:1.5", "meta-llama/Llama-3.1-8B"),
        ("oci://registry.example/ai/modelcar-catalog:qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("oci://registry.example/ai/modelcar-granite-3-1-8b-instruct-quantized-w4a16:1", "ibm-granite/granite-3.1-8b"),
        ("oci://registry.example/ai/other-llama-3-1-8b-instruct:1.5", None),
        ("oci://registry.example/ai/modelcar-nothing-of-the-kind:2", None),
    ],
)
def test_images_that_hold_a_model(address: str, model: str | None) -> None:
    if model is None:
        with pytest.raises(InfoptError, match="is a path"):
            model_named(address)
    else:
        assert model_named(address).model.id.startswith(model)


def test_a_cpu_image_needs_no_devices(tmp_path: Path) -> None:
    (one,) = checked(tmp_path, pod("me/vllm-cpu-mine:1.2", "args: [--model, Qwen/Qwen3-8B]", "{}"))
    assert one.case.deployment.engine == "vllm"
