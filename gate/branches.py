"""Which commands of a shell script run: branches of an `if` whose condition the script's own variables decide.

Known are `[ A = B ]`, `[[ A == B ]]`, `!=`, `-eq` and its kin, `-n` and `-z` of texts without an open variable, and
`true` and `false`. Any other condition may hold or not, so that both branches count.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from infopt.gate.shell import Command
from infopt.units import whole_of

MOST_DEPTH = 100
NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__,
    "-ne": int.__ne__,
    "-gt": int.__gt__,
    "-ge": int.__ge__,
    "-lt": int.__lt__,
    "-le": int.__le__,
}
PATTERN = re.compile(r"[*?\[\\]")


class Branches:
    """Where in nested `if`s a script stands: for each, whether this branch may run and whether an earlier one does."""

    def __init__(self) -> None:
        self._open: list[tuple[bool, bool]] = []
        self._asked: bool | None = None
        self._asking = False

    def run(self, command: Command, words: Sequence[str]) -> bool:
        """Whether a command may run, after what its keywords open or close."""
        for keyword in command.keywords:
            if keyword == "then" and self._asking:
                self._answer()
            elif keyword == "if" and len(self._open) < MOST_DEPTH:
                self._open.append((True, False))
            elif keyword == "elif" and self._open:
                self._open[-1] = (not self._open[-1][1], self._open[-1][1])
            elif keyword == "else" and self._open:
                self._open[-1] = (not self._open[-1][1], True)
            elif keyword == "fi" and self._open:
                self._open.pop()
        if self._open and {"if", "elif"} & set(command.keywords):
            self._asked, self._asking = (None if "!" in command.keywords else holds(words)), True
        elif self._asking:
            # One of several commands of a condition decides nothing alone.
            self._asked = None
        return all(may for may, _ in self._open)

    def _answer(self) -> None:
        """The branch behind a condition, now that all of it has been seen."""
        self._asking = False
        may, before = self._open[-1] if self._open else (True, False)
        if self._open:
            self._open[-1] = (may and self._asked is not False, before or self._asked is True)


def holds(words: Sequence[str]) -> bool | None:
    """Whether a condition holds; None where that is not known.

    >>> holds(["[[", "a", "==", "a", "]]"]), holds(["[", "2", "-gt", "3", "]"]), holds(["[", "$A", "=", "a", "]"])
    (True, False, None)
    """
    if list(words) in (["true"], ["false"]):
        return words[0] == "true"
    if len(words) < 3 or (words[0], words[-1]) not in (("[", "]"), ("[[", "]]")):
        return None
    inner = words[1:-1]
    if any("$" in word or "`" in word for word in inner):
        return None
    if len(inner) == 2 and inner[0] in ("-n", "-z"):
        return (inner[1] == "") is (inner[0] == "-z")
    if len(inner) != 3:
        return None
    left, operator, right = inner
    if operator in NUMBERS:
        first, second = whole_of(left), whole_of(right)
        return None if first is None or second is None else NUMBERS[operator](first, second)
    if operator in ("=", "==", "!=") and not (words[0] == "[[" and PATTERN.search(right)):
        return (left == right) is (operator != "!=")
    return None
