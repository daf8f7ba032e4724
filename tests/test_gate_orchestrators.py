"""Ray, Dynamo, AIBrix, KAITO and OME: what their files say of engine, model, version, devices and options."""

import contextlib
import random
from pathlib import Path
from textwrap import dedent

import pytest

from infopt.errors import InfoptError
from infopt.gate.case import case_of
from infopt.gate.deployment import Deployment
from infopt.gate.engines import call
from infopt.gate.nodes import at, documents
from infopt.gate.outside import Tree
from infopt.gate.policy import Policy
from infopt.gate.readers import dynamo, kaito, ome, ray, ray_serve, storm
from infopt.gate.reading import read_file, text_of


def read(tmp_path: Path, content: str, name: str = "deployment.yaml") -> list[Deployment]:
    file = tmp_path / name
    file.write_text(dedent(content), encoding="utf-8")
    found = read_file(str(file), tree=Tree([str(one) for one in sorted(tmp_path.iterdir())], text_of))
    assert not found.error
    return list(found.deployments)


def one(tmp_path: Path, content: str) -> Deployment:
    (found,) = read(tmp_path, content)
    return found


def devices(deployment: Deployment) -> tuple[int | None, int, int]:
    hardware = deployment.found.hardware
    return hardware.count, hardware.pods, hardware.replicas


SERVICE = """\
    apiVersion: ray.io/v1
    kind: RayService
    metadata: {name: chat}
    spec:
      serveConfigV2: |
        applications:
        - name: app
          import_path: somewhere.else:graph
          deployments:
          - name: engine
            num_replicas: REPLICAS
          runtime_env:
            pip: ["vllm==0.6.6"]
            env_vars:
              MODEL_ID: Qwen/Qwen2.5-7B-Instruct
              TENSOR_PARALLELISM: "TP"
              MAX_MODEL_LEN: "16384"
              ENFORCE_EAGER: "true"
      rayClusterConfig:
        headGroupSpec:
          template:
            spec:
              containers: [{name: head, image: rayproject/ray:2.40.0}]
        workerGroupSpecs:
        - replicas: 1
          maxReplicas: 2
          template:
            spec:
              nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
              containers:
              - name: worker
                image: rayproject/ray:2.40.0
                resources: {limits: {nvidia.com/gpu: "4", memory: 64Gi}}
    """


def test_ray_service_variables_are_options(tmp_path: Path) -> None:
    found = one(tmp_path, SERVICE.replace('"TP"', '"4"').replace("REPLICAS", "1"))
    assert (found.engine, found.version, found.model) == ("vllm", "0.6.6", "Qwen/Qwen2.5-7B-Instruct")
    assert (found.value("tp"), found.value("context_tokens"), found.value("eager")) == (4, 16384, True)
    assert devices(found) == (4, 1, 1)
    assert found.found.hardware.named == (("cloud.google.com/gke-accelerator", "nvidia-l4"),)
    assert any("by their names" in text for text in found.found.assumed)


def test_places_inside_the_serve_config_are_those_of_the_file(tmp_path: Path) -> None:
    content = dedent(SERVICE.replace('"TP"', '"4"').replace("REPLICAS", "1"))
    found = one(tmp_path, content)
    at = found.said_at("context_tokens")
    assert at is not None
    line = content.splitlines()[at.line - 1]
    assert line[at.column - 1 :].startswith('"16384"') or line[at.column - 1 :].startswith("16384")


@pytest.mark.parametrize(
    ("tp", "replicas", "expected"),
    [
        (2, 2, (2, 1, 2)),  # two replicas share a pod of four
        (2, 1, (4, 1, 1)),  # one replica leaves two idle
        (8, 1, (4, 2, 1)),  # spans two pods, which the group may have
        (16, 1, (4, 2, 1)),  # more than there may ever be
    ],
)
def test_ray_packs_replicas(tmp_path: Path, tp: int, replicas: int, expected: tuple[int, int, int]) -> None:
    found = one(tmp_path, SERVICE.replace('"TP"', f'"{tp}"').replace("REPLICAS", str(replicas)))
    assert devices(found) == expected


