"""`probe links`: ranks of its own over gloo, ranks that torchrun or SLURM started, the line through sizes, deaths."""

import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.hardware.accelerator import Link
from infopt.hardware.calibration import load_calibration
from infopt.hardware.catalogue import load_accelerator
from infopt.probes import links as probe
from infopt.probes import links_rank, ranks
from infopt.probes.findings import Findings
from infopt.probes.links import SIZES_BYTES, bus_factor, findings, fit_line, links, ranks_to_start
from infopt.probes.links_rank import Plan, Timed, measure_ranks
from infopt.probes.ranks import Place, follows_another, hosts, launched, own_device, spawned
from infopt.probes.runtime import Runtime, open_runtime
from infopt.probes.setting import Setting

pytestmark = pytest.mark.xdist_group("torch")


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting(open_runtime("cpu", 1), quick=True)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may itself be a rank of something."""
    for name in [name for name in os.environ if name.startswith("SLURM_") or name in ("RANK", "WORLD_SIZE")]:
        monkeypatch.delenv(name)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> "list[subprocess.Popen[bytes]]":
    """Every rank that the probe starts."""
    kept: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def keep(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
        kept.append(popen(*arguments, **options))
        return kept[-1]

    monkeypatch.setattr(ranks.subprocess, "Popen", keep)
    return kept


def test_two_ranks_of_its_own(setting: Setting, started: "list[subprocess.Popen[bytes]]") -> None:
    told: list[float] = []
    watched = replace(setting, tell=lambda what, done_s, expected_s: told.append(done_s / expected_s))
    parts = list(links(watched))
    assert [part.measurements[0].name for part in parts] == ["all_reduce", "all_gather", "send_recv"]
    assert len(started) == 2
    assert [process.returncode is not None for process in started] == [True, True]
    assert 0 <= min(told) <= max(told) == 1
    for part in parts:
        name = part.measurements[0].name
        by_size = [m for m in part.measurements if m.name == name]
        for times, rates in ((by_size[1::2], by_size[::2]),):
            assert [m.unit for m in times] == ["s"] * 3
            assert [m.unit for m in rates] == ["bytes/s"] * 3
            for time_s, per_s in zip(times, rates, strict=True):
                size = time_s.conditions["size_bytes"]
                assert per_s.value * time_s.value == pytest.approx(size * bus_factor(name, 2))
                assert time_s.p10 <= time_s.value <= time_s.p90
                assert time_s.n == 20
                assert time_s.conditions == {
                    "world": 2, "nodes": 1, "backend": "gloo", "links": "intra-node", "size_bytes": size,
                }  # fmt: skip
        fitted = {m.name: m for m in part.measurements if m.name != name}
        assert fitted.keys() <= {f"{name}_latency", f"{name}_bandwidth"}
        # Three sizes on a busy machine may take as long as each other, or grow from nothing: then that is said.
        missing = {f"{name}_latency", f"{name}_bandwidth"} - fitted.keys()
        assert len([note for note in part.notes if note.startswith(f"links: {name} ")]) == len(missing) < 2
        assert all(m.value > 0 and m.p10 <= m.value <= m.p90 and m.n == 60 for m in fitted.values())


def test_three_ranks_share_a_size_they_do_not_divide(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "QUICK_SIZES_BYTES", (8192,))
    parts = list(links(setting, 3))
    sizes = {part.measurements[0].name: part.measurements[0].conditions["size_bytes"] for part in parts}
    assert sizes == {"all_reduce": 8192, "all_gather": 8196, "send_recv": 8192}
    assert [len(part.measurements) for part in parts] == [2, 2, 2], "no line through one size"
    assert parts[0].measurements[0].moved == pytest.approx(8192 * 4 / 3)


def test_stopping_in_between_leaves_no_rank(setting: Setting, started: "list[subprocess.Popen[bytes]]") -> None:
    running = links(setting)
    assert next(running).measurements
    assert len(started) == 2
    running.close()  # type: ignore[attr-defined]
    assert all(process.returncode is not None for process in started)


def test_a_rank_that_is_killed(
    setting: Setting, started: "list[subprocess.Popen[bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "QUICK_SIZES_BYTES", (2**18,))
    monkeypatch.setattr(probe, "QUICK_RUNS", 300)  # as long as it takes: two of three collectives are still to come
    running = links(setting)
    next(running)
    started[1].kill()
    with pytest.raises(InfoptError, match=r"^probe links: rank 1 of 2 was ended by SIGKILL"):
        list(running)
    assert all(process.returncode for process in started)


def test_under_torchrun(tmp_path: Path) -> None:
    """The whole command: the ranks of a machine share its lock, and the first one writes the record."""
    record = tmp_path / "links.yaml"
    launcher = [sys.executable, "-P", "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command = ["-m", "infopt", "probe", "links", "--quick", "--device", "cpu", "--threads", "1", "--out", str(record)]
    # A folder of its own for locks: another probe may be measuring this machine for another test.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path), "INFOPT_DATA": str(tmp_path)}
    done = subprocess.run(
        [*launcher, *command], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr.count("written to") == 1, done.stderr
    measured = load_calibration(record).measurements
    assert {m.name for m in measured if "size_bytes" in m.conditions} == {"all_gather", "all_reduce", "send_recv"}
    assert {m.conditions["world"] for m in measured} == {2}


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def test_tasks_of_slurm_meet(tmp_path: Path) -> None:
    common = os.environ | {
        "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "localhost",
        "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    code = (
        "from infopt.probes.links import links; from infopt.probes.runtime import open_runtime; "
        "from infopt.probes.setting import Setting; "
        "print(len(list(links(Setting(open_runtime('cpu', 1), quick=True)))))"
    )
    tasks = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", code], env=common | {"SLURM_PROCID": rank, "SLURM_LOCALID": rank},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in ("0", "1")
    ]  # fmt: skip
    said = [task.communicate(timeout=120) for task in tasks]
    assert [out.strip() for out, _ in said] == ["3", "0"], said


# Who started this process.


def test_nobody_started_it() -> None:
    assert launched({}) is None
    batch_script = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0", "SLURM_JOB_NODELIST": "a[1-2]"}
    assert launched(batch_script) is None, "srun did not start a batch script"
    assert launched(batch_script | {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}) is None


def test_torchrun_started_it() -> None:
    variables = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "node01", "MASTER_PORT": "29500"}
    assert launched(variables) == Place(3, 4, 1, "env://")
    with pytest.raises(InfoptError, match="RANK is set but LOCAL_RANK, MASTER_PORT is not"):
        launched({name: variables[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR")})
    with pytest.raises(InfoptError, match="WORLD_SIZE is 'many', expected a number"):
        launched(variables | {"WORLD_SIZE": "many"})


def test_ranks_of_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one locks the device for all; each has a GPU of its own."""
    variables = {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "MASTER_ADDR": "node01", "MASTER_PORT": "29500"}
    assert follows_another(variables)
    assert not follows_another(variables | {"LOCAL_RANK": "0"})
    assert not follows_another({})
    for seen, device, expected in (
        (8, "auto", "cuda:1"),
        (8, "cuda:3", "cuda:3"),
        (1, "cuda", "cuda"),
        (8, "cpu", "cpu"),
    ):
        monkeypatch.setattr(ranks, "need_torch", lambda seen=seen: gpus(seen).torch)
        assert own_device(device, variables) == expected
    assert own_device("auto", {}) == "auto"


