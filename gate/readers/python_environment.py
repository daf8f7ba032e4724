"""Variables that a Python program sets for the engine it starts: `os.environ[...]`, `.env({...})`, `env={...}`."""

import ast
from collections.abc import Iterator

from infopt.gate.nodes import Text, at
from infopt.gate.readers.python_values import Scope, name_of, pairs, value

MOST_VARIABLES = 500


def environment_of(tree: ast.Module, names: Scope) -> dict[str, Text]:
    """The variables with their values, where these are literal; the last of several wins."""
    found: dict[str, Text] = {}
    for name, node in _said(tree, names):
        said = value(node, names)
        if isinstance(said, str | int) and not isinstance(said, bool) and len(found) < MOST_VARIABLES:
            found[name] = at(str(said), getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1)
    return found


def _said(tree: ast.Module, names: Scope) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Subscript) and name_of(target.value) in ("os.environ", "environ"):
                key = value(target.slice, names)
                if isinstance(key, str):
                    yield key, node.value
        elif isinstance(node, ast.Call):
            last = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            given = [node.args[0]] if last == "env" and len(node.args) == 1 else []
            given += [keyword.value for keyword in node.keywords if keyword.arg == "env"]
            for one in given:
                yield from pairs(one, names).items()
            if name_of(node.func) in ("os.environ.setdefault", "environ.setdefault") and len(node.args) == 2:
                key = value(node.args[0], names)
                if isinstance(key, str):
                    yield key, node.args[1]
