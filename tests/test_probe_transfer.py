"""`probe transfer`: storage for real on this machine's disk, copies on a GPU that is the CPU."""

import errno
import os
import stat
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpu_fakes import gpu_on_cpu

from infopt.errors import InfoptError
from infopt.hardware.catalogue import load_accelerator
from infopt.probes import sampling
from infopt.probes import transfer as module
from infopt.probes.runtime import open_runtime
from infopt.probes.sampling import Operation, Sampling, measure, sample
from infopt.probes.setting import Setting
from infopt.probes.transfer import copies, file_bytes, filesystem, opened, storage, transfer

pytestmark = pytest.mark.xdist_group("torch")
torch = pytest.importorskip("torch")
MIB = 2**20


@pytest.fixture(scope="module")
def cpu():
    return open_runtime("cpu", 1)


@pytest.fixture
def small(monkeypatch):
    """Files and copies of a few MiB."""
    monkeypatch.setattr(module, "FILE_QUICK_BYTES", 16 * MIB)
    monkeypatch.setattr(module, "COPY_QUICK_BYTES", 4 * MIB)
    monkeypatch.setattr(Setting, "sampling", property(lambda self: Sampling(fewest=6, most=6)))


# ---- storage


def test_storage_is_read_and_written(cpu, small, tmp_path):
    note, disk = transfer(Setting(cpu, quick=True), tmp_path)
    assert note.measurements == ()
    assert "there is no device to copy to" in note.notes[0]
    read, write = disk.measurements
    assert (read.name, write.name) == ("storage_read", "storage_write")
    for figure in (read, write):
        assert (figure.probe, figure.unit, figure.format) == ("transfer", "bytes/s", None)
        assert figure.moved == 2 * MIB
        assert figure.p10 <= figure.value <= figure.p90
        assert figure.conditions["size_bytes"] == 16 * MIB
        assert figure.conditions["request_bytes"] == 2 * MIB
        assert figure.conditions["filesystem"] == filesystem(tmp_path)
    assert (read.n, write.n) == (6, 6)
    assert list(tmp_path.iterdir()) == []


def test_the_current_folder_is_the_default(cpu, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    monkeypatch.setattr(module, "storage", lambda setting, folder: seen.append(folder))
    list(transfer(Setting(cpu, quick=True)))
    assert seen == [tmp_path]


def test_what_is_written_is_what_is_read(tmp_path, cpu):
    with opened(tmp_path, 16 * MIB, torch) as store:
        write, read = module._writer(store, torch), module._reader(store)
        pages = len(store.piece) // module.PAGE_BYTES
        for number in range(store.pieces):
            write(number)
        os.fsync(store.descriptor)
        assert os.fstat(store.descriptor).st_size == store.size_bytes == 16 * MIB
        for number in range(store.pieces):
            store.piece[:] = bytes(len(store.piece))
            read(number)
            marks = torch.frombuffer(bytearray(store.piece), dtype=torch.int64).view(pages, -1)[:, 0]
            assert marks.tolist() == list(range(number * pages, (number + 1) * pages))
            assert len(set(store.piece[8:1000])) > 100  # random, and back from the disk


def test_the_file_has_no_name_while_it_is_there(tmp_path, cpu):
    with opened(tmp_path, 16 * MIB, torch) as store:
        assert list(tmp_path.iterdir()) == []
        assert stat.S_IMODE(os.fstat(store.descriptor).st_mode) == 0o600


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_run_that_is_stopped_leaves_nothing(error, cpu, small, tmp_path, monkeypatch):
    descriptors = []

    def stopped(runtime, operations, *rest):
        descriptors.append(1)
        operations[0].run(0)
        raise error

    monkeypatch.setattr(module, "measure", stopped)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(error):
        storage(Setting(cpu, quick=True), tmp_path)
    assert descriptors == [1]
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "quota"), (errno.EIO, "error")]
)
def test_a_disk_that_fails(number, said, cpu, small, tmp_path, monkeypatch):
    real, calls = os.pwrite, []

    def full(*arguments):
        calls.append(1)
        if len(calls) > 3:
            raise OSError(number, os.strerror(number))
        return real(*arguments)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(InfoptError, match=said) as raised:
        storage(Setting(cpu, quick=True), tmp_path)
    assert "\n" not in str(raised.value)
    assert str(tmp_path) in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("when", ["open", "write"])
def test_a_file_system_that_refuses_direct_access(when, cpu, small, tmp_path, monkeypatch):
    """Some refuse the flag, some only the first access; either may leave the name behind."""
    real_open, real_write, direct = os.open, os.pwrite, set()

    def picky_open(path, flags, *mode):
        descriptor = real_open(path, flags & ~os.O_DIRECT, *mode)
        if flags & os.O_DIRECT:
            direct.add(descriptor)
            if when == "open":
                os.close(descriptor)
                raise OSError(errno.EINVAL, "Invalid argument")
        else:
            direct.discard(descriptor)
        return descriptor

    def picky_write(descriptor, *rest):
        if descriptor in direct and when == "write":
            raise OSError(errno.EINVAL, "Invalid argument")
        return real_write(descriptor, *rest)

    forgotten = []
    monkeypatch.setattr(os, "open", picky_open)
    monkeypatch.setattr(os, "pwrite", picky_write)
    monkeypatch.setattr(module, "filesystem", lambda folder: "overlay")
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: forgotten.append(arguments[1:]))
    found = storage(Setting(cpu, quick=True), tmp_path)
    assert [m.conditions["direct"] for m in found.measurements] == [False, False]
    assert found.notes[0].startswith("storage: overlay refuses O_DIRECT")
    assert forgotten[0] == (0, 2 * MIB, os.POSIX_FADV_DONTNEED)
    assert {start for start, *_ in forgotten} == {i * 2 * MIB for i in range(8)}
    assert list(tmp_path.iterdir()) == []


