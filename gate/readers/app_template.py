"""Values of the bjw-s app-template chart: `controllers.NAME.containers.NAME`, each a container of a pod.

bjw-s-labs/helm-charts charts/library/common values.yaml: image by repository and tag, env as a mapping, options of a
pod over the default ones.
"""

from collections.abc import Iterator, Mapping

from infopt.gate.found import Found
from infopt.gate.nodes import Node, Text, get, integer, mapping, text
from infopt.gate.readers.helm import charts, rendered_all
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import containers
from infopt.gate.readers.production_stack import image_of


def recognises(document: Node) -> bool:
    """Whether the document is values of this chart."""
    return any(charts(document, _reads))


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """Every container of every controller."""
    for chart in charts(document, _reads):
        values = mapping(rendered_all(dict(chart.values), chart.values))
        common = mapping(values.get("defaultPodOptions"))
        for name, controller in mapping(values.get("controllers")).items():
            if isinstance(controller, dict) and text(controller.get("enabled")) != "false":
                path = f"{chart.path}controllers.{name}"
                yield from _controller(str(name), controller, common, path, outside)


def _reads(values: Mapping[str, Node]) -> bool:
    return any(isinstance(get(one, "containers"), dict) for one in mapping(values.get("controllers")).values())


def _controller(
    name: str, controller: Mapping[str, Node], common: Mapping[str, Node], path: str, outside: Mapping[str, Text]
) -> Iterator[Found]:
    pod = {**common, **mapping(controller.get("pod"))}
    made: list[Node] = [_container(one) for one in mapping(controller.get("containers")).values()]
    replicas = integer(controller.get("replicas"))
    for container in containers({**pod, "containers": made}, path, outside):
        yield found(container, name, "app-template values", replicas=1 if replicas is None else replicas)


def _container(node: Node) -> dict[str, Node]:
    container = dict(mapping(node))
    image, env = container.get("image"), container.get("env")
    container["image"] = image_of(mapping(image)) if isinstance(image, dict) else image
    if isinstance(env, dict):
        container["env"] = [_variable(name, value) for name, value in env.items() if isinstance(name, Text)]
    return container


def _variable(name: Text, value: Node) -> dict[str, Node]:
    said = text(value) if not isinstance(value, dict) else text(value.get("value"))
    return {"name": name, "value": said} if said is not None else {"name": name}
