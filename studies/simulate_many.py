"""Many simulations: here, in processes of this machine, or on a dask cluster. Results and their order are the same.

An error stays with its job. A job during which a process dies (killed, out of memory) is run once more in a process of
its own; if that dies too, the job is why, and has the error. What was done before is kept. Jobs are small records:
whoever runs one opens its files, so traces of any size are read where they are needed.
"""

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from infopt.errors import InfoptError
from infopt.frozen import dataclass

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

    from infopt.studies.simulate import Job, Simulation

J = TypeVar("J")
R = TypeVar("R")

# Unless told how many processes: what is done within this time is done here, since processes take as long to start.
HERE_S = 1.0
TOO_MUCH = "killed, or out of memory? Try it with fewer requests"
DIED = f"its process died, and once more when run alone: {TOO_MUCH}"


@dataclass(frozen=True, slots=True)
class Failed:
    """A job without a result: why, in one line, and the exit status of such an error."""

    text: str
    exit_status: int = InfoptError.exit_status


def run_many(
    jobs: "Sequence[Job]", workers: int | None = None, scheduler: str | None = None
) -> "list[Simulation | Failed]":
    """Simulate all jobs: in so many processes (None: as there are processors), or at a dask scheduler's address."""
    from infopt.studies.simulate import simulated

    return each(simulated, jobs, workers, scheduler)


def each(
    work: Callable[[J], R], jobs: Sequence[J], workers: int | None = None, scheduler: str | None = None
) -> list[R | Failed]:
    """`work` of every job; both must be picklable, `work` by its name."""
    if scheduler is not None:
        if workers is not None:
            raise InfoptError("--workers is of this machine, --scheduler of a cluster: give one of them")
        from infopt.studies.simulate_cluster import on_cluster

        return on_cluster(work, jobs, scheduler)
    found: dict[int, R | Failed] = {}
    left = deque(range(len(jobs)))
    most = min(len(jobs), workers or _processors())
    end = time.perf_counter() + HERE_S
    while left and (most == 1 or (workers is None and time.perf_counter() < end)):
        index = left.popleft()
        found[index] = attempt(work, jobs[index])
    while left:
        # Any of those under way may have brought the process down: run alone, a second death is its own.
        for index in _in_processes(work, jobs, left, found, min(most, len(left))):
            if _in_processes(work, jobs, deque([index]), found, 1):
                found[index] = Failed(DIED)
    return [found[index] for index in range(len(jobs))]


def attempt(work: Callable[[J], R], job: J) -> R | Failed:
    """The result, or why there is none."""
    try:
        return work(job)
    except InfoptError as error:
        return Failed(" ".join(str(error).split()), error.exit_status)
    except Exception as error:
        return unforeseen(error)


def attempt_packed(packed: bytes) -> Any:
    """The same in another process: one that cannot read the job has an error, and goes on."""
    import pickle

    try:
        work, job = pickle.loads(packed)
    except Exception as error:
        return unforeseen(error)
    return attempt(work, job)


def unforeseen(error: BaseException) -> Failed:
    """An error of the program: in one line, with its place, so that the other jobs are not lost with it."""
    at, trace = "", error.__traceback__
    while trace is not None:
        at, trace = f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}", trace.tb_next
    return Failed(f"a defect of infopt, please report it: {type(error).__name__}: {' '.join(str(error).split())}{at}")


def _processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_processes(
    work: Callable[[J], R], jobs: Sequence[J], left: deque[int], found: dict[int, R | Failed], workers: int
) -> list[int]:
    """Jobs of `left` until there are none, or a process dies: then those that were under way, without a result."""
    from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, wait

    lost: list[int] = []
    with _pool(workers) as pool:
        running: dict[Future[R | Failed], int] = {}
        while running or (left and not lost):
            # No more than are worked on: whatever is under way when a process dies is run again.
            while left and not lost and len(running) < workers:
                try:
                    future = _submit(pool, work, jobs[left[0]])
                except BrokenExecutor:
                    break
                running[future] = left.popleft()
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                index, error = running.pop(future), future.exception()
                if isinstance(error, BrokenExecutor):
                    lost.append(index)
                else:
                    found[index] = future.result() if error is None else unforeseen(error)
    return lost


def _submit(pool: "ProcessPoolExecutor", work: Callable[[J], R], job: J) -> "Future[R | Failed]":
    """Submit a job. Ctrl-C reaches every process of a terminal: a process started here never sees it, we end it."""
    import pickle

    packed = pickle.dumps((work, job))
    if not hasattr(signal, "pthread_sigmask"):
        return pool.submit(attempt_packed, packed)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(attempt_packed, packed)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _pool(workers: int) -> "Iterator[ProcessPoolExecutor]":
    """Fresh processes, ended at once where the work is given up."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    others = {child.pid for child in active_children()}
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        yield pool
    except BaseException:
        for child in active_children():
            if child.pid not in others:
                child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """In a new process: do not outlive the one that wants the results."""
    from multiprocessing import parent_process
    from threading import Thread

    parent: Any = parent_process()

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()
