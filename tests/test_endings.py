"""Whatever takes output or life from a command: the right status, one line at most, nothing half written or left."""

import errno
import os
import resource
import signal
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from endings import EXAMPLE, LONG, PRINTING, Ended, broken_pipe, program, ran, signalled
from metric_servers import TEXTS

from infopt.cli import run
from infopt.errors import InfoptError
from infopt.files import write_bytes, write_text

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM, signal.SIGHUP: -signal.SIGHUP}
PLAN = ("plan", "--model", "8b", "--hw", "h100", "--ctx", "8k")
SWEEP = ("sweep", "--model", "8b", "--hw", "h100", "--batch", "1:100")
SIMULATE = ("simulate", "--model", "8b", "--hw", "h100", "--isl", "1k", "--osl", "20", "--rate", "8/s", "--requests")


# Signals


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("name", LONG)
def test_a_signal_leaves_what_was_there_and_nothing_else(tmp_path: Path, name: str, number: signal.Signals) -> None:
    old = tmp_path / "old.txt"
    old.write_text("old")
    ended = signalled(LONG[name], tmp_path, number)
    assert (ended.status, ended.out, ended.err, ended.left) == (SIGNALS[number], "", "", ())
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_text() == "old"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_it_starts_is_no_traceback(tmp_path: Path, number: signal.Signals) -> None:
    ended = signalled(PLAN, tmp_path, number, after_s=0.1)
    assert ended.status in (
        SIGNALS[number],
        -number,
    )  # before Python is there, the system ends it; a shell sees the same
    assert (ended.out, ended.err) == ("", "")


def test_a_sweep_keeps_its_rows_when_the_terminal_goes(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    words = ("sweep", "--model", "8b", "--hw", "h100", "--ctx", "1k:100k", "--batch", "1:1000000", "--out", str(out))
    with program(words) as process:
        while not any(path.stat().st_size for path in tmp_path.iterdir()):
            assert process.poll() is None
        process.send_signal(signal.SIGHUP)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGHUP
    assert err.startswith("infopt: stopped; ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [out]
    header, *rows = out.read_text().splitlines()
    assert {row.count(",") for row in rows} == {header.count(",")}


def test_what_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    words = ("sweep", "--model", "8b", "--hw", "h100", "--batch", "1:60000", "--out", str(out))
    with program(words, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
        while not list(tmp_path.iterdir()):
            assert process.poll() is None
        process.send_signal(signal.SIGHUP)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert len(out.read_text().splitlines()) == 60_001


# Readers who leave, full disks, streams that are closed


@pytest.mark.parametrize("name", PRINTING)
def test_a_reader_who_leaves_changes_no_status(name: str) -> None:
    status, words = PRINTING[name]
    pipe = broken_pipe()
    try:
        assert ran(words, out=pipe, err=pipe).status == status
    finally:
        os.close(pipe)


@pytest.mark.parametrize("name", ["help", "plan", "sweep", "gate", "wrong usage with --json"])
def test_a_full_disk_is_one_line_and_status_2(name: str) -> None:
    with open("/dev/full", "w") as full:
        ended = ran(PRINTING[name][1], out=full.fileno())
        unsaid = ran(PRINTING[name][1], out=full.fileno(), err=full.fileno())
    assert (ended.status, ended.lines) == (2, 1)
    assert ended.err.startswith("infopt: ")
    assert unsaid.status == 2


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("name", ["gate", "wrong usage"])
def test_closed_streams_change_no_status(name: str, closed: Sequence[int]) -> None:
    status, words = PRINTING[name]
    ended = ran(words, before=lambda: [os.close(number) for number in closed])
    assert ended.status == status
    assert "Traceback" not in ended.err


def test_progress_that_nobody_can_read_costs_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from infopt.reports import sweep_output

    monkeypatch.setattr(sweep_output, "QUIET_S", 0.0)
    monkeypatch.setattr(sweep_output, "LOG_S", 0.0)
    out = tmp_path / "rows.csv"
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stderr", full)
        assert run((*SWEEP, "--out", str(out))) == 0
    assert len(out.read_text().splitlines()) == 101


# Files that cannot be written

WRITERS: dict[str, tuple[str, ...]] = {
    "plan --html": (*PLAN, "--html"),
    "sweep --out": (*SWEEP, "--out"),
    "simulate --rows": (*SIMULATE, "30", "--rows"),
    "simulate --save": (*SIMULATE, "30", "--save"),
    "simulate --html": (*SIMULATE, "30", "--html"),
    "gate --write-baseline": ("gate", EXAMPLE, "--gpu", "l4", "--write-baseline"),
    "gate --html": ("gate", EXAMPLE, "--gpu", "l4", "--html"),
    "search --emit": (
        *("search", "--model", "8b", "--hw", "h100", "--isl", "1k", "--osl", "100", "--rate", "3/s"),
        *("--emit", "k8s", "--out"),
    ),
    "export --out": ("export", "grafana", "--model", "8b", "--hw", "h100", "--isl", "1k", "--osl", "100", "--out"),
    "observe --out": ("observe", str(next(TEXTS.glob("*vllm*"))), "--out"),
    "validate --predictions": ("validate", "--predictions"),
}


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Files may not grow beyond a few bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    old = tmp_path / "old.html"
    old.write_text("old")
    request.getfixturevalue("full_disk")
    assert run((*WRITERS[name], str(old))) == 2
    assert one_line(capsys, name).startswith(f"infopt: {old}: cannot be written: ")
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_text() == "old"


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    assert run((*WRITERS[name], str(tmp_path / "none" / "a.html"))) == 2
    one_line(capsys, name)
    assert not list(tmp_path.iterdir())


def one_line(capsys: pytest.CaptureFixture[str], name: str) -> str:
    """The last line for the user, which says why: the only one, but of commands that say more of what they found."""
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert "Traceback" not in err
    assert lines
    if name not in ("observe --out", "export --out"):
        assert not out
        assert len(lines) == 1, lines
    return lines[-1]


def _not_a_folder(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("old")
    return tmp_path / "file" / "a"


def _dangling(tmp_path: Path) -> Path:
    (tmp_path / "link").symlink_to(tmp_path / "none" / "a")
    return tmp_path / "link"


def _folder(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda folder: folder / "none" / "a", errno.ENOENT),
        (lambda folder: folder / ("n" * 256), errno.ENAMETOOLONG),
        (_not_a_folder, errno.ENOTDIR),
        (_dangling, errno.ENOENT),
        (_folder, errno.EISDIR),
    ],
)
def test_a_place_that_takes_no_file_says_why(tmp_path: Path, make: Callable[[Path], Path], why: int) -> None:
    path = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InfoptError) as refused:
        write_text(path, "text")
    assert str(refused.value) == f"{path}: cannot be written: {os.strerror(why)}"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere; trust/endings.py mounts a folder read-only")
def test_a_folder_that_may_not_be_written_says_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InfoptError, match="Permission denied"):
        write_text(tmp_path / "a", "text")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("length", [200, 255])
