"""Ollama in Kubernetes: what it serves is what a hook or a container of the pod pulls."""

from pathlib import Path

import pytest

from infopt.gate.check import gate
from infopt.gate.policy import Policy

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  initContainers: [{name: i, image: "busybox:1", INIT}]
  containers:
  - {name: o, image: "IMAGE", env: [{name: OLLAMA_KEEP_ALIVE, value: "-1"}, {name: M, value: "llama3.2:3b"}], HOOK}
  - {name: s, image: "curl:1", SIDE}
"""
NOTHING = "tty: false"


@pytest.mark.parametrize("image", ["ollama/ollama:0.5.1", "me/ollama-mine:0.5.1"])
@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("INIT", "command: [sh, -c, 'ollama serve & sleep 5; ollama pull qwen2.5:7b']"),
        ("HOOK", "lifecycle: {postStart: {exec: {command: [sh, -c, 'sleep 3 && /bin/ollama pull $M']}}}"),
        ("SIDE", "command: [sh, -c], args: ['ollama pull qwen2.5:7b']"),
        ("SIDE", "command: [sh, -c], args: ['ollama pull $NOBODY']"),
    ],
)
def test_what_the_pod_pulls(tmp_path: Path, image: str, place: str, text: str) -> None:
    content = POD.replace("IMAGE", image).replace(place, text)
    for other in ("INIT", "HOOK", "SIDE"):
        content = content.replace(other, NOTHING)
    file = tmp_path / "p.yaml"
    file.write_text(content, encoding="utf-8")
    (one,) = gate([str(file)], Policy()).checked
    deployment = one.case.deployment
    expected = {"$NOBODY": None, "$M": "llama3.2:3b"}.get(text.partition("pull ")[2].split("'")[0], "qwen2.5:7b")
    assert (deployment.engine, deployment.version, deployment.model) == ("ollama", "0.5.1", expected)


@pytest.mark.parametrize("container", ["image: me/ollama-webui:1", "image: me/ollama-mine:1, args: [--proxy]"])
def test_what_is_called_after_ollama_need_not_be_it(tmp_path: Path, container: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"apiVersion: v1\nkind: Pod\nspec: {{containers: [{{name: c, {container}}}]}}\n", encoding="utf-8")
    assert gate([str(file)], Policy()).checked == ()
