"""Writes `__init__.pyi`: the Python API with its keyword arguments written out, for type checkers and editors.

python tools/api_stub.py
"""

import inspect
import json
import types
import typing
from collections.abc import Iterator
from pathlib import Path

from infopt import api
from infopt.api_options import Keyword, keywords

STUB = Path(__file__).resolve().parent.parent / "__init__.pyi"
HEAD = '''"""infopt: will it fit, how fast can it be, and which optimization pays. Made by tools/api_stub.py."""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypeAlias

from infopt.answer import Answer as Answer
from infopt.errors import InfoptError as InfoptError

__version__: str

_Text: TypeAlias = str | PathLike[str]
_Texts: TypeAlias = str | list[str] | tuple[str, ...]
'''
FUNCTIONS = {
    "plan": ("", api.PLAN),
    "boundary": ("technique: str | None = None", api.BOUNDARY),
    "search": ("", api.SEARCH),
    "simulate": ("", api.SIMULATE),
    "gate_files": ("files: _Text | Sequence[_Text]", api.GATE),
    "gate_text": ("text: str", api.GATE),
}


def stub() -> str:
    """The file as text."""
    return "\n".join([HEAD, *(line for name in FUNCTIONS for line in function(name))])


def function(name: str) -> Iterator[str]:
    """One function with its keyword arguments, in the order of the command line."""
    first, families = FUNCTIONS[name]
    yield f"def {name}("
    if first:
        yield f"    {first},"
    yield "    *,"
    yield from (f"    {argument(one)}," for one in keywords(*families).values())
    yield ") -> Answer:"
    yield f'    """{inspect.cleandoc(getattr(api, name).__doc__).splitlines()[0]}"""'
    yield ""


def argument(one: Keyword) -> str:
    """`ctx: int | str | None = None`."""
    kind = accepted(one.annotation)
    if one.default is inspect.Parameter.empty:
        return f"{one.name}: {kind}"
    default = "()" if one.is_list else json.dumps(one.default) if isinstance(one.default, str) else repr(one.default)
    return f"{one.name}: {kind} = {default}"


def accepted(annotation: object) -> str:
    """What a keyword takes, of what its option is parsed to.

    >>> accepted(int | None), accepted(bool), accepted(list[str])
    ('int | str | None', 'bool', '_Texts')
    """
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return " | ".join(dict.fromkeys(accepted(one) for one in typing.get_args(annotation)))
    if typing.get_origin(annotation) is typing.Literal:
        return f"Literal[{', '.join(map(json.dumps, typing.get_args(annotation)))}]"
    if annotation is type(None):
        return "None"
    return {int: "int | str", float: "float | str", bool: "bool", list[str]: "_Texts"}.get(annotation, "_Text")  # type: ignore[call-overload, no-any-return]


def main() -> None:
    STUB.write_text(stub(), encoding="utf-8")


if __name__ == "__main__":
    main()
