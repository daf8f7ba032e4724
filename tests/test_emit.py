"""Emitted deployments: what is in the file is what was planned, read back by a reader that knows no writer."""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from infopt.cli import run
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.hardware.product_labels import FILE, LABEL, product_label, resource_name
from infopt.profiles.engine_flags import engine_flags
from infopt.profiles.engine_images import engine_images
from infopt.profiles.engines import engine_names, version_key
from infopt.profiles.resolve import resolve_model
from infopt.records import read_yaml
from infopt.reports.emit import EmitForm, comment, emit_text, without_secrets
from infopt.reports.emit_helm import LARGEST_NUMBER
from infopt.studies.commands import CONFIG_FILE, serve_command
from infopt.studies.emit import CONFIG, launch, slug
from infopt.studies.planning import plan
from infopt.studies.scenarios import Request
from infopt.studies.search import Deployment, Search, Targets, plan_of, row_of, search

FORMS: tuple[EmitForm, ...] = ("helm", "k8s", "compose")
COMMAND = "infopt search --model 70b"
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
RELEASES = {"vllm": "0.19.1", "sglang": "0.5.18", "tensorrt-llm": "1.2.1", "llama.cpp": "b11459"}


@cache
def searched(model: str = "70b", engine: str = "vllm", hw: str = "h200", rate: float = 1.0, **changes: Any) -> Search:
    request = Request(input_tokens=2000, output_tokens=300, engine=engine, engine_version=RELEASES[engine])
    devices = [resolve_hardware(name) for name in hw.split(",")]
    targets = Targets(tpot_s=0.1, rate_per_s=rate)
    return search(resolve_model(model), replace(request, **changes), devices, targets)


def emitted(result: Search, form: EmitForm, number: int = 1) -> tuple[str, list[Any]]:
    text = emit_text(result, number, form, COMMAND)
    return text, list(yaml.safe_load_all(text))


def of_kind(documents: list[Any], kind: str) -> Any:
    found = [document for document in documents if document["kind"] == kind]
    assert len(found) == 1
    return found[0]


