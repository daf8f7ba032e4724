"""What a document refers to outside itself: variables of ConfigMaps, and objects of its own file or of the same tree.

Other files are looked at only where something asks for a kind of object, and only those that mention the kind.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from infopt.errors import InfoptError
from infopt.gate.limits import within
from infopt.gate.nodes import Node, Text, at, changed, documents, get, items, mapping, text

# A tree with more files than this is not searched for the other half of an object.
MOST_FILES = 5_000


class Tree:
    """The files that are checked together; objects of a kind are read once, when they are first asked for."""

    def __init__(self, files: Sequence[str] = (), read: Callable[[str], str] | None = None) -> None:
        self.files = files
        self.read = read
        self._found: dict[str, tuple[Node, ...]] = {}

    def objects(self, kind: str) -> tuple[Node, ...]:
        """Every object of a kind in the tree; files that cannot be read have none."""
        if kind not in self._found:
            self._found[kind] = tuple(self._search(kind))
        return self._found[kind]

    def _search(self, kind: str) -> Iterator[Node]:
        if self.read is None or len(self.files) > MOST_FILES:
            return
        for file in self.files:
            try:
                with within(file):
                    content = self.read(file)
                    found = list(objects_of(documents(content, file), kind)) if kind in content else []
            except InfoptError:
                continue
            yield from found


class Outside(dict[str, Text]):
    """Variables by `name/key` of a ConfigMap, with the objects around a document; `path` is the document's file."""

    def __init__(
        self, variables: Mapping[str, Text], nodes: Sequence[Node] = (), tree: Tree | None = None, path: str = ""
    ) -> None:
        super().__init__(variables)
        self.nodes = nodes
        self.tree = tree or Tree()
        self.path = path

    def objects(self, kind: str) -> tuple[Node, ...]:
        """Objects of a kind: of the document's own file first, then of the tree."""
        return (*objects_of(self.nodes, kind), *self.tree.objects(kind))


def placed_at(node: Node, place: Text) -> Node:
    """An object of another file as this file refers to it: every text stands where the reference does."""
    return changed(node, lambda value: at(value, place.line, place.column))


def shown_path(outside: Mapping[str, Text], otherwise: str) -> str:
    """The file a document stands in, for an error inside it; `otherwise` where that is not known."""
    return outside.path if isinstance(outside, Outside) and outside.path else otherwise


def objects_of(nodes: Sequence[Node] | Iterator[Node], kind: str) -> Iterator[Node]:
    """The objects of a kind among documents and in their lists."""
    return (one for node in nodes for one in unlisted(node) if get(one, "kind") == kind)


def unlisted(node: Node) -> Iterator[Node]:
    """The objects of a `kind: List` or of an OpenShift Template, or the document itself.

    >>> list(unlisted({"a": 1}))
    [{'a': 1}]
    """
    listed = text(get(node, "kind"))
    if listed is not None and listed.endswith("List") and isinstance(mapping(node).get("items"), list):
        yield from items(mapping(node)["items"])
    elif listed == "Template" and isinstance(mapping(node).get("objects"), list):
        yield from items(mapping(node)["objects"])
    else:
        yield node
