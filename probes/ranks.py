"""Ranks of a distributed probe: who started them, where each one is, and starting and ending one's own.

Processes started by `torchrun` or by `srun` are joined. Where nobody started any, the probe starts its own and looks
after them: one that dies, says nothing for too long or is no longer wanted takes the others with it, and none outlives
the probe (each leaves when its standard input is closed).
"""

import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.probes.runtime import need_torch

LOST_OTHERS = 3  # exit status of a rank that failed because it could not reach the others
_GRACE_S = 0.5  # for the others to fail as well, so that the first cause is among the dead
_POLL_S = 0.1
_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_ELEMENT = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_SPAN = re.compile(r"(\d{1,9})-(\d{1,9})")
_FIRST_PORT, _PORTS = 20_000, 20_000  # of a SLURM job that names none: all its ranks derive the same from its id


@dataclass(frozen=True, slots=True)
class Place:
    """One rank of a launched run.

    rank, ranks  its number, and how many there are
    local_rank   its number on its machine: which GPU is its own
    url          where torch finds the others: env://, tcp://HOST:PORT or file:///PATH
    """

    rank: int
    ranks: int
    local_rank: int
    url: str


def launched(environment: Mapping[str, str] = os.environ) -> Place | None:
    """The rank that torchrun or srun made of this process; None where nobody did.

    Errors: InfoptError where the launcher's variables are incomplete or no numbers.
    """
    if "RANK" in environment and "WORLD_SIZE" in environment:
        missing = [name for name in _TORCHRUN if not environment.get(name)]
        if missing:
            raise InfoptError(
                f"probe links: RANK is set but {', '.join(missing)} is not; start it with torchrun, "
                "or unset RANK and WORLD_SIZE to measure this machine alone"
            )
        numbers = [_number(environment, name) for name in _TORCHRUN[:3]]
        return Place(numbers[0], numbers[1], numbers[2], "env://")
    return _of_slurm(environment)


def follows_another(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a launcher started this process beside another one on this machine, which came first."""
    place = launched(environment)
    return place is not None and place.local_rank > 0


def own_device(device: str, environment: Mapping[str, str] = os.environ) -> str:
    """The device of this process: of those that see several GPUs, each rank has the one of its number."""
    place = launched(environment)
    if place is None or device not in ("auto", "cuda"):
        return device
    cuda = need_torch().cuda
    seen = cuda.device_count() if cuda.is_available() else 0
    return f"cuda:{place.local_rank}" if seen > 1 else device


def _of_slurm(environment: Mapping[str, str]) -> Place | None:
    """A task of a step that srun started; a batch script, which srun did not start, is alone."""
    if "SLURM_PROCID" not in environment or "SLURM_STEP_ID" not in environment:
        return None
    tasks = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environment else "SLURM_NTASKS"
    rank, ranks = _number(environment, "SLURM_PROCID"), _number(environment, tasks)
    if ranks < 2:
        return None
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", "")
    host = environment.get("MASTER_ADDR") or next(hosts(nodes), "")
    if not host:
        raise InfoptError("probe links: SLURM names no nodes (SLURM_JOB_NODELIST); set MASTER_ADDR to the first rank's")
    port = (
        _number(environment, "MASTER_PORT")
        if environment.get("MASTER_PORT")
        else _FIRST_PORT + _number(environment, "SLURM_JOB_ID") % _PORTS
    )
    return Place(rank, ranks, _number(environment, "SLURM_LOCALID"), f"tcp://{host}:{port}")


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not re.fullmatch(r"\d{1,9}", text):
        raise InfoptError(f"probe links: {name} is {text[:40]!r}, expected a number; the launcher sets it")
    return int(text)


def hosts(nodelist: str) -> Iterator[str]:
    """Names in a SLURM node list, in its order, one at a time: lists may mean a great many.

    >>> list(hosts("node[03-05,07],other1"))
    ['node03', 'node04', 'node05', 'node07', 'other1']
    """
    for element in _ELEMENT.findall(nodelist):
        yield from _expanded(element.strip())


def _expanded(element: str) -> Iterator[str]:
    head, bracket, rest = element.partition("[")
    if not bracket:
        if head:
            yield head
        return
    inside, _, tail = rest.partition("]")
    for part in inside.split(","):
        span = _SPAN.fullmatch(part.strip())
        low, high = span.groups() if span else (part.strip(), None)
        for number in range(int(low), int(high) + 1) if high else (low,):
            for end in _expanded(tail) if tail else ("",):
                yield f"{head}{str(number).zfill(len(low))}{end}"


def machine() -> str:
    """What two ranks on one machine have in common and no two machines have: the id of its last start."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def spawned(module: str, orders: Sequence[Mapping[str, Any]], timeout_s: float) -> Iterator[Any]:
    """Start `python -m module ORDER` once for each order; yield the lines that the first one prints, as JSON values.

    Errors: InfoptError where one ends badly, with what it said, or where none says anything for `timeout_s`. Whatever
    happens, Ctrl-C included, no process is left when this ends.
    """
    commands = [[sys.executable, "-P", "-m", module, json.dumps(dict(order))] for order in orders]
    with tempfile.TemporaryDirectory(prefix="infopt-ranks-") as folder:
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for number, command in enumerate(commands):
                processes.append(_started(command, Path(folder) / f"{number}.log", first=number == 0))
            for line in _lines(processes, Path(folder), timeout_s):
                yield json.loads(line)
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                _reap(process)


def _started(command: list[str], log: Path, first: bool) -> "subprocess.Popen[bytes]":
    """A rank of its own session (Ctrl-C is for the probe, which ends its ranks), on one thread, over the loopback."""
    environment = {name: value for name, value in os.environ.items() if name not in _TORCHRUN}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), None)
    if loopback:
        environment.setdefault("GLOO_SOCKET_IFNAME", loopback)
    with log.open("wb") as errors:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if first else subprocess.DEVNULL,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )


