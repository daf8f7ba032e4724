"""What people and programs type: quantities, names, command lines, options laid over others, arguments of tools."""

import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence

from fuzz.target import BrokenError, Target, scratch, text_of

from infopt import units
from infopt.cli import run
from infopt.errors import InfoptError

# Words that would write a file, start processes, or leave this machine: other tests have those.
LEFT_OUT = {
    "--out", "--html", "--plot", "--save", "--predictions", "--write-baseline", "--rows", "--calibrate", "--workers",
    "--scheduler", "--online", "--help",
}  # fmt: skip
COMMANDS = {"plan", "boundary", "models", "hardware", "rules", "schema", "sweep", "simulate", "checklist"}


def targets() -> Iterator[Target]:
    yield Target("units", "lines", quantities)
    yield Target("hardware-name", "lines", hardware)
    yield Target("engine-words", "lines", engine_words)
    yield Target("command-line", "lines", command_line)
    yield Target("overlay", "lines", overlay)
    yield Target("tool-arguments", "json", tool_arguments)


def asked(parsers: Sequence[Callable[[str], object]], text: str) -> None:
    """Every parser; what one refuses the next may take."""
    for parse in parsers:
        try:
            parse(text)
        except InfoptError as error:
            if len(str(error).splitlines()) > 1:
                raise


def quantities(data: bytes) -> None:
    """Every parser of quantities, and what it gives formatted again."""
    text = text_of(data)
    asked([getattr(units, name) for name in dir(units) if name.startswith("parse_")], text)
    asked([lambda word: units.format_bytes(units.parse_bytes(word))], text)
    asked([lambda word: units.format_seconds(units.parse_seconds(word))], text)


def hardware(data: bytes) -> None:
    from infopt.hardware.names import resolve_hardware
    from infopt.hardware.prices import parse_prices

    asked([resolve_hardware, lambda word: parse_prices([word])], text_of(data))


def engine_words(data: bytes) -> None:
    """Versions, formats, and options as engines spell them."""
    from infopt.profiles.engines import load_engine, version_key
    from infopt.profiles.flag_tables import lookup, parse_engine_int
    from infopt.profiles.formats import load_kv_format, load_weight_format
    from infopt.studies.experiment_variables import knobs, parsed
    from infopt.studies.saved_run import parse_quality

    text = text_of(data)
    engine, _, word = text.partition(" ")
    version, _, option = word.partition(" ")
    asked([load_weight_format, load_kv_format, version_key, lambda said: parse_quality("mmlu", said)], text)
    asked([lambda said, name=name: parsed(name, said) for name in knobs()], text)
    asked([lambda said: lookup(engine, version, said), lambda said: load_engine(engine, said)], option)
    asked([lambda said: parse_engine_int(engine, version, said)], option)


def command_line(data: bytes) -> str:
    """A whole command line but for its writing options; its status, and no line of a bug."""
    try:
        words = shlex.split(text_of(data))
    except ValueError as error:
        raise InfoptError("no command line") from error
    if not words or words[0] not in COMMANDS or any(word.partition("=")[0] in LEFT_OUT for word in words):
        raise InfoptError("left to other tests")
    if words[0] == "simulate":
        words += ["--requests", "20"]
    os.chdir(scratch())
    return f"{words[0]} {run(words)}"


def overlay(data: bytes) -> None:
    from infopt.cli_options import ScenarioOptions
    from infopt.cli_overlay import overlaid

    overlaid([ScenarioOptions(model="8b")], text_of(data))


def tool_arguments(data: bytes) -> str:
    """A call of a tool of the MCP server, answered in this process."""
    from infopt.mcp_tools import answer, tools
    from infopt.profiles.files import parse_json

    call = parse_json(data, "call")
    name, given = (call.get("name"), call.get("arguments")) if isinstance(call, dict) else (None, None)
    if not isinstance(name, str) or name not in tools() or not isinstance(given, dict) or name == "search":
        raise InfoptError("no call of a tool")
    if name == "simulate":
        given["requests"] = 20
    found = answer(name, given, scratch())
    error = found.get("error", "")
    if "a bug of infopt" in error:
        raise BrokenError(error)
    if len(error.splitlines()) > 1:
        raise BrokenError(f"{name}: an error of several lines")
    json.dumps(found, allow_nan=False)
    return name
