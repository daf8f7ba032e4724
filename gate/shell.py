"""A shell text read, never run: its simple commands as words with their places, and what it assigns.

Understood: quotes, `\` continuations, comments, `;`, `&&`, `||`, `|`, `&`, newlines, `NAME=value` and `export`,
here-documents (skipped), grouping words and redirections (dropped). Variables are replaced by `environment.expanded`
from what the file itself says; command substitution, globs and arithmetic stay as they are, and what is not known stays
visible as `$NAME`.
"""

import re
from collections.abc import Iterator, Mapping

from infopt.frozen import dataclass

OPERATORS = (";;", "&&", "||", ";", "|", "&", "\n")
KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "time", "exec"}
)
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
REDIRECTION = re.compile(r"[0-9]?(>>?|<|>&|&>)")


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its quotes taken off.

    offset  of its first character in the text
    raw     in single quotes as a whole: its variables are not replaced
    """

    text: str
    offset: int
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command, and the assignments that stand before it on its line."""

    words: tuple[Word, ...]
    assigned: Mapping[str, str]


def commands(script: str) -> Iterator[Command]:
    """The simple commands of a script in order; a line that only assigns has no words."""
    words: list[Word] = []
    for token in _tokens(script):
        if isinstance(token, Word):
            words.append(token)
        elif words:
            yield _command(words)
            words = []
    if words:
        yield _command(words)


def split(line: str) -> list[Word]:
    """The words of one command line; operators end it."""
    found: list[Word] = []
    for token in _tokens(line):
        if not isinstance(token, Word):
            break
        found.append(token)
    return found


def _command(words: list[Word]) -> Command:
    assigned: dict[str, str] = {}
    rest = [word for word in words if word.text not in KEYWORDS or word.raw]
    if rest and rest[0].text in ("export", "declare", "local", "readonly", "env"):
        exported = rest[0].text != "env"
        rest = rest[1:]
        while exported and rest and rest[0].text.startswith("-"):
            rest = rest[1:]
    while rest and (match := ASSIGNMENT.fullmatch(rest[0].text)):
        assigned[match[1]] = match[2]
        rest = rest[1:]
    return Command(tuple(_without_redirections(rest)), assigned)


def _without_redirections(words: list[Word]) -> Iterator[Word]:
    skip = False
    for word in words:
        if skip:
            skip = False
            continue
        if not word.raw and (match := REDIRECTION.match(word.text)):
            skip = match.end() == len(word.text)
            continue
        yield word


def _tokens(script: str) -> Iterator[Word | str]:
    """Words and operators; the bodies of here-documents are left out."""
    position, end = 0, len(script)
    pending: list[str] = []
    while position < end:
        char = script[position]
        if char == "\n" and pending:
            yield "\n"
            position = _after_heredocs(script, position + 1, pending)
            pending = []
            continue
        operator = next((op for op in OPERATORS if script.startswith(op, position)), None)
        if operator is not None:
            yield operator
            position += len(operator)
        elif char in " \t\r" or script.startswith("\\\n", position):
            position += 2 if char == "\\" else 1
        elif char == "#":
            position = _line_end(script, position)
        elif match := HEREDOC.match(script, position):
            pending.append(match[2])
            position = match.end()
        else:
            word, position = _word(script, position)
            yield word


def _line_end(script: str, position: int) -> int:
    found = script.find("\n", position)
    return len(script) if found < 0 else found


def _after_heredocs(script: str, position: int, names: list[str]) -> int:
    for name in names:
        while position < len(script):
            end = _line_end(script, position)
            line = script[position:end].strip()
            position = end + 1
            if line == name:
                break
    return position


def _word(script: str, start: int) -> tuple[Word, int]:
    """The word at a position, and where it ends."""
    pieces: list[str] = []
    position, end = start, len(script)
    while position < end:
        char = script[position]
        if char in " \t\r\n;|&" and not (char == "&" and pieces and pieces[-1].endswith(">")):
            break
        if char == "\\" and position + 1 < end:
            pieces.append("" if script[position + 1] == "\n" else script[position + 1])
            position += 2
        elif char == "'":
            close = script.find("'", position + 1)
            close = end if close < 0 else close
            pieces.append(script[position + 1 : close])
            position = close + 1
        elif char == '"':
            inner, position = _double_quoted(script, position + 1)
            pieces.append(inner)
        elif script.startswith(("$(", "${"), position):
            close = _closing(script, position + 1)
            pieces.append(script[position:close])
            position = close
        else:
            pieces.append(char)
            position += 1
    raw = script[start] == "'" and script.find("'", start + 1) == position - 1
    return Word("".join(pieces), start, raw), max(position, start + 1)


def _double_quoted(script: str, position: int) -> tuple[str, int]:
    """What stands up to the closing quote, escapes taken off, and the place behind it."""
    pieces: list[str] = []
    while position < len(script) and script[position] != '"':
        if script[position] == "\\" and position + 1 < len(script):
            following = script[position + 1]
            pieces.append({"\n": ""}.get(following, following if following in '"\\$`' else "\\" + following))
            position += 2
        else:
            pieces.append(script[position])
            position += 1
    return "".join(pieces), position + 1


def _closing(script: str, opening: int) -> int:
    """Behind the bracket that closes the one at `opening`."""
    pairs = {"(": ")", "{": "}"}
    left, right, depth = script[opening], pairs[script[opening]], 0
    for position in range(opening, len(script)):
        depth += (script[position] == left) - (script[position] == right)
        if depth == 0:
            return position + 1
    return len(script)
