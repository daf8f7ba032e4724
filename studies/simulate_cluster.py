"""Many simulations on a dask cluster that the user runs: jobs out, results back, in order.

A job whose worker is lost is given to another (by dask, up to `distributed.scheduler.allowed-failures` times, 3). Dask
also counts those that only waited for that worker, so what was given up is run once more alone: then it is why. Every
worker must have the same infopt, Python and NumPy, or results would depend on who computed them. Nothing is started
and nobody but the scheduler named is spoken to.
"""

import logging
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from infopt import __version__
from infopt.errors import InfoptError, MissingExtraError
from infopt.studies.simulate_many import TOO_MUCH, Failed, attempt, unforeseen

J = TypeVar("J")
R = TypeVar("R")

REACHED_S = 10.0  # a scheduler that has not answered by then is not there
ALONE_S = 30.0  # a cluster without workers for so long has been given up
FETCHED_S = 10.0  # a result that is there has come by then
GONE = "no worker is left there; run this one again"
KILLED = Failed(f"its worker died, and those it was given to after that, also when run alone: {TOO_MUCH}")
RETRIES = 2  # of what is no fault of the job: a worker that could not read it


def on_cluster(work: Callable[[J], R], jobs: Sequence[J], address: str) -> list[R | Failed]:
    """`work` of every job by the workers of the scheduler at this address; errors stay with their jobs.

    Errors: InfoptError where nobody answers, no worker is there or stays, or one has other versions.
    """
    with _quiet(), _connected(address) as client:
        own = versions()
        _check_workers(client, address, own)
        run = partial(_gathered, client, address, work, own)
        found = run(dict(enumerate(jobs)))
        for index in [index for index, one in found.items() if one == KILLED]:
            found |= run({index: jobs[index]})
    return [found[index] for index in range(len(jobs))]


def versions() -> dict[str, str]:
    """What must be equal for results to be."""
    import numpy as np

    python = ".".join(platform.python_version_tuple()[:2])
    own = {"infopt": __version__, "Python": python, "NumPy": np.__version__}
    return {**own, "distributed": _distributed().__version__}


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise MissingExtraError("--scheduler", "cluster") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without dask's own log of what goes wrong: it is said in a line."""
    _distributed()  # sets up its log
    logs = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _connected(address: str) -> Any:
    import warnings

    connect = _distributed().Client
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions that differ: said below, in one line
            return connect(address, timeout=REACHED_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InfoptError(
            f"--scheduler {address}: no dask scheduler answers there; start one with `dask scheduler` and give "
            "its address, tcp://host:8786"
        ) from error


def _check_workers(client: Any, address: str, own: dict[str, str]) -> None:
    """Refuse a cluster without workers, or with one that would compute something else."""
    try:
        client.wait_for_workers(1, timeout=ALONE_S)
    except TimeoutError as error:
        raise InfoptError(
            f"--scheduler {address}: it has no workers; start some with `dask worker {address} --nthreads 1`"
        ) from error
    for worker, theirs in sorted(client.run(versions, on_error="return").items()):
        if isinstance(theirs, OSError):
            continue  # it has just left; one that comes in its place is asked with its first job
        if isinstance(theirs, Exception):
            text = " ".join(str(theirs).split())
            raise InfoptError(f"worker {worker}: infopt {__version__} does not run there ({text}): install it there")
        if difference := differing(own, theirs):
            raise InfoptError(f"worker {worker}: {difference}: install the same there")


def differing(own: dict[str, str], theirs: dict[str, str]) -> str:
    """What differs, in words; nothing where nothing does."""
    return ", ".join(
        f"{name} {theirs.get(name)} there and {version} here"
        for name, version in own.items()
        if theirs.get(name) != version
    )


def checked(work: Callable[[J], R], job: J, asked: dict[str, str]) -> R | Failed:
    """On a worker, also one that came later: the job, if it would give the same result as elsewhere."""
    difference = differing(versions(), asked)
    return Failed(f"a worker that came later differs: {difference}") if difference else attempt(work, job)


def _gathered(
    client: Any, address: str, work: Callable[[J], R], own: dict[str, str], jobs: Mapping[int, J]
) -> dict[int, R | Failed]:
    """Results by the number of the job."""
    from queue import Empty, SimpleQueue
    from time import monotonic

    ended: SimpleQueue[Any] = SimpleQueue()
    left: dict[Any, int] = {}
    for index, job in jobs.items():
        future = client.submit(checked, work, job, own, pure=False, retries=RETRIES)
        left[future] = index
        future.add_done_callback(ended.put)
    found: dict[int, R | Failed] = {}
    worked_s = monotonic()
    while left:
        try:
            future = ended.get(timeout=ALONE_S)
            found[left[future]] = _result(future)
            del left[future]
            worked_s = monotonic()
        except (_LostError, Empty) as silence:
            if isinstance(silence, _LostError):  # its callback comes at once when no worker is left to compute it again
                future.add_done_callback(ended.put)
            if _works(client):
                worked_s = monotonic()
            elif monotonic() - worked_s >= ALONE_S:
                return found | dict.fromkeys(left.values(), Failed(f"--scheduler {address}: {GONE}"))
    return found


class _LostError(Exception):
    """A result that its worker took with it: dask computes it again."""


def _result(future: Any) -> Any:
    """The result of a job that has ended. Raises _LostError where it is gone before it could be fetched."""
    if future.status == "cancelled":
        return Failed(GONE)
    try:
        error = future.exception(timeout=FETCHED_S)
        if isinstance(error, _distributed().scheduler.KilledWorker):
            return KILLED
        return future.result(timeout=FETCHED_S) if error is None else unforeseen(error)
    except TimeoutError as error:
        raise _LostError from error


def _works(client: Any) -> bool:
    """Whether there is a worker to wait for."""
    return client.status == "running" and bool(client.scheduler_info()["workers"])
