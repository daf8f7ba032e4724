"""The comparison with other tools: what is asked, how answers are read, the stand-in hub, the page. No installs."""

import copy
import json
import os
import shutil
import ssl
import sys
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from scripts import ROOT, script

ASKED = yaml.safe_load((ROOT / "bench/peers.yaml").read_text(encoding="utf-8"))
MEASURED = yaml.safe_load((ROOT / "bench/peers_measured.yaml").read_text(encoding="utf-8"))
SAMPLES = yaml.safe_load((ROOT / "tests/data/peers.yaml").read_text(encoding="utf-8"))
FIGURES = {"weights", "kv", "fits", "tpot"}
RECORD = yaml.safe_load((ROOT / ASKED["question"]["record"]).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def peers() -> ModuleType:
    return script("bench/peers.py")


@pytest.fixture(scope="module")
def answers() -> ModuleType:
    return script("bench/peers_answers.py")


@pytest.mark.parametrize("name", ASKED["tools"])
def test_every_tool_is_pinned_asked_and_read(name: str) -> None:
    """Each figure is read or said to be lacking, never both; all that pip installed is pinned."""
    tool = ASKED["tools"][name]
    assert tool["for"]
    assert tool["help"]
    assert tool["plan"]
    assert set(tool["answer"]) | set(tool.get("lacks", {})) == FIGURES
    assert not set(tool["answer"]) & set(tool.get("lacks", {}))
    if name != "infopt":
        locked = (ROOT / "bench/peers_locked" / f"{name}.txt").read_text(encoding="utf-8").lower().splitlines()
        assert f"{name}=={tool['version']}" in [line.replace("_", "-") for line in locked]
        assert all("==" in line for line in locked)


@pytest.mark.parametrize("name", ASKED["tools"])
def test_answers_are_read_in_base_units(name: str, answers: ModuleType) -> None:
    output = answers.Output(SAMPLES[name]["out"], "", 0)
    read = answers.read(ASKED["tools"][name]["answer"], output, 4)
    assert read == pytest.approx(SAMPLES[name]["figures"])
    assert set(read) == set(SAMPLES[name]["figures"])


def test_an_answer_that_changed_its_form_is_an_error(answers: ModuleType) -> None:
    empty = answers.Output("{}", "", 0)
    with pytest.raises(KeyError):
        answers.read(ASKED["tools"]["kvfit"]["answer"], empty, 4)
    with pytest.raises(ValueError, match="nothing like"):
        answers.read(ASKED["tools"]["hfit"]["answer"], empty, 4)


def test_a_refusal_on_stderr_is_read(answers: ModuleType) -> None:
    refused = answers.Output("", "Traceback (most recent call last):\nRuntimeError: OOM: does not fit", 1)
    spec = {"fits": ASKED["tools"]["aiconfigurator"]["answer"]["fits"]}
    assert answers.read(spec, refused, 1) == {"fits": False}
    assert refused.traceback


def test_the_page_is_of_the_kept_figures(peers: ModuleType) -> None:
    kept = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    assert kept == peers.page(ASKED, MEASURED), "stale: run `python bench/peers.py --page`"


def test_every_tool_is_on_the_page_or_its_reason(peers: ModuleType) -> None:
    assert set(MEASURED["start"]["tools"]) | set(MEASURED["missing"]) == set(ASKED["tools"])
    lost = copy.deepcopy(MEASURED)
    del lost["start"]["tools"]["llmfit"]
    lost["missing"]["llmfit"] = "does not install: no wheel for this system"
    assert "llmfit was not compared: does not install: no wheel for this system" in peers.page(ASKED, lost)


@pytest.mark.parametrize("miss", ["floor", "start-up", "search", "scenarios", "no peer", "no aiconfigurator"])
def test_a_missed_target_is_told(miss: str, peers: ModuleType) -> None:
    good = _reaching()
    assert all(holds for _, holds in peers.targets(good))
    tools, search = good["start"]["tools"], good["search"]
    if miss == "floor":
        good["start"]["plan_to_floor"]["wall"] = [1.3, 1.36, 1.4]
    elif miss == "start-up":
        tools["hfit"]["ours_to_its_help"]["cpu"] = [0.9, 1.01, 1.1]
    elif miss == "search":
        search["aiconfigurator"]["times_infopt"]["cpu"] = [9.0, 9.9, 12.0]
    elif miss == "scenarios":
        search["infopt"]["scenarios"] = search["aiconfigurator"]["scenarios"] - 1
    elif miss == "no peer":
        tools["hfit"]["watched"] = []
    else:
        del search["aiconfigurator"]
    assert not all(holds for _, holds in peers.targets(good))


def _reaching() -> dict[str, Any]:
    """Figures that reach every target."""
    fast = {"wall": [0.3, 0.4, 0.5], "cpu": [0.3, 0.4, 0.5]}
    ours = {"watched": ["typer"], "ours_to_its_help": {"wall": [1.1, 1.2, 1.3], "cpu": [1.1, 1.2, 1.3]}}
    slow = {"wall": [11.0, 12.0, 13.0], "cpu": [14.0, 15.0, 16.0]}
    return {
        "start": {
            "plan_to_floor": {"wall": [1.2, 1.3, 1.4]},
            "tools": {"infopt": ours, "hfit": {"watched": ["rich"], "ours_to_its_help": fast}},
        },
        "search": {"infopt": {"scenarios": 500}, "aiconfigurator": {"scenarios": 400, "times_infopt": slow}},
    }


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the stand-in hub signs its certificate with openssl")
def test_the_stand_in_hub_has_the_model_and_reaches_no_other_host(tmp_path: Path) -> None:
    hub_script, name = script("bench/peers_hub.py"), ASKED["question"]["model"]
    with hub_script.Hub(tmp_path, RECORD["config"], name) as hub:
        proxy = urllib.request.ProxyHandler({"https": hub.environment["HTTPS_PROXY"]})
        context = ssl.create_default_context(cafile=hub.environment["SSL_CERT_FILE"])
        opener = urllib.request.build_opener(proxy, urllib.request.HTTPSHandler(context=context))
        summary = json.load(opener.open(f"https://huggingface.co/api/models/{name}", timeout=10))
        assert summary["safetensors"]["total"] == RECORD["published"]["params_total"]
        shard = next(one for one in summary["siblings"] if one["rfilename"].startswith("model-00001-of"))
        asked = urllib.request.Request(
            f"https://huggingface.co/{name}/resolve/main/{shard['rfilename']}", headers={"Range": "bytes=0-7"}
        )
        with opener.open(asked, timeout=10) as answer:
            assert answer.headers["Content-Range"] == f"bytes 0-7/{shard['size']}"
            header_bytes = int.from_bytes(answer.read(), "little")
        assert 100 < header_bytes < shard["size"]
        with pytest.raises(urllib.error.URLError, match="403"):
            opener.open("https://example.org/", timeout=10)


def test_the_stand_in_hub_refuses_what_it_cannot_make() -> None:
    with pytest.raises(ValueError, match="only Llamas"):
        script("bench/peers_hub.py").llama_tensors({**RECORD["config"], "architectures": ["MixtralForCausalLM"]})


def test_a_run_is_metered_without_the_memory_of_the_benchmark(tmp_path: Path) -> None:
    """The benchmark holds 300 MB here, its child 100 MB: Linux would count the larger for both."""
    runs = script("bench/peers_runs.py")
    held = b"x" * 300_000_000
    workshop = runs.Workshop(tmp_path, {"task.py": "held = b'x' * 100_000_000\nraise SystemExit(3)"}, {})
    run = workshop.run([sys.executable, "-S", str(tmp_path / "task.py")])
    assert len(held) > run.peak_bytes > 100e6
    assert run.output.status == 3
    assert 0 < run.cpu_s <= run.wall_s * (os.cpu_count() or 1)


@pytest.mark.parametrize(("text", "fresh"), [((ROOT / "units.py").read_bytes(), True), (b"old = True", False)])
def test_a_wheel_of_another_checkout_is_not_measured(
    text: bytes, fresh: bool, peers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "infopt-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("infopt/units.py", text)
    monkeypatch.setattr(peers.startup, "newest_wheel", lambda: wheel)
    if fresh:
        assert peers.current_wheel() == wheel
    else:
        with pytest.raises(SystemExit, match=r"units\.py differs.*make wheel"):
            peers.current_wheel()


def test_a_tool_that_does_not_install_is_left_out_with_its_reason_and_one_not_tried_stops_all(
    peers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    asked = {**ASKED, "tools": {name: ASKED["tools"][name] for name in ("infopt", "kvfit", "hfit")}}
    (tmp_path / "kvfit.reason").write_text("no matching distribution", encoding="utf-8")
    workshop = peers.Workshop(_folder(tmp_path / "work"), {}, {})
    with pytest.raises(SystemExit, match="hfit is not installed: run `make peers-install` first"):
        peers.Bench(asked, workshop, tmp_path)
    (_folder(tmp_path / "hfit") / "installed.txt").touch()
    bench = peers.Bench(asked, workshop, tmp_path)
    assert set(bench.tools) == {"infopt", "hfit"}
    assert bench.missing == {"kvfit": "does not install: no matching distribution"}


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_libraries_that_cost_start_up_time_are_told_by_their_package() -> None:
    runs = script("bench/peers_runs.py")
    assert runs.watched(["rich.console", "pip._vendor.typer", "typing"]) == ["rich"]
    assert runs.watched(None) == []


def test_places_are_filled_and_other_braces_kept() -> None:
    runs = script("bench/peers_runs.py")
    assert runs.filled(["h100:{gpus}", "TP{{1}}", 3], gpus=4) == ["h100:4", "TP{{1}}", "3"]
