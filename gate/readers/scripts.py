"""Servers that a shell text starts: engines by their programs, containers by `docker run`; read, never run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from infopt.gate.engines import MOST_PROGRAM_WORDS, SHELLS, Line, call, lines_of, started
from infopt.gate.environment import expanded
from infopt.gate.found import Argument, Found, Hardware
from infopt.gate.nodes import Text, at
from infopt.gate.readers.accelerators import visible
from infopt.gate.readers.docker_run import docker_run
from infopt.gate.shell import quoted

# What any text that starts an engine holds: a quick look before a file is read closely.
MENTIONS = re.compile(
    r"vllm|sglang|llama-server|llama\.cpp|trtllm-serve|tensorrt|text-generation|tgi-|ollama|nvcr\.io/nim", re.I
)
MOST_CHARACTERS = 1_000_000
MOST_SERVERS = 100
MOST_FILES = 20
# Scripts in here-documents of scripts.
MOST_DEPTH = 2
# Programs that hand a command on: to another machine, a container that runs, a terminal, a shell.
CONTAINERS = frozenset({"docker", "podman", "kubectl"})
CARRIERS = CONTAINERS | {"ssh", "tmux", "screen", "sh", "bash", "eval", "su", "sudo"}
PACKAGES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "tensorrt-llm", "tensorrt_llm": "tensorrt-llm"}
_CARRYING = re.compile(
    r"^[ \t]*(?:function[ \t]+)?(\w{1,80})[ \t]*\(\)[ \t]*\{[^}]{0,500}\b(?:ssh|eval|docker|podman|kubectl|tmux)\b",
    re.M,
)
_PINNED = re.compile(r"\b(vllm|sglang|tensorrt[-_]llm)(?:\[[^\]\n]{0,80}\])?==v?(\d+(?:\.\w+){1,4})")
_PULLED = re.compile(r"\bollama\s+(?:pull|run)\s+(?:--?\S+\s+)*([\w./:-]+)")


def servers_in(
    script: Argument, name: str, form: str, environment: Mapping[str, Text], depth: int = MOST_DEPTH
) -> Iterator[Found]:
    """Every server that a script starts, in order; `environment` is what it finds around it."""
    if len(script.text) > MOST_CHARACTERS or not MENTIONS.search(script.text):
        return
    seen_before: list[tuple[object, ...]] = []
    count, served = 0, False
    written: list[tuple[str, str]] = []
    own = frozenset(_CARRYING.findall(script.text))
    variables = {key: str(value) for key, value in environment.items()}
    for line in lines_of(script, variables):
        found = _server(line, name, form, environment, script)
        if found is None and depth:
            for inner in islice(_handed_on(line, script.path, own), max(0, MOST_SERVERS - count)):
                count += 1
                inside = {key: at(value, script.line, script.column) for key, value in line.exported.items()}
                yield from servers_in(inner, name, form, inside, depth - 1)
        if (file := _file_of(line)) and len(written) < MOST_FILES:
            written.append((file, expanded(line.command.body, line.known)))
        # `ollama run` asks the server that `ollama serve` started.
        again = found is not None and found.engine == "ollama" and served
        count += found is not None
        if count > MOST_SERVERS:
            return
        if found is None or again or (key := _key(found)) in seen_before:
            continue
        seen_before.append(key)
        served = served or found.engine == "ollama"
        yield replace(found, written=tuple(written)) if written else found


def _key(found: Found) -> tuple[object, ...]:
    """What makes a server another one: the same line in both branches of an `if` starts one."""
    words = tuple(argument.text for argument in found.arguments)
    return found.image, found.engine, words, tuple(found.environment.items()), found.hardware.count


def _handed_on(line: Line, path: str, own: frozenset[str]) -> Iterator[Argument]:
    """Scripts that a command hands on: the body of a shell, a text for another machine, container or terminal.

    own  functions of the script that do so
    """
    first = line.words[0]
    if line.command.body and (SHELLS.fullmatch(first.text) or first.text == "ssh"):
        yield Argument(line.command.body, first.line + 1, 1, path)
    if first.text not in CARRIERS | own or (
        first.text in CONTAINERS and "exec" not in [w.text for w in line.words[1:3]]
    ):
        return
    for position, word in enumerate(line.words[1:], start=1):
        if " " in word.text.strip() and MENTIONS.search(word.text):
            yield word
        elif _starts_here(line.words[position : position + MOST_PROGRAM_WORDS]):
            rest = " ".join(quoted(following.text) for following in line.words[position:])
            yield Argument(rest, word.line, word.column, word.path)
            return


def _file_of(line: Line) -> str:
    """The file a here-document goes to: `cat > FILE`, `tee FILE`; "" where it goes to none."""
    if not line.command.body:
        return ""
    words = [word.text for word in line.words]
    teed = words[-1] if words[0] in ("tee", "sudo") and len(words) > 1 else ""
    return expanded(line.command.target, line.known) or teed


def _starts_here(words: Sequence[Argument]) -> bool:
    """Whether words are a program with its options: `docker exec llama-server ps` names a container."""
    own = started(words, {})
    return own is not None and (" " in own.program or any(word.text.startswith("-") for word in own.arguments[:1]))


def container(words: Sequence[Argument], name: str, form: str) -> Found | None:
    """The container that a command line starts, where an engine serves in it."""
    run = docker_run(words)
    if run is None:
        return None
    made = Found(name, form, words[0].line, image=run.image, arguments=run.arguments, environment=run.environment,
                 hardware=run.hardware, host=run.host)  # fmt: skip
    return made if call(made) is not None else None


def _server(line: Line, name: str, form: str, environment: Mapping[str, Text], script: Argument) -> Found | None:
    """The server a command starts."""
    first = line.words[0]
    made = container(line.words, name, form)
    if made is not None:
        started_by = call(made)
        return seen(replace(made, model=pulled(script.text, started_by.engine))) if started_by else None
    own = started(line.words, line.known)
    if own is None or _asks_for_help(own.arguments):
        return None
    around = {key: environment.get(key) if environment.get(key) == value else at(value, first.line, first.column)
              for key, value in line.exported.items()}  # fmt: skip
    known = {key: value for key, value in around.items() if value is not None}
    version = pinned(script.text, own.engine)
    model = pulled(script.text, own.engine)
    made = Found(name, form, first.line, arguments=own.arguments, environment=known, engine=own.engine,
                 version=version, model=model)  # fmt: skip
    return seen(made)


def _asks_for_help(arguments: tuple[Argument, ...]) -> bool:
    """`vllm serve --help` serves nothing."""
    return bool(arguments) and all(word.text in ("--help", "-h", "--version") for word in arguments)


def seen(found: Found) -> Found:
    """The same with devices counted by what the environment lets it see, where nothing else counts them."""
    shown = visible(found.environment) if found.hardware.count is None else None
    if shown is None:
        return found
    count, where = shown
    return replace(found, hardware=replace(found.hardware, count=count, counted_at=where))


def with_devices(found: Found, hardware: Hardware) -> Found:
    """The same on the devices the form around a script gives, unless the command itself counts them."""
    own = found.hardware
    count = own.count if own.count is not None else hardware.count
    counted_at = own.counted_at if own.count is not None else hardware.counted_at
    return replace(found, hardware=replace(hardware, count=count, counted_at=counted_at))


def pinned(text: str, engine: str) -> Text | None:
    """The version of an engine that a text installs: `pip install vllm==0.19.0`."""
    for match in _PINNED.finditer(text):
        if PACKAGES[match[1]] == engine:
            line = text.count("\n", 0, match.start(2)) + 1
            return at(match[2], line, match.start(2) - text.rfind("\n", 0, match.start(2)))
    return None


def pulled(text: str, engine: str) -> Text | None:
    """The model that `ollama pull` or `ollama run` fetches in a script."""
    match = _PULLED.search(text) if engine == "ollama" else None
    if match is None:
        return None
    return ollama_name(at(match[1], text.count("\n", 0, match.start(1)) + 1, 1))


def ollama_name(name: Text) -> Text:
    """A name of Ollama's library with its tag: without one it is the latest."""
    plain = not any(character in name for character in ":/$") and not name.endswith(".gguf")
    return at(f"{name}:latest", name.line, name.column, name.style) if plain and name else name


def resolved(value: Text, known: Mapping[str, str]) -> Text:
    """A text with the variables that are known in place."""
    return at(expanded(value, known), value.line, value.column, value.style) if "$" in value else value
