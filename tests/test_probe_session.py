"""A run of probes: parts are kept, errors are one line, two never measure or write at once, old records stay whole."""

import errno
import multiprocessing
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infopt.errors import InfoptError
from infopt.hardware import calibration_store
from infopt.hardware.calibration import Device, Measurement, load_calibration
from infopt.hardware.calibration_store import default_path, device_lock, key, merged, save
from infopt.probes import session
from infopt.probes.findings import Findings, Part
from infopt.probes.runtime import Runtime, open_runtime
from infopt.probes.session import Job, run
from infopt.probes.setting import Setting
from infopt.probes.state import identify

pytestmark = pytest.mark.xdist_group("torch")


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place of their own for locks: somebody may be measuring this machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return open_runtime("cpu", 1)


@pytest.fixture
def setting(runtime: Runtime) -> Setting:
    return Setting(runtime, quick=True)


def figure(name: str, value: float = 1e9, **conditions: Any) -> Measurement:
    return Measurement(
        probe="bandwidth",
        name=name,
        format="fp32",
        unit="bytes/s",
        value=value,
        p10=0.9 * value,
        p90=1.1 * value,
        n=9,
        n_clean=9,
        contended=False,
        taken="2026-11-30T00:00:00Z",
        conditions=conditions,
    )


def parts(*names: str, then: BaseException | None = None, value: float = 1e9) -> Job:
    def begin(setting: Setting) -> Part:
        for name in names:
            yield Findings(measurements=(figure(name, value),), notes=(f"{name} noted",))
        if then is not None:
            raise then

    return Job("bandwidth", begin)


def names_of(path: Path) -> list[str]:
    return [m.name for m in load_calibration(path).measurements]


def test_a_run_writes_what_its_jobs_found(setting: Setting, tmp_path: Path) -> None:
    out = tmp_path / "here.yaml"
    outcome = run(setting, [parts("read", "copy"), parts("triad")], out)
    assert names_of(out) == ["read", "copy", "triad"]
    record = load_calibration(out)
    assert record.complete
    assert record.device == identify(setting.runtime)
    assert set(record.state.notes) >= {"read noted", "copy noted", "triad noted"}
    assert record.software["torch"] == str(setting.runtime.torch.__version__)
    assert not outcome.interrupted
    assert not outcome.contended
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == ["here.yaml"]


def test_ctrl_c_keeps_finished_parts(setting: Setting, tmp_path: Path) -> None:
    out = tmp_path / "here.yaml"
    outcome = run(setting, [parts("read", then=KeyboardInterrupt()), parts("triad")], out)
    assert outcome.interrupted
    assert names_of(out) == ["read"]
    assert not load_calibration(out).complete


def test_ctrl_c_before_the_first_part_writes_nothing(setting: Setting, tmp_path: Path) -> None:
    outcome = run(setting, [parts(then=KeyboardInterrupt())], tmp_path / "here.yaml")
    assert outcome.record is None
    assert outcome.interrupted
    assert not (tmp_path / "here.yaml").exists()


def test_a_later_run_replaces_what_it_measured_and_keeps_the_rest(setting: Setting, tmp_path: Path) -> None:
    out = tmp_path / "here.yaml"
    run(setting, [parts("read", "copy")], out)
    run(setting, [parts("copy", "triad", value=2e9)], out)
    found = {m.name: m.value for m in load_calibration(out).measurements}
    assert found == {"read": 1e9, "copy": 2e9, "triad": 2e9}


def test_figures_of_other_conditions_are_other_figures() -> None:
    assert key(figure("read", 1e9, size_bytes=1)) != key(figure("read", 1e9, size_bytes=2))
    assert key(figure("read", 1e9)) == key(figure("read", 2e9))


def test_one_job_that_fails_raises_and_several_go_on(setting: Setting, tmp_path: Path) -> None:
    out = tmp_path / "here.yaml"
    with pytest.raises(InfoptError, match="no room"):
        run(setting, [parts(then=InfoptError("no room"))], out)
    assert not out.exists()
    outcome = run(setting, [parts(then=InfoptError("no room")), parts("read")], out)
    assert outcome.errors == ("bandwidth: no room",)
    assert names_of(out) == ["read"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "out of memory"),
        (RuntimeError("CUDA error: an illegal access\nlong text"), "failed on .*: CUDA error: an illegal access$"),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried"), "out of memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "out of memory"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left"),
    ],
)
def test_what_a_device_refuses_is_one_line(setting: Setting, tmp_path: Path, error: Exception, said: str) -> None:
    with pytest.raises(InfoptError, match=said) as raised:
        run(setting, [parts(then=error)], tmp_path / "here.yaml")
    assert "\n" not in str(raised.value)


def test_a_mistake_of_ours_is_not_hidden(setting: Setting, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        run(setting, [parts(then=ZeroDivisionError())], tmp_path / "here.yaml")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("schema: other\n", "not a calibration"),
        ("a: [", "not readable as YAML"),
    ],
)
def test_a_file_that_is_no_record_is_refused_before_measuring(
    setting: Setting, tmp_path: Path, content: str, said: str
) -> None:
    out = tmp_path / "here.yaml"
    out.write_text(content, encoding="utf-8")
    begun = []

    def begin(setting: Setting) -> Part:
        begun.append(True)
        yield Findings()

    with pytest.raises(InfoptError, match=said):
        run(setting, [Job("bandwidth", begin)], out)
    assert not begun
    assert out.read_text(encoding="utf-8") == content


def test_a_record_of_another_device_is_refused(setting: Setting, tmp_path: Path) -> None:
    out = tmp_path / "here.yaml"
    outcome = run(setting, [parts("read")], out)
    assert outcome.record is not None
    other = outcome.record.model_copy(update={"device": outcome.record.device.model_copy(update={"name": "H100"})})
    out.unlink()
    save(other, out)
    with pytest.raises(InfoptError, match="holds another device, H100"):
        run(setting, [parts("read")], out)


