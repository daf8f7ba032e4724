"""Variables a file itself defines, put where it uses them; no process environment, no shell.

    $(NAME)              Kubernetes, in command and args
    $NAME, ${NAME}       shell, Compose, SkyPilot; ${NAME[@]} of a shell array
    ${NAME:-default}, ${NAME-default}, ${NAME:=default}   with a default; other operators are not known
A name that the file does not define stays as it is: the reader must see that it is not known.
"""

import re
from collections.abc import Mapping

MOST_ROUNDS = 8
MOST_CHARACTERS = 100_000
_REFERENCE = re.compile(
    r"\$\((?P<kube>[A-Za-z_][A-Za-z0-9_.-]*)\)"
    r"|\$\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*|[0-9])(?:\[[@*]\])?(?:(?P<operator>:?[-=])(?P<default>[^{}]*))?\}"
    r"|\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"
)

_TEMPLATE = re.compile(r"\{\{[^{}]{0,200}\}\}")
_OPEN = re.compile(
    r"\$\(([A-Za-z_][\w.-]*)\)|\$\{[#!]?(\w+)[^}]*\}|\$([A-Za-z_]\w*|[0-9@*#])|\$(\([^()]*\)?)|`([^`]*)`?"
)


def expanded(text: str, known: Mapping[str, str]) -> str:
    """The text with every variable that is known, or has a default, in place; a bounded number of rounds.

    >>> expanded("$(A) ${B:-2} $C", {"A": "1"})
    '1 2 $C'
    """
    for _ in range(MOST_ROUNDS):
        if "$" not in text:
            break
        replaced = _once(text, known)
        if replaced == text:
            break
        text = replaced
    return text


def _once(text: str, known: Mapping[str, str]) -> str:
    """One round; what would grow past the limit stays as it is."""
    room = MOST_CHARACTERS - len(text)

    def put(match: re.Match[str]) -> str:
        nonlocal room
        value = _value(match, known)
        if len(value) > room:
            return match[0]
        room -= len(value)
        return value

    return _REFERENCE.sub(put, text)


def unresolved(text: str) -> list[str]:
    """Names of variables that are still in a text, and commands whose output would be.

    >>> unresolved("--tp $TP ${N:?needed} $1 $(nproc --all)")
    ['TP', 'N', '1', '(nproc --all)']
    """
    return [next(name for name in match.groups() if name) for match in _OPEN.finditer(text)]


def templates(text: str) -> list[str]:
    """Templates that are still in a text.

    >>> templates("--tp={{ .Values.tp }}")
    ['{{ .Values.tp }}']
    """
    return _TEMPLATE.findall(text)


def _value(match: re.Match[str], known: Mapping[str, str]) -> str:
    name = match["kube"] or match["braced"] or match["bare"]
    if name in known:
        value = known[name]
        return value if value or match["operator"] not in (":-", ":=") else match["default"]
    return match["default"] if match["default"] is not None else match[0]