def test_slurm_started_it() -> None:
    variables = {
        "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "123456",
        "SLURM_JOB_NODELIST": "node[03-05,07],other1",
    }  # fmt: skip
    assert launched(variables) == Place(5, 8, 1, "tcp://node03:23456")
    step = variables | {"SLURM_STEP_NODELIST": "node05", "SLURM_STEP_NUM_TASKS": "6", "MASTER_PORT": "4000"}
    assert launched(step) == Place(5, 6, 1, "tcp://node05:4000")
    assert launched(step | {"MASTER_ADDR": "10.0.0.1"}) == Place(5, 6, 1, "tcp://10.0.0.1:4000")
    with pytest.raises(InfoptError, match="SLURM_JOB_ID is '', expected a number"):
        launched({name: value for name, value in variables.items() if name != "SLURM_JOB_ID"})
    with pytest.raises(InfoptError, match="set MASTER_ADDR"):
        launched(variables | {"SLURM_JOB_NODELIST": ""})


@pytest.mark.parametrize(
    ("nodelist", "names"),
    [
        ("node[03-05,07],other1", ["node03", "node04", "node05", "node07", "other1"]),
        ("host", ["host"]),
        ("a,b", ["a", "b"]),
        ("gpu-[9-11]", ["gpu-9", "gpu-10", "gpu-11"]),
        ("rack[1-2]n[01-02]-ib", ["rack1n01-ib", "rack1n02-ib", "rack2n01-ib", "rack2n02-ib"]),
        ("", []),
    ],
)
def test_node_lists(nodelist: str, names: list[str]) -> None:
    assert list(hosts(nodelist)) == names


