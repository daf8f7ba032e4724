"""AIBrix StormService and RoleSet: roles of one service, each a pod or a group of pods that serve together."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.found import Found
from infopt.gate.nodes import Node, Text, get, integer, text
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import containers, items_of

ROLES = {"StormService": "spec.template.spec.roles", "RoleSet": "spec.roles"}
GROUP = "orchestration.aibrix.ai/"
SPLIT = ("prefill", "decode")


def recognises(document: Node) -> bool:
    """Whether the object is one of AIBrix's that hold roles."""
    return str(get(document, "apiVersion")).startswith(GROUP) and str(get(document, "kind")) in ROLES


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """Every container of every role; routers are told from engines later."""
    kind = str(get(document, "kind"))
    service = str(text(get(document, "metadata.name")) or kind)
    copies = integer(get(document, "spec.replicas")) if kind == "StormService" else 1
    for position, role in enumerate(items_of(get(document, ROLES[kind]))):
        name = str(text(get(role, "name")) or f"role {position}")
        path = f"{ROLES[kind]}[{position}].template.spec"
        own = integer(get(role, "replicas"))
        for container in containers(get(role, "template.spec"), path, outside):
            made = found(
                container,
                f"{service}-{name}",
                kind,
                replicas=(1 if copies is None else copies) * (1 if own is None else own),
                pods=integer(get(role, "podGroupSize")) or 1,
            )
            yield replace(made, role=role_of(name))


def role_of(name: str) -> str:
    """prefill or decode by a role's name, "" for one that does both.

    >>> role_of("vllm-prefill-0"), role_of("worker")
    ('prefill', '')
    """
    return next((role for role in SPLIT if role in name.lower()), "")
