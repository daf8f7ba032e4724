"""Scripts, container files and Ollama: every server they start, and which files of a folder are looked at."""

from pathlib import Path

import pytest
from gate_files import checked, only, settings_of

from infopt.gate.check import gate
from infopt.gate.policy import Policy
from infopt.gate.reading import files_of

DOCKER_RUN = """
docker run -d --rm -it --gpus %s --ipc=host --shm-size 8g -e TOKEN=x -p8000:8000 --name a \\
  vllm/vllm-openai:v0.9.2 --model Qwen/Qwen3-8B --max-model-len 4096 && docker ps
"""


@pytest.mark.parametrize(
    ("gpus", "count"), [("all", None), ("2", 2), ("'\"device=0,2\"'", 2), ("device=1", 1), ("count=3", 3)]
)
def test_docker_run(tmp_path: Path, gpus: str, count: int | None) -> None:
    one = only(tmp_path, "run.sh", DOCKER_RUN % gpus)
    assert (one.case.deployment.engine, one.case.deployment.version) == ("vllm", "0.9.2")
    assert settings_of(one) == {"model": "Qwen/Qwen3-8B", "context_tokens": 4096}
    assert one.case.granted == count
    assert one.case.deployment.found.host.shares_ipc


def test_every_server_of_a_script(tmp_path: Path) -> None:
    script = """#!/bin/bash
pip install sglang==0.5.5
CUDA_VISIBLE_DEVICES=0,1 python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2 &
llama-server -hf someone/Qwen3-8B-GGUF:Q8_0 -c 8192 -np 2 &
trtllm-serve Qwen/Qwen3-8B --tp_size 4
text-generation-launcher --model-id Qwen/Qwen3-8B --num-shard 2
"""
    found = checked(tmp_path, {"all.sh": script}, "all.sh")
    deployments = [one.case.deployment for one in found]
    assert [d.engine for d in deployments] == ["sglang", "llama.cpp", "tensorrt-llm", "tgi"]
    assert [d.value("tp") for d in deployments] == [2, None, 4, 2]
    assert (deployments[0].version, found[0].case.granted) == ("0.5.5", 2)
    assert deployments[1].value("whole_context_tokens") == 8192
    assert [d.found.line for d in deployments] == [3, 4, 5, 6]


@pytest.mark.parametrize(
    "write_it", ["cat > $DIR/options.yaml <<EOF", "cat <<EOF > /tmp/options.yaml", "tee /tmp/options.yaml <<EOF"]
)
def test_options_that_a_script_writes(tmp_path: Path, write_it: str) -> None:
    script = f"""DIR=/tmp
RANKS=4
{write_it}
tensor_parallel_size: $RANKS
kv_cache_config:
  free_gpu_memory_fraction: 0.8
EOF
trtllm-serve Qwen/Qwen3-8B --tp_size 2 --extra_llm_api_options /tmp/options.yaml
"""
    one = only(tmp_path, "run.sh", script)
    assert (one.case.deployment.value("tp"), one.case.deployment.value("utilization")) == (4, 0.8)


def test_a_systemd_unit(tmp_path: Path) -> None:
    unit = """[Unit]
Description=engine
[Service]
Environment="LENGTH=2048" CUDA_VISIBLE_DEVICES=0
ExecStart=/opt/venv/bin/vllm serve Qwen/Qwen3-8B \\
  --max-model-len ${LENGTH}
"""
    one = only(tmp_path, "engine.service", unit)
    assert settings_of(one) == {"model": "Qwen/Qwen3-8B", "context_tokens": 2048}
    assert one.case.granted == 1


@pytest.mark.parametrize(
    "start",
    [
        'CMD ["--model", "Qwen/Qwen3-8B", "--max-model-len", "4096"]',
        'ENTRYPOINT ["vllm", "serve", "Qwen/Qwen3-8B"]\nCMD ["--max-model-len", "4096"]',
        "CMD vllm serve Qwen/Qwen3-8B --max-model-len $LENGTH",
    ],
)
def test_a_dockerfile(tmp_path: Path, start: str) -> None:
    one = only(tmp_path, "Dockerfile", f"FROM vllm/vllm-openai:v0.9.2\nENV LENGTH=4096\n{start}\n")
    assert (one.case.deployment.version, settings_of(one)) == (
        "0.9.2",
        {"model": "Qwen/Qwen3-8B", "context_tokens": 4096},
    )