def test_ray_serve_llm(tmp_path: Path) -> None:
    found = one(
        tmp_path,
        """\
        applications:
        - name: llms
          import_path: ray.serve.llm:build_openai_app
          args:
            llm_configs:
            - model_loading_config: {model_id: small, model_source: Qwen/Qwen3-8B}
              accelerator_type: A100-40G
              engine_kwargs:
                tensor_parallel_size: 2
                max_model_len: 8192
                enable_prefix_caching: false
                enforce_eager: true
              deployment_config: {autoscaling_config: {min_replicas: 3, max_replicas: 5}}
        """,
    )
    assert (found.engine, found.model, found.found.name) == ("vllm", "Qwen/Qwen3-8B", "serve-llms-small")
    assert (found.value("tp"), found.value("prefix_caching"), found.value("eager")) == (2, False, True)
    assert devices(found) == (None, 1, 3)
    case = case_of(found, Policy())
    assert case.device is not None
    assert case.device.accelerator.memory_bytes < 50 * 10**9


def test_model_config_alone(tmp_path: Path) -> None:
    content = """\
        model_loading_config: {model_id: Qwen/Qwen3-0.6B}
        accelerator_type: L4
        engine_kwargs: {max_model_len: 4096}
        """
    found = one(tmp_path, content)
    assert (found.model, found.value("context_tokens"), found.found.hardware.named[0][1]) == (
        "Qwen/Qwen3-0.6B",
        4096,
        "L4",
    )


FLEET = """\
    apiVersion: orchestration.aibrix.ai/v1alpha1
    kind: RayClusterFleet
    metadata: {name: fleet}
    spec:
      replicas: 3
      template:
        spec:
          headGroupSpec:
            template:
              spec:
                containers:
                - name: head
                  image: aibrix/vllm-openai:v0.8.5.own.post2
                  command: ["/bin/bash", "-lc", "--"]
                  args: ["$KUBERAY_GEN_RAY_START_CMD; vllm serve Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 16"]
                  resources: {limits: {nvidia.com/gpu: 8}}
          workerGroupSpecs:
          - replicas: 1
            template:
              spec:
                containers:
                - name: worker
                  image: aibrix/vllm-openai:v0.8.5.own.post2
                  command: ["/bin/bash", "-lc", "--"]
                  args: ["$KUBERAY_GEN_RAY_START_CMD"]
                  resources: {limits: {nvidia.com/gpu: 8}}
    """


def test_fleet_head_runs_over_its_workers(tmp_path: Path) -> None:
    found = one(tmp_path, FLEET)
    assert (found.engine, found.version, found.model) == ("vllm", "0.8.5", "Qwen/Qwen2.5-72B-Instruct")
    assert devices(found) == (8, 2, 3)


def test_ray_job_entry_point(tmp_path: Path) -> None:
    found = one(
        tmp_path,
        """\
        apiVersion: ray.io/v1
        kind: RayJob
        metadata: {name: job}
        spec:
          entrypoint: vllm serve Qwen/Qwen3-8B --max-model-len 4096
          rayClusterSpec:
            headGroupSpec:
              template:
                spec:
                  containers:
                  - {name: head, image: "vllm/vllm-openai:v0.10.2", resources: {limits: {nvidia.com/gpu: 1}}}
        """,
    )
    assert (found.version, found.value("context_tokens"), devices(found)) == ("0.10.2", 4096, (1, 1, 1))


def test_program_in_a_config_map_is_read_and_never_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    content = f"""\
        apiVersion: v1
        kind: ConfigMap
        metadata: {{name: code}}
        data:
          app.py: |
            import os
            from vllm import AsyncEngineArgs
            open({str(marker)!r}, "w").write("x")
            LENGTH = os.getenv("CONTEXT", "2048")
            class Server:
                def __init__(self, model, block_size):
                    self.args = AsyncEngineArgs(model=model, block_size=block_size, max_model_len=int(LENGTH),
                                                enforce_eager=True, enable_prefix_caching=False, seed=other())
            graph = Server.bind(model=os.environ["WHICH"], block_size=int(os.environ.get("BLOCK", "4096")))
        ---
        apiVersion: ray.io/v1
        kind: RayService
        metadata: {{name: svc}}
        spec:
          serveConfigV2: |
            applications:
            - import_path: app:graph
              runtime_env: {{env_vars: {{WHICH: Qwen/Qwen3-8B, MAX_MODEL_LEN: "999"}}}}
          rayClusterConfig:
            headGroupSpec: {{template: {{spec: {{containers: [{{name: h, image: "ray-vllm0.7.3:1"}}]}}}}}}
        """
    found = one(tmp_path, content)
    assert not marker.exists()
    assert (found.engine, found.version, found.model) == ("vllm", "0.7.3", "Qwen/Qwen3-8B")
    # Of the variables only those count that the program reads.
    assert (found.value("context_tokens"), found.value("block_tokens"), found.value("eager")) == (2048, 4096, True)
    at = found.said_at("block_tokens")
    assert at is not None
    assert "BLOCK" in dedent(content).splitlines()[at.line - 1]


