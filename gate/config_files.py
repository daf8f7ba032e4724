"""An engine's options in a file of its own, and how that engine merges them with its command line.

The file is a ConfigMap of the same file or tree, a here-document of the script that starts the engine, or a plain file
beside the deployment. vLLM and SGLang let the command line win, TensorRT-LLM the file.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.gate.arguments import Parsed, parse, parse_keys, settings_of, tabled
from infopt.gate.deployment import Setting, Unknown
from infopt.gate.found import Argument, Found
from infopt.gate.nodes import Node, Text, documents, get, inside, mapping, text
from infopt.gate.outside import Outside
from infopt.gate.shell import commands
from infopt.profiles.flag_tables import lookup

MOST_BYTES = 1_000_000
MOST_VALUES = 10_000
ENDINGS = frozenset({".yaml", ".yml", ".json"})
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
# As YAML 1.1 reads a plain scalar.
TRUE, FALSE = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of options.

    place  where every option of it is shown, for a file whose lines are not the deployment's; None keeps their own
    """

    document: Node
    name: str
    place: Argument | None


def parse_with_file(
    engine: str,
    version: str | None,
    found: Found,
    arguments: list[Argument],
    outside: Mapping[str, Text],
    file: str,
) -> tuple[Parsed, tuple[Unknown, ...]]:
    """A command line with the options file it names, or that the form is; and a named file that is nowhere."""
    line = parse(engine, version, arguments)
    if found.options:
        line = merged(line, parse_keys(engine, version, found.options))
    setting = line.settings.get("config_file")
    if setting is None or setting.argument is None:
        return line, ()
    try:
        config = config_file(found, setting, outside, file)
        if config is None:
            where = "a ConfigMap of these files, or the file beside them"
            return line, (Unknown("options file", f"{setting.value}: {where}"),)
        if file_wins(engine):
            return merged(line, parse_keys(engine, version, placed(config))), ()
        return parse(engine, version, [*option_arguments(engine, version, config), *arguments]), ()
    except InfoptError as error:
        return line, (Unknown("options file", str(error)),)


def config_file(found: Found, setting: Setting, outside: Mapping[str, Text], file: str) -> ConfigFile | None:
    """The options file that a command line names; None where it is nowhere to be found."""
    assert setting.argument is not None
    path = str(setting.value)
    shown = replace(setting.argument, text=path)
    if (of_map := in_maps(path, found.mounts, outside)) is not None:
        return ConfigFile(_first(inside(of_map[1], of_map[0])), of_map[0], None)
    for body in _written(found, path):
        return ConfigFile(_first(documents(body, path)), path, shown)
    if (of_map := in_maps(path, found.mounts, maps_of_tree(outside))) is not None:
        return ConfigFile(_first(documents(str(of_map[1]), of_map[0])), of_map[0], shown)
    if (beside := _beside(file, path)) is not None:
        return ConfigFile(_first(documents(beside, path)), PurePosixPath(path).name, shown)
    return None


def option_arguments(engine: str, version: str | None, config: ConfigFile) -> list[Argument]:
    """The options of a file as the words of a command line they stand for."""
    found = arguments_of(engine, version, config.document, config.name)
    if config.place is None:
        return found
    return [replace(one, line=config.place.line, column=config.place.column) for one in found]


def arguments_of(engine: str, version: str | None, document: Node, path: str) -> list[Argument]:
    """Keys of a mapping as options: true is the option alone, false its --no- form where it has one."""
    found: list[Argument] = []
    for key, value in mapping(document).items():
        if not isinstance(key, Text) or value is None:
            continue
        flag, where = f"--{key.lstrip('-')}", f"{path}: {key}"
        place = value if isinstance(value, Text) else key
        line, column = place.within(0)
        words = list(_words(engine, version, flag, value))
        found += [Argument(word, line, column, where) for word in words]
    return found


def _words(engine: str, version: str | None, flag: str, value: Node) -> Iterator[str]:
    if isinstance(value, Text):
        said = value.strip().lower() if value.plain else ""
        if said in TRUE:
            yield flag
        elif said in FALSE:
            negated = f"--no-{flag.removeprefix('--')}"
            if engine in tabled() and _has(engine, version, negated):
                yield negated
        else:
            yield f"{flag}={value}"
    elif isinstance(value, list):
        # One word, so that what follows on the command line is not taken for more of the list.
        listed = (str(one) if isinstance(one, Text) else json.dumps(plain_value(one)) for one in value)
        yield f"{flag}={' '.join(listed)}"
    else:
        yield f"{flag}={json.dumps(plain_value(value))}"


def _has(engine: str, version: str | None, flag: str) -> bool:
    """Whether a version has the --no- form of an option; without a version, whether the newest has."""
    answer = lookup(engine, version, flag)
    answers = [answer, *(other for _, other in answer.around[-1:] if version is None)]
    # An abbreviation is no option of its own.
    return any(one.flag is not None and flag.replace("_", "-") in one.flag.negations for one in answers)


