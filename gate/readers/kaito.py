"""KAITO: Workspace, InferenceSet and MultiRoleInference; a preset, an instance type, how many, and vLLM's options."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from infopt.gate.config_files import arguments_of, maps_of_tree
from infopt.gate.engines import DATA
from infopt.gate.found import Argument, Found, Hardware, argument_of
from infopt.gate.nodes import Node, Text, at, get, inside, integer, text
from infopt.gate.outside import shown_path
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import containers, items_of, line_of
from infopt.gate.readers.storm import role_of
from infopt.hardware.instances import read_instance
from infopt.records import Record, read_yaml, validate_record

GROUP = "kaito.sh/"
# Where resource and inference stand in each kind.
KINDS = {"Workspace": "", "InferenceSet": "spec.template."}
ROLES = "MultiRoleInference"
FILE = "inference_config.yaml"
SIZED = "vLLM's parallel sizes are what KAITO's operator sets: tp the GPUs of a node, pp the nodes"
# What the operator gives vLLM where the ConfigMap says nothing else (source: see data/kaito.yaml).
OWN = (("--gpu-memory-utilization", "0.84"), ("--max-model-len", "-1"))
OWN_SAID = (
    "KAITO's operator gives vLLM 0.84 of the device and the longest context that fits, as its releases of today do"
)
NODES = "one node a replica: KAITO may add nodes itself, which the file does not say"


class Presets(Record):
    """See data/kaito.yaml."""

    presets: dict[str, str]
    source: str


def recognises(document: Node) -> bool:
    """Whether the object serves a model by KAITO (a RAGEngine calls one that is served elsewhere)."""
    return str(get(document, "apiVersion")).startswith(GROUP) and get(document, "kind") in (*KINDS, ROLES)


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """What the operator would start."""
    kind = str(get(document, "kind"))
    name = str(text(get(document, "metadata.name")) or kind)
    if kind == ROLES:
        yield from _roles(document, name, outside)
        return
    prefix = KINDS[kind]
    resource, inference = get(document, f"{prefix}resource"), get(document, f"{prefix}inference")
    replicas = integer(get(document, "spec.replicas")) if prefix else 1
    replicas = 1 if replicas is None else replicas
    template = get(inference, "template.spec")
    if isinstance(template, dict):
        for container in containers(template, f"{prefix}inference.template.spec", outside):
            own = found(container, name, kind, replicas=replicas)
            yield replace(own, hardware=_hardware(resource, own.hardware, replicas))
        return
    preset = text(get(inference, "preset.name"))
    if preset is not None:
        line = line_of(document)
        yield _preset(name, kind, line, preset, resource, text(get(inference, "config")), replicas, outside)


def _roles(document: Node, name: str, outside: Mapping[str, Text]) -> Iterator[Found]:
    """A deployment for each role, all of the same model."""
    model = text(get(document, "spec.model.name"))
    for role in items_of(get(document, "spec.roles")):
        named = str(text(get(role, "type")) or "role")
        count = integer(get(role, "replicas"))
        config = text(get(role, "config")) or text(get(document, "spec.config"))
        if model is None:
            continue
        made = _preset(
            f"{name}-{named}", ROLES, line_of(role), model, role, config, 1 if count is None else count, outside
        )
        yield replace(made, role=role_of(named), assumed=(*made.assumed, NODES))


def _preset(
    name: str,
    kind: str,
    line: int,
    preset: Text,
    resource: Node,
    config: Text | None,
    replicas: int,
    outside: Mapping[str, Text],
) -> Found:
    """vLLM as the operator starts it for a preset; options of the ConfigMap come last and win."""
    hardware = _hardware(resource, Hardware(), replicas)
    of_file, missing = _options(config, outside)
    own = [argument_of(flag, at(value, preset.line, preset.column), "preset") for flag, value in OWN]
    sized = (SIZED,) if hardware.count is not None and hardware.count * hardware.pods > 1 else ()
    return Found(
        name=name,
        form=f"KAITO {kind}",
        line=line,
        engine="vllm",
        model=model_of(preset),
        added=(*_parallel(hardware, preset), *own, *of_file),
        hardware=hardware,
        missing=(*missing, ("engine version", "the operator's base image")),
        assumed=(*sized, OWN_SAID),
    )


def model_of(preset: Text) -> Text:
    """The model of a preset; a name of the hub is its own.

    >>> model_of(at("mistral-7b", 1, 1))
    'mistralai/Mistral-7B-v0.3'
    """
    known = _presets().get(preset.strip().lower(), str(preset))
    return at(known, preset.line, preset.column, preset.style)


@cache
def _presets() -> dict[str, str]:
    return validate_record(Presets, read_yaml(DATA / "kaito.yaml"), "kaito.yaml").presets


def _hardware(resource: Node, own: Hardware, replicas: int) -> Hardware:
    """Devices by the instance type and the number of nodes."""
    kind = text(get(resource, "instanceType"))
    nodes = integer(get(resource, "count")) or 1
    if kind is None:
        return replace(own, pods=nodes, replicas=replicas)
    instance = read_instance(kind)
    return replace(
        own,
        count=instance.gpus if instance is not None else own.count,
        counted_at=kind if instance is not None else own.counted_at,
        named=(("instanceType", kind), *own.named),
        pods=nodes,
        replicas=replicas,
    )


def _parallel(hardware: Hardware, preset: Text) -> Iterator[Argument]:
    """The sizes the operator sets, shown where the instance type stands."""
    where = hardware.counted_at or preset
    sizes = (("--tensor-parallel-size", hardware.count), ("--pipeline-parallel-size", hardware.pods))
    for flag, size in sizes:
        if size is not None and size > 1:
            yield argument_of(flag, at(str(size), where.line, where.column), "resource")


def _options(config: Text | None, outside: Mapping[str, Text]) -> tuple[list[Argument], tuple[tuple[str, str], ...]]:
    """Options under `vllm:` of the ConfigMap that is named."""
    if config is None:
        return [], ()
    key = f"{config}/{FILE}"
    content = outside.get(key)
    elsewhere = maps_of_tree(outside).get(key) if content is None else None
    said = content if content is not None else elsewhere
    if said is None:
        return [], ((f"ConfigMap {config}", f"its {FILE} is not among these files"),)
    read = inside(said, f"ConfigMap {key}" if elsewhere else shown_path(outside, f"ConfigMap {key}"))
    found = arguments_of("vllm", None, get(read[0], "vllm") if read else None, f"ConfigMap {config}")
    # Lines of another file are not shown: the reference stands for them.
    return [replace(one, line=config.line, column=config.column) for one in found] if elsewhere else found, ()
