"""Shell completion: what is proposed for a line, and that bash, zsh and fish put it there."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infopt.cli_completion import FILES, NAMES, proposed, words_of
from infopt.reports.completion import script

PROGRAMS = Path(sys.executable).parent


def words(line: str) -> list[str]:
    return [word for word, _ in proposed(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("infopt pla", ["plan"]),
        ("infopt models s", ["show"]),
        ("infopt probe band", ["bandwidth"]),
        ("infopt plan --max-num-s", ["--max-num-seqs"]),
        ("infopt plan --model 70", ["70b"]),
        ("infopt plan -m 70", ["70b"]),
        ("infopt plan --model=70", ["--model=70b"]),
        ("infopt plan --model meta-llama/llama-3.1-70", ["meta-llama/Llama-3.1-70B"]),
        ("infopt plan --model Llama-3.1-70", ["Llama-3.1-70B", "Llama-3.1-70B-Instruct-FP8"]),
        ("infopt plan --hw h100:", ["h100:1", "h100:2", "h100:4", "h100:8"]),
        ("infopt plan --hw=h100:", ["--hw=h100:1", "--hw=h100:2", "--hw=h100:4", "--hw=h100:8"]),
        ("infopt search --hw h200,h100-p", ["h200,h100-pcie-80gb"]),
        ("infopt plan --model 8b --engine s", ["sglang"]),
        ("infopt plan --engine vllm --kv fp8_e4", ["fp8_e4m3", "fp8_e4m3fn"]),
        ("infopt boundary kv", ["kv-quantization", "kv-offload"]),
        ("infopt boundary --model 8b kv-o", ["kv-offload"]),
        ("infopt boundary --with kv-fp8,pre", ["kv-fp8,prefix-caching"]),
        ("infopt boundary --method me", ["medusa"]),
        ("infopt plan --format m", ["md"]),
        ("infopt models show 70", ["70b"]),
        ("infopt hardware show h100-s", ["h100-sxm-80gb"]),
        ("infopt schema pl", ["plan"]),
        ("infopt rules tig", ["tight"]),
        ("infopt simulate --workload in", ["interactive"]),
        ("infopt completion z", ["zsh"]),
        ("infopt plan --observed ", [FILES]),
        ("infopt plan --model ./con", [FILES]),
        ("infopt gate k8s/", [FILES]),
        ("infopt gate a.yaml b", [FILES]),
        ("infopt mcp --root ", [FILES]),
        ("infopt plan --ctx ", []),
        ("infopt plan x", []),
        ("infopt nothing --mo", []),
        ("infopt models nothing x", []),
        ("infopt plan --model 'meta-llama/Llama-3.1-70", ["meta-llama/Llama-3.1-70B"]),
    ],
)
def test_what_is_proposed(line: str, expected: list[str]) -> None:
    assert words(line) == expected


def test_without_a_beginning_all_is_proposed() -> None:
    assert {"plan", "gate", "models", "mcp", "schema", "completion"} <= set(words("infopt "))
    assert {"--model", "--hw", "--json"} <= set(words("infopt plan --"))
    assert dict(proposed("infopt plan --isl"))["--isl"] == "Input (prompt) tokens."


def test_every_source_of_names_has_some_and_none_with_a_blank() -> None:
    for label, source in NAMES.items():
        found = source("")
        assert found, label
        assert not [name for name in found if any(character in name for character in " \t\n'\"$`")], label


@pytest.mark.parametrize(
    "line", ["", " ", "infopt", "infopt 'a", 'infopt "', "infopt \\", "infopt plan --hw '", "infopt \0"]
)
def test_any_line_is_taken(line: str) -> None:
    assert words_of(line)[:-1]
    words(line)


def answered(line: str) -> str:
    environment = {**os.environ, "_INFOPT_COMPLETE": line}
    ran = subprocess.run([PROGRAMS / "infopt"], env=environment, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return ran.stdout


def test_the_program_answers_a_script() -> None:
    assert answered("infopt plan --model 70") == "70b\n"
    assert answered("infopt gate ") == ":files\n"
    assert answered("infopt plan --ctx ") == ""


# What a terminal obeys and does not show.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00\x07\r]")
BASH = """
source <(infopt completion bash)
COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}
_infopt_completion infopt 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