def test_a_node_list_without_end_is_read_lazily() -> None:
    assert list(islice(hosts("n[0-999999999]"), 2)) == ["n0", "n1"]


# What is asked for and cannot be.


def gpus(count: int, nccl: bool = True) -> Runtime:
    """A runtime as far as links ask before they start anything."""
    torch = SimpleNamespace(
        __version__="2.9.0",
        cuda=SimpleNamespace(is_available=lambda: True, device_count=lambda: count),
        distributed=SimpleNamespace(is_available=lambda: True, is_nccl_available=lambda: nccl),
    )
    return Runtime("cuda", 0, 1, torch)


def test_one_gpu_has_no_links() -> None:
    assert list(links(Setting(gpus(1)))) == [Findings(notes=("links: torch sees one GPU; links need two devices",))]
    assert ranks_to_start(gpus(8), None) == 8
    assert ranks_to_start(gpus(8), 2) == 2


def test_more_ranks_than_gpus() -> None:
    with pytest.raises(InfoptError, match="--ranks 4: torch sees 2 GPUs here"):
        list(links(Setting(gpus(2)), 4))


def test_one_rank(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InfoptError, match="--ranks 1: links need two devices"):
        list(links(setting, 1))
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in alone.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InfoptError, match="launcher started one rank; links need two"):
        list(links(setting))
    with pytest.raises(InfoptError, match="--ranks 2: the launcher started 1"):
        list(links(setting, 2))


def test_no_nccl() -> None:
    with pytest.raises(InfoptError, match=r"torch 2\.9\.0 was built without nccl, which joins GPUs"):
        list(links(Setting(gpus(2, nccl=False))))


def test_each_rank_has_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(links_rank, "open_runtime", lambda device, threads=None: opened.append(device) or gpus(1))
    for seen, local_rank in ((8, 0), (8, 5), (1, 5)):
        monkeypatch.setattr(links_rank, "need_torch", lambda seen=seen: gpus(seen).torch)
        links_rank.rank_runtime("cuda", local_rank)
    assert opened == ["cuda:0", "cuda:5", "cuda:0"], "a launcher may show each task its own GPU only"


def test_a_gpu_is_kept_asleep_while_runs_are_enqueued() -> None:
    """Not a real GPU: the order of what is asked of one."""
    asked: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            asked.append("event")

        def synchronize(self) -> None:
            asked.append("wait")

        def elapsed_time(self, end: "Event") -> float:
            return 2.5  # milliseconds

    cuda = SimpleNamespace(
        Event=Event, _sleep=lambda cycles: asked.append("sleep"), synchronize=lambda index: asked.append("idle")
    )
    distributed = SimpleNamespace(all_reduce=lambda flag: asked.append("line up"))
    torch = SimpleNamespace(
        cuda=cuda, distributed=distributed, zeros=lambda n, device: None, device=lambda kind, index: None
    )
    group: Any = SimpleNamespace(runtime=Runtime("cuda", 0, 1, torch))
    exchange = links_rank.Exchange(8, lambda: asked.append("prepare"), lambda: asked.append("run"), lambda: True)
    taken = links_rank.timed_runs(group, exchange, 3)
    assert taken == [(0.0025, True)] * 3
    assert asked == ["prepare", "idle", "sleep", "line up", "event", "run", "event", "wait"] * (links_rank.WARM_UPS + 3)


# One rank, in this process.


def alone(tmp_path: Path) -> Place:
    return Place(0, 1, 0, (tmp_path / "meeting").as_uri())


def test_a_wrong_sum_is_an_error(tmp_path: Path, setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = setting.runtime.torch
    first = next(measure_ranks(setting.runtime, alone(tmp_path), Plan((8192,), 2, 20.0)))
    assert (first.collective, first.size_bytes, len(first.seconds)) == ("all_reduce", 8192, 2)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor: tensor.add_(1))
    again = Place(0, 1, 0, (tmp_path / "again").as_uri())
    with pytest.raises(InfoptError, match=r"all_reduce of .* gives a wrong result on rank 0"):
        list(measure_ranks(setting.runtime, again, Plan((8192,), 2, 20.0)))


