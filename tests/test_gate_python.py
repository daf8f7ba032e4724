"""Python programs that serve, read by their syntax tree and never run."""

import time
from pathlib import Path

import pytest
from gate_files import only

from infopt.gate.found import Found
from infopt.gate.readers.python_source import read


def texts(found: Found) -> list[str]:
    return [argument.text for argument in (*found.arguments, *found.added)]


MODAL = """
import json, subprocess
import modal

COUNT = 2
MODEL = "Qwen/" + "Qwen3-32B"
FAST = False
image = modal.Image.debian_slim().pip_install("vllm==0.19.0", "requests==2.0")
app = modal.App("x")

@app.function(image=image, gpu=f"H200:{COUNT}", timeout=60 * 10)
@modal.web_server(port=8000)
def serve():
    words = ["vllm", "serve", MODEL, "--port", str(8000)]
    words += ["--enforce-eager" if FAST else "--no-enforce-eager"]
    words.extend(["--tensor-parallel-size", str(COUNT)])
    words += ["--limit-mm-per-prompt", json.dumps({"image": 0})]
    subprocess.Popen(" ".join(words), shell=True)
"""


def test_a_modal_function() -> None:
    (found,) = read("app.py", MODAL)
    assert (found.engine, found.version, found.name) == ("vllm", "0.19.0", "app.py:serve")
    assert texts(found) == [
        "Qwen/Qwen3-32B", "--port", "8000", "--no-enforce-eager", "--tensor-parallel-size", "2",
        "--limit-mm-per-prompt", '{"image": 0}',
    ]  # fmt: skip
    assert (found.hardware.count, found.hardware.named) == (2, (("gpu", "H200"),))
    assert found.line == 14


@pytest.mark.parametrize(
    ("decorator", "count", "named"),
    [
        ('@app.function(gpu="A100-80GB:4")', 4, "A100-80GB"),
        ('@app.cls(gpu="L4")', 1, "L4"),
        ("@app.function(gpu=modal.gpu.A100(count=2, size='80GB'))", 2, "A100-80GB"),
        ('@app.function(gpu=["H100:2", "A100:4"])', 2, "H100"),
        ('@app.function(gpu=f"H100:{from_elsewhere}")', None, None),
        ('@bentoml.service(resources={"gpu": 2, "gpu_type": "nvidia-l4"})', 2, "nvidia-l4"),
        ('@serve.deployment(ray_actor_options={"num_gpus": 3})', 3, None),
    ],
)
def test_devices_of_a_decorator(decorator: str, count: int | None, named: str | None) -> None:
    (found,) = read("x.py", f'{decorator}\nclass A:\n    def b(self):\n        self.c = LLM(model="a/b")\n')
    names = [name for _, name in found.hardware.named]
    assert found.hardware.count == count
    assert named is None or names == [named]


@pytest.mark.parametrize(
    ("code", "engine", "expected"),
    [
        ('LLM(model="a/b", tensor_parallel_size=2)', "vllm", ["--model=a/b", "--tensor-parallel-size=2"]),
        ('vllm.LLM("x", model="a/b", enforce_eager=True)', "vllm", ["--model=a/b", "--enforce-eager"]),
        ('AsyncEngineArgs(model="a/b", enable_prefix_caching=False)', "vllm",
         ["--model=a/b", "--no-enable-prefix-caching"]),
        ('C = {"max_model_len": 2 * 1024}\nEngineArgs(model="a/b", **C)', "vllm",
         ["--model=a/b", "--max-model-len=2048"]),
        ('LLM(model="a/b", dtype=None, speculative_config={"method": "ngram"})', "vllm",
         ["--model=a/b", '--speculative-config={"method": "ngram"}']),
        ('LLM(model=os.getenv("M", "a/b"), max_model_len=int(os.environ["N"]))', "vllm",
         ["--model=a/b", "--max-model-len=$int"]),
        ('import sglang as sgl\nsgl.Engine(model_path="a/b", tp_size=2)', "sglang",
         ["--model-path=a/b", "--tp-size=2"]),
        ('os.system("vllm serve a/b --dtype half")', "vllm", ["a/b", "--dtype", "half"]),
        ('run(["python", "-m", "sglang.launch_server", "--model-path", M])', "sglang", ["--model-path", "$M"]),
        ('subprocess.run("vllm serve a/b".split())', "vllm", ["a/b"]),
    ],
)  # fmt: skip
def test_engines_in_programs(code: str, engine: str, expected: list[str]) -> None:
    (found,) = read("x.py", code)
    assert (found.engine, texts(found)) == (engine, expected)


def test_a_ray_configuration() -> None:
    code = """
from ray.serve.llm import LLMConfig
config = LLMConfig(
    model_loading_config=dict(model_id="name", model_source="Qwen/Qwen3-8B"),
    accelerator_type="L4",
    engine_kwargs=dict(tensor_parallel_size=2, max_model_len=4096),
)  # vllm
"""
    (found,) = read("x.py", code)
    assert (found.model, found.hardware.count, found.hardware.named[0][1]) == ("Qwen/Qwen3-8B", 2, "L4")
    assert texts(found) == ["--tensor-parallel-size=2", "--max-model-len=4096"]


@pytest.mark.parametrize(
    "code",
    [
        '"""How to: vllm serve a/b"""\n',
        "print('start it with vllm')\n",
        "class LLM:\n    pass\nLLM()\n",
        "Engine(model='car')\n",
        "def f(:\n",
        "x = [1, 2]\n",
    ],
)
def test_programs_that_start_nothing(code: str) -> None:
    assert list(read("x.py", code)) == []


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    code = f'open({str(mark)!r}, "w").write("x")\nx = __import__("os").system("touch {mark}")\nLLM(model=f"{{x}}")\n'
    (found,) = read("x.py", code)
    assert texts(found) == ["--model=$x"]
    assert not mark.exists()