def test_variables_that_stand_for_options_of_llama_cpp(tmp_path: Path) -> None:
    content = """
services:
  a:
    image: ghcr.io/ggml-org/llama.cpp:server-cuda-b6000
    environment: [LLAMA_ARG_CTX_SIZE=8192, LLAMA_ARG_N_PARALLEL=4, LLAMA_ARG_HF_REPO=x/Qwen3-8B-GGUF:Q4_K_M]
"""
    one = only(tmp_path, "compose.yml", content, "rtx 4090")
    assert settings_of(one) == {
        "whole_context_tokens": 8192, "max_num_seqs": 4, "model": "x/Qwen3-8B-GGUF:Q4_K_M",
    }  # fmt: skip
    assert one.case.plan is not None
    assert one.case.plan.scenario.context_tokens == 2048
    assert one.verdict == "pass"


MODELFILE = """# mine
FROM %s
PARAMETER num_ctx %d
PARAMETER temperature 0.1
SYSTEM \"\"\"
FROM nowhere
PARAMETER num_ctx 1
\"\"\"
"""


def test_a_modelfile_that_fits(tmp_path: Path) -> None:
    one = only(tmp_path, "Modelfile", MODELFILE % ("qwen3:8b", 8192), "rtx 4090")
    assert (one.case.deployment.engine, one.case.deployment.model) == ("ollama", "qwen3:8b")
    assert settings_of(one) == {"context_tokens": 8192}
    assert (one.verdict, one.findings) == ("pass", ())
    assert any("llama.cpp" in told for told in one.case.assumed)


def test_ollama_is_slow_where_another_engine_fails(tmp_path: Path) -> None:
    one = only(tmp_path, "my.modelfile", MODELFILE % ("llama3.1:70b", 8192), "rtx 4090")
    (finding,) = one.findings
    assert (one.verdict, finding.rule, finding.severity) == ("pass", "spills-to-cpu", "warning")
    assert finding.message.startswith("slow: ")
    assert "of 80 layers" in finding.message


def test_layers_that_a_modelfile_leaves_on_the_cpu(tmp_path: Path) -> None:
    content = "FROM tinyllama\nPARAMETER num_ctx 256\nPARAMETER num_gpu 10\n"
    one = only(tmp_path, "Modelfile.small", content, "rtx 4090")
    assert one.case.deployment.model == "tinyllama:latest"
    assert [finding.message for finding in one.findings] == ["slow: 12 of 22 layers run on the CPU, as the file asks"]
    assert one.findings[0].line == 3


@pytest.mark.parametrize(("slots", "spilled"), [(1, False), (64, True)])
def test_context_of_ollama_is_that_of_every_slot(tmp_path: Path, slots: int, spilled: bool) -> None:
    content = f"""
services:
  ollama:
    image: ollama/ollama:0.12.3
    environment: {{OLLAMA_NUM_PARALLEL: {slots}, OLLAMA_CONTEXT_LENGTH: 8192}}
    entrypoint: [/bin/sh, -c]
    command: ["ollama serve & sleep 5; ollama pull qwen3:8b; wait"]
    gpus: [{{count: 1}}]
"""
    one = only(tmp_path, "compose.yml", content, "rtx 4090")
    assert (one.case.deployment.model, one.case.granted) == ("qwen3:8b", 1)
    assert ("spills-to-cpu" in [finding.rule for finding in one.findings]) == spilled
    assert one.verdict == "pass"


def test_a_folder_is_searched_for_what_deploys(tmp_path: Path) -> None:
    files = {
        "run.sh": "vllm serve Qwen/Qwen3-8B\n",
        "build.sh": "make all\n",
        "tool.py": "import os\nprint(os.sep)\n",
        "broken.py": "import vllm\ndef f(:\n",
        "Modelfile": "FROM qwen3:8b\n",
        "notes.txt": "vllm serve a/b\n",
        ".env": "MODEL=x\n",
    }
    found = checked(tmp_path, files)
    assert sorted(Path(one.case.deployment.file).name for one in found) == ["Modelfile", "run.sh"]
    assert "notes.txt" not in [Path(path).name for path in files_of([str(tmp_path)])]


def test_a_named_file_is_read_by_its_content(tmp_path: Path) -> None:
    assert only(tmp_path, "start", "#!/bin/sh\nvllm serve Qwen/Qwen3-8B\n").case.deployment.engine == "vllm"
    assert only(
        tmp_path, "deployed.txt", "services:\n  a: {image: 'vllm/vllm-openai:v0.9.2'}\n"
    ).case.deployment.version


