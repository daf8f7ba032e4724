"""Simulations on a dask cluster of two processes, one of which is killed: the same results, nothing lost."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import simulate_works as works

from infopt.arrivals.synthetic import Lengths, Synthetic
from infopt.cli import run
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.reports.json_report import dumps
from infopt.reports.simulate_json import as_dict
from infopt.simulation.summary import Targets
from infopt.studies import simulate_cluster
from infopt.studies.scenarios import Request
from infopt.studies.simulate import Choices, Job, Simulation
from infopt.studies.simulate_many import Failed, each, run_many

distributed = pytest.importorskip("distributed", reason="needs the extra cluster")
dask_config = pytest.importorskip("dask.config")
pytestmark = pytest.mark.xdist_group("dask")
WORKERS = 2


def local_cluster(workers: int) -> Any:
    """Processes on this machine, each restarted when it dies; no dashboard, no address but 127.0.0.1."""
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        silence_logs="CRITICAL",
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local_cluster(WORKERS) as made:
        yield made


def job(rate_per_s: float, requests: int = 6000) -> Job:
    """About half a second of work."""
    source = Synthetic(Lengths(1000, 0.5), Lengths(150, 0.5), rate_per_s=rate_per_s, requests=requests)
    request = Request(input_tokens=1000, output_tokens=150)
    targets = Targets(ttft_s=0.3, tpot_s=0.03)
    return Job(resolve_model("8b"), resolve_hardware("h100"), request, source, Choices(saturation=False), targets)


def texts(found: list[Simulation | Failed]) -> list[str]:
    return [repr(one) if isinstance(one, Failed) else dumps(as_dict(one)) for one in found]


def kill_one_at_work(folder: Path, killed: list[tuple[str, int]]) -> None:
    """Once something is done, kill a process in the middle of something else."""
    end = time.monotonic() + 40
    while time.monotonic() < end:
        names = {path.name for path in folder.iterdir()}
        busy = [name for name in names if name.count(".") == 1 and f"{name}.done" not in names]
        if busy and any(name.endswith(".done") for name in names):
            number, process = busy[0].split(".")
            os.kill(int(process), signal.SIGKILL)
            killed.append((number, int(process)))
            return
        time.sleep(0.01)


def test_a_worker_that_is_killed_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    """Every result is that of one process, byte for byte; what was under way was begun again by another."""
    jobs = [job(rate) for rate in (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)]
    jobs[3:3] = [job(2.0, requests=0)]
    killed: list[tuple[str, int]] = []
    killer = threading.Thread(target=kill_one_at_work, args=(tmp_path, killed))
    killer.start()
    marked = [(number, tmp_path, one) for number, one in enumerate(jobs)]
    found = each(works.simulated_with_mark, marked, scheduler=cluster.scheduler_address)
    killer.join()
    assert len(killed) == 1
    number, process = killed[0]
    assert not (tmp_path / f"{number}.{process}.done").exists()
    others = {path.name.split(".")[1] for path in tmp_path.glob(f"{number}.*.done")}
    assert others
    assert str(process) not in others
    assert isinstance(found[3], Failed)
    assert texts(found) == texts(run_many(jobs, workers=1))


def test_errors_stay_with_their_jobs_there_too(cluster: Any) -> None:
    here, there = (
        each(works.square, range(10, 17), 1),
        each(works.square, range(10, 17), None, cluster.scheduler_address),
    )
    assert here == there
    assert sum(isinstance(one, Failed) for one in there) == 3
    assert each(works.square, [], None, cluster.scheduler_address) == []


def test_a_job_that_kills_every_worker_is_named(tmp_path: Path) -> None:
    """Work that was waiting for the same workers, and one that killed only the first, have their results."""
    with dask_config.set({"distributed.scheduler.allowed-failures": 0}), local_cluster(WORKERS) as own:
        found = each(works.dying, [(number, tmp_path) for number in range(8)], None, own.scheduler_address)
    assert [one for one in found if not isinstance(one, Failed)] == [0, 1, 4, 9, 16, 36, 49]
    assert found[5] == simulate_cluster.KILLED


def test_the_command_line_takes_an_address(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("simulate", "--model", "8b", "--hw", "h100", "--isl", "1k", "--osl", "100", "--rate", "4/s")
    vary = ("--requests", "100", "--vary", "max-num-seqs=4,32", "--json")
    assert run((*common, *vary, "--workers", "1")) == 0
    here = capsys.readouterr()
    assert run((*common, *vary, "--scheduler", cluster.scheduler_address)) == 0
    there = capsys.readouterr()
    assert there.out == here.out
    assert there.err == ""


def test_other_versions_are_refused(cluster: Any) -> None:
    own = simulate_cluster.versions()
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=30)
        one = next(iter(client.run(os.getpid)))
        client.run(works.other_version, "9.9.9", workers=[one])
        with pytest.raises(InfoptError, match=rf"worker {one}: infopt 9\.9\.9 there and {own['infopt']} here"):
            each(works.square, [1, 2], None, cluster.scheduler_address)
        client.run(works.other_version, own["infopt"], workers=[one])
    assert each(works.square, [1, 2], None, cluster.scheduler_address) == [1, 4]
    late = simulate_cluster.checked(works.square, 3, {**own, "NumPy": "1.0"})
    assert isinstance(late, Failed)
    assert "NumPy 1.0" in late.text


def test_a_cluster_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody at the address, an address that is none, nobody who works: one line each."""
    monkeypatch.setattr(simulate_cluster, "REACHED_S", 1.0)
    monkeypatch.setattr(simulate_cluster, "ALONE_S", 1.0)
    for address in ("tcp://127.0.0.1:9", "nonsense", ""):
        with pytest.raises(InfoptError, match="no dask scheduler answers there"):
            each(works.square, [1, 2], None, address)
    with local_cluster(0) as empty, pytest.raises(InfoptError, match="it has no workers"):
        each(works.square, [1, 2], None, empty.scheduler_address)


def test_a_cluster_that_goes_away_keeps_what_was_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All workers leave for good after the first results: the rest are errors of their jobs."""
    monkeypatch.setattr(simulate_cluster, "ALONE_S", 1.0)
    with local_cluster(1) as leaving:

        def leave() -> None:
            while len(list(tmp_path.iterdir())) < 5:  # a second later: the first two results have left the worker
                time.sleep(0.02)
            leaving.scale(0)

        leaver = threading.Thread(target=leave)
        leaver.start()
        found = each(works.unhurried, [(number, tmp_path) for number in range(30)], None, leaving.scheduler_address)
        leaver.join()
    assert found[:2] == [0, 1]
    assert isinstance(found[-1], Failed)
    assert "no worker is left" in found[-1].text
