"""RayService, RayCluster, RayJob of KubeRay; RayClusterFleet of AIBrix: an engine the head starts, or Ray Serve."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.found import Argument, Found
from infopt.gate.nodes import Node, Text, get, inside, integer, text
from infopt.gate.outside import shown_path
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import line_of
from infopt.gate.readers.ray_clusters import Cluster, cluster_of, whole
from infopt.gate.readers.ray_serve import applications

GROUPS = ("ray.io/", "orchestration.aibrix.ai/")
# Where the cluster stands in each kind.
CLUSTERS = {
    "RayService": "spec.rayClusterConfig",
    "RayCluster": "spec",
    "RayJob": "spec.rayClusterSpec",
    "RayClusterFleet": "spec.template.spec",
    "RayClusterReplicaSet": "spec.template.spec",
}
# Kinds that run several clusters alike.
COPIED = frozenset({"RayClusterFleet", "RayClusterReplicaSet"})


def recognises(document: Node) -> bool:
    """Whether the object holds a Ray cluster."""
    return str(get(document, "apiVersion")).startswith(GROUPS) and str(get(document, "kind")) in CLUSTERS


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """What the head's command or the job starts, and every application of the serve config."""
    kind = str(get(document, "kind"))
    name = str(text(get(document, "metadata.name")) or kind)
    path = CLUSTERS[kind]
    cluster = cluster_of(get(document, path), path, outside)
    copies = integer(get(document, "spec.replicas")) if kind in COPIED else 1
    yield from _started(document, name, kind, cluster, 1 if copies is None else copies)
    config = text(get(document, "spec.serveConfigV2"))
    if config is not None:
        for node in inside(config, shown_path(outside, f"{name}: serveConfigV2")):
            yield from applications(node, name, cluster, outside)


def _started(document: Node, name: str, kind: str, cluster: Cluster, copies: int) -> Iterator[Found]:
    """Containers of the head that have a command (KubeRay writes it for the others), and a job's entry point."""
    devices = whole(cluster, copies)
    for container in cluster.head.containers:
        if container.arguments:
            yield replace(found(container, name, kind), hardware=devices)
    entry = text(get(document, "spec.entrypoint"))
    if entry is not None:
        words = (Argument(str(entry), *entry.within(0), "spec.entrypoint"),)
        yield Found(
            name=name,
            form=kind,
            line=line_of(document),
            image=cluster.image,
            arguments=words,
            environment=cluster.environment,
            hardware=devices,
        )
