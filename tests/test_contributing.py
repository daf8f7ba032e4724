"""CONTRIBUTING.md, walked through: one file, copied out of the page into a copy of the package, and it works."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from infopt.frozen import dataclass

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(
    r"^### [^\n]*: `(?P<path>[^`]+)`\n(?P<body>.*?)^```\w+\n(?P<text>.*?)^```\n(?P<after>.*?)(?=^##)",
    re.DOTALL | re.MULTILINE,
)
LINE = re.compile(r"^    infopt (?P<arguments>.*?) +# (?P<shows>.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Walk:
    """A file to add, and what is typed then with what it shows."""

    path: str
    text: str
    lines: tuple[tuple[str, str], ...]


def walks() -> list[Walk]:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = SECTION.finditer(page)
    return [Walk(one["path"], one["text"], tuple(LINE.findall(one["after"]))) for one in found]


WALKS = walks()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, in a folder of the name it is imported by."""
    copy = tmp_path_factory.mktemp("copy") / "infopt"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {name.split(".")[1] for name in project["tool"]["setuptools"]["packages"] if "." in name}
    for folder in folders:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for module in ROOT.glob("*.py"):
        shutil.copyfile(module, copy / module.name)
    return copy


def shown(package: Path, arguments: str) -> str:
    """What the copy prints; it is the copy and not the package under test that runs."""
    program = "import infopt, infopt.__main__ as program; print(infopt.__file__); program.main()"
    ran = subprocess.run(
        [sys.executable, "-c", program, *shlex.split(arguments)],
        cwd=ROOT,
        env={"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    place, _, output = ran.stdout.partition("\n")
    assert place == str(package / "__init__.py")
    assert ran.returncode in (0, 1, 2), ran.stderr
    return output + ran.stderr


def test_the_page_has_a_walk_for_each_kind() -> None:
    folders = [walk.path.rpartition("/")[0] for walk in WALKS]
    assert folders == [
        "profiles/data/models",
        "hardware/data/accelerators",
        "gate/rules",
        "boundaries",
        "profiles/data/kv",
    ]
    assert all(walk.lines for walk in WALKS)


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.path)
def test_one_file_is_enough(walk: Walk, package: Path) -> None:
    """Without the file nothing shows it; with it every line does, and the file is gone again."""
    target = package / walk.path
    assert not (ROOT / walk.path).exists(), "an example is none of ours"
    before = {arguments: shown(package, arguments) for arguments, _ in walk.lines}
    assert not all(shows in before[arguments] for arguments, shows in walk.lines)
    target.write_text(walk.text, encoding="utf-8")
    try:
        for arguments, shows in walk.lines:
            assert shows in shown(package, arguments), arguments
    finally:
        target.unlink()


@pytest.mark.parametrize("walk", [walk for walk in WALKS if walk.path.endswith(".py")], ids=lambda walk: walk.path)
def test_code_of_the_page_is_as_ours(walk: Walk, tmp_path: Path) -> None:
    """Formatted and linted as the rest."""
    (tmp_path / "example.py").write_text(walk.text, encoding="utf-8")
    for words in (["format", "--check"], ["check"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *words, "--config", str(ROOT / "pyproject.toml"), "example.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
