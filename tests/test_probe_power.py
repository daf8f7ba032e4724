"""`probe power`: a fake RAPL tree and a fake NVML give the joules, real work is done on the CPU."""

import time

import pytest
from gpu_fakes import FakeNvml, fake_runtime, gpu_on_cpu, install

from infopt.errors import InfoptError
from infopt.probes import power as module
from infopt.probes.power import Meter, Zone, gpu_meter, power, processor_meter, window_w
from infopt.probes.runtime import open_runtime
from infopt.probes.setting import Setting

pytestmark = pytest.mark.xdist_group("torch")
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def cpu():
    return open_runtime("cpu", 1)


class Clock:
    """Time that goes on by a millisecond whenever somebody looks, and by what is slept."""

    def __init__(self):
        self.now_s = 0.0

    def perf_counter(self):
        self.now_s += 0.001
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds

    def counter(self, watts):
        """A counter of joules under a steady power."""
        return lambda: watts * self.now_s


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Windows of a moment over little data, on a clock of their own."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "QUICK_WINDOW_S", 0.02)
    monkeypatch.setattr(module, "SETTLE_S", 0.02)
    monkeypatch.setattr(module, "STEP_S", 0.001)
    monkeypatch.setattr(module, "READ_QUICK_BYTES", 2**20)
    monkeypatch.setattr(module, "LEAST_READ_CACHES", 0)
    monkeypatch.setattr(module, "CUBE", {"cpu": 64, "cuda": 64})
    return clock


def rapl(folder, zones):
    """A powercap tree: name and microjoules of each zone."""
    for i, (name, energy_uj) in enumerate(zones):
        zone = folder / f"intel-rapl:{i}"
        zone.mkdir(parents=True)
        (zone / "name").write_text(name + "\n")
        (zone / "energy_uj").write_text(f"{energy_uj}\n")
        (zone / "max_energy_range_uj").write_text("262143328850\n")
    return folder


# ---- meters


def test_this_machine_without_rapl(cpu, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POWERCAP", tmp_path / "absent")
    (part,) = power(Setting(cpu, quick=True))
    assert part.measurements == ()
    assert "this machine tells no power" in part.notes[0]


def test_rapl_is_the_sum_of_packages_and_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POWERCAP", rapl(tmp_path, [("package-0", 10), ("core", 7), ("dram", 5), ("psys", 99)]))
    meter, reason = processor_meter()
    assert (meter.source, reason, meter.energy_j()) == ("RAPL", "", 0)
    for zone, energy_uj in ((0, 3_000_010), (1, 9_000_007), (2, 1_000_005), (3, 99_000_099)):
        (tmp_path / f"intel-rapl:{zone}" / "energy_uj").write_text(str(energy_uj))
    assert meter.energy_j() == pytest.approx(4.0)  # 3 J of the package and 1 J of its memory


def test_a_counter_that_begins_again(tmp_path):
    rapl(tmp_path, [("package-0", 262_000_000_000)])
    zone = Zone(tmp_path / "intel-rapl:0")
    for energy_uj, joules in ((262_143_000_000, 143.0), (1_000_000, 144.32885), (500_000, 262_143.32885 + 143.82885)):
        (tmp_path / "intel-rapl:0" / "energy_uj").write_text(str(energy_uj))
        assert zone.energy_j() == pytest.approx(joules)


def test_rapl_that_only_root_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POWERCAP", rapl(tmp_path, [("package-0", 10)]))

    def refused(folder):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module, "Zone", refused)
    meter, reason = processor_meter()
    assert meter is None
    assert "root" in reason


