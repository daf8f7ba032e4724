"""Values of a Python text, read from its syntax tree and never run: literals, names, f-strings, `+`, lists, dicts.

What is not a literal in the end is `UNKNOWN`; inside a text it stays visible as `$name`, so that whoever reads the text
sees that something is not known.
"""

import ast
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

MOST_DEPTH = 30
MOST_CHARACTERS = 20_000
MOST_ITEMS = 2_000
MOST_STEPS = 200_000
ENVIRONMENT = frozenset({"os.environ.get", "os.getenv", "environ.get", "getenv"})


class _Unknown:
    """A value that only running would tell."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


class Scope(dict[str, ast.AST]):
    """Names and what they stand for; all scopes of a program share its steps, so that reading it ends."""

    def __init__(self, names: Mapping[str, ast.AST], outer: "Scope | None" = None) -> None:
        super().__init__(names if outer is None else {**outer, **names})
        self.steps: list[int] = [MOST_STEPS] if outer is None else outer.steps
        self.open: set[str] = set()

    def step(self) -> bool:
        """Take a step; false where none is left."""
        self.steps[0] -= 1
        return self.steps[0] > 0

    @contextmanager
    def inside(self, name: str) -> Iterator[ast.AST | None]:
        """What a name stands for, and nothing while it is being read, so that `x = x + "a"` ends."""
        if name in self.open:
            yield None
            return
        self.open.add(name)
        try:
            yield self.get(name)
        finally:
            self.open.discard(name)


def value(node: ast.AST | None, names: Scope, depth: int = MOST_DEPTH) -> Any:
    """The value of an expression: str, int, float, bool, None, or UNKNOWN."""
    if depth <= 0 or node is None or not names.step():
        return UNKNOWN
    if isinstance(node, ast.Constant):
        return node.value if node.value is None or isinstance(node.value, str | int | float) else UNKNOWN
    if isinstance(node, ast.Name):
        with names.inside(node.id) as meant:
            return value(meant, names, depth - 1)
    if isinstance(node, ast.JoinedStr):
        return _joined(node, names, depth)
    if isinstance(node, ast.BinOp):
        return _operation(node, names, depth)
    if isinstance(node, ast.IfExp):
        chosen = value(node.test, names, depth - 1)
        return UNKNOWN if chosen is UNKNOWN else value(node.body if chosen else node.orelse, names, depth - 1)
    if isinstance(node, ast.UnaryOp):
        inner = value(node.operand, names, depth - 1)
        if isinstance(node.op, ast.USub) and isinstance(inner, int | float):
            return -inner
        return not inner if isinstance(node.op, ast.Not) and inner is not UNKNOWN else UNKNOWN
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return _either(node, names, depth)
    return _call(node, names, depth) if isinstance(node, ast.Call) else UNKNOWN


def _either(node: ast.BoolOp, names: Scope, depth: int) -> Any:
    """`a or b`: the first that is something; a variable of the environment without a default is nothing."""
    for part in node.values:
        inner = value(part, names, depth - 1)
        unset = isinstance(part, ast.Call) and name_of(part.func) in ENVIRONMENT and len(part.args) == 1
        if inner is UNKNOWN and not unset:
            return UNKNOWN
        if inner is not UNKNOWN and inner:
            return inner
    return UNKNOWN


def _joined(node: ast.JoinedStr, names: Scope, depth: int) -> str:
    pieces = []
    for part in node.values:
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        pieces.append(shown(inner, names, depth - 1))
    return "".join(pieces)[:MOST_CHARACTERS]


def shown(node: ast.AST, names: Scope, depth: int = MOST_DEPTH) -> str:
    """The value as a word of a command line; `$name` where it is not known."""
    found = value(node, names, depth)
    if found is not UNKNOWN:
        return str(found)[:MOST_CHARACTERS]
    return f"${node.id}" if isinstance(node, ast.Name) else f"${name_of(node).rpartition('.')[2] or 'expression'}"


def _operation(node: ast.BinOp, names: Scope, depth: int) -> Any:
    left, right = value(node.left, names, depth - 1), value(node.right, names, depth - 1)
    if isinstance(node.op, ast.Add) and (isinstance(left, str) or isinstance(right, str)):
        return (shown(node.left, names, depth - 1) + shown(node.right, names, depth - 1))[:MOST_CHARACTERS]
    numbers = isinstance(left, int) and isinstance(right, int) and abs(left) < 2**60 and abs(right) < 2**60
    if not numbers:
        return UNKNOWN
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mult):
        return left * right
    if isinstance(node.op, ast.FloorDiv) and right:
        return left // right
    return left**right if isinstance(node.op, ast.Pow) and abs(left) < 1100 and 0 <= right < 20 else UNKNOWN


def _call(node: ast.Call, names: Scope, depth: int) -> Any:
    """`str(x)`, `int(x)`, `json.dumps(x)`, `" ".join(x)`, `os.getenv(name, default)`, the program's own functions."""
    called = name_of(node.func)
    if called == "str" and len(node.args) == 1:
        return shown(node.args[0], names, depth - 1)
    if called == "int" and len(node.args) == 1:
        inner = value(node.args[0], names, depth - 1)
        plain = str(inner).strip()
        return int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 19 else UNKNOWN
    if called == "json.dumps" and node.args:
        whole = plain_data(node.args[0], names, depth - 1)
        return UNKNOWN if whole is UNKNOWN else json.dumps(whole)
    if called in ENVIRONMENT and len(node.args) == 2:
        return value(node.args[1], names, depth - 1)
    if called in ("shutil.which", "which") and len(node.args) == 1:
        return value(node.args[0], names, depth - 1)
    if (returned := returned_by(called)) in names and not node.args and not node.keywords:
        return value(names[returned], names, depth - 1)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "strip" and not node.args:
        inner = value(node.func.value, names, depth - 1)
        return inner.strip() if isinstance(inner, str) else UNKNOWN
    if isinstance(node.func, ast.Attribute) and node.func.attr == "join" and len(node.args) == 1:
        words = elements(node.args[0], names, depth - 1)
        separator = value(node.func.value, names, depth - 1)
        if words is not None and isinstance(separator, str):
            return separator.join(shown(word, names, depth - 1) for word in words)[:MOST_CHARACTERS]
    if called == "shlex.join" and len(node.args) == 1:
        words = elements(node.args[0], names, depth - 1)
        return " ".join(shown(word, names, depth - 1) for word in words) if words is not None else UNKNOWN
    return UNKNOWN


