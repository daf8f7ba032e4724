"""Engines that Python programs build: read from the syntax tree, with the file's variables."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.gate.engine_calls import MOST_CHARACTERS, engine_call, is_program, libraries
from infopt.gate.nodes import Text, at


def call(program: str, **environment: str) -> list[str] | None:
    known = {name: at(value, 90, 9) for name, value in environment.items()}
    found = engine_call(at(program, 10, 5, "|"), known)
    return None if found is None else [found.engine, *(argument.text for argument in found.arguments)]


HEAD = "import os\nimport vllm\nfrom vllm import LLM, AsyncEngineArgs\n"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("LLM(model='m/x', tensor_parallel_size=2)", ["--model=m/x", "--tensor-parallel-size=2"]),
        ("vllm.LLM(model='m', enforce_eager=True, enable_prefix_caching=False)",
         ["--model=m", "--enforce-eager", "--no-enable-prefix-caching"]),
        ("LLM(model=os.environ['A'], max_model_len=int(os.getenv('B', '8')))", ["--model=given", "--max-model-len=8"]),
        ("LLM(model=os.environ.get('A', 'other'), seed=None)", ["--model=given"]),
        ("N = 4\nLLM(tensor_parallel_size=N, model=f(x))", ["--tensor-parallel-size=4"]),
        ("class S:\n  def __init__(self, n):\n    LLM(max_num_seqs=n)\nS.bind(n=3)", ["--max-num-seqs=3"]),
        ("A = B\nB = A\nLLM(model=A)", []),
        ("LLM(**options)", []),
        ("LLM(model=os.environ[name], dtype=os.getenv(name))", []),
        ("LLM(gpu_memory_utilization=float(os.getenv('U', 0.9)))", ["--gpu-memory-utilization=0.9"]),
    ],
)  # fmt: skip
def test_keywords(program: str, expected: list[str]) -> None:
    assert call(HEAD + program, A="given") == ["vllm", *expected]


def test_places_are_those_of_the_file() -> None:
    program = "LLM(model='m',\n    max_model_len=int(os.getenv('L', '9')),\n    dtype=os.getenv('D'))"
    found = engine_call(at(HEAD + program, 10, 5, "|"), {"D": at("half", 90, 9)})
    assert found is not None
    assert [(one.line, one.column) for one in found.arguments] == [(14, 15), (15, 42), (90, 9)]
    assert found.variables == ("L", "D")


@pytest.mark.parametrize(
    "program",
    [
        "LLM(model='m')",  # of nobody knows which package
        "from transformers import LLM\nLLM(model='m')",
        "import vllm\nprint('LLM(model=1)')",
        "import vllm\ndef broken(:\n",
        "x" * (MOST_CHARACTERS + 1),
        "\0",
    ],
)
def test_no_engine(program: str) -> None:
    assert call(program) is None


def test_deep_programs_end() -> None:
    before = time.process_time()
    assert call("(" * 90_000) is None
    assert call(HEAD + "LLM(model=" + "int(" * 60 + "1" + ")" * 60 + ")") == ["vllm"]
    assert time.process_time() - before < 2


def test_libraries_and_programs() -> None:
    program = at("import torch\nfrom transformers import pipeline\n", 1, 1)
    assert libraries(program) == ("transformers", "torch")
    assert is_program("a.py", program)
    assert not is_program("a.txt", program)
    assert not is_program("a.py", at("not python at all", 1, 1))


@given(st.text(max_size=200))
def test_any_text_is_answered(program: str) -> None:
    text: Text = at("import vllm\n" + program, 1, 1, "|")
    engine_call(text, {})
    libraries(text)