def test_memory_is_no_disk(cpu, small, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "filesystem", lambda folder: "tmpfs")
    (note,) = storage(Setting(cpu, quick=True), tmp_path).notes
    assert "is in memory (tmpfs)" in note


def test_the_kind_of_a_file_system():
    assert filesystem(Path("/proc/self")) == "proc"
    if Path("/dev/shm").is_mount():
        assert filesystem(Path("/dev/shm")) == "tmpfs"


@pytest.mark.parametrize(
    ("free", "size"), [(100 * 2**30, 2**30), (2**30, 2**30 // 10), (80 * MIB, 8 * MIB), (79 * MIB, None)]
)
def test_a_tenth_of_the_free_space_at_most(free, size, cpu, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=free))
    if size is None:
        with pytest.raises(InfoptError, match="too little to measure"):
            file_bytes(Setting(cpu), tmp_path)
    else:
        assert file_bytes(Setting(cpu), tmp_path) == size


def test_a_small_file_has_as_many_pieces(tmp_path):
    with opened(tmp_path, 8 * MIB + 12345, torch) as store:
        assert store.pieces == module.PIECES
        assert len(store.piece) % module.PAGE_BYTES == 0
        assert store.size_bytes <= 8 * MIB + 12345


def test_a_folder_that_is_not_there(cpu, tmp_path):
    with pytest.raises(InfoptError, match="No such file"):
        storage(Setting(cpu, quick=True), tmp_path / "absent")


def test_a_folder_that_cannot_be_written(cpu, small, tmp_path, monkeypatch):
    def refused(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(InfoptError, match="Permission denied"):
        storage(Setting(cpu, quick=True), tmp_path)


# ---- copies


def test_copies_of_a_gpu(small, tmp_path):
    runtime = gpu_on_cpu()
    setting = Setting(runtime, load_accelerator("h100-sxm-80gb"), quick=True)
    device, disk = transfer(setting, tmp_path)
    assert [(m.name, m.conditions["memory"]) for m in device.measurements] == [
        ("h2d", "pinned"),
        ("d2h", "pinned"),
        ("h2d", "pageable"),
        ("d2h", "pageable"),
    ]
    for figure in device.measurements:
        assert figure.moved == figure.conditions["size_bytes"] == 4 * MIB
        assert figure.share_of_peak == pytest.approx(figure.value / 63.015e9)
    assert runtime.torch.pinned_bytes == 4 * MIB
    # The disk is timed by the host's clock, and its waiting is no sign of others.
    assert [m.name for m in disk.measurements] == ["storage_read", "storage_write"]


def test_a_copy_goes_where_it_says(small):
    source, target = torch.arange(10), torch.zeros(10, dtype=torch.int64)
    operation = module._copy("h2d", target, source, 80)
    operation.run(0)
    assert torch.equal(source, target)
    assert (operation.amount, operation.unit) == (80, "bytes")


def test_a_gpu_with_little_memory_copies_less(small):
    runtime = gpu_on_cpu(free_bytes=5 * MIB)  # half of it is the probe's: 2 MiB fit
    assert {m.moved for m in copies(Setting(runtime, quick=True)).measurements} == {2 * MIB}
    with pytest.raises(InfoptError, match="needs"):
        copies(Setting(gpu_on_cpu(free_bytes=MIB), quick=True))


def test_memory_that_runs_out_halves_the_copy(small, monkeypatch):
    real = module._host_memory

    def short(torch, size_bytes, pinned):
        if size_bytes > 2 * MIB:
            raise MemoryError
        return real(torch, size_bytes, pinned)

    monkeypatch.setattr(module, "_host_memory", short)
    found = copies(Setting(gpu_on_cpu(), quick=True))
    assert {m.moved for m in found.measurements} == {2 * MIB}
    assert "instead of" in found.notes[0]


# ---- what sampling does for it


def test_waiting_for_a_disk_is_no_sign_of_others(cpu):
    def nap(number):
        time.sleep(0.01)

    idle, disk = measure(
        cpu,
        [Operation("idle", nap, 1.0, "bytes"), Operation("disk", nap, 1.0, "bytes", waits=True)],
        Sampling(fewest=6, most=6, warm_ups=0),
    )
    assert idle.contended
    assert sample(cpu, disk.operation, 0).ours == 1.0
    assert sample(cpu, idle.operation, 0).ours < 0.5


def test_a_pause_is_outside_the_time(cpu, monkeypatch):
    slept = []
    monkeypatch.setattr(sampling.time, "sleep", slept.append)
    operations = [Operation(name, lambda number: None, 1.0, "flop") for name in "ab"]
    measure(cpu, operations, Sampling(fewest=6, most=6))
    assert slept == []
    measure(cpu, operations, Sampling(fewest=6, most=6, pause_s=0.5))
    assert slept == [0.5] * 12