def container_of(documents: list[Any]) -> Any:
    (container,) = of_kind(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    return container


def as_chart_starts(values: Any) -> list[str]:
    """The command line that the chart makes of its values (deployment-vllm-multi.yaml)."""
    (spec,) = values["servingEngineSpec"]["modelSpec"]
    config = spec["vllmConfig"]
    words = ["vllm", "serve", spec["modelURL"], "--host", "0.0.0.0", "--port", "8000"]
    words.append("--enable-prefix-caching" if config.get("enablePrefixCaching") else "--no-enable-prefix-caching")
    keys = (
        ("maxModelLen", "--max-model-len"),
        ("tensorParallelSize", "--tensor-parallel-size"),
        ("maxNumSeqs", "--max-num-seqs"),
        ("gpuMemoryUtilization", "--gpu_memory_utilization"),
    )
    for key, option in keys:
        if key in config:
            value = float(config[key])
            # Helm reads numbers as floats, and prints large ones with an exponent.
            words += [option, f"{value:g}" if value < LARGEST_NUMBER else f"{value:e}"]
    return [*words, *config.get("extraArgs", [])]


def options(words: list[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for word, after in zip(words, [*words[1:], "--end"], strict=True):
        if re.match(r"--?[a-z]", word):
            found[word.replace("_", "-")] = None if re.match(r"--?[a-z]", after) else after
    return found


def started(documents: list[Any], form: EmitForm) -> list[str]:
    """Every word of the process of one replica."""
    if form == "helm":
        return as_chart_starts(documents[0])
    if form == "compose":
        service = documents[0]["services"]["replica-1"]
        return [word.replace("$$", "$") for word in (*service["entrypoint"], *service["command"])]
    container = container_of(documents)
    return [*container["command"], *container["args"]]


def devices_and_label(documents: list[Any], form: EmitForm) -> tuple[int, int, str | None]:
    """Devices of a replica, replicas, node label."""
    if form == "helm":
        (spec,) = documents[0]["servingEngineSpec"]["modelSpec"]
        (term,) = spec["nodeSelectorTerms"]
        (chosen,) = term["matchExpressions"]
        assert chosen["key"] == LABEL
        return spec["requestGPU"], spec["replicaCount"], chosen["values"][0]
    if form == "compose":
        services = documents[0]["services"].values()
        counts = {
            len(service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]) for service in services
        }
        assert len(counts) == 1
        return counts.pop(), len(services), None
    spec = of_kind(documents, "Deployment")["spec"]
    resources = container_of(documents)["resources"]
    assert resources["limits"]["nvidia.com/gpu"] == resources["requests"]["nvidia.com/gpu"]
    return int(resources["limits"]["nvidia.com/gpu"]), spec["replicas"], spec["template"]["spec"]["nodeSelector"][LABEL]


def of_row(result: Search, number: int) -> Deployment:
    return row_of(result, number)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_devices_replicas_and_options_are_those_of_the_row(form: EmitForm, number: int) -> None:
    result = searched(hw="h200,b200")
    d = of_row(result, number)
    s = plan_of(d).scenario
    if form == "compose" and d.gpus > 8:
        pytest.skip("more than one machine")
    _, documents = emitted(result, form, number)
    gpus, replicas, label = devices_and_label(documents, form)
    assert gpus == s.tp * s.pp * s.dp
    assert replicas == d.replicas
    assert label in (None, product_label(s.accelerator.id))
    told = options(started(documents, form))
    for option, value in options(list(serve_command(s).words)).items():
        assert told.pop(option) == value
    allowed = {"--host", "--port", "--enable-prefix-caching"}
    if form == "helm" and s.tp == 1 < s.gpus:
        allowed.add("--tensor-parallel-size")
    assert set(told) <= allowed


def request_of(words: list[str], gpus: int, image: str) -> Request:
    """What a reader that knows vLLM's options understands."""
    told = options(words)
    degree = {name: int(told.get(f"--{name}-parallel-size") or 1) for name in ("tensor", "pipeline", "data")}
    experts = degree["tensor"] * degree["data"] if "--enable-expert-parallel" in told else 1
    sequences = int(told["--max-num-seqs"] or 0)
    return Request(
        context_tokens=int(told["--max-model-len"] or 0),
        gpus=gpus,
        tp=degree["tensor"],
        pp=degree["pipeline"],
        dp=degree["data"],
        ep=experts,
        batch=sequences * degree["data"],
        max_num_seqs=sequences,
        utilization=float(told["--gpu-memory-utilization"] or 0),
        kv=told.get("--kv-cache-dtype"),
        weights=told.get("--quantization"),
        engine_version=image.rpartition(":v")[2],
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("model", "changes"),
    [("70b", {}), ("70b", {"weights": "fp8", "kv": "fp8"}), ("gpt-oss-120b", {}), ("deepseek-v3", {}), ("8b", {})],
)
def test_a_reader_of_the_file_plans_that_it_fits(form: EmitForm, model: str, changes: dict[str, Any]) -> None:
    result = searched(model, **changes)
    _, documents = emitted(result, form)
    words = started(documents, form)
    gpus, _, label = devices_and_label(documents, form)
    if form == "helm":
        (spec,) = documents[0]["servingEngineSpec"]["modelSpec"]
        image = f"{spec['repository']}:{spec['tag']}"
    else:
        image = (container_of(documents) if form == "k8s" else documents[0]["services"]["replica-1"])["image"]
    assert image == "vllm/vllm-openai:v0.19.1"
    profile = resolve_model(words[words.index("serve") + 1])
    read = plan(profile, resolve_hardware(label or "h200"), request_of(words, gpus, image))
    meant = plan_of(result.chosen)
    assert read.fits is True
    assert read.memory.weights_bytes_per_gpu == meant.memory.weights_bytes_per_gpu
    assert read.memory.kv_pool_tokens == meant.memory.kv_pool_tokens
    assert read.scenario.kv_format == meant.scenario.kv_format


def test_kubernetes_objects_belong_together() -> None:
    _, documents = emitted(searched(), "k8s")
    deployment, service = of_kind(documents, "Deployment"), of_kind(documents, "Service")
    pod = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    container = container_of(documents)
    (port,) = container["ports"]
    assert service["spec"]["ports"][0]["targetPort"] == port["containerPort"] == 8000
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert mounts["/dev/shm"]["emptyDir"]["medium"] == "Memory"
    assert mounts["/cache"]["ephemeral"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"] == "158Gi"
    environment = {entry["name"]: entry for entry in container["env"]}
    assert environment["HF_HOME"]["value"] == "/cache"
    assert set(environment["HF_TOKEN"]) == {"name", "valueFrom"}
    start = container["startupProbe"]
    # 141 GB at 100 MB/s is 1,411 s, and ten minutes.
    assert start["periodSeconds"] * start["failureThreshold"] == pytest.approx(600 + 70.55e9 * 2 / 100e6, abs=10)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": 8000}


def test_one_device_needs_no_shared_memory() -> None:
    result = searched("8b")
    assert result.chosen.replica.gpus == 1
    _, k8s = emitted(result, "k8s")
    assert [mount["mountPath"] for mount in container_of(k8s)["volumeMounts"]] == ["/cache"]
    assert "shmSize" not in emitted(result, "helm")[0]
    assert "shm_size" not in emitted(result, "compose")[0]


def test_compose_gives_each_replica_its_own_devices_and_port() -> None:
    result = searched("8b", hw="h100", rate=20.0)
    number = next(n for n, d in enumerate(result.front, 1) if d.replicas > 1 and d.gpus <= 8)
    d = of_row(result, number)
    _, (file,) = emitted(result, "compose", number)
    assert len(file["services"]) == d.replicas
    ids = [
        device
        for service in file["services"].values()
        for device in service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
    ]
    assert ids == [str(n) for n in range(d.gpus)]
    ports = [service["ports"] for service in file["services"].values()]
    assert ports == [[f"{8000 + n}:8000"] for n in range(d.replicas)]
    assert all(service["environment"]["HF_TOKEN"] == "${HF_TOKEN:-}" for service in file["services"].values())
    assert set(file["volumes"]) == {"cache"}


def test_compose_starts_one_machine() -> None:
    result = searched(hw="h100", rate=5.0)
    number = next(n for n, d in enumerate(result.front, 1) if d.gpus > 8)
    with pytest.raises(InfoptError, match="more than the 8 of one machine"):
        emitted(result, "compose", number)


def test_a_pipeline_over_machines_is_a_group_of_pods() -> None:
    result = searched("405b", hw="h100", weights="bf16")
    d = result.chosen
    assert (d.machines, d.replica.scenario.tp, d.replica.scenario.pp) == (2, 8, 2)
    _, documents = emitted(result, "k8s")
    template = of_kind(documents, "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    leader, worker = (template[f"{role}Template"] for role in ("leader", "worker"))
    assert template["size"] == 2
    told = {}
    for role, pod in (("leader", leader), ("worker", worker)):
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
        assert container["image"] == "vllm/vllm-openai:v0.19.1"
        told[role] = options([*container["command"], *container["args"]])
        assert (told[role]["--nnodes"], told[role]["--master-addr"]) == ("2", "$(LWS_LEADER_ADDRESS)")
    assert (told["leader"].pop("--node-rank"), told["worker"].pop("--node-rank")) == ("0", "$(LWS_WORKER_INDEX)")
    assert told["worker"].pop("--headless") is None
    assert told["leader"] == told["worker"]
    selector = of_kind(documents, "Service")["spec"]["selector"]
    assert selector.items() <= leader["metadata"]["labels"].items()
    assert not selector.items() <= worker["metadata"]["labels"].items()
    for form in ("helm", "compose"):
        with pytest.raises(InfoptError, match="machine"):
            emitted(result, form)  # type: ignore[arg-type]


def test_several_machines_without_stages_are_refused() -> None:
    result = searched("deepseek-v3", hw="h100")
    assert result.chosen.replica.scenario.dp == 2
    with pytest.raises(InfoptError, match=r"no pipeline over them \(tp 8, pp 1, dp 2\)"):
        emitted(result, "k8s")


def test_an_older_engine_does_not_start_over_machines() -> None:
    result = searched("405b", hw="h100", weights="bf16", engine_version="0.12.0")
    with pytest.raises(InfoptError, match=r"from 0\.13\.0 on"):
        emitted(result, "k8s")


def test_a_machine_is_a_node_also_where_links_reach_further() -> None:
    """Four GB200 are on a node, 72 in one link domain: a pod has the four."""
    result = searched("deepseek-v3", hw="gb200")
    narrow = launch(result.chosen, plan_of(result.chosen))
    assert (narrow.gpus, narrow.machines, narrow.machine_devices) == (4, 1, 4)
    wide = next(d for d in result.front if d.replica.gpus == 8)
    assert wide.machines == 1
    with pytest.raises(InfoptError, match="8 devices spans 2 machines"):
        launch(wide, plan_of(wide))


def test_images_are_of_one_vendor() -> None:
    with pytest.raises(InfoptError, match=r"for nvidia devices, apple-m4-max.* is of apple"):
        emitted(searched("8b", engine="llama.cpp", hw="apple-m4-max"), "k8s")


def test_slices_start_alone_only() -> None:
    result = searched("8b", hw="h100 2g.20gb")
    text, documents = emitted(result, "helm")
    (spec,) = documents[0]["servingEngineSpec"]["modelSpec"]
    assert (spec["requestGPUType"], spec["requestGPU"]) == ("nvidia.com/mig-2g.20gb", 1)
    assert "strategy `mixed`" in text
    _, k8s = emitted(result, "k8s")
    assert container_of(k8s)["resources"]["limits"] == {"nvidia.com/mig-2g.20gb": "1"}
    with pytest.raises(InfoptError, match="slices are named"):
        emitted(result, "compose")
    together = searched("8b", hw="h100 1g.10gb")
    with pytest.raises(InfoptError, match="slices have no link"):
        emitted(together, "k8s")


def test_a_model_of_this_machine_comes_from_a_volume(tmp_path: Path) -> None:
    """Paths of the planner's machine mean nothing in a container."""
    folder = tmp_path / "my $model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    request = Request(input_tokens=500, output_tokens=100)
    result = search(resolve_model(str(folder)), request, [resolve_hardware("h200")], Targets(tpot_s=0.1))
    _, k8s = emitted(result, "k8s")
    container = container_of(k8s)
    assert container["args"][0] == "/models/my $model"
    assert container["env"] == []
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/models"]
    _, (file,) = emitted(result, "compose")
    service = file["services"]["replica-1"]
    assert service["command"][0] == "/models/my $$model"
    assert service["volumes"] == ["./models:/models:ro"]
    _, (values,) = emitted(result, "helm")
    (spec,) = values["servingEngineSpec"]["modelSpec"]
    assert spec["modelURL"] == "/models/my $model"
    assert spec["extraVolumeMounts"][0]["mountPath"] == "/models"
    assert str(tmp_path) not in yaml.safe_dump([k8s, file, values])


@pytest.mark.parametrize("engine", [name for name in engine_names() if name != "vllm"])
def test_other_engines(engine: str) -> None:
    result = searched(engine=engine)
    _, documents = emitted(result, "k8s")
    container = container_of(documents)
    images = engine_images(engine)
    assert container["image"] == f"{images.repository}:{images.tag_of(RELEASES[engine])}"
    words = [*container["command"], *container["args"]]
    assert words[0] == images.program
    told = options(words)
    for option, value in options(list(serve_command(plan_of(result.chosen).scenario).words)).items():
        assert option in told
        assert told[option] in (value, f"/models/{value}")
    assert told["--host"] == "0.0.0.0"
    assert told["--port"] == str(container["ports"][0]["containerPort"])
    with pytest.raises(InfoptError, match="serves vllm only"):
        emitted(result, "helm")


def test_a_configuration_file_is_mounted_where_the_engine_reads_it() -> None:
    result = searched(engine="tensorrt-llm", kv="fp8")
    _, documents = emitted(result, "k8s")
    container = container_of(documents)
    assert options(container["args"])["--extra-llm-api-options"] == CONFIG
    config = of_kind(documents, "ConfigMap")
    assert yaml.safe_load(config["data"][CONFIG_FILE]) == {"kv_cache_config": {"dtype": "fp8"}}
    volume = next(
        v for v in of_kind(documents, "Deployment")["spec"]["template"]["spec"]["volumes"] if "configMap" in v
    )
    mount = next(m for m in container["volumeMounts"] if m["name"] == volume["name"])
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    assert f"{mount['mountPath']}/{CONFIG_FILE}" == CONFIG
    _, (file,) = emitted(result, "compose")
    (used,) = file["services"]["replica-1"]["configs"]
    assert used["target"] == CONFIG
    assert yaml.safe_load(file["configs"][used["source"]]["content"]) == {"kv_cache_config": {"dtype": "fp8"}}


def test_a_model_file_comes_from_a_volume() -> None:
    text, documents = emitted(searched(engine="llama.cpp"), "k8s")
    assert "# note: MODEL-q4_k_m.gguf: meta-llama/Llama-3.1-70B as a GGUF file" in text
    container = container_of(documents)
    assert options(container["args"])["-m"] == "/models/MODEL-q4_k_m.gguf"
    assert container["env"] == []
    (volume,) = of_kind(documents, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == "models"


def test_a_placeholder_is_said() -> None:
    text, documents = emitted(searched(hw="b200", weights="nvfp4"), "k8s")
    assert container_of(documents)["args"][0] == "CHECKPOINT-NVFP4"
    assert "# note: CHECKPOINT-NVFP4: a checkpoint of meta-llama/Llama-3.1-70B quantized to nvfp4" in text


@pytest.mark.parametrize("form", FORMS)
def test_the_header_says_how_it_was_made_and_nothing_else_is_a_comment(form: EmitForm) -> None:
    result = searched()
    text, _ = emitted(result, form)
    lines = text.splitlines()
    header = [line for line in lines if line.startswith("#")]
    assert lines[: len(header)] == header
    assert header[1] == f"# command: {COMMAND}"
    for word in ("TTFT", "TPOT", "replicas: 1, each", "memory: ", "GiB a device", "vllm 0.19.1"):
        assert any(word in line for line in header), word
    # No anchors: readers refuse them.
    assert not any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text))
    assert text == emit_text(result, 1, form, COMMAND)


def test_no_secret_reaches_a_file() -> None:
    command = "infopt search --model hf_abcdefghijk --x token=abc --y 'https://me:pw@host/x' --api-key k123456"
    said = without_secrets(command)
    for secret in ("abcdefghijk", "=abc", "me:pw", "k123456"):
        assert secret not in said
    assert said.startswith("infopt search --model ")


def test_a_command_line_cannot_leave_the_comment() -> None:
    result = searched("8b")
    text = emit_text(result, 1, "k8s", "infopt 'a\nkind: Secret\r\x85\u2028b: \x1b[0m'")
    assert [document["kind"] for document in yaml.safe_load_all(text)] == ["Deployment", "Service"]
    assert comment("a\nb\x1b") == "a b?"


def test_large_numbers_pass_helm_as_text() -> None:
    """Helm prints 1048576 as 1.048576e+06, which the engine refuses."""
    found = launch(searched("8b").chosen, plan_of(searched("8b").chosen))
    from infopt.reports.emit_helm import documents

    long = replace(found, options={**found.options, "--max-model-len": "1048576"})
    told = options(as_chart_starts(documents(long)[0]))
    assert told["--max-model-len"] == "1048576"


def test_hybrids_are_planned_without_prefix_caching() -> None:
    """The chart always says on or off; a second page per recurrent state was not planned for."""
    found = launch(searched("70b").chosen, plan_of(searched("70b").chosen))
    assert found.prefix_caching
    hybrid = searched("qwen3-next-80b-a3b-instruct").chosen
    assert not launch(hybrid, plan_of(hybrid)).prefix_caching


@pytest.mark.parametrize("engine", engine_names())
def test_images_are_of_releases_in_order(engine: str) -> None:
    images = engine_images(engine)
    assert images.engine == engine
    keys = [version_key(release) for release in images.releases]
    assert keys == sorted(keys)
    assert len(set(images.releases)) == len(images.releases)
    assert "latest" not in images.tag_of(images.releases[-1])
    assert images.tag_of(images.releases[0]) != images.tag_of(images.releases[-1])
    assert images.listen[images.listen.index("--port") + 1] == str(images.port)
    assert "{model}" in engine_flags(engine).start


@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.19.7"), ("vllm", "0.19"), ("tensorrt-llm", "1.4.0")])
def test_an_unknown_image_is_one_line_with_the_nearest(engine: str, version: str) -> None:
    with pytest.raises(InfoptError, match=r"no container image of .* is known.*--engine-version: \d") as caught:
        engine_images(engine).tag_of(version)
    assert "\n" not in str(caught.value)


def test_labels_name_their_own_device() -> None:
    for id, label in read_yaml(FILE).items():
        assert resolve_hardware(label).accelerator.id == id
        assert product_label(id) == label


def test_slices_ask_for_their_own_resource() -> None:
    slice_id = resolve_hardware("h100 1g.10gb").accelerator.id
    assert resource_name(slice_id) == "nvidia.com/mig-1g.10gb"
    assert product_label(slice_id) == product_label(resolve_hardware("h100").accelerator.id)


def test_names_are_what_kubernetes_takes() -> None:
    assert slug("vllm-Qwen/Qwen3_30B.A3B", 63) == "vllm-qwen-qwen3-30b-a3b"
    assert slug("1x", 63) == "m-1x"
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,28}[a-z0-9]", slug("a" * 29 + "-" + "b" * 40, 30))


ARGUMENTS = (
    "search",
    "--model",
    "8b",
    "--tpot",
    "20ms",
    "--rate",
    "5/s",
    "--isl",
    "1k",
    "--osl",
    "256",
    "--hw",
    "h200",
)


@pytest.mark.parametrize("form", FORMS)
def test_the_command_writes_a_file_and_prints_the_search(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deployment.yaml"
    assert run([*ARGUMENTS, "--emit", form, "--out", str(out)]) == 0
    assert "ROW 1" in capsys.readouterr().out
    written = out.read_text()
    assert list(tmp_path.iterdir()) == [out]
    assert run([*ARGUMENTS, "--emit", form]) == 0
    assert capsys.readouterr().out == written
    assert list(yaml.safe_load_all(written))


def test_another_row(tmp_path: Path) -> None:
    out = tmp_path / "second.yaml"
    assert run([*ARGUMENTS, "--emit", "k8s", "--out", str(out), "--row", "2", "--json"]) == 0
    assert "row 2 of the front" in out.read_text()


def test_nothing_feasible_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "none.yaml"
    hopeless = [*ARGUMENTS[:4], "0.1ms", *ARGUMENTS[5:], "--emit", "k8s"]
    assert run([*hopeless, "--out", str(out)]) == 1
    assert not out.exists()
    assert "NOTHING MEETS THE TARGETS" in capsys.readouterr().out
    assert run(hopeless) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("infopt: nothing is emitted: ")


@pytest.mark.parametrize(
    "extra",
    [
        ("--out", "x.yaml"),
        ("--emit", "k8s", "--json"),
        ("--emit", "k8s", "--explain"),
        ("--emit", "terraform"),
        ("--emit", "k8s", "--row", "9999"),
        ("--emit", "k8s", "--out", "no/such/folder/x.yaml"),
        ("--emit", "helm", "--engine", "sglang"),
        ("--emit", "k8s", "--engine", "tensorrt-llm"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    extra: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*ARGUMENTS, *extra]) == 2
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_header_has_the_command_as_typed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "infopt", *ARGUMENTS, "--emit", "k8s"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=os.environ)
    assert done.stdout.splitlines()[1] == f"# command: infopt {shlex.join([*ARGUMENTS, '--emit', 'k8s'])}"
