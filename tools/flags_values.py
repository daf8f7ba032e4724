"""Values of expressions, where they are literal: numbers, texts, lists, defaults of fields, members of enumerations."""

import ast
import operator

from flags_sources import Field, Sources, UnknownError, class_fields, enum_members

Value = object

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
_FACTORIES: dict[str, Value] = {"list": [], "dict": {}, "set": [], "tuple": []}
_FIELD_CALLS = {"field", "Field", "dataclasses.field", "pydantic.Field", "msgspec.field"}


class Evaluator:
    """Evaluates expressions of one release; what is not literal raises UnknownError."""

    def __init__(self, sources: Sources, default_owner: str = "") -> None:
        self.sources = sources
        self.default_owner = default_owner  # class meant by SGLang's _declared_default("x")

    def value(self, node: ast.expr, path: str) -> Value:
        """The value of an expression in the file `path`."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return self._items(items, path)
            case ast.Dict(keys=keys, values=values):
                return {self.value(k, path): self.value(v, path) for k, v in zip(keys, values, strict=True) if k}
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._number(operator.mul, -1, self.value(operand, path))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.value(operand, path)
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
                return self._number(_OPERATORS[type(op)], self.value(left, path), self.value(right, path))
            case ast.Name(id=name):
                return self._named(name, path)
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
                return self.of_class(owner, attribute, path)
            case ast.Attribute(value=inner, attr="value"):
                return self.value(inner, path)
            case ast.Call():
                return self._call(node, path)
            case ast.ListComp(elt=element, generators=[generator]) if not generator.ifs:
                return self._members(element, generator.iter, path)
        raise UnknownError(ast.unparse(node))

    def _number(self, apply: object, left: Value, right: Value) -> Value:
        if isinstance(left, list) and isinstance(right, list):
            return left + right
        if not isinstance(left, int | float) or not isinstance(right, int | float) or not callable(apply):
            raise UnknownError(f"{left!r} and {right!r}")
        result: Value = apply(left, right)
        return result

    def _items(self, items: list[ast.expr], path: str) -> list[Value]:
        values: list[Value] = []
        for item in items:
            values += self._spread(item.value, path) if isinstance(item, ast.Starred) else [self.value(item, path)]
        return values

    def _spread(self, node: ast.expr, path: str) -> list[Value]:
        """`*NAMES` in a list; of a table of classes by name, the names."""
        found = self.sources.find(node.id, path) if isinstance(node, ast.Name) else None
        if found and isinstance(found[0], ast.Dict):
            return [self.value(key, found[1]) for key in found[0].keys if key]
        inner = self.value(node, path)
        return list(inner) if isinstance(inner, list | dict) else []

    def _named(self, name: str, path: str) -> Value:
        found = self.sources.find(name, path)
        if found is None or not isinstance(found[0], ast.expr) or _names(found[0]) == {name}:
            raise UnknownError(name)
        definition, where = found
        if isinstance(definition, ast.Subscript) and ast.unparse(definition.value).endswith("Literal"):
            return self.literals(definition, where)
        return self.value(definition, where)

    def of_class(self, owner: str, attribute: str, path: str) -> Value:
        """`Class.attribute`: the default of a field, or a member of an enumeration."""
        found = self.sources.find_class(owner, path)
        if found is None:
            raise UnknownError(f"{owner}.{attribute}")
        members = enum_members(self.sources, *found)
        if attribute in members:
            return self.value(members[attribute], found[1])
        fields = class_fields(self.sources, *found)
        if attribute not in fields:
            raise UnknownError(f"{owner}.{attribute}")
        return self.default(fields[attribute])

    def default(self, item: Field) -> Value:
        """The default of a field, also where it is wrapped in field() or pydantic's Field()."""
        if item.default is None:
            raise UnknownError(item.name)
        return self.value(item.default, item.path)

    def _call(self, node: ast.Call, path: str) -> Value:
        name = ast.unparse(node.func)
        if name in _FIELD_CALLS:
            return self._field_call(node, path)
        if name.endswith("get_field") and len(node.args) == 2:
            return self.of_class(ast.unparse(node.args[0]), str(self.value(node.args[1], path)), path)
        if name == "_declared_default":
            return self.of_class(self.default_owner, str(self.value(node.args[0], path)), path)
        if name == "get_args" and len(node.args) == 1:
            return self.literals(node.args[0], path)
        if name in ("list", "sorted", "set", "tuple", "frozenset") and len(node.args) == 1:
            inner = self.value(node.args[0], path)
            return sorted(inner, key=str) if isinstance(inner, list) and name == "sorted" else inner
        raise UnknownError(name)

    def _field_call(self, node: ast.Call, path: str) -> Value:
        keywords = {k.arg: k.value for k in node.keywords}
        if "default" in keywords or node.args:
            return self.value(keywords.get("default", node.args[0] if node.args else node), path)
        factory = keywords.get("default_factory")
        if isinstance(factory, ast.Lambda):
            return self.value(factory.body, path)
        if isinstance(factory, ast.Name) and factory.id in _FACTORIES:
            return _FACTORIES[factory.id]
        raise UnknownError(ast.unparse(node))

    def literals(self, node: ast.expr, path: str) -> list[Value]:
        """Values of a Literal type, also through a name and a union of Literals."""
        if isinstance(node, ast.Name):
            found = self.sources.find(node.id, path)
            if found is None or not isinstance(found[0], ast.expr):
                raise UnknownError(node.id)
            return self.literals(found[0], found[1])
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal"):
            values: list[Value] = []
            for item in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
                found = (
                    self.literals(item, path) if isinstance(item, ast.Name | ast.Subscript) else self.value(item, path)
                )
                values += found if isinstance(found, list) else [found]
            return values
        raise UnknownError(ast.unparse(node))

    def _members(self, element: ast.expr, over: ast.expr, path: str) -> list[Value]:
        """`[m.value for m in Enum]` and `[m.name.lower() for m in Enum]`."""
        found = self.sources.find_class(over.id, path) if isinstance(over, ast.Name) else None
        members = enum_members(self.sources, *found) if found else {}
        text = ast.unparse(element)
        if not found or not members:
            raise UnknownError(ast.unparse(over))
        if text.endswith(".value"):
            return [self.value(member, found[1]) for member in members.values()]
        if text.endswith(".name.lower()"):
            return [name.lower() for name in members]
        raise UnknownError(text)


def _names(node: ast.expr) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
