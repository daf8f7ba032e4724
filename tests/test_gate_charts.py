"""Values files of charts, KubeAI and NIM: what is read where, and that values and what they render to agree."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from infopt.gate.check import gate
from infopt.gate.deployment import Deployment
from infopt.gate.policy import Policy
from infopt.gate.reading import Overrides, Read, read_file

GIB = 2**30


def read(content: str) -> Read:
    return read_file("-", dedent(content))


def deployments(content: str) -> tuple[Deployment, ...]:
    found = read(content)
    assert found.error == ""
    return found.deployments


def only(content: str) -> Deployment:
    (one,) = deployments(content)
    return one


def settings(one: Deployment) -> dict[str, Any]:
    return {name: setting.value for name, setting in one.settings.items() if name != "served_name"}


STACK = """\
    servingEngineSpec:
      modelSpec:
      - name: small
        repository: vllm/vllm-openai
        tag: v0.9.1
        modelURL: Qwen/Qwen2.5-7B-Instruct
        replicaCount: 3
        requestGPU: 2
        limitMemory: 48Gi
        shmSize: 8Gi
        nodeSelectorTerms:
        - matchExpressions:
          - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-L4]}
        vllmConfig:
          tensorParallelSize: 2
          maxModelLen: 12000
          enablePrefixCaching: true
          enableChunkedPrefill: false
          extraArgs: ["--max-num-seqs", "64"]
    """


def test_production_stack_keys_are_options() -> None:
    one = only(STACK)
    assert (one.engine, one.version, one.model) == ("vllm", "0.9.1", "Qwen/Qwen2.5-7B-Instruct")
    assert settings(one) == {
        "tp": 2, "context_tokens": 12000, "prefix_caching": True, "chunked_prefill": False, "max_num_seqs": 64
    }  # fmt: skip
    hardware, host = one.found.hardware, one.found.host
    assert (hardware.count, hardware.replicas, hardware.named) == (2, 3, (("nvidia.com/gpu.product", "NVIDIA-L4"),))
    assert (host.memory_bytes, host.shm_bytes) == (48 * GIB, 8 * GIB)
    assert not one.problems


def test_production_stack_findings_stand_at_the_key() -> None:
    one = only(STACK)
    said = one.said_at("tp")
    assert said is not None
    assert (said.line, said.path) == (15, "servingEngineSpec.modelSpec[0].vllmConfig.tensorParallelSize")
    extra = one.said_at("max_num_seqs")
    assert extra is not None
    assert (extra.line, extra.path) == (19, "servingEngineSpec.modelSpec[0].vllmConfig.extraArgs[1]")


def test_production_stack_says_off_where_prefix_caching_is_absent() -> None:
    assert settings(only(STACK.replace("          enablePrefixCaching: true\n", "")))["prefix_caching"] is False


def test_production_stack_extra_arguments_win_over_keys() -> None:
    assert (
        settings(only(STACK.replace('"--max-num-seqs", "64"', '"--max-model-len", "5000"')))["context_tokens"] == 5000
    )


def test_production_stack_slices_are_their_own_kind() -> None:
    one = only(STACK.replace("requestGPU: 2", "requestGPU: 2\n        requestGPUType: nvidia.com/mig-3g.40gb"))
    assert one.found.hardware.resource == "nvidia.com/mig-3g.40gb"
    assert one.found.hardware.named[0][1] == "nvidia.com/mig-3g.40gb"


RAY = """\
    servingEngineSpec:
      modelSpec:
      - name: staged
        repository: vllm/vllm-openai
        tag: v0.9.1
        modelURL: Qwen/Qwen2.5-7B-Instruct
        replicaCount: {workers}
        requestGPU: 2
        vllmConfig: {{tensorParallelSize: 2, pipelineParallelSize: 3}}
        raySpec: {{enabled: true, headNode: {{requestGPU: {head}}}}}
    """


@pytest.mark.parametrize(("workers", "head", "pods", "count"), [(2, 2, 3, 2), (3, 0, 3, 2), (2, 1, 1, 5)])
def test_production_stack_ray_head_and_workers_are_one_group(workers: int, head: int, pods: int, count: int) -> None:
    one = only(RAY.format(workers=workers, head=head))
    assert (one.found.hardware.pods, one.found.hardware.count, one.found.hardware.replicas) == (pods, count, 1)
    assert settings(one)["pp"] == 3


def test_production_stack_pipeline_needs_ray() -> None:
    assert "pp" not in settings(only(RAY.format(workers=2, head=2).replace("enabled: true", "enabled: false")))


def test_production_stack_cache_roles_and_visible_devices() -> None:
    one = only(
        """\
        servingEngineSpec:
          modelSpec:
          - name: p
            repository: lmcache/vllm-openai
            tag: a-date
            modelURL: Qwen/Qwen2.5-7B-Instruct
            vllmConfig: {v0: "1"}
            lmcacheConfig:
              {enabled: true, kvRole: kv_producer, enablePD: true, cudaVisibleDevices: "2,3",
               cpuOffloadingBufferSize: "40"}
        """
    )
    assert (one.found.role, one.found.hardware.count, one.found.host.shares_ipc) == ("prefill", 2, True)
    assert settings(one)["kv_transfer"] == {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_producer"}
    assert one.found.environment["LMCACHE_MAX_LOCAL_CPU_SIZE"] == "40"
    assert one.found.environment["VLLM_USE_V1"] == "0"


def test_secrets_of_a_chart_are_no_part_of_what_is_read() -> None:
    one = only(STACK + "    hf_token: hf_NOTFORYOU\n")
    assert "NOTFORYOU" not in repr(one)


MODELSERVICE = """\
    modelArtifacts:
      name: Qwen/Qwen3-32B
      uri: "hf://{{ .Values.modelArtifacts.name }}"
    accelerator: {type: nvidia}
    decode:
      replicas: 2
      parallelism: {tensor: 2, data: 4, dataLocal: 2}
      acceleratorTypes: {labelKey: gpu.nvidia.com/model, labelValues: [H200]}
      containers:
      - name: vllm
        image: ghcr.io/llm-d/llm-d-cuda:v0.4.0
        modelCommand: vllmServe
        command: [sleep]
        args: ["--max-model-len", "{{ .Values.tokens }}"]
    prefill:
      create: false
      containers: [{name: vllm, image: "ghcr.io/llm-d/llm-d-cuda:v0.4.0", modelCommand: vllmServe}]
    tokens: 16000
    """
RENDERED = """\
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: q-decode}
    spec:
      replicas: 2
      template:
        metadata: {labels: {llm-d.ai/role: decode}}
        spec:
          nodeSelector: {gpu.nvidia.com/model: H200}
          containers:
          - name: vllm
            image: ghcr.io/llm-d/llm-d-cuda:v0.4.0
            command: ["vllm", "serve"]
            args: [Qwen/Qwen3-32B, --tensor-parallel-size, "2", --data-parallel-size, "4", --max-model-len, "16000"]
            resources: {limits: {nvidia.com/gpu: "4"}}
    """


def test_modelservice_values_and_what_they_render_to_agree() -> None:
    before, after = only(MODELSERVICE), only(RENDERED)
    for one in (before, after):
        assert (one.engine, one.version, one.model, one.found.role) == ("vllm", None, "Qwen/Qwen3-32B", "decode")
        assert {name: settings(one)[name] for name in ("tp", "dp", "context_tokens")} == {
            "tp": 2, "dp": 4, "context_tokens": 16000
        }  # fmt: skip
        assert (one.found.hardware.count, one.found.hardware.replicas) == (4, 2)
        assert one.found.hardware.named[0] == ("gpu.nvidia.com/model", "H200")


def test_modelservice_multinode_workers_are_pods_of_a_group() -> None:
    one = only("    multinode: true\n" + MODELSERVICE)
    assert (one.found.hardware.count, one.found.hardware.pods) == (4, 2)


def test_modelservice_limits_win_over_parallelism() -> None:
    one = only(MODELSERVICE.replace("command: [sleep]", "resources: {limits: {nvidia.com/gpu: 8}}"))
    assert one.found.hardware.count == 8


def test_modelservice_place_is_known_by_the_served_name() -> None:
    one = only(MODELSERVICE.replace('"hf://{{ .Values.modelArtifacts.name }}"', "pvc://claim/models/q"))
    assert one.model == "Qwen/Qwen3-32B"
    assert one.found.assumed == ("pvc://claim/models/q holds Qwen/Qwen3-32B, by the name it is served as",)


def test_modelservice_custom_command_is_read_with_the_chart_s_variables() -> None:
    custom = 'command: [/bin/sh, -c]\n        args: ["vllm serve org/m --tensor-parallel-size $TP_SIZE"]'
    content = MODELSERVICE.replace("modelCommand: vllmServe\n        command: [sleep]", custom, 1)
    one = only(content.replace('        args: ["--max-model-len", "{{ .Values.tokens }}"]\n', ""))
    assert (one.model, settings(one)["tp"]) == ("org/m", 2)


def test_templates_that_values_do_not_hold_stay_unknown() -> None:
    content = MODELSERVICE.replace(".Values.modelArtifacts.name", ".Values.global.model")
    one = only(content.replace("name: Qwen/Qwen3-32B", 'name: "{{ .Values.global.model }}"'))
    assert "{{ .Values.global.model }}" in str(one.model)
    from infopt.gate.case import case_of

    assert "model" in [item.fact for item in case_of(one, Policy()).unknown]


def test_values_under_a_subchart_s_name() -> None:
    nested = (
        "    llm-d-modelservice:\n" + "".join(f"  {line}\n" for line in MODELSERVICE.splitlines()) + "    router: {}\n"
    )
    one = only(nested)
    assert (one.found.name, one.model) == ("llm-d-modelservice-decode", "Qwen/Qwen3-32B")


SCENARIO = """\
    scenario:
    - name: one
      common:
        model: {name: Qwen/Qwen3-32B, path: models/Qwen/Qwen3-32B, huggingfaceId: Qwen/Qwen3-32B, maxModelLen: 9000}
        affinity: {enabled: true, nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
      images: {vllm: {repository: vllm/vllm-openai, tag: v0.11.0}}
      modelservice:
        decode:
          replicas: 2
          parallelism: {tensor: 2}
          extraEnvVars: [{name: POOL, value: "1024"}]
          vllm:
            customCommand: |
              . /somewhere/env.sh
              vllm serve /cache/$MODEL_PATH --max-model-len $VLLM_MAX_MODEL_LEN \\
                --tensor-parallel-size $TP_SIZE ${accelerator.more} \\
                --kv-transfer-config '{"kv_connector": "C", "kv_role": "kv_both", "pool": $(POOL)}'
        prefill: {enabled: false}
    """


def test_scenario_command_with_its_variables() -> None:
    one = only(SCENARIO)
    assert (one.version, one.model, one.found.name) == ("0.11.0", "Qwen/Qwen3-32B", "one-decode")
    assert settings(one) | {"model": 0} == {
        "model": 0, "context_tokens": 9000, "tp": 2,
        "kv_transfer": {"kv_connector": "C", "kv_role": "kv_both", "pool": 1024},
    }  # fmt: skip
    assert one.found.hardware.named == (("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),)
    assert (one.found.hardware.count, one.found.hardware.replicas) == (2, 2)
    said = one.said_at("tp")
    assert said is not None
    assert said.line == 16


def test_scenario_without_a_command_has_the_benchmark_s() -> None:
    head, _, tail = SCENARIO.partition("          vllm:\n")
    flags = "          vllm: {additionalFlags: ['--max-num-seqs 32']}\n"
    one = only(head + flags + "        prefill" + tail.partition("        prefill")[2])
    assert settings(one) == {"context_tokens": 9000, "tp": 2, "max_num_seqs": 32}
    assert one.model == "Qwen/Qwen3-32B"


def test_scenario_deployed_by_kustomize_says_nothing_here() -> None:
    assert deployments(SCENARIO.replace("images:", "kustomize: {enabled: true}\n      images:")) == ()


def kubeai(profile: str, engine: str = "VLLM", url: str = "hf://Qwen/Qwen2.5-7B-Instruct") -> Deployment:
    return only(
        f"""\
        apiVersion: kubeai.org/v1
        kind: Model
        metadata: {{name: m}}
        spec:
          url: {url}
          engine: {engine}
          resourceProfile: {profile}
          args: [--max-model-len=4096]
          env: {{A: b}}
        """
    )


@pytest.mark.parametrize(
    ("profile", "device", "count"),
    [
        ("nvidia-gpu-h100:2", "h100-80gb", 2),
        ("nvidia-gpu-l4", "l4", 1),
        ("amd-gpu-mi300x:8", "mi300x", 8),
        ("nvidia-gpu-b200:4", "nvidia-gpu-b200", 4),
    ],
)
def test_kubeai_profile_is_a_kind_and_a_number(profile: str, device: str, count: int) -> None:
    one = kubeai(profile)
    assert (one.found.hardware.count, one.found.hardware.named[0][1]) == (count, device)
    assert (one.engine, one.model, settings(one)) == ("vllm", "Qwen/Qwen2.5-7B-Instruct", {"context_tokens": 4096})


def test_kubeai_profiles_without_an_accelerator_are_not_planned() -> None:
    from infopt.gate.case import case_of

    case = case_of(kubeai("cpu:4"), Policy(hardware="h100"))
    assert [item.settle for item in case.unknown if item.fact == "GPU type"] == [
        "resourceProfile cpu:4 has no accelerator: CPUs are not planned"
    ]
    assert case.plan is None


def test_kubeai_ollama_names_keep_their_default_quantization() -> None:
    assert kubeai("nvidia-gpu-l4:1", "OLlama", "ollama://gemma2:2b").model == "ollama:gemma2:2b"


def test_kubeai_catalogue_with_profiles_of_its_own() -> None:
    found = deployments(
        """\
        catalog:
          a: {enabled: false, url: "hf://org/a", engine: VLLM, resourceProfile: "big:2"}
          b: {enabled: true, url: "hf://org/b", engine: FasterWhisper, resourceProfile: "big:1"}
        resourceProfiles:
          big:
            imageName: gpu
            limits: {nvidia.com/gpu: 4}
            nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}
        modelServers: {VLLM: {images: {default: "vllm/vllm-openai:v0.8.0", gpu: "vllm/vllm-openai:v0.9.0"}}}
        """
    )
    (one,) = found
    assert (one.found.name, one.version, one.found.hardware.count) == ("a", "0.9.0", 8)
    assert one.found.hardware.named[0] == ("nvidia.com/gpu.product", "NVIDIA-H200")


NIM = """\
    apiVersion: apps.nvidia.com/v1alpha1
    kind: NIMService
    metadata: {name: n}
    spec:
      image: {repository: nvcr.io/nim/meta/llama-3.1-8b-instruct, tag: 1.8.4}
      replicas: 2
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
      resources: {limits: {nvidia.com/gpu: 2}}
      env: [{name: NIM_MAX_MODEL_LEN, value: "8192"}]
    """


def test_nim_service_has_its_model_in_the_image() -> None:
    one = only(NIM)
    assert (one.engine, one.version, one.model) == ("nim", "1.8.4", "meta/llama-3.1-8b-instruct")
    assert settings(one) == {"context_tokens": 8192, "tp": 2}
    assert "may use fewer" in one.found.assumed[0]
    assert (one.found.hardware.replicas, one.found.hardware.named[0][1]) == (2, "NVIDIA-L40S")


def test_nim_profile_s_name_says_the_placement() -> None:
    one = only(
        NIM.replace('value: "8192"}', 'value: "8192"}, {name: NIM_MODEL_PROFILE, value: vllm-bf16-tp1-pp2-lora}')
    )
    assert (settings(one)["tp"], settings(one)["pp"], one.found.assumed) == (1, 2, ())


def test_nim_values_of_the_chart_and_of_a_parent_chart() -> None:
    values = """\
        image: {repository: registry.example/mirror/nim/meta/llama3-8b-instruct, tag: 1.0.3}
        model: {ngcAPISecret: x, name: meta/llama3-8b-instruct}
        resources: {limits: {nvidia.com/gpu: 1}}
        """
    one = only(values)
    assert (one.engine, one.model, one.version) == ("nim", "meta/llama3-8b-instruct", None)
    nested = only("llm:\n" + "".join(f"  {line.strip()}\n" for line in values.splitlines()) + "other: {}\n")
    assert nested.model == "meta/llama3-8b-instruct"


def test_nim_values_with_placeholders_are_unknown() -> None:
    from infopt.gate.case import case_of

    one = only(
        """\
        image: {repository: "${image}", tag: latest}
        model: {ngcAPIKey: "${key}", name: "${name}"}
        resources: {limits: {nvidia.com/gpu: "${count}"}}
        """
    )
    assert one.found.hardware.count is None
    assert {"model", "GPU type"} <= {item.fact for item in case_of(one, Policy()).unknown}


def test_chart_with_a_whole_command_and_placeholders() -> None:
    one = only(
        """\
        image: {repository: vllm/vllm-openai, tag: v0.10.0, command: [vllm, serve, /data/, --dtype, half]}
        resources: {limits: {nvidia.com/gpu: 1, memory: 16Gi}}
        gpuModels: [KIND_OF_GPU]
        replicaCount: 2
        """
    )
    assert (one.version, one.model, settings(one)["dtype"]) == ("0.10.0", "/data/", "half")
    from infopt.gate.case import case_of

    assert {"model", "GPU type"} <= {item.fact for item in case_of(one, Policy()).unknown}


def test_chart_with_arguments_beside_an_engine_s_image() -> None:
    one = only(
        """\
        image: {repository: vllm/vllm-openai, tag: v0.10.0}
        args: [--model, org/m, --tensor-parallel-size=2]
        resources: {limits: {nvidia.com/gpu: 2}}
        """
    )
    assert (one.model, settings(one)["tp"], one.found.hardware.count) == ("org/m", 2, 2)


def test_other_values_and_objects_are_nobody_s_deployment() -> None:
    assert deployments("image: {repository: nginx, tag: '1'}\nargs: [a]\nresources: {}\n") == ()
    assert deployments("catalog: {a: {url: x}}\n") == ()
    assert deployments("scenario: [text]\nmodelArtifacts: text\n") == ()


def test_rendered_objects_on_standard_input() -> None:
    rendered = dedent(
        """\
        ---
        # Source: chart/templates/service.yaml
        apiVersion: v1
        kind: Service
        metadata: {name: s}
        ---
        # Source: chart/templates/statefulset.yaml
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: nim}
        spec:
          template:
            spec:
              nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}
              containers:
              - name: nim-llm
                image: nvcr.io/nim/meta/llama-3.1-8b-instruct:1.3.3
                env: [{name: NIM_MAX_MODEL_LEN, value: "8192"}]
                resources: {limits: {nvidia.com/gpu: 1, memory: 64Gi}}
        """
    )
    found = gate(["-"], Policy(), Overrides(), rendered)
    (one,) = found.checked
    assert (one.case.deployment.engine, one.case.deployment.model) == ("nim", "meta/llama-3.1-8b-instruct")
    assert one.verdict == "pass"


def test_objects_of_a_list_are_read_one_by_one() -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + dedent(RENDERED).replace("\n", "\n  ")
    assert only(listed).model == "Qwen/Qwen3-32B"


TEMPLATE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: "x"}
spec:
  replicas: 1
  template:
    spec:
      containers:
      - {name: v, image: "vllm/vllm-openai:v0.9.0", args: ["--model={{ .Values.model }}"]}
"""


