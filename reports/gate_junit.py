"""A gate as JUnit XML: a suite a file, a case a deployment."""

from collections.abc import Iterable
from xml.etree import ElementTree

from infopt.gate.check import Checked, Gate
from infopt.gate.finding import Finding
from infopt.gate.reading import Read
from infopt.reports.gate_words import (
    UNDETERMINED,
    UNREADABLE,
    Strictness,
    body,
    clean,
    missing,
    name_of,
    ordered,
    subject,
    unreadable,
)

# How a case that is not plainly passed is marked, and the count of a suite that it goes into.
COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def document(found: Gate, strictness: Strictness) -> str:
    """The whole document."""
    root = ElementTree.Element("testsuites", name="infopt gate")
    for read in found.reads:
        _suite(root, read, [one for one in found.checked if one.case.deployment.file == read.file], strictness)
    for file in sorted({finding.file for finding in found.notes}):
        suite = ElementTree.SubElement(root, "testsuite", name=clean(file))
        _case(suite, file, "accepted findings", [f for f in found.notes if f.file == file], strictness)
    for suite in root:
        _count(suite, suite.findall("testcase"))
    _count(root, root.iter("testcase"))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _suite(root: ElementTree.Element, read: Read, checked: list[Checked], strictness: Strictness) -> None:
    if not checked and not read.error:
        return
    suite = ElementTree.SubElement(root, "testsuite", name=clean(read.file))
    if read.error:
        line, column, cause = unreadable(read)
        case = ElementTree.SubElement(suite, "testcase", classname=clean(read.file), name="readable")
        _answer(case, "error", UNREADABLE, cause, f"{clean(read.file)}:{line}:{column}: {cause}")
    for one in checked:
        case = _case(suite, read.file, name_of(one), one.findings, strictness)
        if case.find("failure") is None and one.verdict == "undetermined":
            kind = "skipped" if strictness.allow_undetermined else "error"
            _answer(case, kind, UNDETERMINED, f"undetermined: {missing(one)}", subject(one))


def _case(
    suite: ElementTree.Element, file: str, name: str, findings: Iterable[Finding], strictness: Strictness
) -> ElementTree.Element:
    """A case: what fails it in one failure, the other findings as its output."""
    case = ElementTree.SubElement(suite, "testcase", classname=clean(file), name=name)
    failing = [finding for finding in ordered(findings) if strictness.fails(finding)]
    others = [finding for finding in ordered(findings) if not strictness.fails(finding)]
    if failing:
        _answer(case, "failure", failing[0].rule, clean(failing[0].message), "\n\n".join(map(_text, failing)))
    if others:
        ElementTree.SubElement(case, "system-out").text = "\n\n".join(map(_text, others))
    return case


def _answer(case: ElementTree.Element, kind: str, type: str, message: str, text: str) -> None:
    ElementTree.SubElement(case, kind, type=type, message=message).text = text


def _text(finding: Finding) -> str:
    mark = f"{finding.severity}[{finding.rule}]"
    if finding.suppressed is not None:
        mark = f"suppressed {mark} (reason: {clean(finding.suppressed)})"
    return f"{clean(finding.file)}:{finding.line}:{finding.column}: {mark} {body(finding)}"


def _count(suite: ElementTree.Element, cases: Iterable[ElementTree.Element]) -> None:
    found = list(cases)
    suite.set("tests", str(len(found)))
    for kind, name in COUNTED.items():
        suite.set(name, str(sum(case.find(kind) is not None for case in found)))
