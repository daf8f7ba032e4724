"""The action, the hook and the snippets of docs/ci.md: their shell parts are executed with the infopt of this tree."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "gate" / "outputs"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
# As GitHub runs `shell: bash`.
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkout with a deployment, and programs of the runner: ours, and those that only say what they were asked."""
    (tmp_path / "k8s").mkdir()
    (tmp_path / "bin").mkdir()
    with_fixture(tmp_path, "passes.yaml")
    program(tmp_path / "bin", "infopt", f'exec {shlex.quote(sys.executable)} -m infopt "$@"')
    for renderer in ("helm", "kubectl"):
        program(tmp_path / "bin", renderer, "cat k8s/server.yaml")
    # `python3 -m venv DIR` leaves a python in DIR that does the same; everything asked is written down.
    record = 'echo "$@" >> "$ASKED"; if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; fi'
    program(tmp_path / "bin", "python3", record)
    return tmp_path


def with_fixture(place: Path, name: str) -> None:
    (place / "k8s" / "server.yaml").write_text((FIXTURES / name).read_text(encoding="utf-8"), encoding="utf-8")


def shell(place: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **environment}
    return subprocess.run([*BASH, script], cwd=place, env=own, capture_output=True, text=True, check=False)


def step(place: Path, number: int, **inputs: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Run a step of the action; what it wrote into the runner's files."""
    files = {name: place / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY", "ASKED")}
    given = {name: entry["default"] for name, entry in ACTION["inputs"].items()} | inputs
    environment = {name: str(path) for name, path in files.items()} | {"RUNNER_TEMP": str(place / "temp")}
    for name, expression in ACTION["runs"]["steps"][number]["env"].items():
        (what,) = re.fullmatch(r"\$\{\{ (.*) \}\}", expression).groups()  # type: ignore[union-attr]
        environment[name] = str(place) if what == "github.action_path" else given[what.removeprefix("inputs.")]
    done = shell(place, ACTION["runs"]["steps"][number]["run"], **environment)
    return done, {name: path.read_text(encoding="utf-8") for name, path in files.items() if path.exists()}


def test_the_action_installs_its_own_checkout(place: Path) -> None:
    done, written = step(place, 0)
    assert done.returncode == 0, done.stderr
    venv, install = written["ASKED"].splitlines()
    assert venv == f"-m venv {place}/temp/infopt"
    assert install == f"-m pip install --quiet --constraint {place}/constraints.txt {place}"
    assert written["GITHUB_PATH"] == f"{place}/temp/infopt/bin\n"
    assert (ROOT / "constraints.txt").is_file()


@pytest.mark.parametrize(("fixture", "status"), [("passes.yaml", 0), ("fails.yaml", 1), ("undetermined.yaml", 4)])
def test_the_action_ends_as_the_gate_does(place: Path, fixture: str, status: int) -> None:
    with_fixture(place, fixture)
    done, written = step(place, 1, files="k8s\n", sarif="out.sarif")
    assert done.returncode == status, done.stderr
    assert written["GITHUB_OUTPUT"] == f"status={status}\n"
    assert written["GITHUB_STEP_SUMMARY"].startswith("<!-- infopt gate -->")
    assert '"2.1.0"' in (place / "out.sarif").read_text(encoding="utf-8")
    assert ("::error file=k8s/server.yaml,line=" in done.stdout) == (status > 0)


def test_inputs_of_the_action_reach_the_gate(place: Path) -> None:
    """What `infopt` is called with, word by word; then that it takes such words."""
    program(place / "bin", "infopt", 'printf "<%s>" "$@" >> "$ASKED"; echo >> "$ASKED"')
    inputs = {"files": "k8s\na folder", "policy": "p.yaml", "gpu": "2x l4", "baseline": "b.json"}
    _, written = step(place, 1, **inputs, **{"fail-on": "warning", "allow-undetermined": "true"})
    words = "<--fail-on><warning><--policy><p.yaml><--gpu><2x l4><--baseline><b.json><--allow-undetermined>"
    forms = (f"<gate>{words}<--format><{form}><--><k8s><a folder>\n" for form in ("github", "md"))
    assert written["ASKED"] == "".join(forms)
    (place / "asked").unlink()
    assert step(place, 1)[1]["ASKED"].splitlines()[0] == "<gate><--fail-on><error><--format><github><--><.>"


def test_an_input_is_never_shell(place: Path) -> None:
    """Inputs come by the environment, one file a line, spaces and all."""
    (place / "a folder").mkdir()
    (place / "a folder" / "x.yaml").write_text((FIXTURES / "fails.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    done, _ = step(place, 1, files="k8s\na folder\n$(touch pwned)\n--help", policy="")
    assert done.returncode == 1
    assert "--help: " in done.stderr
    assert not (place / "pwned").exists()
    for each in ACTION["runs"]["steps"]:
        assert "${{" not in each.get("run", "")


def test_the_action_documents_its_inputs() -> None:
    named = set(re.findall(r"`([a-z-]+)`", PAGE.partition("Its inputs:")[2].partition("Without the action")[0]))
    assert set(ACTION["inputs"]) | set(ACTION["outputs"]) == named - {"infopt"}
    used = {yaml.safe_load(block)["jobs"]["gate"]["steps"][1].get("with") is not None for block in jobs()}
    assert True in used
    for block in jobs():
        for each in yaml.safe_load(block)["jobs"]["gate"]["steps"]:
            assert set(each.get("with", {})) <= set(ACTION["inputs"])


def test_the_hook_takes_files_without_deployments(place: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["language"] == "python"
    (place / "other.yaml").write_text("a: 1\n", encoding="utf-8")
    assert shell(place, f"{hook['entry']} other.yaml").returncode == 0
    snippet = next(block for block in fenced("yaml") if block.startswith("repos:"))
    (used,) = yaml.safe_load(snippet)["repos"][0]["hooks"]
    assert used["id"] == hook["id"]
    with_fixture(place, "undetermined.yaml")
    assert shell(place, f"{hook['entry']} {shlex.join(used['args'])} k8s/server.yaml").returncode == 0


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def jobs() -> list[str]:
    return [block for block in fenced("yaml") if block.startswith("jobs:")]


def scripts() -> list[str]:
    """The shell parts of the page, one script a job."""
    found = []
    for block in fenced("yaml"):
        data: dict[str, Any] = yaml.safe_load(block)
        for job in (*data.get("jobs", {}).values(), *data.values()):
            if isinstance(job, dict):
                lines = [each["run"] for each in job.get("steps", []) if "run" in each] or job.get("script", [])
                found += ["\n".join(lines)] if lines else []
    found += ["\n".join(re.findall(r"sh '([^']+)'", block)) for block in fenced("groovy")]
    return [*found, *(line for block in fenced("bash")[:1] for line in block.splitlines())]


def test_the_page_has_a_script_for_each_system() -> None:
    assert len(scripts()) == 5


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.splitlines()[0])
def test_scripts_of_the_page_stop_what_fails(place: Path, script: str) -> None:
    done = shell(place, script)
    assert done.returncode == 0, done.stdout + done.stderr
    with_fixture(place, "fails.yaml")
    assert shell(place, script).returncode == 1


def test_a_baseline_accepts_what_is_there(place: Path) -> None:
    with_fixture(place, "fails.yaml")
    write, check = fenced("bash")[1].splitlines()
    shell(place, write)
    assert shell(place, check).returncode == 0
    assert shell(place, "infopt gate k8s").returncode == 1
