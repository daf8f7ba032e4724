"""Work for tests of many jobs: by name, so that other processes find it."""

import os
import signal
import time
from pathlib import Path

from infopt.errors import InfoptError, UndeterminedError
from infopt.studies import simulate_cluster
from infopt.studies.simulate import Job, Simulation, simulated

BEFORE_DEATH_S = 0.5  # who starts a process hears first that it has come to life


def square(number: int) -> int:
    """A result, an error of each kind, or a defect."""
    if number == 13:
        raise InfoptError("13 is\n   refused")
    if number == 14:
        raise UndeterminedError("14 is unknown")
    if number == 15:
        raise ZeroDivisionError("fifteen")
    return number * number


def process_of(_: int) -> int:
    return os.getpid()


def dying(job: tuple[int, Path]) -> int:
    """A square; the process that works on 3 dies the first time, that on 5 always."""
    number, folder = job
    first = folder / "first"
    if number in (3, 5):
        time.sleep(BEFORE_DEATH_S)
    if number == 5 or (number == 3 and not first.exists()):
        first.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"{number}.{os.getpid()}.{time.monotonic_ns()}").touch()
    return number * number


def unhurried(job: tuple[int, Path]) -> int:
    """A square after a while, which leaves a mark when it is begun."""
    number, folder = job
    (folder / f"{number}.{os.getpid()}").touch()
    time.sleep(0.5)
    return number * number


def simulated_with_mark(job: tuple[int, Path, Job]) -> Simulation:
    """A simulation that leaves marks when it is begun and when it is done."""
    number, folder, asked = job
    (folder / f"{number}.{os.getpid()}").touch()
    try:
        return simulated(asked)
    finally:
        (folder / f"{number}.{os.getpid()}.done").touch()


def other_version(version: str) -> None:
    """On a worker: call itself another version."""
    simulate_cluster.__version__ = version
