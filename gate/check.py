"""Files in, findings out: every rule over every deployment, with what is suppressed and the verdict."""

import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Literal

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.gate.baseline import read_baseline, without_known
from infopt.gate.case import Case, case_of
from infopt.gate.deployment import Severity
from infopt.gate.finding import Finding, Hit, Rule
from infopt.gate.found import UNKNOWN
from infopt.gate.limits import within
from infopt.gate.outside import Tree
from infopt.gate.policy import Policy
from infopt.gate.reading import Overrides, Read, files_of, read_file, text_of
from infopt.gate.rules.registry import by_id, rules
from infopt.gate.secrets import redacted
from infopt.gate.suppression import Comment, Used, comments, of_comments, of_policy, suppressed

Verdict = Literal["pass", "fail", "undetermined"]
FailOn = Literal["error", "warning"]
FAILING: dict[FailOn, tuple[Severity, ...]] = {"error": ("error",), "warning": ("error", "warning")}


@dataclass(frozen=True, slots=True)
class Checked:
    """One deployment checked; `failing` are the severities that fail."""

    case: Case
    findings: tuple[Finding, ...]
    failing: tuple[Severity, ...] = FAILING["error"]

    @property
    def verdict(self) -> Verdict:
        """fail for a finding that fails and is not suppressed; undetermined where no plan says it fits; else pass."""
        if any(f.severity in self.failing and f.suppressed is None for f in self.findings):
            return "fail"
        plan = self.case.plan
        fits = None if plan is None else plan.fits
        # What does not fit or is refused, and is found to be so, but fails nothing, has been accepted by somebody.
        accepted = bool(self.findings) and (fits is False or bool(self.case.refused))
        return "pass" if fits or accepted else "undetermined"


@dataclass(frozen=True, slots=True)
class Gate:
    """All files checked; `notes` are findings about files and the policy, not about a deployment."""

    reads: tuple[Read, ...]
    checked: tuple[Checked, ...]
    notes: tuple[Finding, ...] = ()
    failing: tuple[Severity, ...] = FAILING["error"]

    @property
    def errors(self) -> tuple[str, ...]:
        """Files that could not be read."""
        return tuple(read.error for read in self.reads if read.error)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*(finding for one in self.checked for finding in one.findings), *self.notes)

    @property
    def verdict(self) -> Verdict:
        """fail where anything fails, else undetermined where anything is."""
        if any(f.severity in self.failing and f.suppressed is None for f in self.findings):
            return "fail"
        return "undetermined" if any(one.verdict == "undetermined" for one in self.checked) else "pass"


def gate(
    paths: Sequence[str],
    policy: Policy,
    overrides: Overrides | None = None,
    standard_input: str | None = None,
    fail_on: FailOn = "error",
    today: date | None = None,
) -> Gate:
    """Check files and folders; `-` is standard input.

    fail_on  the least severity that fails
    today    the day on which accepted findings may have expired
    """
    files, today = tuple(files_of(paths)), today or date.today()
    used, tree = Used(), Tree(files, text_of)
    looked = [_look(path, policy, overrides, standard_input, tree) for path in files]
    checked: list[Checked] = []
    notes: list[Finding] = []
    for read, found, inside in looked:
        for one in found:
            kept = suppressed(one.findings, inside, policy, today, used)
            checked.append(replace(one, findings=tuple(kept), failing=FAILING[fail_on]))
        notes += suppressed(read.notes, inside, policy, today, used)
        notes += of_comments(read.file, inside, used, tuple(by_id()))
    names = [(one.case.deployment.file, one.case.deployment.found.name) for one in checked]
    notes += of_policy(policy, used, today, names)
    severe = tuple(_as_policy_says(notes, policy))
    return Gate(tuple(read for read, _, _ in looked), tuple(checked), severe, FAILING[fail_on])


def with_baseline(found: Gate, path: Path) -> Gate:
    """A gate in which the findings of a baseline are accepted."""
    known = read_baseline(path)
    checked = [replace(one, findings=tuple(without_known(one.findings, known, path))) for one in found.checked]
    return replace(found, checked=tuple(checked), notes=tuple(without_known(found.notes, known, path)))


def _look(
    path: str, policy: Policy, overrides: Overrides | None, standard_input: str | None, tree: Tree
) -> tuple[Read, tuple[Checked, ...], tuple[Comment, ...]]:
    """A file with its deployments checked; whatever happens in it, the others are checked too."""
    read = Read(path, "", ())
    try:
        with within(path):
            read = read_file(path, standard_input, overrides, policy, tree)
            found = tuple(_shown(check(case_of(one, policy)), read) for one in read.deployments)
            return read, found, comments(read.text)
    except InfoptError as error:
        why = str(error) if str(error).startswith(path) else f"{path}: {error}"
    except (RecursionError, MemoryError):
        why = f"{path}: is nested too deeply or too large to be checked"
    except Exception as error:  # one file must not keep the others from being checked
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        why = f"{path}: cannot be checked: {type(error).__name__} at {where}, a bug of infopt"
    return Read(path, "", (), redacted(read.secrets.said(why))), (), ()


def _shown(one: Checked, read: Read) -> Checked:
    """A checked deployment without the secrets of its file."""
    return Checked(read.secrets.of_case(one.case), tuple(read.secrets.of_finding(f) for f in one.findings))


def check(case: Case) -> Checked:
    """The findings of a case."""
    return Checked(case, tuple(_finding(case, rule, hit) for rule in rules() for hit in _hits(rule, case)))


def _hits(rule: Rule, case: Case) -> Iterator[Hit]:
    said = case.policy.rules.get(rule.id)
    if (said is not None and said.severity == "off") or case.deployment.engine == UNKNOWN:
        return
    yield from rule.check(case)


def _as_policy_says(notes: Iterable[Finding], policy: Policy) -> Iterator[Finding]:
    """Findings about suppressions with the severity that the policy gives their rule."""
    for note in notes:
        said = policy.rules.get(note.rule)
        severity = None if said is None else said.severity
        if severity != "off":
            yield note if severity is None else replace(note, severity=severity)


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
        cause=hit.at.text if hit.at else "",
    )