def test_a_line_on_standard_input() -> None:
    found = gate(["-"], Policy(), None, "vllm serve Qwen/Qwen3-8B --max-model-len 32k")
    (one,) = found.checked
    assert one.case.deployment.value("context_tokens") == 32_000


@pytest.mark.parametrize(
    ("version", "words", "refused"),
    [
        ("0.11.0", "--enforce-eager false", True),
        ("0.11.0", "--enable-chunked-prefill True", True),
        ("0.6.3", "--enable-chunked-prefill True", False),
        ("0.11.0", "--enforce-eager", False),
    ],
)
def test_a_truth_value_behind_a_switch(tmp_path: Path, version: str, words: str, refused: bool) -> None:
    one = only(tmp_path, "a.sh", f"docker run vllm/vllm-openai:v{version} {words} --model Qwen/Qwen3-8B -tp 2\n")
    assert [hit.severity for hit in one.findings if "takes no value" in hit.message] == ["error"] * refused
    assert settings_of(one)["tp"] == 2


def test_a_word_for_a_variable_that_may_be_unset(tmp_path: Path) -> None:
    script = 'vllm serve Qwen/Qwen3-8B ${NAME:+--served-model-name "$NAME"} ${RANKS:+-tp $RANKS}\n'
    assert "tp" not in settings_of(only(tmp_path, "a.sh", script))
    assert settings_of(only(tmp_path, "b.sh", "RANKS=2\n" + script))["tp"] == 2
    image = "FROM vllm/vllm-openai:v0.9.2\nENTRYPOINT vllm serve Qwen/Qwen3-8B ${LENGTH:+--max-model-len $LENGTH}\n"
    assert not only(tmp_path, "Dockerfile", image).findings


def test_values_from_elsewhere(tmp_path: Path) -> None:
    script = 'vllm serve "$1" --api-key $KEY --max-lora-rank $RANK --lora-modules $NAME=$WHERE --port $PORT'
    found = checked(tmp_path, {"serve.sh": script}, "serve.sh")
    flags = [hit for one in found for hit in one.findings if hit.rule == "flags"]
    assert {hit.severity for hit in flags} == {"note"}
    assert [hit.message.partition(" is set")[0] for hit in flags] == ["the model", "--max-lora-rank", "--lora-modules"]
    assert [one.case.deployment.model for one in found] == [None]
    assert "model" in {unknown.fact for unknown in found[0].case.unknown}


@pytest.mark.parametrize(
    "line",
    [
        'ssh -p 22 host "cd /x && docker run -d --gpus 2 vllm/vllm-openai:v0.9.2 --model $M --max-model-len 4096"',
        "ssh host <<'EOF'\nvllm serve Qwen/Qwen3-8B --max-model-len 4096\nEOF",
        "tmux new-session -d -s one 'vllm serve Qwen/Qwen3-8B --max-model-len 4096'",
        'screen -dmS one bash -c "exec vllm serve $M --max-model-len 4096"',
        "docker exec -d box /bin/bash -c 'vllm serve Qwen/Qwen3-8B --max-model-len 4096'",
        'on() { ssh -q me@host "$@"; }\non "docker exec -d box bash -c \'vllm serve $M --max-model-len 4096\'"',
        "kubectl exec -it box -- vllm serve $M --max-model-len 4096",
        'C="vllm serve $M --max-model-len 4096"\neval "$C &"',
        'C="vllm serve $M --max-model-len 4096"\nif [ "$1" = x ]; then $C & else $C; fi',
    ],
)
def test_a_command_is_handed_on(tmp_path: Path, line: str) -> None:
    one = only(
        tmp_path, "run.sh", f"#!/bin/bash\nM=Qwen/Qwen3-8B\n{line}\ndocker logs -f vllm\nssh host 'pkill vllm'\n"
    )
    assert settings_of(one) == {"model": "Qwen/Qwen3-8B", "context_tokens": 4096}


def test_a_unit_that_a_script_writes(tmp_path: Path) -> None:
    script = """#!/bin/bash
LENGTH=8192
cat > /etc/systemd/system/one.service <<EOF
[Service]
Environment=CUDA_VISIBLE_DEVICES=0,1
ExecStart=/opt/bin/vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --max-model-len $LENGTH
EOF
systemctl start one
"""
    one = only(tmp_path, "install.sh", script)
    assert settings_of(one) == {"model": "Qwen/Qwen3-8B", "tp": 2, "context_tokens": 8192}
    assert (one.case.granted, one.case.deployment.found.line) == (2, 6)


