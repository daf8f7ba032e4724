"""RoleBasedGroup and RoleBasedGroupSet (sgl-project/rbg): roles of one service, each a pod or a group that serves."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.engines import call
from infopt.gate.found import Found
from infopt.gate.nodes import Node, Text, get, integer, mapping, text
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import containers, items_of
from infopt.gate.readers.storm import role_of

GROUP = "workloads.x-k8s.io/"
KINDS = ("RoleBasedGroup", "RoleBasedGroupSet")
# Where a group stands: the object's own, or what a set makes copies of (renamed in v1alpha2).
SPECS = ("spec", "spec.groupTemplate.spec", "spec.template.spec", "spec.template")
# How a role says its pods: v1alpha2's patterns, v1alpha1's keys of the role itself.
PATTERNS = ("standalonePattern", "leaderWorkerPattern")
LEADERS = ("leaderTemplatePatch", "leaderWorkerSet.patchLeaderTemplate")
SIZES = ("size", "leaderWorkerSet.size")
# The controller tells every pod how many they are.
TOLD = ("LWS_GROUP_SIZE", "RBG_LWP_GROUP_SIZE")


def recognises(document: Node) -> bool:
    """Whether the object holds roles of rbg."""
    return str(get(document, "apiVersion")).startswith(GROUP) and str(get(document, "kind")) in KINDS


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """Every container of every role's first pod; routers are told from engines later.

    Roles whose pods have devices and start nothing join the one that serves.
    """
    made = list(_roles(document, outside))
    serving = [one for one in made if call(one) is not None and one.hardware.count is not None]
    joining = [one.hardware for one in made if call(one) is None and one.hardware.count is not None]
    beside = sum(hardware.pods * hardware.replicas for hardware in joining)
    for one in made:
        alone = len(serving) == 1 and one is serving[0]
        yield replace(one, hardware=replace(one.hardware, pods=one.hardware.pods + beside)) if alone else one


def _roles(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    kind = str(get(document, "kind"))
    service = str(text(get(document, "metadata.name")) or kind)
    copies = integer(get(document, "spec.replicas")) if kind == KINDS[1] else 1
    at = next((spec for spec in SPECS if items_of(get(document, f"{spec}.roles"))), "spec")
    bases = {str(get(one, "name")): get(one, "template") for one in items_of(get(document, f"{at}.roleTemplates"))}
    for position, role in enumerate(items_of(get(document, f"{at}.roles"))):
        name = str(text(get(role, "name")) or f"role {position}")
        own = integer(get(role, "replicas"))
        replicas = (1 if copies is None else copies) * (1 if own is None else own)
        for pods, spec, path in _pods(role, f"{at}.roles[{position}]", bases):
            for container in containers(get(spec, "spec"), path, outside):
                made = found(container, f"{service}-{name}", kind, replicas=replicas, pods=pods[0])
                told = dict.fromkeys(TOLD, pods[1]) if pods[1] is not None else {}
                yield replace(made, role=role_of(name), environment={**told, **made.environment})


def _pods(role: Node, path: str, bases: Mapping[str, Node]) -> Iterator[tuple[tuple[int, Text | None], Node, str]]:
    """(how many, as a text), template and place of a role's pods; of heterogeneous ones, of each component."""
    for position, one in enumerate(items_of(get(role, "customComponentsPattern.components"))):
        where = f"{path}.customComponentsPattern.components[{position}].template.spec"
        yield (integer(get(one, "size")) or 1, None), get(one, "template"), where
    pattern = next((name for name in PATTERNS if isinstance(get(role, name), dict)), "")
    said = get(role, pattern) if pattern else role
    template = get(said, "template") or bases.get(str(get(said, "templateRef.name")))
    for patch in (get(said, "templateRef.patch"), get(said, "templatePatch"), *(get(said, key) for key in LEADERS)):
        template = laid_over(template, patch)
    size = next((size for size in (text(get(said, key)) for key in SIZES) if size is not None), None)
    if template is not None:
        where = f"{path}.{pattern}.template.spec" if pattern else f"{path}.template.spec"
        yield (integer(size) or 1, size), template, where


def laid_over(base: Node, patch: Node) -> Node:
    """A strategic merge: mappings key by key, lists of named things by name, everything else replaced."""
    if patch is None:
        return base
    if isinstance(base, dict) and isinstance(patch, dict):
        return {**base, **{key: laid_over(base.get(key), value) for key, value in patch.items()}}
    if isinstance(base, list) and isinstance(patch, list) and _named(base) and _named(patch):
        over = {str(get(one, "name")): one for one in patch}
        names = {str(get(one, "name")) for one in base}
        kept = [laid_over(one, over.get(str(get(one, "name")))) for one in base]
        return [*kept, *(one for name, one in over.items() if name not in names)]
    return patch


def _named(nodes: list[Node]) -> bool:
    return bool(nodes) and all(mapping(one).get("name") is not None for one in nodes)
