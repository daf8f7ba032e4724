"""YAML as a tree that knows where every scalar stands.

A document is plain dicts and lists; every key and scalar is a `Text`, a string with its line and column. Nothing is
constructed from tags. An alias is the same object again, so no file grows past its own size; the number of events and
the depth are bounded. A block scalar remembers where each of its lines stands, for scripts inside files.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from infopt.errors import InfoptError
from infopt.units import whole_of

MOST_EVENTS = 500_000
MOST_DEPTH = 100
MOST_DOCUMENTS = 5_000
# Keys that `<<` puts into mappings: a base is copied into each that names it.
MOST_MERGED = 200_000
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
TRUE = frozenset({"true", "yes", "on"})
FALSE = frozenset({"false", "no", "off"})

# From the head of a block scalar to the first character of its first line that is not blank.
FIRST_LINE = re.compile(r"[^\r\n]*(?:\r?\n[ \t]*(?=\r?\n))*+\r?\n([ \t]*)(?=\S)")

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What a document is made of.
Node = Any


class Text(str):
    """A scalar where it stands: line and column from 1, whether it is plain, and its style ("", ', ", |, >)."""

    __slots__ = ("column", "line", "style")
    line: int
    column: int
    style: str

    @property
    def plain(self) -> bool:
        return self.style == ""

    def within(self, offset: int) -> tuple[int, int]:
        """Line and column of a character of it; of a folded scalar, of its first line."""
        before = self[:offset]
        newlines = before.count("\n")
        if self.style == "|":
            return self.line + 1 + newlines, self.column + offset - (before.rfind("\n") + 1)
        if self.style == ">" or newlines:
            return self.line + newlines, self.column
        return self.line, self.column + offset + (self.style in ("'", '"'))


def at(value: str, line: int, column: int, style: str = "") -> Text:
    """A text at a place."""
    made = Text(value)
    made.line, made.column, made.style = line, column, style
    return made


def inside(text: Text, name: str) -> list[Node]:
    """The documents of a YAML text that is a scalar of another file, with the places they have in that file.

    Errors: InfoptError, by the line in that file.
    """
    return list(documents(str(text), name, text))


def documents(text: str, name: str, origin: Text | None = None) -> Iterator[Node]:
    """The documents of a YAML (or JSON) text, one after the other; None for an empty one.

    origin: the scalar of another file that the text is.
    Errors: InfoptError with line and column for bad syntax, too many events, nesting past `MOST_DEPTH`.
    """
    builder, found = _Builder(text, origin), 0
    try:
        for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
            if count > MOST_EVENTS:
                raise InfoptError(f"{name}: more than {MOST_EVENTS:,} YAML values; split the file")
            done = builder.take(event)
            if builder.depth > MOST_DEPTH:
                mark: Any = event.start_mark
                line, column = builder.place(mark)
                raise InfoptError(f"{name}:{line}:{column}: nested more than {MOST_DEPTH} deep")
            if done:
                found += 1
                if found > MOST_DOCUMENTS:
                    raise InfoptError(f"{name}: more than {MOST_DOCUMENTS:,} YAML documents; split the file")
                yield builder.document
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = ":{}:{}".format(*builder.place(mark)) if mark else ""
        problem = getattr(error, "problem", None) or next(iter(str(error).splitlines()), "malformed")
        raise InfoptError(f"{name}{where}: not readable as YAML: {problem}") from error


class _Builder:
    """Builds one document after the other from events, without recursion."""

    def __init__(self, text: str, origin: Text | None) -> None:
        self.text, self.origin = text, origin
        self.merged = 0
        self.document: Node = None
        self._start()

    def _start(self) -> None:
        self.stack: list[dict[str, Node] | list[Node]] = []
        self.keys: list[Text | None] = []
        self.anchors: dict[str, Node] = {}

    @property
    def depth(self) -> int:
        return len(self.stack)

    def take(self, event: Any) -> bool:
        """Take an event; true where it ends a document."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._add(self._scalar(event), event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            opened: dict[str, Node] | list[Node] = {} if kind is yaml.MappingStartEvent else []
            self._add(opened, event)
            self.stack.append(opened)
            self.keys.append(None)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            closed = self.stack.pop()
            self.keys.pop()
            if isinstance(closed, dict) and "<<" in closed:
                self.merged += _merge(closed)
                if self.merged > MOST_MERGED:
                    raise yaml.constructor.ConstructorError(None, None, "<< copies too many keys", event.start_mark)
        elif kind is yaml.AliasEvent:
            if event.anchor not in self.anchors:
                raise yaml.composer.ComposerError(None, None, f"unknown alias {event.anchor!r}", event.start_mark)
            self._add(self.anchors[event.anchor], event)
        elif kind is yaml.DocumentStartEvent:
            self._start()
            self.document = None
        return kind is yaml.DocumentEndEvent

    def place(self, mark: Any, column: int | None = None) -> tuple[int, int]:
        """Line and column of a mark in the outermost file."""
        line, column = mark.line + 1, mark.column + 1 if column is None else column
        if self.origin is None:
            return line, column
        if self.origin.style == "|":
            return self.origin.line + line, self.origin.column + column - 1
        # Folding and quoting lose the lines.
        return self.origin.line, self.origin.column

    def _scalar(self, event: Any) -> Text | None:
        mark, style = event.start_mark, event.style or ""
        if not style and event.value in NULLS and (self.keys and not self._expects_key()):
            return None
        column = mark.column + 1
        if style == "|" and (first := FIRST_LINE.match(self.text, mark.index)):
            column = len(first[1]) + 1
        literal = self.origin is None or self.origin.style == "|"
        return at(event.value, *self.place(mark, column), style if literal or not style else "'")

    def _expects_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1], dict) and self.keys[-1] is None

    def _add(self, value: Node, event: Any) -> None:
        anchor = getattr(event, "anchor", None)
        if anchor and type(event) is not yaml.AliasEvent:
            self.anchors[anchor] = value
        if not self.stack:
            self.document = value
            return
        top = self.stack[-1]
        if isinstance(top, list):
            top.append(value)
        elif self.keys[-1] is None:
            if not isinstance(value, Text):
                raise yaml.constructor.ConstructorError(None, None, "a key is not a scalar", event.start_mark)
            self.keys[-1] = value
        else:
            top[self.keys[-1]] = value
            self.keys[-1] = None


def _merge(mapping: dict[str, Node]) -> int:
    """`<<: *base`: keys of the base that the mapping has not; how many keys the bases have."""
    merged = mapping.pop("<<")
    looked_at = 0
    for base in merged if isinstance(merged, list) else [merged]:
        if isinstance(base, Mapping):
            looked_at += len(base)
            if looked_at > MOST_MERGED:
                break
            for key, value in base.items():
                mapping.setdefault(key, value)
    return looked_at


def get(node: Node, path: str) -> Node:
    """What lies at a dotted path of mappings and list positions, None where the path ends early.

    >>> get({"spec": {"containers": [{"name": "a"}]}}, "spec.containers.0.name")
    'a'
    """
    for part in path.split("."):
        if isinstance(node, dict):
            node = node.get(part)
        elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            return None
    return node


def mapping(node: Node) -> dict[str, Node]:
    """The node as a mapping; an empty one where it is none."""
    return node if isinstance(node, dict) else {}


def items(node: Node) -> list[Node]:
    """The node as a list; an empty one where it is none, one element where it is a scalar."""
    if isinstance(node, list):
        return node
    return [node] if isinstance(node, Text) else []


def text(node: Node) -> Text | None:
    """The node as a scalar."""
    return node if isinstance(node, Text) else None


def integer(node: Node) -> int | None:
    """The node as a whole number: 8, "8"."""
    return whole_of(node) if isinstance(node, Text) else None


def boolean(node: Node) -> bool | None:
    """The node as yes or no, in YAML's spellings."""
    lowered = node.strip().lower() if isinstance(node, Text) else ""
    return True if lowered in TRUE else False if lowered in FALSE else None


def walk(node: Node) -> Iterator[Node]:
    """Every mapping, list and scalar once, however often it is aliased."""
    seen: set[int] = set()
    stack = [node]
    while stack:
        here = stack.pop()
        if isinstance(here, dict | list):
            if id(here) in seen:
                continue
            seen.add(id(here))
            stack.extend(reversed(list(here.values()) if isinstance(here, dict) else here))
        yield here


def changed(node: Node, change: Callable[[Text], Text], done: dict[int, Node] | None = None) -> Node:
    """A tree with every key and scalar changed; an alias stays one object, so that nothing grows."""
    done = {} if done is None else done
    if isinstance(node, Text):
        return change(node)
    if not isinstance(node, dict | list):
        return node
    if id(node) not in done:
        made: Node = {} if isinstance(node, dict) else []
        done[id(node)] = made
        if isinstance(node, dict):
            made.update({changed(key, change): changed(value, change, done) for key, value in node.items()})
        else:
            made.extend(changed(value, change, done) for value in node)
    return done[id(node)]
