"""What a release is made of beside the package: the image's file, the citation, the lines that install it."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

import infopt

ROOT = Path(__file__).resolve().parent.parent
INSTRUCTIONS = {"FROM", "LABEL", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
Stage = list[tuple[str, str]]

pytestmark = pytest.mark.xdist_group("packaging")


def stages() -> list[Stage]:
    """Instructions of the Containerfile, by stage; every line is one that image builders know."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    found: list[Stage] = []
    for line in filter(None, lines):
        word, _, rest = line.partition(" ")
        assert word in INSTRUCTIONS, line
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


def of(stage: Stage, word: str) -> list[str]:
    return [rest for name, rest in stage if name == word]


def tracked() -> list[str]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of files")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def in_the_context() -> list[str]:
    """Tracked files that .containerignore leaves."""
    lines = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert not any(pattern.startswith("!") for pattern in patterns)

    def ignored(name: str) -> bool:
        parts = name.split("/")
        anywhere = [pattern.removeprefix("**/") for pattern in patterns if pattern.startswith("**/")]
        return any(fnmatch(parts[0], pattern) for pattern in patterns) or any(
            fnmatch(part, pattern) for part in parts for pattern in anywhere
        )

    return [name for name in tracked() if not ignored(name)]


def test_the_image_is_small_and_runs_as_nobody_in_particular() -> None:
    build, final = stages()
    base = build[0][1].split(" AS ")[0]
    assert final[0][1] == base, "an environment runs on the Python it was made with"
    assert re.fullmatch(r"docker\.io/library/python:3\.11[\w.-]*-slim-\w+", base)
    (user,) = of(final, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert of(final, "ENTRYPOINT") == ['["infopt"]']
    order = [word for word, _ in final]
    assert order.index("USER") > max(i for i, word in enumerate(order) if word in ("RUN", "COPY"))
    assert [copied.split()[0] for copied in of(final, "COPY")] == ["--from=build"]
    assert not any("pip" in line for line in of(final, "RUN"))
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert requires == ">=3.11"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that the RUN lines of the first stage install, with folders of our own in place of the image's."""
    folder = tmp_path_factory.mktemp("image")
    build, final = stages()
    (source,) = of(build, "WORKDIR")
    assert of(build, "COPY") == [". ."]
    for name in in_the_context():
        target = folder / source.strip("/") / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)

    def here(text: str) -> str:
        words = re.sub(r"(?<![\w.])/(opt|wheel|src)\b", rf"{folder}/\1", text)
        return re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", words)

    for line in of(build, "RUN"):
        ran = subprocess.run(
            here(line), shell=True, cwd=folder / source.strip("/"), capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, (line, ran.stderr[-2000:])
    ((origin, target),) = [copied.split()[1:] for copied in of(final, "COPY")]
    assert origin == target, "scripts of an environment name its folder"
    (path,) = [shlex.split(line)[0] for line in of(final, "ENV") if line.startswith("PATH=")]
    return Path(here(path.removeprefix("PATH=")).split(":")[0])


IMPORT_EVERYTHING = """
import importlib, pkgutil, sys
import infopt
for module in pkgutil.walk_packages(infopt.__path__, "infopt."):
    if module.name != "infopt.__main__":
        importlib.import_module(module.name)
for name in ("cli", "hardware", "ledgers", "profiles", "pytest", "torch", "pandas"):
    try:
        importlib.import_module(name)
    except ImportError:
        continue
    sys.exit(f"{name} can be imported")
print(infopt.__file__)
"""


@pytest.mark.slow
def test_the_wheel_of_the_image_needs_no_development_tools(environment: Path, tmp_path: Path) -> None:
    """Every module imports, and no top-level name but `infopt` was installed. What else the wheel holds:
    tests/test_packaging.py.
    """
    ran = subprocess.run(
        [environment / "python", "-I", "-c", IMPORT_EVERYTHING],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert Path(ran.stdout.strip()).is_relative_to(environment.parent)


# What a user types first, with its exit status.
FROM_THE_WHEEL = (
    ("--help", 0),
    ("--version", 0),
    ("plan --model 70b --ctx 32k", 0),
    ("plan --model 8b --hw h100 --ctx 8k --explain", 0),
    ("plan --model 70b --hw h100 --ctx 32k --json", 1),
    ("boundary --model 8b --hw h100 --isl 2000 --osl 300 --batch 32", 0),
    ("gate pod.yaml", 1),
    ("rules no-full-request", 0),
    ("simulate --model 8b --hw h100 --isl 2000 --osl 300 --rate 4/s --requests 200", 0),
    ("export prometheus --model 8b --hw h100 --isl 2000 --osl 300 --batch 32", 0),
    ("export grafana --model 8b --hw h100 --isl 2000 --osl 300 --batch 32", 0),
    ("reproduce --document 1", 0),
    ("schema plan", 0),
)


@pytest.mark.slow
def test_the_infopt_of_the_image_runs(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text((ROOT / "docs" / "examples" / "vllm.yaml").read_text())
    for words, status in FROM_THE_WHEEL:
        ran = subprocess.run(
            [environment / "infopt", *words.split()], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ran.returncode == status, (words, ran.stderr)
        assert ran.stdout


def test_the_image_s_context_is_what_a_wheel_is_built_from() -> None:
    names = set(in_the_context())
    assert {"pyproject.toml", "README.md", "LICENSE", "constraints.txt", "cli.py"} <= names
    assert not any(name.startswith((".git", "tests/", "docs/", "bench/", "tools/")) for name in names)


def test_the_citation_is_whole() -> None:
    """Keys and kinds of the Citation File Format 1.2.0 (cffconvert 2.0.0, which is no dependency, takes it too)."""
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cff["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= cff.keys()
    assert cff.keys() <= {
        *("cff-version", "message", "type", "title", "abstract", "authors"),
        *("version", "license", "keywords", "date-released"),
    }
    assert cff["type"] == "software"
    assert all(set(author) <= {"name", "family-names", "given-names"} for author in cff["authors"])
    assert str(cff["version"]) == infopt.__version__
    assert cff["title"] == "infopt"


def test_one_license_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    label = re.search(r'licenses="([^"]*)"', (ROOT / "Containerfile").read_text(encoding="utf-8"))
    assert label is not None
    assert project["license"] == cff["license"] == label[1] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_lines_that_install_name_this_version_and_this_name() -> None:
    """Paths in docs/install.md are those `make wheel` gives; extras are ours; every run line ends in our program."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"dist/[\w.-]+", page)) == {f"dist/infopt-{infopt.__version__}-py3-none-any.whl"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(re.findall(r"\.\[(\w+)\]", page)) <= set(project["optional-dependencies"])
    lines = re.findall(r"`(?:uvx --from|pipx run --spec) \S+ (\S+) [^`]*`", page)
    assert lines == ["infopt"] * 4
