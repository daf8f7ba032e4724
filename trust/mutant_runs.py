"""Mutants against the tests that run their line, one process: collect once, fork for each, change the code there.

A fork takes over everything that was imported and collected, so a mutant costs its tests alone. In the fork the changed
file is on disk (for imports still to come, and for processes that tests start) and the functions of the loaded module
get their changed code. That is as good as a new process unless the changed line already ran while tests were collected
(constants, defaults, decorators, what parametrizations call): those mutants get a process that collects anew.
"""

import ast
import gc
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

PASSED, FAILED, NONE_RAN, REFUSED = 0, 10, 11, 12  # statuses of a fork; a signal is a timeout or a crash
OPTIONS = ("-p", "no:cacheprovider", "-s", "--tb=no", "-W", "ignore::SyntaxWarning")
RESULTS = {PASSED: "survived", NONE_RAN: "not run", REFUSED: "refused"}


@dataclass(frozen=True)
class Outcome:
    """How the tests of one mutant ended."""

    result: str  # killed, timeout, survived; not run: no such test; refused: a fork cannot hold this change
    killer: str | None
    processor_s: float
    tests: int


class Server:
    """A pytest plugin: instead of running what was collected, `work` is called with a way to run chosen tests."""

    def __init__(self, work: Callable[["Server"], None]) -> None:
        self.work = work
        self.items: dict[str, pytest.Item] = {}

    def pytest_configure(self) -> None:
        """A failing example of a property is not made smaller here: that it fails is all that is asked."""
        from hypothesis import Phase, settings

        quick = (Phase.explicit, Phase.generate)
        settings.register_profile("mutation", settings.get_profile("infopt"), phases=quick, database=None)
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} files could not be collected")
        self.items = {item.nodeid: item for item in session.items}
        self.work(self)
        return True

    def run(self, names: list[str], expected_s: float, change: Callable[[], None]) -> Outcome:
        """A fork that calls `change`, then runs the tests in this order up to the first that fails."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            run_here([self.items[name] for name in names if name in self.items], expected_s, change, writing)
        os.close(writing)
        with os.fdopen(reading) as told:
            killer = told.read()
        _, status, used = os.wait4(child, 0)
        return outcome(status, killer or None, used.ru_utime + used.ru_stime, len(names))


def outcome(status: int, killer: str | None, processor_s: float, tests: int) -> Outcome:
    if os.WIFSIGNALED(status):
        stopped = os.WTERMSIG(status) in {signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL}
        return Outcome("timeout" if stopped else "killed", killer, processor_s, tests)
    return Outcome(RESULTS.get(os.WEXITSTATUS(status), "killed"), killer, processor_s, tests)


def run_here(items: list[pytest.Item], expected_s: float, change: Callable[[], None], writing: int) -> None:
    """The fork: never returns. The test under way is told beforehand, so that it is known also after a crash."""
    from _pytest.runner import runtestprotocol

    status = FAILED
    try:
        limit(expected_s)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        try:
            change()
        except ValueError:
            os._exit(REFUSED)
        for at, item in enumerate(items):
            following = items[at + 1] if at + 1 < len(items) else None
            reports = runtestprotocol(item, nextitem=following, log=False)
            if any(report.failed for report in reports):
                os.write(writing, item.nodeid.encode())
                os._exit(FAILED)
        status = PASSED if items else NONE_RAN
    except BaseException as error:  # the fork must end here, whatever a mutant raises
        os.write(writing, f"{type(error).__name__} outside of tests".encode())
    finally:
        os._exit(status)


def limit(expected_s: float) -> None:
    """Thrice the processor time the tests need, and a limit on memory; a sleeping test is woken by the clock."""
    most_s = int(10 + 3 * expected_s)
    resource.setrlimit(resource.RLIMIT_CPU, (most_s, most_s + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(20 * most_s)


def anew(names: list[str], expected_s: float) -> Outcome:
    """The tests in a process that collects them itself: first those of few files, since a file costs its imports."""
    asked = json.dumps({"names": names, "expected_s": expected_s})
    command = [sys.executable, str(Path(__file__).resolve())]
    ended = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(ended.stdout[-2000:] + ended.stderr[-2000:])
    return Outcome(**json.loads(ended.stdout.splitlines()[-1]))


def answer() -> None:
    """The other side of `anew`: the tests asked for on standard input, the outcome as the last line."""
    asked = json.load(sys.stdin)
    names = asked["names"]
    found: list[Outcome] = []
    server = Server(lambda it: found.append(it.run(names, asked["expected_s"], lambda: None)))
    pytest.main([*OPTIONS, *sorted({file_of(name) for name in names})], plugins=[server])
    result = found[0] if found else Outcome("killed", "collection", 0.0, 0)
    print("\n" + json.dumps(asdict(result)))


def file_of(name: str) -> str:
    return name.partition("::")[0]


@contextmanager
def on_disk(path: Path, source: str) -> Iterator[None]:
    """The file changed for as long as the block runs."""
    kept = path.read_text(encoding="utf-8")
    path.write_text(source, encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(kept, encoding="utf-8")


def swap(module_name: str, path: Path, source: str, original: str) -> None:
    """Give the functions of a loaded module their code of `source`; nothing where it is not loaded yet.

    Raises ValueError where no function can take it: the change is in none, or in one whose name and line another has.
    """
    module = sys.modules.get(module_name)
    if module is None:
        return
    before, after = codes(compile(original, str(path), "exec")), codes(compile(source, str(path), "exec"))
    changed = {name: code for name, code in after.items() if code != before.get(name)}
    if any(len(code) > 1 for code in changed.values()):
        raise ValueError(f"{path}: two functions of one name in one line")
    functions = [
        one for one in gc.get_objects() if isinstance(one, FunctionType) and one.__globals__ is module.__dict__
    ]
    found = [function for function in functions if named(function.__code__) in changed]
    if not found:
        raise ValueError(f"{path}: no loaded function holds the change")
    for function in found:
        function.__code__ = changed[named(function.__code__)][0]


def codes(code: CodeType) -> dict[tuple[str, int], list[CodeType]]:
    """Every code object inside, by name and line."""
    found: dict[tuple[str, int], list[CodeType]] = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found.setdefault(named(inner), []).append(inner)
            for name, more in codes(inner).items():
                found.setdefault(name, []).extend(more)
    return found


def named(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def in_function(text: str, line: int) -> bool:
    """Whether a line stands in the body of a function, not in its defaults or decorators."""
    return line in function_lines(text)


@cache
def function_lines(text: str) -> frozenset[int]:
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    return frozenset(line for node in functions for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1))


def called(text: str, line: int, column: int) -> range | None:
    """Lines that run where a place outside of functions counts: the body of the function whose signature holds it, the
    lambda it stands in; None of any other."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.lineno <= line < node.body[0].lineno:
            return range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        if isinstance(node, ast.Lambda):
            end = node.end_lineno or 0, node.end_col_offset or 0
            if (node.lineno, node.col_offset) <= (line, column) < end:
                return range(node.lineno, end[0] + 1)
    return None


def statement(text: str, line: int) -> range:
    """Lines of the innermost statement around a line: of a compound one the lines before its body."""
    return min((span for span in statements(text) if line in span), key=len, default=range(line, line + 1))


@cache
def statements(text: str) -> tuple[range, ...]:
    spans = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            body: list[Any] = getattr(node, "body", [])
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            spans.append(range(node.lineno, max(end, node.lineno) + 1))
    return tuple(spans)


if __name__ == "__main__":
    answer()
