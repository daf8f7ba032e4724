"""Device state: real on this machine's CPU, faked for a GPU."""

import hashlib
import sys
import time
from types import SimpleNamespace

import pytest
from gpu_fakes import GIB, UUID, FakeNvml, fake_runtime, install

from infopt.hardware import host
from infopt.hardware.calibration import State
from infopt.probes import state as module
from infopt.probes.runtime import Runtime
from infopt.probes.state import Watch, busy, catalogued, identify, software

CPU = Runtime("cpu", 0, 1, None)  # nothing here needs torch itself


def watched(runtime: Runtime, nvml: FakeNvml | None = None, looks: int = 0) -> State:
    """The state over a block that lasts until the driver was looked at `looks` times."""
    with Watch(runtime) as watch:
        limit = time.monotonic() + 30
        while nvml and nvml.looks < looks and time.monotonic() < limit:
            time.sleep(0.01)
    return watch.state()


# ---- a CPU


def test_a_cpu_is_identified(monkeypatch, tmp_path):
    (tmp_path / "machine-id").write_text("0123abcd\n")
    monkeypatch.setattr(host, "MACHINE_ID", str(tmp_path / "machine-id"))
    device = identify(CPU)
    assert (device.kind, device.threads, device.driver, device.compute_capability) == ("cpu", 1, None, None)
    assert device.name == CPU.name
    assert device.uuid_hash == hashlib.sha256(("0123abcd" + CPU.name).encode()).hexdigest()[:16]
    assert device.memory_bytes > GIB // 2
    assert device.last_cache_bytes >= 2**18


def test_a_cpu_without_a_machine_id_has_no_hash(monkeypatch, tmp_path):
    monkeypatch.setattr(host, "MACHINE_ID", str(tmp_path / "absent"))
    assert identify(CPU).uuid_hash is None
    (tmp_path / "absent").write_text("\n")
    assert identify(CPU).uuid_hash is None


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("AMD EPYC 9654 96-Core Processor", "epyc-9654"),
        ("AMD EPYC 7763 64-Core Processor", "epyc-7763"),
        ("13th Gen Intel(R) Core(TM) i9-13900K", "core-i9-13900k"),
        ("AMD EPYC", None),
        ("Intel(R) Xeon(R) Processor", None),
        ("Apple M2", None),  # names a GPU in the catalogue
    ],
)
def test_processors_of_the_catalogue(name, record, monkeypatch):
    monkeypatch.setattr("infopt.probes.runtime.processor_name", lambda: name)
    found = catalogued(CPU)
    assert (found.id if found else None) == record


def test_state_of_a_cpu():
    state = watched(CPU)
    assert state.load_before >= 0
    assert state.load_after >= 0
    assert (state.throttle, state.notes, state.ecc, state.other_processes) == ([], [], None, None)
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        listed = any(line.startswith("cpu MHz") for line in file)
    assert (state.clock_mhz is not None) == listed


@pytest.mark.parametrize(("load", "said"), [(0.5, None), (4.0, None), (4.5, "load is 4.5 on 4 processors")])
def test_a_busy_host(load, said, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    found = busy(CPU)
    assert (found is None) if said is None else (said in found)


def test_a_system_without_load(monkeypatch):
    def absent():
        raise OSError

    monkeypatch.setattr("os.getloadavg", absent)
    assert busy(CPU) is None
    assert watched(CPU).load_before is None


# ---- a GPU


def test_a_gpu_is_identified(monkeypatch):
    nvml = install(monkeypatch, FakeNvml())
    device = identify(fake_runtime())
    assert (device.kind, device.name, device.accelerator) == ("cuda", "NVIDIA H100 80GB HBM3", "h100-sxm-80gb")
    assert device.uuid_hash == hashlib.sha256(UUID.encode()).hexdigest()[:16]
    assert (device.compute_capability, device.driver) == ("9.0", "580.65.06")
    assert (device.memory_bytes, device.last_cache_bytes) == (79 * GIB, 50 * 2**20)
    assert nvml.open == 0  # what was opened was closed


@pytest.mark.parametrize(
    ("name", "memory", "record"),
    [
        ("NVIDIA H20", 95 * GIB, "h20-96gb"),
        ("NVIDIA H20", 140 * GIB, "h20-141gb"),  # one name, two memories
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9 * GIB, "h100-sxm-80gb-mig-1g.10gb"),
        ("NVIDIA H100 80GB HBM3", 79 * GIB, "h100-sxm-80gb"),  # the PCIe card has the same memory, and another name
        ("NVIDIA GeForce RTX 3080", 12 * GIB, None),  # another card than the 10 GB one of the catalogue
        ("NVIDIA Nobody 1000", 9 * GIB, None),
    ],
)
def test_gpus_of_the_catalogue(name, memory, record, monkeypatch):
    install(monkeypatch, None)
    assert identify(fake_runtime(name, total_bytes=memory, free_bytes=memory)).accelerator == record


