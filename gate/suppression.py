"""What somebody accepted: comments in the file, `accept:` of the policy, and a baseline of earlier findings.

    # infopt: ignore[rule-id] reason        on the line, or alone on the line above
    # infopt: ignore[rule-a, rule-b] reason

A comment at the head of a block scalar (`args: |  # infopt: ...`, or above it) covers the block, one above a shell
command covers its continued lines. Without a reason, or past its date, a suppression is void and a finding of its own.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from datetime import date

from infopt.errors import nearest
from infopt.frozen import dataclass
from infopt.gate.case import Case
from infopt.gate.finding import Finding, Hit, Rule
from infopt.gate.policy import Accepted, Policy

COMMENT = re.compile(r"(?:^|\s)(?:#|//)[ \t]*infopt:[ \t]*ignore(?:\[([^\]\n]*)\])?[ \t]*([^\n]*)")
BLOCK = re.compile(r"(^|[\s:-])[|>][-+0-9]{0,2}[ \t]*(#.*)?$")
# Bounds for hostile files: comments that are read, lines that one looks ahead or covers.
MOST_COMMENTS, MOST_LINES = 1_000, 2_000


def _nothing(case: Case) -> Iterator[Hit]:
    """Suppressions are looked at beside the deployments."""
    return iter(())


RULES = (
    Rule(
        id="suppression-reason",
        summary="a suppression without a reason, or of a rule that does not exist",
        severity="warning",
        why="Nobody can tell later whether it still holds; it suppresses nothing.",
        remedy="# infopt: ignore[rule-id] and why",
        check=_nothing,
    ),
    Rule(
        id="suppression-expired",
        summary="an accepted finding past its date",
        severity="warning",
        why="The date was set so that somebody looks again; it suppresses nothing any more.",
        remedy="Cure the finding, or set a new date with a new reason.",
        check=_nothing,
    ),
    Rule(
        id="suppression-unused",
        summary="a suppression that nothing needs",
        severity="note",
        why="It would hide the next finding of its rule.",
        remedy="Remove it.",
        check=_nothing,
    ),
)


@dataclass(frozen=True, slots=True)
class Comment:
    """A suppression in a file: of rules, from the first to the last line it covers."""

    rules: tuple[str, ...]
    reason: str
    line: int
    column: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Used:
    """Which suppressions were needed."""

    comments: set[Comment] = field(default_factory=set)
    accepted: set[int] = field(default_factory=set)


def comments(text: str) -> tuple[Comment, ...]:
    """The suppressions of a file."""
    if "infopt:" not in text:
        return ()
    lines = text.split("\n")
    found: list[Comment] = []
    for number, line in enumerate(lines):
        if "infopt:" in line and (match := COMMENT.search(line)) and len(found) < MOST_COMMENTS:
            alone = not line[: match.start()].strip()
            start = _next_statement(lines, number) if alone else number
            names = tuple(name.strip() for name in (match[1] or "").split(",") if name.strip())
            column = line.index("infopt:", match.start()) + 1
            reason = match[2].strip().rstrip("'\"\\").strip()
            found.append(Comment(names, reason, number + 1, column, start + 1, _covered(lines, start) + 1))
    return tuple(found)


def _next_statement(lines: Sequence[str], number: int) -> int:
    """The line a comment alone on its line is about: the next that is no comment."""
    following = number + 1
    while following < min(len(lines), number + MOST_LINES) and lines[following].lstrip().startswith(("#", "//")):
        following += 1
    return min(following, len(lines) - 1)


def _covered(lines: Sequence[str], start: int) -> int:
    """The last line of what begins on a line: of a block scalar, of a command continued by backslashes."""
    last, end = start, min(len(lines), start + MOST_LINES)
    if BLOCK.search(lines[start].rstrip("\r")):
        indent = _indent(lines[start])
        while last + 1 < end and (not lines[last + 1].strip() or _indent(lines[last + 1]) > indent):
            last += 1
        return last
    while last + 1 < end and lines[last].rstrip().endswith("\\"):
        last += 1
    return last


def _indent(line: str) -> int:
    """Columns before a line's content; the dash of a list counts as content."""
    return len(line) - len(line.lstrip(" "))


def suppressed(
    findings: Iterable[Finding], inside: Sequence[Comment], policy: Policy, today: date, used: Used
) -> Iterator[Finding]:
    """The findings of one file with the reason of each that is accepted; what was needed goes into `used`."""
    for finding in findings:
        reason = _of_comment(finding, inside, used) or _of_policy(finding, policy, today, used)
        yield replace(finding, suppressed=reason) if reason else finding


def _of_comment(finding: Finding, inside: Sequence[Comment], used: Used) -> str:
    for comment in inside:
        if finding.rule in comment.rules and comment.first <= finding.line <= comment.last:
            used.comments.add(comment)
            if comment.reason:
                return comment.reason
    return ""


def _of_policy(finding: Finding, policy: Policy, today: date, used: Used) -> str:
    for position, entry in enumerate(policy.accept):
        if entry.rule == finding.rule and policy.matches(entry.match, finding.file, finding.deployment):
            used.accepted.add(position)
            if entry.reason and not _expired(entry, today):
                return entry.reason
    return ""


def _expired(entry: Accepted, today: date) -> bool:
    return entry.until is not None and date.fromisoformat(entry.until) < today


def of_comments(file: str, inside: Sequence[Comment], used: Used, known: Sequence[str]) -> Iterator[Finding]:
    """What is wrong with the suppressions of a file."""
    for comment in inside:
        where = (file, comment.line, comment.column)
        strange = [name for name in comment.rules if name not in known]
        for name in strange:
            close = nearest(name, known)
            hint = f"; nearest: {', '.join(close)}" if close else "; infopt rules lists them"
            yield _finding("suppression-reason", where, f"there is no rule {name!r}{hint}")
        if not comment.rules:
            yield _finding("suppression-reason", where, "ignore names no rule, so it ignores none")
        elif not comment.reason:
            yield _finding("suppression-reason", where, f"ignore[{', '.join(comment.rules)}] gives no reason")
        elif comment not in used.comments and not strange:
            yield _finding("suppression-unused", where, f"ignore[{', '.join(comment.rules)}] suppresses nothing here")


def of_policy(policy: Policy, used: Used, today: date, checked: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """What is wrong with `accept:`; an entry for files that were not checked this time is not unused."""
    seen = list(checked)
    for position, entry in enumerate(policy.accept):
        where = (policy.file, entry.line, entry.column)
        if not entry.reason:
            yield _finding("suppression-reason", where, f"accept of {entry.rule} gives no reason")
        elif _expired(entry, today):
            yield _finding("suppression-expired", where, f"accept of {entry.rule} ended on {entry.until}")
        elif position not in used.accepted and any(policy.matches(entry.match, file, name) for file, name in seen):
            yield _finding("suppression-unused", where, f"accept of {entry.rule} for {entry.match} suppresses nothing")


def _finding(id: str, where: tuple[str, int, int], message: str) -> Finding:
    rule = next(rule for rule in RULES if rule.id == id)
    return Finding(
        rule=id,
        severity=rule.severity,
        confidence="certain",
        file=where[0],
        line=where[1],
        column=where[2],
        path="",
        deployment="",
        message=message,
        detail="",
        remedy=rule.remedy,
    )
