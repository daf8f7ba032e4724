"""The folder of somebody who reads the pages and has what they speak of: files of a server, records, saved runs."""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import calibrations
import pytest

from infopt.cli import run

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
CONFIG = (
    '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,'
)
CONFIG += ' "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,'
CONFIG += ' "head_dim": 64, "torch_dtype": "bfloat16", "tie_word_embeddings": true, "max_position_embeddings": 131072}'
CASES = "model,hw,tp,ctx,concurrency\n70b,h100,4,32k,8\n"
OURS = "title: Our own\nsource: handbook\nitems:\n  - id: our-review\n    text: The change was reviewed\n"
OURS += '    who: reviewer\n    how: "two approvals"\n'
ANSWERS = 'rollback: {status: pass, by: Jane Doe, date: 2026-11-20, note: "drill: 6 minutes"}\n'
SIMULATED = "simulate --model 8b --hw h100 --isl 1000 --osl 200 --rate 20/s --requests 300"
# Copies of files in tests, by the names the pages give them.
COPIED = {
    "before.txt": DATA / "metrics" / "vllm_0.32_before.txt",
    "earlier.txt": DATA / "metrics" / "vllm_0.32_before.txt",
    "after.txt": DATA / "metrics" / "vllm_0.32_after.txt",
    "metrics.txt": DATA / "metrics" / "vllm_0.32_after.txt",
    **{f"{name}.json": DATA / "benchmarks" / "vllm_serve.json" for name in ("bench", "1", "2", "3")},
    "observed.json": ROOT / "docs" / "examples" / "observed.json",
    "server.log": DATA / "start_logs" / "vllm_v1_colours.log",
    "FILE.csv": ROOT / "studies" / "data" / "memory_truth.csv",
    "mine.csv": ROOT / "studies" / "data" / "speed_truth.csv",
    "docs/examples/vllm.yaml": ROOT / "docs" / "examples" / "vllm.yaml",
    "tests/gate/outputs/passes.yaml": ROOT / "tests" / "gate" / "outputs" / "passes.yaml",
    "tests/gate/outputs/undetermined.yaml": ROOT / "tests" / "gate" / "outputs" / "undetermined.yaml",
    **dict.fromkeys(("k8s/chat.yaml", "deployment.yaml"), ROOT / "tests" / "gate" / "outputs" / "passes.yaml"),
}
WRITTEN = {
    "config.json": CONFIG,
    "my-model/config.json": CONFIG,
    "cases.csv": CASES,
    "models.csv": CASES,
    "ours.yaml": OURS,
    "checklist/ours.yaml": OURS,
    "answers.yaml": ANSWERS,
    "checklist/answers.yaml": ANSWERS,
    "prompts.jsonl": '{"prompt": "Once upon a time"}\n',
}
# What infopt itself wrote before, in this order.
MADE = (
    "observe --log server.log --model 8b --hw h100 --calibrate h100.yaml",
    f"{SIMULATED} --save baseline.yaml",
    f"{SIMULATED} --weights fp8 --save fp8.yaml",
)


def furnished(folder: Path) -> Path:
    """The folder with everything in it; the working directory is as it was."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        furnish(folder)
    return folder


def furnish(folder: Path) -> None:
    """Put everything there; the working directory must be `folder`."""
    for name, source in COPIED.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / name)
    for name, text in WRITTEN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("h200.yaml", "monday.yaml", "friday.yaml"):
        calibrations.written(folder / name, calibrations.calibration(calibrations.measurement(), calibrations.step()))
    for arguments in MADE:
        assert run(shlex.split(arguments)) == 0, arguments
    for copy in ("a.yaml", "measured.yaml", "rungs/1.yaml"):
        (folder / copy).parent.mkdir(exist_ok=True)
        shutil.copyfile(folder / "baseline.yaml", folder / copy)
    for copy in ("b.yaml", "rungs/2.yaml"):
        shutil.copyfile(folder / "fp8.yaml", folder / copy)


# What a shell makes of a line beside words.
SHELL = re.compile(r"[|&;<>*?$`~\\]")
Done = subprocess.CompletedProcess[str]


def typed(command: str, folder: Path, program: Path) -> Done:
    """A command line as it stands on a page: in a shell where it needs one, and else in this process."""
    return in_a_shell(command, folder, program) if SHELL.search(command) else here(command, folder)


def here(command: str, folder: Path) -> Done:
    """`infopt` as its program runs it, without the start of a process; what the program does not catch is raised."""
    name, *words = shlex.split(command)
    assert name == "infopt", command
    out, error = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = run(words)
    return Done(command, status, out.getvalue(), error.getvalue())


def in_a_shell(command: str, folder: Path, program: Path) -> Done:
    """The line typed into bash where `infopt` is installed."""
    program.mkdir(exist_ok=True)
    infopt = program / "infopt"
    infopt.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m infopt "$@"\n', encoding="utf-8")
    infopt.chmod(0o755)
    shell = ["bash", "--noprofile", "--norc", "-o", "pipefail", "-c", f'PATH="{program}:$PATH"; {command}']
    return subprocess.run(
        shell,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