def returned_by(function: str) -> str:
    """The name under which a scope holds what a function of the program returns."""
    return f"{function}()"


def elements(node: ast.AST | None, names: Scope, depth: int = MOST_DEPTH) -> list[ast.AST] | None:
    """The elements of a list or tuple, those of starred and added lists among them; None where it is none."""
    if depth <= 0 or node is None or not names.step():
        return None
    if isinstance(node, ast.Name):
        with names.inside(node.id) as meant:
            return elements(meant, names, depth - 1)
    if isinstance(node, ast.List | ast.Tuple):
        found: list[ast.AST] = []
        for element in node.elts[:MOST_ITEMS]:
            inner = elements(element.value, names, depth - 1) if isinstance(element, ast.Starred) else [element]
            found += inner or []
        return found[:MOST_ITEMS]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = elements(node.left, names, depth - 1), elements(node.right, names, depth - 1)
        return None if left is None or right is None else [*left, *right][:MOST_ITEMS]
    if isinstance(node, ast.IfExp):
        chosen = value(node.test, names, depth - 1)
        return None if chosen is UNKNOWN else elements(node.body if chosen else node.orelse, names, depth - 1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        line = value(node.func.value, names, depth - 1)
        if isinstance(line, str) and not node.args:
            return [ast.copy_location(ast.Constant(word), node) for word in line.split()]
    return None


def pairs(node: ast.AST | None, names: Scope, depth: int = MOST_DEPTH) -> dict[str, ast.AST]:
    """The entries of a dict display or of `dict(...)`, by name; entries of a starred dict among them."""
    if depth <= 0 or node is None or not names.step():
        return {}
    if isinstance(node, ast.Name):
        with names.inside(node.id) as meant:
            return pairs(meant, names, depth - 1)
    found: dict[str, ast.AST] = {}
    if isinstance(node, ast.Dict):
        for key, entry in list(zip(node.keys, node.values, strict=True))[:MOST_ITEMS]:
            if key is None:
                found |= pairs(entry, names, depth - 1)
            elif isinstance(name := value(key, names, depth - 1), str):
                found[name] = entry
    if isinstance(node, ast.Call) and name_of(node.func) == "dict":
        found |= keywords(node, names, depth - 1)
    return found


def keywords(node: ast.Call, names: Scope, depth: int = MOST_DEPTH) -> dict[str, ast.AST]:
    """The keyword arguments of a call, those of `**mapping` among them."""
    found: dict[str, ast.AST] = {}
    for keyword in node.keywords[:MOST_ITEMS]:
        found |= pairs(keyword.value, names, depth) if keyword.arg is None else {keyword.arg: keyword.value}
    return found


def plain_data(node: ast.AST, names: Scope, depth: int = MOST_DEPTH) -> Any:
    """Dicts, lists and literals as data; UNKNOWN where a part is."""
    if depth <= 0 or not names.step():
        return UNKNOWN
    inner = names.get(node.id) if isinstance(node, ast.Name) else node
    if isinstance(inner, ast.Dict):
        whole = {key: plain_data(entry, names, depth - 1) for key, entry in pairs(inner, names).items()}
        return UNKNOWN if UNKNOWN in whole.values() else whole
    if isinstance(inner, ast.List | ast.Tuple):
        several = [plain_data(entry, names, depth - 1) for entry in elements(inner, names) or []]
        return UNKNOWN if UNKNOWN in several else several
    return value(node, names, depth - 1)


def name_of(node: ast.AST) -> str:
    """A dotted name: `modal.Image.from_registry`; "" for what is none; calls on the way are left out."""
    parts: list[str] = []
    for _ in range(200):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            break
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))
