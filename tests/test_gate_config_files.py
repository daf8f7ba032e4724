"""Options files: found in ConfigMaps, here-documents and beside the deployment; merged as each engine merges them."""

import time
from pathlib import Path
from textwrap import dedent

import pytest

from infopt.gate.config_files import MOST_VALUES, arguments_of, keys_of
from infopt.gate.deployment import Deployment
from infopt.gate.nodes import Text, documents, inside, walk
from infopt.gate.outside import Tree
from infopt.gate.policy import Policy
from infopt.gate.reading import Overrides, read_file, text_of

POD = """\
    apiVersion: v1
    kind: Pod
    metadata: {{name: p}}
    spec:
      volumes:
      - {{name: v, configMap: {{name: options}}}}
      containers:
      - name: c
        image: {image}
        command: {command}
        volumeMounts: [{mount}]
        resources: {{limits: {{nvidia.com/gpu: "8"}}}}
    """
MOUNT = "{name: v, mountPath: /etc/engine}"
VLLM = "vllm/vllm-openai:v0.10.2"
SERVE = '[vllm, serve, Qwen/Qwen3-32B, --max-model-len, "4096", --config, {path}]'
OPTIONS = """\
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: options}
    data:
      vllm.yaml: |
        max-model-len: 9999
        tensor_parallel_size: 8
        enforce-eager: true
        enable-prefix-caching: false
        trust-remote-code: false
        speculative-config: {method: ngram, num_speculative_tokens: 3}
        lora-modules: [a=/x, b=/y]
    """


def read(tmp_path: Path, *parts: str) -> Deployment:
    file = tmp_path / "deployment.yaml"
    file.write_text("---\n".join(dedent(part) for part in parts), encoding="utf-8")
    found = read_file(str(file), tree=Tree([str(one) for one in sorted(tmp_path.rglob("*.y*ml"))], text_of))
    assert not found.error
    (deployment,) = found.deployments
    return deployment


def pod(path: str, mount: str = MOUNT, image: str = VLLM, command: str = SERVE) -> str:
    return POD.format(image=image, command=command.format(path=path), mount=mount)


def test_vllm_takes_the_command_line_over_its_file(tmp_path: Path) -> None:
    found = read(tmp_path, pod("/etc/engine/vllm.yaml"), OPTIONS)
    assert (found.value("context_tokens"), found.value("tp")) == (4096, 8)
    assert (found.value("eager"), found.value("prefix_caching")) == (True, False)
    assert found.value("speculative") == {"method": "ngram", "num_speculative_tokens": 3}
    assert found.value("lora_modules") == "a=/x b=/y"
    assert (found.problems, found.unknown) == ((), ())


def test_options_of_a_config_map_stand_where_they_are_written(tmp_path: Path) -> None:
    found = read(tmp_path, pod("/etc/engine/vllm.yaml"), OPTIONS)
    at = found.said_at("tp")
    assert at is not None
    line = Path(found.file).read_text(encoding="utf-8").splitlines()[at.line - 1]
    assert line.strip() == "tensor_parallel_size: 8"
    assert line[at.column - 1 :] == "8"


@pytest.mark.parametrize(
    ("mount", "path"),
    [
        (MOUNT, "/etc/engine/vllm.yaml"),
        ("{name: v, mountPath: /etc/one.yaml, subPath: vllm.yaml}", "/etc/one.yaml"),
        ("{name: other, mountPath: /data}", "/somewhere/vllm.yaml"),
    ],
)
def test_mounts(tmp_path: Path, mount: str, path: str) -> None:
    assert read(tmp_path, pod(path, mount), OPTIONS).value("tp") == 8


def test_mounted_under_another_name(tmp_path: Path) -> None:
    renamed = pod("/etc/engine/run.yaml").replace(
        "configMap: {name: options}", "configMap: {name: options, items: [{key: vllm.yaml, path: run.yaml}]}"
    )
    assert read(tmp_path, renamed, OPTIONS).value("tp") == 8