def test_the_longest_names_are_written(tmp_path: Path, length: int) -> None:
    path = tmp_path / ("n" * length)
    write_text(path, "text")
    assert path.read_text() == "text"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o440])
def test_a_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(mode)
    write_text(path, "new")
    assert (stat.S_IMODE(path.stat().st_mode), path.read_text()) == (mode, "new")


def test_interrupted_while_it_writes_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(path, b"new")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])


# Surroundings

SURROUNDINGS: dict[str, dict[str, str | None]] = {
    "no UTF-8": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ASCII only": {"PYTHONIOENCODING": "ascii"},
    "20 columns": {"COLUMNS": "20"},
    "0 columns": {"COLUMNS": "0"},
    "columns without end": {"COLUMNS": "99999999999999999999"},
    "columns that are no number": {"COLUMNS": "-x"},
    "a dumb terminal": {"TERM": "dumb"},
    "no terminal's name and no home": {"TERM": None, "HOME": None, "XDG_DATA_HOME": None},
    "a home that takes nothing": {"HOME": "/proc", "INFOPT_DATA": "/proc/none", "TMPDIR": "/none"},
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_surroundings_change_no_status(tmp_path: Path, name: str) -> None:
    for words in (PRINTING["choice"], (0, (*PLAN, "--html", str(tmp_path / "plan.html")))):
        ended = ran(words[1], env=SURROUNDINGS[name])
        assert (ended.status, ended.err) == (words[0], "")
        assert ended.out
    assert [path.name for path in tmp_path.iterdir()] == ["plan.html"]


def test_the_folder_it_stands_in_may_be_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    def leave() -> None:
        os.chdir(gone)
        gone.rmdir()

    ended = ran(PRINTING["gate"][1], before=leave)
    assert (ended.status, ended.err) == (1, "")
    lost: Ended = ran((*PLAN, "--html", "plan.html"), before=leave_again(tmp_path / "again"))
    assert (lost.status, lost.lines) == (2, 1)


def leave_again(folder: Path) -> Callable[[], None]:
    folder.mkdir()

    def leave() -> None:
        os.chdir(folder)
        folder.rmdir()

    return leave
