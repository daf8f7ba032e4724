"""Flags of `python -m sglang.launch_server` in one release."""

import ast

from flags_hints import UNKNOWN, Hint, Keywords, type_name
from flags_parser import ParserReader
from flags_sources import Field, Sources, UnknownError, class_fields, method

from infopt.profiles.flag_data import Flag

PACKAGE = "sglang"
KEEP = (
    "sglang/srt/server_args.py",
    "sglang/srt/arg_groups/",
    "sglang/srt/constants",
    "sglang/srt/lora/",
    "sglang/srt/layers/",
)
_SERVER_ARGS = "sglang/srt/server_args.py"


def _arg_call(item: Field) -> ast.Call | None:
    """`Arg(...)` of `field: A[T, Arg(...)]`; an empty one for a bare help text; None without either."""
    note = item.annotation
    if not (isinstance(note, ast.Subscript) and ast.unparse(note.value) in ("A", "Annotated")):
        return None
    for extra in note.slice.elts[1:] if isinstance(note.slice, ast.Tuple) else []:
        if isinstance(extra, ast.Call) and ast.unparse(extra.func) == "Arg":
            return extra
        if isinstance(extra, ast.Constant | ast.JoinedStr | ast.BinOp):
            return ast.Call(ast.Name("Arg"), [], [ast.keyword("help", extra)])
    return None


class ServerArgsReader(ParserReader):
    """Reads `Annotated[T, Arg(...)]` fields as SGLang's add_cli_args_from_dataclass does."""

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources, "ServerArgs")
        self.special["add_cli_args_from_dataclass"] = lambda _call, _path: self.add_fields()
        self.refusing = _refusing_actions(sources)

    def add_fields(self) -> None:
        for item in server_fields(self.sources).values():
            call = _arg_call(item)
            keywords = {k.arg: k.value for k in call.keywords if k.arg} if call else {}
            if call is None or self._is(keywords.get("no_cli"), item):
                continue
            names = [
                self._text(keywords.get("cli_name", ast.Constant("")), item.path) or f"--{item.name.replace('_', '-')}"
            ]
            aliases = self._literal(keywords["aliases"], item.path) if "aliases" in keywords else []
            self.add([*names, *(aliases if isinstance(aliases, list) else [])], self._keywords_of(item, keywords))

    def _is(self, node: ast.expr | None, item: Field) -> bool:
        return node is not None and self._literal(node, item.path) is True

    def _keywords_of(self, item: Field, given: dict[str, ast.expr]) -> Keywords:
        """Keywords of add_argument for one field."""
        found = self._inferred(item, given)
        for key in ("action", "nargs", "choices", "const", "help"):
            if key in given:
                found[key] = self._keyword(key, given[key], item.path, {})
        if "type_parser" in given:
            found["type"] = type_name(ast.unparse(given["type_parser"]))
        if isinstance(extra := given.get("action_kwargs"), ast.Dict):
            found |= self._merged(extra, item.path, {})
        return found

    def _inferred(self, item: Field, given: dict[str, ast.expr]) -> Keywords:
        hints = {hint.kind: hint for hint in self.hints.of(item.annotation, item.path)}
        found: Keywords = {"default": self.hints.default(item) if item.default else UNKNOWN}
        if "action" in given:
            return found
        if "bool" in hints:
            return found | {"action": "store_true"}
        if "list" in hints and "type_parser" not in given:
            return found | {"nargs": "+"} | self.hints.element(hints["list"])
        if "literal" in hints:
            return found | self.hints.choices([Hint("literal", hints["literal"].node, hints["literal"].path)])
        return found | {"type": next((kind for kind in ("int", "float") if kind in hints), "str")}


def server_fields(sources: Sources) -> dict[str, Field]:
    """Fields of ServerArgs: its own, or those of the namespaces it is assembled from."""
    owner = sources.find_class("ServerArgs", _SERVER_ARGS)
    fields = class_fields(sources, *owner) if owner else {}
    for path, module in sources.modules.items():
        if not path.startswith("sglang/srt/arg_groups/fields/"):
            continue
        for node in module.defined.values():
            if isinstance(node, ast.ClassDef) and "_NS_PATH" in ast.unparse(node):
                fields |= class_fields(sources, node, path)
    return fields


def _refusing_actions(sources: Sources) -> set[str]:
    """argparse actions whose every use ends the program."""
    found = set()
    for module in sources.modules.values():
        for name, node in module.defined.items():
            if not (isinstance(node, ast.ClassDef) and name.startswith("Deprecated")):
                continue
            calls = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__call__"]
            if any(isinstance(statement, ast.Raise) for call in calls for statement in call.body):
                found.add(name)
    return found


def read(files: dict[str, str]) -> tuple[dict[str, Flag], set[str]]:
    """Flags by name, and how the parser reads options, from the Python files of a release."""
    sources = Sources(files)
    reader = ServerArgsReader(sources)
    owner = sources.find_class("ServerArgs", _SERVER_ARGS)
    function = method(sources, *owner, "add_cli_args") if owner else None
    if function is None:
        raise UnknownError("ServerArgs.add_cli_args")
    reader.run(*function, {})
    return reader.flags, {"abbreviations", "equals"}