def test_ranks_that_do_not_meet(tmp_path: Path, setting: Setting) -> None:
    missing = Place(0, 2, 0, (tmp_path / "meeting").as_uri())
    begun = time.monotonic()
    with pytest.raises(links_rank.LostOthersError, match=r"rank 0 of 2: 2 ranks did not meet at file:.* within 1 s"):
        list(measure_ranks(setting.runtime, missing, Plan((8192,), 2, 1.0)))
    assert time.monotonic() - begun < 60


def test_the_slowest_rank_counts() -> None:
    group: Any = SimpleNamespace(place=Place(0, 2, 0, ""), nodes=2, backend="gloo")
    gathered = [[True, [1.0, 5.0], [True, True]], [True, [3.0, 2.0], [True, False]]]
    timed = links_rank.slowest(group, "all_gather", 64, "all_gather", gathered)
    assert (timed.seconds, timed.clean) == ([3.0, 5.0], [True, False])
    gathered[1][0] = False
    with pytest.raises(InfoptError, match="wrong result on rank 1"):
        links_rank.slowest(group, "all_gather", 64, "all_gather", gathered)


# Processes that misbehave.


@pytest.fixture
def act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that a rank may be: does what its order says."""
    (tmp_path / "acting.py").write_text(
        "import json, os, sys, time\nfrom infopt.probes.ranks import leave_with_parent\nleave_with_parent()\n"
        "exec(json.loads(sys.argv[1])['do'])\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "acting"


def acting(act: str, *does: str, timeout_s: float = 30.0) -> Iterator[Any]:
    return spawned(act, [{"do": do} for do in does], timeout_s)


def test_lines_of_the_first_process(act: str) -> None:
    assert list(acting(act, "print('[1]'); print('{\"a\": 2}')", "print('[3]')")) == [[1], {"a": 2}]


def test_the_cause_is_told_from_its_consequence(act: str) -> None:
    lost = f"sys.stderr.write('infopt: lost the others\\n'); sys.exit({ranks.LOST_OTHERS})"
    cause = "sys.stderr.write('infopt: no such device\\n[W] leaving\\n'); sys.exit(2)"
    with pytest.raises(InfoptError, match=r"rank 1 of 2 failed \(exit status 2\): no such device$"):
        list(acting(act, lost, cause))


def test_a_traceback_becomes_its_last_line(act: str) -> None:
    with pytest.raises(
        InfoptError, match=r"rank 0 of 1 failed \(exit status 1\): ZeroDivisionError: division by zero$"
    ):
        list(acting(act, "1/0"))


def test_silence_ends(act: str, started: "list[subprocess.Popen[bytes]]") -> None:
    talking = acting(act, "print(1, flush=True); time.sleep(60)", "time.sleep(60)", timeout_s=5.0)
    assert next(talking) == 1
    with pytest.raises(InfoptError, match="2 ranks on this machine said nothing for 5 s"):
        next(talking)
    assert all(process.returncode == -9 for process in started)


def test_ranks_leave_with_whoever_started_them(act: str, tmp_path: Path) -> None:
    """A probe that is killed outright cannot end its ranks."""
    code = (
        "from infopt.probes.ranks import spawned; import os, signal\n"
        "for line in spawned('acting', [{'do': 'print(os.getpid(), flush=True); time.sleep(60)'}], 60):\n"
        "    print(line, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -9
    rank = int(done.stdout)
    deadline = time.monotonic() + 20
    while alive(rank) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(rank)


def alive(process: int) -> bool:
    """Whether a process runs; one that ended and was not fetched by the system's first process does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# Arithmetic.


@pytest.mark.parametrize(
    ("collective", "count", "factor"),
    [("all_reduce", 2, 1.0), ("all_reduce", 8, 1.75), ("all_gather", 4, 0.75), ("send_recv", 8, 1.0)],
)
def test_bus_factors(collective: Any, count: int, factor: float) -> None:
    assert bus_factor(collective, count) == factor


def timed(size: int, seconds: list[float], nodes: int = 1) -> Timed:
    return Timed("all_reduce", size, seconds, [True] * len(seconds), 4, nodes, "nccl")


