"""Python programs in ConfigMaps: what the gate says of one that no deployment of the file is read from.

A program is no deployment: nothing says what it serves but its running. Where it builds an engine and the object that
runs it is in the file, its reader takes the engine's arguments from it (gate/engine_calls.py).
"""

from collections.abc import Iterator, Sequence

from infopt.gate.engine_calls import engine_call, is_program, libraries
from infopt.gate.finding import Finding, Rule
from infopt.gate.nodes import Node, Text, get, mapping, text

ID = "program-not-read"


def notes(file: str, nodes: Sequence[Node], found_any: bool) -> Iterator[Finding]:
    """A note for every program that serves a model in a way that cannot be checked."""
    for node in nodes:
        if get(node, "kind") != "ConfigMap":
            continue
        name = text(get(node, "metadata.name"))
        for key, content in mapping(get(node, "data")).items():
            if not isinstance(content, Text) or not isinstance(key, Text) or not is_program(key, content):
                continue
            message = _message(f"ConfigMap {name}: {key}", content, found_any)
            if message:
                yield _finding(file, key, message)


def _message(what: str, content: Text, found_any: bool) -> str:
    call = engine_call(content, {})
    if call is not None:
        return (
            "" if found_any else f"{what} starts {call.engine} in Python; the object that runs it is not in this file"
        )
    serving = libraries(content)
    if not serving:
        return ""
    return f"{what} is a program on {', '.join(serving)}, no serving engine: what it loads, and on what, is not checked"


def _finding(file: str, at: Text, message: str) -> Finding:
    return Finding(
        rule=ID,
        severity="note",
        confidence="certain",
        file=file,
        line=at.line,
        column=at.column,
        path="data",
        deployment="",
        message=message,
        detail="",
        remedy=RULES[0].remedy,
    )


RULES = (
    Rule(
        id=ID,
        summary="a Python program that serves a model is not read as a deployment",
        severity="note",
        why="What a program loads is decided when it runs; its memory is in no file.",
        remedy="infopt plan MODEL --hw GPU answers for the model it loads.",
        check=lambda case: iter(()),
    ),
)
