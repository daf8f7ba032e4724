"""Shell scripts, Slurm batch scripts, single command lines and systemd units that start an engine."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from infopt.gate.engines import lines_of
from infopt.gate.environment import expanded
from infopt.gate.found import Argument, Found
from infopt.gate.nodes import Text, at
from infopt.gate.readers.scripts import MENTIONS, servers_in
from infopt.gate.readers.slurm import counted, job, on_job
from infopt.gate.shell import ASSIGNMENT, split

ENDINGS = frozenset({".sh", ".bash", ".service", ".slurm", ".sbatch"})
_SECTION = re.compile(r"^\[Service\][ \t]*$", re.MULTILINE)
_EXECUTED = re.compile(r"^ExecStart[ \t]*=[ \t]*[-@:+!]*((?:.*\\\n)*.*)$", re.MULTILINE)
_VARIABLES = re.compile(r"^Environment[ \t]*=[ \t]*((?:.*\\\n)*.*)$", re.MULTILINE)


def recognises(path: str, content: str) -> bool:
    """Whether the text could start an engine; whether it does is found by reading it."""
    return bool(MENTIONS.search(content))


def read(path: str, content: str) -> Iterator[Found]:
    """Every server the text starts."""
    name = Path(path).name if path != "-" else "command"
    unit = _SECTION.search(content) is not None and _EXECUTED.search(content) is not None
    if unit and (path.endswith(".service") or content.lstrip().startswith("[")):
        yield from _unit(name, content)
        return
    given = job(content)
    script = Argument(content if given is None or given.gpus is None else counted(content), 1, 1, "")
    servers = list(servers_in(script, name, "shell", given.environment if given is not None else {}))
    if unit:
        servers += list(_written_units(script, name)) or (list(_unit(name, content)) if not servers else [])
    for position, found in enumerate(servers if given is None else on_job(servers, given)):
        yield found if position == 0 else _numbered(found, position + 1)


def _numbered(found: Found, position: int) -> Found:
    return replace(found, name=f"{found.name} ({position})")


def _written_units(script: Argument, name: str) -> Iterator[Found]:
    """Units that a script writes, with the variables it puts in them."""
    for line in lines_of(script, {}):
        if _SECTION.search(line.command.body):
            yield from _unit(name, expanded(line.command.body, line.known), line.words[0].line)


def _unit(name: str, content: str, above: int = 0) -> Iterator[Found]:
    """ExecStart lines of a systemd unit, with its Environment; `above` are the lines before it."""
    known: dict[str, Text] = {}
    for match in _VARIABLES.finditer(content):
        line = above + content.count("\n", 0, match.start()) + 1
        for word in split(match[1]):
            if assigned := ASSIGNMENT.fullmatch(word.text):
                known[assigned[1]] = at(assigned[3], line, 1)
    for match in _EXECUTED.finditer(content):
        start = match.start(1)
        line = above + content.count("\n", 0, start) + 1
        script = Argument(match[1], line, start - content.rfind("\n", 0, start), "ExecStart")
        yield from servers_in(script, name, "systemd", known)
