"""A record in use: what replaces what, what is refused, and that nothing is counted twice."""

from dataclasses import replace
from pathlib import Path

import pytest
from calibrations import TAKEN, acceptance, calibration, device, measurement, product, step, written
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.hardware import calibrate, detect, host
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.calibrate import calibrated, calibrated_where_known, resolve_calibrated
from infopt.hardware.calibration import Calibration, State
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.estimate import Estimate
from infopt.ledgers.max_load import load_parts
from infopt.profiles.resolve import resolve_model
from infopt.studies.planning import Plan, plan
from infopt.studies.scenarios import Request

RATED = 4.8e12  # H200, vendor
MODEL = resolve_model("8b")


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No record of the user's takes part, and none of the package."""
    monkeypatch.setenv("INFOPT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("infopt.hardware.calibration.MEASURED", tmp_path / "package")
    return tmp_path / "data" / "calibrations"


def of(tmp_path: Path, record: Calibration, hardware: str = "h200") -> HardwareChoice:
    return calibrated(resolve_hardware(hardware), str(written(tmp_path / "record.yaml", record)))


def planned(choice: HardwareChoice, **request: object) -> Plan:
    given_request = {"input_tokens": 1024, "output_tokens": 1024, "batch": 16} | request
    return plan(MODEL, choice, Request(**given_request))  # type: ignore[arg-type]


def times(found: Plan) -> Estimate:
    assert isinstance(found.estimate, Estimate)
    return found.estimate


def said(choice: HardwareChoice) -> str:
    return "\n".join(choice.accelerator.calibration_notes)


def test_bandwidth_is_the_best_read(tmp_path: Path) -> None:
    """A gemv may read faster than a sum; a copy and a triad also write."""
    slower, best, sum_ = (
        measurement("read", 4.1e12),
        measurement("gemv", 4.3e12, format="bf16"),
        measurement("sum", 4e12),
    )
    found = of(tmp_path, calibration(slower, best, sum_, measurement("copy", 9e12), measurement("triad", 9e12)))
    device = found.accelerator
    assert device.bandwidth_bytes_per_s == 4.3e12
    assert device.rated_bandwidth_bytes_per_s == device.fitted_bandwidth_bytes_per_s == RATED
    assert device.data["bandwidth_bytes_per_s"].kind == "measured"
    assert device.data["bandwidth_bytes_per_s"].source == f"calibration {tmp_path}/record.yaml, 2026-11-29: gemv bf16"
    assert device.data["rated_bandwidth_bytes_per_s"].kind == "vendor"
    assert "bandwidth 4.30 TB/s (gemv bf16, rated 4.80 TB/s)" in said(found)


def test_a_measured_bandwidth_moves_the_floor_and_nothing_that_was_fitted(tmp_path: Path) -> None:
    """Shipped constants were fitted against rated bandwidths: 10 % less must not make the estimate 10 % longer."""
    rated, measured = (
        planned(resolve_hardware("h200")),
        planned(of(tmp_path, calibration(measurement(value=0.9 * RATED)))),
    )
    assert measured.bandwidth.step_floor_s == pytest.approx(rated.bandwidth.step_floor_s / 0.9)
    assert times(measured).tpot_s == times(rated).tpot_s
    assert times(measured).ttft_s == times(rated).ttft_s
    assert times(measured).terms == times(rated).terms
    assert measured.compute.ttft_floor_s == rated.compute.ttft_floor_s


@given(share=st.floats(0.02, 1.5), batch=st.integers(1, 64))
def test_no_estimate_is_below_the_floor(share: float, batch: int) -> None:
    choice = resolve_hardware("h200")
    device = choice.accelerator
    slow = replace(device, bandwidth_bytes_per_s=share * RATED, rated_bandwidth_bytes_per_s=RATED)
    found = planned(replace(choice, accelerator=slow), batch=batch)
    assert times(found).tpot_s >= found.bandwidth.tpot_floor_s
    assert times(found).tpot_low_s >= found.bandwidth.step_floor_s
    shipped = times(planned(choice, batch=batch)).tpot_s
    assert times(found).tpot_s == pytest.approx(max(shipped, found.bandwidth.step_floor_s))


def test_maximal_load_is_as_fitted_and_its_floor_as_measured(tmp_path: Path) -> None:
    rated, measured = (
        planned(resolve_hardware("h200")),
        planned(of(tmp_path, calibration(measurement(value=RATED / 2)))),
    )
    before, after = load_parts(rated.scenario), load_parts(measured.scenario)
    assert before is not None
    assert after is not None
    assert after.traffic_s == before.traffic_s
    assert after.activation_s_per_byte == before.activation_s_per_byte
    assert after.floor_s == pytest.approx(2 * before.floor_s)


def test_another_bandwidth_keeps_the_proportion(tmp_path: Path) -> None:
    """What-if questions (`boundary more-bandwidth`) scale what was rated with what was measured."""
    found = of(tmp_path, calibration(measurement(value=4e12))).accelerator
    twice = found.at_bandwidth(8e12)
    assert twice.bandwidth_bytes_per_s == 8e12
    assert twice.fitted_bandwidth_bytes_per_s == pytest.approx(2 * RATED)
    plain = resolve_hardware("h200").accelerator
    assert plain.at_bandwidth(1e12).fitted_bandwidth_bytes_per_s == 1e12


def test_known_peaks_stay_and_products_stand_beside_them(tmp_path: Path) -> None:
    found = of(tmp_path, calibration(product(6e14), product(7e14, conditions={"m": 1}), product(9e13, format="fp4")))
    device, before = found.accelerator, resolve_hardware("h200").accelerator
    assert device.peak_flop_per_s == before.peak_flop_per_s
    assert device.bandwidth_bytes_per_s == RATED
    assert device.rated_bandwidth_bytes_per_s is None
    assert device.measured["matmul_bf16_flop_per_s"] == 7e14
    assert "measured beside what is rated: matmul bf16, matmul fp4" in said(found)


def test_hardware_of_ones_own_takes_the_peaks_it_lacks(tmp_path: Path) -> None:
    record = calibration(measurement(value=8e11), product(1e14), device=device(name="X1", accelerator=None))
    found = of(tmp_path, record, "custom:48GB:900GB/s")
    assert found.accelerator.peak_flop_per_s == {"bf16": 1e14}
    assert found.accelerator.data["peak_flop_per_s.bf16"].kind == "measured"
    assert found.accelerator.bandwidth_bytes_per_s == 8e11
    assert "hardware of your own description is taken to be X1" in said(found)
    assert planned(found).compute.ttft_floor_s is not None
    with pytest.raises(InfoptError, match="give the file"):
        calibrated(resolve_hardware("custom:48GB:900GB/s"), "auto")
    with pytest.raises(InfoptError, match="name what was measured, --hw h200-sxm-141gb"):
        of(tmp_path, calibration(), "custom:48GB:900GB/s")


def test_copies_are_the_slower_way_from_pinned_memory(tmp_path: Path) -> None:
    def copy(name: str, value: float, memory: str, size: int) -> object:
        return measurement(name, value, probe="transfer", conditions={"memory": memory, "size_bytes": size})

    record = calibration(
        copy("h2d", 5.5e10, "pinned", 512), copy("h2d", 2e10, "pinned", 1), copy("d2h", 5.2e10, "pinned", 512),
        copy("h2d", 9e9, "pageable", 512), copy("storage_read", 3e9, "", 512),
    )  # fmt: skip
    assert of(tmp_path, record).accelerator.measured["host_copy_bytes_per_s"] == 5.2e10


def test_contended_figures_are_left_out_and_named(tmp_path: Path) -> None:
    record = calibration(
        measurement("read", 4.1e12),
        measurement("gemv", 4.5e12, format="bf16", contended=True),
        step(),
        step(batch=8, contended=True),
    )
    found = of(tmp_path, record)
    assert found.accelerator.bandwidth_bytes_per_s == 4.1e12
    assert [one.batch for one in found.accelerator.measured_steps] == [1]
    assert "calibration: left out, contended: gemv bf16, 1 of 2 step times" in said(found)


@pytest.mark.parametrize(
    "record",
    [
        calibration(measurement(contended=True)),
        calibration(acceptance()),
        calibration(measurement(value=0.0)),
        calibration(measurement("h2d", 5e10, probe="transfer", conditions={"memory": "pageable"})),
    ],
)
def test_a_record_of_no_use_is_an_error(tmp_path: Path, record: Calibration) -> None:
    with pytest.raises(InfoptError, match=r"no figure in it that a plan uses \(it holds .*\); measure: infopt probe"):
        of(tmp_path, record)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"complete": False}, "its last run was interrupted"),
        (
            {"state": State(throttle=["hardware thermal slowdown"])},
            "held back while measured: hardware thermal slowdown",
        ),
        ({"state": State(other_processes=2)}, "2 other processes used the device"),
    ],
)
def test_what_is_doubtful_is_said(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    assert words in said(of(tmp_path, calibration(**changes)))
    assert words not in said(of(tmp_path, calibration()))


@pytest.mark.parametrize("hardware", ["h100", "h200-nvl-141gb", "4090", "epyc-9654", "h100-1g.10gb"])
def test_another_device_is_refused_by_name(tmp_path: Path, hardware: str) -> None:
    asked = resolve_hardware(hardware).accelerator
    with pytest.raises(InfoptError) as caught:
        of(tmp_path, calibration(), hardware)
    assert f"it is of NVIDIA H200 (h200-sxm-141gb), not of {asked.name} ({asked.id})" in str(caught.value)
    assert "--hw h200-sxm-141gb" in str(caught.value)


def test_a_processors_record_is_not_a_gpus(tmp_path: Path) -> None:
    record = calibration(device=device(kind="cpu", name="Some CPU", accelerator=None))
    with pytest.raises(InfoptError, match=r"it is of Some CPU, not of .*; name what was measured, --hw cpu"):
        of(tmp_path, record)


def test_a_count_stays(tmp_path: Path) -> None:
    assert of(tmp_path, calibration(), "h200:8").gpus == 8


def test_plans_say_which_figures_were_measured(tmp_path: Path) -> None:
    found = planned(of(tmp_path, calibration(measurement(), step())))
    texts = [one.text for one in found.assumptions if one.id == "calibration"]
    assert texts[0].startswith(f"calibration {tmp_path}/record.yaml of 2026-11-29: bandwidth 4.20 TB/s")
    assert "1 step times of torch" in texts[0]
    assert texts[-1] == "calibration: its steps are of torch: they count where nothing was measured of vllm elsewhere"
    assert any(source.startswith("bandwidth_bytes_per_s: measured, calibration") for source in found.sources)
    without = planned(of(tmp_path, calibration()))
    assert any("it has no step times" in one.text for one in without.assumptions)
    assert not [one for one in planned(resolve_hardware("h200")).assumptions if one.id == "calibration"]


class TestAuto:
    def test_takes_the_record_written_last_and_skips_foreign_ones(self, own_folder: Path) -> None:
        written(own_folder / "old.yaml", calibration(measurement(value=3e12), created="2026-01-01T00:00:00Z"))
        written(own_folder / "new.yaml", calibration(measurement(value=4e12), created=TAKEN))
        written(own_folder / "older.yaml", calibration(measurement(value=2e12), created="2025-01-01T00:00:00Z"))
        h100 = device(name="NVIDIA H100", accelerator="h100-sxm-80gb")
        written(own_folder / "h100.yaml", calibration(device=h100, created="2027-01-01T00:00:00Z"))
        (own_folder / "broken.yaml").write_text("schema: infopt/calibration/1\n", encoding="utf-8")
        found = calibrated(resolve_hardware("h200"), "auto").accelerator
        assert found.bandwidth_bytes_per_s == 4e12
        assert found.calibration == str(own_folder / "new.yaml")

    def test_prefers_the_users_own_to_the_packages(self, own_folder: Path, tmp_path: Path) -> None:
        package = written(tmp_path / "package" / "h200.yaml", calibration(created="2027-01-01T00:00:00Z"))
        assert calibrated(resolve_hardware("h200"), "auto").accelerator.calibration == str(package)
        own = written(own_folder / "h200.yaml", calibration())
        assert calibrated(resolve_hardware("h200"), "auto").accelerator.calibration == str(own)

    def test_says_what_there_is_where_nothing_fits(self, own_folder: Path) -> None:
        with pytest.raises(
            InfoptError, match=r"no record of h200-sxm-141gb is stored, and no other; `infopt probe` makes"
        ):
            calibrated(resolve_hardware("h200"), "auto")
        written(own_folder / "h200.yaml", calibration())
        written(own_folder / "old.yaml", calibration(method=0))
        with pytest.raises(
            InfoptError, match=r"no record of h100-sxm-80gb is stored, only .*h200.yaml \(NVIDIA H200"
        ) as caught:
            calibrated(resolve_hardware("h100"), "auto")
        assert "taken by method 0" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_hardware_that_is_compared_is_calibrated_where_it_was_measured(tmp_path: Path) -> None:
    choices = [resolve_hardware(name) for name in ("h100", "h200", "4090")]
    path = str(written(tmp_path / "h200.yaml"))
    found = calibrated_where_known(choices, path)
    assert [choice.accelerator.calibration for choice in found] == [None, path, None]
    with pytest.raises(InfoptError, match=r"none of the hardware compared was measured \(NVIDIA H200 .* was\)"):
        calibrated_where_known([choices[0]], path)
    with pytest.raises(InfoptError, match="nothing was"):
        calibrated_where_known(choices, "auto")


class TestThisMachine:
    """`--hw cpu`, and `--hw auto` where there is no accelerator."""

    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(detect, "PROBES", ())
        monkeypatch.setattr(host, "processor_name", lambda: "Some CPU 17")
        monkeypatch.setattr(host, "host_memory_bytes", lambda: (5 * 10**9, 10**10))
        monkeypatch.setattr(host, "machine_hash", lambda name: "00000000000000aa")

    def record(self, **changes: object) -> Calibration:
        cpu = {"kind": "cpu", "name": "Some CPU 17", "accelerator": None, "uuid_hash": "00000000000000aa", "threads": 2}
        figures = (measurement(value=2e10), product(5e10, format="fp32"), product(2e10), step(engine="torch"))
        return calibration(*figures, device=device(**(cpu | changes)))

    @pytest.mark.parametrize("hardware", ["auto", "cpu", " CPU "])
    def test_is_built_from_its_record(self, own_folder: Path, hardware: str) -> None:
        written(own_folder / "cpu.yaml", self.record())
        found = resolve_calibrated(hardware, "auto")
        processor = found.accelerator
        assert processor.processor
        assert (processor.id, processor.name, processor.memory_class, found.gpus) == ("cpu", "Some CPU 17", "ddr", 1)
        assert (processor.memory_bytes, processor.usable_memory_bytes) == (10**10, 9 * 10**9)
        assert processor.bandwidth_bytes_per_s == processor.fitted_bandwidth_bytes_per_s == 2e10
        assert processor.rated_bandwidth_bytes_per_s is None
        assert processor.peak_flop_per_s == {"bf16": 2e10, "fp32": 5e10}
        assert "of 2 threads of the processor" in said(found)
        assert "another unit" not in said(found)

    def test_of_another_machine_is_said(self, own_folder: Path) -> None:
        written(own_folder / "cpu.yaml", self.record(uuid_hash="00000000000000bb"))
        assert "taken on another unit of the same kind" in said(resolve_calibrated("cpu", "auto"))

    def test_of_another_name_is_refused(self, tmp_path: Path) -> None:
        path = written(tmp_path / "cpu.yaml", self.record(name="Other CPU"))
        with pytest.raises(InfoptError, match=r"it is of Other CPU, not of Some CPU 17 \(cpu\)"):
            resolve_calibrated("cpu", str(path))

    def test_needs_a_read_where_the_catalogue_has_none(self, tmp_path: Path) -> None:
        cpu = self.record()
        path = written(tmp_path / "cpu.yaml", cpu.model_copy(update={"measurements": cpu.measurements[1:]}))
        with pytest.raises(InfoptError, match="it has no read, and no bandwidth of Some CPU 17 is known"):
            resolve_calibrated("cpu", str(path))
        busy = [m.model_copy(update={"contended": True}) for m in cpu.measurements]
        path = written(tmp_path / "cpu.yaml", cpu.model_copy(update={"measurements": busy}))
        with pytest.raises(InfoptError, match=r"all its reads are contended, .*infopt probe bandwidth"):
            resolve_calibrated("cpu", str(path))

    def test_is_the_catalogues_where_it_is_listed(self, monkeypatch: pytest.MonkeyPatch, own_folder: Path) -> None:
        monkeypatch.setattr(host, "processor_name", lambda: "AMD EPYC 9654 96-Core Processor")
        listed = resolve_hardware("cpu").accelerator
        assert (listed.id, listed.memory_bytes) == ("epyc-9654", 10**10)
        written(own_folder / "cpu.yaml", self.record(name="AMD EPYC 9654 96-Core Processor", accelerator="epyc-9654"))
        found = resolve_calibrated("auto", "auto").accelerator
        assert found.bandwidth_bytes_per_s == 2e10
        assert found.rated_bandwidth_bytes_per_s == listed.bandwidth_bytes_per_s
        assert found.peak_flop_per_s["bf16"] == 2e10
        assert found.peak_flop_per_s["fp32"] == listed.peak_flop_per_s["fp32"]

    def test_without_a_record_says_how_to_make_one(self) -> None:
        with pytest.raises(
            InfoptError, match=r"not in the catalogue; measure it with `infopt probe`, then .*--calibration auto"
        ):
            resolve_hardware("cpu")
        with pytest.raises(InfoptError, match=r"a CPU is measured by `infopt probe`.*--hw auto --calibration auto"):
            resolve_hardware("auto")

    def test_accelerators_come_first(self, monkeypatch: pytest.MonkeyPatch, own_folder: Path) -> None:
        gpu = detect.Found("NVIDIA H200", None, "NVML", "GPU-1")
        monkeypatch.setattr(detect, "PROBES", (lambda: [gpu],))
        written(own_folder / "h200.yaml", calibration(device=device(uuid_hash=host.gpu_hash("GPU-1"))))
        found = resolve_calibrated("auto", "auto")
        assert found.accelerator.calibration == str(own_folder / "h200.yaml")
        assert "another unit" not in said(found)
        monkeypatch.setattr(detect, "PROBES", (lambda: [replace(gpu, uuid="GPU-2")],))
        assert "another unit of the same kind" in said(resolve_calibrated("auto", "auto"))


def test_a_unit_has_one_name_whoever_asks() -> None:
    """NVML writes a prefix before a UUID that torch leaves out."""
    assert host.gpu_hash("GPU-AB12") == host.gpu_hash("ab12") == host.unit_hash("ab12")
    assert host.unit_hash("ab12") != host.unit_hash("ab13")
    assert len(host.unit_hash("ab12")) == 16


def test_every_read_of_the_probe_counts_and_nothing_that_writes() -> None:
    names = ("read", "sum", "gemv", "copy", "triad", "reader")
    record = calibration(*(measurement(name, value=1e12 + i) for i, name in enumerate(names)))
    assert [m.name for m in record.reads] == ["read", "sum", "gemv"]
    assert record.best_read is not None
    assert record.best_read.name == "gemv"
    contended = calibration(measurement("read", value=1e12), measurement("sum", value=2e12, contended=True))
    assert contended.best_read is not None
    assert contended.best_read.name == "read"


def test_a_peak_is_the_fastest_product_whatever_its_rows() -> None:
    own = device(kind="cpu", name="Some CPU", accelerator=None)
    few = product(9e9, format="bf16").model_copy(update={"name": "matmul_rows"})
    record = calibration(measurement(value=2e10), product(6e9, format="bf16"), few, device=own)
    choice = HardwareChoice(replace(host.unlisted_processor(), name="Some CPU"), None, "cpu")
    used = calibrate._applied(choice, calibrate.Found("a.yaml", record))
    assert used.peak_flop_per_s["bf16"] == 9e9
    assert used.measured["matmul_bf16_flop_per_s"] == 6e9
