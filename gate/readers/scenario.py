"""llm-d-benchmark scenarios: `scenario[]` with a model, `decode` and `prefill` of modelservice, or `standalone`.

A scenario is laid over `shared` of its file (llm-d-benchmark pull request 1029), and that over the benchmark's own
defaults, which are another file: what neither the scenario nor its command says stays unknown.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from infopt.gate.found import Argument, Found, Hardware, Host, argument_of, switch_of
from infopt.gate.nodes import Node, Text, boolean, get, integer, mapping, text
from infopt.gate.readers.modelservice import Sizes
from infopt.gate.readers.pods import (
    DEVICE_RESOURCES,
    device_names,
    host,
    items_of,
    line_of,
    quantity_bytes,
    substituted,
    variables,
)
from infopt.gate.readers.production_stack import image_of

ROLES = {"decode": "decode", "prefill": "prefill", "standalone": ""}
# Variables of every serving container (llm-d-benchmark@0183049 config/templates/jinja/_macros.j2).
VARIABLES = {
    "MODEL_NAME": ("model.name",),
    "MODEL_PATH": ("model.path",),
    "VLLM_BLOCK_SIZE": ("model.blockSize", "vllmCommon.blockSize"),
    "VLLM_MAX_MODEL_LEN": ("model.maxModelLen", "vllmCommon.maxModelLen"),
    "VLLM_ACCELERATOR_MEM_UTIL": ("model.gpuMemoryUtilization", "vllmCommon.gpuMemoryUtilization"),
    "VLLM_MAX_NUM_SEQ": ("model.maxNumSeq", "vllmCommon.maxNumSeq"),
    "VLLM_MAX_NUM_BATCHED_TOKENS": ("model.maxNumBatchedTokens", "vllmCommon.maxNumBatchedTokens"),
    "VLLM_LOAD_FORMAT": ("vllmCommon.loadFormat",),
}
# The command the benchmark writes where a scenario brings none (same file).
OPTIONS = {
    "VLLM_BLOCK_SIZE": "--block-size",
    "VLLM_MAX_MODEL_LEN": "--max-model-len",
    "VLLM_ACCELERATOR_MEM_UTIL": "--gpu-memory-utilization",
    "VLLM_TENSOR_PARALLELISM": "--tensor-parallel-size",
}
SWITCHES = {
    "enforceEager": "--enforce-eager",
    "noPrefixCaching": "--no-enable-prefix-caching",
    "enablePrefixCaching": "--enable-prefix-caching",
}
# What the plan puts in for the accelerator it finds: nothing that a scenario says.
OF_ACCELERATOR = re.compile(r"\$\{accelerator\.[A-Za-z]+\}")


def recognises(document: Node) -> bool:
    """Whether the document is a list of scenarios, each with a model or a way to serve it."""
    return "apiVersion" not in mapping(document) and any(True for _ in _scenarios(document))


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """Every role that a scenario serves with; one deployed by kustomize says nothing here."""
    for layers, name, path in _scenarios(document):
        if boolean(_first(layers, "kustomize.enabled")):
            continue
        alone = boolean(_first(layers, "standalone.enabled")) is True
        for role in ("standalone",) if alone else ("decode", "prefill"):
            section = _section(layers, role)
            if section and boolean(section.get("enabled")) is not False and integer(section.get("replicas")) != 0:
                yield _found(layers, name, path, role, section, outside)


def _scenarios(document: Node) -> Iterator[tuple[Sequence[Mapping[str, Node]], str, str]]:
    """(layers, the most telling first; name; path) of every scenario; `shared` lies under all of them."""
    shared = mapping(get(document, "shared"))
    for position, node in enumerate(items_of(get(document, "scenario"))):
        scenario = _over(mapping(node), shared)
        layers = [mapping(scenario.get("modelservice")), scenario, mapping(scenario.get("common"))]
        if _first(layers, "model.name") is not None or any(_section(layers, role) for role in ROLES):
            yield layers, str(text(scenario.get("name")) or "scenario"), f"scenario[{position}]"


def _over(own: Mapping[str, Node], under: Mapping[str, Node]) -> dict[str, Node]:
    """Two mappings, the first over the second, section by section."""
    merged: dict[str, Node] = dict(under)
    for key, value in own.items():
        beneath = merged.get(key)
        both = isinstance(value, dict) and isinstance(beneath, dict)
        merged[key] = _over(mapping(value), mapping(beneath)) if both else value
    return merged


def _first(layers: Sequence[Mapping[str, Node]], *paths: str) -> Text | None:
    """The first layer's scalar at the first path that has one."""
    found = (text(get(layer, path)) for path in paths for layer in layers)
    return next((value for value in found if value is not None), None)


def _section(layers: Sequence[Mapping[str, Node]], name: str) -> dict[str, Node]:
    """A mapping of all layers, the most telling over the rest."""
    merged: dict[str, Node] = {}
    for layer in reversed(layers):
        merged |= mapping(layer.get(name))
    return merged


