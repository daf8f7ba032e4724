"""Follow the functions that build a command-line parser and collect every `add_argument`, by AST only."""

import ast
import json
import re
from collections.abc import Callable

from flags_hints import UNKNOWN, Hints, Keywords, config_keywords, type_name
from flags_sources import Field, Sources, UnknownError, base_method, class_fields, method
from flags_values import Evaluator

from infopt.profiles.flag_data import Flag

Scope = dict[str, object]
FieldKeywords = dict[str, Keywords]

_PLAIN_ACTIONS = {"", "store", "append", "extend"}
_SWITCHES = {"store_true", "store_false", "store_const", "BooleanOptionalAction", "count"}
_IGNORED = {"help", "version"}
_DEPRECATED = re.compile(
    r"^\W*(note: )?deprecated|[([]deprecated|\. deprecated:|(this (parameter|option)|--[\w-]+\W*) is deprecated",
    re.IGNORECASE,
)
_REPLACEMENT = re.compile(
    r"(?:deprecated\W*(?:use )?|please use (?:the )?|alias for |use (?=\S+ instead))[`'\"]*(--[\w.-]*\w(?:=\w+)?)",
    re.IGNORECASE,
)
_INVERSE = {"--enable-": "--disable-", "--disable-": "--enable-"}


def negations(names: list[str], paired: bool) -> list[str]:
    """Options argparse's BooleanOptionalAction adds, and the pairs newer vLLM adds.

    >>> negations(["--enable-lora", "-l"], paired=True)
    ['--no-enable-lora', '--disable-lora']
    """
    found = [f"--no-{name[2:]}" for name in names if name.startswith("--")]
    for prefix, inverse in _INVERSE.items() if paired else ():
        found += [inverse + name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return found


def deprecation(text: str) -> tuple[bool, str]:
    """Whether a help text calls the flag deprecated, and the flag it says to use.

    >>> deprecation("[DEPRECATED] Use `--moe-a2a-backend` instead.")
    (True, '--moe-a2a-backend')
    """
    if not _DEPRECATED.search(text):
        return False, ""
    found = _REPLACEMENT.search(text)
    name = found[1] if found else ""
    return True, name if "." in name else name.replace("_", "-")


def default_text(value: object) -> str:
    """A default as JSON; empty where it is not literal."""
    try:
        return "" if value is UNKNOWN else json.dumps(value)
    except TypeError:
        return ""


class ParserReader:
    """Collects the flags of one release.

    sizes       configuration fields that take numbers with suffixes, with their type
    bare_text   see config_keywords
    paired      `--enable-x` also makes `--disable-x`
    refusing    names of argparse actions that end the program when the flag is given
    """

    def __init__(self, sources: Sources, owner: str = "") -> None:
        self.sources = sources
        self.evaluator = Evaluator(sources, owner)
        self.hints = Hints(sources, self.evaluator)
        self.flags: dict[str, Flag] = {}
        self.sizes: dict[str, str] = {}
        self.bare_text = False
        self.paired = False
        self.refusing: set[str] = set()
        self.special: dict[str, Callable[[ast.Call, str], None]] = {}

    # -- functions

    def run(self, function: ast.FunctionDef, path: str, scope: Scope, receivers: set[str] | None = None) -> object:
        """Follow a function; with `receivers`, only options of those parsers count. Returns what it returns."""
        scope["__receivers__"] = receivers
        return self._body(function.body, path, scope)

    def _body(self, body: list[ast.stmt], path: str, scope: Scope) -> object:
        result: object = None
        for statement in body:
            done = self._statement(statement, path, scope)
            result = done if done is not None else result
        return result

    def _statement(self, node: ast.stmt, path: str, scope: Scope) -> object:
        match node:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value, path, scope)
            case ast.Expr(value=ast.Call() as call):
                self._value(call, path, scope)
            case ast.Delete(targets=[ast.Subscript(value=inner, slice=ast.Constant(value=key))]):
                if isinstance(keywords := self._value(inner, path, scope), dict):
                    keywords.pop(key, None)
            case ast.If(body=body, orelse=orelse):
                return self._body([*body, *orelse], path, scope)
            case ast.With(body=body) | ast.Try(body=body):
                return self._body(body, path, scope)
            case ast.For(target=ast.Tuple(elts=[ast.Name(), ast.Name(id=value)]), iter=ast.Call() as over):
                self._loop(value, over, path, scope)
            case ast.Return(value=ast.expr() as value):
                return self._value(value, path, scope)
        return None

    def _assign(self, target: ast.expr, value: ast.expr, path: str, scope: Scope) -> None:
        found = self._value(value, path, scope)
        if isinstance(target, ast.Name):
            scope[target.id] = found
        elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            keywords = self._value(target.value, path, scope)
            if isinstance(keywords, dict):
                key = target.slice.value
                keywords[key] = self._keyword(str(key), value, path, scope)

    def _loop(self, name: str, over: ast.Call, path: str, scope: Scope) -> None:
        """`for key, value in kwargs.items(): group.add_argument(f"--{key}", **value)`."""
        if not (isinstance(over.func, ast.Attribute) and over.func.attr == "items"):
            return
        fields = self._value(over.func.value, path, scope)
        if not isinstance(fields, dict):
            return
        for key, keywords in fields.items():
            if isinstance(keywords, dict):
                extra = keywords.pop("flags", [])
                names = [*(extra if isinstance(extra, list) else []), f"--{str(key).replace('_', '-')}"]
                self.add(names, keywords)

    # -- expressions

    def _value(self, node: ast.expr, path: str, scope: Scope) -> object:
        """Keywords of a configuration class, one of them, what a followed call returns; else the literal or UNKNOWN."""
        match node:
            case ast.Name(id=name) if name in scope:
                return scope[name]
            case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
                outer = self._value(inner, path, scope)
                return outer.setdefault(key, {}) if isinstance(outer, dict) else UNKNOWN
            case ast.Dict():
                return self._merged(node, path, scope)
            case ast.Call():
                return self._call(node, path, scope)
        return self._literal(node, path)

    def _merged(self, node: ast.Dict, path: str, scope: Scope) -> Keywords:
        """`{**kwargs["x"], "default": None}`."""
        merged: Keywords = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                inner = self._value(value, path, scope)
                merged |= inner if isinstance(inner, dict) else {}
            elif isinstance(key, ast.Constant):
                merged[str(key.value)] = self._keyword(str(key.value), value, path, scope)
        return merged

    def _literal(self, node: ast.expr, path: str) -> object:
        try:
            return self.evaluator.value(node, path)
        except UnknownError:
            return UNKNOWN

    def _call(self, node: ast.Call, path: str, scope: Scope) -> object:
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        if last in self.special:
            return self.special[last](node, path)
        if last == "add_argument":
            return self._add_argument(node, path, scope)
        if last == "get_kwargs":
            return self._config(node.args[0], path, scope)
        if last in ("add_cli_args", "make_arg_parser", "_customize_cli_kwargs"):
            return self._follow(node, last, path, scope)
        return self._literal(node, path)

    def _config(self, argument: ast.expr, path: str, scope: Scope) -> FieldKeywords:
        """`get_kwargs(Config)`."""
        found = self._class_of(argument, path, scope)
        fields = class_fields(self.sources, *found) if found else {}
        return {name: self.field_keywords(item) for name, item in fields.items()}

    def field_keywords(self, item: Field) -> Keywords:
        return config_keywords(self.hints, item, self.sizes, self.bare_text)

    def _class_of(self, node: ast.expr, path: str, scope: Scope) -> tuple[ast.ClassDef, str] | None:
        if not isinstance(node, ast.Name):
            return None
        known = scope.get("__class__")
        if node.id == "cls" and isinstance(known, tuple):
            return known[0], known[1]
        return self.sources.find_class(node.id, path)

    def _follow(self, node: ast.Call, last: str, path: str, scope: Scope) -> object:
        """A function that adds options to a parser or changes keywords."""
        receivers = scope.get("__receivers__")
        if isinstance(receivers, set) and not {ast.unparse(argument) for argument in node.args} & receivers:
            return None
        owner: tuple[ast.ClassDef, str] | None = None
        if isinstance(node.func, ast.Name):
            found = self.sources.find(last, path)
            target = (found[0], found[1]) if found and isinstance(found[0], ast.FunctionDef) else None
        elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "super()":
            here = scope.get("__defined_in__")
            owner = self._class_of(ast.Name("cls"), path, scope)
            target = base_method(self.sources, here, path, last) if isinstance(here, ast.ClassDef) else None
        else:
            owner = self._class_of(node.func.value, path, scope) if isinstance(node.func, ast.Attribute) else None
            target = method(self.sources, *owner, last) if owner else None
        if target is None or not isinstance(target[0], ast.FunctionDef):
            return None
        return self.run(target[0], target[1], self._inner_scope(node, target, owner, path, scope))

    def _inner_scope(
        self,
        node: ast.Call,
        target: tuple[ast.FunctionDef, str],
        owner: tuple[ast.ClassDef, str] | None,
        path: str,
        scope: Scope,
    ) -> Scope:
        function, where = target
        names = [argument.arg for argument in function.args.args if argument.arg not in ("cls", "self")]
        inner: Scope = dict(zip(names, [self._value(argument, path, scope) for argument in node.args], strict=False))
        inner["__class__"] = owner
        inner["__defined_in__"] = next(
            (
                definition
                for definition in self.sources.modules[where].defined.values()
                if isinstance(definition, ast.ClassDef) and function in definition.body
            ),
            None,
        )
        return inner

    def _text(self, node: ast.expr, path: str) -> str:
        """The literal parts of a text."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=parts):
                return "".join(self._text(part, path) for part in parts)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self._text(left, path) + self._text(right, path)
            case ast.Name(id=name):
                found = self.sources.find(name, path)
                return self._text(found[0], found[1]) if found and isinstance(found[0], ast.Constant) else ""
        return ""

    # -- options

    def _keyword(self, key: str, node: ast.expr, path: str, scope: Scope) -> object:
        """The value of a keyword of add_argument: types and actions by name, the rest as literals."""
        if key == "type":
            return type_name(ast.unparse(node))
        if key == "action":
            found = self._literal(node, path)
            return found if isinstance(found, str) else ast.unparse(node).rpartition(".")[2]
        if key == "help":
            return self._text(node, path)
        if key == "error_message":
            return "given"
        found = self._value(node, path, scope)
        return sorted(found) if key == "choices" and isinstance(found, dict) else found

    def _add_argument(self, node: ast.Call, path: str, scope: Scope) -> None:
        receivers = scope.get("__receivers__")
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        if isinstance(receivers, set) and owner not in receivers:
            return
        names = [name for argument in node.args if isinstance(name := self._literal(argument, path), str)]
        keywords: Keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                inner = self._value(keyword.value, path, scope)
                keywords = (inner if isinstance(inner, dict) else {}) | keywords
            else:
                keywords[keyword.arg] = self._keyword(keyword.arg, keyword.value, path, scope)
        self.add(names, keywords)

    def add(self, names: list[str], keywords: Keywords) -> None:
        """One option as a record; positional arguments and repeated names are left out."""
        options = [name for name in names if name.startswith("-")]
        action = str(keywords.get("action") or "")
        long = [name for name in options if name.startswith("--")] or options
        if not options or action in _IGNORED or long[0] in self.flags:
            return
        optional = action == "BooleanOptionalAction"
        deprecated, replaced_by = deprecation(str(keywords.get("help", "")))
        replaced = keywords.get("new_flag", replaced_by)
        keywords = {"deprecated": deprecated} | keywords
        self.flags[long[0]] = Flag(
            name=long[0],
            aliases=tuple(name for name in options if name != long[0]),
            negations=tuple(negations(options, self.paired)) if optional else (),
            kind=_kind(action, keywords),
            type=_type(action, keywords),
            default=default_text(keywords.get("default", False if action == "store_true" else None)),
            choices=_choices(keywords),
            env="",
            status=self._status(action, keywords),
            replaced_by=replaced if isinstance(replaced, str) and replaced not in options else "",
        )

    def _status(self, action: str, keywords: Keywords) -> str:
        if action in self.refusing or "error_message" in keywords:
            return "refused"
        return "deprecated" if keywords.get("deprecated") or action.startswith("Deprecated") else ""


def _kind(action: str, keywords: Keywords) -> str:
    nargs = keywords.get("nargs", 0 if action in _DEPRECATED_SWITCHES else None)
    if action == "StoreBoolean":
        return "boolean"
    if action in _SWITCHES or nargs == 0:
        return "switch"
    return {"?": "optional", None: "value", 1: "value"}.get(nargs, "values") if nargs is not UNKNOWN else "value"


_DEPRECATED_SWITCHES = {"DeprecatedAction", "DeprecatedStoreTrueAction", "DeprecatedStoreConstAction"}


def _type(action: str, keywords: Keywords) -> str:
    if _kind(action, keywords) in ("switch", "boolean"):
        return "bool"
    return str(keywords.get("type", "str"))


def _choices(keywords: Keywords) -> tuple[str, ...]:
    """Choices as texts; none where one has a space in it, for the data file separates them by spaces."""
    choices = keywords.get("choices")
    texts = sorted({str(choice) for choice in choices}) if isinstance(choices, list) else []
    return () if any(not text or " " in text for text in texts) else tuple(texts)
