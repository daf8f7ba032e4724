"""A gate on the terminal: every deployment with its verdict, findings with their line, what is not known, the sum."""

import textwrap
from collections.abc import Iterable, Iterator

from infopt.gate.check import Checked, Gate
from infopt.gate.finding import Finding
from infopt.gate.secrets import STRUCK
from infopt.reports.gate_words import (
    clean,
    counted,
    counts,
    heading,
    lines_of,
    missing,
    name_of,
    ordered,
    subject,
    visible_character,
)
from infopt.reports.screen import coloured, plain_characters, terminal_width

COLOURS = {"fail": "1;31", "error": "1;31", "undetermined": "1;33", "warning": "1;33", "pass": "1;32", "note": "36"}
DIM, BOLD = "2", "1"
INDENT, DEEPER = 2, 6
# Of an offending line, what is shown left of the place.
BEFORE_PLACE = 20


def page(found: Gate) -> str:
    """One block a deployment, findings that belong to none, then the sum."""
    return _Page(found, terminal_width(), coloured()).text()


def finding_text(found: Gate, finding: Finding, width: int = 80) -> str:
    """One finding as the page has it, without colours."""
    return "\n".join(_Page(found, width, False).finding(finding))


class _Page:
    def __init__(self, found: Gate, width: int, colour: bool) -> None:
        self.found, self.width, self.colour = found, width, colour
        named = {finding.file for finding in found.findings}
        self.sources = {read.file: read.text.split("\n") for read in found.reads if read.file in named}

    def text(self) -> str:
        lines = [line for one in self.found.checked for line in self._block(one)]
        notes = ordered(self.found.notes)
        lines += [line for finding in notes for line in self.finding(finding)] + ([""] if notes else [])
        text = "\n".join([*lines, *self._sum()])
        return text.encode("ascii", "replace").decode("ascii") if plain_characters() else text

    def _block(self, one: Checked) -> Iterator[str]:
        d, verdict = one.case.deployment, one.verdict
        place = f"{clean(d.file)}:{d.found.line}:"
        yield from self._wrapped(f"{place} {verdict.upper()} {name_of(one)}", 0, (verdict.upper(), COLOURS[verdict]))
        yield from self._wrapped(subject(one), INDENT)
        if verdict == "undetermined" and not one.case.unknown:
            yield from self._wrapped(f"undetermined: {missing(one)}", INDENT)
        for item in one.case.unknown:
            yield from self._wrapped(f"unknown: {clean(item.fact)}: {clean(item.settle)}", INDENT, ("unknown:", BOLD))
        for text in one.case.assumed:
            yield from self._wrapped(f"assumed: {clean(text)}", INDENT)
        for finding in ordered(one.findings):
            yield from self.finding(finding, brief=finding.severity == "note")
        yield ""

    def finding(self, finding: Finding, brief: bool = False) -> Iterator[str]:
        """Place and message; unless brief, the offending line, arithmetic and remedy too."""
        mark = f"{finding.severity}[{finding.rule}]"
        message, *others = lines_of(finding)
        place = f"{clean(finding.file)}:{finding.line}:{finding.column}:"
        if finding.suppressed is not None:
            yield from self._wrapped(f"{place} suppressed {mark} {message}", INDENT, ("suppressed", DIM))
            yield from self._wrapped(f"reason: {clean(finding.suppressed) or 'none'}", DEEPER)
            return
        doubt = "" if finding.confidence == "certain" else f" ({finding.confidence})"
        yield from self._wrapped(f"{place} {mark} {message}{doubt}", INDENT, (mark, COLOURS[finding.severity]))
        if brief:
            return
        yield from self._source(finding)
        for line in others:
            yield from self._wrapped(line, DEEPER)

    def _source(self, finding: Finding) -> Iterator[str]:
        """The offending line, cut to the width, with a caret under the place it is about."""
        lines = self.sources.get(finding.file, [])
        if not 0 < finding.line <= len(lines):
            return
        line, before = visible(lines[finding.line - 1]), visible(lines[finding.line - 1][: finding.column - 1])
        number = f"{finding.line:>{DEEPER}}"
        room = self.width - len(number) - 3
        start = max(0, min(len(before) - BEFORE_PLACE, len(line) - room))
        yield f"{number} | {line[start : start + room]}".rstrip()
        # Nobody knows the place behind a secret that was struck out, or in a scalar folded over several lines.
        if finding.path and STRUCK not in before and finding.column <= len(lines[finding.line - 1]):
            yield f"{' ' * len(number)} | {' ' * (len(before) - start)}^"

    def _sum(self) -> Iterator[str]:
        found = self.found
        word, verdicts = heading(found).upper(), [one.verdict for one in found.checked]
        said = [f"{verdicts.count(each)} {each}" for each in ("pass", "fail", "undetermined") if each in verdicts]
        deployments = counted(len(verdicts), "deployment") + (f" ({', '.join(said)})" if said else "")
        parts = [counted(len(found.reads), "file"), deployments, counts(found.findings).words]
        if found.errors:
            parts.insert(1, f"{len(found.errors)} unreadable")
        yield from self._wrapped(
            f"{word}: {', '.join(parts)}", 0, (word, COLOURS["fail" if found.errors else found.verdict])
        )

    def _wrapped(self, text: str, indent: int, painted: tuple[str, str] | None = None) -> Iterable[str]:
        """Lines of the width, the following ones indented; paths and commands are not cut."""
        lines = textwrap.wrap(
            text,
            self.width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent if indent == DEEPER else indent + 4),
            break_long_words=False,
            break_on_hyphens=False,
        )
        if painted is None or not self.colour:
            return lines
        word, colour = painted
        joined = "\n".join(lines).replace(word, f"\x1b[{colour}m{word}\x1b[0m", 1)
        return joined.split("\n")


def visible(line: str) -> str:
    """A line as a terminal can show it: tabs as spaces, control characters written out, spaces kept."""
    return "".join(map(visible_character, line.expandtabs(4)))
