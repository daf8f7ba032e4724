"""A gate as SARIF 2.1.0, for code scanning.

A missing fact is a result of kind `open`, a file that could not be read a notification of the run: neither is a rule's
finding, and neither gets lost.
"""

from typing import Any
from urllib.parse import quote

from infopt import __version__
from infopt.gate.check import Checked, Gate
from infopt.gate.finding import Finding, Rule
from infopt.gate.reading import Read
from infopt.gate.rules.registry import catalogue
from infopt.reports.gate_words import (
    UNDETERMINED,
    UNREADABLE,
    body,
    clean,
    fingerprints,
    missing,
    name_of,
    path_of,
    subject,
    unreadable,
)

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
PRECISION = {"certain": "very-high", "likely": "high", "possible": "medium"}


def as_dict(found: Gate) -> dict[str, Any]:
    """The log: one run."""
    described = [_rule(each) for each in catalogue()]
    places = {each["id"]: place for place, each in enumerate(described)}
    results = [_result(finding, name, places) for finding, name in fingerprints(found.findings)]
    results += [_open(one) for one in found.checked if one.verdict == "undetermined"]
    run = {
        "tool": {"driver": {"name": "infopt", "semanticVersion": __version__, "rules": described}},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not found.errors,
                "toolExecutionNotifications": [_notification(read) for read in found.reads if read.error],
            }
        ],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {
            "text": f"{rule.why}\n\n{rule.remedy}",
            "markdown": f"{rule.why}\n\n**Remedy**: {rule.remedy}\n\n`infopt rules {rule.id}` says more.",
        },
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"tags": ["deployment"]},
    }


def _result(finding: Finding, fingerprint: str, places: dict[str, int]) -> dict[str, Any]:
    result = {
        "ruleId": finding.rule,
        "ruleIndex": places[finding.rule],
        "level": finding.severity,
        "message": {"text": body(finding)},
        "locations": [_location(finding.file, finding.line, finding.column, finding.deployment, finding.path)],
        "partialFingerprints": {"infopt/1": fingerprint},
        "properties": {"precision": PRECISION[finding.confidence]},
    }
    if finding.suppressed is not None:
        result["suppressions"] = [{"kind": "external", "justification": clean(finding.suppressed)}]
    return result


def _open(one: Checked) -> dict[str, Any]:
    d = one.case.deployment
    return {
        "ruleId": UNDETERMINED,
        "kind": "open",
        "level": "none",
        "message": {"text": f"{name_of(one)} is undetermined ({subject(one)}): {missing(one)}"},
        "locations": [_location(d.file, d.found.line, 1, d.found.name, "")],
    }


def _notification(read: Read) -> dict[str, Any]:
    line, column, cause = unreadable(read)
    return {
        "level": "error",
        "descriptor": {"id": UNREADABLE},
        "message": {"text": cause},
        "locations": [_location(read.file, line, column, "", "")],
    }


def _location(file: str, line: int, column: int, deployment: str, path: str) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": _artifact(file),
            "region": {"startLine": max(1, line), "startColumn": max(1, column)},
        }
    }
    if deployment:
        logical = {"name": clean(deployment), "kind": "module"}
        location["logicalLocations"] = [logical | ({"fullyQualifiedName": clean(path)} if path else {})]
    return location


def _artifact(file: str) -> dict[str, str]:
    """A file below the working directory is relative to the root of the source; standard input has a name only."""
    uri = quote(path_of(file), errors="surrogateescape")
    if file == "-":
        return {"uri": uri}
    return {"uri": f"file://{uri}"} if uri.startswith("/") else {"uri": uri, "uriBaseId": "%SRCROOT%"}