def test_two_maps_with_a_file_of_that_name_are_no_answer(tmp_path: Path) -> None:
    found = read(
        tmp_path, pod("/x/vllm.yaml", "{}"), OPTIONS, OPTIONS.replace("name: options", "name: others").replace("8", "4")
    )
    assert found.value("tp") is None
    assert [unknown.fact for unknown in found.unknown] == ["options file"]


def test_a_config_map_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text(dedent(OPTIONS), encoding="utf-8")
    found = read(tmp_path, pod("/etc/engine/vllm.yaml"))
    at, said = found.said_at("tp"), found.said_at("config_file")
    assert found.value("tp") == 8
    # Lines of the other file are not lines of this one.
    assert at is not None
    assert said is not None
    assert (at.line, at.column) == (said.line, said.column)


def test_a_file_beside_the_deployment(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text("tensor-parallel-size: 4\n", encoding="utf-8")
    assert read(tmp_path, pod("/config/serve.yaml")).value("tp") == 4


@pytest.mark.parametrize("path", ["../secret.yaml", "/a/../../secret.yaml", "missing.yaml", "$(FILE)", "serve.txt"])
def test_files_elsewhere_are_not_opened(tmp_path: Path, path: str) -> None:
    inner = tmp_path / "tree"
    inner.mkdir()
    (tmp_path / "secret.yaml").write_text("tensor-parallel-size: 4\n", encoding="utf-8")
    (inner / "serve.txt").write_text("tensor-parallel-size: 4\n", encoding="utf-8")
    found = read(inner, pod(path))
    assert found.value("tp") is None


def test_a_link_beside_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("tensor-parallel-size: 4\n", encoding="utf-8")
    (tmp_path / "serve.yaml").symlink_to(tmp_path / "real.txt")
    assert read(tmp_path, pod("serve.yaml")).value("tp") is None


def test_a_here_document(tmp_path: Path) -> None:
    script = """\
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers:
          - name: c
            image: nvcr.io/nvidia/tensorrt-llm/release:1.2.0
            command: [bash, -c]
            args:
            - |
              cat > /tmp/extra.yaml <<EOF
              max_batch_size: 32
              kv_cache_config:
                free_gpu_memory_fraction: 0.6
                enable_block_reuse: false
              EOF
              trtllm-serve Qwen/Qwen3-32B --tp_size 2 --max_batch_size 8 --extra_llm_api_options /tmp/extra.yaml
        """
    found = read(tmp_path, script)
    assert (found.value("max_num_seqs"), found.value("utilization"), found.value("prefix_caching")) == (32, 0.6, False)
    assert found.value("tp") == 2


def test_sglang_takes_the_command_line_over_its_file(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "mem-fraction-static: 0.7\ntp-size: 4\ndisable-cuda-graph: true\n", encoding="utf-8"
    )
    command = "[python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-8B, --config, {path}, --tp-size, '2']"
    found = read(tmp_path, pod("s.yaml", "{}", "lmsysorg/sglang:v0.5.5", command))
    assert (found.value("tp"), found.value("utilization"), found.value("eager")) == (2, 0.7, True)


def test_an_unreadable_options_file_is_said(tmp_path: Path) -> None:
    found = read(tmp_path, pod("/etc/engine/vllm.yaml"), OPTIONS.replace("max-model-len: 9999", "max-model-len: [9"))
    assert [unknown.fact for unknown in found.unknown] == ["options file"]
    assert found.value("context_tokens") == 4096


TRTLLM = """\
    # of a database of configurations
    tensor_parallel_size: 4
    max_num_tokens: 4096
    max_seq_len: 3000
    enable_attention_dp: true
    kv_cache_config:
      free_gpu_memory_fraction: 0.8
      dtype: fp8
    moe_config: {backend: CUTLASS}
    """


def test_options_of_tensorrt_llm_alone(tmp_path: Path) -> None:
    found = read(tmp_path, TRTLLM)
    assert (found.engine, found.value("tp"), found.value("context_tokens")) == ("tensorrt-llm", 4, 3000)
    assert (found.value("utilization"), found.value("attention_dp_in_tp"), found.model) == (0.8, True, None)
    at = found.said_at("kv")
    assert at is not None
    assert at.line == 8


def test_options_alone_with_a_model_and_a_device(tmp_path: Path) -> None:
    from infopt.gate.check import gate

    file = tmp_path / "options.yaml"
    file.write_text(dedent(TRTLLM), encoding="utf-8")
    (checked,) = gate([str(file)], Policy(), Overrides(model="Qwen/Qwen3-32B", gpu="h100")).checked
    assert checked.case.plan is not None
    assert checked.case.plan.scenario.gpus == 4


@pytest.mark.parametrize(
    "content",
    [
        "tensor_parallel_size: 4\nmax_model_len: 4096\n",  # vLLM's
        "kv_cache_config: {dtype: fp8}\n",  # one key is anybody's
        "services: {a: {image: x}}\nmax_batch_size: 3\n",
        "- max_batch_size: 3\n- max_seq_len: 3\n",
        "name: model\nmax_batch_size: 8\n",
    ],
)
def test_files_that_are_not_tensorrt_llms(tmp_path: Path, content: str) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(content, encoding="utf-8")
    assert all(one.engine != "tensorrt-llm" for one in read_file(str(file)).deployments)


def bomb(levels: int, leaf: str) -> str:
    lines = [f"l0: &l0 {leaf}"]
    lines += [f"l{i}: &l{i} {{a: *l{i - 1}, b: *l{i - 1}}}" for i in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize("leaf", ["{}", "x"])
def test_aliases_of_aliases_end(tmp_path: Path, leaf: str) -> None:
    (document,) = documents(bomb(60, leaf), "bomb")
    before = time.process_time()
    assert len(list(keys_of(document, "bomb"))) <= MOST_VALUES
    file = tmp_path / "deployment.yaml"
    inner = "\n".join(f"    {line}" for line in f"max_batch_size: 1\nmax_seq_len: 2\n{bomb(60, leaf)}".splitlines())
    head = dedent(OPTIONS).partition("  vllm.yaml")[0]
    file.write_text(f"{dedent(pod('/etc/engine/vllm.yaml'))}---\n{head}  vllm.yaml: |\n{inner}\n", encoding="utf-8")
    (found,) = read_file(str(file)).deployments
    assert "options file" in [unknown.fact for unknown in found.unknown]
    assert time.process_time() - before < 2


def test_words_of_keys() -> None:
    (document,) = documents("a: 'true'\nb: true\nc: no\nd: null\ne: [1, {x: 2}]\nf: -1\n", "f")
    words = [argument.text for argument in arguments_of("vllm", "0.10.2", document, "f")]
    assert words == ["--a=true", "--b", '--e=1 {"x": 2}', "--f=-1"]


@pytest.mark.parametrize("style", ["|", "|-", "|2-", ">-", '"'])
def test_nested_places(style: str) -> None:
    if style == '"':
        outer = 'top:\n  inner: "a: 1\\ndeep: [{key: value}]"\n'
    else:
        indented = "a: 1\n    deep:\n    - key: value\n" if style[0] == "|" else "{a: 1, deep: [{key: value}]}\n"
        outer = f"top:\n  inner: {style}\n    {indented}"
    (document,) = documents(outer, "outer")
    text = document["top"]["inner"]
    assert isinstance(text, Text)
    lines = outer.splitlines()
    for node in inside(text, "inner"):
        for scalar in walk(node):
            if not isinstance(scalar, Text):
                continue
            if style[0] == "|":
                assert lines[scalar.line - 1][scalar.column - 1 :].startswith(str(scalar))
            else:
                assert (scalar.line, scalar.column) == (text.line, text.column)
