"""`infopt completion SHELL`, and what the shell's script asks for: the words that can stand where the cursor is.

The script runs `infopt` with the line up to the cursor in _INFOPT_COMPLETE. Printed are words, each with a tab and what
it means, or `:files`. Nothing is printed where nothing can be said.
"""

import shlex
import sys
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from infopt.cli import ALWAYS_GOOD, MODULES, app, emit, narrowed

FILES = ":files"
# `h100:8`: how many devices are proposed.
COUNTS = (1, 2, 4, 8)
LISTS = ("--hw", "--with")


@app.command(epilog=ALWAYS_GOOD)
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """The script that makes a shell complete commands, options, and names of models, hardware and techniques.

    \b
    source <(infopt completion bash)
    infopt completion fish | source
    """
    from infopt.reports.completion import script

    emit(script(shell))


def complete(line: str) -> None:
    """Print what can stand at the end of a line."""
    found = list(proposed(line))
    sys.stdout.write("".join(f"{word}\t{help}\n" if help else f"{word}\n" for word, help in found))


def proposed(line: str) -> Iterator[tuple[str, str]]:
    """Words that the last word of a line may become, with their help."""
    _, *given, current = words_of(line)
    if not given:
        yield from _beginning(current, ((name, "") for name in _command_names()))
        return
    command, rest = _command(given)
    if command is None:
        return
    if (group := getattr(command, "commands", None)) is not None:
        yield from _beginning(current, ((name, "") for name in group))
        return
    waiting, position = _read(command, rest)
    name, equals, value = current.partition("=")
    if waiting is not None:
        yield from _of_parameter(command, waiting, current)
    elif equals and (option := _option(command, name)) is not None:
        found = _of_parameter(command, option, value)
        yield from ((word if word == FILES else f"{name}={word}", help) for word, help in found)
    elif current.startswith("-"):
        yield from _beginning(current, _options(command))
    else:
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        if arguments and (position < len(arguments) or arguments[-1].nargs == -1):
            yield from _of_parameter(command, arguments[min(position, len(arguments) - 1)], current)


def words_of(line: str) -> list[str]:
    """The words of a line as a shell has them; the last is the one that is typed, empty after a space.

    >>> words_of("infopt plan --hw '2x rtx")
    ['infopt', 'plan', '--hw', '2x rtx']
    """
    for closed in ("", "'", '"'):
        try:
            words = shlex.split(line + closed)
        except ValueError:  # a quotation is still open
            continue
        if not words:
            break
        ended = not closed and line[-1].isspace()
        return [*words, ""] if ended or len(words) == 1 else words
    return ["infopt", ""]


def _command_names() -> list[str]:
    """All commands, without importing the module of each."""
    own = [one.callback.__name__ for one in app.registered_commands if one.callback is not None]
    return sorted({*own, *(group.name for group in app.registered_groups if group.name), *MODULES})


def _command(given: Sequence[str]) -> tuple[Any, list[str]]:
    """The command that words name, and the words after its name; a group where its command is still to come."""
    if given[0] not in _command_names():
        return None, []
    found: Any = typer.main.get_command(narrowed(given[0]))
    rest = list(given)
    while rest and (group := getattr(found, "commands", None)) is not None:
        found = group.get(rest.pop(0))
    return found, rest


def _read(command: Any, words: Iterable[str]) -> tuple[Any, int]:
    """The option whose value is to come, and how many arguments have been given."""
    waiting, left, position = None, 0, 0
    for word in words:
        if left:
            left -= 1
            continue
        name, equals, _ = word.partition("=")
        waiting = _option(command, name)
        if waiting is not None:
            left = 0 if equals or waiting.is_flag else waiting.nargs
        elif not word.startswith("-"):
            position += 1
    return (waiting if left else None), position


def _option(command: Any, name: str) -> Any:
    options = (one for one in command.params if one.param_type_name == "option")
    return next((one for one in options if name in (*one.opts, *one.secondary_opts)), None)


def _options(command: Any) -> Iterator[tuple[str, str]]:
    for one in command.params:
        if one.param_type_name == "option" and not one.hidden:
            yield from ((name, one.help or "") for name in (*one.opts, *one.secondary_opts) if name.startswith("--"))


def _of_parameter(command: Any, parameter: Any, current: str) -> Iterator[tuple[str, str]]:
    """Values of an option or argument that begin as what is typed; of a list, its last part."""
    label = parameter.opts[0] if parameter.param_type_name == "option" else f"{command.name} {parameter.metavar}"
    done, comma, last = current.rpartition(",") if label in LISTS else ("", "", current)
    found = list(_beginning(last, ((word, "") for word in _values(label, parameter, last))))
    if found:
        yield from ((f"{done}{comma}{word}", help) for word, help in found)
    elif _takes_files(parameter):
        yield FILES, ""


def _values(label: str, parameter: Any, typed: str) -> Iterable[str]:
    choices = typing.get_args(parameter.type_descriptor.annotation)
    if typing.get_origin(parameter.type_descriptor.annotation) is Literal:
        return [str(one) for one in choices]
    if label in NAMES:
        return NAMES[label](typed)
    return ()


def _takes_files(parameter: Any) -> bool:
    """Whether a file can stand here: the option's own words say so."""
    marks = ("FILE", "DIR", "PATH", "MODEL")
    return any(mark in (parameter.metavar or "") for mark in marks) or parameter.type_descriptor.annotation is Path


def _beginning(current: str, words: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The words that begin as what is typed, whatever the case."""
    return ((word, help) for word, help in words if word.lower().startswith(current.lower()))


def _models(typed: str) -> list[str]:
    from infopt.profiles.catalogue import aliases, catalogue_names

    found = sorted(catalogue_names())
    bare = Counter(name.rpartition("/")[2] for name in found)
    return [*sorted(aliases()), *found, *(name for name, times in bare.items() if times == 1)]


def _hardware(typed: str) -> list[str]:
    from infopt.hardware.names import known_names

    name, colon, _ = typed.partition(":")
    return [f"{name}:{count}" for count in COUNTS] if colon else known_names()


def _engines(typed: str) -> list[str]:
    from infopt.profiles.engines import engine_names

    return [*engine_names()]


def _weight_formats(typed: str) -> list[str]:
    from infopt.profiles.formats import format_spellings

    return format_spellings("weights")


def _kv_formats(typed: str) -> list[str]:
    from infopt.profiles.formats import format_spellings

    return format_spellings("kv")


def _techniques(typed: str) -> list[str]:
    from infopt.boundaries.registry import techniques

    return [one.id for one in techniques()]


def _rules(typed: str) -> list[str]:
    from infopt.gate.rules.registry import by_id

    return sorted(by_id())


def _schemas(typed: str) -> list[str]:
    from infopt.reports.schemas import schema_names

    return schema_names()


def _workloads(typed: str) -> list[str]:
    from infopt.arrivals.profiles import profile_names

    return [*profile_names()]


# What an option's value, or a command's argument, may be by name.
NAMES: dict[str, Callable[[str], list[str]]] = {
    "--model": _models,
    "--draft": _models,
    "show MODEL": _models,
    "--hw": _hardware,
    "--gpu": _hardware,
    "show HARDWARE": _hardware,
    "--engine": _engines,
    "--weights": _weight_formats,
    "--to-weights": _weight_formats,
    "--kv": _kv_formats,
    "--to-kv": _kv_formats,
    "--with": _techniques,
    "boundary TECHNIQUE": _techniques,
    "rules ID": _rules,
    "schema NAME": _schemas,
    "--workload": _workloads,
}