def plain_value(node: Node) -> Any:
    """A node as plain data: numbers, switches and nothing as YAML reads them where they are not in quotes.

    Errors: InfoptError for more values than an option has (aliases of aliases).

    >>> from infopt.gate.nodes import at
    >>> plain_value({"a": at("1", 1, 1), "b": [at("true", 1, 1), at("1", 1, 1, "'")]})
    {'a': 1, 'b': [True, '1']}
    """
    return _plain(node, iter(range(MOST_VALUES)))


def _plain(node: Node, left: Iterator[int]) -> Any:
    if next(left, None) is None:
        raise InfoptError(f"an option of more than {MOST_VALUES:,} values")
    if isinstance(node, dict):
        return {str(key): _plain(value, left) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value, left) for value in node]
    if not isinstance(node, Text):
        return None
    lowered = node.lower()
    if not node.plain or not (NUMBER.fullmatch(node) or lowered in TRUE | FALSE):
        return str(node)
    return lowered in TRUE if lowered in TRUE | FALSE else json.loads(node)


def keys_of(document: Node, path: str) -> Iterator[tuple[str, Argument]]:
    """Every scalar of a file of options by its dotted key; of a hostile file, the first of them."""
    stack: list[tuple[str, Node]] = [("", document)]
    for _ in range(MOST_VALUES):
        if not stack:
            return
        key, node = stack.pop()
        if isinstance(node, Text):
            line, column = node.within(0)
            yield key, Argument(str(node), line, column, f"{path}: {key}")
        elif isinstance(node, dict):
            inner = [
                (f"{key}.{name}" if key else str(name), value) for name, value in islice(node.items(), MOST_VALUES)
            ]
            stack.extend(reversed(inner))


def file_wins(engine: str) -> bool:
    """Whether the engine reads its options file by keys, over its command line (TensorRT-LLM)."""
    known = settings_of(engine)
    return known is not None and bool(known.keys)


def merged(line: Parsed, file: Parsed) -> Parsed:
    """A command line with a file that wins over it."""
    return Parsed({**line.settings, **file.settings}, (*line.problems, *file.problems))


def placed(config: ConfigFile) -> Iterator[tuple[str, Argument]]:
    """The keys of a file with the places they are shown at."""
    for key, argument in keys_of(config.document, config.name):
        at = config.place
        yield key, argument if at is None else replace(argument, line=at.line, column=at.column)


def maps_of_tree(outside: Mapping[str, Text]) -> dict[str, Text]:
    """Texts of the ConfigMaps of the files that are checked together."""
    found: dict[str, Text] = {}
    for node in outside.objects("ConfigMap") if isinstance(outside, Outside) else ():
        name = text(get(node, "metadata.name"))
        found |= {
            f"{name}/{key}": value for key, value in mapping(get(node, "data")).items() if isinstance(value, Text)
        }
    return found


def _first(nodes: Iterator[Node] | list[Node]) -> Node:
    return next(iter(nodes), None)


def in_maps(path: str, mounts: tuple[tuple[str, str], ...], outside: Mapping[str, Text]) -> tuple[str, Text] | None:
    """The ConfigMap's text that lies at a path of the container; without a mount, the only one of that name."""
    for mounted, source in mounts:
        rest = path.removeprefix(f"{mounted.rstrip('/')}/")
        key = source if path == mounted and not source.endswith("/") else f"{source}{rest}"
        if (path == mounted or rest != path) and key in outside:
            return f"ConfigMap {key}", outside[key]
    name = PurePosixPath(path).name
    named = [key for key in outside if key.rpartition("/")[2] == name]
    return (f"ConfigMap {named[0]}", outside[named[0]]) if len(named) == 1 else None


def _written(found: Found, path: str) -> Iterator[str]:
    """What a script writes to the path by a here-document before it starts the engine."""
    yield from (text for name, text in reversed(found.written) if name == path)
    for argument in found.arguments:
        if "<<" in argument.text:
            yield from (one.body for one in commands(argument.text) if one.body and one.target == path)


def _beside(file: str, path: str) -> str | None:
    """The text of a plain file of that name in the deployment's own folder, or at that place under it."""
    if file == "-" or "$" in path or Path(path).suffix.lower() not in ENDINGS:
        return None
    folder = Path(file).parent
    inner = PurePosixPath(path)
    for place in (
        (folder / inner, folder / inner.name)
        if not inner.is_absolute() and ".." not in inner.parts
        else (folder / inner.name,)
    ):
        try:
            # A link could lead anywhere; the deployment itself names no options.
            if place == Path(file) or place.is_symlink() or not place.is_file() or place.stat().st_size > MOST_BYTES:
                continue
            content = place.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        if text(get(_parsed(content), "apiVersion")) is None:
            return content
    return None


def _parsed(content: str) -> Node:
    try:
        return _first(documents(content, ""))
    except InfoptError:
        return None
