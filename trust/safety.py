"""The safety tests: no network, tokens, answers of servers, probes, secrets, records; docs/safety.md says what each is.

Tests that are skipped (no openssl, no such kernel) are counted and named, and never taken for passed.
"""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as Xml
from pathlib import Path

from figure import ROOT, Figure, conclude

PARTS = {
    "network": ["tests/safety/test_network.py"],
    "tokens": ["tests/safety/test_tokens.py", "tests/test_hub.py", "tests/test_gate_secrets.py"],
    "answers": ["tests/safety/test_answers.py", "tests/test_observe_hostile.py", "tests/test_probe_endpoint.py"],
    "probes": ["tests/safety/test_probes.py", "tests/test_probe_session.py", "tests/test_probe_state.py"],
    "records": ["tests/test_calibration_record.py"],
    "assistants": ["tests/test_mcp.py"],
}


def main() -> None:
    rows = [["what", "tests", "passed", "failed", "skipped"]]
    limits: list[str] = []
    for part, files in PARTS.items():
        counts, said = ran(files)
        rows.append([part, *(str(counts[name]) for name in ("tests", "passed", "failed", "skipped"))])
        limits += said
    passed, failed, skipped = (sum(int(row[column]) for row in rows[1:]) for column in (2, 3, 4))
    conclude(
        Figure(
            name="safety",
            claim="no connection without --online or an address, no token elsewhere or in an output, answers of 10 s "
            "and 20 MB, probes within half of the free memory, old records whole",
            figure=f"{passed} safety tests passed, {failed} failed, {skipped} skipped",
            holds=failed == 0 and passed > 0,
            command="make safety",
            limits=limits,
            table=rows,
        )
    )


def ran(files: list[str]) -> tuple[dict[str, int], list[str]]:
    """Counts of these files, and names of what failed or was skipped. A run that cannot start counts as one failure."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *files]
        everything = os.environ | {"INFOPT_THOROUGH": "1"}
        status = subprocess.run(command, cwd=ROOT, env=everything, stdout=sys.stderr, check=False).returncode
        if status not in (0, 1) or not report.exists():
            return {"tests": 1, "passed": 0, "failed": 1, "skipped": 0}, [
                f"pytest ended with {status}: {' '.join(files)}"
            ]
        cases = list(Xml.parse(report).iter("testcase"))
    failed = [one for one in cases if one.find("failure") is not None or one.find("error") is not None]
    skipped = [one for one in cases if one.find("skipped") is not None]
    said = [f"failed: {one.get('name')}" for one in failed] + [f"skipped: {one.get('name')}" for one in skipped]
    counts = {"tests": len(cases), "failed": len(failed), "skipped": len(skipped)}
    return {**counts, "passed": len(cases) - len(failed) - len(skipped)}, said


if __name__ == "__main__":
    main()