HOSTILE = {
    "doubling": 'A0="x"\n' + "".join(f'A{i}=f"{{A{i - 1}}}{{A{i - 1}}}"\n' for i in range(1, 60)) + "LLM(model=A59)\n",
    "lists": 'A0=["vllm"]\n' + "".join(f"A{i}=[*A{i - 1},*A{i - 1}]\n" for i in range(1, 60)) + "run(A59)\n",
    "itself": "A=A+A\nB=f'{B}'\nLLM(model=A, dtype=B)\n",
    "brackets": "x=" + "[" * 5_000 + "]" * 5_000,
    "sum": "x=" + "+".join(["'a'"] * 5_000) + "\nLLM(model=x)\n",
    "servers": "".join(f"LLM(model='m{i}')\n" for i in range(5_000)),
    "functions": "".join(f"def f{i}():\n  a{i}=1\n" for i in range(8_000)),
    "power": "LLM(model=str(9**9**9**9))\n",
    "repeated": "LLM(model='a' * 10**10)\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_programs_end_soon(kind: str) -> None:
    before = time.process_time()
    assert len(list(read("x.py", HOSTILE[kind]))) <= 50
    assert time.process_time() - before < 4


def test_a_command_that_a_function_builds(tmp_path: Path) -> None:
    program = """import modal, subprocess
app = modal.App("x")

def command(length):
    return ["vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "8192"]

@app.function(gpu="L40S")
@modal.web_server(8000)
def serve():
    subprocess.Popen(command(1))
"""
    one = only(tmp_path, "app.py", program)
    assert one.case.device is not None
    assert (one.case.granted, one.case.device.accelerator.id) == (1, "l40s")


def test_a_function_that_several_hand_a_model() -> None:
    program = """import modal, subprocess
SMALL = "Qwen/Qwen3-8B"

def start(model, more, *, port=8000, name=None):
    subprocess.Popen(["vllm", "serve", model, "--port", str(port), *more])

@app.function(gpu="L40S")
def small():
    start(SMALL, ["--max-model-len", "8192"])

@app.function(gpu="H100:2")
def large():
    start("Qwen/Qwen3-32B", ["-tp", "2"], port=9000)

def other(model):
    start(model, [])
"""
    found = list(read("app.py", program))
    assert [(one.name, one.hardware.count, texts(one)) for one in found] == [
        ("app.py:small", 1, ["Qwen/Qwen3-8B", "--port", "8000", "--max-model-len", "8192"]),
        ("app.py:large", 2, ["Qwen/Qwen3-32B", "--port", "9000", "-tp", "2"]),
        ("app.py:other", None, ["$model", "--port", "8000"]),
    ]


def test_a_program_that_is_looked_for() -> None:
    program = """import os, shutil, subprocess

def binary():
    for place in ("/app/llama-server", "/usr/bin/llama-server"):
        if os.path.exists(place):
            return place
    return shutil.which("llama-server") or "/app/llama-server"

def start():
    model = os.environ.get("MODEL") or "/models/Qwen3-8B-Q4_K_M.gguf"
    subprocess.Popen([binary(), "-m", model, "-c", str(4096)])
"""
    (found,) = read("app.py", program)
    assert (found.engine, found.name) == ("llama.cpp", "app.py:start")
    assert texts(found) == ["-m", "/models/Qwen3-8B-Q4_K_M.gguf", "-c", "4096"]


def test_functions_that_call_themselves_end() -> None:
    program = 'def a():\n    return a() + a()\n\ncommand = ["vllm", "serve", a()]\n'
    before = time.process_time()
    assert len(list(read("x.py", program))) == 1
    assert time.process_time() - before < 4


ALLOWED = """import os, subprocess, modal
image = modal.Image.debian_slim().pip_install("vllm==0.9.2")%s

@app.function(gpu="H100:2", image=image)
def serve():
%s
    name = os.environ.get("NAME", " Qwen/Qwen3-8B ").strip()
    subprocess.Popen(["vllm", "serve", name, "--max-model-len", "90000"]%s)
"""
LONG = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


@pytest.mark.parametrize(
    ("image", "line", "call"),
    [
        (f'.env({{"{LONG}": "1"}})', "    pass", ""),
        ("", f'    os.environ["{LONG}"] = "1"', ""),
        ("", f'    os.environ.setdefault("{LONG}", "1")', ""),
        ("", "    pass", f', env={{**os.environ, "{LONG}": "1"}}'),
    ],
)
def test_variables_of_a_program(tmp_path: Path, image: str, line: str, call: str) -> None:
    one = only(tmp_path, "app.py", ALLOWED % (image, line, call))
    assert one.case.deployment.model == "Qwen/Qwen3-8B"
    bare = only(tmp_path, "bare.py", ALLOWED % ("", "    pass", ""))
    found = [[hit.severity for hit in each.findings if hit.rule == "context-above-model"] for each in (one, bare)]
    assert found == [["warning"], ["error"]]


@pytest.mark.parametrize("call", ['f"docker run --gpus 2 -p {PORT}:8000 {IMAGE} --model Qwen/Qwen3-8B"',
                                  '["docker", "run", "--gpus", "2", IMAGE, "--model", "Qwen/Qwen3-8B"]'])  # fmt: skip
def test_a_container_that_a_program_starts(tmp_path: Path, call: str) -> None:
    program = 'import subprocess\nPORT, IMAGE = 1, "vllm/vllm-openai:v0.9.2"\nIMAGE = "vllm/vllm-openai:v0.9.2"\n'
    one = only(tmp_path, "app.py", f"{program}subprocess.run({call})\n")
    assert (one.case.deployment.version, one.case.granted) == ("0.9.2", 2)
