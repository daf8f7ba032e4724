"""Kthena ModelServing: roles of one service, each an entry pod with workers that serve together."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.found import Found
from infopt.gate.nodes import Node, Text, get, integer, text
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import containers, items_of
from infopt.gate.readers.storm import role_of

GROUP, KIND = "workload.serving.volcano.sh/", "ModelServing"
ROLES = "spec.template.roles"


def recognises(document: Node) -> bool:
    """Whether the object is a ModelServing."""
    return str(get(document, "apiVersion")).startswith(GROUP) and get(document, "kind") == KIND


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """Every container of every role's entry pod; what workers start joins it."""
    service = str(text(get(document, "metadata.name")) or KIND)
    copies = integer(get(document, "spec.replicas"))
    for position, role in enumerate(items_of(get(document, ROLES))):
        name = str(text(get(role, "name")) or f"role {position}")
        own = integer(get(role, "replicas"))
        replicas = (1 if copies is None else copies) * (1 if own is None else own)
        pods = 1 + (integer(get(role, "workerReplicas")) or 0)
        path = f"{ROLES}[{position}].entryTemplate.spec"
        for container in containers(get(role, "entryTemplate.spec"), path, outside):
            made = found(container, f"{service}-{name}", KIND, replicas=replicas, pods=pods)
            yield replace(made, role=role_of(name))