def test_rapl_that_cannot_be_understood(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POWERCAP", rapl(tmp_path, [("package-0", "many")]))
    meter, reason = processor_meter()
    assert meter is None
    assert "cannot be read" in reason


def test_the_meter_of_a_gpu(monkeypatch):
    for nvml, source in (
        (FakeNvml(), "NVML energy"),
        (FakeNvml(energy_j=None), "NVML power"),
        (FakeNvml(energy_j=None, power_w=None), None),
    ):
        install(monkeypatch, nvml)
        with module.driver(fake_runtime()) as (found, _):
            meter = gpu_meter(found)
            assert (meter.source if meter else None) == source


# ---- windows


def test_power_is_energy_over_time(cpu, clock):
    meter = Meter("test", clock.counter(125.0), None)
    assert window_w(Setting(cpu), meter, lambda: clock.sleep(0.005), 0.05) == pytest.approx(125)
    assert 0.05 <= clock.now_s <= 0.06


def test_power_without_a_counter_is_the_mean_of_the_looks(cpu, clock):
    looks = iter([100.0, 200.0, 300.0])
    meter = Meter("test", None, lambda: next(looks))
    assert window_w(Setting(cpu), meter, lambda: clock.sleep(0.02), 0.05) == 200


def test_watts_of_a_cpu(cpu, clock, monkeypatch):
    monkeypatch.setattr(module, "processor_meter", lambda: (Meter("RAPL", clock.counter(90.0), None), ""))
    parts = list(power(Setting(cpu, quick=True)))
    figures = [m for part in parts for m in part.measurements]
    assert [m.name for m in figures] == ["power_idle", "power_read", "power_matmul"]
    for figure in figures:
        assert (figure.unit, figure.n, figure.format) == ("W", 3, None)
        assert figure.value == pytest.approx(90)
        assert figure.conditions == {"source": "RAPL", "window_s": 0.02, "threads": 1}
        assert not figure.contended


def test_power_that_wanders_is_contended(cpu, monkeypatch):
    values = iter([0.0, 50.0, 100.0, 200.0])
    monkeypatch.setattr(module, "window_w", lambda *arguments: next(values))
    figure = module._measured(Setting(cpu, quick=True), Meter("test", None, None), "power_idle", lambda: None)
    assert (figure.value, figure.contended) == (100.0, True)  # the first window is for settling
    assert figure.p10 < figure.value < figure.p90


def test_the_work_is_done(cpu):
    """Reading takes what it says from memory, multiplying what it says from the processor."""
    for load in (module._reading, module._multiplying):
        with load(Setting(cpu, quick=True)) as work:
            started = time.process_time()
            work()
            assert time.process_time() - started > 0


def test_steady_work_fills_a_step(cpu, clock, monkeypatch):
    monkeypatch.setattr(module, "STEP_S", 0.06)
    calls = []

    def run():
        calls.append(1)
        clock.sleep(0.005)

    work = module._steady(Setting(cpu), run)
    calls.clear()
    work()
    assert len(calls) == 10  # 5 ms each, and a millisecond for looking at the clock


def test_no_room_for_the_read(cpu, clock, monkeypatch):
    monkeypatch.setattr(module, "processor_meter", lambda: (Meter("RAPL", clock.counter(90.0), None), ""))
    monkeypatch.setattr(module, "LEAST_READ_CACHES", 10**9)
    monkeypatch.setattr(module, "READ_QUICK_BYTES", 2**60)
    parts = power(Setting(cpu, quick=True))
    assert next(parts).measurements[0].name == "power_idle"  # kept
    with pytest.raises(InfoptError, match="probe power needs"):
        next(parts)


# ---- a GPU


def test_watts_of_a_gpu(monkeypatch):
    nvml = FakeNvml(energy_j=None, power_w=321.0)
    install(monkeypatch, nvml)
    parts = list(power(Setting(gpu_on_cpu(), quick=True)))
    figures = [m for part in parts for m in part.measurements]
    assert [(m.name, m.value) for m in figures] == [
        ("power_idle", 321.0),
        ("power_read", 321.0),
        ("power_matmul", 321.0),
    ]
    assert {m.conditions["source"] for m in figures} == {"NVML power"}
    assert nvml.open == 0


def test_energy_of_a_gpu(monkeypatch):
    install(monkeypatch, FakeNvml())  # 10 J more at every look, two looks a window
    for part in power(Setting(gpu_on_cpu(), quick=True)):
        for figure in part.measurements:
            assert figure.conditions["source"] == "NVML energy"
            assert 10 / 0.03 < figure.value <= 10 / 0.02


def test_a_slice_has_the_power_of_its_gpu(monkeypatch):
    install(monkeypatch, FakeNvml(mig=1))
    first = next(power(Setting(gpu_on_cpu(), quick=True)))
    assert "the whole GPU's" in first.notes[0]


@pytest.mark.parametrize(
    ("nvml", "said"),
    [
        (None, "pip install nvidia-ml-py"),
        (FakeNvml(driver=False), "Driver Not Loaded"),
        (FakeNvml(energy_j=None, power_w=None), "this GPU tells no power"),
    ],
)
def test_a_gpu_that_tells_no_power(nvml, said, monkeypatch):
    install(monkeypatch, nvml)
    (part,) = power(Setting(fake_runtime(), quick=True))
    assert said in part.notes[0]
    assert part.measurements == ()


def test_a_driver_that_falls_silent(monkeypatch):
    nvml = FakeNvml()
    install(monkeypatch, nvml)
    parts = power(Setting(gpu_on_cpu(), quick=True))
    next(parts)
    nvml.energy_j = None
    with pytest.raises(InfoptError, match="no longer does"):
        next(parts)
    assert nvml.open == 0
