"""The SBOM of a release (CycloneDX, JSON): what `pip install infopt` brings, from an environment with nothing else.

    python tools/sbom.py dist/infopt-0.1.0-py3-none-any.whl    writes dist/infopt-0.1.0.cdx.json

The wheel is installed into a fresh environment, cyclonedx-py lists it, and infopt itself becomes the main component.
Nothing of the clock, of chance or of this machine is in it: the same packages give the same bytes.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def listed(wheel: Path) -> dict[str, Any]:
    """The SBOM of an environment with the wheel and what it needs, as cyclonedx-py writes and validates it."""
    with tempfile.TemporaryDirectory(prefix="infopt-sbom-") as folder:
        python = Path(folder) / "bin" / "python"
        out = Path(folder) / "bom.json"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        install = ["pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([sys.executable, "-m", *install, *constraints, str(wheel.resolve())], check=True)
        command = ["cyclonedx_py", "environment", str(python), "--output-reproducible", "--spec-version", "1.6"]
        subprocess.run([sys.executable, "-m", *command, "--output-file", str(out)], check=True)
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found


def of_infopt(found: dict[str, Any]) -> dict[str, Any]:
    """The same with infopt as what it is about, and without where its wheel lay."""
    (main,) = (one for one in found["components"] if one["name"] == "infopt")
    others = [one for one in found["components"] if one is not main]
    main = {name: value for name, value in main.items() if name != "externalReferences"}
    metadata = {**found["metadata"], "component": {**main, "type": "application"}}
    return {**found, "components": others, "metadata": metadata}


def main() -> None:
    wheel = Path(sys.argv[1])
    found = of_infopt(listed(wheel))
    path = wheel.parent / f"infopt-{found['metadata']['component']['version']}.cdx.json"
    path.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{path}: {len(found['components'])} components")


if __name__ == "__main__":
    main()