COMPOSE_AMD = """
services:
  llm:
    image: rocm/vllm:latest
    devices: [/dev/kfd, /dev/dri]
    command: --model Qwen/Qwen3-8B
  plain:
    image: rocm/vllm:latest
    command: --model Qwen/Qwen3-8B
"""


def test_devices_without_a_number(tmp_path: Path) -> None:
    one = only(tmp_path, "compose.yml", COMPOSE_AMD)
    assert (one.case.deployment.found.name, one.case.granted) == ("llm", None)
    line = "docker run --device=/dev/kfd --device /dev/dri rocm/vllm:latest --model Qwen/Qwen3-8B"
    assert only(tmp_path, "run.sh", line).case.deployment.model == "Qwen/Qwen3-8B"
    assert checked(tmp_path, {"plain.sh": line.replace("/dev/kfd", "/dev/x")}, "plain.sh") == []


DOCKERFILE = """FROM vllm/vllm-openai:v0.9.2
ENV NAME=Qwen/Qwen3-8B
CMD ["--model", "Qwen/Qwen3-8B", "--max-model-len", "4096"]
"""
BUILDS = """services:
  llm:
    image: registry/own:1
    build: {context: ., dockerfile: Dockerfile.llm}
    gpus: 2
"""


@pytest.mark.parametrize(("more", "context"), [("", 4096), ("    command: --model $$NAME --max-model-len 512\n", 512)])
def test_a_service_built_by_a_dockerfile(tmp_path: Path, more: str, context: int) -> None:
    (one,) = checked(tmp_path, {"Dockerfile.llm": DOCKERFILE, "compose.yml": BUILDS + more}, "compose.yml")
    deployment = one.case.deployment
    assert (deployment.version, deployment.model, one.case.granted) == ("0.9.2", "Qwen/Qwen3-8B", 2)
    assert deployment.value("context_tokens") == context
    assert {hit.line for hit in one.findings if hit.rule == "gpus-granted"} <= {2, 4, 5}


@pytest.mark.parametrize(
    "line",
    [
        "sudo systemctl enable --now llama-server",
        "sudo cp build/bin/llama-server /usr/local/bin/",
        "sudo setcap 'cap_net_bind_service=+ep' /usr/local/bin/llama-server",
        "docker exec llama-server nvidia-smi",
        "timeout 5 pgrep -f vllm serve",
        "ssh host systemctl restart llama-server",
    ],
)
def test_no_server_is_started(tmp_path: Path, line: str) -> None:
    assert checked(tmp_path, {"run.sh": line}, "run.sh") == []


@pytest.mark.parametrize(
    "before",
    ["sudo -u me -E", "env A=1 ~/tools/env.sh", "timeout 600 nohup", "taskset -c 0-3 apptainer exec --nv a.sif"],
)
@pytest.mark.parametrize("program", ["vllm serve", "$HOME/bin/vllm serve", "../bin/vllm.exe serve"])
def test_launchers(tmp_path: Path, before: str, program: str) -> None:
    assert only(tmp_path, "run.sh", f"{before} {program} Qwen/Qwen3-8B").case.deployment.model == "Qwen/Qwen3-8B"


def test_doubled_backslashes_of_a_written_unit(tmp_path: Path) -> None:
    script = (
        "cat > a.service <<EOF\n[Service]\nExecStart=/bin/llama-server \\\\\n  -m /x/Qwen3-8B-Q8_0.gguf -c 4096\nEOF\n"
    )
    assert only(tmp_path, "run.sh", script).case.deployment.value("whole_context_tokens") == 4096


def test_an_image_whose_variables_say_it_all(tmp_path: Path) -> None:
    image = "FROM ghcr.io/ggml-org/llama.cpp:server-cuda-b4719\n"
    variables = "ENV LLAMA_ARG_MODEL=/models/Qwen3-8B-Q8_0.gguf\nENV LLAMA_ARG_CTX_SIZE=8192\n"
    deployment = only(tmp_path, "Dockerfile", image + variables).case.deployment
    assert (deployment.version, deployment.value("whole_context_tokens")) == ("b4719", 8192)
    assert checked(tmp_path, {"Dockerfile.base": image + "ENV A=1\n"}, "Dockerfile.base") == []
