"""Values of the vLLM production-stack chart: `servingEngineSpec.modelSpec[]`, one deployment an entry."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from infopt.gate.engines import DATA
from infopt.gate.found import Argument, Found, Hardware, Host, argument_of, switch_of
from infopt.gate.nodes import Node, Text, at, boolean, get, integer, mapping, text
from infopt.gate.readers.helm import Key, charts, options_of
from infopt.gate.readers.pods import command_line, device_names, items_of, line_of, quantity_bytes, variables
from infopt.records import Record, read_yaml, validate_record

ROLES = {"kv_producer": "prefill", "kv_consumer": "decode"}


class Chart(Record):
    """What the chart makes of its keys; see data/production_stack.yaml."""

    source: str
    model: dict[str, Key]
    engine: dict[str, Key]
    ray: dict[str, Key]
    shm: str


@cache
def chart() -> Chart:
    """The chart's data."""
    return validate_record(Chart, read_yaml(DATA / "production_stack.yaml"), "production_stack.yaml")


def recognises(document: Node) -> bool:
    """Whether the document is values of this chart."""
    return any(charts(document, _reads))


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """Every entry of modelSpec."""
    for values in charts(document, _reads):
        specs = items_of(get(values.values, "servingEngineSpec.modelSpec"))
        for position, spec in enumerate(specs):
            if isinstance(spec, dict):
                yield _found(spec, f"{values.path}servingEngineSpec.modelSpec[{position}]", outside)


def _reads(values: Mapping[str, Node]) -> bool:
    return isinstance(get(values, "servingEngineSpec.modelSpec"), list)


def _found(spec: Mapping[str, Node], path: str, outside: Mapping[str, Text]) -> Found:
    environment, hidden = variables(spec, outside)
    cache_config, engine_config = mapping(spec.get("lmcacheConfig")), mapping(spec.get("vllmConfig"))
    if boolean(engine_config.get("v0")) or integer(engine_config.get("v0")) == 1:
        environment["VLLM_USE_V1"] = at("0", engine_config["v0"].line, engine_config["v0"].column)
    buffer = text(cache_config.get("cpuOffloadingBufferSize"))
    if buffer is not None and boolean(cache_config.get("enabled")):
        environment["LMCACHE_MAX_LOCAL_CPU_SIZE"] = buffer
    extra = {"args": engine_config.get("extraArgs")}
    return Found(
        name=str(text(spec.get("name")) or "modelSpec"),
        form="production-stack values",
        line=line_of(spec),
        image=image_of(spec),
        arguments=tuple(replace(word, path=_extra_path(word, path)) for word in command_line(extra, "")),
        added=(*_options(spec, engine_config, path), *_transfer(cache_config, path)),
        environment=environment,
        model=text(spec.get("modelURL")),
        engine="vllm",
        hardware=_hardware(spec, cache_config),
        host=_host(spec, engine_config, cache_config),
        role=ROLES.get(str(text(cache_config.get("kvRole"))), ""),
        missing=tuple((f"variable {name}", "a secret or field of the cluster") for name in hidden),
    )


def image_of(spec: Mapping[str, Node]) -> Text | None:
    """`repository` and `tag` as one image, where the tag stands (the repository, where there is no tag)."""
    repository, tag = text(spec.get("repository")), text(spec.get("tag"))
    if repository is None or not tag:
        return repository
    return at(f"{repository}:{tag}", tag.line, tag.column, tag.style)


def _extra_path(word: Argument, path: str) -> str:
    return f"{path}.vllmConfig.extraArgs{word.path.removeprefix('.args')}"


def _options(spec: Mapping[str, Node], engine: Mapping[str, Node], path: str) -> Iterator[Argument]:
    yield from options_of(spec, chart().model, path)
    rayed = _rayed(spec)
    keys = chart().engine | (chart().ray if rayed else {})
    yield from options_of(engine, keys, f"{path}.vllmConfig")
    first = next((key for key in engine if isinstance(key, Text)), None)
    if first is not None and not rayed and "enablePrefixCaching" not in engine:
        # The chart says off where the key is absent.
        yield switch_of("--no-enable-prefix-caching", first, f"{path}.vllmConfig")


def _transfer(config: Mapping[str, Node], path: str) -> Iterator[Argument]:
    enabled = text(config.get("enabled"))
    if boolean(enabled):
        role = text(config.get("kvRole")) or "kv_both"
        said = f'{{"kv_connector":"LMCacheConnectorV1","kv_role":"{role}"}}'
        at_key = at(said, enabled.line, enabled.column) if enabled is not None else at(said, 1, 1)
        yield argument_of("--kv-transfer-config", at_key, f"{path}.lmcacheConfig")


def _rayed(spec: Mapping[str, Node]) -> bool:
    return "raySpec" in spec and boolean(get(spec, "raySpec.enabled")) is not False


def _hardware(spec: Mapping[str, Node], config: Mapping[str, Node]) -> Hardware:
    """requestGPU devices a pod, on a node the terms name; with Ray, a head and its workers are one group."""
    counted, kind = text(spec.get("requestGPU")), text(spec.get("requestGPUType"))
    count = integer(counted)
    if count is None and (visible := text(config.get("cudaVisibleDevices"))):
        # Nothing is requested: the pod sees the node's devices, and takes these.
        count, counted = len([part for part in visible.split(",") if part.strip()]), visible
    terms = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": spec.get("nodeSelectorTerms")}}}  # fmt: skip
    affinity = spec["affinity"] if isinstance(spec.get("affinity"), dict) else terms
    named = device_names({"nodeSelector": spec.get("nodeSelector"), "affinity": affinity})
    if kind is not None and "mig-" in kind:
        named = ((str(kind), kind), *named)
    replicas = integer(spec.get("replicaCount"))
    replicas = 1 if replicas is None else replicas
    hardware = Hardware(count, counted, str(kind or "nvidia.com/gpu"), named, replicas=replicas)
    if not _rayed(spec):
        return hardware
    head = integer(get(spec, "raySpec.headNode.requestGPU")) or 0
    if count is None or head in (0, count):
        return replace(hardware, pods=max(1, replicas + (1 if head else 0)), replicas=1)
    return replace(hardware, count=head + replicas * count, replicas=1)


def _host(spec: Mapping[str, Node], engine: Mapping[str, Node], config: Mapping[str, Node]) -> Host:
    memory = text(spec.get("limitMemory"))
    shm = text(spec.get("shmSize")) or chart().shm
    return Host(
        memory_bytes=quantity_bytes(memory),
        memory_at=memory,
        shm_bytes=quantity_bytes(shm) if "tensorParallelSize" in engine else None,
        shares_ipc=boolean(config.get("enablePD")) is True,
        stated=True,
    )
