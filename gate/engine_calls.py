"""The engine a Python program builds, read from its syntax tree, never run: `AsyncEngineArgs(model=..., ...)`.

A keyword is known where it is a constant, a variable of the environment with its default, a name of the module, or an
argument of the same name that `.bind(...)` gives; every other keyword is left out.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from infopt.frozen import dataclass
from infopt.gate.found import Argument
from infopt.gate.nodes import Text

ENGINES = {"AsyncEngineArgs": "vllm", "EngineArgs": "vllm", "LLM": "vllm", "ServerArgs": "sglang", "Engine": "sglang"}
PACKAGES = {"vllm": "vllm", "sglang": "sglang"}
# What serves a model without an engine that is known here.
LIBRARIES = ("transformers", "diffusers", "ctranslate2", "onnxruntime", "deepspeed", "tensorrt_llm", "torch")
MOST_CHARACTERS = 200_000
MOST_STEPS = 20
CASTS = frozenset({"int", "float", "str", "bool"})


@dataclass(frozen=True, slots=True)
class EngineCall:
    """An engine's arguments as a program gives them, and the variables that were read for them."""

    engine: str
    arguments: tuple[Argument, ...]
    variables: tuple[str, ...]


class _Unknown:
    """A value only the running program has."""


UNKNOWN = _Unknown()


def engine_call(program: Text, environment: Mapping[str, Text]) -> EngineCall | None:
    """The first call in a program that builds an engine."""
    tree = _tree(program)
    if tree is None:
        return None
    packages = set(_imports(tree))
    for node in ast.walk(tree):
        engine = ENGINES.get(_name(node.func)) if isinstance(node, ast.Call) else None
        if engine is not None and engine in packages and isinstance(node, ast.Call):
            reader = _Values(tree, program, environment)
            arguments = tuple(reader.arguments(node))
            return EngineCall(engine, arguments, tuple(dict.fromkeys(reader.variables)))
    return None


def libraries(program: Text) -> tuple[str, ...]:
    """Libraries a program imports that could serve a model."""
    tree = _tree(program)
    named = set(_imports(tree)) if tree is not None else set()
    return tuple(name for name in LIBRARIES if name in named)


def is_program(name: str, content: Text) -> bool:
    """Whether a key of a ConfigMap holds a Python program."""
    return name.endswith(".py") and _tree(content) is not None


def _tree(program: Text) -> ast.Module | None:
    return None if len(program) > MOST_CHARACTERS else _parsed(str(program))


@lru_cache(maxsize=8)
def _parsed(program: str) -> ast.Module | None:
    try:
        return ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imports(tree: ast.Module) -> Iterator[str]:
    """Packages that are imported anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def _name(node: ast.expr) -> str:
    """The last name of a dotted one: `vllm.AsyncEngineArgs` is AsyncEngineArgs."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class _Values:
    """Values of expressions, as far as the file tells them."""

    def __init__(self, tree: ast.Module, program: Text, environment: Mapping[str, Text]) -> None:
        self.program, self.environment = program, environment
        self.variables: list[str] = []
        self.names: dict[str, ast.expr] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _name(node.func) == "bind":
                self.names |= {word.arg: word.value for word in node.keywords if word.arg is not None}
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self.names.setdefault(_name(statement.targets[0]), statement.value)

    def arguments(self, call: ast.Call) -> Iterator[Argument]:
        """Keywords of a call as options: true is the option alone, false its --no- form."""
        for word in call.keywords:
            if word.arg is None:
                continue
            value, (line, column) = self.value(word.value, MOST_STEPS)
            if value is UNKNOWN or value is None:
                continue
            flag = word.arg.replace("_", "-")
            written = f"--{flag}" if value is True else f"--no-{flag}" if value is False else f"--{flag}={value}"
            yield Argument(written, line, column, f"{word.arg} of {_name(call.func)}")

    def value(self, node: ast.expr, steps: int) -> tuple[Any, tuple[int, int]]:
        """The value of an expression, and where in the file it is written."""
        if isinstance(node, ast.Constant):
            plain = isinstance(node.value, str | int | float | bool) or node.value is None
            return (node.value if plain else UNKNOWN), self._place(node)
        if steps <= 0:
            return UNKNOWN, self._place(node)
        if isinstance(node, ast.Name) and node.id in self.names:
            return self.value(self.names[node.id], steps - 1)
        if isinstance(node, ast.Call) and _name(node.func) in CASTS and len(node.args) == 1:
            return self.value(node.args[0], steps - 1)
        if (asked := _variable(node)) is not None:
            return self._of_environment(node, *asked, steps)
        return UNKNOWN, self._place(node)

    def _of_environment(
        self, node: ast.expr, name: str, default: ast.expr | None, steps: int
    ) -> tuple[Any, tuple[int, int]]:
        self.variables.append(name)
        if name in self.environment:
            said = self.environment[name]
            truth = {"true": True, "false": False}.get(said.strip().lower())
            return (str(said) if truth is None else truth), said.within(0)
        return self.value(default, steps - 1) if default is not None else (UNKNOWN, self._place(node))

    def _place(self, node: ast.expr) -> tuple[int, int]:
        """Line and column of an expression in the file."""
        if self.program.style == "|":
            return self.program.line + node.lineno, self.program.column + node.col_offset
        return self.program.line, self.program.column


def _variable(node: ast.expr) -> tuple[str, ast.expr | None] | None:
    """Name and default of `os.environ.get("N", d)`, `os.getenv("N", d)` and `os.environ["N"]`."""
    if isinstance(node, ast.Subscript) and _name(node.value) == "environ":
        key = node.slice
        return (key.value, None) if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
    if not isinstance(node, ast.Call) or not node.args:
        return None
    asks = _name(node.func) == "getenv" or (
        isinstance(node.func, ast.Attribute) and node.func.attr == "get" and _name(node.func.value) == "environ"
    )
    key = node.args[0]
    if not asks or not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return None
    return key.value, node.args[1] if len(node.args) > 1 else None
