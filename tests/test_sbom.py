"""The SBOM of a release: what the wheel brings, valid by its schema, the same bytes each time."""

import copy
import json
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from thorough import thorough

import infopt

ROOT = Path(__file__).resolve().parent.parent
pytest.importorskip("cyclonedx_py", reason="cyclonedx-bom is not installed")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of infopt's name and requirements: what is listed is what a wheel asks for."""
    folder = tmp_path_factory.mktemp("made")
    wanted = [text for text in requires("infopt") or () if "extra ==" not in text]
    (folder / "infopt").mkdir()
    (folder / "infopt" / "__init__.py").write_text("", encoding="utf-8")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "infopt"\nversion = "{infopt.__version__}"\nlicense = "Apache-2.0"\n'
        f"dependencies = {json.dumps(wanted)}\n",
        encoding="utf-8",
    )
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(folder)]
    subprocess.run(build, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@thorough
def test_a_release_lists_what_it_brings(wheel: Path) -> None:
    texts = []
    for _ in range(2):
        subprocess.run([sys.executable, str(ROOT / "tools" / "sbom.py"), str(wheel)], check=True, capture_output=True)
        (path,) = wheel.parent.glob("*.cdx.json")
        texts.append(path.read_text(encoding="utf-8"))
    assert path.name == f"infopt-{infopt.__version__}.cdx.json"
    assert texts[0] == texts[1]
    assert "/tmp" not in texts[0]
    found = json.loads(texts[0])
    assert found["metadata"]["component"]["name"] == "infopt"
    assert "timestamp" not in found["metadata"]
    names = {one["name"].lower() for one in found["components"]}
    asked = {Requirement(text).name.lower() for text in requires("infopt") or () if "extra ==" not in text}
    assert names >= asked
    assert not names & {"torch", "pip", "pytest", "infopt"}
    assert all(one["version"] and one.get("licenses") for one in found["components"])
    assert problems(texts[0]) is None
    broken = copy.deepcopy(found)
    broken["components"][0].pop("name")
    assert problems(json.dumps(broken)) is not None


def problems(text: str) -> object:
    """What the schema of CycloneDX 1.6 says against a text, None where nothing."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