def test_a_folder_that_is_missing_is_refused(setting: Setting, tmp_path: Path) -> None:
    with pytest.raises(InfoptError, match="does not exist"):
        run(setting, [parts("read")], tmp_path / "no" / "here.yaml")


def test_a_full_disk_leaves_the_old_record(setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "here.yaml"
    run(setting, [parts("read")], out)
    before = out.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("infopt.files.os.replace", full)
    with pytest.raises(InfoptError, match="No space left"):
        run(setting, [parts("copy")], out)
    assert out.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == ["here.yaml"]


def test_two_probes_do_not_measure_one_device(setting: Setting, tmp_path: Path) -> None:
    with (
        device_lock(identify(setting.runtime)),
        pytest.raises(InfoptError, match=f"another infopt probe \\(process {os.getpid()}\\)"),
    ):
        run(setting, [parts("read")], tmp_path / "here.yaml")


def test_a_server_is_asked_while_its_device_is_in_use(
    gpu: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`probe draft --endpoint` most often runs beside the server, on whose GPU another process computes."""
    monkeypatch.setattr(session, "software", lambda _: {})
    asked = replace(parts("read"), elsewhere=True)
    with device_lock(session.identify(gpu.runtime)):
        assert run(gpu, [asked], tmp_path / "here.yaml").record is not None
        with pytest.raises(InfoptError, match="busy"):
            run(gpu, [asked, parts("copy")], tmp_path / "both.yaml")
    from infopt.probes.jobs import endpoint_job

    assert endpoint_job("http://localhost:8000", None, None, 0.0).elsewhere


def _save_many(path: str, names: list[str], device: Device) -> None:
    for name in names:
        save(_record(device, name), Path(path))


def _record(device: Device, name: str) -> Any:
    return session.Calibration.model_validate(
        {
            "schema": "infopt/calibration/1",
            "method": session.METHOD,
            "created": "2026-11-30T00:00:00Z",
            "infopt": "0",
            "complete": True,
            "device": device.model_dump(),
            "state": {},
            "software": {},
            "measurements": [figure(name).model_dump()],
        }
    )


def test_two_that_write_one_record_lose_nothing(setting: Setting, tmp_path: Path) -> None:
    out = tmp_path / "here.yaml"
    device = identify(setting.runtime)
    context = multiprocessing.get_context("fork" if os.name == "posix" else "spawn")
    writers = [
        context.Process(target=_save_many, args=(str(out), [f"{w}-{i}" for i in range(10)], device)) for w in "ab"
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert sorted(names_of(out)) == sorted(f"{w}-{i}" for w in "ab" for i in range(10))


def test_merging_prefers_the_new(setting: Setting) -> None:
    device = identify(setting.runtime)
    old, new = _record(device, "read"), _record(device, "read")
    new = new.model_copy(update={"measurements": [figure("read", 5e9)]})
    assert [m.value for m in merged(old, new).measurements] == [5e9]


def test_a_record_has_a_place_for_each_number_of_threads(setting: Setting) -> None:
    device = identify(setting.runtime)
    one, two = default_path(device), default_path(device.model_copy(update={"threads": 2}))
    assert one != two
    assert one.parent == two.parent == calibration_store.calibration_folder()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, runtime: Runtime) -> Setting:
    """A session that believes it is on a GPU that others use."""
    device = identify(runtime)
    monkeypatch.setattr(session, "identify", lambda _: device)
    monkeypatch.setattr(session, "busy", lambda _: "process 4242 computes on it")

    class Fake:
        kind = "cuda"
        name = "NVIDIA H100"
        torch = runtime.torch

        def release(self) -> None:
            pass

        def memory_bytes(self) -> tuple[int, int]:
            return 80 * 10**9, 80 * 10**9

    monkeypatch.setattr(session, "Watch", lambda _: session_watch(runtime))
    return Setting(Fake())  # type: ignore[arg-type]


def session_watch(runtime: Runtime) -> Any:
    from infopt.probes.state import Watch

    return Watch(runtime)


def test_a_busy_gpu_is_refused_unless_forced(gpu: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "software", lambda _: {})
    out = tmp_path / "here.yaml"
    with pytest.raises(InfoptError, match=r"NVIDIA H100 is busy: process 4242 computes on it; .*--force"):
        run(gpu, [parts("read")], out)
    assert not out.exists()
    forced = Setting(gpu.runtime, force=True)
    outcome = run(forced, [parts("read")], out)
    assert outcome.notes[0] == "process 4242 computes on it"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_a_record_goes_into_a_regular_file(setting: Setting, tmp_path: Path, make: Any) -> None:
    make(tmp_path / "x.yaml")
    with pytest.raises(InfoptError, match=r"x.yaml: is no regular file; name another --out"):
        calibration_store.check_target(tmp_path / "x.yaml", identify(setting.runtime))


def test_more_threads_than_processors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(2), raising=False)
    with pytest.raises(InfoptError, match="--threads 3: this process may use 2 processors"):
        open_runtime("cpu", 3)
    assert open_runtime("cpu", 1).threads == 1


def test_threads_count_where_the_system_tells_no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert open_runtime("cpu", 1).threads == 1


def test_what_torch_says_where_memory_runs_out_is_understood(setting: Setting) -> None:
    """Its own words, of a request no machine can meet: they differ from system to system."""
    with pytest.raises(RuntimeError) as caught:
        setting.runtime.torch.empty(2**60, dtype=setting.runtime.torch.int8)
    assert setting.runtime.out_of_memory(caught.value)
