"""What `search --emit` writes passes `gate`, with the devices and the plan it was searched with."""

import json
from pathlib import Path
from typing import Any

import pytest

from infopt.cli import run

SEARCH = (
    "search",
    "--model",
    "70b",
    "--ttft",
    "800ms",
    "--tpot",
    "40ms",
    "--rate",
    "5/s",
    "--isl",
    "2000",
    "--osl",
    "300",
)


def checked(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> tuple[int, dict[str, Any]]:
    status = run(["gate", str(path), "--json", *options])
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, data


@pytest.mark.parametrize(("form", "given"), [("k8s", ()), ("helm", ()), ("compose", ("--gpu", "b200"))])
def test_what_search_emits_passes(
    form: str, given: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "deployment.yaml"
    assert run([*SEARCH, "--hw", "b200", "--emit", form, "--out", str(path)]) == 0
    capsys.readouterr()
    status, data = checked(capsys, path, *given)
    assert status == 0, data["findings"]
    assert data["deployments"]
    for deployment in data["deployments"]:
        assert deployment["model"] == "meta-llama/Llama-3.1-70B"
        assert deployment["engine"] == "vllm"
        assert deployment["hardware"].startswith("b200")
        assert deployment["fits"] is True
        assert deployment["gpus"] == deployment["gpus_needed"]


def test_a_compose_file_cannot_name_its_devices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    assert run([*SEARCH, "--hw", "b200", "--emit", "compose", "--out", str(path)]) == 0
    capsys.readouterr()
    status, data = checked(capsys, path)
    assert status == 4
    assert {u["fact"] for d in data["deployments"] for u in d["unknown"]} == {"GPU type"}
