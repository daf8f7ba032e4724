"""Which engine a container serves with, its version, and its command line, read off image and words."""

import re
from bisect import bisect_left
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import dropwhile, islice
from pathlib import Path

from pydantic import Field

from infopt.frozen import dataclass
from infopt.gate.branches import Branches
from infopt.gate.environment import expanded, unresolved
from infopt.gate.found import Argument, Found
from infopt.gate.shell import Command, commands, split
from infopt.gate.wrappers import bundled_version, engines_words
from infopt.records import Record, read_yaml, validate_record

DATA = Path(__file__).resolve().parent / "data"
SHELLS = re.compile(r"(.*/)?(ba|da|z|k)?sh")
# Programs that start another one; their own options may stand between.
LAUNCHERS = frozenset(
    {"exec", "nohup", "sudo", "numactl", "tini", "dumb-init", "--", "env", "stdbuf", "nice", "ionice",
     "taskset", "setsid", "timeout", "ray", "uv", "uvx", "run", "poetry", "pipx", "conda", "micromamba",
     "mamba", "srun", "mpirun", "mpiexec", "trtllm-llmapi-launch", "singularity", "apptainer", "nsys", "ncu",
     "accelerate"}
)  # fmt: skip
# Of those, the ones that start the very next word: `sudo systemctl restart llama-server` starts no server.
PLAIN_LAUNCHERS = frozenset(
    {"exec", "nohup", "sudo", "numactl", "tini", "dumb-init", "--", "env", "stdbuf", "nice", "ionice", "taskset",
     "setsid", "timeout"}
)  # fmt: skip
# A launcher's own options are fewer.
MOST_LAUNCHER_WORDS = 40
# A script of a script of a script is nobody's deployment.
MOST_SHELLS = 3
MOST_VALUE_CHARACTERS = 8_000
MOST_EXPANDED_CHARACTERS = 500_000
MOST_COMMANDS = 20_000
MOST_SCRIPT_CHARACTERS = 1_000_000
MOST_PROGRAM_WORDS = 6
MODEL = re.compile(r"--model([-_](path|id))?(=|$)")
# Variables that only Ollama's server reads.
OLLAMA = frozenset({"OLLAMA_MODELS", "OLLAMA_KEEP_ALIVE", "OLLAMA_NUM_PARALLEL", "OLLAMA_MAX_LOADED_MODELS"})
CPU = re.compile(r"(?<![a-z])cpu(?![a-z])")
PARALLEL = re.compile(r"--?(tp|pp|world[-_]size|(tp|pp)[-_]size|(tensor|pipeline)[-_]parallel[-_]size)\b")


class Image(Record):
    """A pattern of image repositories; see data/engines.yaml."""

    pattern: str
    entry: bool
    versions: str
    bundle: str = ""


class Engine(Record):
    """How an engine is recognised."""

    programs: list[str]
    images: list[Image]
    own: list[Image] = Field([])
    hints: list[str] = Field([])
    signs: list[str] = Field([])
    source: str


@dataclass(frozen=True, slots=True)
class Call:
    """The engine's command line.

    arguments  what follows the program, variables in place
    program    the words that start it, "" where the image does
    assumed    why the engine is taken to be this one, "" where its program says so
    """

    engine: str
    program: str
    arguments: tuple[Argument, ...]
    assumed: str = ""


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
    return _first_match(image, ((name, known) for name, engine in engines().items() for known in engine.images))


def engine_of_own_image(image: str) -> tuple[str, Image] | None:
    """The engine that an image of somebody's own is called after."""
    return _first_match(image, ((name, known) for name, engine in engines().items() for known in engine.own))


def _first_match(image: str, known: Iterable[tuple[str, Image]]) -> tuple[str, Image] | None:
    repository = split_image(image)[0]
    return next((one for one in known if re.fullmatch(one[1].pattern, repository)), None)


def version_of_image(image: str) -> str | None:
    """The engine's version by the tag, or by a repository that has it in its name; None where neither says."""
    known = engine_of_image(image) or engine_of_own_image(image)
    repository, tag = split_image(image)
    named = re.fullmatch(known[1].pattern, repository) if known is not None else None
    if named is not None and "version" in named.groupdict():
        return named["version"].replace("-", ".")
    if known is not None and known[1].bundle:
        return bundled_version(known[1].bundle, known[0], tag)
    if known is None or not known[1].versions:
        return None
    match = re.fullmatch(known[1].versions, tag)
    return match[1] if match else None


def call(found: Found) -> Call | None:
    """The engine's command line of a container; None where it serves with none that is known."""
    variables = {name: str(value) for name, value in found.environment.items()}
    own = started(found.arguments, variables)
    if own is not None:
        return own
    if _script(found.arguments) is not None and not found.engine:
        return _hinted(found.arguments, variables)
    named = found.engine or ""
    image = engine_of_image(found.image) if found.image is not None else None
    if image is not None and (image[1].entry or not found.arguments):
        named = named or image[0]
    if not named and (served := _of_own_image(found, variables) or _by_options(found, variables)) is not None:
        return served
    if not named or (found.arguments and not _only_options(found.arguments) and not found.engine):
        return _hinted(found.arguments, variables)
    return Call(named, "", tuple(_in_place(argument, variables) for argument in _own(found.arguments)))