def test_a_gpu_without_uuid_has_no_hash(monkeypatch):
    install(monkeypatch, None)
    device = identify(fake_runtime(uuid=None))
    assert (device.uuid_hash, device.driver) == (None, None)


def test_state_without_the_module(monkeypatch):
    install(monkeypatch, None)
    state = watched(fake_runtime())
    assert any("pip install nvidia-ml-py" in note for note in state.notes)
    assert (state.clock_mhz, state.other_processes, state.throttle) == (None, None, [])


def test_state_without_a_driver(monkeypatch):
    install(monkeypatch, FakeNvml(driver=False))
    state = watched(fake_runtime())
    assert any("Driver Not Loaded" in note for note in state.notes)
    assert state.power_w is None


def test_a_gpu_that_works_undisturbed(monkeypatch):
    nvml = install(monkeypatch, FakeNvml(bits=[0x0]))
    state = watched(fake_runtime(free_bytes=79 * GIB - GIB // 2), nvml, 3)
    assert nvml.looks >= 3  # while the block ran, not only before it
    assert (state.clock_mhz, state.memory_clock_mhz, state.temperature_c) == (1980, 2619, 45)
    assert (state.power_w, state.power_limit_w) == (300, 700)
    assert (state.ecc, state.mig, state.other_processes) == (True, False, 0)
    assert (state.throttle, state.notes) == ([], [])
    assert nvml.open == 0


def test_an_idle_gpu_has_no_clock_to_speak_of(monkeypatch):
    install(monkeypatch, FakeNvml(bits=[0x1]))
    state = watched(fake_runtime())
    assert (state.clock_mhz, state.power_w, state.throttle) == (None, None, [])
    assert state.temperature_c == 45


def test_heat_is_said_to_spoil_compute(monkeypatch):
    nvml = install(monkeypatch, FakeNvml(bits=[0x0, 0x48]))
    state = watched(fake_runtime(), nvml, 3)
    assert state.throttle == ["hardware slowdown", "hardware thermal slowdown"]
    (note,) = [n for n in state.notes if n.startswith("throttled")]
    assert "figures of compute are below" in note


def test_a_power_cap_leaves_bandwidth_alone(monkeypatch):
    install(monkeypatch, FakeNvml(bits=[0x4]))
    state = watched(fake_runtime())
    assert state.throttle == ["software power cap"]
    assert [n for n in state.notes if "bandwidth is not affected" in n and "100% of the looks" in n]
    assert not [n for n in state.notes if n.startswith("throttled")]


@pytest.mark.parametrize("bits", [0x2, 0x10, 0x100])
def test_what_is_no_throttling(bits, monkeypatch):
    install(monkeypatch, FakeNvml(bits=[bits]))
    assert watched(fake_runtime()).throttle == []


def test_every_bit_has_its_name():
    reasons = pytest.importorskip("pynvml")
    known = {
        reasons.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
        reasons.nvmlClocksEventReasonSwThermalSlowdown: "software thermal slowdown",
        reasons.nvmlClocksEventReasonHwThermalSlowdown: "hardware thermal slowdown",
        reasons.nvmlClocksEventReasonHwPowerBrakeSlowdown: "hardware power brake",
        reasons.nvmlClocksEventReasonSwPowerCap: "software power cap",
        reasons.nvmlClocksThrottleReasonBoardLimit: "board limit",
        reasons.nvmlClocksThrottleReasonReliability: "reliability voltage",
    }
    assert known == module.HELD_BACK | module.LIMITED
    assert reasons.nvmlClocksEventReasonGpuIdle == module.IDLE


@pytest.mark.parametrize("hidden", [False, True])
def test_another_process_is_seen(hidden, monkeypatch):
    install(monkeypatch, FakeNvml(others=[4242], hidden=hidden))
    state = watched(fake_runtime())
    assert state.other_processes == 1
    assert "1 other process on the GPU" in state.notes
    assert busy(fake_runtime()) == "NVIDIA H100 80GB HBM3 is shared: 1 other process computes on it"


@pytest.mark.parametrize("hidden", [False, True])
def test_this_process_is_no_other(hidden, monkeypatch):
    install(monkeypatch, FakeNvml(hidden=hidden))
    assert watched(fake_runtime()).other_processes == 0
    assert busy(fake_runtime()) is None


@pytest.mark.parametrize("nvml", [None, FakeNvml()])
def test_a_gpu_nearly_full(nvml, monkeypatch):
    install(monkeypatch, nvml)
    runtime = fake_runtime(free_bytes=55 * GIB)
    assert "others hold" in busy(runtime)
    assert "of the memory of NVIDIA H100" in busy(runtime)
    assert [n for n in watched(runtime).notes if n.startswith("others held")]


def test_a_slice_is_asked_for_its_processes_and_the_gpu_for_its_clocks(monkeypatch):
    asked = []
    nvml = FakeNvml(mig=1, uuids=("MIG-" + UUID,), count=2)
    listed = nvml.nvmlDeviceGetComputeRunningProcesses

    def processes(handle):
        asked.append(handle)
        return listed(handle)

    nvml.nvmlDeviceGetComputeRunningProcesses = processes
    install(monkeypatch, nvml)
    state = watched(fake_runtime("NVIDIA H100 80GB HBM3 MIG 1g.10gb", total_bytes=9 * GIB, free_bytes=9 * GIB))
    assert set(asked) == {"slice"}
    assert (state.mig, state.clock_mhz) == (True, 1980)
    assert [n for n in state.notes if "slices (MIG)" in n]


def test_a_gpu_the_driver_does_not_list(monkeypatch):
    install(monkeypatch, FakeNvml(uuids=(), count=2))
    assert [n for n in watched(fake_runtime()).notes if "does not list this GPU" in n]


def test_the_only_gpu_needs_no_uuid(monkeypatch):
    install(monkeypatch, FakeNvml(uuids=()))
    assert watched(fake_runtime(uuid=None)).power_w == 300


def test_what_a_driver_does_not_know_is_none(monkeypatch):
    class Old(FakeNvml):
        """An older module and a GPU without these figures."""

        nvmlDeviceGetCurrentClocksEventReasons = None  # noqa: N815
        nvmlDeviceGetEccMode = None  # noqa: N815

        def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):  # noqa: N802
            return 0x20

    install(monkeypatch, Old(power_w=None, mig=None))
    state = watched(fake_runtime())
    assert (state.ecc, state.mig, state.power_w) == (None, None, None)
    assert state.throttle == ["software thermal slowdown"]


def test_a_probe_that_fails_still_leaves_the_state(monkeypatch):
    nvml = install(monkeypatch, FakeNvml())
    watch = Watch(fake_runtime())
    with pytest.raises(RuntimeError, match="device lost"), watch:
        raise RuntimeError("device lost")
    assert watch.state().power_limit_w == 700
    assert nvml.open == 0


# ---- software


def test_software_of_a_gpu(monkeypatch):
    found = software(fake_runtime())
    assert (found["torch"], found["cuda"], found["blas"]) == ("9.9", "13.0", "cublas")
    assert "hip" not in found
    assert found["python"] == ".".join(str(part) for part in sys.version_info[:3])


def test_software_of_a_cpu(monkeypatch):
    torch = SimpleNamespace(
        __version__="9.9",
        version=SimpleNamespace(cuda=None, hip=None),
        __config__=SimpleNamespace(show=lambda: "  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release"),
    )
    found = software(Runtime("cpu", 0, 1, torch))
    assert found["blas"] == "mkl"
    assert "cuda" not in found
    assert all(isinstance(value, str) for value in found.values())
