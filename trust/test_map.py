"""Which test runs which line of a part of the package, and the processor time each test takes.

    python trust/test_map.py arithmetic     ledgers and boundaries
    python trust/test_map.py gate

One run of the tests that concern the part (`test_map.yaml`), in one process, on a copy of the tree; kept in
build/trust. Where a source changes all of them run anew, where a test changes its file alone. `coverage_lines.py` reads
the shares of lines off the map, `mutation.py` the tests that can notice a changed line. Ignored: what a test runs in
another process, and tests that need `../shared`. Both only make the shares smaller.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from coverage import Coverage, CoverageData
from figure import RECORDS, ROOT
from working_copy import copy_tree, enter

HERE = Path(__file__).resolve()
NOTHING_KEPT: dict[str, Any] = {"sources_state": "", "tests": {}, "processor_s": {}}
PACKAGES = {"arithmetic": ("ledgers", "boundaries"), "gate": ("gate",)}


def lines_file(part: str) -> Path:
    return RECORDS / f"test_map_{part}.coverage"


def times_file(part: str) -> Path:
    return RECORDS / f"test_map_{part}.json"


def chosen(part: str) -> list[str]:
    """Test files that name one of the packages, or that are listed for the part, without those set aside."""
    choice = yaml.safe_load(HERE.with_suffix(".yaml").read_text(encoding="utf-8"))[part]
    files = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").glob("test_*.py"))]
    theirs = [f"infopt.{package}" for package in PACKAGES[part]]
    named = [file for file in files if any(name in (ROOT / file).read_text(encoding="utf-8") for name in theirs)]
    listed = [file for file in files if any(Path(file).match(pattern) for pattern in choice["also"])]
    aside = {f"tests/{name}" for name in choice["aside"]}
    return sorted({*named, *listed} - aside)


def state_of_sources(part: str) -> str:
    """Of the packages and of what is set aside: where it changes, every test runs anew."""
    sources = (path for package in PACKAGES[part] for path in (ROOT / package).rglob("*"))
    files = {path for path in sources if path.is_file() and "__pycache__" not in path.parts}
    digest = hashlib.sha256()
    for path in sorted({HERE.with_suffix(".yaml"), *files}):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def state_of_tests(part: str) -> dict[str, str]:
    """Of each chosen file: where it changes, its tests run anew."""
    return {file: hashlib.sha256((ROOT / file).read_bytes()).hexdigest() for file in chosen(part)}


class Watcher:
    """A pytest plugin: every line is kept under the test that ran it, with the test's processor time.

    What a test's set-up runs is kept under the file: a fixture of the whole module runs in the first test alone, and
    any of them may notice what is wrong with it.
    """

    def __init__(self, cover: Coverage) -> None:
        self.cover = cover
        self.processor_s: dict[str, float] = {}
        self.failed: list[str] = []
        self.skipped: set[str] = set()

    @property
    def passed_s(self) -> dict[str, float]:
        return {name: took_s for name, took_s in self.processor_s.items() if name not in self.skipped}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        started_s = time.process_time()
        self.cover.switch_context(item.nodeid.partition("::")[0])
        result = yield
        self.cover.switch_context("")
        self.processor_s[item.nodeid] = time.process_time() - started_s
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self.cover.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.cover.switch_context(item.nodeid.partition("::")[0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.skipped:
            self.skipped.add(report.nodeid)


def make(part: str) -> None:
    """Run the tests of a part that need it and keep lines and times. Raises SystemExit where one fails."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    sources, tests, kept = state_of_sources(part), state_of_tests(part), read(part)
    if kept["sources_state"] != sources:
        kept = NOTHING_KEPT
    files = [file for file, digest in tests.items() if kept["tests"].get(file) != digest]
    with tempfile.TemporaryDirectory(prefix="infopt-map-") as folder:
        tree = copy_tree(Path(folder))
        enter(tree)
        passed_s, found = watched(part, tree, Path(folder) / "coverage", files)
        before = {name: took_s for name, took_s in kept["processor_s"].items() if name.partition("::")[0] in tests}
        before = {name: took_s for name, took_s in before.items() if name.partition("::")[0] not in files}
        merge(part, found, anew=kept is NOTHING_KEPT)
        made = {
            "sources_state": sources,
            "tests": tests,
            "processor_s": before | passed_s,
            "sources": statements(part, tree),
        }
    times_file(part).write_text(json.dumps(made, indent=1), encoding="utf-8")


def watched(part: str, tree: Path, into: Path, files: list[str]) -> tuple[dict[str, float], CoverageData]:
    """The tests of the files, run: processor time of each that passed, and the lines."""
    sources = [str(tree / package) for package in PACKAGES[part]]
    cover = Coverage(data_file=str(into), source=sources, config_file=False, check_preimported=False)
    cover.set_option("run:relative_files", True)
    watcher = Watcher(cover)
    cover.start()
    # pytest takes no file for all of them.
    status = pytest.main(["-p", "no:cacheprovider", "--tb=short", *files], plugins=[watcher]) if files else 0
    cover.stop()
    cover.save()
    if status != 0:
        sys.exit(f"test map: {len(watcher.failed)} tests failed: {', '.join(watcher.failed[:5])}")
    return watcher.passed_s, cover.get_data()


def merge(part: str, found: CoverageData, anew: bool) -> None:
    """Add lines to those that are kept. Those of tests that are gone stay, under names that no longer are tests."""
    if anew:
        lines_file(part).unlink(missing_ok=True)
    data = CoverageData(basename=str(lines_file(part)))
    data.read()
    data.update(found)


def statements(part: str, tree: Path) -> dict[str, Any]:
    """Of each source file: how many statements, and the lines no test ran."""
    cover = Coverage(data_file=str(lines_file(part)), config_file=False)
    cover.set_option("run:relative_files", True)
    cover.load()
    found = {}
    for path in (path for package in PACKAGES[part] for path in sorted((tree / package).rglob("*.py"))):
        _, lines, _, missing, _ = cover.analysis2(str(path))
        found[path.relative_to(tree).as_posix()] = {"statements": len(lines), "missing": missing}
    return found


def read(part: str) -> dict[str, Any]:
    """The kept map."""
    if not (times_file(part).exists() and lines_file(part).exists()):
        return NOTHING_KEPT
    kept: dict[str, Any] = json.loads(times_file(part).read_text(encoding="utf-8"))
    return kept


def fresh(part: str) -> dict[str, Any]:
    """The kept map, brought up to date where a source, a test or the choice of tests changed since."""
    for _ in range(2):
        kept = read(part)
        if kept["sources_state"] == state_of_sources(part) and kept["tests"] == state_of_tests(part):
            return kept
        print(f"tests by line of {part}: those that changed run once, some minutes", flush=True)
        subprocess.run([sys.executable, str(HERE), part], check=True)
    sys.exit("test map: sources changed while it was made; run it again")


def tests_by_line(part: str, file: str) -> dict[int, list[str]]:
    """Of a source file, relative to the root: each line's tests (or files of tests)."""
    data = CoverageData(basename=str(lines_file(part)))
    data.read()
    return data.contexts_by_lineno(file)


if __name__ == "__main__":
    make(sys.argv[1])
