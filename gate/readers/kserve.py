"""KServe `InferenceService` and the runtime that serves it (`ServingRuntime`, `ClusterServingRuntime`).

The runtime is the one `predictor.model.runtime` names, else one that selects itself for the model's format; its
container, with what the predictor says over it, is what runs. A runtime that no service uses is its own deployment,
whose model is elsewhere. The other half may stand in another file of the same tree.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.addresses import model_name
from infopt.gate.found import UNKNOWN, Found
from infopt.gate.nodes import Node, Text, at, boolean, changed, get, integer, items, mapping, text
from infopt.gate.outside import Outside, placed_at
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import DEVICE_RESOURCES, Container, containers, items_of, line_of

SERVICE, RUNTIMES = "InferenceService", ("ServingRuntime", "ClusterServingRuntime")
# The container of a runtime that a predictor's model is laid over.
CONTAINER = "kserve-container"
# Formats whose runtime comes with KServe or names the engine (kserve/kserve config/runtimes).
FORMATS = {"huggingface": "huggingfaceserver", "vllm": "vllm"}
# Sizes of a `workerSpec`: the variable that tells them, and what they are without (kserve pkg/constants).
SIZES = {"tensorParallelSize": ("TENSOR_PARALLEL_SIZE", 1), "pipelineParallelSize": ("PIPELINE_PARALLEL_SIZE", 2)}
MOUNTED = "/mnt/models"
JOINED = ("args", "env", "volumeMounts")
# What the controller puts into a runtime itself.
NAME = re.compile(r"\{\{\s*\.Name\s*\}\}")


def recognises(document: Node) -> bool:
    """Whether the document is a service or a runtime of KServe."""
    kserve = str(get(document, "apiVersion")).startswith("serving.kserve.io/")
    return kserve and get(document, "kind") in (SERVICE, *RUNTIMES)


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The containers of the predictor, or of a runtime that nothing around it uses."""
    around = outside if isinstance(outside, Outside) else Outside(outside)
    if get(document, "kind") == SERVICE:
        yield from _service(document, around)
    elif not any(_runtime_of(service, (document,)) is not None for service in around.objects(SERVICE)):
        yield from _alone(document, around)


def _service(document: Node, outside: Outside) -> Iterator[Found]:
    predictor, name = mapping(get(document, "spec.predictor")), _name(document)
    model = mapping(predictor.get("model"))
    runtime = _runtime_of(document, [one for kind in RUNTIMES for one in outside.objects(kind)])
    reference = text(model.get("runtime")) or text(get(model, "modelFormat.name"))
    if reference is not None and not any(one is runtime for one in outside.nodes):
        runtime = placed_at(runtime, reference)
    pod = _joined(mapping(get(runtime, "spec")), predictor)
    replicas = integer(predictor.get("minReplicas"))
    for container in containers(_filled(pod, name), "spec.predictor", outside):
        made = found(container, name, "KServe InferenceService", replicas=max(1, replicas or 1))
        made = _with_workers(made, mapping(pod.get("workerSpec")), name)
        if model and runtime is None:
            made = _without_runtime(made, model)
        storage = text(model.get("storageUri")) or text(get(model, "storage.path"))
        yield replace(made, line=line_of(model or predictor), model=_model(storage, container, made.model))


def _alone(document: Node, outside: Outside) -> Iterator[Found]:
    """A runtime by itself; what it serves, and on how much, its InferenceService says."""
    spec = mapping(get(document, "spec"))
    for container in containers(_filled(spec, _name(document)), "spec", outside):
        made = _with_workers(
            found(container, _name(document), str(get(document, "kind"))), mapping(spec.get("workerSpec"))
        )
        missing = (("model", "the InferenceService that uses this runtime, or --model"),)
        yield replace(made, missing=(*made.missing, *missing))


def _filled(pod: Mapping[str, Node], name: str) -> Node:
    """A pod with what the controller puts for `{{.Name}}`: the service's name."""
    return changed(dict(pod), lambda value: at(NAME.sub(lambda _: name, value), value.line, value.column, value.style))


def _name(document: Node) -> str:
    return str(text(get(document, "metadata.name")) or get(document, "kind"))


def _runtime_of(service: Node, runtimes: object) -> Node | None:
    """The runtime a service names, else the first that selects itself for its model's format."""
    known = list(runtimes) if isinstance(runtimes, list | tuple) else []
    model = mapping(get(service, "spec.predictor.model"))
    wanted = text(model.get("runtime"))
    if wanted is not None:
        return next((one for one in known if get(one, "metadata.name") == wanted), None)
    format_name = text(get(model, "modelFormat.name"))
    if format_name is None:
        return None
    return next((one for one in known if format_name in _selects(one)), None)