def test_a_program_without_an_engine_is_said(tmp_path: Path) -> None:
    file = tmp_path / "map.yaml"
    file.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  s.py: |\n    import transformers\n",
        encoding="utf-8",
    )
    found = read_file(str(file))
    assert not found.deployments
    (note,) = found.notes
    assert (note.line, note.severity) == (5, "note")
    assert "transformers" in note.message


@pytest.mark.parametrize("config", ["a: [1", "{{ .Values.config }}: {", "\tx"])
def test_an_unreadable_serve_config_is_one_line_of_the_file(tmp_path: Path, config: str) -> None:
    file = tmp_path / "ray.yaml"
    head = "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: x}\nspec:\n  serveConfigV2: |\n"
    file.write_text(f"{head}    applications:\n    {config}\n", encoding="utf-8")
    found = read_file(str(file))
    assert found.error.startswith(f"{file}:")
    assert "\n" not in found.error
    line = int(found.error.removeprefix(f"{file}:").split(":")[0])
    assert line in (7, 8)


GRAPH = """\
    apiVersion: nvidia.com/v1alpha1
    kind: DynamoGraphDeployment
    metadata: {name: graph}
    spec:
      envs: [{name: SIZE, value: "8"}]
      services:
        Frontend:
          extraPodSpec:
            mainContainer: {image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.1.1, command: [python3, -m, dynamo.frontend]}
        Prefill:
          subComponentType: prefill
          replicas: 2
          multinode: {nodeCount: 2}
          resources: {limits: {gpu: "4"}}
          sharedMemory: {size: 16Gi}
          extraPodSpec:
            nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
            mainContainer:
              image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.1.1
              command: [/bin/sh, -c]
              args:
              - |
                export MODEL=Qwen3-32B
                python3 -m dynamo.vllm --model Qwen/$MODEL --tensor-parallel-size $SIZE \\
                  --disaggregation-mode prefill --dyn-tool-call-parser hermes --is-prefill-worker --max-model-len 16384
    """


def test_dynamo_graph(tmp_path: Path) -> None:
    found = one(tmp_path, GRAPH)
    assert (found.engine, found.version, found.model) == ("vllm", "0.19.0", "Qwen/Qwen3-32B")
    assert (found.found.role, devices(found)) == ("prefill", (4, 2, 2))
    assert (found.value("tp"), found.value("context_tokens"), found.found.host.shm_bytes) == (8, 16384, 16 * 2**30)
    # Options of Dynamo's worker are not vLLM's, and none is unknown.
    assert found.problems == ()


def test_dynamo_components(tmp_path: Path) -> None:
    found = one(
        tmp_path,
        """\
        apiVersion: nvidia.com/v1beta1
        kind: DynamoGraphDeployment
        metadata: {name: new}
        spec:
          components:
          - name: Decode
            type: worker
            replicas: 3
            podTemplate:
              spec:
                nodeSelector: {nvidia.com/gpu.product: NVIDIA-B200}
                containers:
                - {name: sidecar, image: "vllm/vllm-openai:v0.1.0"}
                - name: main
                  image: nvcr.io/nvidia/ai-dynamo/sglang-runtime:my-tag
                  command: [python3, -m, dynamo.sglang]
                  args: [--model-path, Qwen/Qwen3-8B, --tp, "2", --disaggregation-mode, decode, --endpoint, dyn://a.b.c]
                  resources: {limits: {nvidia.com/gpu: "2"}}
        """,
    )
    assert (found.engine, found.version, found.found.role, devices(found)) == ("sglang", None, "decode", (2, 1, 3))
    assert (found.value("tp"), found.problems) == (2, ())


TRTLLM = """\
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: engine}
    data:
      agg.yaml: |
        tensor_parallel_size: 4
        max_batch_size: 64
        enable_chunked_prefill: true
        kv_cache_config: {free_gpu_memory_fraction: 0.7, dtype: fp8}
    ---
    apiVersion: nvidia.com/v1alpha1
    kind: DynamoGraphDeployment
    metadata: {name: trt}
    spec:
      services:
        Worker:
          resources: {limits: {gpu: "4"}}
          extraPodSpec:
            volumes: [{name: cfg, configMap: {name: engine}}]
            mainContainer:
              image: nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:1.2.0
              command: [python3, -m, dynamo.trtllm]
              args: [--model-path, Qwen/Qwen3-32B, --max_batch_size, "8", --extra-engine-args, /cfg/agg.yaml]
              volumeMounts: [{name: cfg, mountPath: /cfg}]
    """


