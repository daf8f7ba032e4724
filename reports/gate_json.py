"""The contract's object of a gate (DESIGN section 4)."""

from typing import Any

from infopt.gate.check import Checked, Gate
from infopt.gate.finding import Finding
from infopt.reports.gate_words import counts, ordered
from infopt.reports.json_report import plan_dict

SCHEMA = "infopt/gate/1"


def as_dict(found: Gate) -> dict[str, Any]:
    """Deployments with their plans, findings, files that could not be read."""
    return {
        "schema": SCHEMA,
        "verdict": found.verdict,
        "files": len(found.reads),
        "counts": counts_dict(found),
        "deployments": [deployment_dict(one) for one in found.checked],
        "findings": [finding_dict(finding) for finding in ordered(found.findings)],
        "unreadable": list(found.errors),
    }


def counts_dict(found: Gate) -> dict[str, int]:
    """Findings by severity; accepted ones apart."""
    each = counts(found.findings)
    return {"error": each.errors, "warning": each.warnings, "note": each.notes, "suppressed": each.suppressed}


def deployment_dict(one: Checked) -> dict[str, Any]:
    """One deployment."""
    case, d = one.case, one.case.deployment
    device = case.device.accelerator.id if case.device is not None else None
    return {
        "file": d.file,
        "name": d.found.name,
        "form": d.found.form,
        "line": d.found.line,
        "engine": d.engine,
        "engine_version": d.version,
        "model": d.model,
        "gpus": case.granted,
        "gpus_needed": case.needed,
        "needs_bytes_per_gpu": case.needs_bytes_per_gpu,
        "replicas": d.found.hardware.replicas,
        "hardware": device,
        "verdict": one.verdict,
        "fits": None if case.plan is None else case.plan.fits,
        "unknown": [{"fact": u.fact, "settle": u.settle} for u in case.unknown],
        "assumed": list(case.assumed),
        "plan": None if case.plan is None else plan_dict(case.plan),
    }


def finding_dict(finding: Finding) -> dict[str, Any]:
    """One finding."""
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "path": finding.path,
        "deployment": finding.deployment,
        "message": finding.message,
        "detail": finding.detail or None,
        "remedy": finding.remedy or None,
        "suppressed": None if finding.suppressed is None else {"reason": finding.suppressed},
    }
