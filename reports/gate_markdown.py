"""A gate as Markdown, for a comment in a pull request."""

from collections.abc import Iterator

from infopt.gate.check import Checked, Gate
from infopt.gate.finding import Finding
from infopt.reports.gate_words import (
    MARKS,
    clean,
    counted,
    counts,
    heading,
    lines_of,
    missing,
    name_of,
    ordered,
    subject,
)
from infopt.reports.markdown import escape, table

# A comment of GitHub holds 65,536 characters; what comes after these is left to the other forms.
MOST_CHARACTERS = 60_000
# By this line a bot finds its own comment again.
MARKER = "<!-- infopt gate -->"
# Characters that start something in Markdown, as entities.
INERT = {ord(character): f"&#{ord(character)};" for character in "&*_`[]@#~"}
SIGNS = {"error": "❌", "warning": "⚠️", "note": "ℹ️"}


def page(found: Gate) -> str:
    """Verdict, a table of the deployments, and the findings of each to unfold."""
    lines: list[str] = []
    size = 0
    for part in _parts(found):
        size += len(part) + 1
        if size > MOST_CHARACTERS:
            lines += ["", "More was found than a comment holds: `infopt gate` prints all of it."]
            break
        lines.append(part)
    return "\n".join(lines)


def _parts(found: Gate) -> Iterator[str]:
    """The page in pieces that can stand alone."""
    yield MARKER
    mark = MARKS["fail"] if found.errors else MARKS[found.verdict]
    yield f"### {mark} infopt gate: {heading(found)}\n"
    looked = f"{counted(len(found.reads), 'file')}, {counted(len(found.checked), 'deployment')}"
    yield f"{looked}; {counts(found.findings).words}\n"
    if found.checked:
        names = ("", "deployment", "serves", "findings", "file")
        yield from table(names, (_row(one) for one in found.checked), "lllll")
    for error in found.errors:
        yield f"\n❌ could not be read: {inline(error)}"
    for one in found.checked:
        if one.findings or one.verdict == "undetermined":
            yield _details(one)
    for finding in ordered(found.notes):
        yield "\n" + _item(finding)


def _row(one: Checked) -> tuple[str, ...]:
    d, verdict = one.case.deployment, one.verdict
    words = counts(one.findings).words if one.findings else "none"
    texts = (name_of(one), subject(one), words, f"{d.file}:{d.found.line}")
    return (f"{MARKS[verdict]} {verdict}", *map(inert, texts))


def _details(one: Checked) -> str:
    head = f"{name_of(one)}: {one.verdict}, {counts(one.findings).words}"
    lines = ["", f"<details><summary>{inline(head)}</summary>", ""]
    if one.verdict == "undetermined":
        lines.append(f"- ❔ undetermined: {inline(missing(one))}")
    lines += [_item(finding) for finding in ordered(one.findings)]
    lines += [f"- assumed: {inline(text)}" for text in one.case.assumed]
    return "\n".join([*lines, "", "</details>"])


def _item(finding: Finding) -> str:
    place = f"{clean(finding.file)}:{finding.line}".replace("`", "'")
    message, *others = lines_of(finding)
    mark = f"{SIGNS[finding.severity]} **{finding.rule}**"
    if finding.suppressed is not None:
        return f"- suppressed {mark} `{place}`: {inline(message)}  \n  reason: {inline(finding.suppressed)}"
    return "  \n  ".join([f"- {mark} `{place}`: {inline(message)}", *map(inline, others)])


def inline(text: str) -> str:
    """Text of a file in a line of Markdown: nothing in it is a link, a mention or HTML."""
    return escape(inert(text))


def inert(text: str) -> str:
    """The same in a cell of a table, which escapes what is left."""
    return clean(text).translate(INERT)
