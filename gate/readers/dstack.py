"""dstack services, tasks and development environments: commands on the devices asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.found import Argument, Found, Hardware, Host
from infopt.gate.nodes import Node, Text, at, get, integer, items, mapping, text
from infopt.gate.readers.accelerators import Asked, asked_of, memory_bytes
from infopt.gate.readers.compose import variables_of
from infopt.gate.readers.scripts import servers_in, with_devices

FORM = "dstack"
TYPES = frozenset({"service", "task", "dev-environment"})
# Variables that dstack sets from the resources (dstack.ai docs concepts/tasks, environment variables).
TOTAL, PER_NODE, NODES = "DSTACK_GPUS_NUM", "DSTACK_GPUS_PER_NODE", "DSTACK_NODES_NUM"


def recognises(document: Node) -> bool:
    """A type of dstack's with commands or an image."""
    return text(get(document, "type")) in TYPES and bool({"commands", "image", "resources"} & set(mapping(document)))


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """Every server that the commands start, for every kind of device that is asked for by name."""
    ways = _ways(get(document, "resources.gpu"))
    for way in ways:
        for found in _servers(document, way):
            yield replace(found, name=f"{found.name} on {way.name}:{way.count}") if len(ways) > 1 else found


def _servers(document: Node, way: Asked) -> Iterator[Found]:
    nodes = integer(get(document, "nodes")) or 1
    hardware = Hardware(
        count=way.count,
        counted_at=way.name if way.count is not None else None,
        resource="resources.gpu",
        named=(("resources.gpu", way.name),) if way.name is not None else (),
        pods=nodes,
        replicas=_least(get(document, "replicas")),
    )
    script = _script(get(document, "commands"))
    environment = {str(key): value for key, value in variables_of(get(document, "env"))}
    if way.count is not None and way.name is not None:
        own = {TOTAL: way.count * nodes, PER_NODE: way.count, NODES: nodes}
        environment |= {name: at(str(value), way.name.line, way.name.column) for name, value in own.items()}
    name = str(text(get(document, "name")) or FORM)
    image, served = text(get(document, "image")), text(get(document, "model")) or text(get(document, "model.name"))
    shm = text(get(document, "resources.shm_size"))
    host = Host(shm_bytes=memory_bytes(shm) if shm is not None else None)
    if script is None:
        yield Found(name, FORM, 1, image=image, environment=environment, model=served, hardware=hardware, host=host)
        return
    for found in servers_in(script, name, FORM, environment):
        yield with_devices(replace(found, image=found.image or image, model=found.model or served, host=host), hardware)


def _script(node: Node) -> Argument | None:
    """The commands as one script, in its place where they are one."""
    lines = [one for one in items(node) if isinstance(one, Text)]
    if not lines:
        return None
    line, column = lines[0].within(0)
    return Argument("\n".join(lines), line, column, "commands")


def _least(node: Node) -> int:
    said = text(node) or ""
    return integer(at(said.partition("..")[0], 1, 1)) or 1


def _ways(node: Node) -> tuple[Asked, ...]:
    """`MI300X:8`, `24GB..80GB`, or a mapping of name, count and memory; a range of counts is its least."""
    if isinstance(node, Text):
        return asked_of(node)
    names = [one for one in items(get(node, "name")) if isinstance(one, Text)]
    count, memory = text(get(node, "count")), text(get(node, "memory"))
    least = integer(at(count.partition("..")[0], 1, 1)) if count is not None else 1 if node is not None else None
    if not names:
        return (Asked(memory, least),)
    size = f"-{memory}" if memory is not None and ".." not in memory else ""
    return tuple(Asked(at(f"{name}{size}", name.line, name.column), least) for name in names)
