"""What the Python files of one release define, read with `ast`: nothing is imported or executed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field


class UnknownError(Exception):
    """An expression whose value is known only when the engine runs."""


Definition = ast.ClassDef | ast.FunctionDef | ast.expr


@dataclass
class Module:
    """Top-level names of one file and where its imports come from."""

    defined: dict[str, Definition] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)


def _is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module that run: of `if TYPE_CHECKING` the other branch, of the rest both."""
    for node in body:
        if isinstance(node, ast.If):
            if not _is_type_checking(node):
                yield from _statements(node.body)
            yield from _statements(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _statements(node.body)
        else:
            yield node


def _imports(module: Module, path: str, node: ast.ImportFrom) -> None:
    origin = node.module or ""
    if node.level:
        parents = path.split("/")[: -node.level]
        origin = ".".join([*parents, origin]).rstrip(".")
    for alias in node.names:
        module.imported[alias.asname or alias.name] = (origin, alias.name)


def read_module(path: str, text: str) -> Module:
    """Names defined and imported at the top of a file."""
    module = Module()
    for node in _statements(ast.parse(text).body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            module.defined.setdefault(node.name, node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            module.defined.setdefault(node.targets[0].id, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            module.defined.setdefault(node.target.id, node.value)
        elif isinstance(node, ast.ImportFrom):
            _imports(module, path, node)
    return module


class Sources:
    """Python files of one release by path (`vllm/engine/arg_utils.py`), with look-up of names across them."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.modules = {path: read_module(path, text) for path, text in sorted(files.items())}
        self._everywhere: dict[str, str] = {}
        for path, module in self.modules.items():
            for name in module.defined:
                self._everywhere.setdefault(name, path)

    def path_of(self, dotted: str) -> str | None:
        """The file of a module such as `vllm.config`."""
        stem = dotted.replace(".", "/")
        return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in self.modules), None)

    def find(self, name: str, path: str) -> tuple[Definition, str] | None:
        """What `name` means in the file `path`: defined there, imported, or defined anywhere in the release."""
        seen: set[tuple[str, str]] = set()
        while (name, path) not in seen and path in self.modules:
            seen.add((name, path))
            module = self.modules[path]
            if name in module.defined:
                return module.defined[name], path
            if name not in module.imported:
                break
            origin, name = module.imported[name]
            path = self.path_of(origin) or ""
        elsewhere = self._everywhere.get(name)
        return (self.modules[elsewhere].defined[name], elsewhere) if elsewhere else None

    def find_class(self, name: str, path: str) -> tuple[ast.ClassDef, str] | None:
        found = self.find(name, path)
        return (found[0], found[1]) if found and isinstance(found[0], ast.ClassDef) else None


@dataclass(frozen=True)
class Field:
    """An annotated field of a class and the file it stands in."""

    name: str
    annotation: ast.expr
    default: ast.expr | None
    path: str
    doc: str = ""


def class_fields(sources: Sources, node: ast.ClassDef, path: str) -> dict[str, Field]:
    """Annotated fields of a class, those of its bases first."""
    fields: dict[str, Field] = {}
    for base in node.bases:
        found = sources.find_class(base.id, path) if isinstance(base, ast.Name) else None
        if found and found[0] is not node:
            fields |= class_fields(sources, *found)
    for statement, following in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            fields[name] = Field(name, statement.annotation, statement.value, path, _text(following))
    return fields


def _text(node: ast.stmt) -> str:
    """A statement that is only a text: what follows a field to document it."""
    text = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else ""
    return text if isinstance(text, str) else ""


def method(sources: Sources, node: ast.ClassDef, path: str, name: str) -> tuple[ast.FunctionDef, str] | None:
    """A method of a class or of the nearest base that has it."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return statement, path
    return base_method(sources, node, path, name)


def base_method(sources: Sources, node: ast.ClassDef, path: str, name: str) -> tuple[ast.FunctionDef, str] | None:
    """What `super().name` is."""
    for base in node.bases:
        found = sources.find_class(base.id, path) if isinstance(base, ast.Name) else None
        if found and found[0] is not node and (wanted := method(sources, *found, name)):
            return wanted
    return None


def enum_members(sources: Sources, node: ast.ClassDef, path: str) -> dict[str, ast.expr]:
    """Members of an enumeration; empty for other classes."""
    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    if not any("Enum" in base for base in bases):
        return {}
    return {
        statement.targets[0].id: statement.value
        for statement in node.body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
