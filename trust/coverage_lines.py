"""Lines of ledgers/, boundaries/ and gate/ that their tests run, in percent of all statements.

    python trust/coverage_lines.py

Reads the maps of `test_map.py` and makes them where they are old. Lines that only run in another process, only with
`../shared`, or only in tests set aside there, count as not run.
"""

from typing import Any

import test_map
from figure import Figure, conclude

LEAST_PERCENT = 95.0


def main() -> None:
    files = {name: found for part in test_map.PACKAGES for name, found in test_map.fresh(part)["sources"].items()}
    packages = [package for packages in test_map.PACKAGES.values() for package in packages]
    of_packages = {
        one: percent({name: files[name] for name in files if name.startswith(f"{one}/")}) for one in packages
    }
    below = {name: found for name, found in files.items() if percent({name: found}) < LEAST_PERCENT}
    rows = [[name, f"{percent({name: found}):.0f} %", spans(found["missing"])] for name, found in below.items()]
    conclude(
        Figure(
            name="coverage",
            claim=f"tests run at least {LEAST_PERCENT:.0f} % of the lines of ledgers/, boundaries/ and gate/",
            figure=", ".join(f"{package} {share:.1f} %" for package, share in of_packages.items()),
            holds=min(of_packages.values()) >= LEAST_PERCENT,
            command="python trust/coverage_lines.py",
            limits=[
                "a line that ran is not a line that was checked; see mutation",
                "lines that run only in another process, only with `../shared`, or only in the tests that "
                "`trust/test_map.yaml` sets aside count as not run",
            ],
            table=[["file below 95 %", "lines run", "lines not run"], *rows],
        )
    )


def percent(files: dict[str, Any]) -> float:
    """Rounded down to a tenth, so that no figure says more than was run."""
    statements = sum(found["statements"] for found in files.values())
    missing = sum(len(found["missing"]) for found in files.values())
    return 1000 * (statements - missing) // statements / 10 if statements else 100.0


def spans(lines: list[int]) -> str:
    """3, 4, 5, 9 as 3-5, 9."""
    found: list[list[int]] = []
    for line in lines:
        if found and line == found[-1][-1] + 1:
            found[-1].append(line)
        else:
            found.append([line])
    return ", ".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in found)


if __name__ == "__main__":
    main()