def test_the_engine_options_of_tensorrt_llm_win_over_its_command_line(tmp_path: Path) -> None:
    found = one(tmp_path, TRTLLM)
    assert (found.engine, found.version) == ("tensorrt-llm", "1.3.0rc14")
    assert (found.value("max_num_seqs"), found.value("tp"), found.value("utilization"), found.value("kv")) == (
        64,
        4,
        0.7,
        "fp8",
    )
    at = found.said_at("max_num_seqs")
    assert at is not None
    assert dedent(TRTLLM).splitlines()[at.line - 1].strip() == "max_batch_size: 64"


def test_storm_service(tmp_path: Path) -> None:
    content = """\
        apiVersion: orchestration.aibrix.ai/v1alpha1
        kind: StormService
        metadata: {name: pd}
        spec:
          replicas: 2
          template:
            spec:
              roles:
              - name: router
                template:
                  spec:
                    containers:
                    - {name: r, image: "aibrix/sglang-router:v1", command: [python3, -m, sglang_router.launch_router]}
              - name: decode
                replicas: 3
                podGroupSize: 2
                template:
                  spec:
                    containers:
                    - name: d
                      image: aibrix/sglang:v0.5.5-cu126-own
                      command: [sh, -c]
                      args: ["python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp-size 2 --mem-frac 0.8"]
                      resources: {limits: {nvidia.com/gpu: 1}}
        """
    found = one(tmp_path, content)
    assert (found.engine, found.version, found.found.role) == ("sglang", "0.5.5", "decode")
    assert (devices(found), found.value("utilization")) == ((1, 2, 6), 0.8)


WORKSPACE = """\
    apiVersion: kaito.sh/v1beta1
    kind: Workspace
    metadata: {name: ws}
    resource: {count: 2, instanceType: Standard_NC48ads_A100_v4}
    inference:
      preset: {name: mistral-7b-instruct}
      config: params
    """
PARAMS = """\
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: params}
    data:
      inference_config.yaml: |
        vllm:
          max-model-len: 4096
          gpu-memory-utilization: 0.8
    """


def test_kaito_workspace(tmp_path: Path) -> None:
    found = one(tmp_path, f"{dedent(WORKSPACE)}---\n{dedent(PARAMS)}")
    assert (found.engine, found.version, found.model) == ("vllm", None, "mistralai/Mistral-7B-Instruct-v0.3")
    assert (found.value("tp"), found.value("pp"), found.value("context_tokens"), found.value("utilization")) == (
        2,
        2,
        4096,
        0.8,
    )
    case = case_of(found, Policy())
    assert (case.granted, case.needed) == (4, 4)
    assert case.device is not None
    assert case.device.accelerator.id == "a100-pcie-80gb"


def test_kaito_options_in_another_file_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(dedent(PARAMS), encoding="utf-8")
    found = one(tmp_path, WORKSPACE)
    at = found.said_at("context_tokens")
    assert (found.value("context_tokens"), at is not None and at.line) == (4096, 7)


def test_kaito_options_that_are_nowhere_are_named(tmp_path: Path) -> None:
    found = one(tmp_path, WORKSPACE)
    assert [unknown.fact for unknown in found.unknown] == ["ConfigMap params", "engine version"]


def test_kaito_inference_set_and_roles(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """\
        apiVersion: kaito.sh/v1beta1
        kind: InferenceSet
        metadata: {name: set}
        spec:
          replicas: 4
          template:
            resource: {instanceType: Standard_NC24ads_A100_v4}
            inference: {preset: {name: google/gemma-3-27b-it}}
        ---
        apiVersion: kaito.sh/v1alpha1
        kind: MultiRoleInference
        metadata: {name: pd}
        spec:
          model: {name: Qwen/Qwen3-32B}
          roles:
          - {type: prefill, replicas: 2, instanceType: Standard_NC24ads_A100_v4}
          - {type: decode, instanceType: Standard_NC48ads_A100_v4}
        ---
        apiVersion: kaito.sh/v1alpha1
        kind: RAGEngine
        metadata: {name: rag}
        spec: {compute: {instanceType: Standard_NC6s_v3}, inferenceService: {url: "http://x"}}
        """,
    )
    assert [(one.found.name, one.model, one.found.role, devices(one)) for one in found] == [
        ("set", "google/gemma-3-27b-it", "", (1, 1, 4)),
        ("pd-prefill", "Qwen/Qwen3-32B", "prefill", (1, 1, 2)),
        ("pd-decode", "Qwen/Qwen3-32B", "decode", (2, 1, 1)),
    ]


