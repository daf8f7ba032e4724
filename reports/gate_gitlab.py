"""A gate as a GitLab code quality report."""

from collections import Counter
from typing import Any

from infopt.gate.check import Gate
from infopt.reports.gate_words import (
    UNDETERMINED,
    UNREADABLE,
    Strictness,
    body,
    fingerprints,
    mark,
    missing,
    name_of,
    path_of,
    subject,
    unreadable,
)

SEVERITIES = {"error": "critical", "warning": "minor", "note": "info"}


def as_list(found: Gate, strictness: Strictness) -> list[dict[str, Any]]:
    """An entry a finding, file and fact that is missing; accepted findings are left out."""
    entries = [
        _entry(read.file, unreadable(read)[0], UNREADABLE, unreadable(read)[2], "critical", mark(UNREADABLE, read.file))
        for read in found.reads
        if read.error
    ]
    entries += [
        _entry(finding.file, finding.line, finding.rule, body(finding), SEVERITIES[finding.severity], name)
        for finding, name in fingerprints(found.findings)
        if finding.suppressed is None
    ]
    severity = "info" if strictness.allow_undetermined else "major"
    seen: Counter[str] = Counter()
    for one in found.checked:
        if one.verdict == "undetermined":
            d = one.case.deployment
            said = f"{name_of(one)} ({subject(one)}): {missing(one)}"
            key = f"{d.file}\0{d.found.name}"
            seen[key] += 1
            name = mark(UNDETERMINED, key, str(seen[key]))
            entries.append(_entry(d.file, d.found.line, UNDETERMINED, said, severity, name))
    return entries


def _entry(file: str, line: int, rule: str, text: str, severity: str, fingerprint: str) -> dict[str, Any]:
    return {
        "description": text,
        "check_name": rule,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {
            "path": path_of(file),
            "lines": {"begin": max(1, line)},
        },
    }
