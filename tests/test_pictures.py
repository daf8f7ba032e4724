"""`--plot FILE`: what is written, that it is whole and the same each time, and what is refused; `--curves`."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from infopt.cli import run
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.reports.pictures import ENDINGS, picture
from infopt.reports.plan_plot import draw
from infopt.studies.plan_curves import plan_curves
from infopt.studies.planning import plan
from infopt.studies.scenarios import Request

LOAD = ("--model", "8b", "--hw", "h100", "--isl", "2000", "--osl", "300")
COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": ("plan", *LOAD, "--batch", "32", "--tpot", "20ms"),
    "boundary": ("boundary", "kv", *LOAD, "--batch", "32"),
    "search": ("search", "--model", "8b", "--tpot", "20ms", "--isl", "1k", "--osl", "256", "--hw", "h200"),
    "simulate": ("simulate", *LOAD, "--rate", "8/s", "--requests", "200", "--ttft", "1s"),
    "validate": ("validate",),
}
NO_GAIN = ("boundary", "more-bandwidth", "--model", "70b", "--hw", "l4", "--isl", "2000", "--osl", "300")
MAGIC = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}
PLAN = COMMANDS["plan"]

Printed = Callable[..., str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    def run_it(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["infopt"])  # the line that pages propose
        assert run(list(arguments)) in (0, 1)
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run_it


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "validate"])  # slow: test_speed_validate.py
def test_the_same_command_writes_the_same_picture(name: str, tmp_path: Path, printed: Printed) -> None:
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    pages = [printed(*COMMANDS[name], "--plot", str(target)) for target in (first, second)]
    assert pages[0] == pages[1]
    assert first.read_bytes() == second.read_bytes()
    assert sorted(tmp_path.iterdir()) == [first, second]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_form_is_written_the_same_twice(ending: str, tmp_path: Path, printed: Printed) -> None:
    target = tmp_path / f"plan{ending.upper()}"
    printed(*PLAN, "--plot", str(target))
    before = target.read_bytes()
    assert before.startswith(MAGIC[ending])
    printed(*PLAN, "--plot", str(target))
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plan.gif", "must end in .svg, .png, .pdf"),
        ("plan", "must end in"),
        ("nowhere/plan.svg", "there is no folder"),
        ("folder.svg", "is a folder"),
        ("--json", "must end in"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_cannot_be_written_is_one_line(
    command: str, name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.svg").mkdir()
    target = name if name.startswith("-") else str(tmp_path / name)
    assert run([*COMMANDS[command], "--plot", target]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert err.count("\n") == 1
    assert "Traceback" not in out + err


def test_a_file_that_turns_out_unwritable_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/proc/self").is_dir():
        pytest.skip("no /proc: a folder that even root cannot write to")
    assert run([*PLAN, "--plot", "/proc/plan.svg"]) == 2
    _, err = capsys.readouterr()
    assert "cannot be written" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_without_the_library_one_line_says_how_to_get_it(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    target = tmp_path / "plan.svg"
    assert run([*COMMANDS[command], "--plot", str(target)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "infopt[report]" in err
    assert err.count("\n") == 1
    assert not target.exists()


@pytest.mark.parametrize("name", ["$x_{1}$ & <b>", "模型/名", "a" * 300, "--><script>"])
def test_a_hostile_name_is_text(name: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = plan(replace(resolve_model("8b"), id=name), resolve_hardware("h100"), Request(context_tokens=4096))
        draw(found, plan_curves(found), tmp_path / "plan.svg")
    tree = ElementTree.parse(tmp_path / "plan.svg")
    assert not [element for element in tree.iter() if "script" in str(element.tag)]


def test_a_search_that_finds_nothing_says_that_it_draws_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "front.svg"
    assert run([*COMMANDS["search"], "--ttft", "1us", "--plot", str(target)]) == 1
    assert "nothing is drawn" in capsys.readouterr().err
    assert not target.exists()


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "plan.svg"
    target.write_text("before")
    drawing = picture(target, 2, 2)
    drawing.__enter__().subplots()
    assert not drawing.__exit__(RuntimeError, RuntimeError("interrupted"), None)
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_home_that_cannot_be_written_is_no_remark(tmp_path: Path) -> None:
    target = tmp_path / "plan.svg"
    home = {"HOME": str(tmp_path / "file" / "home"), "PATH": os.environ["PATH"]}
    (tmp_path / "file").write_text("")
    line = [sys.executable, "-m", "infopt", "plan", *LOAD, "--plot", str(target)]
    finished = subprocess.run(line, env=home, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert target.is_file()


def test_the_users_own_style_changes_nothing(tmp_path: Path, printed: Printed) -> None:
    import matplotlib

    printed(*PLAN, "--plot", str(tmp_path / "ours.svg"))
    with matplotlib.rc_context({"font.size": 30, "axes.grid": False, "svg.hashsalt": None, "lines.linewidth": 9}):
        printed(*PLAN, "--plot", str(tmp_path / "theirs.svg"))
    assert (tmp_path / "ours.svg").read_bytes() == (tmp_path / "theirs.svg").read_bytes()


def test_json_goes_with_a_picture_and_not_with_curves(
    tmp_path: Path, printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "plan.svg"
    plain = printed("plan", *LOAD, "--json")
    assert json.loads(printed("plan", *LOAD, "--json", "--plot", str(target))) == json.loads(plain)
    assert target.is_file()
    for name in ("plan", "boundary", "search", "simulate"):
        for form in (("--json",), ("--format", "csv"), ("--format", "md")):
            assert run([*COMMANDS[name], "--curves", *form]) == 2
            assert "leave --json and --format out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan", "--model", "8b", "--curves"), "name it with --hw"),
        (("plan", "--model", "8b", "--plot", "x.svg"), "name it with --hw"),
        (("plan", *LOAD, "--ladder", "--curves"), "leave --compare and --ladder out"),
        (
            ("plan", *LOAD, "--compare", "--tp 1", "--weights fp8", "--plot", "x.svg"),
            "leave --compare and --ladder out",
        ),
        (("plan", *LOAD, "--tpot", "20ms"), "add one of them"),
        (("plan", *LOAD, "--tpot", "0ms", "--curves"), "more than 0"),
        (("boundary", *LOAD, "--curves"), "name it"),
        (("boundary", *LOAD, "--plot", "x.svg"), "name it"),
        ((*COMMANDS["search"], "--curves", "--row", "1"), "leave --row"),
        ((*COMMANDS["simulate"], "--plot", "x.svg", "--rows", "x.svg"), "each needs a file of its own"),
        ((*NO_GAIN, "--plot", "x.svg"), "no gain to draw"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_pictures_of_nothing_are_refused(
    arguments: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(list(arguments)) == 2
    _, err = capsys.readouterr()
    assert said in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
