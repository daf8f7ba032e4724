"""A gate as workflow commands of GitHub Actions: annotations in the pull request."""

from collections.abc import Iterator

from infopt.gate.check import Gate
from infopt.reports.gate_words import (
    UNDETERMINED,
    UNREADABLE,
    Strictness,
    body,
    counts,
    heading,
    missing,
    name_of,
    ordered,
    path_of,
    subject,
    unreadable,
)

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def page(found: Gate, strictness: Strictness) -> str:
    """A command a finding, file and fact that is missing, then the sum; accepted findings are only counted."""
    return "\n".join([*_commands(found, strictness), f"infopt gate: {heading(found)}, {counts(found.findings).words}"])


def _commands(found: Gate, strictness: Strictness) -> Iterator[str]:
    for read in found.reads:
        if read.error:
            line, column, cause = unreadable(read)
            yield command("error", read.file, line, column, UNREADABLE, cause)
    for finding in ordered(found.findings):
        if finding.suppressed is None:
            kind = COMMANDS[finding.severity]
            yield command(kind, finding.file, finding.line, finding.column, finding.rule, body(finding))
    for one in found.checked:
        if one.verdict == "undetermined":
            d, kind = one.case.deployment, "warning" if strictness.allow_undetermined else "error"
            said = f"{name_of(one)} ({subject(one)}): {missing(one)}"
            yield command(kind, d.file, d.found.line, 1, UNDETERMINED, said)


def command(kind: str, file: str, line: int, column: int, rule: str, message: str) -> str:
    """One annotation.

    >>> command("error", "a,b.yaml", 3, 1, "tight", "50 %")
    '::error file=a%2Cb.yaml,line=3,col=1,title=infopt tight::50 %25'
    """
    place = "" if file == "-" else f"file={_property(path_of(file))},line={line},col={column},"
    return f"::{kind} {place}title={_property(f'infopt {rule}')}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