def _of_own_image(found: Found, variables: Mapping[str, str]) -> Call | None:
    """The call of an image that is called after an engine, where its arguments name a model and it has devices."""
    image = engine_of_own_image(found.image) if found.image is not None else None
    if image is not None and not found.arguments and OLLAMA & set(found.environment) and image[0] == "ollama":
        return Call(image[0], "", (), f"{found.image} is taken for {image[0]}, by its name and its variables")
    names = any(MODEL.match(argument.text) for argument in found.arguments)
    devices = found.hardware.count is not None or found.hardware.resource or CPU.search(found.image or "")
    if image is None or not names or not devices or not found.arguments[0].text.startswith("-"):
        return None
    words = tuple(_in_place(argument, variables) for argument in found.arguments)
    return Call(image[0], "", words, f"{found.image} is taken for {image[0]}, by its name and its options")


def _by_options(found: Found, variables: Mapping[str, str]) -> Call | None:
    """The call of an image that says nothing (a variable, a name of somebody's own) by options of one engine alone."""
    if found.image is None or not found.arguments or not found.arguments[0].text.startswith("-"):
        return None
    given = {argument.text.partition("=")[0].replace("_", "-") for argument in found.arguments}
    for name, engine in engines().items():
        if engine.signs and given.issuperset(engine.signs) and engine_of_image(found.image) is None:
            words = tuple(_in_place(argument, variables) for argument in found.arguments)
            return Call(name, "", words, f"{found.image} is taken for {name}, by {' and '.join(engine.signs)}")
    return None


@cache
def _hints() -> re.Pattern[str]:
    """Any hint of any engine, anywhere in a text."""
    return re.compile("|".join(hint.lstrip("^") for engine in engines().values() for hint in engine.hints))


def _own(arguments: Sequence[Argument]) -> Sequence[Argument]:
    """What an image's own program is given: all words, or those after the `--` of another program."""
    ends = [position for position, argument in enumerate(arguments) if argument.text == "--"]
    return arguments[ends[0] + 1 :] if ends else arguments


def _only_options(arguments: Sequence[Argument]) -> bool:
    """Whether words could be arguments of an image's own program: the first is an option, or `serve`."""
    return arguments[0].text.startswith("-") or arguments[0].text in ("serve",) or "/" in arguments[0].text


def _hinted(arguments: Sequence[Argument], variables: Mapping[str, str]) -> Call | None:
    """A server of somebody's own that splits a model over devices and names an engine's parts in its options."""
    if not any(_hints().search(argument.text) for argument in arguments):
        return None
    script = _script(arguments)
    lines = [line.words for line in lines_of(script, variables)] if script is not None else [tuple(arguments)]
    for words in lines:
        options = tuple(dropwhile(lambda word: not word.text.startswith("-"), words))
        if not any(PARALLEL.match(word.text) for word in options):
            continue
        for name, engine in engines().items():
            hint = next((word for word in options for hint in engine.hints if re.search(hint, word.text)), None)
            if hint is not None:
                program = " ".join(word.text for word in words[: len(words) - len(options)])
                said = f"{program} is taken for a server of {name}, by {hint.text.partition('=')[0]}"
                return Call(name, program, options, said)
    return None


def started(arguments: Sequence[Argument], variables: Mapping[str, str], shells: int = MOST_SHELLS) -> Call | None:
    """The engine that a command line starts, directly or in a shell script."""
    if not arguments:
        return None
    script = _script(arguments)
    if script is None and len(arguments) == 1 and " " in arguments[0].text.strip():
        script = arguments[0]
    if script is not None:
        return next(calls_in(script, variables, shells - 1), None) if shells else None
    return _matched([_in_place(argument, variables) for argument in arguments])


def _script(arguments: Sequence[Argument]) -> Argument | None:
    """The script of `sh -c SCRIPT`."""
    if not arguments or not SHELLS.fullmatch(arguments[0].text.strip()):
        return None
    for position, argument in enumerate(arguments[1:], start=1):
        if not argument.text.startswith("-"):
            # A script file's name tells nothing; everything else is the script.
            return argument if any("c" in a.text for a in arguments[1:position]) else None
    return None


def calls_in(script: Argument, variables: Mapping[str, str], shells: int = MOST_SHELLS) -> Iterator[Call]:
    """Every engine that a shell script starts."""
    for line in lines_of(script, variables):
        call = started(line.words, {}, shells)
        if call is not None:
            yield call


@dataclass(frozen=True, slots=True)
class Line:
    """A command of a script, variables in place.

    exported  what programs of the script find in their environment here; `known` every variable so far
    """

    words: tuple[Argument, ...]
    command: Command
    known: Mapping[str, str]
    exported: Mapping[str, str]


