"""NIM: the operator's NIMService and NIMPipeline, values of the nim-llm chart. Rendered objects are Kubernetes objects.

Of a NIMService its NIMCache, where it is among the files, says the model of the hub and the profile's tensor parallel
size; `multiNode` says how many pods serve together, `draResources` how many devices a pod claims (k8s-nim-operator
api/apps/v1alpha1: nimservice_types.go GetLWSSize, dra_types.go).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.found import Argument, Found, Hardware, argument_of
from infopt.gate.nim import PIPELINE, TENSOR
from infopt.gate.nodes import Node, Text, at, boolean, get, integer, mapping, text
from infopt.gate.outside import Outside
from infopt.gate.readers.claims import claimed
from infopt.gate.readers.helm import charts, rendered_all
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import containers, items_of, line_of
from infopt.gate.readers.production_stack import image_of

# Keys of the chart's `model` section: one of them, or NIM's registry, tells its values from other charts'.
KEYS = frozenset({"ngcAPISecret", "ngcAPIKey", "nimCache"})
REGISTRY = re.compile(r"(?:.*/)?nim/.+")


def recognises(document: Node) -> bool:
    """Whether the document is of the operator, or values of the chart."""
    return _is(document, "NIMService", "NIMPipeline") or any(charts(document, _reads))


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The one container of a service, or of each of a pipeline that is not switched off."""
    if _is(document, "NIMService"):
        yield _service(mapping(get(document, "spec")), "spec", text(get(document, "metadata.name")), outside)
        return
    if _is(document, "NIMPipeline"):
        for position, one in enumerate(items_of(get(document, "spec.services"))):
            if boolean(get(one, "enabled")) is not False:
                path = f"spec.services[{position}].spec"
                yield _service(mapping(get(one, "spec")), path, text(get(one, "name")), outside)
        return
    for values in charts(document, _reads):
        spec = mapping(rendered_all(dict(values.values), values.values))
        said = text(spec.get("fullnameOverride")) or text(get(spec, "service.name")) or text(get(spec, "model.name"))
        yield _found(spec, values.path.rstrip("."), str(said or "nim-llm"), "nim-llm values",
                     _first(spec, "replicaCount"), outside)  # fmt: skip


def _is(document: Node, *kinds: str) -> bool:
    return str(get(document, "apiVersion")).startswith("apps.nvidia.com/") and get(document, "kind") in kinds


def _service(spec: Mapping[str, Node], path: str, name: Text | None, outside: Mapping[str, Text]) -> Found:
    """A service of the operator; what it claims may be an object of its own."""
    replicas = _first(spec, "replicas", "scale.hpa.minReplicas")
    made = _found(spec, path, str(name or "NIMService"), "NIMService", replicas, outside)
    hardware = claimed(items_of(spec.get("draResources")), outside) if made.hardware.count is None else None
    if hardware is None:
        return made
    return replace(made, hardware=replace(hardware, replicas=replicas, pods=made.hardware.pods))


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
    cache, at_cache = _cache(spec, outside)
    made = found(one, name, form, replicas=replicas)
    # What serves is NIM, whatever registry its image was copied to; operator and chart mount /dev/shm themselves.
    return replace(
        made,
        engine="nim",
        line=line_of(spec),
        model=_of_hub(cache, at_cache),
        added=tuple(_sizes(spec, cache, at_cache)),
        hardware=_hardware(spec, made.hardware),
        host=replace(made.host, stated=False),
    )


def _cache(spec: Mapping[str, Node], outside: Mapping[str, Text]) -> tuple[Node, Text | None]:
    """The source of the NIMCache that a service takes its model from, where it is among the files."""
    named = text(get(spec, "storage.nimCache.name"))
    if named is None or not isinstance(outside, Outside):
        return None, named
    caches = (one for one in outside.objects("NIMCache") if text(get(one, "metadata.name")) == named)
    return get(next(caches, None), "spec.source"), named


def _of_hub(cache: Node, place: Text | None) -> Text | None:
    """The model a cache fetches from the hub."""
    name, owner = text(get(cache, "hf.modelName")), text(get(cache, "hf.namespace"))
    if not name or place is None:
        return None
    return at(f"{owner}/{name}" if owner and "/" not in name else str(name), place.line, place.column)


def _sizes(spec: Mapping[str, Node], cache: Node, place: Text | None) -> Iterator[Argument]:
    """Parallel sizes: of several nodes, else of the profile that is asked for."""
    tensor, pipeline = text(get(spec, "multiNode.parallelism.tensor")), _nodes(spec)
    of_cache = text(get(cache, "ngc.model.tensorParallelism"))
    if of_cache is not None and place is not None:
        of_cache = at(str(of_cache), place.line, place.column)
    tensor = tensor or text(get(spec, "model.tensorParallelism")) or of_cache
    if tensor is not None and integer(tensor) is not None:
        yield argument_of(TENSOR, tensor, "model.tensorParallelism")
    if pipeline is not None:
        yield argument_of(PIPELINE, pipeline, "multiNode")


def _nodes(spec: Mapping[str, Node]) -> Text | None:
    """Pods that serve together: the size of the group, which is the pipeline."""
    places = ("multiNode.size", "multiNode.parallelism.pipeline", "multiNode.parallelism.pp")
    said = (text(get(spec, place)) for place in places)
    return next((value for value in said if value is not None and integer(value)), None)


def _hardware(spec: Mapping[str, Node], own: Hardware) -> Hardware:
    """Devices a pod, by resources or by claims that the operator makes; pods of a group."""
    nodes = integer(_nodes(spec)) or 1
    devices = [
        device
        for claim in items_of(spec.get("draResources"))
        for device in items_of(get(claim, "claimCreationSpec.devices"))
    ]
    if own.count is not None or not devices:
        return replace(own, pods=nodes)
    counts = [integer(get(device, "count")) for device in devices]
    named = text(get(devices[0], "count")) or text(get(devices[0], "name"))
    return replace(own, count=sum(1 if count is None else count for count in counts), counted_at=named, pods=nodes)
