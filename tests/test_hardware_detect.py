"""`--hw auto` with drivers and tools that are not there, faked."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infopt.errors import InfoptError
from infopt.hardware import detect as detection
from infopt.hardware.names import resolve_hardware

H100 = ("NVIDIA H100 80GB HBM3", 81559 * 2**20)


class FakeNvmlError(Exception):
    """What the fake driver raises."""


def fake_nvml(devices: list[tuple[Any, int]], slices: tuple[tuple[Any, int], ...] = ()) -> SimpleNamespace:
    """A `pynvml` that lists `devices`, each cut into `slices` where given."""

    def mig_mode(_: object) -> tuple[int, int]:
        if not slices:
            raise FakeNvmlError("Not Supported")
        return 1, 1

    def mig_handle(_: object, i: int) -> tuple[Any, int]:
        if i >= len(slices):
            raise FakeNvmlError("Not Found")
        return slices[i]

    return SimpleNamespace(
        NVMLError=FakeNvmlError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(devices),
        nvmlDeviceGetHandleByIndex=lambda i: devices[i],
        nvmlDeviceGetName=lambda handle: handle[0],
        nvmlDeviceGetUUID=lambda handle: f"GPU-{id(handle)}",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=handle[1]),
        nvmlDeviceGetMigMode=mig_mode,
        nvmlDeviceGetMaxMigDeviceCount=lambda _: 7,
        nvmlDeviceGetMigDeviceHandleByIndex=mig_handle,
    )


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without drivers; the folder returned is its PATH."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(folder: Path, tool: str, text: str, status: int = 0) -> None:
    """A tool that prints `text` and ends with `status`."""
    path = folder / tool
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.stdout.write({text!r})\nsys.exit({status})\n", encoding="utf-8"
    )
    path.chmod(0o755)


def test_nvml_lists_the_devices(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml([H100] * 8))
    choice = resolve_hardware("auto")
    assert (choice.accelerator.id, choice.gpus) == ("h100-sxm-80gb", 8)
    assert choice.accelerator.driver_memory_bytes == H100[1]
    assert choice.accelerator.data["driver_memory_bytes"].kind == "measured"
    assert choice.accelerator.usable_memory_bytes / 2**30 == pytest.approx(79.19, abs=0.01)
    assert "auto (NVML): 8 x NVIDIA H100 80GB HBM3" in choice.resolved_as


def test_old_bindings_answer_in_bytes(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml([(b"Tesla T4", 15360 * 2**20)]))
    assert resolve_hardware("AUTO").accelerator.id == "t4"


def test_a_card_with_other_memory_than_the_catalogue_is_believed(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml([("NVIDIA GeForce RTX 3080", 12288 * 2**20)]))
    accelerator = resolve_hardware("auto").accelerator
    assert accelerator.usable_memory_bytes / 2**30 == pytest.approx(11.55)
    assert accelerator.data["usable_memory_bytes"].kind == "assumed"


def test_slices_are_listed_instead_of_their_gpu(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slices = (("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9984 * 2**20),) * 2
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml([H100], slices))
    choice = resolve_hardware("auto")
    assert (choice.accelerator.id, choice.gpus) == ("h100-sxm-80gb-mig-1g.10gb", 2)


def test_two_kinds_are_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml([H100, ("NVIDIA L4", 23034 * 2**20)]))
    with pytest.raises(InfoptError, match="1 x NVIDIA H100 80GB HBM3 and 1 x NVIDIA L4"):
        resolve_hardware("auto")


def test_a_card_nobody_listed_says_how_to_describe_it(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml([("NVIDIA X9000", 24 * 10**9)] * 2))
    with pytest.raises(InfoptError, match="custom:24GB:BANDWIDTH x2"):
        resolve_hardware("auto")


def test_a_driver_that_fails_midway_is_one_line(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> int:
        raise FakeNvmlError("GPU is lost")

    module = fake_nvml([H100])
    module.nvmlDeviceGetCount = lost
    monkeypatch.setitem(sys.modules, "pynvml", module)
    with pytest.raises(InfoptError, match="GPU is lost"):
        resolve_hardware("auto")


def test_without_a_driver_the_tools_are_asked(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise FakeNvmlError("Driver Not Loaded")

    module = fake_nvml([])
    module.nvmlInit = no_driver
    monkeypatch.setitem(sys.modules, "pynvml", module)
    install(bare, "nvidia-smi", "NVIDIA GeForce RTX 4090, 24564\nNVIDIA GeForce RTX 4090, 24564\n")
    choice = resolve_hardware("auto")
    assert (choice.accelerator.id, choice.gpus) == ("rtx-4090", 2)


AMD = [{"gpu": i, "asic": {"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002"}} for i in range(8)]
ROCM = {f"card{i}": {"Card Series": "AMD Instinct MI250X", "Card Model": "0x740c"} for i in range(2)}
INTEL = {"device_list": [{"device_id": 0, "device_name": "Intel(R) Arc(TM) Pro B60 Graphics"}]}


@pytest.mark.parametrize(
    ("tool", "text", "accelerator", "gpus"),
    [
        ("amd-smi", json.dumps(AMD), "mi300x", 8),
        ("amd-smi", json.dumps({"gpu_data": AMD}), "mi300x", 8),
        ("rocm-smi", json.dumps(ROCM), "mi250x", 2),
        ("xpu-smi", json.dumps(INTEL), "arc-pro-b60", 1),
        ("hl-smi", "HL-225\nHL-225\n", "gaudi2", 2),
    ],
)
def test_other_vendors_tools(bare: Path, tool: str, text: str, accelerator: str, gpus: int) -> None:
    install(bare, tool, text)
    choice = resolve_hardware("auto")
    assert (choice.accelerator.id, choice.gpus) == (accelerator, gpus)


def test_apple_silicon_with_the_memory_it_has(bare: Path) -> None:
    answers = {"machdep.cpu.brand_string": "Apple M2 Max\n", "hw.memsize": f"{96 * 2**30}\n"}
    path = bare / "sysctl"
    path.write_text(f"#!{sys.executable}\nimport sys\nprint({answers!r}[sys.argv[2]], end='')\n", encoding="utf-8")
    path.chmod(0o755)
    choice = resolve_hardware("auto")
    assert (choice.accelerator.id, choice.gpus) == ("apple-m2-max-96gb", 1)


@pytest.mark.parametrize(("text", "status"), [("", 0), ("not json", 0), (json.dumps(AMD), 1), ("[" * 100_000, 0)])
def test_a_tool_that_fails_lists_nothing(bare: Path, text: str, status: int) -> None:
    install(bare, "amd-smi", text, status)
    with pytest.raises(InfoptError, match=r"no accelerator found.*--hw h100:8"):
        resolve_hardware("auto")


def test_a_tool_that_hangs_is_left(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "TOOL_TIMEOUT_S", 0.2)
    path = bare / "amd-smi"
    path.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(30)\n", encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(InfoptError, match="no accelerator found"):
        resolve_hardware("auto")
