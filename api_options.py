"""Keywords of the Python API: the options of a command, read by the command line's own parsers."""

import inspect
import keyword
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import typer
from typer.exceptions import TyperException

from infopt.cli import usage_words
from infopt.cli_options import takes
from infopt.errors import InfoptError, nearest

# How a result is shown or kept is said after it is there: `to_dict`, `text`, or a file of your own.
NOT_HERE = {
    *("json", "format", "plot", "curves", "picture", "html", "vary", "compare", "rows", "save", "write_baseline"),
    *("allow_undetermined", "allow_empty"),
}
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Keyword:
    """An option of a command as a keyword argument.

    option    as it is spelled on the command line
    negative  the spelling that switches it off, of options that have one
    """

    name: str
    option: str
    negative: str | None
    is_switch: bool
    is_list: bool
    annotation: Any
    default: Any
    help: str

    def words(self, value: Any) -> Iterator[str]:
        """The value as words of a command line; None is an option that is not given."""
        if value is None:
            return
        if self.is_list and isinstance(value, list | tuple):
            for one in value:
                yield from self._word(one)
        else:
            yield from self._word(value)

    def _word(self, value: Any) -> Iterator[str]:
        if self.is_switch and isinstance(value, bool):
            if value or self.negative is not None:
                yield self.option if value else str(self.negative)
        elif isinstance(value, str | int | float | os.PathLike) and not self.is_switch and not isinstance(value, bool):
            text = str(os.fspath(value) if isinstance(value, os.PathLike) else value)
            yield from (f"{self.option}={text}",) if text.startswith("-") else (self.option, text)
        else:
            wanted = "True or False" if self.is_switch else "a text, a number or a path"
            more = ", or a list of them" if self.is_list else ""
            raise TypeError(f"{self.name}={value!r}: it takes {wanted}{more}, as {self.option} does")


@dataclass(frozen=True)
class Call:
    """A call of the API, parsed: the option records of its command, and its words on the command line."""

    records: tuple[Any, ...]
    words: tuple[str, ...]

    def line(self, command: str) -> str:
        """The command line."""
        return shlex.join(["infopt", command, *self.words])


def keywords(*families: type[Any]) -> dict[str, Keyword]:
    """The keyword arguments that stand for the options of some families."""
    declared = {name: p for family in families for name, p in inspect.signature(family).parameters.items()}
    found: dict[str, Keyword] = {}
    for option in _parser(families).params:
        spelled = option.opts[0].removeprefix("--").replace("-", "_")
        name = f"{spelled}_" if keyword.iskeyword(spelled) else spelled
        off = option.secondary_opts[0] if option.secondary_opts else None
        field = declared[option.name]
        if spelled not in NOT_HERE:
            kind = field.annotation.__origin__
            switch, several = option.is_flag, option.multiple
            found[name] = Keyword(name, option.opts[0], off, switch, several, kind, field.default, option.help)
    return found


def called(name: str, families: tuple[type[Any], ...], given: Mapping[str, Any]) -> Call:
    """The call of a function of the API with these keyword arguments.

    TypeError      for a keyword that there is not, one that is missing, or a value of a wrong type
    InfoptError    for a value that the command line refuses as well
    """
    known = keywords(*families)
    for unknown in given:
        if unknown not in known:
            close = nearest(unknown, known)
            hint = f"; nearest: {', '.join(close)}" if close else ""
            raise TypeError(f"{name}() got an unexpected keyword argument {unknown!r}{hint}")
    for missing in known.values():
        if missing.default is inspect.Parameter.empty and given.get(missing.name) is None:
            raise TypeError(f"{name}() needs {missing.name}=")
    words: list[str] = []
    for argument, value in given.items():
        words += known[argument].words(value)
    try:
        records = _parser(families).main(args=list(words), prog_name=f"infopt {name}", standalone_mode=False)
    except TyperException as error:
        raise InfoptError(usage_words(error.format_message(), ())) from error
    return Call(tuple(records), tuple(words))


def documented(*families: type[Any]) -> Callable[[Function], Function]:
    """Tell the keyword arguments of a function to `help` and to notebooks."""

    def decorate(function: Function) -> Function:
        first = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
        known = keywords(*families).values()
        named = [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=() if one.is_list else one.default)
            for one in known
        ]
        function.__signature__ = inspect.Signature([*first, *named])  # type: ignore[attr-defined]
        told = "\n".join(f"    {one.name}  {one.help}" for one in known)
        function.__doc__ = f"{function.__doc__}\n    Keyword arguments, as the options of the command line:\n\n{told}\n"
        return function

    return decorate


@cache
def _parser(families: tuple[type[Any], ...]) -> Any:
    """A command that has the options of the families and returns their records."""
    parser = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

    @parser.command(add_help_option=False)
    @takes(*families)
    def options(*records: Any) -> tuple[Any, ...]:
        return records

    return typer.main.get_command(parser)
