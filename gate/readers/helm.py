"""Values files of Helm charts: the values themselves, or what a parent chart hands on under a subchart's name.

A values file has no apiVersion and kind. Strings such as `{{ .Values.model.name }}`, which charts render with their own
values, are put in place from the same file; any other template stays as it is, and so stays unknown.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from infopt.frozen import dataclass
from infopt.gate.found import Argument, argument_of, switch_of
from infopt.gate.nodes import Node, Text, at, boolean, changed, get, mapping, text
from infopt.records import Record

REFERENCE = re.compile(r"\{\{-?\s*\.Values\.([A-Za-z_][\w.-]*)\s*(?:\|\s*(?:quote|toString)\s*)?-?\}\}")
MOST_ROUNDS = 4
# A chart, its parent and that one's parent (`nimOperator.nim-llm`).
MOST_DEPTH = 3
MOST_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Values:
    """The values one chart reads, and the path of their mapping in the file ("" or "name.")."""

    values: Mapping[str, Node]
    path: str

    @property
    def chart(self) -> str:
        """The name the values stand under, "" where they are the file's own."""
        return self.path.rstrip(".").rpartition(".")[2]


class Key(Record):
    """What a key of a chart stands for: an option with the key's value, or a switch with its opposite."""

    option: str
    negated: str | None = None


def charts(
    document: Node, reads: Callable[[Mapping[str, Node]], bool], path: str = "", depth: int = MOST_DEPTH
) -> Iterator[Values]:
    """The parts of a document that a chart reads: the whole, else sections a parent chart hands on."""
    values = mapping(document)
    if "apiVersion" in values and "kind" in values:
        return
    if reads(values):
        yield Values(values, path)
        return
    for name, part in values.items():
        if isinstance(part, dict) and depth > 1:
            yield from charts(part, reads, f"{path}{name}.", depth - 1)


def rendered(value: Text, values: Mapping[str, Node]) -> Text:
    """A string with the chart's own values in place of `{{ .Values.x }}`."""
    made = str(value)
    for _ in range(MOST_ROUNDS):
        if "{{" not in made:
            break
        made = REFERENCE.sub(lambda match: str(text(get(values, match[1])) or match[0]), made)
        if len(made) > MOST_CHARACTERS:
            return value
    return at(made, value.line, value.column, value.style)


def rendered_all(node: Node, values: Mapping[str, Node]) -> Node:
    """A tree with every string rendered."""
    return changed(node, lambda value: rendered(value, values))


def options_of(section: Mapping[str, Node], keys: Mapping[str, Key], path: str) -> Iterator[Argument]:
    """The options that keys of a section stand for, in the order of the chart."""
    for key, known in keys.items():
        value = text(section.get(key))
        if value is None:
            continue
        if known.negated is None:
            yield argument_of(known.option, value, f"{path}.{key}")
        elif (on := boolean(value)) is not None:
            switch = known.option if on else known.negated
            if switch:
                yield switch_of(switch, value, f"{path}.{key}")