class _Expansion:
    """Variables put in place, with a bound on the text of a whole script."""

    def __init__(self) -> None:
        self.room = MOST_EXPANDED_CHARACTERS

    def of(self, text: str, known: Mapping[str, str]) -> str:
        """The text with what is known in place; as it is once the room is used up."""
        if "$" not in text or self.room <= 0:
            return text
        made = expanded(text, known)
        self.room -= len(text) + len(made)
        return made

    def assigned(self, name: str, value: str, known: Mapping[str, str]) -> str:
        """The value of an assignment; what it adds to itself before it has a value is added to nothing."""
        text = self.of(value, known)[:MOST_VALUE_CHARACTERS]
        if "$" in text and name in unresolved(text) and text not in (f"${name}", f"${{{name}}}"):
            text = re.sub(rf"\$\{{{name}(\[@\])?\}}|\${name}\b", "", text)
        return text


def lines_of(script: Argument, variables: Mapping[str, str]) -> Iterator[Line]:
    """The commands of a script in order; what is known of variables is that up to the line, and changes after it."""
    if len(script.text) > MOST_SCRIPT_CHARACTERS:
        return
    known, exported = dict(variables), dict(variables)
    places = [match.start() for match in re.finditer("\n", script.text)]
    expansion, branches = _Expansion(), Branches()
    for command in islice(commands(script.text), MOST_COMMANDS):
        assigned: dict[str, str] = {}
        around = ChainMap(assigned, known) if command.assigned else known
        for name, value in command.assigned.items():
            assigned[name] = expansion.assigned(name, value, around)
        words = tuple(_words(script, command, around, places, expansion))
        if not branches.run(command, [word.text for word in words]):
            continue
        if words:
            yield Line(words, command, known, {**exported, **assigned} if assigned else exported)
        if command.exported:
            exported |= assigned
        if not command.words:
            known |= assigned
            exported |= {name: value for name, value in assigned.items() if name in exported}


def _words(
    script: Argument, command: Command, known: Mapping[str, str], places: Sequence[int], expansion: _Expansion
) -> Iterator[Argument]:
    """The words of a command with their places; a variable of several words is several, unless it is in quotes."""
    for word in command.words:
        text = word.text if word.raw else expansion.of(word.text, known)
        line, column = _place(script, word.offset, places)
        several = word.text.startswith("$") and (not word.quoted or word.text.endswith(("[@]}", "[*]}")))
        if several and text != word.text:
            for piece in split(text):
                yield Argument(piece.text, line, column, script.path)
        else:
            yield Argument(text, line, column, script.path)


def _place(script: Argument, offset: int, places: Sequence[int]) -> tuple[int, int]:
    """Line and column of a character; `places` are the offsets of the script's newlines."""
    above = bisect_left(places, offset)
    return script.line + above, script.column + offset - (places[above - 1] + 1 if above else 0)


def _matched(words: list[Argument]) -> Call | None:
    """The call of words that start with an engine's program, launchers and their options before it left out."""
    line = [_bare(word.text) for word in words]
    for start in _starts(line):
        found = _program(line[start : start + MOST_PROGRAM_WORDS])
        if found is not None:
            engine, taken = found
            program = " ".join(word.text for word in words[start : start + taken])
            return Call(engine, program, engines_words(program, engine, words[start + taken :]))
    return None


@cache
def _programs() -> tuple[tuple[str, re.Pattern[str], tuple[int, ...]], ...]:
    """Engine, pattern and numbers of words of every program."""
    found = []
    for name, engine in engines().items():
        for program in engine.programs:
            count = program.count(" ") + 1
            found.append((name, re.compile(program), tuple({count, count - program.count("( -u)?")})))
    return tuple(found)


def _program(line: Sequence[str]) -> tuple[str, int] | None:
    """The engine whose program the words start with, and how many words that takes."""
    for name, pattern, counts in _programs():
        for taken in counts:
            if taken <= len(line) and pattern.fullmatch(" ".join(line[:taken])):
                return name, taken
    return None


def _starts(line: Sequence[str]) -> Iterator[int]:
    """Where a program may start: first, and behind launchers, their options and the values of those."""
    if line:
        yield 0
    wide = False
    for position, word in enumerate(line[:MOST_LAUNCHER_WORDS]):
        wide = wide or word in LAUNCHERS - PLAIN_LAUNCHERS or (position == 0 and word.endswith(".sh"))
        optional = word.startswith("-") or (position > 0 and line[position - 1].startswith("-"))
        if not (wide or optional or word in LAUNCHERS or "=" in word or word[:1].isdigit()):
            return
        if position == 0 and optional and word != "--":
            return
        yield position + 1


def _bare(word: str) -> str:
    """A program without the folder it lies in, and without the ending of another system."""
    return word.rpartition("/")[2].removesuffix(".exe") if word.startswith(("/", "./", "../", "~", "$")) else word


def _in_place(argument: Argument, variables: Mapping[str, str]) -> Argument:
    return replace(argument, text=expanded(argument.text, variables))
