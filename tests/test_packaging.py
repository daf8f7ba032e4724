"""What is shipped: every module and data file of the package and nothing else. tests/test_release.py runs it."""

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOT_SHIPPED = {"tests", "bench", "docs", "tools", "build", "dist"}

# One worker builds once; the others leave this file alone.
pytestmark = pytest.mark.xdist_group("packaging")


def pyproject() -> dict[str, dict[str, dict[str, list[str]]]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def tracked() -> list[str]:
    """Files git tracks that are still there, as paths from the root."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of files to compare with")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def package_folders() -> set[str]:
    """Folders with an `__init__.py` that belong to the package, the root being ''."""
    found = {""}
    for path in ROOT.glob("[a-z]*/**/__init__.py"):
        folder = path.parent.relative_to(ROOT)
        if folder.parts[0] not in NOT_SHIPPED:
            found.add(folder.as_posix())
    return found


def expected_in_wheel() -> set[str]:
    """Tracked modules at the top and all that git tracks under the package folders."""
    top = {folder for folder in package_folders() if folder and "/" not in folder}
    shipped = set()
    for name in tracked():
        first, *rest = name.split("/")
        if (rest and first in top) or (not rest and (name.endswith(".py") or name in ("py.typed", "__init__.pyi"))):
            shipped.add(f"infopt/{name}")
    return shipped


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An sdist of the tracked files, and the wheel built from that sdist, each as `pip` would get it."""
    source = tmp_path_factory.mktemp("source")
    for name in tracked():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    out = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", out, source], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def metadata_of(wheel: Path) -> dict[str, list[str]]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        parsed = Parser().parsestr(archive.read(name).decode("utf-8"))
    return {key: parsed.get_all(key) or [] for key in set(parsed.keys())}


def requirement_name(requirement: str) -> str:
    """The distribution a requirement names, normalised: "nvidia_ml-py>=12; x" -> "nvidia-ml-py"."""
    name = requirement.strip()
    for end, character in enumerate(name):
        if not (character.isalnum() or character in "-_."):
            name = name[:end]
            break
    return name.lower().replace("_", "-").replace(".", "-")


def test_packages_are_the_folders_on_disk() -> None:
    listed = pyproject()["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted("infopt" + (f".{f.replace('/', '.')}" if f else "") for f in package_folders())


def test_the_deprecated_pynvml_distribution_is_no_dependency() -> None:
    project = pyproject()["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(line for extra in extras.values() for line in extra)]
    names = {requirement_name(line) for line in requirements}
    assert "pynvml" not in names
    assert "nvidia-ml-py" in {requirement_name(line) for line in extras["probe"]}
    assert {requirement_name(line) for line in project["dependencies"]} == {
        *("typer", "rich", "pydantic", "pyyaml", "numpy", "simpy", "markdown-it-py"),
    }


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    package = {name for name in names if ".dist-info/" not in name}
    expected = expected_in_wheel()
    assert package == expected, {"missing": sorted(expected - package), "extra": sorted(package - expected)}
    assert {name.split("/")[0] for name in package} == {"infopt"}


@pytest.mark.slow
def test_wheel_metadata(built: dict[str, Path]) -> None:
    metadata = metadata_of(built["wheel"])
    assert metadata["License-Expression"] == ["Apache-2.0"]
    assert metadata["License-File"] == ["LICENSE"]
    assert "pynvml" not in {requirement_name(line) for line in metadata["Requires-Dist"]}
    assert all(metadata.get(key) for key in ("Summary", "Keywords", "Author", "Classifier", "Requires-Python"))
    assert "Project-URL" not in metadata  # it has no address yet


@pytest.mark.slow
def test_an_index_would_take_both(built: dict[str, Path]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", built["wheel"], built["sdist"]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


@pytest.mark.slow
def test_sdist_holds_what_a_build_needs_and_no_tests(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as archive:
        names = {one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()}
    needed = {name.removeprefix("infopt/") for name in expected_in_wheel()} | {"pyproject.toml", "README.md", "LICENSE"}
    assert needed <= names, sorted(needed - names)
    beside = {name for name in names - needed if not name.startswith("infopt.egg-info/")}
    assert beside == {"PKG-INFO", "setup.cfg", "MANIFEST.in", *READERS}


READERS = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Containerfile", "constraints.txt"}


def test_tests_of_a_group_stay_on_one_worker(request: pytest.FixtureRequest) -> None:
    """xdist marks them by the end of their names; where a pytest does not take that, every worker builds its wheel."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("tests are not told apart by groups (--dist loadgroup)")
    assert request.node.nodeid.endswith("@packaging")
