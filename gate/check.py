"""Files in, findings out: every rule over every deployment, with what is suppressed and the verdict."""

from collections.abc import Iterator, Sequence
from typing import Literal

from infopt.frozen import dataclass
from infopt.gate.case import Case, case_of
from infopt.gate.finding import Finding, Hit, Rule
from infopt.gate.policy import Policy
from infopt.gate.reading import Overrides, Read, files_of, read_file
from infopt.gate.rules.registry import rules

Verdict = Literal["pass", "fail", "undetermined"]


@dataclass(frozen=True, slots=True)
class Checked:
    """One deployment checked."""

    case: Case
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """fail for an error that is not suppressed; undetermined where no plan says it fits; else pass."""
        if any(f.severity == "error" and f.suppressed is None for f in self.findings):
            return "fail"
        plan = self.case.plan
        if plan is not None and plan.fits is True:
            return "pass"
        return "undetermined"


@dataclass(frozen=True, slots=True)
class Gate:
    """All files checked."""

    reads: tuple[Read, ...]
    checked: tuple[Checked, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        """Files that could not be read."""
        return tuple(read.error for read in self.reads if read.error)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for one in self.checked for finding in one.findings)

    @property
    def verdict(self) -> Verdict:
        verdicts = {one.verdict for one in self.checked}
        return "fail" if "fail" in verdicts else "undetermined" if "undetermined" in verdicts else "pass"


def gate(
    paths: Sequence[str], policy: Policy, overrides: Overrides | None = None, standard_input: str | None = None
) -> Gate:
    """Check files and folders; `-` is standard input."""
    reads = tuple(read_file(path, standard_input, overrides, policy) for path in files_of(paths))
    return Gate(reads, tuple(check(case_of(d, policy)) for read in reads for d in read.deployments))


def check(case: Case) -> Checked:
    """The findings of a case."""
    return Checked(case, tuple(_finding(case, rule, hit) for rule in rules() for hit in _hits(rule, case)))


def _hits(rule: Rule, case: Case) -> Iterator[Hit]:
    said = case.policy.rules.get(rule.id)
    if said is not None and said.severity == "off":
        return
    yield from rule.check(case)


def _finding(case: Case, rule: Rule, hit: Hit) -> Finding:
    found, said = case.deployment.found, case.policy.rules.get(rule.id)
    severity = hit.severity or rule.severity
    if said is not None and said.severity not in (None, "off"):
        severity = said.severity  # type: ignore[assignment]  # off is excluded
    return Finding(
        rule=rule.id,
        severity=severity,
        confidence=hit.confidence,
        file=case.deployment.file,
        line=hit.at.line if hit.at else found.line,
        column=hit.at.column if hit.at else 1,
        path=hit.at.path if hit.at else "",
        deployment=found.name,
        message=hit.message,
        detail=hit.detail,
        remedy=hit.remedy or rule.remedy,
    )
