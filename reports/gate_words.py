"""Words that every output form of a gate shares: counts, titles, places, fingerprints, text that is safe to print."""

import hashlib
import os.path
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

from infopt.frozen import dataclass
from infopt.gate.baseline import fingerprint
from infopt.gate.check import Checked, Gate, Verdict
from infopt.gate.deployment import Severity
from infopt.gate.finding import Finding
from infopt.gate.reading import Read
from infopt.units import whole_of

ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
MARKS: dict[Verdict, str] = {"pass": "✅", "fail": "❌", "undetermined": "❔"}
# What a form without a deployment to hang it on calls the two answers that are no rule's.
UNDETERMINED, UNREADABLE = "undetermined", "unreadable"


@dataclass(frozen=True, slots=True)
class Strictness:
    """What counts as a failure: the least severity, and whether a missing fact does."""

    fail_on: Literal["error", "warning"] = "error"
    allow_undetermined: bool = False

    def fails(self, finding: Finding) -> bool:
        """Whether the finding fails the run; an accepted one and a note never do."""
        return finding.suppressed is None and ORDER[finding.severity] <= ORDER[self.fail_on]


@dataclass(frozen=True, slots=True)
class Counts:
    """Findings by severity; accepted ones apart, whatever their severity."""

    errors: int
    warnings: int
    notes: int
    suppressed: int

    @property
    def words(self) -> str:
        """'1 error, 2 warnings, 1 suppressed'; notes and suppressed ones only where there are some."""
        parts = [counted(self.errors, "error"), counted(self.warnings, "warning")]
        parts += [counted(self.notes, "note")] if self.notes else []
        return ", ".join([*parts, *([f"{self.suppressed} suppressed"] if self.suppressed else [])])


def counts(findings: Iterable[Finding]) -> Counts:
    """How many findings of each kind."""
    found = list(findings)
    each = Counter(finding.severity for finding in found if finding.suppressed is None)
    return Counts(each["error"], each["warning"], each["note"], len(found) - each.total())


def counted(number: int, noun: str) -> str:
    """'1 error', '2 errors'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """By place, the graver first at one place: the order of every form."""
    return sorted(findings, key=lambda f: (f.file, f.line, f.column, ORDER[f.severity], f.rule, f.message))


def heading(found: Gate) -> str:
    """The run in a word, in the order in which its exit status is chosen."""
    if found.verdict == "fail":
        return "fail"
    if found.errors:
        return UNREADABLE
    return found.verdict if found.checked else "nothing to check"


def subject(one: Checked) -> str:
    """What is served, on what, by what."""
    case, d = one.case, one.case.deployment
    device = "unknown GPU" if case.device is None else case.device.accelerator.name or case.device.accelerator.id
    model = d.model or "unknown model"
    return clean(f"{model} on {case.granted or case.needed} x {device}, {d.engine} {d.version or 'of unknown version'}")


def name_of(one: Checked) -> str:
    """The deployment's own name."""
    return clean(one.case.deployment.found.name or one.case.deployment.found.form)


def body(finding: Finding) -> str:
    """Message, arithmetic and remedy, a line each."""
    return "\n".join(lines_of(finding))


def lines_of(finding: Finding) -> Iterator[str]:
    """Message, arithmetic and remedy."""
    yield clean(finding.message)
    if finding.detail:
        yield clean(finding.detail)
    if finding.remedy:
        yield f"remedy: {clean(finding.remedy)}"


def missing(one: Checked) -> str:
    """The facts that keep a deployment undetermined, with what settles each."""
    unknown = "; ".join(f"{clean(item.fact)}: {clean(item.settle)}" for item in one.case.unknown)
    return unknown or clean(one.case.refused) or "no plan says whether it fits"


def path_of(file: str) -> str:
    """A file as other programs find it from the working directory: k8s/a.yaml, never ./k8s/a.yaml."""
    return "stdin" if file == "-" else os.path.normpath(file).replace("\\", "/")


def clean(text: str) -> str:
    """One line without control characters and characters that turn the direction of writing.

    >>> clean("a\\x1b[31m\\nb")
    'a\\\\x1b[31m b'
    """
    return "".join(map(visible_character, " ".join(text.split())))


def visible_character(character: str) -> str:
    """The character, or its escape where it would command the terminal."""
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return character.encode("unicode_escape").decode("ascii")
    return character


def unreadable(read: Read) -> tuple[int, int, str]:
    """Line, column and cause of a file that could not be read; line and column 1 where no place is known."""
    rest = read.error.removeprefix(f"{read.file}:")
    place, found, cause = rest.partition(": ")
    line, _, column = place.partition(":")
    at = whole_of(line), whole_of(column)
    if found and at[0] is not None and at[1] is not None:
        return at[0], at[1], clean(cause)
    return 1, 1, clean(rest)


def fingerprints(findings: Iterable[Finding]) -> list[tuple[Finding, str]]:
    """Each finding with the fingerprint of baselines; equal ones are numbered in their order."""
    seen: Counter[str] = Counter()
    named = []
    for finding in ordered(findings):
        key = fingerprint(finding, "infopt.yaml")
        named.append((finding, mark(key, str(seen[key])) if seen[key] else key))
        seen[key] += 1
    return named


def mark(*parts: str) -> str:
    """A short name of some texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
