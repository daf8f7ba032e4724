"""What the parameters of a program's functions stand for: their defaults, and what each caller hands them."""

import ast
from collections.abc import Iterator, Mapping
from itertools import islice

from infopt.frozen import dataclass
from infopt.gate.readers.python_values import returned_by

MOST_CALLS = 20
Function = ast.FunctionDef | ast.AsyncFunctionDef
LITERALS = (ast.Constant, ast.List, ast.Tuple, ast.JoinedStr, ast.Dict)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function of the program: the statement it stands in, and what the parameters get there."""

    within: ast.stmt
    given: Mapping[str, ast.AST]


def defaults(function: Function) -> dict[str, ast.AST]:
    """Parameters with the values they have where a caller gives none."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    named = zip(reversed(positional), reversed(arguments.defaults), strict=False)
    found: dict[str, ast.AST] = {parameter.arg: given for parameter, given in named}
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            found[parameter.arg] = default
    return {name: given for name, given in found.items() if isinstance(given, LITERALS)}


def returns(tree: ast.Module) -> dict[str, ast.AST]:
    """What functions without parameters return in the end, under their names in a scope."""
    found: dict[str, ast.AST] = {}
    for one in tree.body:
        last = one.body[-1] if isinstance(one, ast.FunctionDef) and not one.args.args else None
        if isinstance(one, ast.FunctionDef) and isinstance(last, ast.Return) and last.value is not None:
            found[returned_by(one.name)] = last.value
    return found


def calls_of(tree: ast.Module) -> dict[str, list[Call]]:
    """Calls of the module's own functions that hand them literals, or names of the module."""
    functions = {one.name: one for one in tree.body if isinstance(one, Function) and one.args.args}
    found: dict[str, list[Call]] = {}
    for statement in tree.body if functions else []:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            function = functions.get(node.func.id)
            if function is None or function is statement:
                continue
            given = dict(_given(function, node))
            calls = found.setdefault(function.name, [])
            if given and len(calls) < MOST_CALLS:
                calls.append(Call(statement, given))
    return {name: calls for name, calls in found.items() if calls}


def _given(function: Function, call: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """Parameters and what a call hands them; a name that is a parameter too is its caller's own, and not known."""
    parameters = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
    known = {*parameters, *(parameter.arg for parameter in function.args.kwonlyargs)}
    handed = [*zip(parameters, call.args, strict=False), *((word.arg, word.value) for word in call.keywords)]
    for name, given in islice(handed, len(known)):
        own = isinstance(given, ast.Name) and given.id not in known
        if name in known and (own or isinstance(given, LITERALS)):
            yield name or "", given