def _found(
    layers: Sequence[Mapping[str, Node]],
    name: str,
    path: str,
    role: str,
    section: Mapping[str, Node],
    outside: Mapping[str, Text],
) -> Found:
    sizes = Sizes(mapping(section.get("parallelism")))
    own, hidden = variables({"env": section.get("extraEnvVars")}, outside)
    environment = {**sizes.variables(), **_variables(layers, sizes), **own}
    command = text(get(section, "vllm.customCommand"))
    arguments, added = _command(layers, section, command, environment, f"{path}.{role}")
    image = _section(layers, "images").get("vllm") if role != "standalone" else section.get("image")
    replicas = integer(section.get("replicas"))
    assumed = "what the plan adds for the accelerator it finds is not in the file: ${accelerator...} left out"
    return Found(
        name=f"{name}-{role}",
        form="llm-d-benchmark scenario",
        line=command.line if command is not None else line_of(section),
        image=image_of(mapping(image)),
        arguments=arguments,
        added=added,
        environment=environment,
        model=_first(layers, "model.huggingfaceId", "model.name"),
        engine="" if command is not None else "vllm",
        hardware=replace(_hardware(layers, section, sizes), replicas=1 if replicas is None else replicas),
        host=_host(layers, section),
        role=ROLES[role],
        missing=tuple((f"variable {known}", "a secret or field of the cluster") for known in hidden),
        assumed=(assumed,) if command is not None and OF_ACCELERATOR.search(command) else (),
    )


def _variables(layers: Sequence[Mapping[str, Node]], sizes: Sizes) -> dict[str, Text]:
    found = {name: value for name, paths in VARIABLES.items() if (value := _first(layers, *paths)) is not None}
    return {**found, "VLLM_TENSOR_PARALLELISM": sizes.variables()["TP_SIZE"]}


def _command(
    layers: Sequence[Mapping[str, Node]],
    section: Mapping[str, Node],
    command: Text | None,
    environment: Mapping[str, Text],
    path: str,
) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
    """The scenario's own shell text, or the options that the benchmark's own command has."""
    if command is not None:
        line, column = command.within(0)
        # Blanks keep what follows in its column.
        script = OF_ACCELERATOR.sub(lambda match: " " * len(match[0]), command)
        shell = (Argument(word, line, column, f"{path}.vllm.customCommand") for word in ("/bin/sh", "-c", script))
        return tuple(substituted(word, environment) for word in shell), ()
    added = [argument_of(option, environment[name], path) for name, option in OPTIONS.items() if name in environment]
    flags = _section([mapping(layer.get("vllmCommon")) for layer in layers], "flags")
    switched = ((option, text(flags.get(key)), key) for key, option in SWITCHES.items())
    added += [switch_of(o, v, f"vllmCommon.flags.{key}") for o, v, key in switched if v is not None and boolean(v)]
    extra = items_of(get(section, "vllm.additionalFlags"))
    flagged = (_split(flag, f"{path}.vllm.additionalFlags") for flag in extra if isinstance(flag, Text))
    return (), (*added, *(word for words in flagged for word in words))


def _split(flag: Text, path: str) -> Iterator[Argument]:
    """`--option value` as it is written into a shell line."""
    for match in re.finditer(r"\S+", flag):
        line, column = flag.within(match.start())
        yield Argument(match[0], line, column, path)


def _hardware(layers: Sequence[Mapping[str, Node]], section: Mapping[str, Node], sizes: Sizes) -> Hardware:
    """Devices a pod as its limits say, else tensor x dataLocal; the kind where a label is spelt out, not `auto`."""
    named = _labels(layers, section)
    for key, value in mapping(get(section, "resources.limits")).items():
        if isinstance(key, Text) and DEVICE_RESOURCES.fullmatch(key) and (count := integer(value)) is not None:
            return Hardware(count, value, str(key), named)
    asked = text(get(section, "accelerator.count")) or _first(layers, "accelerator.count")
    count = integer(asked)
    if count is None:
        asked, count = text(sizes.said.get("tensor")), sizes.tensor * sizes.local
    pods = sizes.workers if boolean(_first(layers, "multinode.enabled")) else 1
    return Hardware(count, asked, "nvidia.com/gpu", named, pods=pods)


def _labels(layers: Sequence[Mapping[str, Node]], section: Mapping[str, Node]) -> tuple[tuple[str, Text], ...]:
    affinity = _section(layers, "affinity")
    selector = mapping(affinity.get("nodeSelector")) if boolean(affinity.get("enabled")) else {}
    found = device_names({"nodeSelector": {**selector, **mapping(section.get("nodeSelector"))}})
    kind = mapping(section.get("acceleratorType"))
    key, value = text(kind.get("labelKey")), text(kind.get("labelValue"))
    values = items_of(kind.get("labelValues"))
    value = text(values[0]) if len(values) == 1 else value
    of_kind = ((str(key), value),) if key is not None and value is not None else ()
    return tuple((label, said) for label, said in (*of_kind, *found) if said != "auto")


def _host(layers: Sequence[Mapping[str, Node]], section: Mapping[str, Node]) -> Host:
    """Memory and /dev/shm: volumes of all servers and the role's own, or the role's `shm.size`."""
    common = _section(layers, "vllmCommon")
    volumes, mounts = (
        [*items_of(common.get(kind)), *items_of(section.get(f"additional{kind[0].upper()}{kind[1:]}"))]
        for kind in ("volumes", "volumeMounts")
    )
    made = host({"volumes": volumes}, {"resources": section.get("resources"), "volumeMounts": mounts})
    return (
        made if made.shm_bytes is not None else replace(made, shm_bytes=quantity_bytes(text(get(section, "shm.size"))))
    )