def in_path() -> dict[str, str]:
    """An environment in which `infopt` is found, as of nobody in particular."""
    return {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": "/nonexistent", "TERM": "dumb", "LC_ALL": "C.UTF-8"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("infopt plan --model 70", ["70b"]),
        ("infopt plan --hw h100:", ["1", "2", "4", "8"]),  # bash breaks words at a colon
        ("infopt plan --hw=h100-s", ["h100-sxm-80gb"]),
        ("infopt gate ", [""]),
    ],
)
def test_bash_is_given_what_it_wants(line: str, expected: list[str]) -> None:
    ran = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", line], env=in_path(), capture_output=True, text=True, check=True
    )
    assert ran.stdout.removesuffix("\n").split("\n") == expected


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not here")
def test_fish_completes(tmp_path: Path) -> None:
    def completed(line: str) -> list[str]:
        code = f"infopt completion fish | source; complete -C '{line}'"
        environment = {**in_path(), "HOME": str(tmp_path)}
        ran = subprocess.run(
            ["fish", "--no-config", "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        return [one.split("\t")[0] for one in ran.stdout.splitlines()]

    (tmp_path / "values.yaml").touch()
    assert completed("infopt plan --model 70") == ["70b"]
    assert completed("infopt plan --hw h100:") == ["h100:1", "h100:2", "h100:4", "h100:8"]
    assert completed("infopt plan --hw=h100-s") == ["--hw=h100-sxm-80gb"]
    assert completed("infopt gate val") == ["values.yaml"]


def typed(command: list[str], setup: str, keys: str, wanted: str, folder: Path) -> str:
    """What an interactive shell shows after these keys, until `wanted` is there."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, {**in_path(), "HOME": str(folder), "PS1": "READY ", "TERM": "vt100"})
    shown, end = "", time.monotonic() + 30

    def until(text: str) -> None:
        nonlocal shown
        while text not in CONTROL.sub("", shown) and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    shown += os.read(terminal, 4096).decode("utf-8", "replace")
                except OSError:
                    return

    until("READY")
    os.write(terminal, f"{setup}; echo SET''UP\n".encode())
    until("SETUP")
    shown = ""
    os.write(terminal, keys.encode())
    until(wanted)
    os.write(terminal, b"\x03\x04exit\n")
    os.close(terminal)
    os.waitpid(child, 0)
    return CONTROL.sub("", shown)


SETUP = {
    "bash": "source <(infopt completion bash)",
    "zsh": "autoload -U compinit; compinit -u; source <(infopt completion zsh)",
}
INTERACTIVE = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}


@pytest.mark.slow
@pytest.mark.parametrize("shell", SETUP)
@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ("infopt plan --model 70\t", "--model 70b"),
        ("infopt pla\t", "infopt plan"),
        ("infopt hardware show h100-s\t", "h100-sxm-80gb"),
        ("infopt plan --hw custom:1\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7fh100-sx\t", "h100-sxm-80gb"),
        ("infopt models show qwen2.5-32\t", "B-Instruct"),
        ("infopt gate val\t", "values.yaml"),
        ("infopt plan --engine=sg\t", "--engine=sglang"),
    ],
)
def test_a_tab_completes(shell: str, keys: str, wanted: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    (tmp_path / "values.yaml").touch()
    assert wanted in typed(INTERACTIVE[shell], SETUP[shell], keys, wanted, tmp_path)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_scripts_are_well_formed(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    file = tmp_path / "script"
    file.write_text(script(shell), encoding="utf-8")
    subprocess.run([shell, "-n", file], check=True)
