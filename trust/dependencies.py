"""What infopt depends on at run time: licences by extra, ranges, and known advisories where they can be asked.

Advisories come from pip-audit (a service on the internet). Where it cannot be asked of a single package, nothing is
claimed of them: the figure says that it could not be asked.

    python trust/dependencies.py [--advisories]
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import yaml
from figure import ROOT, Figure, conclude
from packaging.requirements import Requirement

LICENCES = Path(__file__).resolve().parent / "licences.yaml"
TOOLS = ("docs", "release", "dev", "fuzz", "llama")  # extras that no user's program loads
AUDIT = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--timeout", "10"]


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = ["", *(name for name in project["optional-dependencies"] if name not in TOOLS)]
    found: dict[str, Distribution] = {}
    absent: list[str] = []
    rows = [["extra", "packages", "licences that are not listed", "not installed here"]]
    for extra in extras:
        asked = project["optional-dependencies"][extra] if extra else project["dependencies"]
        mine, missing = closure([Requirement(one) for one in asked])
        unknown = sorted(name for name, one in mine.items() if not allowed(one))
        rows.append([extra or "(none)", str(len(mine)), ", ".join(unknown) or "none", ", ".join(missing) or "none"])
        found |= mine
        absent += missing
    refused = sorted(f"{name} ({licence(one)})" for name, one in found.items() if not allowed(one))
    loose = unpinned(project, extras)
    holds = not (refused or loose)
    conclude(
        Figure(
            name="dependencies",
            claim="every run-time dependency has a licence of trust/licences.yaml and a lower bound",
            figure=f"{len(found)} packages, {len(refused)} of other licences, {len(loose)} without a bound",
            holds=holds,
            command="make dependencies",
            limits=[
                *refused,
                *loose,
                *([f"not installed here, so not looked at: {', '.join(sorted(set(absent)))}"] if absent else []),
            ],
            table=rows,
        )
        if not asked_for_advisories()
        else of_advisories(found)
    )


def asked_for_advisories() -> bool:
    parser = argparse.ArgumentParser(description="Licences and bounds of what infopt depends on.")
    parser.add_argument("--advisories", action="store_true", help="known advisories in place of them; needs a network")
    return bool(parser.parse_args().advisories)


def of_advisories(found: dict[str, Distribution]) -> Figure:
    """What pip-audit knows; None where it could not be asked of a single package."""
    known, audited, why = advisories(found)
    return Figure(
        name="advisories",
        claim="no run-time dependency has a known advisory",
        figure=f"{len(known)} known in {audited} packages" if audited else f"pip-audit could not be asked here ({why})",
        holds=not known if audited else None,
        command="make advisories",
        limits=known,
    )


def closure(requirements: list[Requirement]) -> tuple[dict[str, Distribution], list[str]]:
    """Installed packages that these need, and theirs; and names of those that are not installed."""
    found: dict[str, Distribution] = {}
    missing: list[str] = []
    left = list(requirements)
    while left:
        one = left.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        if name in found or name in missing or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        try:
            found[name] = distribution(one.name)
        except PackageNotFoundError:
            missing.append(name)
            continue
        for text in found[name].requires or ():
            needed = Requirement(text)
            wanted = [{"extra": extra} for extra in ("", *one.extras)]
            if needed.marker is None or any(needed.marker.evaluate(extra) for extra in wanted):
                needed.marker = None
                left.append(needed)
    return found, sorted(missing)


def licence(one: Distribution) -> str:
    """What the package says of itself: an expression, else classifiers, else the first line of its text."""
    metadata = one.metadata
    classified = [c.split(" :: ")[-1] for c in metadata.get_all("Classifier") or () if c.startswith("License ::")]
    text = (metadata.get("License") or "").strip().splitlines()
    return metadata.get("License-Expression") or " AND ".join(classified) or (text[0] if text else "none")


def allowed(one: Distribution) -> bool:
    """Whether each part of the expression is listed, or one of each choice."""
    listed = "|".join(yaml.safe_load(LICENCES.read_text(encoding="utf-8"))["allowed"])

    def fits(name: str) -> bool:
        return bool(re.fullmatch(listed, name.strip()) or re.fullmatch(listed, name.strip(" ()")))

    return all(any(fits(choice) for choice in part.split(" OR ")) for part in licence(one).split(" AND "))


def unpinned(project: dict[str, object], extras: list[str]) -> list[str]:
    """Requirements of the project itself that any old version meets."""
    optional = project["optional-dependencies"]
    asked = [*project["dependencies"], *(text for extra in extras if extra for text in optional[extra])]  # type: ignore
    requirements = [Requirement(text) for text in asked]
    return [
        f"{one.name}: no lower bound in pyproject.toml"
        for one in requirements
        if not any(bound.operator in (">=", "==", "~=") for bound in one.specifier)
    ]


def advisories(found: dict[str, Distribution]) -> tuple[list[str], int, str]:
    """Advisories that pip-audit knows of these packages, of how many it could ask, and why of none."""
    ran = subprocess.run(AUDIT, capture_output=True, text=True, check=False)
    try:
        answers = json.loads(ran.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (ran.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1]
        return [], 0, last[:160]
    asked = [one for one in answers if "skip_reason" not in one and one["name"].lower() in found]
    skipped = next((one["skip_reason"] for one in answers if "skip_reason" in one), "")
    known = [
        f"{one['name']} {one['version']}: {', '.join(v['id'] for v in one['vulns'])}" for one in asked if one["vulns"]
    ]
    return known, len(asked), skipped[:160]


if __name__ == "__main__":
    main()
