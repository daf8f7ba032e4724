"""NIM: the operator's `NIMService`, and values of the nim-llm chart. Rendered objects are Kubernetes objects."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.found import Found
from infopt.gate.nodes import Node, Text, at, get, integer, mapping, text
from infopt.gate.readers.helm import charts, rendered_all
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import containers, line_of
from infopt.gate.readers.production_stack import image_of

# Keys of the chart's `model` section: one of them, or NIM's registry, tells its values from other charts'.
KEYS = frozenset({"ngcAPISecret", "ngcAPIKey", "nimCache"})
REGISTRY = re.compile(r"(?:.*/)?nim/.+")


def recognises(document: Node) -> bool:
    """Whether the document is a NIMService, or values of the chart."""
    return _is_service(document) or any(charts(document, _reads))


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The one container."""
    if _is_service(document):
        spec = mapping(get(document, "spec"))
        name = str(text(get(document, "metadata.name")) or "NIMService")
        replicas = _first(spec, "replicas", "scale.hpa.minReplicas")
        yield _found(spec, "spec", name, "NIMService", replicas, outside)
        return
    for values in charts(document, _reads):
        spec = mapping(rendered_all(dict(values.values), values.values))
        said = text(spec.get("fullnameOverride")) or text(get(spec, "service.name")) or text(get(spec, "model.name"))
        yield _found(spec, values.path.rstrip("."), str(said or "nim-llm"), "nim-llm values",
                     _first(spec, "replicaCount"), outside)  # fmt: skip


def _is_service(document: Node) -> bool:
    return str(get(document, "apiVersion")).startswith("apps.nvidia.com/") and get(document, "kind") == "NIMService"


def _reads(values: Mapping[str, Node]) -> bool:
    if not isinstance(values.get("image"), dict):
        return False
    repository = text(get(values, "image.repository"))
    return bool(KEYS & set(mapping(values.get("model")))) or bool(repository and REGISTRY.fullmatch(repository))


def _first(spec: Mapping[str, Node], *paths: str) -> int:
    found = (integer(get(spec, path)) for path in paths)
    return next((count for count in found if count is not None), 1)


def _found(
    spec: Mapping[str, Node], path: str, name: str, form: str, replicas: int, outside: Mapping[str, Text]
) -> Found:
    container = {
        "name": text(spec.get("name")) or at("nim", line_of(spec), 1),
        "image": image_of(mapping(spec.get("image"))),
        "command": spec.get("command") or spec.get("customCommand"),
        "args": spec.get("args") or spec.get("customArgs"),
        "env": spec.get("env"),
        "resources": spec.get("resources"),
    }
    pod = {key: spec.get(key) for key in ("nodeSelector", "affinity")} | {"containers": [container]}
    one = next(containers(pod, path, outside))
    made = found(one, name, form, replicas=replicas)
    # What serves is NIM, whatever registry its image was copied to; operator and chart mount /dev/shm themselves.
    return replace(made, engine="nim", line=line_of(spec), host=replace(made.host, stated=False))
