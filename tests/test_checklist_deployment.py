"""`checklist --deployment`: the file's facts stand for options, typed ones win, and what it does not say is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from infopt.cli import run

FILE = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  template:
    spec:
      nodeSelector: {{{gpu}}}
      containers:
        - name: server
          image: vllm/vllm-openai:v0.17.1
          args: [--model=meta-llama/Llama-3.1-8B-Instruct, --max-model-len=16384, --kv-cache-dtype=fp8]
          resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""
H100 = "nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3"


def file(tmp_path: Path, *names: str, gpu: str = H100) -> str:
    path = tmp_path / "deployment.yaml"
    path.write_text("---".join(FILE.format(name=name, gpu=gpu) for name in names), encoding="utf-8")
    return str(path)


def asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, Any]:
    monkeypatch.setattr("sys.argv", ["infopt", "checklist", *words])
    assert run(["checklist", *words, "--json"]) in (0, 1, 4)
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return data


def test_the_file_is_the_options_it_stands_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load = ("--isl", "2000", "--osl", "300", "--batch", "4")
    by_file = asked(capsys, monkeypatch, "--deployment", file(tmp_path, "chat"), *load)
    options = (
        "--model meta-llama/Llama-3.1-8B-Instruct --hw h100-sxm-80gb --gpus 1 --engine vllm --engine-version 0.17.1"
    )
    limits = "--kv fp8 --ctx 16384 --util 0.9 --max-num-seqs 1024 --max-num-batched-tokens 8192"
    by_hand = asked(capsys, monkeypatch, *options.split(), *limits.split(), *load)
    status = {item["id"]: (item["status"], item["value"]) for item in by_file["items"]}
    assert status == {item["id"]: (item["status"], item["value"]) for item in by_hand["items"]}
    assert status["context-at-maximum"][0] == "pass"  # four of 16,384 tokens fit
    commands = " ".join(item["command"] or "" for item in by_file["items"])
    assert "--deployment" not in commands
    assert "--hw h100-sxm-80gb" in commands


def test_the_limit_of_the_file_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred requests of 2,300 tokens fit, a hundred of the file's 16,384 do not."""
    words = ("--deployment", file(tmp_path, "chat"), "--isl", "2000", "--osl", "300", "--batch", "100")
    items = {item["id"]: item["status"] for item in asked(capsys, monkeypatch, *words)["items"]}
    assert items["context-at-maximum"] == "fail"


def test_typed_options_win(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--deployment", file(tmp_path, "chat"), "--hw", "h200", "--kv", "bf16")
    items = {item["id"]: item for item in asked(capsys, monkeypatch, *words)["items"]}
    assert items["kv-share"]["status"] == "pass"
    assert "h200" in " ".join(item["command"] or "" for item in items.values())


@pytest.mark.parametrize(
    ("names", "gpu", "words", "status", "said"),
    [
        (("chat", "code"), H100, (), 2, "--named"),
        (("chat",), H100, ("--named", "other"), 2, "called other"),
        (("chat",), "disk: ssd", (), 4, "GPU type"),
    ],
)
def test_what_the_file_leaves_open_is_one_line(
    names: tuple[str, ...],
    gpu: str,
    words: tuple[str, ...],
    status: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["checklist", "--deployment", file(tmp_path, *names, gpu=gpu), *words]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_one_of_several_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = asked(capsys, monkeypatch, "--deployment", file(tmp_path, "chat", "code"), "--named", "code")
    assert data["items"]


@pytest.mark.parametrize(
    ("words", "said"), [((), "--model"), (("--model", "8b", "--hw", "h100", "--named", "x"), "--deployment")]
)
def test_without_a_file(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["checklist", *words]) == 2
    assert said in capsys.readouterr().err
