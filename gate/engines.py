"""Which engine a container serves with, its version, and its command line, read off image and words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from infopt.frozen import dataclass
from infopt.gate.environment import expanded
from infopt.gate.found import Argument, Found
from infopt.gate.shell import Command, commands, split
from infopt.records import Record, read_yaml, validate_record

DATA = Path(__file__).resolve().parent / "data"
SHELLS = re.compile(r"(.*/)?(ba|da|z|k)?sh")
LAUNCHERS = frozenset({"exec", "nohup", "sudo", "numactl", "tini", "--", "env", "stdbuf", "nice", "ray", "uv", "run"})
# A script of a script of a script is nobody's deployment.
MOST_SHELLS = 3


class Image(Record):
    """A pattern of image repositories; see data/engines.yaml."""

    pattern: str
    entry: bool
    versions: str


class Engine(Record):
    """How an engine is recognised."""

    programs: list[str]
    images: list[Image]
    source: str


@dataclass(frozen=True, slots=True)
class Call:
    """The engine's command line.

    arguments  what follows the program, variables in place
    program    the words that start it, "" where the image does
    """

    engine: str
    program: str
    arguments: tuple[Argument, ...]


@cache
def engines() -> dict[str, Engine]:
    """Recognition data of every engine."""
    data: dict[str, object] = read_yaml(DATA / "engines.yaml")
    return {name: validate_record(Engine, record, f"{name} in engines.yaml") for name, record in data.items()}


def split_image(image: str) -> tuple[str, str]:
    """Repository and tag; a digest is no tag.

    >>> split_image("localhost:5000/vllm/vllm-openai:v0.8.5@sha256:1")
    ('localhost:5000/vllm/vllm-openai', 'v0.8.5')
    """
    name = image.strip().partition("@")[0]
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "")


def engine_of_image(image: str) -> tuple[str, Image] | None:
    """The engine an image holds."""
    repository = split_image(image)[0]
    for name, engine in engines().items():
        for known in engine.images:
            if re.fullmatch(known.pattern, repository):
                return name, known
    return None


def version_of_image(image: str) -> str | None:
    """The engine's version by the tag, None where the tag does not say."""
    known = engine_of_image(image)
    tag = split_image(image)[1]
    if known is None or not known[1].versions:
        return None
    match = re.fullmatch(known[1].versions, tag)
    return match[1] if match else None


def call(found: Found) -> Call | None:
    """The engine's command line of a container; None where it serves with none that is known."""
    variables = {name: str(value) for name, value in found.environment.items()}
    started = _started(found.arguments, variables, MOST_SHELLS)
    if started is not None:
        return started
    named = found.engine or ""
    image = engine_of_image(found.image) if found.image is not None else None
    if image is not None and (image[1].entry or not found.arguments):
        named = named or image[0]
    if not named or (found.arguments and not _only_options(found.arguments) and not found.engine):
        return None
    return Call(named, "", tuple(_in_place(argument, variables) for argument in found.arguments))


def _only_options(arguments: Sequence[Argument]) -> bool:
    """Whether words could be arguments of an image's own program: the first is an option, or `serve`."""
    return arguments[0].text.startswith("-") or arguments[0].text in ("serve",) or "/" in arguments[0].text


def _started(arguments: Sequence[Argument], variables: Mapping[str, str], shells: int) -> Call | None:
    """The engine that a command line starts, directly or in a shell script."""
    if not arguments:
        return None
    script = _script(arguments)
    if script is not None:
        return _of_script(script, variables, shells - 1) if shells else None
    if len(arguments) == 1 and " " in arguments[0].text.strip():
        return _of_script(arguments[0], variables, shells - 1) if shells else None
    words = [_in_place(argument, variables) for argument in arguments]
    return _matched(words)


def _script(arguments: Sequence[Argument]) -> Argument | None:
    """The script of `sh -c SCRIPT`."""
    if not SHELLS.fullmatch(arguments[0].text.strip()):
        return None
    for position, argument in enumerate(arguments[1:], start=1):
        if not argument.text.startswith("-"):
            # A script file's name tells nothing; everything else is the script.
            return argument if any("c" in a.text for a in arguments[1:position]) else None
    return None


def _of_script(script: Argument, variables: Mapping[str, str], shells: int) -> Call | None:
    known = dict(variables)
    for command in commands(script.text):
        known |= {name: expanded(value, known) for name, value in command.assigned.items()}
        started = _started(tuple(_words(script, command, known)), {}, shells)
        if started is not None:
            return started
    return None


def _words(script: Argument, command: Command, known: Mapping[str, str]) -> Iterator[Argument]:
    """The words of a command with their places; an unquoted variable of several words is several words."""
    for word in command.words:
        line, column = _place(script, word.offset)
        text = word.text if word.raw else expanded(word.text, known)
        several = not word.raw and word.text.startswith("$") and " " in text.strip()
        for piece in [w.text for w in split(text)] if several else [text]:
            yield Argument(piece, line, column, script.path)


def _place(script: Argument, offset: int) -> tuple[int, int]:
    before = script.text[:offset]
    newlines = before.count("\n")
    return script.line + newlines, script.column if newlines else script.column + offset


def _matched(words: list[Argument]) -> Call | None:
    """The call of words that start with an engine's program, launchers before it left out."""
    start = 0
    while start < len(words) and words[start].text in LAUNCHERS:
        start += 1
    line = [word.text for word in words[start:]]
    for name, engine in engines().items():
        for program in engine.programs:
            count = program.count(" ") + 1
            for taken in {count, count - program.count("( -u)?") * 1}:
                if 0 < taken <= len(line) and re.fullmatch(program, " ".join(_bare(w) for w in line[:taken])):
                    return Call(name, " ".join(line[:taken]), tuple(words[start + taken :]))
    return None


def _bare(word: str) -> str:
    """A program without the folder it lies in."""
    return word.rpartition("/")[2] if word.startswith(("/", "./")) else word


def _in_place(argument: Argument, variables: Mapping[str, str]) -> Argument:
    return replace(argument, text=expanded(argument.text, variables))
