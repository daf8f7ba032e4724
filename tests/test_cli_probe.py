"""`infopt probe` as a user types it: what it refuses and how, and one whole quick run of everything."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infopt.cli import run
from infopt.hardware.calibration import load_calibration

pytestmark = pytest.mark.xdist_group("torch")

NO_TORCH = "import sys; sys.modules['torch'] = None; from infopt.cli import run; sys.exit(run(sys.argv[1:]))"


def infopt(*arguments: str, data: Path, code: str | None = None) -> "subprocess.CompletedProcess[str]":
    """The command in a process of its own, its data folder and its locks apart: somebody may be measuring here."""
    program = ["-c", code] if code else ["-m", "infopt"]
    environment = {**os.environ, "INFOPT_DATA": str(data), "TMPDIR": str(data), "COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, *program, *arguments], capture_output=True, text=True, env=environment, timeout=300
    )


Here = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Here]:
    """The same in this process, which has loaded torch: what is refused measures nothing."""
    import torch

    threads = torch.get_num_threads()
    monkeypatch.setenv("INFOPT_DATA", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def typed(*arguments: str) -> "subprocess.CompletedProcess[str]":
        status = run(arguments)
        out, error = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, status, out, error)

    yield typed
    torch.set_num_threads(threads)


def refused(result: "subprocess.CompletedProcess[str]", status: int = 2) -> str:
    assert result.returncode == status, result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_without_torch_it_says_how_to_get_it(tmp_path: Path) -> None:
    line = refused(infopt("probe", "bandwidth", data=tmp_path, code=NO_TORCH))
    assert "needs torch, which is not installed" in line
    assert "pip install 'infopt[probe]'" in line
    assert not list(tmp_path.rglob("*.yaml"))


def test_without_torch_a_server_can_be_asked(tmp_path: Path) -> None:
    arguments = ("probe", "draft", "--endpoint", "http://127.0.0.1:9")
    line = refused(infopt(*arguments, data=tmp_path, code=NO_TORCH))
    assert "127.0.0.1:9" in line
    assert "torch" not in line


def test_without_torch_planning_works(tmp_path: Path) -> None:
    result = infopt("plan", "--model", "8b", "--hw", "h100", "--ctx", "8k", data=tmp_path, code=NO_TORCH)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bandwidth", "--device", "tpu"), "auto, cpu, cuda or cuda:N is expected"),
        (("bandwidth", "--threads", "0"), "--threads"),
        (("verify", "--device", "cpu", "--model", "deepseek-v3"), "dense models with full attention"),
        (("verify", "--device", "cpu", "--model", "8b", "--weights", "int4"), "--weights int4"),
        (("latency", "--device", "cpu", "--model", "smollm2-135m", "--ctx", "64k"), "context 65536"),
        (("latency", "--device", "cpu", "--model", "nobody/nothing"), "nobody/nothing"),
        (("draft", "--device", "cpu", "--model", "/nowhere"), "/nowhere"),
        (("draft", "--device", "cpu", "--temperature", "-1"), "--temperature"),
        (("draft", "--device", "cpu", "--endpoint", "http://127.0.0.1:9", "--model", "x"), "--model with --endpoint"),
        (("draft", "--device", "cpu", "--endpoint", "ftp://127.0.0.1"), "http"),
        (("compare", "/nowhere/a.yaml", "/nowhere/b.yaml"), "/nowhere/a.yaml"),
    ],
)
def test_what_it_refuses_is_one_line(arguments: tuple[str, ...], said: str, here: Here, tmp_path: Path) -> None:
    assert said in refused(here("probe", *arguments))
    assert not list(tmp_path.rglob("*.yaml"))


def test_a_gpu_that_is_not_there_is_named(here: Here) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("torch sees a GPU here")
    assert "torch" in refused(here("probe", "bandwidth", "--device", "cuda"))


def test_ctrl_c_ends_a_run_with_its_status_and_no_half_file(tmp_path: Path) -> None:
    environment = {**os.environ, "INFOPT_DATA": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "infopt", "probe", "verify", "--device", "cpu", "--threads", "1"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as running:
        lock = _lock_of_a_running_probe(running, tmp_path)
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=120)
    assert lock
    assert running.returncode == 130, error
    assert "Traceback" not in error
    assert "interrupted" in error
    for path in tmp_path.rglob("*.yaml"):
        assert not load_calibration(path).complete


def _lock_of_a_running_probe(running: "subprocess.Popen[str]", folder: Path, limit_s: float = 60) -> bool:
    """Wait until the process holds the lock of the device: from then on Ctrl-C must end it cleanly."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and running.poll() is None:
        for path in folder.glob(f"infopt-probe-{os.getuid()}-*.lock"):
            if path.read_text(encoding="ascii", errors="replace").strip() == str(running.pid):
                return True
        time.sleep(0.05)
    return False


def test_everything_quick(tmp_path: Path) -> None:
    """All probes in one go within two minutes of one core, and a record that plans then use."""
    out = tmp_path / "here.yaml"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = infopt(
        *("probe", "--quick", "--device", "cpu", "--threads", "1", "--out", str(out), "--json"), data=tmp_path
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode in (0, 4), result.stderr  # 4: neighbours of a shared machine
    assert "Traceback" not in result.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 120
    record = load_calibration(out)
    assert json.loads(result.stdout) == record.plain()
    assert record.complete
    assert {m.probe for m in record.measurements} >= {"bandwidth", "compute", "transfer", "links"}
    assert len({s.model for s in record.steps if s.tokens == 1}) == 2
    assert {s.tokens for s in record.steps} >= {1, 2, 4, 8}
    assert {a.draft for a in record.acceptance} == {"ngram", "bits:3", "exit:20"}
    plan = infopt(
        *("plan", "--model", "smollm2-135m", "--engine", "torch", "--weights", "fp32", "--isl", "256", "--osl", "64"),
        *("--hw", "cpu", "--calibration", str(out), "--json"),
        data=tmp_path,
    )
    if all(m.contended for m in record.measurements if m.name in ("read", "sum", "gemv")):
        assert "contended" in json.loads(plan.stdout)["error"]["message"]
        return
    assert plan.returncode == 0, plan.stderr
    assert json.loads(plan.stdout)["hardware"]["calibration"] == str(out)