def test_figures_of_a_collective(setting: Setting) -> None:
    """Four ranks, 10 us and 300 GB/s: each size as it is, and the line."""
    sizes = [timed(size, [1e-5 + 1.5 * size / 3e11] * 9) for size in SIZES_BYTES]
    device = replace(load_accelerator("h100-sxm-80gb"), link=Link("nvlink", 4.5e11))
    found = {(m.name, m.unit, m.conditions.get("size_bytes")): m for m in
             findings(replace(setting, accelerator=device), sizes).measurements}  # fmt: skip
    assert found["all_reduce_latency", "s", None].value == pytest.approx(1e-5)
    assert found["all_reduce_bandwidth", "bytes/s", None].value == pytest.approx(3e11)
    largest = found["all_reduce", "bytes/s", SIZES_BYTES[-1]]
    assert largest.value == pytest.approx(1.5 * 2**26 / (1e-5 + 1.5 * 2**26 / 3e11))
    assert largest.share_of_peak == pytest.approx(largest.value / 4.5e11)
    assert not any(m.contended for m in found.values())


def test_a_network_has_no_peak_in_the_device(setting: Setting) -> None:
    device = replace(load_accelerator("h100-sxm-80gb"), link=Link("nvlink", 4.5e11))
    found = findings(replace(setting, accelerator=device), [timed(8192, [1e-5] * 9, nodes=2)]).measurements
    assert [m.share_of_peak for m in found] == [None, None]
    assert found[0].conditions["links"] == "inter-node"


def test_times_that_a_line_does_not_fit(setting: Setting) -> None:
    flat = findings(setting, [timed(8192, [1e-3] * 9), timed(2**20, [1e-3] * 9)])
    assert [m.name for m in flat.measurements if m.name != "all_reduce"] == ["all_reduce_latency"]
    assert "takes as long" in flat.notes[0]
    steep = findings(setting, [timed(8192, [1e-6] * 9), timed(2**20, [1e-3] * 9)])
    assert [m.name for m in steep.measurements if m.name != "all_reduce"] == ["all_reduce_bandwidth"]
    assert "too small to be seen" in steep.notes[0]


SIZE = st.lists(st.integers(10, 30), min_size=2, max_size=8, unique=True)


@given(SIZE, st.floats(-6, -3), st.floats(8, 12))
def test_an_exact_line_is_found(powers: list[int], latency: float, bandwidth: float) -> None:
    sizes = [2.0**power for power in powers]
    line = fit_line(sizes, [10**latency + size / 10**bandwidth for size in sizes])
    times = [line.latency_s + size / line.bytes_per_s for size in sizes]
    assert times == pytest.approx([10**latency + size / 10**bandwidth for size in sizes], rel=1e-6)


@given(SIZE, st.data())
def test_no_other_line_is_closer(powers: list[int], data: st.DataObject) -> None:
    sizes = [2.0**power for power in powers]
    times = [10 ** data.draw(st.floats(-6, 0)) for _ in sizes]

    def off(latency: float, slope: float) -> float:
        return math.fsum(((latency + slope * size) / t - 1) ** 2 for size, t in zip(sizes, times, strict=True))

    line = fit_line(sizes, times)
    slope = 1 / line.bytes_per_s
    assert line.latency_s >= 0
    assert slope >= 0
    best = off(line.latency_s, slope)
    step_a, step_b = 0.01 * max(line.latency_s, min(times)), 0.01 * max(slope, min(times) / max(sizes))
    for a in (line.latency_s - step_a, line.latency_s, line.latency_s + step_a):
        for b in (slope - step_b, slope, slope + step_b):
            if a >= 0 and b >= 0:
                assert off(a, b) >= best * (1 - 1e-9)


@given(SIZE, st.floats(0.001, 1000), st.data())
def test_units_do_not_matter(powers: list[int], scale: float, data: st.DataObject) -> None:
    sizes = [2.0**power for power in powers]
    times = [10 ** data.draw(st.floats(-6, 0)) for _ in sizes]
    line, scaled = fit_line(sizes, times), fit_line(sizes, [scale * t for t in times])
    assert scaled.latency_s == pytest.approx(scale * line.latency_s, rel=1e-6, abs=1e-9 * scale * min(times))
    assert 1 / scaled.bytes_per_s == pytest.approx(scale / line.bytes_per_s, rel=1e-6, abs=1e-9 * scale * min(times))


def test_one_size_makes_no_line() -> None:
    with pytest.raises(InfoptError, match="one message size is worthless"):
        fit_line([8192.0, 8192.0], [1e-5, 2e-5])


def test_an_order_survives_json() -> None:
    place = timed(8192, [1.0])
    fields = {name: getattr(place, name) for name in Timed.__slots__}
    assert Timed(**json.loads(json.dumps(fields))) == place
