"""A shell text read, never run: its simple commands as words with their places, and what it assigns.

Understood: quotes, backslash continuations, comments, `;`, `&&`, `||`, `|`, `&`, newlines, `NAME=value`, `NAME+=value`,
`NAME=(array)` and `export`, here-documents (kept beside the command), grouping and redirections (dropped). Variables
are replaced by `environment.expanded` from what the file itself says; command substitution and globs stay as they are,
and what is not known stays visible as `$NAME`. Every step moves forward: any text is read in one pass.
"""

import re
from collections.abc import Iterator, Mapping

from infopt.frozen import dataclass

OPERATORS = (";;", "&&", "||", ";", "|&", "|", "&", "\n", "(", ")")
KEYWORDS = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "time"})
EXPORTING = frozenset({"export", "declare", "typeset", "local", "readonly"})
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=(.*)", re.DOTALL)
DEFAULTED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):=([^{}$]*)\}")
ARRAY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=\(")
HEREDOC = re.compile(r"[0-9]?<<-?[ \t]*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
REDIRECTION = re.compile(r"[0-9]?(?:<<<|&>>|&>|>>|>&|<&|>\||<>|<|>)[ \t]*")
BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
PLAIN = re.compile(r"[^ \t\r\n;|&()<>\\'\"$`]+")
INNER = re.compile(r'[^"\\$`]+')


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its quotes taken off.

    offset  of its first character in the text
    raw     in single quotes as a whole: its variables are not replaced
    quoted  some of it is in quotes: what a variable stands for is one word
    """

    text: str
    offset: int
    raw: bool = False
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command, and the assignments that stand before it on its line.

    exported  the assignments reach the programs after it; those before a program reach that program only
    body      of its here-document; `target` is the file its output goes to
    keywords  of the shell's own that stand before it
    """

    words: tuple[Word, ...]
    assigned: Mapping[str, str]
    exported: bool = False
    body: str = ""
    target: str = ""
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Body:
    """Text of a here-document."""

    text: str


@dataclass(frozen=True, slots=True)
class _Target:
    """A redirection: its operator and the word behind it."""

    operator: str
    text: str


_Token = Word | _Body | _Target | str


def commands(script: str) -> Iterator[Command]:
    """The simple commands of a script in order; a line that only assigns has no words."""
    words: list[Word] = []
    body, target = "", ""
    for token in _tokens(script):
        if isinstance(token, Word):
            words.append(token)
        elif isinstance(token, _Body):
            body += token.text
        elif isinstance(token, _Target):
            target = token.text if token.operator in (">", ">>", ">|", "1>", "1>>") else target
        elif words:
            yield _command(words, body, target)
            words, body, target = [], "", ""
    if words:
        yield _command(words, body, target)


def split(line: str) -> list[Word]:
    """The words of one command line; operators end it."""
    found: list[Word] = []
    for token in _tokens(line):
        if isinstance(token, str):
            break
        if isinstance(token, Word):
            found.append(token)
    return found


def quoted(word: str) -> str:
    """A word as one word of a command line; its variables stay open."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`") + '"'


def _command(words: list[Word], body: str, target: str) -> Command:
    assigned: dict[str, str] = {}
    keywords: list[str] = []
    exported = False
    position = 0
    while position < len(words):
        word = words[position]
        match = None if word.raw else ASSIGNMENT.fullmatch(word.text)
        if match is not None:
            before = assigned.get(match[1], f"${{{match[1]}}}") if match[2] else ""
            # An array that grows keeps its words apart.
            assigned[match[1]] = f"{before} {match[3][1:]}" if match[3][:1] == " " and before else before + match[3]
        elif word.quoted:
            break
        elif word.text in EXPORTING and position == 0:
            exported = True
        elif word.text in KEYWORDS:
            keywords.append(word.text)
        elif word.text != "env" and not (word.text.startswith("-") and position):
            break
        position += 1
    rest = tuple(words[position:])
    if rest and rest[0].text == ":":
        # `: ${NAME:=value}` does nothing but assign.
        assigned |= {m[1]: f"${{{m[1]}:-{m[2]}}}" for word in rest[1:] if (m := DEFAULTED.fullmatch(word.text))}
        rest = ()
    return Command(() if exported else rest, assigned, exported, body, target, tuple(keywords))


def _tokens(script: str) -> Iterator[_Token]:
    """Words, operators, redirections and the bodies of here-documents."""
    position, end = 0, len(script)
    pending: list[str] = []
    while position < end:
        char = script[position]
        if blank := BLANK.match(script, position):
            position = blank.end()
        elif char == "\n" and pending:
            body, position = _heredocs(script, position + 1, pending)
            pending = []
            yield _Body(body)
            yield "\n"
        elif char == "#":
            position = _line_end(script, position)
        elif match := HEREDOC.match(script, position):
            pending.append(f"{match[1]}{match[2]}")
            position = match.end()
        elif match := REDIRECTION.match(script, position):
            word, position = _target(script, match.end())
            yield _Target(match[0].strip(), word)
        elif operator := next((op for op in OPERATORS if script.startswith(op, position)), None):
            yield operator
            position += len(operator)
        else:
            made, position = _word(script, position)
            yield made


def _target(script: str, position: int) -> tuple[str, int]:
    """The word a redirection points at, and where it ends; `>(program)` is none."""
    if script.startswith("(", position):
        return "", _closing(script, position)
    if position >= len(script) or script[position] in "\n;|&()<>":
        return "", position
    word, end = _word(script, position)
    return word.text, end


def _line_end(script: str, position: int) -> int:
    found = script.find("\n", position)
    return len(script) if found < 0 else found


def _heredocs(script: str, position: int, names: list[str]) -> tuple[str, int]:
    """The bodies of here-documents, one after the other, and where they end."""
    lines: list[str] = []
    for marked in names:
        name = marked.strip("'\"")
        while position < len(script):
            end = _line_end(script, position)
            line = script[position:end]
            position = end + 1
            if line.strip() == name:
                break
            # Without quotes around its name a backslash stands for itself only when it is doubled.
            lines.append(line if name != marked else line.replace("\\\\", "\\"))
    return "\n".join(lines), min(position, len(script))


def _word(script: str, start: int, in_array: bool = False) -> tuple[Word, int]:
    """The word at a position, and where it ends; at least one character is taken. Arrays hold no arrays."""
    if not in_array and (array := ARRAY.match(script, start)):
        return _array(script, start, array.end())
    pieces: list[str] = []
    quotes = False
    position, end = start, len(script)
    while position < end:
        char = script[position]
        if match := PLAIN.match(script, position):
            pieces.append(match[0])
            position = match.end()
        elif char in " \t\r\n;|&()<>":
            break
        elif char == "\\":
            following = script[position + 1 : position + 2]
            pieces.append("" if following == "\n" else following or "\\")
            position += 2
        elif char == "'":
            close = script.find("'", position + 1)
            close = end if close < 0 else close
            pieces.append(script[position + 1 : close])
            position, quotes = close + 1, True
        elif char == '"':
            inner, position = _double_quoted(script, position + 1)
            pieces.append(inner)
            quotes = True
        else:
            inner, position = _substituted(script, position)
            pieces.append(inner)
    position = min(max(position, start + 1), end)
    raw = script[start] == "'" and script.find("'", start + 1, position) in (-1, position - 1)
    return Word("".join(pieces), start, raw, quotes), position


def _array(script: str, start: int, position: int) -> tuple[Word, int]:
    """`NAME=(word word)`: the words joined as a line, which is split again where the array is used."""
    words: list[str] = []
    end = len(script)
    while position < end and script[position] != ")":
        if blank := BLANK.match(script, position):
            position = blank.end()
        elif script[position] == "#":
            position = _line_end(script, position)
        elif script[position] in "\n;|&(<>":
            position += 1
        else:
            word, position = _word(script, position, in_array=True)
            several = not word.quoted or "[@]" in word.text
            words.append(word.text if several and PLAIN.fullmatch(word.text.replace("$", "")) else quoted(word.text))
    name = script[start : script.index("(", start)]
    # The blank in front tells an array from a text, for `+=`.
    joined = " ".join(words)
    return Word(f"{name} {joined}" if "+" in name else f"{name}{joined}", start, False, True), min(position + 1, end)


def _substituted(script: str, position: int) -> tuple[str, int]:
    """`$(...)`, `${...}` or `` `...` `` as it stands, else one character."""
    if script.startswith(("$(", "${"), position):
        close = _closing(script, position + 1)
    elif script[position] == "`":
        found = script.find("`", position + 1)
        close = len(script) if found < 0 else found + 1
    else:
        close = position + 1
    return script[position:close], close


def _double_quoted(script: str, position: int) -> tuple[str, int]:
    """What stands up to the closing quote, escapes taken off, and the place behind it."""
    pieces: list[str] = []
    end = len(script)
    while position < end and script[position] != '"':
        if match := INNER.match(script, position):
            pieces.append(match[0])
            position = match.end()
        elif script[position] == "\\" and position + 1 < end:
            following = script[position + 1]
            pieces.append({"\n": ""}.get(following, following if following in '"\\$`' else "\\" + following))
            position += 2
        elif script[position] == "\\":
            position += 1
        else:
            inner, position = _substituted(script, position)
            pieces.append(inner)
    return "".join(pieces), min(position + 1, end)


def _closing(script: str, opening: int) -> int:
    """Behind the bracket that closes the one at `opening`; brackets in quotes count for nothing."""
    left = script[opening]
    right, quotes = {"(": (")", "'\""), "{": ("}", '"')}[left]
    depth, quote = 0, ""
    for position in range(opening, len(script)):
        char = script[position]
        if quote:
            quote = "" if char == quote else quote
        elif char in quotes:
            quote = char
        else:
            depth += (char == left) - (char == right)
            if depth == 0:
                return position + 1
    return len(script)