def runtime(model: str) -> str:
    return f"""\
        apiVersion: ome.io/v1beta1
        kind: ClusterServingRuntime
        metadata: {{name: srt-{model}}}
        spec:
          engineConfig:
            leader:
              runner:
                name: ome-container
                image: docker.io/lmsysorg/sglang:v0.5.5-cu129
                command: [python3, -m, sglang.launch_server, --model-path, $(MODEL_PATH), --tp-size, "16"]
                resources: {{limits: {{nvidia.com/gpu: 8}}}}
            worker:
              size: 1
              runner: {{name: w, image: x, command: [python3]}}
        """


def test_ome_runtime(tmp_path: Path) -> None:
    found = one(tmp_path, runtime("qwen3-32b"))
    assert (found.engine, found.version, devices(found), found.value("tp")) == ("sglang", "0.5.5", (8, 2, 1), 16)
    case = case_of(found, Policy(hardware="h100"))
    assert case.model is not None
    assert "Qwen3-32B" in case.model.id
    assert any("$(MODEL_PATH)" in text for text in case.assumed)


def test_ome_runtime_of_an_unknown_model(tmp_path: Path) -> None:
    case = case_of(one(tmp_path, runtime("nobodys-model-9b")), Policy(hardware="h100"))
    assert case.model is None
    assert "model" in [unknown.fact for unknown in case.unknown]


def group(options: str) -> str:
    return f"""\
        apiVersion: leaderworkerset.x-k8s.io/v1
        kind: LeaderWorkerSet
        metadata: {{name: own}}
        spec:
          leaderWorkerTemplate:
            size: 2
            leaderTemplate:
              spec:
                containers:
                - name: leader
                  image: example.com/own:1
                  command: [sh, -c, "./prepare.sh; python3 ./start.py leader {options}"]
                  resources: {{limits: {{nvidia.com/gpu: "8"}}}}
            workerTemplate: {{spec: {{containers: [{{name: w, image: i}}]}}}}
        """


def test_a_server_of_ones_own_has_its_world_checked(tmp_path: Path) -> None:
    found = one(tmp_path, group("--pp=2 --tp=8 --triton_model_repo_dir=/data/tensorrtllm_backend/models"))
    case = case_of(found, Policy())
    assert (found.engine, case.needed, case.granted) == ("tensorrt-llm", 16, 16)
    assert "model" in [unknown.fact for unknown in case.unknown]
    assert any("start.py" in text for text in case.assumed)
    short = case_of(one(tmp_path, group("--pp=4 --tp=8 --triton_model_repo_dir=/x")), Policy())
    assert (short.needed, short.granted) == (32, 16)


@pytest.mark.parametrize("options", ["--copy /data/tensorrtllm_backend/models", "--tp=8 --pp=2"])
def test_a_job_with_half_the_signs_is_no_server(tmp_path: Path, options: str) -> None:
    assert read(tmp_path, group(options)) == []


def test_a_node_group_named_after_its_instances(tmp_path: Path) -> None:
    content = FLEET.replace(
        "containers:\n                - name: head",
        "nodeSelector: {NodeGroup: g5-big}\n                containers:\n                - name: head",
    )
    case = case_of(one(tmp_path, content), Policy())
    assert case.device is not None
    assert case.device.accelerator.id == "a10g"
    assert any("g5-big" in text for text in case.assumed)


def junk(draw: random.Random) -> object:
    words = ("x", "-1", "9" * 30, "", "{{ x }}", "$(A)", "a: [")
    return draw.choice([None, [], {}, [None], *(at(word, 1, 1, style) for word in words for style in ("", "|"))])


def mutated(node: object, draw: random.Random, share: float) -> object:
    if draw.random() < share:
        return junk(draw)
    if isinstance(node, dict):
        return {key: mutated(value, draw, share) for key, value in node.items()}
    return [mutated(value, draw, share) for value in node] if isinstance(node, list) else node


@pytest.mark.parametrize("seed", range(40))
def test_whatever_stands_where_something_else_should_is_no_crash(seed: int) -> None:
    draw = random.Random(seed)
    readers = (dynamo, kaito, ome, ray, ray_serve, storm)
    for content in (SERVICE, FLEET, GRAPH, TRTLLM, WORKSPACE, runtime("m")):
        for document in documents(dedent(content), "x"):
            for share in (0.02, 0.1, 0.3):
                node = mutated(document, draw, share)
                for reader in readers:
                    with contextlib.suppress(InfoptError):
                        for found in reader.read(node, {}) if reader.recognises(node) else ():
                            call(found)