def _reap(process: "subprocess.Popen[bytes]") -> None:
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _lines(processes: "Sequence[subprocess.Popen[bytes]]", folder: Path, timeout_s: float) -> Iterator[bytes]:
    """Lines of the first process as they come, until all have ended well."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(processes[0].stdout, lines), daemon=True)
    reader.start()
    heard = time.monotonic()
    while True:
        try:
            line = lines.get(timeout=_POLL_S)
        except queue.Empty:
            line = b""
        if line:
            heard = time.monotonic()
            yield line
            continue
        statuses = [process.poll() for process in processes]
        if any(statuses):
            time.sleep(_GRACE_S)
            raise _death([process.poll() for process in processes], folder)
        if not any(status is None for status in statuses) and not reader.is_alive() and lines.empty():
            return
        if time.monotonic() - heard > timeout_s:
            raise InfoptError(
                f"probe links: {len(processes)} ranks on this machine said nothing for {timeout_s:g} s; "
                f"they were ended{_last_words(folder, range(len(processes)))}"
            )


def _read(stream: Any, lines: "queue.SimpleQueue[bytes]") -> None:
    for line in stream:
        lines.put(line)


def _death(statuses: Sequence[int | None], folder: Path) -> InfoptError:
    """Which rank ended first, as far as can be told: not one that only lost the others."""
    dead = [rank for rank, status in enumerate(statuses) if status]
    rank = min(dead, key=lambda r: (statuses[r] == LOST_OTHERS, r))
    status = statuses[rank] or 0
    how = f"was ended by {_signal_name(-status)}" if status < 0 else f"failed (exit status {status})"
    return InfoptError(f"probe links: rank {rank} of {len(statuses)} {how}{_last_words(folder, [rank])}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_words(folder: Path, ranks: Sequence[int]) -> str:
    """The last line each rank wrote to its standard error."""
    for rank in ranks:
        with (folder / f"{rank}.log").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
            said = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
        if said:
            own = [line for line in said if line.startswith("infopt: ")]
            return f": {(own or said)[-1].removeprefix('infopt: ')[:300]}"
    return ""


def leave_with_parent() -> None:
    """End this process as soon as whoever started it is gone: then its standard input is closed."""

    def wait() -> None:
        while os.read(0, 1):  # not sys.stdin: its lock would be held when the interpreter ends
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