def test_templates_are_refused_and_the_other_documents_read() -> None:
    found = read(TEMPLATE + "---\n" + dedent(RENDERED))
    assert found.error == "-:9:69: is a template: render it first: helm template . | infopt gate -"
    assert [one.model for one in found.deployments] == ["Qwen/Qwen3-32B"]


@pytest.mark.parametrize(
    "body",
    [
        "spec:\n  replicas: {{ .Values.replicas }}\n",
        "{{- if .Values.on }}\nkind: Deployment\n{{- end }}\n",
        "a:\n{{ toYaml .Values.a | indent 2 }}\n",
    ],
)
def test_what_is_no_yaml_because_it_is_a_template_is_called_one(body: str) -> None:
    found = read(body)
    assert found.error.endswith("is a template: render it first: helm template . | infopt gate -")
    assert found.error.startswith(f"-:{1 + body[: body.index('{{')].count(chr(10))}:")


def test_texts_that_are_no_yaml_for_another_reason_say_it() -> None:
    found = read('a: "{{ .Values.x }}"\nb: c: d\n')
    assert found.error == "-:2:5: not readable as YAML: mapping values are not allowed in this context"


def test_braces_that_are_no_template_are_read(tmp_path: Path) -> None:
    chat = "{% for m in messages %}{{ m.content }}{% endfor %}"
    one = only(dedent(RENDERED).replace('"16000"]', f'"16000", --chat-template, "{chat}"]'))
    assert one.model == "Qwen/Qwen3-32B"
    injected = 'metadata: {labels: {a: b}, annotations: {vault/t: "{{- with .Data }}{{ .Values.k }}{{- end }}"}}\n'
    assert only(dedent(RENDERED).replace("metadata: {labels: {llm-d.ai/role: decode}}\n", injected)).engine == "vllm"
    alerts = 'apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nspec: {a: "{{ $labels.x }} {{ if 1 }}"}\n'
    assert read(alerts).error == ""
    maps = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: "{{ .Values.x }}"}\n'
    assert read(maps).error == ""


