"""Today's findings, accepted: a file of fingerprints that the next run compares with.

A fingerprint is made of rule, file, deployment and cause. The cause is what the finding is about as it is written (the
text of the argument) and the message without its figures: moved lines and other estimates are the same finding, another
value or another option is a new one. Of equal findings as many are accepted as there were.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.files import write_text
from infopt.gate.finding import Finding
from infopt.gate.policy import relative

SCHEMA = "infopt/baseline/1"
MOST_BYTES = 50_000_000
# Figures that stand alone; those inside a name (70B, --max-num-seqs, v1) belong to it.
FIGURE = re.compile(r"(?<![\w./-])\d[\d,]*(\.\d+)*(?![\w-])")


def fingerprint(finding: Finding, beside: str) -> str:
    """What makes a finding the same one, whatever lines moved; `beside` is the baseline's path."""
    parts = (finding.rule, relative(finding.file, beside), finding.deployment, finding.cause)
    text = "\0".join((*parts, FIGURE.sub("#", finding.message)))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def write_baseline(path: Path, findings: Iterable[Finding]) -> int:
    """Write the findings that nothing else accepts; how many there were. Nobody ever sees half a file."""
    counted: Counter[str] = Counter()
    shown: dict[str, dict[str, Any]] = {}
    for finding in findings:
        if finding.suppressed is None:
            key = fingerprint(finding, str(path))
            counted[key] += 1
            shown[key] = {
                "fingerprint": key,
                "rule": finding.rule,
                "file": relative(finding.file, str(path)),
                "deployment": finding.deployment,
                "message": finding.message,
            }
    rows = [entry | {"count": counted[key]} for key, entry in shown.items()]
    rows.sort(key=lambda row: (row["file"], row["deployment"], row["rule"], row["fingerprint"]))
    write_text(path, json.dumps({"schema": SCHEMA, "findings": rows}, indent=2) + "\n")
    return counted.total()


def read_baseline(path: Path) -> Counter[str]:
    """How many findings of each fingerprint are accepted."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InfoptError(f"{path}: is no baseline: larger than {MOST_BYTES:,} bytes")
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise InfoptError(f"{path}: is no baseline of this version ({SCHEMA}); write it anew")
        return Counter({str(row["fingerprint"]): int(row["count"]) for row in data["findings"]})
    except OSError as error:
        raise InfoptError(f"{path}: cannot be read: {(error.strerror or 'unreadable').lower()}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InfoptError(f"{path}: is no baseline; --write-baseline writes one") from error


def without_known(findings: Iterable[Finding], known: Counter[str], path: Path) -> Iterator[Finding]:
    """The findings, those that the baseline holds accepted; `known` is used up."""
    for finding in findings:
        if finding.suppressed is None:
            key = fingerprint(finding, str(path))
            if known[key] > 0:
                known[key] -= 1
                yield replace(finding, suppressed=f"in the baseline {path.name}")
                continue
        yield finding