def _selects(runtime: Node) -> set[str]:
    formats = items_of(get(runtime, "spec.supportedModelFormats"))
    return {str(text(get(one, "name"))) for one in formats if boolean(get(one, "autoSelect"))}


def _joined(runtime: Mapping[str, Node], predictor: Mapping[str, Node]) -> dict[str, Node]:
    """The pod: the runtime's containers, with the predictor's model over the serving one."""
    own = [mapping(node) for node in items_of(predictor.get("containers"))]
    model = mapping(predictor.get("model"))
    base = [mapping(node) for node in items_of(runtime.get("containers"))]
    if model:
        serving = next((one for one in base if text(one.get("name")) == CONTAINER), base[0] if base else {})
        over = _over(serving, {"name": text(serving.get("name")) or text(model.get("name")), **model})
        base = [over, *(one for one in base if one is not serving)]
        own = [one for one in own if text(one.get("name")) not in {text(b.get("name")) for b in base}]
    pod = {**runtime, **predictor, "containers": [*base, *own]}
    pod["volumes"] = [*items_of(runtime.get("volumes")), *items_of(predictor.get("volumes"))]
    pod["workerSpec"] = {**mapping(runtime.get("workerSpec")), **mapping(predictor.get("workerSpec"))}
    return pod


def _over(base: Mapping[str, Node], over: Mapping[str, Node]) -> dict[str, Node]:
    """A container with another's fields over it: lists are joined, resources key by key."""
    made = {**base, **{key: value for key, value in over.items() if value is not None}}
    for key in JOINED:
        made[key] = [*items(base.get(key)), *items(over.get(key))]
    made["resources"] = {
        kind: {**mapping(get(base, f"resources.{kind}")), **mapping(get(over, f"resources.{kind}"))}
        for kind in ("limits", "requests")
    }
    return made


def _with_workers(made: Found, workers: Mapping[str, Node], service: str = "") -> Found:
    """`workerSpec`: variables that the controller gives the containers, and over how many pods the devices are spread.

    The controller counts pods so that all of them bring tensor x pipeline parallel devices (predictor.go,
    computeRayNodeAndGPUs). What they serve is told where a service is.
    """
    if not workers:
        return made
    said = {key: text(workers.get(key)) for key in SIZES}
    told = {"MODEL_NAME": service, "MODEL_DIR": MOUNTED} if service else {}
    environment = {**{key: at(value, made.line, 1) for key, value in told.items()}, **made.environment}
    environment |= {SIZES[key][0]: value for key, value in said.items() if value is not None}
    tensor, pipeline = (integer(said[key]) or otherwise for key, (_, otherwise) in SIZES.items())
    count, counted = _workers_devices(workers)
    if not count:
        count, counted = made.hardware.count, made.hardware.counted_at
    pods = -(-tensor * pipeline // count) if count else pipeline
    hardware = replace(made.hardware, pods=pods, count=count, counted_at=counted)
    return replace(made, environment=environment, hardware=hardware)


def _workers_devices(workers: Mapping[str, Node]) -> tuple[int | None, Text | None]:
    for node in items_of(workers.get("containers")):
        for key, value in mapping(get(node, "resources.limits")).items():
            if isinstance(key, Text) and DEVICE_RESOURCES.fullmatch(key):
                return integer(value), value
    return None, None


def _without_runtime(made: Found, model: Mapping[str, Node]) -> Found:
    """A model whose runtime is in none of the files: KServe's own for its format, or an engine nobody knows."""
    wanted = text(model.get("runtime"))
    format_name = text(get(model, "modelFormat.name")) or at("", line_of(model), 1)
    engine = FORMATS.get(format_name.lower(), "")
    where = f"the runtime {wanted}" if wanted is not None else f"the runtime of the format {format_name}"
    if engine:
        return replace(made, engine=engine, assumed=(*made.assumed, f"{engine}, by the format {format_name}"))
    if made.hardware.count is None or made.image is not None:
        return made
    return replace(made, engine=UNKNOWN, missing=(*made.missing, ("engine", f"{where}, in the same tree")))


def _model(storage: Text | None, container: Container, said: Text | None) -> Text | None:
    """What a storageUri names; a variable of the container where it brings none."""
    address = storage or container.environment.get("MODEL_ID") or said
    if address is None:
        return None
    return at(model_name(address), address.line, address.column, address.style)
