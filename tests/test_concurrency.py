"""Several programs at once on one file: what each wrote is whole, and nothing that was added is lost."""

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from calibrations import calibration, device, measurement, written

from infopt.errors import InfoptError
from infopt.files import write_text
from infopt.hardware.calibration import Device, load_calibration
from infopt.hardware.calibration_store import device_lock

TESTS = Path(__file__).resolve().parent
EXAMPLE = TESTS.parent / "docs" / "examples" / "vllm.yaml"
WRITERS, EACH = 8, 6
GATE = ("gate", str(EXAMPLE), "--gpu", "h100")
SIMULATE = ("simulate", "--model", "8b", "--hw", "h100", "--isl", "1k", "--osl", "20", "--rate", "8/s", "--requests")
# Adds figures of its own to a record, one save each, as probes do that ran one after the other.
PROBES = """\
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from calibrations import calibration, measurement
from infopt.hardware.calibration_store import save
writer, each = int(sys.argv[3]), int(sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
for number in range(each):
    save(calibration(measurement(f"of-{writer}-{number}")), Path(sys.argv[2]))
"""
# Holds the lock of a device until it is killed.
HOLDER = """\
import sys, time
sys.path.insert(0, sys.argv[1])
from calibrations import device
from infopt.hardware.calibration_store import device_lock
with device_lock(device(uuid_hash=sys.argv[2])):
    print("held", flush=True)
    time.sleep(60)
"""


def python(*arguments: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def at_once(*commands: Sequence[str]) -> list[tuple[int, str, str]]:
    """Status, output and error of commands that ran at the same time."""
    running = [python("-m", "infopt", *command) for command in commands]
    found = []
    for process in running:
        out, err = process.communicate(timeout=120)
        found.append((process.returncode, out, err))
    return found


def test_eight_that_add_to_one_calibration_lose_nothing_and_readers_see_it_whole(tmp_path: Path) -> None:
    record = written(tmp_path / "h200.yaml", calibration(measurement("there before")))
    writers = [python("-c", PROBES, str(TESTS), str(record), str(number), str(EACH)) for number in range(WRITERS)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(len(load_calibration(record).measurements))  # raises for half a file
    for writer in writers:
        assert writer.communicate() == ("", "")
        assert writer.returncode == 0
    names = {figure.name for figure in load_calibration(record).measurements}
    assert names == {"there before"} | {f"of-{w}-{n}" for w in range(WRITERS) for n in range(EACH)}
    assert len(seen) > 2, "nothing was read while others wrote"
    assert {path.name for path in tmp_path.iterdir()} == {"h200.yaml", ".h200.yaml.lock"}


@pytest.fixture
def nobodys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Device:
    """A device that no other test and no probe of this machine locks; its lock is in a folder of this test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return device(uuid_hash=uuid.uuid4().hex[:16])


def test_a_second_probe_of_a_device_is_refused_in_one_line(nobodys: Device) -> None:
    with (
        device_lock(nobodys),
        pytest.raises(InfoptError, match="another infopt probe") as refused,
        device_lock(nobodys),
    ):
        pass
    assert f"process {os.getpid()}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_lock_of_a_probe_that_was_killed_holds_nobody_up(nobodys: Device) -> None:
    holder = python("-c", HOLDER, str(TESTS), str(nobodys.uuid_hash))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(InfoptError, match=f"process {holder.pid}"), device_lock(nobodys):
        pass
    holder.kill()
    holder.communicate()
    with device_lock(nobodys):
        pass


def test_two_gates_at_once_write_one_baseline_and_one_page(tmp_path: Path) -> None:
    baseline, page = tmp_path / "accepted.json", tmp_path / "gate.html"
    command = (*GATE, "--write-baseline", str(baseline), "--html", str(page))
    ran = at_once(command, command, command)
    assert {status for status, _, _ in ran} == {0}
    assert json.loads(baseline.read_text())["findings"]
    assert page.read_text().endswith("</html>\n")
    assert {path.name for path in tmp_path.iterdir()} == {"accepted.json", "gate.html"}


@pytest.mark.parametrize("form", ["sarif", "junit", "json"])
def test_two_gates_at_once_give_the_same_report(form: str) -> None:
    (_, first, _), (_, second, _) = at_once((*GATE, "--format", form), (*GATE, "--format", form))
    assert first == second
    assert (ElementTree.fromstring if form == "junit" else json.loads)(first) is not None


def test_two_sweeps_at_once_leave_the_rows_of_one_of_them(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    sweep = ("sweep", "--model", "8b", "--hw", "h100", "--out", str(out), "--batch")
    ran = at_once((*sweep, "1:30000"), (*sweep, "1:30000:2"))
    assert [status for status, _, _ in ran] == [0, 0]
    assert len(out.read_text().splitlines()) - 1 in (30_000, 15_000)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_two_simulations_at_once_leave_rows_and_a_page_that_are_whole(tmp_path: Path) -> None:
    rows, page = tmp_path / "rows.csv", tmp_path / "page.html"
    files = ("--rows", str(rows), "--html", str(page))
    ran = at_once((*SIMULATE, "200", *files), (*SIMULATE, "300", *files))
    assert [status for status, _, _ in ran] == [0, 0]
    header, *lines = rows.read_text().splitlines()
    assert len(lines) in (200, 300)
    assert {line.count(",") for line in lines} == {header.count(",")}
    assert page.read_text().endswith("</html>\n")
    assert {path.name for path in tmp_path.iterdir()} == {"rows.csv", "page.html"}


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "text"
    texts = {letter * 3_000_000 + "\n" for letter in "ab"}
    code = (
        "import sys\nfrom pathlib import Path\nfrom infopt.files import write_text\n"
        "for _ in range(40):\n    write_text(Path(sys.argv[1]), sys.argv[2] * 3_000_000 + '\\n')\n"
    )
    write_text(path, min(texts))
    writers = [python("-c", code, str(path), letter) for letter in "ab"]
    looks, start = 0, time.monotonic()
    while any(writer.poll() is None for writer in writers):
        assert path.read_text() in texts
        looks += 1
        assert time.monotonic() - start < 60
    assert looks > 5
    for writer in writers:
        assert writer.communicate() == ("", "")
    assert [one.name for one in tmp_path.iterdir()] == ["text"]
