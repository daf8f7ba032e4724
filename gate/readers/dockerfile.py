"""Dockerfiles whose image starts an engine: ENTRYPOINT and CMD on the image of the last stage."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from infopt.frozen import dataclass
from infopt.gate.arguments import of_variables
from infopt.gate.engines import call
from infopt.gate.environment import expanded
from infopt.gate.found import Argument, Found
from infopt.gate.nodes import Text, at
from infopt.gate.readers.scripts import MENTIONS, pinned
from infopt.gate.shell import ASSIGNMENT, split

FORM = "Dockerfile"
_INSTRUCTION = re.compile(r"^[ \t]*(FROM|ENV|ARG|ENTRYPOINT|CMD)[ \t]+((?:.*\\\n)*.*)$", re.MULTILINE | re.IGNORECASE)


def recognises(path: str, content: str) -> bool:
    """FROM, and a command that could be an engine's."""
    return bool(MENTIONS.search(content)) and _named(path, content)


def _named(path: str, content: str) -> bool:
    lowered = Path(path).name.lower()
    if lowered.startswith(("dockerfile", "containerfile")) or lowered.endswith(".dockerfile"):
        return True
    first = next((line for line in content.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    return first.upper().startswith(("FROM ", "ARG ")) and bool(re.search(r"^(CMD|ENTRYPOINT)\b", content, re.M | re.I))


def read(path: str, content: str) -> Iterator[Found]:
    """What a container of the image starts, where that is an engine."""
    image = built(content)
    name = Path(path).name if path != "-" else FORM
    arguments = (*image.entrypoint, *image.command)
    first = arguments[0].line if arguments else 1
    found = Found(name, FORM, first, image=image.base, arguments=arguments, environment=image.environment)
    own = call(found)
    if own is not None and (arguments or any(of_variables(own.engine, image.environment))):
        yield replace(found, version=pinned(content, own.engine))


@dataclass(frozen=True, slots=True)
class Built:
    """What the last stage of a Dockerfile starts, on which image."""

    base: Text | None
    environment: Mapping[str, Text]
    entrypoint: tuple[Argument, ...]
    command: tuple[Argument, ...]

    def at_place(self, line: int, column: int) -> "Built":
        """The same where another file names the Dockerfile: findings are about that file."""
        return Built(
            at(self.base, line, column) if self.base is not None else None,
            {name: at(value, line, column) for name, value in self.environment.items()},
            tuple(replace(word, line=line, column=column) for word in self.entrypoint),
            tuple(replace(word, line=line, column=column) for word in self.command),
        )


def built(content: str) -> Built:
    """The image that a Dockerfile makes."""
    image: Text | None = None
    known: dict[str, Text] = {}
    started: dict[str, tuple[Argument, ...]] = {}
    for match in _INSTRUCTION.finditer(content):
        instruction, rest = match[1].upper(), match[2]
        line = content.count("\n", 0, match.start(2)) + 1
        column = match.start(2) - content.rfind("\n", 0, match.start(2))
        if instruction == "FROM":
            words = [word for word in rest.split() if not word.startswith("--")]
            values = {name: str(value) for name, value in known.items()}
            image = at(expanded(words[0], values), line, column) if words else None
            started = {}
        elif instruction in ("ENV", "ARG"):
            known |= _variables(rest, line)
        else:
            started[instruction] = tuple(_command(rest, Argument(rest, line, column, instruction)))
    return Built(image, known, started.get("ENTRYPOINT", ()), started.get("CMD", ()))


def _variables(rest: str, line: int) -> dict[str, Text]:
    """`NAME=value ...` and the old `NAME value`."""
    words = split(rest)
    found = {}
    for word in words:
        if match := ASSIGNMENT.fullmatch(word.text):
            found[match[1]] = at(match[3], line, 1)
    if not found and len(words) == 2:
        found[words[0].text] = at(words[1].text, line, 1)
    return found


def _command(rest: str, place: Argument) -> Iterator[Argument]:
    """The list form as it is; the other is a shell's."""
    if rest.lstrip().startswith("["):
        try:
            words = json.loads(rest.replace("\\\n", " "))
        except (ValueError, RecursionError):
            return
        if isinstance(words, list):
            yield from (Argument(str(word), place.line, place.column, place.path) for word in words)
        return
    for word in ("/bin/sh", "-c", rest):
        yield Argument(word, place.line, place.column, place.path)
