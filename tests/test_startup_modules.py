"""Start-up is guarded by the set of modules loaded, which no busy machine can disturb (times: bench/startup.py)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "pandas", "matplotlib")
# What `plan --json` has no use for, each of them dearer than the planning itself.
UNUSED_BY_PLAN = (
    *HEAVY,
    "numpy",
    "rich",
    "pygments",
    "pynvml",
    "huggingface_hub",
    "requests",
    "httpx",
    "asyncio",
    "gguf",
)
ROOT = Path(__file__).resolve().parent.parent
# Read the fields of their classes; frozen.py quotes the decorator.
STANDARD_DATACLASS = {"infopt.cli_options", "infopt.cli_observed", "infopt.frozen"}
PLAN = ("plan", "--model", "70b", "--hw", "h100:4", "--ctx", "32k")

# Runs the command line as the console script does, then writes what it loaded to the file named first.
CHILD = """
import json, sys
report, sys.argv = sys.argv[1], ["infopt", *sys.argv[2:]]
from infopt.__main__ import main
status = 0
try:
    main()
except SystemExit as exit:
    status = exit.code or 0
with open(report, "w") as file:
    json.dump({"status": status, "modules": sorted(sys.modules)}, file)
"""


def run_child(tmp_path: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """The finished command line and the modules it loaded; it must have ended with status 0."""
    report = tmp_path / "modules.json"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV", "TYPER"))}
    finished = subprocess.run(
        [sys.executable, "-c", CHILD, str(report), *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert report.is_file(), finished.stderr
    loaded = json.loads(report.read_text())
    assert loaded["status"] == 0, finished.stderr
    return finished, set(loaded["modules"])


def test_plan_json_loads_nothing_it_does_not_use(tmp_path: Path) -> None:
    finished, modules = run_child(tmp_path, *PLAN, "--json")
    assert json.loads(finished.stdout)["schema"] == "infopt/plan/1"
    assert modules.isdisjoint(UNUSED_BY_PLAN), modules & set(UNUSED_BY_PLAN)


def test_plan_json_loads_only_the_parts_it_names(tmp_path: Path) -> None:
    """Studies are other commands; a report other than JSON is another output form."""
    _, modules = run_child(tmp_path, *PLAN, "--json")
    ours = {module for module in modules if module.startswith("infopt.")}
    assert not {module for module in ours if module.startswith(("infopt.reports.table", "infopt.reports.markdown"))}
    assert not {module for module in ours if module.startswith(("infopt.studies.reproduce", "infopt.studies.validate"))}
    # Without --calibration nothing that was measured on a device is read.
    assert not {module for module in ours if "calibrat" in module or module == "infopt.ledgers.device_steps"}


def test_records_on_the_way_of_plan_are_cheap_to_define(tmp_path: Path) -> None:
    """0.3 ms a class and 0.15 ms a factory, some forty times at every start (decision 6)."""
    _, modules = run_child(tmp_path, *PLAN, "--json")
    found = []
    for module in sorted(name for name in modules - STANDARD_DATACLASS if name.startswith("infopt.")):
        path = ROOT.joinpath(*module.split(".")[1:])
        source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
        if "@dataclass(frozen=True, slots=True)" in source and "from infopt.frozen import dataclass" not in source:
            found.append(f"{module}: take dataclass from infopt.frozen")
        if "(Record):" in source and "Field(default_factory=" in source:
            found.append(f"{module}: write Field([]) or Field({{}}), which pydantic copies")
    assert not found, found


@pytest.mark.parametrize("arguments", [("--help",), ("plan", "--help"), PLAN], ids=" ".join)
def test_help_and_plan_load_no_heavy_library(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    finished, modules = run_child(tmp_path, *arguments)
    assert finished.stdout
    assert modules.isdisjoint(HEAVY), modules & set(HEAVY)


def test_version_is_read_from_the_package_not_from_its_metadata(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", "import sys, infopt; print(infopt.__version__, *sys.modules)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    version, *modules = finished.stdout.split()
    assert version.count(".") == 2
    assert {module for module in modules if module.startswith("infopt")} == {"infopt"}
