"""SkyPilot tasks: the `run` script on the accelerators asked for, one deployment for each way to meet them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.found import Argument, Found, Hardware, Host
from infopt.gate.nodes import Node, Text, at, get, integer, mapping, text
from infopt.gate.readers.accelerators import Asked, asked_of, memory_bytes
from infopt.gate.readers.pods import items_of
from infopt.gate.readers.scripts import pinned, resolved, servers_in, with_devices

FORM = "SkyPilot task"
MOST_WAYS = 12


def recognises(document: Node) -> bool:
    """A `run` script with resources, envs or a number of nodes, which is no object of a cluster."""
    return (
        isinstance(get(document, "run"), Text)
        and text(get(document, "apiVersion")) is None
        and bool({"resources", "envs", "num_nodes", "setup", "service"} & set(mapping(document)))
    )


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """Every server the task runs, for every way its accelerators can be had."""
    variables = {
        str(name): value
        for key in ("envs", "secrets")
        for name, value in mapping(get(document, key)).items()
        if isinstance(value, Text)
    }
    known = {name: str(value) for name, value in variables.items()}
    ways = list(_ways(get(document, "resources"), known))[:MOST_WAYS] or [Asked(None, None)]
    for way in ways:
        for found in _servers(document, variables, known, way):
            yield replace(found, name=f"{found.name} on {way.name}:{way.count}") if len(ways) > 1 else found


def _servers(document: Node, variables: Mapping[str, Text], known: Mapping[str, str], way: Asked) -> Iterator[Found]:
    nodes = integer(get(document, "num_nodes")) or 1
    hardware = Hardware(
        count=way.count,
        counted_at=way.name if way.count is not None else None,
        resource="resources.accelerators",
        named=(("resources.accelerators", way.name),) if way.name is not None else (),
        pods=nodes,
        replicas=_replicas(document),
    )
    run = get(document, "run")
    line, column = run.within(0)
    around = dict(variables)
    if way.count is not None:
        around |= _own(run, {"SKYPILOT_NUM_GPUS_PER_NODE": way.count, "SKYPILOT_NUM_NODES": nodes})
    image = _image(get(document, "resources.image_id"), known)
    setup = text(get(document, "setup"))
    memory = text(get(document, "resources.memory"))
    name = str(text(get(document, "name")) or "task")
    for found in servers_in(Argument(run, line, column, "run"), name, FORM, around):
        version = found.version or (pinned(setup, found.engine) if setup is not None else None)
        yield with_devices(
            replace(
                found,
                image=found.image or image,
                version=version,
                host=Host(memory_bytes=memory_bytes(memory + "g") if memory else None, memory_at=memory),
            ),
            hardware,
        )


def _own(run: Text, values: Mapping[str, int]) -> dict[str, Text]:
    """Variables that SkyPilot itself sets."""
    return {name: at(str(value), run.line, run.column) for name, value in values.items()}


def _replicas(document: Node) -> int:
    service = get(document, "service")
    least = integer(get(service, "replica_policy.min_replicas"))
    return integer(get(service, "replicas")) or least or integer(service) or 1


def _image(said: Node, known: Mapping[str, str]) -> Text | None:
    """`docker:image`; a machine image of a cloud is none."""
    if not isinstance(said, Text) or not said.startswith("docker:"):
        return None
    name = resolved(said, known)
    return at(name.removeprefix("docker:"), said.line, said.column)


def _ways(resources: Node, known: Mapping[str, str]) -> Iterator[Asked]:
    """`H200:8`, a map, a list, `any_of` and `ordered`; an instance type names its devices."""
    for key in ("any_of", "ordered"):
        for one in items_of(get(resources, key)):
            yield from _ways(one, known)
    said = get(resources, "accelerators")
    if isinstance(said, Text):
        yield from asked_of(resolved(said, known))
    for one in items_of(said):
        if isinstance(one, Text):
            yield from asked_of(resolved(one, known))
    for name, count in mapping(said).items():
        if isinstance(name, Text):
            # Without a blank behind the colon, `{L4:8}`, YAML takes the number for a part of the key.
            yield from (Asked(name, integer(count)),) if count is not None else asked_of(resolved(name, known))
    instance = text(get(resources, "instance_type"))
    if said is None and instance is not None:
        yield Asked(instance, None)
