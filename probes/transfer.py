"""`probe transfer`: how fast data comes to the device: from the host's memory, and from its storage.

Between host and GPU one large copy is timed each way, from pinned memory (what engines offload from) and from pageable
memory (what a plain tensor has, copied twice). Storage is read past the page cache (O_DIRECT) in large requests, one at
a time, as a loader of weights reads, from a file of random data that is bounded, and gone however the run ends.
"""

import errno
import mmap
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.calibration import Measurement, Value
from infopt.probes.findings import Findings, Part, rate
from infopt.probes.runtime import Runtime
from infopt.probes.sampling import Operation, Sampling, measure
from infopt.probes.setting import Setting
from infopt.units import format_bytes

COPY_BYTES = 512 * 10**6
COPY_QUICK_BYTES = 64 * 10**6
FILE_BYTES = 2**30
FILE_QUICK_BYTES = 128 * 2**20
DISK_SHARE = 0.1  # of the free space that the file may take
PIECE_BYTES = 16 * 2**20  # one request
PIECES = 8  # at least, of a file: fewer give no interval of a median
LEAST_PIECE_BYTES = 2**20
PAGE_BYTES = 4096  # O_DIRECT: offsets, lengths and addresses are multiples of it
IN_MEMORY = ("tmpfs", "ramfs")
FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}


def transfer(setting: Setting, folder: Path | None = None) -> Part:
    """Copies between host and device, then storage in `folder` (without it the current one), in bytes/s.

    Errors: InfoptError where the folder cannot be written or has no room.
    """
    if setting.runtime.kind == "cuda":
        yield copies(setting)
        setting.runtime.release()
    else:
        yield Findings(notes=("transfer: a CPU computes in the host's memory, there is no device to copy to",))
    yield storage(setting, folder or Path.cwd())


