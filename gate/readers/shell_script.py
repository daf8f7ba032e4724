"""Shell scripts, Slurm batch scripts, single command lines and systemd units that start an engine."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from infopt.gate.found import Argument, Found
from infopt.gate.nodes import Text, at
from infopt.gate.readers.scripts import MENTIONS, servers_in
from infopt.gate.readers.slurm import job, on_job
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
    if _SECTION.search(content) and _EXECUTED.search(content):
        yield from _unit(name, content)
        return
    given = job(content)
    servers = servers_in(Argument(content, 1, 1, ""), name, "shell", given.environment if given is not None else {})
    for position, found in enumerate(servers if given is None else on_job(list(servers), given)):
        yield found if position == 0 else _numbered(found, position + 1)


def _numbered(found: Found, position: int) -> Found:
    return replace(found, name=f"{found.name} ({position})")


def _unit(name: str, content: str) -> Iterator[Found]:
    """ExecStart lines of a systemd unit, with its Environment."""
    known: dict[str, Text] = {}
    for match in _VARIABLES.finditer(content):
        line = content.count("\n", 0, match.start()) + 1
        for word in split(match[1]):
            if assigned := ASSIGNMENT.fullmatch(word.text):
                known[assigned[1]] = at(assigned[3], line, 1)
    for match in _EXECUTED.finditer(content):
        start = match.start(1)
        line = content.count("\n", 0, start) + 1
        script = Argument(match[1], line, start - content.rfind("\n", 0, start), "ExecStart")
        yield from servers_in(script, name, "systemd", known)
