"""Deployment files written into a folder and checked."""

from pathlib import Path

from infopt.gate.check import Checked, gate
from infopt.gate.policy import Policy

# One small server.
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: chat}
spec:
  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
  containers:
  - name: server
    image: vllm/vllm-openai:v0.10.0
    args: [--model, meta-llama/Llama-3.1-8B-Instruct, "--max-model-len=8192"]
    resources: {limits: {nvidia.com/gpu: 1}}
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")


def checked(
    folder: Path, files: dict[str, str], named: str | None = None, hardware: str | None = None
) -> list[Checked]:
    """The deployments of files, of one of them where it is named."""
    write(folder, files)
    found = gate([str(folder / named) if named else str(folder)], Policy(hardware=hardware))
    assert found.errors == ()
    return list(found.checked)


def only(folder: Path, name: str, content: str, hardware: str | None = None) -> Checked:
    (one,) = checked(folder, {name: content}, name, hardware)
    return one


def settings_of(one: Checked) -> dict[str, object]:
    return {name: setting.value for name, setting in one.case.deployment.settings.items()}