def copies(setting: Setting) -> Findings:
    """Rates of h2d and d2h. Not yet run on a GPU."""
    wanted = COPY_QUICK_BYTES if setting.quick else COPY_BYTES
    size = setting.fitting_bytes(wanted, COPY_QUICK_BYTES // 4, "the copy between host and device")
    figures, notes = setting.shrinking(size, COPY_QUICK_BYTES // 4, "transfer", lambda n: _copied(setting, n))
    return Findings(tuple(figures), notes=notes)


def _copied(setting: Setting, size_bytes: int) -> list[Measurement]:
    torch, runtime = setting.runtime.torch, setting.runtime
    device = torch.empty(size_bytes, dtype=torch.uint8, device=runtime.device).random_()
    hosts = {memory: _host_memory(torch, size_bytes, memory == "pinned") for memory in ("pinned", "pageable")}
    operations, kinds = [], []
    for memory, host in hosts.items():
        for name, target, source in (("h2d", device, host), ("d2h", host, device)):
            operations.append(_copy(name, target, source, size_bytes))
            kinds.append((name, memory))
    pcie = setting.accelerator.pcie if setting.accelerator else None
    timings = measure(runtime, operations, setting.sampling, setting.tell)
    return [
        rate("transfer", name, t, None, pcie.bytes_per_s if pcie else None, memory=memory, size_bytes=size_bytes)
        for (name, memory), t in zip(kinds, timings, strict=True)
    ]


def _copy(name: str, target: Any, source: Any, size_bytes: int) -> Operation:
    return Operation(name, lambda i: target.copy_(source, non_blocking=True), float(size_bytes), "bytes")


def _host_memory(torch: Any, size_bytes: int, pinned: bool) -> Any:
    """Random bytes: a page nobody wrote has no memory behind it."""
    return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=pinned).random_()


@dataclass(frozen=True, slots=True)
class Store:
    """An open file without a name, and a page-aligned piece of random data.

    descriptor  of the file;  direct  whether it goes past the page cache;  filesystem  its kind, None where unknown
    """

    descriptor: int
    direct: bool
    filesystem: str | None
    piece: mmap.mmap
    pieces: int

    @property
    def size_bytes(self) -> int:
        return self.pieces * len(self.piece)


def storage(setting: Setting, folder: Path) -> Findings:
    """Rates of storage_write and storage_read; the file is gone when this returns or raises.

    Errors: InfoptError where the folder cannot be written, has too little room, or fails.
    """
    torch = setting.runtime.torch
    # A disk is waited for with the host's clock, whatever the device of the run is.
    host = Runtime("cpu", 0, 1, torch)
    size = file_bytes(setting, folder)
    try:
        with opened(folder, size, torch) as store:
            write = Operation("storage_write", _writer(store, torch), float(len(store.piece)), "bytes", waits=True)
            whole = Sampling(fewest=store.pieces - 2, most=store.pieces - 2, warm_ups=2)
            (written,) = measure(host, [write], whole, setting.tell)
            os.fsync(store.descriptor)
            read = Operation("storage_read", _reader(store), float(len(store.piece)), "bytes", waits=True)
            (taken,) = measure(host, [read], setting.sampling, setting.tell)
            conditions: dict[str, Value] = {
                "direct": store.direct,
                "filesystem": store.filesystem,
                "size_bytes": store.size_bytes,
                "request_bytes": len(store.piece),
            }
            notes = _notes(store, folder)
    except OSError as error:
        what = FULL.get(error.errno or 0, error.strerror or str(error))
        raise InfoptError(f"{folder}: {what}; nothing is left there; name another folder, or free some") from error
    return Findings(
        (
            rate("transfer", "storage_read", taken, None, None, **conditions),
            rate("transfer", "storage_write", written, None, None, **conditions),
        ),
        notes=notes,
    )


def file_bytes(setting: Setting, folder: Path) -> int:
    """Size of the file: what is wanted, a share of the free space at most."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise InfoptError(f"{folder}: {error.strerror}; name a folder that can be written") from error
    size = min(FILE_QUICK_BYTES if setting.quick else FILE_BYTES, int(free * DISK_SHARE))
    if size < PIECES * LEAST_PIECE_BYTES:
        raise InfoptError(
            f"{folder} has {format_bytes(free)} free, of which a tenth is too little to measure; name another folder"
        )
    return size


@contextmanager
def opened(folder: Path, size_bytes: int, torch: Any) -> Iterator[Store]:
    """A file for at most `size_bytes`. Its name goes at once, so that no end of this process leaves it behind."""
    length = min(PIECE_BYTES, size_bytes // PIECES // PAGE_BYTES * PAGE_BYTES)
    with mmap.mmap(-1, length) as piece:
        piece.write(os.urandom(length))
        descriptor, direct = _open(folder / f".infopt-probe-{uuid.uuid4().hex}", piece)
        try:
            yield Store(descriptor, direct, filesystem(folder), piece, size_bytes // length)
        finally:
            os.close(descriptor)


def _open(path: Path, piece: mmap.mmap) -> tuple[int, bool]:
    """A descriptor, and whether it is direct: tried by a first page, since some file systems refuse only then."""
    for flag in (getattr(os, "O_DIRECT", 0), 0):
        descriptor = -1
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flag, 0o600)
            with memoryview(piece)[:PAGE_BYTES] as page:
                os.pwrite(descriptor, page, 0)
            return descriptor, bool(flag)
        except OSError as error:
            if descriptor >= 0:
                os.close(descriptor)
            if not flag or error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
        finally:
            path.unlink(missing_ok=True)
    raise AssertionError("unreachable: the second try returns or raises")


def _writer(store: Store, torch: Any) -> Any:
    """Writes a piece where it belongs and waits for the disk; each page is marked, so that none equals another."""
    sync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync
    pages = torch.frombuffer(store.piece, dtype=torch.int64).view(-1, PAGE_BYTES // 8)

    def write(number: int) -> None:
        pages[:, 0] = torch.arange(len(pages)) + number * len(pages)
        start = number % store.pieces * len(store.piece)
        done = 0
        while done < len(store.piece):
            with memoryview(store.piece)[done:] as rest:
                done += os.pwrite(store.descriptor, rest, start + done)
        sync(store.descriptor)

    return write


def _reader(store: Store) -> Any:
    """Reads a piece; without O_DIRECT the kernel is told to forget it, so that the next pass reads the disk."""

    def read(number: int) -> None:
        start = number % store.pieces * len(store.piece)
        done = 0
        if not store.direct and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(store.descriptor, start, len(store.piece), os.POSIX_FADV_DONTNEED)
        while done < len(store.piece):
            with memoryview(store.piece)[done:] as rest:
                count = os.preadv(store.descriptor, [rest], start + done)
            if not count:
                raise OSError(errno.EIO, "the file ends before its end")
            done += count

    return read


def filesystem(folder: Path) -> str | None:
    """Kind of the file system a folder is on, from /proc/self/mounts; None where there is none."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return None
    above = {str(parent) for parent in (folder.resolve(), *folder.resolve().parents)}
    # The last of equal names is mounted over the others.
    best = max(((len(place), i, kind) for i, (place, kind) in enumerate(mounts) if place in above), default=None)
    return best[2] if best else None


def _notes(store: Store, folder: Path) -> tuple[str, ...]:
    if store.filesystem in IN_MEMORY:
        return (f"storage: {folder} is in memory ({store.filesystem}): its rates are no disk's, name another folder",)
    if not store.direct:
        kind = store.filesystem or "its file system"
        return (f"storage: {kind} refuses O_DIRECT in {folder}: read through the page cache, emptied before",)
    return ()
