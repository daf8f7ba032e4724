"""Forms of operators and charts as people lay them out: NIM, KAITO, Ray Serve, scenarios, charts of somebody's own."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from infopt.errors import InfoptError
from infopt.gate.case import Case, case_of
from infopt.gate.deployment import Deployment
from infopt.gate.finding import Hit
from infopt.gate.models import model_named
from infopt.gate.outside import Tree
from infopt.gate.policy import Policy
from infopt.gate.reading import read_file, text_of
from infopt.gate.rules import tight, unpinned_image


def read(tmp_path: Path, content: str, name: str = "deployment.yaml") -> list[Deployment]:
    file = tmp_path / name
    file.write_text(dedent(content), encoding="utf-8")
    found = read_file(str(file), tree=Tree([str(one) for one in sorted(tmp_path.iterdir())], text_of))
    assert not found.error
    return list(found.deployments)


def one(tmp_path: Path, content: str) -> Deployment:
    (found,) = read(tmp_path, content)
    return found


def settings(deployment: Deployment) -> dict[str, Any]:
    return {name: setting.value for name, setting in deployment.settings.items() if name != "served_name"}


def hits(case: Case) -> list[Hit]:
    return list(tight.check(case))


SERVICE = """\
    apiVersion: apps.nvidia.com/v1alpha1
    kind: NIMService
    metadata: {name: chat}
    spec:
      image: {repository: nvcr.io/nim/meta/llama-3.1-8b-instruct, tag: 1.8.4}
      storage: {nimCache: {name: weights}}
      resources: {limits: {nvidia.com/gpu: 4}}
    """


def test_nim_serves_the_model_that_a_variable_names(tmp_path: Path) -> None:
    served = one(tmp_path, f"{SERVICE}  env: [{{name: NIM_MODEL_NAME, value: hf://Qwen/Qwen3-4B}}]\n")
    assert served.model == "Qwen/Qwen3-4B"


def test_nim_takes_model_and_profile_of_its_cache(tmp_path: Path) -> None:
    cache = """\
        ---
        apiVersion: apps.nvidia.com/v1alpha1
        kind: NIMCache
        metadata: {name: weights}
        spec: {source: SOURCE}
        """
    of_hub = cache.replace("SOURCE", "{hf: {namespace: Qwen, modelName: Qwen3-8B}}")
    assert one(tmp_path, dedent(SERVICE) + dedent(of_hub)).model == "Qwen/Qwen3-8B"
    profile = one(
        tmp_path, dedent(SERVICE) + dedent(cache.replace("SOURCE", '{ngc: {model: {tensorParallelism: "2"}}}'))
    )
    assert (profile.model, settings(profile)["tp"]) == ("meta/llama-3.1-8b-instruct", 2)
    other = one(tmp_path, dedent(SERVICE) + dedent(of_hub.replace("name: weights", "name: another")))
    assert other.model == "meta/llama-3.1-8b-instruct"


def test_nim_over_several_nodes(tmp_path: Path) -> None:
    for said in ("{size: 2}", "{parallelism: {pipeline: 2, tensor: 4}}", "{parallelism: {pp: 2}}"):
        spread = one(tmp_path, f"{SERVICE}  multiNode: {said}\n")
        assert (spread.found.hardware.count, spread.found.hardware.pods) == (4, 2)
        assert (settings(spread)["tp"], settings(spread)["pp"]) == (4, 2)


def test_nim_counts_devices_that_it_claims(tmp_path: Path) -> None:
    claims = "draResources: [{claimCreationSpec: {devices: [{name: a, count: 2}, {name: b}]}}]"
    claimed = one(tmp_path, SERVICE.replace("resources: {limits: {nvidia.com/gpu: 4}}", claims))
    assert claimed.found.hardware.count == 3


def test_values_of_a_chart_two_charts_down(tmp_path: Path) -> None:
    nested = one(
        tmp_path,
        """\
        operator:
          llm:
            image: {repository: nvcr.io/nim/meta/llama-3.1-8b-instruct, tag: 1.8.4}
            model: {engine: vllm, tensorParallelism: "2"}
            resources: {limits: {nvidia.com/gpu: 2}}
        """,
    )
    assert (nested.engine, nested.model, settings(nested)["tp"]) == ("nim", "meta/llama-3.1-8b-instruct", 2)


def test_kaito_takes_a_length_that_fits(tmp_path: Path) -> None:
    workspace = """\
        apiVersion: kaito.sh/v1beta1
        kind: Workspace
        metadata: {name: chat}
        resource: {instanceType: Standard_NV36ads_A10_v5}
        inference: {preset: {name: llama-3.1-8b-instruct}CONFIG}
        """
    case = case_of(one(tmp_path, workspace.replace("CONFIG", "")), Policy())
    assert case.plan is not None
    assert (case.plan.fits, case.shortened_from) == (True, 131_072)
    assert hits(case) == []
    options = """\
        ---
        kind: ConfigMap
        apiVersion: v1
        metadata: {name: mine}
        data: {inference_config.yaml: "vllm: {max-model-len: 131072, gpu-memory-utilization: 0.9}"}
        """
    asked = dedent(workspace.replace("CONFIG", ", config: mine")) + dedent(options)
    case = case_of(one(tmp_path, asked), Policy())
    assert case.plan is not None
    assert (case.plan.fits, case.value("utilization")) == (False, 0.9)


MODEL = """\
    model_loading_config: {model_id: small, model_source: Qwen/Qwen3-8B}
    accelerator_type: L4
    engine_kwargs: {max_model_len: 4096, tensor_parallel_size: 2}
    """


def test_ray_builders_take_one_model_or_one_for_each_role(tmp_path: Path) -> None:
    single = one(
        tmp_path,
        """\
        applications:
        - name: app
          import_path: ray.serve.llm:build_dp_openai_app
          args:
            llm_config:
              model_loading_config: {model_id: Qwen/Qwen3-30B-A3B}
              engine_kwargs: {data_parallel_size: 4, tensor_parallel_size: 2}
        """,
    )
    assert (single.model, case_of(single, Policy()).needed) == ("Qwen/Qwen3-30B-A3B", 8)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "small.yaml").write_text(dedent(MODEL), encoding="utf-8")
    split = read(
        tmp_path,
        """\
        applications:
        - name: app
          import_path: ray.serve.llm:build_pd_openai_app
          args: {prefill_config: models/small.yaml, decode_config: elsewhere/large.yaml}
        """,
    )
    assert [deployment.found.role for deployment in split] == ["prefill", "decode"]
    assert (split[0].model, settings(split[0])["tp"], split[0].found.line) == ("Qwen/Qwen3-8B", 2, 4)
    assert (split[1].model, [unknown.settle for unknown in split[1].unknown if unknown.fact == "model"]) == (
        None,
        ["elsewhere/large.yaml: a file that is not beside this one"],
    )


def test_ray_models_as_rayllm_wrote_them(tmp_path: Path) -> None:
    older = one(
        tmp_path,
        """\
        deployment_config: {autoscaling_config: {min_replicas: 2}}
        engine_config:
          model_id: org/served
          hf_model_id: Qwen/Qwen3-14B
          type: VLLMEngine
          engine_kwargs: {gpu_memory_utilization: 0.8, its_own_switch: true}
          max_total_tokens: 8192
        scaling_config: {num_workers: 2, resources_per_worker: {"accelerator_type:A10G": 0.01}}
        """,
    )
    assert (older.model, older.engine, older.problems) == ("Qwen/Qwen3-14B", "vllm", ())
    assert settings(older) == {"model": "Qwen/Qwen3-14B", "utilization": 0.8, "tp": 2, "context_tokens": 8192}
    assert older.found.hardware.named[0][1] == "A10G"
    engine = one(tmp_path, f"{dedent(MODEL)}llm_engine: VLLMEngine\ntensor_parallelism: {{degree: 4}}\n")
    assert (engine.engine, settings(engine)["tp"]) == ("vllm", 2)


def test_scenarios_lie_over_what_they_share(tmp_path: Path) -> None:
    small, large = read(
        tmp_path,
        """\
        shared:
          decode: {parallelism: {tensor: 2}, resources: {limits: {memory: 64Gi}}}
          prefill: {enabled: false}
          vllmCommon: {flags: {enforceEager: true}}
        scenario:
        - name: small
          model: {name: Qwen/Qwen3-8B, maxModelLen: 8192}
          decode: {replicas: 2}
        - name: large
          model: {name: Qwen/Qwen3-32B}
          decode: {parallelism: {tensor: 4}}
        """,
    )
    assert (small.model, settings(small)["tp"], settings(small)["context_tokens"]) == ("Qwen/Qwen3-8B", 2, 8192)
    assert (small.found.hardware.replicas, settings(small)["eager"]) == (2, True)
    assert (large.model, settings(large)["tp"], settings(large)["eager"]) == ("Qwen/Qwen3-32B", 4, True)


OWN = """\
    replicaCount: 2
    image: {repository: vllm/vllm-openai, tag: v0.10.0}
    model: {name: Qwen/Qwen3-8B, maxModelLen: 8192, gpuMemoryUtilization: "0.8"}
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
    resources: {limits: {nvidia.com/gpu: 1}}
    extraArgs: [--enforce-eager, "--kv-cache-dtype fp8"]
    """


def test_charts_of_ones_own_by_the_names_of_their_keys(tmp_path: Path) -> None:
    own = one(tmp_path, OWN)
    assert (own.engine, own.version, own.model) == ("vllm", "0.10.0", "Qwen/Qwen3-8B")
    assert settings(own) == {"context_tokens": 8192, "utilization": 0.8, "eager": True, "kv": "fp8"}
    assert (own.found.hardware.count, own.found.hardware.replicas) == (1, 2)
    assert "by their names" in own.found.assumed[0]
    case = case_of(own, Policy())
    assert case.device is not None
    assert (case.device.accelerator.id, case.granted) == ("l4", 1)
    nested = one(tmp_path, "parent:\n  chat:\n" + "".join(f"    {line}\n" for line in dedent(OWN).splitlines()))
    assert (nested.found.name, nested.model, settings(nested)["kv"]) == ("chat", "Qwen/Qwen3-8B", "fp8")


def test_charts_of_ones_own_say_devices_in_many_ways(tmp_path: Path) -> None:
    for said in ("gpus: 2", "gpu: {count: 2, type: l40s}", "accelerator: {count: 2}", "worker: {gpu: 2}"):
        image = "image: {repository: lmsysorg/sglang, tag: v0.4.9}"
        spread = one(tmp_path, f"{image}\nmodelName: Qwen/Qwen3-8B\n{said}\n")
        assert (spread.engine, spread.found.hardware.count) == ("sglang", 2)
        assert [unknown.fact for unknown in spread.unknown] == ["tensor parallel"]
        split = one(tmp_path, f"{image}\nmodelName: Qwen/Qwen3-8B\n{said}\nextraArgs: [--tp=2]\n")
        assert (settings(split)["tp"], split.unknown) == (2, ())


def test_charts_of_ones_own_whose_template_says_the_rest(tmp_path: Path) -> None:
    blank = one(
        tmp_path, "image: {repository: vllm/vllm-openai, tag: ''}\nconfig: {model: Qwen/Qwen3-8B}\nresources: {}\n"
    )
    assert (blank.version, list(unpinned_image.check(case_of(blank, Policy())))) == (None, [])
    over = one(
        tmp_path, "model: Qwen/Qwen3-8B\ngpus: 1\nvllm_engine_args: {max-model-len: 4096, enforce-eager: true}\n"
    )
    assert [unknown.fact for unknown in over.unknown if unknown.fact != "engine version"] == ["utilization"]
    assert (over.engine, over.model, settings(over)) == (
        "vllm",
        "Qwen/Qwen3-8B",
        {"context_tokens": 4096, "eager": True},
    )
    named = one(tmp_path, "image: registry.example/team/vllm:v0.9.1\nmodel: {id: Qwen/Qwen3-8B, dtype: half}\n")
    assert (named.version, settings(named)["dtype"], "by its name" in named.found.assumed[0]) == ("0.9.1", "half", True)


def test_values_that_serve_nothing_are_no_charts_of_ones_own(tmp_path: Path) -> None:
    for values in (
        "image: {repository: team/vllm-dashboard}\nresources: {limits: {cpu: 1}}\n",
        "image: {repository: postgres}\nmodel: {name: Qwen/Qwen3-8B}\n",
        "model: Qwen/Qwen3-8B\nargs: [--epochs, 3]\n",
    ):
        assert read(tmp_path, values) == []


def test_app_template_s_containers(tmp_path: Path) -> None:
    chat = one(
        tmp_path,
        """\
        controllers:
          chat:
            pod: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}}
            containers:
              app:
                image: {repository: vllm/vllm-openai, tag: v0.10.0}
                args: [--model, $(MODEL), --max-model-len, "4096"]
                env: {MODEL: Qwen/Qwen3-4B}
                resources: {limits: {nvidia.com/gpu: 1}}
              proxy: {image: {repository: nginx}}
        """,
    )
    assert (chat.found.name, chat.model, chat.version) == ("chat", "Qwen/Qwen3-4B", "0.10.0")
    assert (settings(chat)["context_tokens"], chat.found.hardware.named[0][1]) == (4096, "NVIDIA-L4")


def test_releases_hold_values(tmp_path: Path) -> None:
    indented = "".join(f"    {line}\n" for line in dedent(OWN).splitlines())
    flux = (
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: r}\nspec:\n  values:\n" + indented
    )
    argo = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec:\n  source:\n    helm:\n"
    argo += "      values: |\n" + "".join(f"    {line}\n" for line in indented.splitlines())
    k3s = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: k}\nspec:\n  valuesContent: |-\n" + indented
    for release in (flux, argo, k3s):
        held = one(tmp_path, release)
        assert (held.model, settings(held)["context_tokens"]) == ("Qwen/Qwen3-8B", 8192)
        said = held.settings["context_tokens"].argument
        assert said is not None
        assert "8192" in release.splitlines()[said.line - 1]
    other = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: r}\nspec: {chart: {}}\n"
    assert read(tmp_path, other) == []


def test_charts_of_ones_own_list_models_that_share_an_image(tmp_path: Path) -> None:
    shared = "image: {repository: vllm/vllm-openai, tag: v0.10.0}\ngpuMemoryUtilization: 0.8\n"
    listed = "models: [{name: a, model: Qwen/Qwen3-8B}, {name: b, model: Qwen/Qwen3-4B, maxModelLen: 4096}]\n"
    named = "models: {a: {model: Qwen/Qwen3-8B}, b: {model: Qwen/Qwen3-4B, maxModelLen: 4096}, c: {enabled: false}}\n"
    for values in (listed, named):
        first, second = read(tmp_path, shared + values)
        assert (first.found.name, first.model, settings(first)["utilization"]) == ("a", "Qwen/Qwen3-8B", 0.8)
        assert (second.found.name, second.model, settings(second)["context_tokens"]) == ("b", "Qwen/Qwen3-4B", 4096)


def test_charts_of_ones_own_hold_the_image_in_many_places(tmp_path: Path) -> None:
    held = one(
        tmp_path,
        """\
        model: Qwen/Qwen3-8B
        ctxSize: 8192
        deployment:
          image: {repository: ghcr.io/ggerganov/llama.cpp, tag: server-cuda-b4094}
          resources: {limits: {nvidia.com/gpu: 1}}
        """,
    )
    assert (held.engine, held.version, held.model, held.found.hardware.count) == (
        "llama.cpp",
        "b4094",
        "Qwen/Qwen3-8B",
        1,
    )
    assert (settings(held), held.problems) == ({"whole_context_tokens": 8192}, ())
    named = one(tmp_path, "imageName: vllm/vllm-openai\nimageVersion: v0.9.1\nmodel: {name: '', path: Qwen/Qwen3-8B}\n")
    assert (named.version, named.model) == ("0.9.1", "Qwen/Qwen3-8B")
    placed = one(tmp_path, "image: vllm/vllm-openai:v0.9.1\nmodel: {path: /models/x, name: Qwen/Qwen3-8B}\n")
    assert placed.model == "Qwen/Qwen3-8B"


def test_formats_of_models_whose_own_name_ends_in_bf16() -> None:
    named = model_named("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4")
    assert named.assumed == (
        "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4 is nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16 in "
        "nvfp4, by its name",
    )
    with pytest.raises(InfoptError, match="not in the catalogue"):
        model_named("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B")
