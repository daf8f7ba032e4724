"""NVIDIA Dynamo: DynamoGraphDeployment (services, or components from v1beta1 on) and DynamoComponentDeployment."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.found import Argument, Found
from infopt.gate.nodes import Node, Text, get, integer, mapping, text
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import Container, containers, items_of, quantity_bytes
from infopt.gate.readers.storm import role_of

GROUP = "nvidia.com/"
GRAPH, COMPONENT = "DynamoGraphDeployment", "DynamoComponentDeployment"
# Containers of a pod template that Dynamo runs the service in.
MAIN = "main"


# Components that serve no model though their image holds the engine.
NO_WORKERS = frozenset({"frontend", "planner", "epp", "router"})


def recognises(document: Node) -> bool:
    """Whether the object is a deployment of Dynamo's."""
    return str(get(document, "apiVersion")).startswith(GROUP) and get(document, "kind") in (GRAPH, COMPONENT)


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """Every service of the graph; front ends and routers start no engine and drop out later."""
    name = str(text(get(document, "metadata.name")) or GRAPH)
    shared = items_of(get(document, "spec.envs")) + items_of(get(document, "spec.env"))
    if get(document, "kind") == COMPONENT:
        label = str(text(get(document, "spec.serviceName")) or name)
        yield from _service(get(document, "spec"), "spec", name, label, [], outside)
        return
    for service, node in mapping(get(document, "spec.services")).items():
        yield from _service(node, f"spec.services.{service}", f"{name}-{service}", str(service), shared, outside)
    for position, component in enumerate(items_of(get(document, "spec.components"))):
        label = str(text(get(component, "name")) or text(get(component, "type")) or position)
        yield from _service(component, f"spec.components[{position}]", f"{name}-{label}", label, shared, outside)


def _service(
    service: Node, path: str, name: str, label: str, shared: list[Node], outside: Mapping[str, Text]
) -> Iterator[Found]:
    """The main container of a service, with the resources and variables that stand beside it."""
    if any(str(get(service, key)).lower() in NO_WORKERS for key in ("componentType", "type")):
        return
    pod, where = _pod(mapping(service), path, shared)
    replicas = integer(get(service, "replicas"))
    for container in containers(pod, where, outside):
        made = found(
            _with_memory(container, service),
            name,
            GRAPH,
            replicas=1 if replicas is None else replicas,
            pods=integer(get(service, "multinode.nodeCount")) or 1,
        )
        yield replace(made, role=_role(service, label, made.arguments))


def _pod(service: Mapping[str, Node], path: str, shared: list[Node]) -> tuple[dict[str, Node], str]:
    """A pod with the one container that serves: of a pod template as it stands, else of the extra pod spec."""
    template = get(service.get("podTemplate"), "spec")
    if isinstance(template, dict):
        listed = items_of(template.get("containers"))
        main = next((one for one in listed if get(one, "name") == MAIN), listed[0] if listed else {})
        return {**template, "containers": [_with_variables(main, shared)]}, f"{path}.podTemplate.spec"
    extra = mapping(service.get("extraPodSpec"))
    main = dict(mapping(extra.get("mainContainer")))
    if isinstance(service.get("resources"), dict):
        main["resources"] = service["resources"]
    own = [*shared, *items_of(service.get("envs"))]
    return {**extra, "containers": [_with_variables(main, own)]}, f"{path}.extraPodSpec"


def _with_variables(container: Node, before: list[Node]) -> dict[str, Node]:
    return {**mapping(container), "env": [*before, *items_of(get(container, "env"))]}


def _with_memory(container: Container, service: Node) -> Container:
    """The container with the /dev/shm that the service asks for."""
    size = text(get(service, "sharedMemory.size")) or text(get(service, "sharedMemorySize"))
    said = quantity_bytes(size)
    return container if said is None else replace(container, host=replace(container.host, shm_bytes=said))


def _role(service: Node, label: str, arguments: tuple[Argument, ...]) -> str:
    """prefill or decode: by the component's own key, the worker's option, else its name."""
    for key in ("subComponentType", "type"):
        if role := role_of(str(get(service, key))):
            return role
    line = " ".join(argument.text for argument in arguments)
    for role in ("prefill", "decode"):
        if f"--is-{role}-worker" in line or f"--disaggregation-mode {role}" in line.replace("=", " "):
            return role
    return role_of(label)
