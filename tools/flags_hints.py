"""From the type hint of a field to the keywords of `add_argument`, as vLLM's get_kwargs and SGLang's arg_utils do."""

import ast
import re
from dataclasses import dataclass

from flags_sources import Field, Sources, UnknownError
from flags_values import Evaluator

UNKNOWN = ...  # a keyword whose value is known only when the engine runs
Keywords = dict[str, object]

_BUILTIN = {"bool", "int", "float", "str", "dict", "list", "tuple", "set"}
_TYPING = {"Dict": "dict", "List": "list", "Tuple": "tuple", "Set": "set"}


@dataclass(frozen=True)
class Hint:
    """One alternative of a type hint: kind is a builtin, None, literal, dataclass or other."""

    kind: str
    node: ast.expr
    path: str


def type_name(text: str) -> str:
    """Our name for what a `type=` keyword does with the text.

    >>> type_name("optional_type(human_readable_int)")
    'size'
    """
    for pattern, name in (
        ("human_readable_int_or_auto", "size_or_auto"),
        ("human_readable_int", "size"),
        ("json|parse_dataclass|from_json", "json"),
        (r"\bint\b", "int"),
        (r"\bfloat\b", "float"),
    ):
        if re.search(pattern, text) and "lambda" not in text:
            return name
    return "str"


class Hints:
    """Type hints of one release."""

    def __init__(self, sources: Sources, evaluator: Evaluator) -> None:
        self.sources = sources
        self.evaluator = evaluator

    def of(self, node: ast.expr, path: str) -> list[Hint]:
        """Alternatives of a hint: unions, Optional, Annotated and names are followed."""
        match node:
            case ast.Constant(value=None):
                return [Hint("None", node, path)]
            case ast.Constant(value=str(text)):
                return self.of(ast.parse(text, mode="eval").body, path)
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return [*self.of(left, path), *self.of(right, path)]
            case ast.Subscript(value=outer, slice=inner):
                return self._subscript(node, ast.unparse(outer).rpartition(".")[2], inner, path)
            case ast.Name(id=name):
                return self._name(node, name, path)
        return [Hint("other", node, path)]

    def _subscript(self, node: ast.Subscript, outer: str, inner: ast.expr, path: str) -> list[Hint]:
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if outer == "Union":
            return [hint for part in parts for hint in self.of(part, path)]
        if outer == "Optional":
            return [*self.of(inner, path), Hint("None", ast.Constant(None), path)]
        if outer in ("Annotated", "A", "SkipValidation", "InitVar"):
            return self.of(parts[0], path)
        if outer == "Literal":
            return [Hint("literal", node, path)]
        kind = _TYPING.get(outer, outer)
        return [Hint(kind if kind in _BUILTIN else "other", node, path)]

    def _name(self, node: ast.expr, name: str, path: str) -> list[Hint]:
        kind = _TYPING.get(name, name)
        if kind in _BUILTIN:
            return [Hint(kind, node, path)]
        found = self.sources.find(name, path)
        if found is None or isinstance(found[0], ast.FunctionDef):
            return [Hint("other", node, path)]
        definition, where = found
        if isinstance(definition, ast.ClassDef):
            decorators = " ".join(map(ast.unparse, definition.decorator_list))
            decorated = "dataclass" in decorators or "config" in decorators
            mapping = any(ast.unparse(base).startswith("dict") for base in definition.bases)
            return [Hint("dataclass" if decorated else "dict" if mapping else "other", node, where)]
        if isinstance(definition, ast.Name | ast.Subscript | ast.BinOp | ast.Constant):
            return self.of(definition, where) if ast.unparse(definition) != name else [Hint("other", node, path)]
        return [Hint("other", node, path)]

    def element(self, hint: Hint) -> Keywords:
        """Type and choices of the elements of a list, tuple or set."""
        if not isinstance(hint.node, ast.Subscript):
            return {"type": "str"}
        inner = hint.node.slice.elts[0] if isinstance(hint.node.slice, ast.Tuple) else hint.node.slice
        inside = self.of(inner, hint.path)
        if len(inside) == 1 and inside[0].kind == "literal":
            return self.choices(inside)
        return {"type": inside[0].kind if len(inside) == 1 and inside[0].kind in ("int", "float") else "str"}

    def choices(self, hints: list[Hint]) -> Keywords:
        """Type and choices of a Literal; open where text is allowed beside it."""
        values: list[object] = []
        for hint in hints:
            if hint.kind == "literal":
                values += self.evaluator.literals(hint.node, hint.path)
        kind = "int" if values and all(isinstance(value, int) for value in values) else "str"
        if any(hint.kind == "str" for hint in hints):
            return {"type": kind}
        return {"type": kind, "choices": values}

    def default(self, item: Field) -> object:
        try:
            return self.evaluator.default(item)
        except UnknownError:
            return UNKNOWN


def config_keywords(hints: Hints, item: Field, sizes: dict[str, str], bare_text: bool) -> Keywords:
    """What vLLM's get_kwargs makes of a field of a configuration class.

    sizes: type by field where numbers with suffixes are taken. bare_text: `bool | str | None` is a flag with an
    optional value.
    """
    alternatives = hints.of(item.annotation, item.path)
    by_kind = {hint.kind: hint for hint in alternatives}
    found: Keywords = {"default": hints.default(item), "help": item.doc}
    if "dataclass" in by_kind:
        return found | {"type": "json"}
    if bare_text and set(by_kind) == {"bool", "str", "None"}:
        return found | {"type": "str", "nargs": "?"}
    if "bool" in by_kind:
        return found | {"action": "BooleanOptionalAction"}
    if "literal" in by_kind:
        return found | hints.choices(alternatives)
    for kind in ("tuple", "list", "set"):
        if kind in by_kind:
            return found | {"nargs": "+"} | hints.element(by_kind[kind])
    if "int" in by_kind:
        return found | {"type": sizes.get(item.name, "int")}
    return found | {"type": "float" if "float" in by_kind else "json" if "dict" in by_kind else "str"}