def test_decisive_settings_that_a_template_would_say_are_unknown() -> None:
    limit = "    multinode: true\n" + MODELSERVICE.replace("{{ .Values.tokens }}", "{{ .Values.global.tokens }}")
    found = gate(["-"], Policy(hardware="h200"), Overrides(), dedent(limit))
    (one,) = found.checked
    assert one.verdict == "undetermined"
    assert [u.fact for u in one.case.unknown] == ["length limit", "engine version"]
    assert "{{ .Values.global.tokens }}" in one.case.unknown[0].settle
    degree = dedent(RENDERED).replace('--tensor-parallel-size, "2"', '--tensor-parallel-size, "$(TP)"')
    (one,) = gate(["-"], Policy(hardware="h200"), Overrides(), degree).checked
    assert one.verdict == "undetermined"
    assert "tensor parallel" in [u.fact for u in one.case.unknown]
    assert not any(finding.rule == "gpus-granted" for finding in one.findings)


def test_values_in_settings_that_take_json_may_be_templates() -> None:
    config = """["--kv-transfer-config", '{"kv_role": "kv_both", "n": {{ .Values.global.n }}}']"""
    one = only(MODELSERVICE.replace('["--max-model-len", "{{ .Values.tokens }}"]', config))
    assert [problem.kind for problem in one.problems] == ["unresolved"]


def test_what_the_same_values_multiply_stays_small() -> None:
    many = "".join("{{ .Values.b }}" for _ in range(20))
    content = MODELSERVICE.replace("{{ .Values.tokens }}", "{{ .Values.a }}")
    one = only(
        content.rstrip(" ")
        + f"    a: '{many}'\n    b: '{many.replace('.b', '.c')}'\n    c: '{many.replace('.b', '.a')}'\n"
    )
    assert max(len(argument.text) for argument in one.found.arguments) < 20_001
