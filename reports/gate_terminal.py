"""A gate on the terminal: every deployment with its verdict, findings with their line."""

from collections.abc import Iterator

from infopt.gate.check import Checked, Gate
from infopt.gate.finding import Finding


def page(found: Gate) -> str:
    """One block a deployment, then the sum."""
    lines = [line for one in found.checked for line in _block(one)]
    return "\n".join([*lines, summary(found)])


def _block(one: Checked) -> Iterator[str]:
    d, case = one.case.deployment, one.case
    device = (case.device.accelerator.name or case.device.accelerator.id) if case.device is not None else "GPU unknown"
    version = d.version or "version unknown"
    yield f"{d.file}:{d.found.line}: {one.verdict.upper()} {d.found.name}"
    yield f"  {d.model or 'model unknown'} on {case.granted or case.needed} x {device}, {d.engine} {version}"
    for item in case.unknown:
        yield f"  unknown: {item.fact}: {item.settle}"
    for finding in one.findings:
        yield from _finding(finding)
    yield ""


def _finding(finding: Finding) -> Iterator[str]:
    mark = "suppressed" if finding.suppressed is not None else finding.severity
    yield f"  {finding.file}:{finding.line}:{finding.column}: {mark}[{finding.rule}] {finding.message}"
    if finding.detail:
        yield f"      {finding.detail}"
    if finding.remedy:
        yield f"      remedy: {finding.remedy}"


def summary(found: Gate) -> str:
    """Counts of verdicts and findings."""
    verdicts = [one.verdict for one in found.checked]
    errors = sum(f.severity == "error" and f.suppressed is None for f in found.findings)
    warnings = sum(f.severity == "warning" and f.suppressed is None for f in found.findings)
    return (
        f"{found.verdict.upper()}: {len(found.reads)} files, {len(verdicts)} deployments: {verdicts.count('pass')} pass, "
        f"{verdicts.count('fail')} fail, {verdicts.count('undetermined')} undetermined; {errors} errors, {warnings} warnings"
    )
