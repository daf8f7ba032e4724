"""Variables a file itself defines, put where it uses them; no process environment, no shell.

    $(NAME)              Kubernetes, in command and args
    $NAME, ${NAME}       shell, Compose, SkyPilot; ${NAME[@]} of a shell array
    ${NAME:-default}, ${NAME-default}, ${NAME:=default}   with a default
    ${NAME:+words}       words where it has a value, else nothing; other operators are not known
    $((NAME * 2))        whole numbers with + - * / % and brackets
A name that the file does not define stays as it is: the reader must see that it is not known.
"""

import ast
import re
from collections.abc import Callable, Mapping

MOST_ROUNDS = 8
MOST_CHARACTERS = 100_000
MOST_EXPRESSION_CHARACTERS, MOST_NUMBER = 200, 10**12
_REFERENCE = re.compile(
    r"\$\((?P<kube>[A-Za-z_][A-Za-z0-9_.-]*)\)"
    r"|\$\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*|[0-9])(?:\[[@*]\])?(?:(?P<operator>:?[-=+])(?P<default>[^{}]*))?\}"
    r"|\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"
)

_ARITHMETIC = re.compile(r"\$\(\(([^()$`]{0,200}(?:\([^()$`]{0,200}\)[^()$`]{0,200}){0,4})\)\)")
_WHOLE = re.compile(r"[0-9+\-*/%() \t]+")
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: int.__add__,
    ast.Sub: int.__sub__,
    ast.Mult: int.__mul__,
    ast.Div: int.__floordiv__,
    ast.Mod: int.__mod__,
}
_TEMPLATE = re.compile(r"\{\{[^{}]{0,200}\}\}")
_OPEN = re.compile(
    r"\$(\(\([^()`]*\)\))|\$\(([A-Za-z_][\w.-]*)\)|\$\{[#!]?(\w+)[^}]*\}|\$([A-Za-z_]\w*|[0-9@*#])|\$(\([^()]*\)?)|`([^`]*)`?"
)


def expanded(text: str, known: Mapping[str, str]) -> str:
    """The text with every variable that is known, or has a default, in place; a bounded number of rounds.

    >>> expanded("$(A) ${B:-2} $C", {"A": "1"})
    '1 2 $C'
    >>> expanded("--dp $((A * (B + 1)))", {"A": "8", "B": "1"})
    '--dp 16'
    >>> expanded("${A:+--tp $A}${C:+--pp $C}", {"A": "2"})
    '--tp 2'
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

    text = _REFERENCE.sub(put, text)
    return _ARITHMETIC.sub(lambda match: _computed(match[1], known) or match[0], text) if "$((" in text else text


def _computed(expression: str, known: Mapping[str, str]) -> str:
    """What a shell makes of an expression of whole numbers that are not negative; "" where it is not one."""
    numbers = _NAME.sub(lambda match: known.get(match[0], match[0]).strip(), expression)
    if len(numbers) > MOST_EXPRESSION_CHARACTERS or not _WHOLE.fullmatch(numbers):
        return ""
    try:
        return str(_number(ast.parse(numbers.strip(), mode="eval").body))
    except (SyntaxError, ValueError, ArithmeticError):
        return ""


def _number(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    operator = _OPERATORS.get(type(node.op)) if isinstance(node, ast.BinOp) else None
    if operator is None or not isinstance(node, ast.BinOp):
        raise ValueError(ast.dump(node))
    made = operator(_number(node.left), _number(node.right))
    if not 0 <= made < MOST_NUMBER:
        raise ValueError(made)
    return made


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
    if (match["operator"] or "").endswith("+"):
        return match["default"] if known.get(name) else ""
    if name in known:
        value = known[name]
        return value if value or match["operator"] not in (":-", ":=") else match["default"]
    return match["default"] if match["default"] is not None else match[0]
