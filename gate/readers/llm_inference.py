"""KServe `LLMInferenceService`: a model and one workload, with `prefill` two.

The controller's own template starts `vllm serve` on what `model.uri` names; the file adds parallelism, arguments of the
container `main` and VLLM_ADDITIONAL_ARGS. A template of its own command is read as it stands.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from infopt.gate.addresses import model_name, served
from infopt.gate.config_files import plain_value
from infopt.gate.found import Argument, Found, argument_of, switch_of
from infopt.gate.nodes import Node, Text, at, boolean, get, integer, mapping, text
from infopt.gate.readers.kubernetes import found
from infopt.gate.readers.pods import Container, containers, items_of, line_of, quantity_bytes
from infopt.gate.shell import split

KIND, MAIN = "LLMInferenceService", "main"
PARALLEL = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "data": "--data-parallel-size",
    "dataLocal": "--data-parallel-size-local",
}
LORA = {"maxRank": "--max-lora-rank", "maxAdapters": "--max-loras", "maxCpuAdapters": "--max-cpu-loras"}
MORE = "VLLM_ADDITIONAL_ARGS"


def recognises(document: Node) -> bool:
    """Whether the document is such a service."""
    return str(get(document, "apiVersion")).startswith("serving.kserve.io/") and get(document, "kind") == KIND


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """The main workload (decode, where there is a prefill one) and the prefill workload."""
    spec = mapping(get(document, "spec"))
    name = str(text(get(document, "metadata.name")) or KIND)
    prefill = mapping(spec.get("prefill"))
    yield _workload(spec, spec, "spec", name, "decode" if prefill else "", outside)
    if prefill:
        yield _workload(spec, prefill, "spec.prefill", f"{name}-prefill", "prefill", outside)


def _workload(
    spec: Mapping[str, Node], workload: Mapping[str, Node], path: str, name: str, role: str, outside: Mapping[str, Text]
) -> Found:
    pod = mapping(workload.get("template")) or mapping(workload.get("worker"))
    main = _main(pod, path, outside, line_of(workload))
    replicas = integer(workload.get("replicas"))
    replicas = integer(get(workload, "scaling.minReplicas")) if replicas is None else replicas
    made = found(main, name, KIND, replicas=1 if replicas is None else replicas, pods=_pods(workload))
    model, assumed = served(text(get(spec, "model.uri")), text(get(spec, "model.name")))
    own = bool(main.arguments) and not main.arguments[0].text.startswith("-")
    added = (*_options(workload, path), *_lora(spec), *_draft(spec), *_offloading(spec, workload, path), *_more(main))
    return replace(
        made,
        added=() if own else added,
        model=model,
        engine="" if own else "vllm",
        role=role,
        assumed=(*assumed, *_bases(spec)),
    )


def _main(pod: Mapping[str, Node], path: str, outside: Mapping[str, Text], line: int) -> Container:
    """The container `main`, else the first; an empty one where the template has none."""
    known = list(containers(pod, f"{path}.template", outside))
    named = next((one for one in known if one.name == MAIN), None)
    empty = {"containers": [{"name": at(MAIN, line, 1)}]}
    return named or (known[0] if known else next(containers({**pod, **empty}, path, outside)))


def _options(workload: Mapping[str, Node], path: str) -> Iterator[Argument]:
    said = mapping(workload.get("parallelism"))
    for key, option in PARALLEL.items():
        if (value := text(said.get(key))) is not None:
            yield argument_of(option, value, f"{path}.parallelism.{key}")
    expert = text(said.get("expert"))
    if expert is not None and boolean(expert):
        yield switch_of("--enable-expert-parallel", expert, f"{path}.parallelism.expert")


def _lora(spec: Mapping[str, Node]) -> Iterator[Argument]:
    """Adapters load at start; what is not said of them is their number."""
    lora = mapping(get(spec, "model.lora"))
    adapters = items_of(lora.get("adapters"))
    first = next((key for key in lora if isinstance(key, Text)), None)
    if not adapters or first is None:
        return
    yield switch_of("--enable-lora", first, "spec.model.lora")
    for key, option in LORA.items():
        value = text(lora.get(key))
        if value is None and key != "maxRank":
            value = at(str(len(adapters)), first.line, first.column)
        if value is not None:
            yield argument_of(option, value, f"spec.model.lora.{key}")


def _draft(spec: Mapping[str, Node]) -> Iterator[Argument]:
    """`speculator`: a draft and its configuration, which the controller makes one option of."""
    said = mapping(spec.get("speculator"))
    address = text(get(said, "model.uri"))
    first = next((key for key in said if isinstance(key, Text)), None)
    config = plain_value(
        {key: at(str(value), value.line, value.column) for key, value in mapping(said.get("config")).items()
         if isinstance(value, Text)}
    )  # fmt: skip
    if first is not None and isinstance(config, dict) and (config or address is not None):
        whole = {**({} if address is None else {"model": model_name(address)}), **config}
        yield argument_of("--speculative-config", at(json.dumps(whole), first.line, first.column), "spec.speculator")


def _offloading(spec: Mapping[str, Node], workload: Mapping[str, Node], path: str) -> Iterator[Argument]:
    """`kvCacheOffloading.cpu`: bytes of the host that hold what leaves the device."""
    places = (
        get(workload, "kvCacheOffloading"),
        get(workload, "workload.kvCacheOffloading"),
        get(spec, "kvCacheOffloading"),
    )
    said = text(get(next((place for place in places if isinstance(place, dict)), None), "cpu"))
    size = quantity_bytes(said)
    if said is not None and size is not None:
        config = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
                  "kv_connector_extra_config": {"cpu_bytes_to_use": size}}  # fmt: skip
        yield argument_of(
            "--kv-transfer-config", at(json.dumps(config), said.line, said.column), f"{path}.kvCacheOffloading.cpu"
        )


def _more(main: Container) -> Iterator[Argument]:
    """VLLM_ADDITIONAL_ARGS, which the controller's command puts before the container's own arguments."""
    said = main.environment.get(MORE)
    for word in split(said) if said is not None else ():
        line, column = said.within(word.offset) if said is not None else (1, 1)
        yield Argument(word.text, line, column, f"env {MORE}")


def _pods(workload: Mapping[str, Node]) -> int:
    """Pods of a group: stages, or data parallel ranks over those of one pod; one without a `worker`."""
    if not isinstance(workload.get("worker"), dict):
        return 1
    sizes = {key: integer(get(workload, f"parallelism.{key}")) or 1 for key in PARALLEL}
    return max(1, sizes["pipeline"], sizes["data"] // sizes["dataLocal"])


def _bases(spec: Mapping[str, Node]) -> tuple[str, ...]:
    names = [str(name) for one in items_of(spec.get("baseRefs")) if (name := text(get(one, "name"))) is not None]
    return (f"what {', '.join(names)} adds is not read",) if names else ()
