"""The pods of a Ray cluster: a head, groups of workers, and the devices an engine finds on them."""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from infopt.frozen import dataclass
from infopt.gate.found import Hardware, Host
from infopt.gate.nodes import Node, Text, get, integer
from infopt.gate.readers.pods import Container, containers, items_of


@dataclass(frozen=True, slots=True)
class Group:
    """Pods of one template.

    pods, most  how many there are, and how many there may be
    """

    containers: tuple[Container, ...]
    pods: int = 1
    most: int = 1

    @property
    def devices(self) -> Container | None:
        """The container that has devices."""
        return next((one for one in self.containers if one.hardware.count), None)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster; without groups, one that stands elsewhere."""

    head: Group = Group(())
    workers: tuple[Group, ...] = ()
    environment: Mapping[str, Text] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[Group, ...]:
        return (self.head, *self.workers)

    @property
    def images(self) -> tuple[Text, ...]:
        """Images of workers, then of the head."""
        listed = (one.image for group in (*self.workers, self.head) for one in group.containers)
        return tuple(image for image in listed if image is not None)

    @property
    def image(self) -> Text | None:
        return next(iter(self.images), None)


def cluster_of(spec: Node, path: str, outside: Mapping[str, Text]) -> Cluster:
    """Head and workers of a RayCluster's spec."""
    head = Group(
        tuple(containers(get(spec, "headGroupSpec.template.spec"), f"{path}.headGroupSpec.template.spec", outside))
    )
    workers = tuple(_workers(spec, path, outside))
    environment: dict[str, Text] = {}
    for group in (head, *workers):
        for container in group.containers:
            environment |= container.environment
    return Cluster(head, workers, environment)


def _workers(spec: Node, path: str, outside: Mapping[str, Text]) -> Iterator[Group]:
    for position, group in enumerate(items_of(get(spec, "workerGroupSpecs"))):
        where = f"{path}.workerGroupSpecs[{position}].template.spec"
        replicas = integer(get(group, "replicas"))
        pods = (1 if replicas is None else replicas) * (integer(get(group, "numOfHosts")) or 1)
        most = integer(get(group, "maxReplicas")) or 0
        yield Group(tuple(containers(get(group, "template.spec"), where, outside)), pods, max(pods, most))


def whole(cluster: Cluster, replicas: int) -> Hardware:
    """Every device of a cluster, for an engine that the head starts over all of it."""
    having = [
        (container.hardware, group.pods) for group in cluster.groups if (container := group.devices) and group.pods
    ]
    if not having:
        return Hardware(replicas=replicas)
    first = having[0][0]
    named = next((hardware.named for hardware, _ in having if hardware.named), ())
    total = sum((hardware.count or 0) * pods for hardware, pods in having)
    pods = sum(count for _, count in having)
    # Pods that differ in size are shown as one.
    count, groups = (total // pods, pods) if total % pods == 0 else (total, 1)
    return replace(first, count=count, pods=groups, replicas=replicas, named=named)


def hardware_of(
    cluster: Cluster, wanted: int, most_replicas: int, replicas: int, named: tuple[tuple[str, Text], ...] = ()
) -> Hardware:
    """What one replica of an application gets of a cluster: Ray packs replicas on pods, and spans pods where it must.

    wanted  devices of a replica; `most_replicas` share what there is
    """
    groups = [group for group in (*cluster.workers, cluster.head) if group.devices is not None]
    able = [group for group in groups if (group.devices.hardware.count or 0) * group.most >= wanted]  # type: ignore[union-attr]
    group = next(iter(able or groups), None)
    if group is None or group.devices is None:
        return Hardware(named=named, replicas=replicas)
    hardware = group.devices.hardware
    each = hardware.count or 1
    pods = min(-(-wanted // each), max(1, group.most))
    count = each // max(1, min(each // wanted, most_replicas)) if pods == 1 and wanted <= each else each
    return replace(hardware, count=count, pods=pods, replicas=replicas, named=(*named, *hardware.named))


def host_of(cluster: Cluster) -> Host:
    """Host memory of the pods that have the devices."""
    having = (group.devices for group in (*cluster.workers, cluster.head) if group.devices is not None)
    first = next(having, None)
    return first.host if first is not None else Host()
